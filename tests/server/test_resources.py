"""Resources: fixed URIs and templates, what their handlers may return, and what is missing."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jackfield import (
    Client,
    Context,
    File,
    Icon,
    Image,
    ProtocolError,
    RegistrationError,
    ResourceNotFound,
    Server,
    ToolError,
)
from jackfield.protocol.types import ReadResourceResult, ResourceContents
from tests.server.talk import LEGACY, MODERN, REVISIONS, Refused, talking


@dataclass
class Point:
    x: int


async def read(value: Any, revision: str = MODERN, **options: Any) -> list[dict[str, Any]]:
    """The contents of a fixed resource and of a template that return `value`, which must agree."""
    server = Server("resources")
    server.add_resource("x://fixed", lambda: value, **options)
    server.add_resource("x://of/{name}", lambda name: value, **options)
    async with talking(server, revision) as talk:
        fixed = (await talk.ask("resources/read", {"uri": "x://fixed"}))["contents"]
        templated = (await talk.ask("resources/read", {"uri": "x://of/a"}))["contents"]
    for content in (*fixed, *templated):
        content["uri"] = content["uri"].replace("x://fixed", "x://of/a")
    assert fixed == templated
    return fixed


class TestContents:
    @pytest.mark.parametrize(
        ("value", "mime_type", "content"),
        [
            ("text", None, {"mimeType": "text/plain", "text": "text"}),
            ("<a/>", "image/svg+xml", {"mimeType": "image/svg+xml", "text": "<a/>"}),
            ("", None, {"mimeType": "text/plain", "text": ""}),
            (b"\x00", None, {"mimeType": "application/octet-stream", "blob": "AA=="}),
            (b"png", "image/png", {"mimeType": "image/png", "blob": "cG5n"}),
            (bytearray(b"png"), "image/png", {"mimeType": "image/png", "blob": "cG5n"}),
            (memoryview(b"png"), "image/png", {"mimeType": "image/png", "blob": "cG5n"}),
            ("ü".encode(), "text/plain", {"mimeType": "text/plain", "text": "ü"}),
            (b"\xff", "text/plain", {"mimeType": "text/plain", "blob": "/w=="}),
            ({"a": [1, None]}, None, {"mimeType": "application/json", "text": '{"a":[1,null]}'}),
            ([], None, {"mimeType": "application/json", "text": "[]"}),
            (0, "text/x-number", {"mimeType": "text/x-number", "text": "0"}),
            (False, None, {"mimeType": "application/json", "text": "false"}),
            (Point(3), None, {"mimeType": "application/json", "text": '{"x":3}'}),
            (Image(b"png"), None, {"mimeType": "image/png", "blob": "cG5n"}),
            (Image(b"jpg"), "image/jpeg", {"mimeType": "image/jpeg", "blob": "anBn"}),
            (File("a", uri="y://z"), None, {"mimeType": "text/plain", "text": "a"}),
        ],
    )
    async def test_a_value_becomes_contents(self, value: Any, mime_type: str | None, content: dict[str, str]) -> None:
        """Text, bytes, data and JSON values, fixed and templated, under the declared type where there is one (F60,
        RSC-2).
        """
        assert await read(value, mime_type=mime_type) == [{"uri": "x://of/a", **content}]

    async def test_several_contents(self) -> None:
        """A handler may return whole contents, one or several, as a directory does (RSC-2)."""
        one = ResourceContents("x://fixed", text="a")
        many = [ResourceContents(f"x://fixed/{n}", blob="AA==", meta={"n": n}) for n in range(2)]
        assert await read(one) == [{"uri": "x://of/a", "text": "a"}]
        for value in (many, tuple(many)):
            assert await read(value) == [{"uri": f"x://of/a/{n}", "blob": "AA==", "_meta": {"n": n}} for n in range(2)]

    async def test_a_result_said_in_full(self) -> None:
        """A handler may give the whole result, with its hints for caches, which the legacy eras do not get (CCH-1,
        RES-5).
        """
        server = Server("resources")
        constant = ReadResourceResult(
            [ResourceContents("x://a", text="a")], ttl_ms=60_000, cache_scope="public", meta={"a/b": 1}
        )
        server.add_resource("x://a", lambda: constant)
        for _ in range(2):
            async with talking(server) as talk:
                result = await talk.ask("resources/read", {"uri": "x://a"})
                assert (result["ttlMs"], result["cacheScope"], result["_meta"]["a/b"]) == (60_000, "public", 1)
            async with talking(server, LEGACY[0]) as talk:
                result = await talk.ask("resources/read", {"uri": "x://a"})
                assert result == {"contents": [{"uri": "x://a", "text": "a"}], "_meta": {"a/b": 1}}

    async def test_a_file_is_read_on_a_thread(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A slow disk does not freeze the server: an async handler's file is read on a thread."""
        (tmp_path / "a.png").write_bytes(b"png")
        names = []
        before = File.read

        def noted(self: File) -> bytes:
            names.append(threading.current_thread().name)
            return before(self)

        monkeypatch.setattr(File, "read", noted)
        server = Server("resources")

        @server.resource("x://a")
        async def a() -> File:
            return File(path=tmp_path / "a.png")

        async with talking(server) as talk:
            contents = (await talk.ask("resources/read", {"uri": "x://a"}))["contents"]
        assert contents == [{"uri": "x://a", "mimeType": "image/png", "blob": "cG5n"}]
        assert names == ["jackfield-handler"]

    async def test_binary_survives_the_whole_way(self) -> None:
        """Every byte of a blob arrives (RSC-4, F60)."""
        every = bytes(range(256)) * 3
        server = Server("resources")
        server.add_resource("x://a", lambda: every, mime_type="image/png")
        async with Client(server) as client:
            (content,) = (await client.read_resource("x://a")).contents
            assert base64.b64decode(content.blob or "") == every
            assert content.mime_type == "image/png"


