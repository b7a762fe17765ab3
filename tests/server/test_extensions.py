"""Extensions, traces, keys of `_meta` and icons, from the server's side."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jackfield import Context, Icon, RegistrationError, Server
from jackfield.protocol.types import CallToolResult, ListResourcesResult
from jackfield.server.prompts import Message
from tests.server.talk import CLIENT, LEGACY, MODERN, PREFIX, Refused, Talk, talking, text_of

COLOURS = "com.example/colours"
SHAPES = "com.example/shapes"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CAPABILITIES = PREFIX + "clientCapabilities"


def declared(extensions: Any) -> dict[str, Any]:
    """The `_meta` member of a modern client that declares these extensions."""
    return {CAPABILITIES: {"extensions": extensions}}


def colourful() -> Server:
    """A server with an extension, a tool that tells what was agreed on, and one that cannot do without it."""
    server = Server("colourful", extensions={COLOURS: {"depth": 24}, SHAPES: {}})

    @server.tool
    async def agreed(ctx: Context) -> str:
        return json.dumps(ctx.extensions)

    @server.tool
    async def paint(ctx: Context) -> str:
        return json.dumps(ctx.require_extension(COLOURS))

    return server


async def greeted(server: Server, talk: Talk, capabilities: dict[str, Any]) -> dict[str, Any]:
    """Shake hands as a legacy client that declares `capabilities`; the server's own."""
    await server.__mcp_connect__(talk.on)  # type: ignore[arg-type]
    hello = {"protocolVersion": talk.revision, "capabilities": capabilities, "clientInfo": CLIENT}
    return (await talk.ask("initialize", hello))["capabilities"]


class TestDeclaring:
    async def test_in_discover(self) -> None:
        """`server/discover` tells the extensions with their settings, whoever asks (CAP-2, CAP-4)."""
        async with talking(colourful()) as talk:
            found = await talk.ask("server/discover")
        assert found["capabilities"]["extensions"] == {COLOURS: {"depth": 24}, SHAPES: {}}

    @pytest.mark.parametrize("extensions", [None, {}])
    async def test_none_unless_told(self, extensions: dict[str, Any] | None) -> None:
        """A server whose author named no extension declares none (CAP-3, CAP-4)."""
        async with talking(Server("plain", extensions=extensions)) as talk:
            assert "extensions" not in (await talk.ask("server/discover"))["capabilities"]

    @pytest.mark.parametrize("revision", LEGACY)
    @pytest.mark.parametrize("theirs", [None, {}, {COLOURS: {"a": 1}}])
    async def test_in_the_handshake(self, revision: str, theirs: dict[str, Any] | None) -> None:
        """`initialize` tells them to a client that has the word for them, and to no other (CAP-5)."""
        talk = Talk(revision)
        found = await greeted(colourful(), talk, {} if theirs is None else {"extensions": theirs})
        await talk.close()
        assert found.get("extensions") == (None if theirs is None else {COLOURS: {"depth": 24}, SHAPES: {}})
        assert "tools" in found

    @pytest.mark.parametrize("extensions", [{"colours": {}}, {COLOURS: None}, [COLOURS]])
    def test_what_cannot_be_declared(self, extensions: Any) -> None:
        """A name without a prefix, or settings that are no object, is an error at once (CAP-4)."""
        with pytest.raises(RegistrationError, match="extension"):
            Server("x", extensions=extensions)


