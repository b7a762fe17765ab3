"""Middleware: what it sees, changes and refuses, and what becomes of its mistakes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from jackfield import Context, Message, ProtocolError, RegistrationError, Server, ToolError
from jackfield.protocol.types import CallToolParams, CallToolResult, ListToolsResult, Result, TextContent
from jackfield.server import engine as engine_module
from tests.server.talk import CLIENT, LEGACY, MODERN, PREFIX, Refused, Talk, talking, text_of


def server_with(*middleware: Any) -> Server:
    server = Server("middle", middleware=middleware)

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool(name="secret")
    def secret() -> str:
        return "secret"

    server.add_resource("x://a", lambda: "a")
    server.add_resource("x://{b}/b", lambda b: b)
    server.add_prompt(lambda a: [Message(a)], name="p")
    server.add_completion("p", "a", lambda typed: [typed])
    return server


async def test_the_first_is_the_outermost() -> None:
    """Middleware runs in the order in which it was given, around the handler, and is undone in reverse."""
    order = []

    def noting(name: str) -> Any:
        async def middleware(params: Any, ctx: Context, next: Any) -> Any:
            order.append(f"{name} in")
            result = await next(params, ctx)
            order.append(f"{name} out")
            return result

        return middleware

    async with talking(server_with(noting("a"), noting("b"))) as talk:
        await talk.call("add", {"a": 1, "b": 2})
    assert order == ["a in", "b in", "b out", "a out"]


async def test_every_method_is_seen() -> None:
    """Middleware goes around each method that has a handler, `initialize`, ping and the lists included."""
    seen = []

    async def note(params: Any, ctx: Context, next: Any) -> Any:
        seen.append(ctx.method)
        return await next(params, ctx)

    server = server_with(note)
    reads: list[tuple[str, dict[str, Any]]] = [
        ("tools/list", {}),
        ("tools/call", {"name": "secret"}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "x://a"}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "p", "arguments": {"a": "b"}}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
    ]
    async with talking(server, LEGACY[0]) as talk:
        for method, params in [("ping", {}), ("logging/setLevel", {"level": "error"}), *reads]:
            await talk.ask(method, params)
        with pytest.raises(Refused):
            await talk.ask("no/method")
    assert seen == ["initialize", "ping", "logging/setLevel", *[method for method, _ in reads]]
    seen.clear()
    async with talking(server) as talk:
        for method, params in [("server/discover", {}), *reads]:
            await talk.ask(method, params)
    assert seen == ["server/discover", *[method for method, _ in reads]]


async def test_params_and_results_may_be_changed() -> None:
    """What is handed on is what the handler gets, and what is returned is what the client gets (with the stamp,
    RES-4).
    """

    async def change(params: Any, ctx: Context, next: Any) -> Any:
        if isinstance(params, CallToolParams):
            arguments = msgspec.json.decode(params.arguments)
            params = msgspec.structs.replace(params, arguments=msgspec.Raw(msgspec.json.encode({**arguments, "b": 40})))
        result = await next(params, ctx)
        if isinstance(result, ListToolsResult):
            result.tools = [tool for tool in result.tools if tool.name != "secret"]
        if isinstance(result, CallToolResult):
            return CallToolResult([*result.content, TextContent("changed")])
        return result

    server = server_with(change)
    for revision in (MODERN, LEGACY[0]):
        async with talking(server, revision) as talk:
            for _ in range(2):
                assert [tool["name"] for tool in (await talk.ask("tools/list"))["tools"]] == ["add"]
            result = await talk.call("add", {"a": 2, "b": 3})
            assert [block["text"] for block in result["content"]] == ["42", "changed"]
            assert ("resultType" in result, "_meta" in result) == (revision == MODERN, revision == MODERN)


async def test_it_may_answer_by_itself_and_the_same_twice() -> None:
    """A middleware that keeps results and gives them again, in both eras, breaks neither (RES-5)."""
    kept: dict[str, Result] = {}

    async def keep(params: Any, ctx: Context, next: Any) -> Any:
        if ctx.method not in kept:
            kept[ctx.method] = await next(params, ctx)
        return kept[ctx.method]

    server = server_with(keep)
    async with talking(server) as modern, talking(server, LEGACY[0]) as legacy:
        first = await modern.ask("tools/list"), await modern.call("add", {"a": 1, "b": 1})
        old = await legacy.ask("tools/list"), await legacy.call("add", {"a": 9, "b": 9})
        assert old[0].keys() == {"tools"}
        assert old[1].keys() == {"content", "structuredContent"}
        assert (await modern.ask("tools/list"), await modern.call("add", {"a": 5, "b": 5})) == first
        assert text_of(old[1]) == "2"


async def test_a_refusal_is_a_protocol_error() -> None:
    """A ProtocolError that is raised around any method is the answer."""

    async def refuse(params: Any, ctx: Context, next: Any) -> Any:
        if ctx.method != "initialize":
            raise ProtocolError(99, "not you", {"method": ctx.method})
        return await next(params, ctx)

    for revision in (MODERN, LEGACY[0]):
        async with talking(server_with(refuse), revision) as talk:
            for method in ("tools/list", "resources/list"):
                with pytest.raises(Refused) as caught:
                    await talk.ask(method)
                assert (caught.value.code, caught.value.data) == (99, {"method": method})


async def test_a_tool_error_is_the_tools() -> None:
    """A ToolError around a call is `isError`, for the model; around any other method it is an error with its text."""

    async def refuse(params: Any, ctx: Context, next: Any) -> Any:
        if ctx.method == "initialize":
            return await next(params, ctx)
        raise ToolError("Closed until nine.")

    for revision in (MODERN, LEGACY[0]):
        async with talking(server_with(refuse), revision) as talk:
            result = await talk.call("add", {"a": 1, "b": 2})
            assert (text_of(result), result["isError"]) == ("Closed until nine.", True)
            assert ("resultType" in result) is (revision == MODERN)
            with pytest.raises(Refused, match="Closed until nine") as caught:
                await talk.ask("tools/list")
            assert caught.value.code == -32603


@pytest.mark.parametrize("returned", [None, {}, "text", [], 0])
async def test_a_middleware_that_loses_the_result_is_told(returned: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever is no result is an internal error, and the log says what a middleware must return."""

    async def lose(params: Any, ctx: Context, next: Any) -> Any:
        await next(params, ctx)
        return returned

    async with talking(server_with(lose)) as talk:
        for method in ("tools/list", "resources/list"):
            with pytest.raises(Refused) as caught:
                await talk.ask(method)
            assert caught.value.code == -32603
    assert f"a middleware returned {type(returned).__name__}; it must return the result that `next` gave" in caplog.text


