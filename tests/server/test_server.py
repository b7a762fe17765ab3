"""The Server: its options, its decorators, what it declares, and what it refuses at registration."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import warnings
from typing import Any

import pytest

from jackfield import Client, Context, Icon, Limits, RegistrationError, Server
from jackfield.protocol.types import ServerCapabilities
from tests.server.talk import LEGACY, MODERN, PREFIX, Refused, progress_of, talking, text_of


class TestOptions:
    async def test_the_identity_of_the_server(self) -> None:
        """Name, version, title, website and icons are told in both eras, instructions too (IMPL-1, RES-4, LIFE-2)."""
        server = Server(
            "shop",
            version="2.1",
            title="The shop",
            instructions="Ask before you buy.",
            icons=[Icon("data:,x", "image/png", ["48x48"], "dark")],
            website_url="https://shop.example",
        )
        info = {
            "name": "shop",
            "version": "2.1",
            "title": "The shop",
            "websiteUrl": "https://shop.example",
            "icons": [{"src": "data:,x", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
        }
        async with talking(server) as talk:
            found = await talk.ask("server/discover")
            assert found["_meta"][PREFIX + "serverInfo"] == info
            assert found["instructions"] == "Ask before you buy."
        async with talking(server, LEGACY[0]) as talk:
            assert talk.frames[0]["result"]["serverInfo"] == info
            assert talk.frames[0]["result"]["instructions"] == "Ask before you buy."

    @pytest.mark.parametrize(
        ("options", "fault"),
        [
            ({"name": ""}, "a server needs a name"),
            ({"page_size": 0}, "page_size is 0; it must be at least 1, or None for one page"),
            ({"title": 5}, r"server 'x' cannot be sent as written: .*\$\.serverInfo\.title"),
            ({"icons": ["i.png"]}, r"server 'x' cannot be sent as written: .*\$\.serverInfo\.icons\[0\]"),
            ({"instructions": "\ud800"}, "server 'x' cannot be sent as written: .*surrogates"),
            ({"version": 1}, r"server 'x' cannot be sent as written: .*\$\.serverInfo\.version"),
        ],
    )
    def test_an_option_that_cannot_be_is_refused(self, options: dict[str, Any], fault: str) -> None:
        """A bad option is an error that names it, and says what it may be."""
        with pytest.raises(RegistrationError, match=fault):
            Server(**{"name": "x", **options})

    def test_a_server_is_shown_by_its_name(self) -> None:
        """The repr says which server it is, and nothing else."""
        assert repr(Server("shop", instructions="secret")) == "Server('shop')"

    async def test_limits_hold_for_each_client(self) -> None:
        """`limits` bound what one client may have under way (limit `running`, `queued`)."""
        server = Server("shop", limits=Limits(running=1, queued=1))
        began, go_on = asyncio.Event(), asyncio.Event()

        @server.tool
        async def wait() -> None:
            began.set()
            await go_on.wait()

        async with talking(server) as talk:
            ids = [talk.send("tools/call", {"name": "wait"}) for _ in range(3)]
            await began.wait()
            with pytest.raises(Refused, match="server busy") as caught:
                await talk.answer(ids[2])
            assert caught.value.code == -32603
            go_on.set()
            for id in ids[:2]:
                await talk.answer(id)

    def test_only_known_transports_are_run(self) -> None:
        """`run` with another word for a transport is an error that lists those that there are."""
        with pytest.raises(ValueError, match="transport 'carrier pigeon' is not served; there are 'stdio' and 'http'"):
            Server("x").run("carrier pigeon")


class TestTools:
    async def test_every_option_is_listed(self) -> None:
        """Name, title, description, hints, icons and `_meta` are listed as given; what is not given is not (TOOL-1,
        TOOL-6).
        """
        server = Server("tools")

        @server.tool(
            name="sum.all",
            title="Sum",
            description="Sums.",
            read_only=True,
            destructive=False,
            idempotent=True,
            open_world=False,
            icons=[Icon("data:,x")],
            meta={"a/b": [1]},
        )
        def sum_all(numbers: list[int]) -> int:
            return sum(numbers)

        @server.tool
        def bare() -> None:
            """Do nothing.

            At all.
            """

        @server.tool(destructive=True)
        def one_hint() -> None: ...

        async with talking(server) as talk:
            full, plain, hint = (await talk.ask("tools/list"))["tools"]
        assert full == {
            "name": "sum.all",
            "title": "Sum",
            "description": "Sums.",
            "inputSchema": {
                "type": "object",
                "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}},
                "required": ["numbers"],
            },
            "outputSchema": {
                "type": "object",
                "properties": {"result": {"type": "integer"}},
                "required": ["result"],
            },
            "annotations": {
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
            "icons": [{"src": "data:,x"}],
            "_meta": {"a/b": [1]},
        }
        assert plain.keys() == {"name", "description", "inputSchema"}
        assert plain["description"].startswith("Do nothing.")
        assert hint["annotations"] == {"destructiveHint": True}

    async def test_bare_with_options_and_as_a_call(self) -> None:
        """The decorator works with and without parentheses and gives the function back; `add_tool` takes any
        callable.
        """
        server = Server("tools")

        @server.tool
        def one() -> str:
            return "1"

        @server.tool()
        async def two() -> str:
            return "2"

        class Three:
            def three(self) -> str:
                return "3"

        def four(n: int, by: int) -> str:
            return str(n * by)

        server.add_tool(Three().three)
        server.add_tool(functools.partial(four, by=2), name="four")
        assert (one(), await two()) == ("1", "2")
        async with talking(server) as talk:
            found = [text_of(await talk.call(name)) for name in ("one", "two", "three")]
            found.append(text_of(await talk.call("four", {"n": 2})))
            assert found == ["1", "2", "3", "4"]

    @pytest.mark.parametrize("name", ["a b", "ä", "a/b", "a" * 129, "a\n", "$"])
    def test_a_name_that_no_client_takes_is_refused(self, name: str) -> None:
        """Tool names are 1 to 128 of the letters that are allowed; the error shows the name and the
        letters (TOOL-2).
        """
        with pytest.raises(RegistrationError, match=r"tool name .*: use 1 to 128 of A-Z a-z 0-9 _ - \."):
            Server("tools").add_tool(lambda: None, name=name)

    def test_a_lambda_needs_a_name(self) -> None:
        """A function without a usable name is told by the name that it has."""
        with pytest.raises(RegistrationError, match="tool name '<lambda>'"):
            Server("tools").add_tool(lambda: None)

    @pytest.mark.parametrize("name", ["a", "A.b_c-9", "a" * 64])
    def test_good_names(self, name: str) -> None:
        """Names up to 64 letters are taken without a word (TOOL-2)."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Server("tools").add_tool(lambda: None, name=name)

    def test_a_long_name_is_warned_of(self) -> None:
        """Names of 65 to 128 letters are taken with a warning at the author's line: many clients refuse them
        (TOOL-2).
        """
        server = Server("tools")
        with pytest.warns(UserWarning, match="longer than 64 characters, which many clients refuse") as caught:

            @server.tool(name="a" * 128)
            def fn() -> None: ...

        assert caught[0].filename == __file__

    @pytest.mark.parametrize("given", ["add", 5, {"name": "add"}])
    def test_an_option_in_the_place_of_the_function_is_told(self, given: Any) -> None:
        """`@server.tool("name")` is an error that says how options are written."""
        with pytest.raises(RegistrationError, match="stands where the function should; write the options by name"):
            Server("tools").tool(given)

    def test_a_tool_that_cannot_be_registered_leaves_nothing_behind(self) -> None:
        """After an error the server is as it was before."""
        server = Server("tools")
        server.add_tool(lambda: 1, name="t")

        def bad(*args: int) -> None: ...

        for broken in (lambda: server.add_tool(bad), lambda: server.add_tool(lambda: 2, name="t")):
            with pytest.raises(RegistrationError):
                broken()
        assert list(server._tools.entries) == ["t"]

    def test_a_generator_is_no_tool(self) -> None:
        """A function that yields is refused by name."""

        async def stream():  # type: ignore[no-untyped-def]
            yield 1

        with pytest.raises(RegistrationError, match="stream: a handler cannot be a generator"):
            Server("tools").add_tool(stream)