class TestNegotiated:
    async def test_both_sides_must_have_declared_it(self) -> None:
        """A handler sees what both declared, with the client's settings (CAP-4)."""
        async with talking(colourful()) as talk:
            said = await talk.call("agreed", **declared({COLOURS: {"mine": 1}, "com.example/else": {}, SHAPES: True}))
            assert json.loads(text_of(said)) == {COLOURS: {"mine": 1}}

    async def test_each_request_says_it_anew(self) -> None:
        """What one request declared is nothing to the next (META-4, CAP-4)."""
        async with talking(colourful()) as talk:
            assert text_of(await talk.call("agreed", **declared({COLOURS: {}}))) != "{}"
            assert text_of(await talk.call("agreed")) == "{}"

    async def test_a_legacy_session_says_it_once(self) -> None:
        """What a legacy client declared in its handshake holds for the session (CAP-5)."""
        talk = Talk("2025-11-25")
        await greeted(colourful(), talk, {"extensions": {COLOURS: {"mine": 2}}})
        assert json.loads(text_of(await talk.call("agreed"))) == {COLOURS: {"mine": 2}}
        assert json.loads(text_of(await talk.call("paint"))) == {"mine": 2}
        await talk.close()

    @pytest.mark.parametrize("revision", [MODERN, *LEGACY])
    async def test_one_that_is_essential(self, revision: str) -> None:
        """Without it the client gets -32021 with what it lacks, in both eras, and is not served (CAP-4, ERR-2)."""
        async with talking(colourful(), revision) as talk:
            with pytest.raises(Refused) as caught:
                await talk.call("paint")
            assert caught.value.code == -32021
            assert caught.value.data == {"requiredCapabilities": {"extensions": {COLOURS: {}}}}
            assert COLOURS in caught.value.message
            assert text_of(await talk.call("agreed")) == "{}"

    async def test_one_that_the_author_forgot(self, caplog: pytest.LogCaptureFixture) -> None:
        """To require what the server itself did not declare is the author's mistake, which the log tells (CAP-4)."""
        server = Server("x")

        @server.tool
        async def paint(ctx: Context) -> str:
            ctx.require_extension(COLOURS)
            return "never"

        async with talking(server) as talk:
            assert (await talk.call("paint", **declared({COLOURS: {}})))["isError"] is True
        assert "does not speak the extension 'com.example/colours'" in caplog.text

    async def test_a_mistyped_declaration_is_refused(self) -> None:
        """Extensions that are no object at all are refused as other mistyped capabilities are (META-3)."""
        async with talking(colourful()) as talk:
            with pytest.raises(Refused, match="extensions"):
                await talk.call("agreed", **declared([COLOURS]))


class TestKinds:
    def server(self) -> Server:
        """A server that answers every `resources/list` with a kind of its own."""

        async def middleware(params: Any, ctx: Context, call: Any) -> Any:
            result = await call(params, ctx)
            if isinstance(result, ListResourcesResult | CallToolResult):
                result.result_type = "colour"
            return result

        server = Server("kinds", middleware=[middleware], extensions={COLOURS: {}})
        server.add_resource("a://b", lambda: "x", name="b")

        @server.tool
        async def paint() -> str:
            return "red"

        return server

    @pytest.mark.parametrize("method", ["resources/list", "tools/call"])
    async def test_only_for_clients_that_asked(self, method: str, caplog: pytest.LogCaptureFixture) -> None:
        """A result of an extension's kind goes to a client that declared it; for others it is a fault (RES-3)."""
        params = {"name": "paint"} if method == "tools/call" else {}
        async with talking(self.server()) as talk:
            assert (await talk.ask(method, params, **declared({COLOURS: {}})))["resultType"] == "colour"
            for other in ({}, declared({SHAPES: {}})):
                with pytest.raises(Refused, match="failed on the server") as caught:
                    await talk.ask(method, params, **other)
                assert caught.value.code == -32603
        assert "a result of kind 'colour' was made for a client that declared no extension" in caplog.text

    async def test_not_on_the_wire_of_those_who_have_no_word_for_it(self) -> None:
        """A legacy client never gets such a result with its kind cut off (RES-3, RES-5)."""
        async with talking(self.server(), "2025-11-25") as talk:
            with pytest.raises(Refused, match="failed on the server"):
                await talk.call("paint")


def tracing() -> Server:
    """A server with a tool that tells the trace it is in."""
    server = Server("tracing")

    @server.tool
    async def traced(ctx: Context) -> str:
        trace = ctx.trace
        return json.dumps(None if trace is None else [trace.traceparent, trace.tracestate, trace.baggage])

    return server


