"""Extensions and keys of `_meta`, from the client's side."""

from __future__ import annotations

from typing import Any

import pytest

from jackfield import Client, Icon, PeerError, RegistrationError, Server
from jackfield.protocol.icons import safe_icons
from jackfield.protocol.types import Implementation
from tests.client.fakes import EVERYTHING, Fake, Fault, legacy, modern, text_result

COLOURS = "com.example/colours"
SHAPES = "com.example/shapes"
META = "io.modelcontextprotocol/"


def speaking(make: Any, extensions: Any) -> Fake:
    """A server that declares these extensions."""
    server: Fake = make(tools__call=text_result(""), tools__list={"tools": [], "resultType": "complete"})
    hello = server.answers["server/discover" if make is modern else "initialize"]
    server.answers["server/discover" if make is modern else "initialize"] = hello | {
        "capabilities": EVERYTHING | {"extensions": extensions}
    }
    return server


BOTH = pytest.mark.parametrize("make", [modern, legacy])


class TestDeclaring:
    async def test_modern(self) -> None:
        """Every request declares them, with their settings, the very first one too (CAP-1, CAP-4, META-1)."""
        server = modern(tools__call=text_result(""))
        async with Client(server, extensions={COLOURS: {"depth": 24}, SHAPES: {}}) as client:
            await client.call_tool("a")
            await client.call_tool("a", meta={"example.com/x": 1})
        for message in server.heard:
            if "id" in message:
                capabilities = message["params"]["_meta"][META + "clientCapabilities"]
                assert capabilities == {"extensions": {COLOURS: {"depth": 24}, SHAPES: {}}}
        assert len(server.asked("tools/call")) == 2

    async def test_legacy(self) -> None:
        """The handshake declares them, so that servers of older revisions can take part (CAP-5)."""
        server = legacy()
        async with Client(server, mode="legacy", extensions={COLOURS: {}}):
            pass
        assert server.asked("initialize")[0]["capabilities"] == {"extensions": {COLOURS: {}}}

    @BOTH
    @pytest.mark.parametrize("extensions", [None, {}])
    async def test_none_unless_told(self, make: Any, extensions: Any) -> None:
        """A client whose application named no extension declares none, whatever the server speaks (CAP-4)."""
        server = speaking(make, {COLOURS: {}})
        async with Client(server, extensions=extensions) as client:
            assert client.extensions == {}
        for message in server.heard:
            assert "extensions" not in str(message)

    @pytest.mark.parametrize("extensions", [{"colours": {}}, {COLOURS: 1}, [COLOURS], {f"{COLOURS}/": {}}])
    def test_what_cannot_be_declared(self, extensions: Any) -> None:
        """A name without a prefix, or settings that are no object, is an error at once (CAP-4)."""
        with pytest.raises(RegistrationError, match="extension"):
            Client(Server("x"), extensions=extensions)


class TestNegotiated:
    @BOTH
    async def test_both_sides_must_have_declared_it(self, make: Any) -> None:
        """An application sees what both declared, with the server's settings (CAP-4, CAP-5)."""
        server = speaking(make, {COLOURS: {"theirs": 1}, SHAPES: 5, "com.example/else": {}})
        async with Client(server, extensions={COLOURS: {"ours": 1}, SHAPES: {}}) as client:
            assert client.extensions == {COLOURS: {"theirs": 1}}

    @BOTH
    async def test_a_server_without_any(self, make: Any) -> None:
        """A server that speaks none leaves none, and is called like any other (CAP-4)."""
        async with Client(make(tools__call=text_result("hi")), extensions={COLOURS: {}}) as client:
            assert client.extensions == {}
            assert (await client.call_tool("a")).text == "hi"

    async def test_an_extension_that_is_essential_to_the_server(self) -> None:
        """The error that says what this client lacks reaches the caller whole (CAP-4, ERR-2)."""
        data = {"requiredCapabilities": {"extensions": {COLOURS: {}}}}
        async with Client(modern(tools__call=Fault(-32021, "colours", data))) as client:
            with pytest.raises(PeerError) as caught:
                await client.call_tool("a")
        assert (caught.value.code, caught.value.data) == (-32021, data)


class TestKeysOfACall:
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            (META + "protocolVersion", "1999"),
            (META + "clientCapabilities", {}),
            (META + "subscriptionId", 1),
            ("dev.mcp/x", 1),
            ("progressToken", "mine"),
            ("_x", 1),
            ("traceparent", "00-1-2-01"),
        ],
    )
    @BOTH
    async def test_what_is_not_the_callers_to_set(self, make: Any, key: str, value: Any) -> None:
        """Reserved keys, others outside the grammar and bad traces are a ValueError; nothing is sent (META-6)."""
        server = make()
        async with Client(server) as client:
            before = len(server.heard)
            for call in (client.call_tool, client.read_resource, client.get_prompt):
                with pytest.raises(ValueError, match="meta: ") as caught:
                    await call("a:b", meta={"fine": 1, key: value})
                assert key in str(caught.value)
            assert len(server.heard) == before

    async def test_a_log_level_for_one_call(self) -> None:
        """The level of one call's log messages is a caller's to set, over the one for all (META-2, LOG-2)."""
        server = modern(tools__call=text_result(""))
        async with Client(server) as client:
            await client.set_log_level("error")
            await client.call_tool("a", meta={META + "logLevel": "debug"})
            await client.call_tool("a")
        assert [params["_meta"][META + "logLevel"] for params in server.asked("tools/call")] == ["debug", "error"]

    async def test_keys_of_a_declared_extension(self) -> None:
        """Keys of an official extension may be sent by who declares it (META-6, CAP-4)."""
        server = modern(tools__call=text_result(""))
        key = "io.modelcontextprotocol.skills/x"
        async with Client(server, extensions={"io.modelcontextprotocol/skills": {}}) as client:
            await client.call_tool("a", meta={key: 1})
        assert server.asked("tools/call")[0]["_meta"][key] == 1


class TestIcons:
    async def test_what_a_server_shows(self) -> None:
        """A server's icons stay as they came, and those that a host may show can be told from the others (ICO-1)."""
        icons = [{"src": "javascript:alert(1)"}, {"src": "https://x.example/i.png", "theme": "dark", "x": 1}]
        tool = {"name": "a", "inputSchema": {"type": "object"}, "icons": icons}
        server = modern(tools__list={"tools": [tool], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
        async with Client(server) as client:
            (found,) = await client.list_tools()
        assert b"javascript:alert(1)" in found.raw
        assert b'"x":1' in found.raw
        assert safe_icons(found.icons) == [Icon("https://x.example/i.png", theme="dark")]

    def test_what_a_client_shows(self) -> None:
        """The client's own icons are at https or data URIs (ICO-1)."""
        info = Implementation("me", "1", icons=[Icon("http://x.example/i.png")])
        with pytest.raises(RegistrationError, match="info: an icon is at 'http://x"):
            Client(Server("x"), info=info)
