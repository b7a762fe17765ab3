"""Lists: their order, pages, cursors, what may change between two pages, and what is kept of them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield import Client, Context, ProtocolError, RegistrationError, Server
from jackfield.protocol.types import ListToolsResult, Tool
from jackfield.server.listing import Listing, page_of
from tests.server.talk import LEGACY, MODERN, REVISIONS, Refused, Talk, talking


class Entry:
    def __init__(self, name: str, **members: Any) -> None:
        self.definition = Tool(name, {"type": "object"}, **members)


def listing(*names: str) -> Listing[Entry]:
    found: Listing[Entry] = Listing("tool", lambda: None)
    for name in names:
        found.add(name, Entry(name))
    return found


def names(page: tuple[list[Entry], str | None]) -> list[str]:
    return [entry.definition.name for entry in page[0]]


def do_nothing() -> None:
    """Nothing."""


def server_with(count: int, page_size: int | None) -> Server:
    server = Server("lists", page_size=page_size)
    for n in range(count):
        server.add_tool(do_nothing, name=f"t{n}")
        server.add_resource(f"x://{n}", do_nothing)
        server.add_resource(f"x{n}://{{a}}", lambda a: a)
        server.add_prompt(do_nothing, name=f"p{n}")
    return server


METHODS = {
    "tools/list": ("tools", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
    "prompts/list": ("prompts", "name"),
}


async def pages(talk: Talk, method: str) -> list[list[str]]:
    member, key = METHODS[method]
    found, cursor = [], None
    while True:
        page = await talk.ask(method, {} if cursor is None else {"cursor": cursor})
        found.append([item[key] for item in page[member]])
        if "nextCursor" not in page:
            return found
        cursor = page["nextCursor"]


class TestPages:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    async def test_all_four_lists_come_in_pages(self, method: str, revision: str) -> None:
        """Seven items at three a page are three pages in order of registration, the last without a cursor (PAG-1,
        TOOL-1).
        """
        async with talking(server_with(7, 3), revision) as talk:
            found = await pages(talk, method)
            assert [len(page) for page in found] == [3, 3, 1]
            flat = [item for page in found for item in page]
            assert flat == [flat[0].replace("0", str(n)) for n in range(7)]
            assert await pages(talk, method) == found

    @pytest.mark.parametrize("method", METHODS)
    async def test_a_full_last_page_has_no_cursor(self, method: str) -> None:
        """Six items at three a page are two pages, and without a page size there is one."""
        async with talking(server_with(6, 3)) as talk:
            assert [len(page) for page in await pages(talk, method)] == [3, 3]
        async with talking(server_with(6, None)) as talk:
            assert [len(page) for page in await pages(talk, method)] == [6]

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize(
        "cursor", ["", "x", "é", "====", "MQ", "MQ=", "MQ==\n", "LTE=", "MA==", "MDE=", "OTk5", "dDI=", "+/+/", "MR=="]
    )
    async def test_an_invalid_cursor_is_invalid_params(self, method: str, cursor: str) -> None:
        """A cursor that the server did not make is -32602, the empty one too: it is a cursor (PAG-2, PAG-3)."""
        async with talking(server_with(3, 1)) as talk:
            with pytest.raises(Refused, match="the cursor is not valid") as caught:
                await talk.ask(method, {"cursor": cursor})
            assert caught.value.code == -32602

    @pytest.mark.parametrize("cursor", [1, [], {}, True])
    async def test_a_cursor_that_is_no_text_is_invalid_params(self, cursor: Any) -> None:
        """A cursor of another type is -32602; null is none (PAG-2)."""
        async with talking(server_with(3, 1)) as talk:
            with pytest.raises(Refused, match="cursor") as caught:
                await talk.ask("tools/list", {"cursor": cursor})
            assert caught.value.code == -32602
            assert [tool["name"] for tool in (await talk.ask("tools/list", {"cursor": None}))["tools"]] == ["t0"]

    async def test_every_page_has_the_same_scope(self) -> None:
        """All pages of a list say the same cache scope: public where everybody sees the same (CCH-6, CCH-1)."""
        async with talking(server_with(3, 1)) as talk:
            for method in METHODS:
                first = await talk.ask(method)
                second = await talk.ask(method, {"cursor": first["nextCursor"]})
                assert [(page["cacheScope"], page["ttlMs"]) for page in (first, second)] == [("public", 0)] * 2

    @pytest.mark.parametrize("revision", LEGACY)
    async def test_legacy_lists_carry_nothing_of_the_modern_era(self, revision: str) -> None:
        """Legacy pages have items and a cursor, no result type, hints or identity (RES-5)."""
        async with talking(server_with(3, 2), revision) as talk:
            for method, (member, _) in METHODS.items():
                assert (await talk.ask(method)).keys() == {member, "nextCursor"}

    async def test_the_client_reads_every_page(self) -> None:
        """`list_*` of the client gives the items of all pages (F78)."""
        async with Client(server_with(7, 2)) as client:
            assert [tool.name for tool in await client.list_tools()] == [f"t{n}" for n in range(7)]
            assert len(await client.list_resources()) == 7
            assert len(await client.list_resource_templates()) == 7
            assert len(await client.list_prompts()) == 7

    async def test_lists_do_not_depend_on_the_connection(self) -> None:
        """A cursor that was given to one conversation continues in another (STATE-2, PAG-3)."""
        server = server_with(4, 2)
        async with talking(server) as one, talking(server) as other:
            cursor = (await one.ask("tools/list"))["nextCursor"]
            assert [tool["name"] for tool in (await other.ask("tools/list", {"cursor": cursor}))["tools"]] == [
                "t2",
                "t3",
            ]


class TestChanges:
    def test_additions_between_pages_come_last(self) -> None:
        """What is added after the first page stands on a later one; nothing is lost or doubled (PAG-3)."""
        found = listing("a", "b", "c")
        first = found.page(None, 2)
        found.add("d", Entry("d"))
        assert names(first) == ["a", "b"]
        assert names(found.page(first[1], 2)) == ["c", "d"]

    def test_removals_between_pages_cost_nothing_else(self) -> None:
        """The cursor stays good when its own item, an earlier or a later one goes (PAG-3)."""
        for gone, rest in (("a", ["c", "d"]), ("b", ["c", "d"]), ("c", ["d"])):
            found = listing("a", "b", "c", "d")
            cursor = found.page(None, 2)[1]
            found.remove(gone)
            assert names(found.page(cursor, 2)) == rest

    def test_an_item_that_was_replaced_is_a_new_one(self) -> None:
        """An item that is removed and added again stands at the end, and the list goes on where it was (PAG-3)."""
        found = listing("a", "b", "c")
        cursor = found.page(None, 2)[1]
        found.remove("b")
        found.add("b", Entry("b"))
        assert names(found.page(cursor, 2)) == ["c", "b"]

    def test_when_nothing_is_left_the_page_is_empty(self) -> None:
        """A cursor whose rest is gone gives an empty last page."""
        found = listing("a", "b")
        cursor = found.page(None, 1)[1]
        found.remove("b")
        assert found.page(cursor, 1) == ([], None)

    @given(st.data())
    def test_whatever_changes_each_survivor_is_listed_once(self, data: st.DataObject) -> None:
        """Items that are there from the first page to the last are listed exactly once, in order (PAG-3)."""
        found = listing(*"abcdefgh")
        gone: set[str] = set()
        seen: list[str] = []
        cursor, size = None, data.draw(st.integers(1, 4))
        while True:
            page = found.page(cursor, size)
            seen += names(page)
            cursor = page[1]
            if cursor is None:
                break
            for name in data.draw(st.sets(st.sampled_from(sorted(found.entries) or ["a"]), max_size=2)):
                if name in found.entries:
                    gone.add(name)
                    found.remove(name)
                    if data.draw(st.booleans()):
                        found.add(name, Entry(name))
        assert [name for name in seen if name not in gone] == [name for name in "abcdefgh" if name not in gone]

    @given(st.text(max_size=20))
    def test_no_text_breaks_a_list(self, cursor: str) -> None:
        """Any cursor gives a page or the error for an invalid one (PAG-3)."""
        found = listing("a", "b", "c")
        for ask in (lambda: found.page(cursor, 1), lambda: page_of([("a", 1), ("b", 2)], cursor, 1)):
            code = None
            try:
                page, _ = ask()
            except ProtocolError as error:
                code = error.code
            assert code == -32602 if code else len(page) < 2

    def test_only_the_exact_cursor_is_one(self) -> None:
        """Another spelling of a good cursor is none: each would be one more page to keep."""
        found = listing("a", "b", "c")
        assert names(found.page(base64.urlsafe_b64encode(b"2").decode(), 1)) == ["c"]
        for other in (b"02", b"+2", "２".encode(), b"2 "):
            with pytest.raises(ProtocolError):
                found.page(base64.urlsafe_b64encode(other).decode(), 1)


class TestRegistration:
    def test_a_taken_name_is_refused(self) -> None:
        """Two of one name are an error that names it and says what to do."""
        with pytest.raises(
            RegistrationError, match="tool 'a' is registered already; remove it first or choose another"
        ):
            listing("a", "a")

    def test_what_is_not_there_cannot_be_removed(self) -> None:
        """Removing an unknown name is a KeyError that names it."""
        with pytest.raises(KeyError, match="no tool 'b'"):
            listing("a").remove("b")

    @pytest.mark.parametrize(
        ("members", "fault"),
        [
            ({"title": 5}, r"\$.title"),
            ({"icons": ["icon.png"]}, r"\$.icons\[0\]"),
            ({"meta": {"when": object()}}, "object"),
            ({"description": "\ud800"}, "surrogates"),
            ({"meta": {"deep": []}}, None),
        ],
    )
    def test_a_definition_that_cannot_be_sent_is_refused(self, members: dict[str, Any], fault: str | None) -> None:
        """A wrong type, or what is no JSON, is told at registration, with the place, not in a list that fails for
        all.
        """
        found = listing()
        if fault is None:
            found.add("a", Entry("a", **members))
            return
        with pytest.raises(RegistrationError, match=f"tool 'a' cannot be sent as written: .*{fault}"):
            found.add("a", Entry("a", **members))
        assert not found.entries


class TestEncoded:
    def test_a_page_is_made_once_until_something_changes(self) -> None:
        """The very same bytes are given out again, for each revision and cursor, until the list changes."""
        found = listing("a")
        made = []

        def make() -> ListToolsResult:
            made.append(1)
            return ListToolsResult([])

        first = found.encoded(MODERN, None, make)
        assert found.encoded(MODERN, None, make) is first
        assert found.encoded(LEGACY[0], None, make) is not first
        assert len(made) == 2
        found.add("b", Entry("b"))
        assert found.encoded(MODERN, None, make) is not first
        found.remove("b")
        found.encoded(MODERN, None, make)
        assert len(made) == 4

    def test_the_pages_that_are_kept_are_bounded(self) -> None:
        """However many cursors are asked for, a few hundred pages are kept at most."""
        found = listing("a")
        for n in range(1000):
            found.encoded(MODERN, str(n), lambda: ListToolsResult([]))
        assert len(found._pages) <= 256

    async def test_tools_are_encoded_once_for_everybody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """`tools/list` costs one encoding per revision, whoever asks how often, until a tool comes or goes."""
        server = server_with(3, None)
        made = []
        encoded = Listing.encoded

        def counted(self: Any, revision: str, cursor: str | None, make: Any) -> Any:
            def counting() -> Any:
                made.append(revision)
                return make()

            return encoded(self, revision, cursor, counting)

        monkeypatch.setattr(Listing, "encoded", counted)
        async with talking(server) as one, talking(server) as other, talking(server, LEGACY[0]) as old:
            first = await one.ask("tools/list")
            assert await other.ask("tools/list", log_level="debug") == first
            assert (await old.ask("tools/list"))["tools"] == first["tools"]
            assert made == [MODERN, LEGACY[0]]
            server.add_tool(do_nothing, name="more")
            assert len((await one.ask("tools/list"))["tools"]) == 4
            server.remove_tool("more")
            assert await one.ask("tools/list") == first
            assert made == [MODERN, LEGACY[0], MODERN, MODERN]

    async def test_each_revision_gets_what_it_knows(self) -> None:
        """What is kept for one revision is not given to another (LIFE-4)."""
        server = Server("lists")
        server.add_tool(lambda: 1, name="t", title="T", read_only=True, output_schema={"type": "object"})
        keys = {}
        for revision in REVISIONS * 2:
            async with talking(server, revision) as talk:
                (tool,) = (await talk.ask("tools/list"))["tools"]
                assert keys.setdefault(revision, tool.keys()) == tool.keys()
        assert keys[MODERN] == {"name", "title", "inputSchema", "outputSchema", "annotations"}
        assert keys["2025-03-26"] == {"name", "inputSchema", "annotations"}
        assert keys["2024-11-05"] == {"name", "inputSchema"}


class TestMadeAnew:
    """`resources/list` with templates that list their instances: a list that is made for each request."""

    @pytest.mark.parametrize("kind", ["async", "def", "context", "awaitable"])
    async def test_instances_stand_behind_the_fixed_ones(self, kind: str) -> None:
        """`list=` may be async, blocking, or want the Context; its URIs come after the fixed resources, each once."""
        server = Server("lists", page_size=2)
        uris = ["x://fixed", "x://b", "x://a", "x://b"]

        async def later() -> list[str]:
            return uris

        def with_context(*, ctx: Context) -> list[str]:
            assert ctx.method == "resources/list"
            return uris

        kinds = {"async": later, "def": lambda: uris, "context": with_context, "awaitable": lambda: later()}
        server.add_resource("x://{name}", lambda name: name, mime_type="text/x", title="An x", list=kinds[kind])
        server.add_resource("x://fixed", do_nothing)
        async with talking(server) as talk:
            assert await pages(talk, "resources/list") == [["x://fixed", "x://b"], ["x://a"]]
            page = await talk.ask("resources/list")
            assert page["cacheScope"] == "private"
            assert page["resources"][1] == {"uri": "x://b", "name": "x://b", "title": "An x", "mimeType": "text/x"}

    async def test_instances_may_be_resources_of_their_own(self) -> None:
        """`list=` may give whole `Resource`s, or nothing."""
        from jackfield.protocol.types import Resource

        server = Server("lists")
        server.add_resource("x://{a}", lambda a: a, list=lambda: [Resource("x://1", "One", size=3)])
        server.add_resource("y://{a}", lambda a: a, list=lambda: None)
        async with talking(server) as talk:
            found = (await talk.ask("resources/list"))["resources"]
            assert found == [{"uri": "x://1", "name": "One", "size": 3}]

    async def test_the_instance_of_a_cursor_may_be_gone(self) -> None:
        """Other instances may come and go between pages; where the cursor's own is gone the cursor is invalid
        (PAG-3).
        """
        server = Server("lists", page_size=1)
        uris = ["x://a", "x://b", "x://c"]
        server.add_resource("x://{a}", lambda a: a, list=lambda: uris)
        async with talking(server) as talk:
            first = await talk.ask("resources/list")
            uris.insert(0, "x://new")
            second = await talk.ask("resources/list", {"cursor": first["nextCursor"]})
            assert [each["uri"] for each in second["resources"]] == ["x://b"]
            uris.remove("x://a")
            with pytest.raises(Refused, match="list again from the beginning"):
                await talk.ask("resources/list", {"cursor": first["nextCursor"]})

    async def test_a_list_function_that_fails_is_an_internal_error(self, caplog: pytest.LogCaptureFixture) -> None:
        """What goes wrong in `list=` is logged, and told without its cause (O03)."""

        def fail() -> list[str]:
            raise OSError("/secret/place")

        server = Server("lists")
        server.add_resource("x://{a}", lambda a: a, list=fail)
        async with talking(server) as talk:
            with pytest.raises(Refused) as caught:
                await talk.ask("resources/list")
        assert caught.value.code == -32603
        assert "secret" not in json.dumps(talk.frames)
        assert "/secret/place" in caplog.text

    def test_a_list_function_takes_nothing(self) -> None:
        """A parameter that nothing fills is an error at registration."""
        with pytest.raises(RegistrationError, match="nothing fills its parameter 'page'"):
            Server("lists").add_resource("x://{a}", lambda a: a, list=lambda page: [])

    def test_list_is_for_templates(self) -> None:
        """`list=` on a fixed URI is an error that says so."""
        with pytest.raises(RegistrationError, match="'x://a' is one resource; list= is for templates"):
            Server("lists").add_resource("x://a", do_nothing, list=lambda: ["x://a"])