@pytest.mark.parametrize("fault", [OSError("secret"), SystemExit("secret"), asyncio.CancelledError("secret")])
async def test_a_middleware_that_fails_fails_one_request(fault: BaseException) -> None:
    """What a middleware raises ends that request with an error without a cause, and nothing else (O03)."""

    async def fail(params: Any, ctx: Context, next: Any) -> Any:
        if ctx.method == "tools/list":
            raise fault
        return await next(params, ctx)

    async with talking(server_with(fail)) as talk:
        with pytest.raises(Refused) as caught:
            await talk.ask("tools/list")
        assert caught.value.code == -32603
        assert text_of(await talk.call("add", {"a": 1, "b": 2})) == "3"
        assert "secret" not in json.dumps([frame.get("error") for frame in talk.frames])


def handshake(revision: str = LEGACY[0]) -> list[dict[str, Any]]:
    """Four messages as a hasty client sends them, all at once."""
    hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
    return [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}},
    ]


async def send_all(server: Server, messages: list[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    """Send all messages before anything is answered; the answers by id."""
    talk = Talk(LEGACY[0])
    await server.__mcp_connect__(talk.on)  # type: ignore[arg-type]
    loop = asyncio.get_running_loop()
    talk._answers = {message["id"]: loop.create_future() for message in messages if "id" in message}
    for message in messages:
        talk.write(message)
    _, unanswered = await asyncio.wait(talk._answers.values(), timeout=10)
    assert not unanswered
    await talk.close()
    return {frame["id"]: frame for frame in talk.frames}


class TestHandshakeInOneRead:
    async def test_what_follows_a_slow_initialize_waits_for_it(self) -> None:
        """Requests that arrive with `initialize` in one read are served after it, though a middleware makes it wait."""

        async def slow(params: Any, ctx: Context, next: Any) -> Any:
            if ctx.method == "initialize":
                for _ in range(5):
                    await asyncio.sleep(0)
            return await next(params, ctx)

        for server in (server_with(slow), server_with()):
            answers = await send_all(server, handshake())
            assert all("result" in answer for answer in answers.values()), answers
            assert text_of(answers[3]["result"]) == "3"

    async def test_what_follows_a_failed_initialize_is_refused(self) -> None:
        """When the handshake is refused what came with it is too, and the next conversation may succeed."""
        tries = []

        async def refuse_once(params: Any, ctx: Context, next: Any) -> Any:
            if ctx.method == "initialize":
                tries.append(1)
                await asyncio.sleep(0)
                if len(tries) == 1:
                    raise ProtocolError(-1, "try again")
            return await next(params, ctx)

        server = server_with(refuse_once)
        answers = await send_all(server, handshake())
        assert answers[1]["error"]["message"] == "try again"
        assert [answers[n]["error"]["code"] for n in (2, 3)] == [-32602, -32602]
        assert all("result" in answer for answer in (await send_all(server, handshake())).values())

    async def test_two_slow_handshakes_leave_nobody_waiting(self) -> None:
        """Two `initialize` that overlap: what came between them is answered all the same (F34)."""
        gates = [asyncio.Event(), asyncio.Event()]
        order = iter(gates)

        async def gated(params: Any, ctx: Context, next: Any) -> Any:
            if ctx.method == "initialize":
                await next_gate(order).wait()
            return await next(params, ctx)

        def next_gate(gates: Any) -> asyncio.Event:
            return next(gates)

        first, _, list_tools, call = handshake()
        sending = asyncio.create_task(send_all(server_with(gated), [first, list_tools, {**first, "id": 9}, call]))
        for _ in range(10):
            await asyncio.sleep(0)
        gates[0].set()
        for _ in range(10):
            await asyncio.sleep(0)
        gates[1].set()
        answers = await sending
        assert all("result" in answer for answer in answers.values()), answers

    async def test_a_cancelled_initialize_leaves_nobody_waiting(self) -> None:
        """A handshake that is cancelled, though no client may do that, is none; what waited for it is refused
        (CAN-4).
        """

        async def stuck(params: Any, ctx: Context, next: Any) -> Any:
            if ctx.method == "initialize":
                await asyncio.Event().wait()
            return await next(params, ctx)

        first, _, list_tools, _ = handshake()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        talk = Talk(LEGACY[0])
        await server_with(stuck).__mcp_connect__(talk.on)  # type: ignore[arg-type]
        talk._answers[2] = asyncio.get_running_loop().create_future()
        talk.write(first)
        talk.write(list_tools)
        await talk.settled()
        talk.write(cancel)
        with pytest.raises(Refused, match="came before `initialize`"):
            await talk.answer(2)
        await talk.close()


async def test_chains_are_built_when_something_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No chain of middleware is built for a request."""
    built = []
    wrapped = engine_module._wrapped

    def counted(*given: Any) -> Any:
        built.append(given)
        return wrapped(*given)

    monkeypatch.setattr(engine_module, "_wrapped", counted)

    async def note(params: Any, ctx: Context, next: Callable[..., Any]) -> Any:
        return await next(params, ctx)

    server = server_with(note)
    before = len(built)
    async with talking(server) as talk:
        for _ in range(5):
            await talk.call("add", {"a": 1, "b": 2})
    assert before > 0
    assert len(built) == before


async def test_it_is_there_for_what_is_registered_later() -> None:
    """A tool that is added while clients talk is behind the middleware too."""

    async def refuse(params: Any, ctx: Context, next: Any) -> Any:
        if ctx.method.startswith("tools/"):
            raise ProtocolError(99, "no")
        return await next(params, ctx)

    server = Server("middle", middleware=[refuse])
    async with talking(server) as talk:
        server.add_tool(lambda: "late", name="late")
        for ask in (talk.call("late"), talk.ask("tools/list")):
            with pytest.raises(Refused, match="no"):
                await ask


async def test_params_keep_what_the_request_said_of_itself() -> None:
    """Middleware finds the request's own `_meta` undecoded in the params."""
    seen = []

    async def look(params: Any, ctx: Context, next: Any) -> Any:
        seen.append(msgspec.json.decode(params.meta).get("traceparent"))
        return await next(params, ctx)

    async with talking(server_with(look)) as talk:
        await talk.ask("tools/list", traceparent="00-1-2-03")
        await talk.ask("tools/list", **{PREFIX + "logLevel": "info"})
    assert seen == ["00-1-2-03", None]


def test_middleware_comes_in_a_sequence() -> None:
    """One function in the place of the sequence is told how to write it."""

    async def one(params: Any, ctx: Context, next: Any) -> Any: ...

    with pytest.raises(RegistrationError, match=r"middleware is a sequence; write middleware=\[\.\.\.\]"):
        Server("middle", middleware=one)  # type: ignore[arg-type]