class TestCapabilities:
    async def test_only_what_has_a_handler_is_declared(self) -> None:
        """A bare server declares logging alone; each kind is declared as soon as there is one of it (CAP-3, TOOL-1,
        RSC-1, PRM-1).
        """
        server = Server("bare")
        steps = {
            "tools": lambda: server.add_tool(lambda: 1, name="t"),
            "resources": lambda: server.add_resource("x://{a}", lambda a: a),
            "prompts": lambda: server.add_prompt(lambda a: a, name="p"),
            "completions": lambda: server.add_completion("p", "a", lambda typed: []),
        }
        declared = {"logging"}
        async with talking(server) as talk:
            assert (await talk.ask("server/discover"))["capabilities"].keys() == declared
            for name, step in steps.items():
                step()
                declared.add(name)
                assert (await talk.ask("server/discover"))["capabilities"].keys() == declared
        async with talking(server, LEGACY[0]) as talk:
            assert talk.frames[0]["result"]["capabilities"].keys() == declared

    async def test_what_is_declared_is_answered_and_nothing_else(self) -> None:
        """Every declared method answers and every other one is unknown, for each set of things offered (CAP-3)."""
        lists = {"tools": "tools/list", "resources": "resources/templates/list", "prompts": "prompts/list"}
        for kind in lists:
            server = Server("one")
            {
                "tools": lambda server=server: server.add_tool(lambda: 1, name="t"),
                "resources": lambda server=server: server.add_resource("x://a", lambda: "a"),
                "prompts": lambda server=server: server.add_prompt(lambda: "a", name="p"),
            }[kind]()
            async with talking(server) as talk:
                for other, method in lists.items():
                    if other == kind:
                        await talk.ask(method)
                    else:
                        with pytest.raises(Refused) as caught:
                            await talk.ask(method)
                        assert caught.value.code == -32601

    async def test_tools_come_and_go_while_clients_talk(self) -> None:
        """What is added is listed and callable at once, what is removed is gone, in every conversation (F80)."""
        server = Server("changing")
        server.add_tool(lambda: 1, name="one")
        async with talking(server) as talk, talking(server, LEGACY[0]) as old:
            server.add_tool(lambda: "2", name="two")
            for each in (talk, old):
                assert [tool["name"] for tool in (await each.ask("tools/list"))["tools"]] == ["one", "two"]
                assert text_of(await each.call("two")) == "2"
            server.remove_tool("one")
            for each in (talk, old):
                assert [tool["name"] for tool in (await each.ask("tools/list"))["tools"]] == ["two"]
                with pytest.raises(Refused, match="Unknown tool: one"):
                    await each.call("one")

    async def test_a_session_may_ask_again_for_what_it_was_told_of(self) -> None:
        """When the last tool is gone the list is empty and a call names the tool, instead of unknown methods (CAP-3,
        F80).
        """
        server = Server("changing")
        server.add_tool(lambda: 1, name="one")
        server.add_resource("x://a", lambda: "a")
        server.add_prompt(lambda: "a", name="p")
        async with talking(server, LEGACY[0]) as talk:
            server.remove_tool("one")
            server.remove_resource("x://a")
            server.remove_prompt("p")
            for method, member in (
                ("tools/list", "tools"),
                ("resources/list", "resources"),
                ("prompts/list", "prompts"),
            ):
                assert (await talk.ask(method))[member] == []
            with pytest.raises(Refused, match="Unknown tool: one"):
                await talk.call("one")
        async with talking(server) as talk:
            declared = (await talk.ask("server/discover"))["capabilities"]
            assert declared == {
                "logging": {},
                "tools": {"listChanged": True},
                "resources": {"subscribe": True, "listChanged": True},
                "prompts": {"listChanged": True},
            }

    def test_removing_what_is_not_there(self) -> None:
        """Removing an unknown tool, resource or prompt is a KeyError that names it."""
        server = Server("changing")
        for remove, name in (
            (server.remove_tool, "t"),
            (server.remove_prompt, "p"),
            (server.remove_resource, "x://a"),
            (server.remove_resource, "x://{a}"),
        ):
            with pytest.raises(KeyError, match=name.replace("{", r"\{")):
                remove(name)


