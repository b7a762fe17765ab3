"""The trace that a client's requests carry."""

from __future__ import annotations

from typing import Any

import pytest

from jackfield import Client, Context, Server
from jackfield.protocol.meta import Trace
from tests.client.fakes import Fake, legacy, modern, text_result

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
TRACE = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "k=v"}
BOTH = pytest.mark.parametrize("make", [modern, legacy])
KEYS = set(TRACE)


def served(make: Any) -> Fake:
    """A server that answers all that is asked of it here."""
    contents = {"contents": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    prompt = {"messages": [], "resultType": "complete"}
    tools = {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return make(tools__call=text_result(""), prompts__get=prompt, resources__read=contents, tools__list=tools)


def sent(server: Fake, method: str) -> list[dict[str, Any]]:
    """The trace of each request of that method."""
    return [
        {key: value for key, value in params.get("_meta", {}).items() if key in KEYS} for params in server.asked(method)
    ]


@BOTH
async def test_every_request_carries_it(make: Any) -> None:
    """Calls, reads, prompts and lists carry what `trace` gives, with whatever options they are made (TRC-1)."""
    server = served(make)
    async with Client(server, trace=lambda: TRACE) as client:
        await client.call_tool("a")
        await client.call_tool("a", timeout=5)
        await client.call_tool("a", progress=lambda *_: None, meta={"example.com/x": 1})
        await client.read_resource("a:b")
        await client.get_prompt("p")
        await client.list_tools()
        await client.ping()
    assert sent(server, "tools/call") == [TRACE] * 3
    assert server.asked("tools/call")[2]["_meta"]["example.com/x"] == 1
    for method in ("resources/read", "prompts/get", "tools/list", "server/discover" if make is modern else "ping"):
        assert sent(server, method)[-1] == TRACE, method


@BOTH
async def test_each_request_has_its_own(make: Any) -> None:
    """`trace` is asked anew for each request, and progress still goes by the request's id (TRC-1, PRG-1)."""
    server, traces = served(make), iter([{"traceparent": PARENT}, None, {"traceparent": OTHER}])
    async with Client(server, trace=lambda: next(traces)) as client:
        for _ in range(3):
            await client.call_tool("a")
    assert sent(server, "tools/call") == [{"traceparent": PARENT}, {}, {"traceparent": OTHER}]
    calls = [message for message in server.heard if message.get("method") == "tools/call"]
    assert all(message["params"]["_meta"]["progressToken"] == message["id"] for message in calls)


async def test_what_the_caller_gives_wins() -> None:
    """A trace in the call's own `meta` is sent in place of the usual one (TRC-1)."""
    server = served(modern)
    async with Client(server, trace=lambda: TRACE) as client:
        await client.call_tool("a", meta={"traceparent": OTHER})
    assert sent(server, "tools/call") == [TRACE | {"traceparent": OTHER}]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, {}),
        ({}, {}),
        ({"traceparent": "nonsense", "tracestate": "a=1"}, {}),
        ({"traceparent": PARENT, "baggage": "no baggage", "b3": "1"}, {"traceparent": PARENT}),
        ({"baggage": "k=v"}, {"baggage": "k=v"}),
        ({"traceparent": 5}, {}),
        (Trace(PARENT, "a=1", "secret=1"), {"traceparent": PARENT, "tracestate": "a=1"}),
        (7, {}),
    ],
)
@BOTH
async def test_only_what_has_the_format_is_sent(make: Any, given: Any, kept: dict[str, str]) -> None:
    """Other keys and values without the W3C format are left out, and so is the baggage of somebody else's request
    (TRC-1).
    """
    server = served(make)
    async with Client(server, trace=lambda: given) as client:
        await client.call_tool("a")
        await client.list_tools()
    assert sent(server, "tools/call") == [kept]
    assert sent(server, "tools/list") == [kept]


async def test_a_trace_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """What `trace` raises is logged, and the request is made without (TRC-1)."""

    def fail() -> None:
        raise RuntimeError("no tracer")

    server = served(modern)
    async with Client(server, trace=fail) as client:
        await client.call_tool("a")
    assert sent(server, "tools/call") == [{}]
    assert "the trace callback failed" in caplog.text


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_from_handler_to_handler(mode: str) -> None:
    """A tool that calls another server hands on the trace it is in, and no baggage (TRC-1)."""
    seen: list[Trace | None] = []
    inner, outer = Server("inner"), Server("outer")

    @inner.tool
    async def work(ctx: Context) -> None:
        seen.append(ctx.trace)

    @outer.tool
    async def delegate(ctx: Context) -> None:
        seen.append(ctx.trace)
        async with Client(inner, mode=mode, trace=lambda: ctx.trace) as client:
            await client.call_tool("work")

    async with Client(outer, mode=mode, trace=lambda: TRACE) as client:
        await client.call_tool("delegate")
    assert seen == [Trace(PARENT, "a=1", "k=v"), Trace(PARENT, "a=1")]
