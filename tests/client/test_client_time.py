"""Calls over time: many at once, timeouts, cancellation and progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jackfield import Context, Server
from jackfield.client.client import Client
from jackfield.protocol.errors import (
    InvalidResult,
    RequestTimeout,
)
from jackfield.protocol.limits import Limits
from tests.client.fakes import Fake, legacy, modern, text_result


async def test_many_calls_at_once() -> None:
    """Any number of calls are under way together; each gets its own answer, in whatever order they come (F86)."""
    held: list[dict[str, Any]] = []
    server = modern(tools__call=lambda message: held.append(message) or Fake.SILENT)
    async with Client(server) as client:
        calls = [asyncio.create_task(client.call_tool("a", {"n": n})) for n in range(20)]
        await server.until(lambda: len(server.asked("tools/call")) == 20)
        await asyncio.sleep(0)
        for message in reversed(held):
            n = message["params"]["arguments"]["n"]
            server.say(
                {"id": message["id"], "result": text_result(str(n))}
                if n != 7
                else b'{"jsonrpc":"2.0","id":%d}' % message["id"]
            )
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results[7], InvalidResult)
    assert [result.text for n, result in enumerate(results) if n != 7] == [str(n) for n in range(20) if n != 7]


async def test_timeout_cancels_at_the_server() -> None:
    """A call whose time is over fails here and is cancelled there, by its id (CAN-5, F39)."""
    server = modern(tools__call=Fake.SILENT)
    async with Client(server) as client:
        with pytest.raises(RequestTimeout, match=r"fake gave no answer to tools/call in time"):
            await client.call_tool("a", timeout=0.01)
    id = next(message["id"] for message in server.heard if message["method"] == "tools/call")
    assert server.asked("notifications/cancelled") == [{"requestId": id}]


@pytest.mark.parametrize("how", ["timeout", "cancel"])
async def test_calls_that_are_given_up(how: str) -> None:
    """50 calls that run out of time or are given up make 50 cancellations with the right ids (CAN-1, F39)."""
    server = modern(tools__call=Fake.SILENT)
    async with Client(server) as client:
        timeout = 0.05 if how == "timeout" else None
        calls = [asyncio.create_task(client.call_tool("a", timeout=timeout)) for _ in range(50)]
        await server.until(lambda: len(server.asked("tools/call")) == 50)
        if how == "cancel":
            for call in calls:
                call.cancel()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        kind = RequestTimeout if how == "timeout" else asyncio.CancelledError
        assert all(isinstance(outcome, kind) for outcome in outcomes)
        ids = {message["id"] for message in server.heard if message["method"] == "tools/call"}
        assert {params["requestId"] for params in server.asked("notifications/cancelled")} == ids
        assert len(server.asked("notifications/cancelled")) == 50


# ---- progress


async def test_progress() -> None:
    """With a callback a call asks for progress and passes it on, plain or async (PRG-1)."""
    heard: list[Any] = []
    done = asyncio.Event()

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))
        if len(heard) == 4:
            done.set()

    def work(message: dict[str, Any]) -> Any:
        token = message["params"]["_meta"]["progressToken"]
        assert token == message["id"]
        server.notify(
            "notifications/progress", {"progressToken": token, "progress": 0.5, "total": 2, "message": "half"}
        )
        server.notify("notifications/progress", {"progressToken": token, "progress": 1})
        return text_result("")

    server = modern(tools__call=work)
    async with Client(server) as client:
        await client.call_tool("a", progress=lambda *values: heard.append(values))
        await client.call_tool("a", progress=listen)
        await done.wait()
    assert heard == 2 * [(0.5, 2, "half"), (1, None, None)]


async def test_progress_resets_the_timeout() -> None:
    """With a timeout but no callback a call asks for progress by itself, and each step starts the time anew (F42)."""
    pace = 0.1

    def work(message: dict[str, Any]) -> Any:
        token, loop = message["params"]["_meta"]["progressToken"], asyncio.get_running_loop()
        for step in range(1, 8):
            loop.call_later(
                step * pace, server.notify, "notifications/progress", {"progressToken": token, "progress": step}
            )
        loop.call_later(8 * pace, server.say, {"id": message["id"], "result": text_result("done")})
        return Fake.SILENT

    server = modern(tools__call=work)
    async with Client(server) as client:
        assert (await client.call_tool("a", timeout=5 * pace)).text == "done"
    async with Client(server, timeout=5 * pace) as client:
        assert (await client.call_tool("a")).text == "done"


async def test_progress_has_a_hard_cap() -> None:
    """Progress without end does not keep a call alive for ever (LIFE-7)."""

    def work(message: dict[str, Any]) -> Any:
        token, loop = message["params"]["_meta"]["progressToken"], asyncio.get_running_loop()

        def tick(step: int = 1) -> None:
            server.notify("notifications/progress", {"progressToken": token, "progress": step})
            loop.call_later(0.01, tick, step + 1) if step < 1000 else None

        tick()
        return Fake.SILENT

    server = modern(tools__call=work)
    async with Client(server, limits=Limits(request_total=0.1)) as client:
        with pytest.raises(RequestTimeout, match="limit `request_total`"):
            await client.call_tool("a", timeout=0.05)


@pytest.mark.parametrize("make", [modern, legacy])
async def test_what_can_take_long_asks_for_progress(make: Callable[..., Fake]) -> None:
    """Without any option calls, reads and prompts ask for progress under their id, first of all in `_meta` (F42)."""
    prompt = {"messages": [], "resultType": "complete"}
    contents = {"contents": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    server = make(tools__call=text_result(""), prompts__get=prompt, resources__read=contents, tools__list={"tools": []})
    async with Client(server) as client:
        await client.call_tool("a")
        await client.call_tool("a", meta={"x/y": 1})
        await client.read_resource("a:b")
        await client.get_prompt("p")
    asked = [
        message for message in server.heard if message.get("method") in ("tools/call", "resources/read", "prompts/get")
    ]
    assert len(asked) == 4
    for message in asked:
        assert next(iter(message["params"]["_meta"].items())) == ("progressToken", message["id"])
    assert asked[1]["params"]["_meta"]["x/y"] == 1


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_progress_resets_the_timeout_that_nobody_named(mode: str) -> None:
    """A tool that reports progress may take longer than the usual timeout, with no option given (F42)."""
    server = Server("slow")

    @server.tool
    async def work(ctx: Context) -> str:
        for step in range(8):
            await asyncio.sleep(0.1)
            await ctx.report_progress(step)
        return "done"

    async with Client(server, mode=mode, limits=Limits(request_timeout=0.5)) as client:
        assert (await client.call_tool("work")).text == "done"