class TestMissing:
    @pytest.mark.parametrize("revision", REVISIONS)
    async def test_what_is_not_there_is_an_error(self, revision: str) -> None:
        """Unknown, None, and ResourceNotFound: -32602 in the modern revision, else -32002, with the URI (RSC-3)."""
        server = Server("resources")
        server.add_resource("x://fixed", lambda: None)
        server.add_resource("x://of/{name}", lambda name: None)

        @server.resource("x://raise/{name}")
        async def fail(name: str) -> str:
            raise ResourceNotFound(f"x://raise/{name}")

        async with talking(server, revision) as talk:
            for uri in ("x://fixed", "x://of/a", "x://raise/a", "x://unknown", "nothing", ""):
                with pytest.raises(Refused) as caught:
                    await talk.ask("resources/read", {"uri": uri})
                assert caught.value.code == (-32602 if revision == MODERN else -32002)
                assert caught.value.message == f"Resource not found: {uri}"
                assert caught.value.data == {"uri": uri}

    @pytest.mark.parametrize(
        "fault", [OSError("/secret/file"), FileNotFoundError("secret"), SystemExit("secret"), asyncio.CancelledError()]
    )
    async def test_a_failure_is_an_internal_error(self, fault: BaseException, caplog: pytest.LogCaptureFixture) -> None:
        """What a handler raises is -32603 without its cause, which is logged; the server lives (RSC-3, O03)."""
        server = Server("resources")

        @server.resource("x://async")
        async def later() -> str:
            raise fault

        @server.resource("x://def")
        def plain() -> str:
            raise fault

        async with talking(server) as talk:
            for uri in ("x://async", "x://def"):
                with pytest.raises(Refused) as caught:
                    await talk.ask("resources/read", {"uri": uri})
                assert caught.value.code == -32603
            assert "secret" not in json.dumps(talk.frames)
        if str(fault):
            assert caplog.text.count(f"{type(fault).__name__}: {fault}") == 2

    async def test_a_failure_with_words_for_the_peer(self) -> None:
        """A ProtocolError goes out as it is; a ToolError, though this is no tool, with its text."""
        server = Server("resources")
        faults = {
            "protocol": ProtocolError(7, "seven", [7]),
            "tool": ToolError("Say which."),
            "bad": ToolError("\ud800"),
        }

        @server.resource("x://{kind}")
        def fail(kind: str) -> str:
            raise faults[kind]

        async with talking(server) as talk:
            found = {}
            for kind in faults:
                with pytest.raises(Refused) as caught:
                    await talk.ask("resources/read", {"uri": f"x://{kind}"})
                found[kind] = caught.value.code, caught.value.message, caught.value.data
        assert found["protocol"] == (7, "seven", [7])
        assert found["tool"] == (-32603, "Say which.", None)
        assert found["bad"] == (-32603, "resources/read failed on the server", None)

    @pytest.mark.parametrize("value", ["\ud800", {"a": float("nan")}, object()])
    async def test_what_cannot_be_sent_is_an_internal_error(self, value: Any) -> None:
        """A value that is no JSON is -32603, never silence (F57)."""
        with pytest.raises(Refused) as caught:
            await read(value)
        assert caught.value.code == -32603