class TestTrace:
    @pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
    async def test_a_handler_sees_it(self, revision: str) -> None:
        """The trace in `_meta` is the handler's to read, beside a progress token or alone (TRC-1, META-2)."""
        trace = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "k=v"}
        async with talking(tracing(), revision) as talk:
            assert json.loads(text_of(await talk.call("traced", **trace))) == [PARENT, "a=1", "k=v"]
            assert json.loads(text_of(await talk.call("traced", progressToken=1, **trace))) == [PARENT, "a=1", "k=v"]
            assert text_of(await talk.call("traced")) == "null"

    async def test_requests_do_not_share_one(self) -> None:
        """Each request has the trace it brought, though all else in their `_meta` is the same (TRC-1, META-4)."""
        async with talking(tracing()) as talk:
            for n in (1, 2, 1):
                parent = f"00-{n:032x}-{n:016x}-00"
                assert json.loads(text_of(await talk.call("traced", traceparent=parent))) == [parent, None, None]
            assert text_of(await talk.call("traced")) == "null"

    @pytest.mark.parametrize("bad", ["", "00-1-2-01", 5, None, {"a": 1}, [PARENT], "x" * 100_000])
    async def test_what_is_none_is_ignored(self, bad: Any) -> None:
        """A value of a wrong type or format counts as absent and refuses nothing (TRC-1)."""
        async with talking(tracing()) as talk:
            said = await talk.call("traced", traceparent=bad, tracestate=bad, baggage=bad)
            assert text_of(said) == "null"

    async def test_traced_requests_push_nothing_out(self) -> None:
        """What is remembered of clients' usual `_meta` is not given up for requests that each have another (META-4)."""
        server = tracing()
        async with talking(server) as talk:
            await talk.call("traced")
            known = dict(server._engine._peers)
            assert len(known) == 1
            for n in range(1, 70):
                await talk.call("traced", traceparent=f"00-{n:032x}-{n:016x}-00")
            assert server._engine._peers == known

    async def test_without_any_meta(self) -> None:
        """A legacy request without `_meta` is in no trace (TRC-1)."""
        async with talking(tracing(), "2024-11-05") as talk:
            assert text_of(await talk.call("traced")) == "null"


def register(server: Server, kind: str, **options: Any) -> None:
    """Register one thing of that kind, called x."""
    if kind == "tool":
        server.add_tool(lambda: "x", name="x", **options)
    elif kind == "prompt":
        server.add_prompt(lambda: Message("x"), name="x", **options)
    elif kind == "template":
        server.add_resource("x://{a}", lambda a: a, name="x", **options)
    else:
        server.add_resource("x://x", lambda: "x", name="x", **options)


KINDS = pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "template"])


class TestDefinitions:
    @KINDS
    @pytest.mark.parametrize("key", ["_x", "a b", f"{PREFIX}x", "a/b/"])
    def test_keys_outside_the_grammar(self, kind: str, key: str) -> None:
        """A key of `meta` that is outside the grammar, or the protocol's own, is an error that names both (META-6)."""
        with pytest.raises(RegistrationError, match=f"'x[^']*': the key '{key}' of `_meta`"):
            register(Server("s"), kind, meta={"fine": 1, key: 2})

    @KINDS
    def test_keys_of_ones_own(self, kind: str) -> None:
        """Keys of the grammar are taken, and those of an extension that the server declares (META-6, CAP-4)."""
        meta = {"fine": 1, "com.example/x": 2, "io.modelcontextprotocol.skills/digest": "sha256:0"}
        register(Server("s", extensions={"io.modelcontextprotocol/skills": {}}), kind, meta=meta)
        with pytest.raises(RegistrationError, match=r"io\.modelcontextprotocol\.skills/digest"):
            register(Server("s"), kind, meta=meta)

    @KINDS
    @pytest.mark.parametrize("src", ["http://x.example/i.png", "javascript:alert(1)", "file:///i.png", "i.png"])
    def test_icons_at_other_addresses(self, kind: str, src: str) -> None:
        """An icon that is not at an https or data URI is an error at registration (ICO-1)."""
        with pytest.raises(RegistrationError, match=r"'x[^']*': an icon is at .* must be an https: or data: URI"):
            register(Server("s"), kind, icons=[Icon("data:image/png;base64,AA=="), Icon(src)])

    def test_icons_of_the_server(self) -> None:
        """The server's own icons are held to the same (ICO-1, IMPL-1)."""
        with pytest.raises(RegistrationError, match="server 's': an icon is at 'ftp://x'"):
            Server("s", icons=[Icon("ftp://x")])