async def test_many_clients_of_both_eras_at_once() -> None:
    """Twenty clients, modern and legacy, call the same server side by side; each gets its own answers (STATE-3)."""
    server = Server("busy")

    @server.tool
    async def add(a: int, b: int) -> int:
        await asyncio.sleep(0)
        return a + b

    @server.tool
    def blocking_add(a: int, b: int) -> int:
        return a + b

    async def use(n: int) -> None:
        async with Client(server, mode=(MODERN, *LEGACY)[n % 5]) as client:
            for name in ("add", "blocking_add"):
                results = await asyncio.gather(*[client.call_tool(name, {"a": n, "b": k}) for k in range(10)])
                assert [result.text for result in results] == [str(n + k) for k in range(10)]

    await asyncio.gather(*map(use, range(20)))


async def test_twenty_clients_with_the_same_ids_get_their_own_answers() -> None:
    """Answers, progress and cancelling stay with the client they are for, whatever ids others use (T07)."""
    server = Server("crowd")
    ready, go = asyncio.Semaphore(0), asyncio.Event()

    @server.tool
    async def echo(text: str, ctx: Context) -> str:
        await ctx.report_progress(1, message=text)
        ready.release()
        await go.wait()
        return text

    async with contextlib.AsyncExitStack() as stack:
        talks = [await stack.enter_async_context(talking(server, [MODERN, *LEGACY[:3]][n % 4])) for n in range(20)]
        for number, talk in enumerate(talks):
            for id in range(5):
                params = {"name": "echo", "arguments": {"text": f"{number}-{id}"}}
                talk.send("tools/call", params, id=id, progressToken=id)
        for _ in range(100):
            await ready.acquire()
        talks[0].cancel(0)
        go.set()
        for number, talk in enumerate(talks):
            for id in range(1 if number == 0 else 0, 5):
                assert text_of(await talk.answer(id)) == f"{number}-{id}"
            assert {(each["progressToken"], each["message"]) for each in progress_of(talk)} == {
                (id, f"{number}-{id}") for id in range(5)
            }
        assert not any(frame.get("id") == 0 for frame in talks[0].frames if "method" not in frame)