def templates() -> Server:
    server = Server("resources")

    @server.resource("x://one/{value}")
    def one(value: str) -> dict[str, str]:
        return {"one": value}

    @server.resource("x://path/{+path}")
    async def path(path: str) -> dict[str, str]:
        return {"path": path}

    @server.resource("x://parts{/parts*}")
    def parts(parts: list[str]) -> dict[str, list[str]]:
        return {"parts": parts}

    @server.resource("x://ask{?q,page}")
    def ask(ctx: Context, q: str = "none", page: int = 1) -> dict[str, Any]:
        return {"q": q, "page": page}

    return server


class TestTemplates:
    @pytest.mark.parametrize(
        ("uri", "values"),
        [
            ("x://one/%C2%A7%20141.61", {"one": "§ 141.61"}),
            ("x://one/a+b", {"one": "a+b"}),
            ("x://one/a%2Fb", {"one": "a/b"}),
            ("x://one/a%252Fb", {"one": "a%2Fb"}),
            ("x://path/a/b%20c/d", {"path": "a/b c/d"}),
            ("x://parts/a/b%2Fc", {"parts": ["a", "b/c"]}),
            ("x://ask", {"q": "none", "page": 1}),
            ("x://ask?page=3&q=a%20b", {"q": "a b", "page": 3}),
            ("x://ask?q=1#fragment", {"q": "1", "page": 1}),
        ],
    )
    async def test_values_are_decoded_once(self, uri: str, values: dict[str, Any]) -> None:
        """Escapes are decoded once, plus stays plus, a fragment is no value, missing keys take the default (F58,
        RSC-4).
        """
        async with talking(templates()) as talk:
            (content,) = (await talk.ask("resources/read", {"uri": uri}))["contents"]
            assert (content["uri"], json.loads(content["text"])) == (uri, values)

    @pytest.mark.parametrize(
        "uri", ["x://one/%", "x://one/%zz", "x://one/%ff", "x://ask?page=many", "x://ask?q=1&q=2", "x://ask?page="]
    )
    async def test_values_that_do_not_fit_are_invalid_params(self, uri: str) -> None:
        """A broken escape, a value of another type, a key given twice: -32602 (F58, RSC-4)."""
        for revision in (MODERN, LEGACY[0]):
            async with talking(templates(), revision) as talk:
                with pytest.raises(Refused) as caught:
                    await talk.ask("resources/read", {"uri": uri})
                assert caught.value.code == -32602

    async def test_the_fixed_one_comes_before_templates_and_the_first_template_before_others(self) -> None:
        """An exact URI wins, then the templates in the order of their registration (RSC-4)."""
        server = Server("resources")
        server.add_resource("x://{a}", lambda a: f"first {a}")
        server.add_resource("x://{+b}", lambda b: f"second {b}")
        server.add_resource("x://fixed", lambda: "fixed")
        async with talking(server) as talk:

            async def text(uri: str) -> str:
                return (await talk.ask("resources/read", {"uri": uri}))["contents"][0]["text"]

            assert await text("x://fixed") == "fixed"
            assert await text("x://other") == "first other"
            assert await text("x://a/b") == "second a/b"
            server.remove_resource("x://{a}")
            server.remove_resource("x://fixed")
            assert await text("x://fixed") == "second fixed"
            server.remove_resource("x://{+b}")
            with pytest.raises(Refused, match="Resource not found"):
                await text("x://fixed")

    async def test_a_file_root_cannot_be_left(self, tmp_path: Path) -> None:
        """A dot-dot, however it is escaped, is refused before a handler could open what it names (F58, RSC-4)."""
        (tmp_path / "root").mkdir()
        (tmp_path / "secret").write_text("secret")
        server = Server("resources")

        @server.resource("file:///{+path}")
        def file(path: str) -> str:
            return (tmp_path / "root" / path).read_text()

        async with talking(server) as talk:
            for path in ("../secret", "%2e%2e/secret", "..%2Fsecret", "%2E%2E%2Fsecret"):
                with pytest.raises(Refused, match=r"Invalid variable 'path': .*'\.\.' segment") as caught:
                    await talk.ask("resources/read", {"uri": f"file:///{path}"})
                assert caught.value.code == -32602
            assert "secret" not in json.dumps([frame.get("result") for frame in talk.frames])

    @pytest.mark.parametrize("bad", ["..", "a%2F..%2Fb", "%00", "%2Fetc", "a%5C..%5Cb", "C:", "c%3Aa", "%2E%2E%2Fx"])
    @pytest.mark.parametrize("template", ["x://{v}", "x://{+v}", "x://a{/v}", "x://a{/v*}", "x://a{.v}", "x://a{;v}"])
    async def test_no_variable_of_a_path_leads_out_of_it(self, template: str, bad: str) -> None:
        """Whatever kind of expression it stands in, a bad value never reaches the handler (F58, S05, RSC-4)."""
        server = Server("resources")
        seen: list[Any] = []
        server.add_resource(template, lambda v: seen.append(v) or "read")
        before = {"x://{v}": "", "x://{+v}": "", "x://a{.v}": "a.", "x://a{;v}": "a;v="}.get(template, "a/")
        async with talking(server) as talk:
            with pytest.raises(Refused, match="Invalid variable 'v': the path holds") as caught:
                await talk.ask("resources/read", {"uri": f"x://{before}{bad}"})
            assert (caught.value.code, seen) == (-32602, [])
            assert await talk.ask("resources/read", {"uri": f"x://{before}a%2Fb...c"})

    async def test_the_first_of_several_segments_may_not_be_empty(self) -> None:
        """Segments that come as a list are guarded as the path that they make, too (F58)."""
        server = Server("resources")
        server.add_resource("x://a{/v*}", lambda v: "/".join(v))
        async with talking(server) as talk:
            with pytest.raises(Refused, match="a path from the root"):
                await talk.ask("resources/read", {"uri": "x://a//etc/passwd"})
            assert await talk.ask("resources/read", {"uri": "x://a/etc/passwd"})

    async def test_queries_and_what_is_exempt_are_not_guarded(self) -> None:
        """A variable of a query is no path, and an author can say the same of any other one (F58)."""
        server = Server("resources")

        @server.resource("x://find/{text}?q={q}{&r}", unguarded=("text", "q"))
        def find(text: str, q: str, r: str) -> list[str]:
            return [text, q, r]

        server.add_resource("x://{both}{?both}", lambda both: both)
        async with talking(server) as talk:
            uri = "x://find/..%5C?q=..&r=../c:"
            (content,) = (await talk.ask("resources/read", {"uri": uri}))["contents"]
            assert json.loads(content["text"]) == ["..\\", "..", "../c:"]
            with pytest.raises(Refused, match="Invalid variable 'both'"):
                await talk.ask("resources/read", {"uri": "x://..?both=.."})

    @pytest.mark.parametrize(
        ("uri", "unguarded", "fault"),
        [
            ("x://{a}", ("b",), "has no variable 'b'"),
            ("x://{a}", "a", r"write unguarded=\('a',\)"),
            ("x://a", ("a",), "unguarded= is for templates"),
        ],
    )
    def test_only_variables_can_be_exempt(self, uri: str, unguarded: Any, fault: str) -> None:
        """A name that is no variable of the template would guard what its author thinks exempt (F58)."""
        with pytest.raises(RegistrationError, match=fault):
            Server("resources").add_resource(uri, lambda a="": a, name="r", unguarded=unguarded)

    async def test_a_long_uri_is_cut_in_the_message_alone(self) -> None:
        """The text of the error shows some of an unknown URI; its data is the URI (RSC-3, O02)."""
        server = Server("resources")
        server.add_resource("x://a", lambda: "a")
        uri = "x://" + "b" * 5000 + "\n"
        async with talking(server) as talk:
            with pytest.raises(Refused, match="Resource not found: x://bbb") as caught:
                await talk.ask("resources/read", {"uri": uri})
            assert len(caught.value.message) < 300
            assert caught.value.data == {"uri": uri}


class TestRegistration:
    async def test_every_option_is_listed(self) -> None:
        """Name, title, description, type, size, icons and `_meta` stand in the lists, what is not given does not
        (RSC-2).
        """
        server = Server("resources")
        options: dict[str, Any] = {
            "name": "n",
            "title": "T",
            "description": "D",
            "mime_type": "text/x",
            "icons": [Icon("https://x.example/i.png", sizes=["any"])],
            "meta": {"a/b": 1},
        }

        def bare() -> None:
            """What it is.

            And more.
            """

        server.add_resource("x://a", bare, size=0, **options)
        server.add_resource("x://{a}", lambda a: a, **options)
        server.add_resource("x://bare", bare)
        listed = {
            "name": "n",
            "title": "T",
            "description": "D",
            "mimeType": "text/x",
            "icons": [{"src": "https://x.example/i.png", "sizes": ["any"]}],
            "_meta": {"a/b": 1},
        }
        async with talking(server) as talk:
            fixed, plain = (await talk.ask("resources/list"))["resources"]
            (template,) = (await talk.ask("resources/templates/list"))["resourceTemplates"]
        assert fixed == {"uri": "x://a", "size": 0, **listed}
        assert template == {"uriTemplate": "x://{a}", **listed}
        assert plain.keys() == {"uri", "name", "description"}
        assert (plain["name"], plain["description"].splitlines()[0]) == ("bare", "What it is.")
        async with talking(server, "2025-03-26") as talk:
            fixed = (await talk.ask("resources/list"))["resources"][0]
            assert fixed.keys() == {"uri", "name", "description", "mimeType", "size"}

    @pytest.mark.parametrize("uri", ["", "notes", "a b://c", "x://a b", "://x", "x:", "notes/todo"])
    def test_what_is_no_uri_is_refused(self, uri: str) -> None:
        """A resource needs a URI with a scheme; the error shows what was given and how one looks (RSC-5)."""
        with pytest.raises(RegistrationError, match="is no URI; a resource needs a scheme, as in notes://todo"):
            Server("resources").add_resource(uri, lambda: "x")

    @pytest.mark.parametrize("template", ["x://{", "x://{}", "x://{a", "x://{a b}", "x://{!a}"])
    def test_what_is_no_template_is_refused(self, template: str) -> None:
        """A broken template is told at registration (RSC-4)."""
        with pytest.raises(RegistrationError, match="template"):
            Server("resources").add_resource(template, lambda a: "x")

    def test_variables_and_parameters_must_agree(self) -> None:
        """A variable without a parameter, a parameter without a variable, and one on a fixed URI are named."""
        server = Server("resources")

        def one(a: str) -> None: ...

        with pytest.raises(RegistrationError, match="one: the template's variable 'b' has no parameter"):
            server.add_resource("x://{a}/{b}", one)
        with pytest.raises(RegistrationError, match="parameter 'a' is no variable of the template"):
            server.add_resource("x://{b}", lambda b, a: None)
        with pytest.raises(
            RegistrationError, match=r"one: nothing fills its parameter 'a'; put .* into the URI 'x://c'"
        ):
            server.add_resource("x://c", one)

    def test_a_decorator_without_a_uri_says_what_to_write(self) -> None:
        """`@server.resource` alone is an error that shows the right form."""

        def todo() -> str: ...

        with pytest.raises(RegistrationError, match=r'write @server\.resource\("notes://\.\.\."\) above todo'):
            Server("resources").resource(todo)  # type: ignore[arg-type]

    def test_a_taken_uri_is_refused(self) -> None:
        """Two resources, or two templates, of one URI are an error that names it."""
        server = Server("resources")
        for uri, fn in (("x://a", lambda: "x"), ("x://{a}", lambda a: a)):
            server.add_resource(uri, fn)
            with pytest.raises(RegistrationError, match="is registered already"):
                server.add_resource(uri, fn)
            server.remove_resource(uri)
            server.add_resource(uri, fn)
        with pytest.raises(KeyError, match=r"no resource template 'x://\{b\}'"):
            server.remove_resource("x://{b}")

    def test_the_decorator_gives_the_function_back(self) -> None:
        """A decorated function is still the plain function."""
        server = Server("resources")

        @server.resource("x://a")
        def a() -> str:
            return "a"

        assert a() == "a"