async def test_names_that_nobody_knows_are_cut() -> None:
    """The error of an unknown tool, prompt or reference shows some of the name, on one line (O02)."""
    server = Server("names")
    server.add_tool(lambda: 1, name="t")
    server.add_prompt(lambda a: a, name="p")
    server.add_completion("p", "a", lambda typed: [typed])
    name = "n" * 5000
    for long in (name, "a\nb\x1b" + name):
        asked: list[tuple[str, dict[str, Any]]] = [
            ("tools/call", {"name": long}),
            ("prompts/get", {"name": long}),
            (
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": long}, "argument": {"name": "a", "value": ""}},
            ),
            (
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": long, "value": ""}},
            ),
        ]
        async with talking(server) as talk:
            for method, params in asked:
                with pytest.raises(Refused, match="nnn") as caught:
                    await talk.ask(method, params)
                assert len(caught.value.message) < 300
                assert caught.value.message.isprintable()


def test_a_server_is_made_without_a_loop() -> None:
    """Everything can be registered at import time, where no event loop runs."""

    def no_uris() -> tuple[str, ...]:
        return ()

    server = Server("early")
    server.add_tool(lambda: 1, name="t")
    server.add_resource("x://{a}", lambda a: a, list=no_uris)
    server.add_prompt(lambda: "a", name="p")
    offered = server._engine.capabilities
    assert isinstance(offered, ServerCapabilities)
    assert offered.tools is not None
    assert offered.prompts is not None
