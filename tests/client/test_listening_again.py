"""Streams that the server ends, or that are lost: how they are begun again, and how many there may be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.client import subscription
from jackfield.client.client import Client
from jackfield.protocol.errors import (
    LimitExceeded,
    NotSupported,
    PeerError,
)
from jackfield.protocol.events import Event
from jackfield.protocol.limits import Limits
from tests.client.fakes import DISCOVERED, Fake, Fault, text_result
from tests.client.listens import (
    TOOLS,
    acknowledge,
    begin,
    cancelled,
    changed,
    end_with_a_cancellation,
    end_with_a_result,
    end_with_an_error,
    end_with_the_connection,
    no_waits,
    silent,
    streams,
    take,
    telling,
    updated,
)

# ---- the end, on the other side


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_waits(monkeypatch)


@pytest.mark.parametrize(
    "end", [end_with_a_result, end_with_a_cancellation, end_with_an_error, end_with_the_connection]
)
async def test_listening_again(end: Callable[[Fake, Any], None], waits: list[float]) -> None:
    """Whatever ends it, it is begun again at once; then all may have changed: one event each, nothing is kept.

    (SUB-5, SUB-6, SUB-8, CCH-5)
    """
    server = telling(tools__list={"tools": [], "ttlMs": 60_000, "resultType": "complete"})
    async with Client(server) as client, client.listen(tools=True, uris=["a:b"]) as events:
        await client.list_tools()
        end(server, streams(server)[0])
        assert await take(events, 2) == [TOOLS, Event("resource", "a:b")]
        first, second = streams(server)
        again = server.starts == 2
        assert again == (end is end_with_the_connection)
        assert (first != second) or again
        await client.list_tools()
        updated(server, "a:b", second)
        assert await take(events, 1) == [Event("resource", "a:b")]
        assert waits == [0.0]
        assert cancelled(server) == []
    assert server.methods().count("tools/list") == 2
    assert cancelled(server) == [second]


async def test_a_cancellation_of_something_else(waits: list[float]) -> None:
    """A cancellation that names no stream of ours ends none (CAN-3)."""
    server = telling()
    async with Client(server) as client, client.listen() as events:
        for params in ({}, {"requestId": 99}, {"requestId": str(streams(server)[0])}, {"requestId": [1]}):
            server.notify("notifications/cancelled", params)
        assert await silent(events)
        changed(server, "tools", streams(server)[0])
        assert await take(events, 1) == [TOOLS]
    assert waits == []


async def test_a_server_that_always_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends each stream at once is asked ever less often, one that let us listen for a while is not."""
    waits: list[float] = []
    enough = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 12:
            enough.set()
            await asyncio.Event().wait()

    def listen(message: dict[str, Any]) -> object:
        acknowledge(server, message)
        end_with_a_result(server, message["id"])
        return Fake.SILENT

    monkeypatch.setattr(subscription, "sleep", sleep)
    server = telling(listen)
    async with Client(server) as client, client.listen():
        await enough.wait()
    assert waits[0] == 0.0
    ideal = [min(0.5 * 2**n, 30.0) for n in range(11)]
    assert all(0.75 * least <= wait <= 1.25 * least for wait, least in zip(waits[1:], ideal, strict=True))
    assert len(set(waits)) == 12  # not all clients at the same time
    waits.clear()
    enough.clear()
    monkeypatch.setattr(subscription, "LIVED", 0.0)
    async with Client(server) as client, client.listen():
        await enough.wait()
    assert waits == [0.0] * 12


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (Fault(-32603, "server busy"), True),
        (Fault(-32000, "shutting down"), True),
        ({"resultType": "complete"}, True),
        (Fault(-32602, "no such resource"), False),
        (Fault(-32601), False),
        (Fault(-32021, "no", {"requiredCapabilities": {}}), False),
    ],
)
async def test_what_may_pass(answer: Any, passes: bool, waits: list[float]) -> None:
    """After it was acknowledged once only a refusal that will be the same the next time ends it."""
    answers: list[Any] = [None, answer, answer, None]

    def listen(message: dict[str, Any]) -> object:
        answer = answers.pop(0)
        return acknowledge(server, message) if answer is None else answer

    server = telling(listen)
    async with Client(server) as client, client.listen(tools=True) as events:
        end_with_a_result(server, streams(server)[0])
        if passes:
            assert await take(events, 1) == [TOOLS]
            assert len(waits) == 3
        else:
            with pytest.raises((NotSupported, PeerError)):
                await take(events, 1)
            assert [event async for event in events] == []
            assert waits == [0.0]


async def test_events_of_before_the_end() -> None:
    """What was heard before the server refused to go on is given first."""
    answers: list[Any] = [None, Fault(-32601)]

    def listen(message: dict[str, Any]) -> object:
        answer = answers.pop(0)
        return acknowledge(server, message) if answer is None else answer

    server = telling(listen)
    async with Client(server) as client, client.listen() as events:
        (id,) = streams(server)
        changed(server, "tools", id)
        end_with_a_result(server, id)
        await server.until(lambda: len(streams(server)) == 2)
        for _ in range(5):
            await asyncio.sleep(0)
        assert await take(events, 1) == [TOOLS]
        with pytest.raises(NotSupported):
            await take(events, 1)


async def test_a_server_that_cannot_be_started_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """While there is no connection whoever makes one ends the wait of those who listen (SUB-8)."""
    paused, waits = asyncio.Event(), 0

    async def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits > 2:
            paused.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(subscription, "sleep", sleep)
    server = telling(tools__call=text_result("hi"))
    async with Client(server, mode="modern") as client, client.listen(tools=True) as events:
        server.answers["server/discover"] = Fake.EXIT
        end_with_the_connection(server, 0)
        await paused.wait()
        assert len(streams(server)) == 1
        server.answers["server/discover"] = DISCOVERED
        assert (await client.call_tool("a")).text == "hi"
        assert await take(events, 1) == [TOOLS]
        assert waits == 3


async def test_connections_that_come_and_go_while_it_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What others do meanwhile neither ends a wait that was earned, nor those that follow it."""
    caplog.set_level(logging.INFO, "jackfield")
    waits: list[float] = []
    asleep, awake, enough = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        asleep.set()
        await awake.wait()
        if len(waits) == 5:
            enough.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(subscription, "sleep", sleep)
    server = telling(tools__call=text_result("hi"))
    async with Client(server, mode="modern") as client, client.listen(tools=True) as events:
        end_with_a_result(server, streams(server)[0])
        await asleep.wait()
        for _ in range(2):
            end_with_the_connection(server, 0)
            await client.call_tool("a")
        assert len(streams(server)) == 1
        end_with_the_connection(server, 0)
        server.answers["server/discover"] = Fake.EXIT
        awake.set()
        await enough.wait()
        server.answers["server/discover"] = DISCOVERED
        await client.call_tool("a")
        assert await take(events, 1) == [TOOLS]
    assert waits[0] == 0.0
    assert waits[-1] > 3.0
    assert "fake: listening again in 0.0 s: the server ended it" in caplog.text


async def test_crashes_while_two_listen(waits: list[float]) -> None:
    """A server that dies of each request to listen is started again ever less often, however many listen (F11)."""
    ready = {"listening": True}

    def listen(message: dict[str, Any]) -> object:
        if ready["listening"]:
            return acknowledge(server, message)
        return Fake.EXIT if server.starts < 9 else acknowledge(server, message)

    server = telling(listen)
    async with Client(server) as client, client.listen(tools=True) as one, client.listen(tools=True) as other:
        ready["listening"] = False
        end_with_the_connection(server, 0)
        assert await take(one, 1) + await take(other, 1) == [TOOLS] * 2
        assert sorted(waits)[:2] == [0.0, 0.0]
        assert len([wait for wait in waits if wait > 0]) >= 7


# ---- limits


async def test_limits() -> None:
    """Streams and resources are bounded (limits `listens`, `watched`); what has ended makes room."""
    server = telling()
    async with Client(server, limits=Limits(listens=2, watched=3)) as client:
        with pytest.raises(LimitExceeded, match="`watched`"):
            client.listen(uris=[f"a:{n}" for n in range(4)])
        async with client.listen(uris=[f"a:{n}" for n in range(3)]):
            async with client.listen():
                with pytest.raises(LimitExceeded, match="`listens`"):
                    await begin(client.listen(), "iterate")
            await begin(client.listen(), "enter")


async def test_places() -> None:
    """Streams never wait for a place among requests, and never take the last one (limit `asking`)."""
    server = telling(tools__call=Fake.SILENT, prompts__list={"prompts": []})
    async with Client(server, limits=Limits(asking=2)) as client:
        calls = [asyncio.ensure_future(client.call_tool("a")) for _ in range(3)]
        await server.until(lambda: server.methods().count("tools/call") == 2)
        async with client.listen() as events:
            changed(server, "tools", streams(server)[0])
            assert await take(events, 1) == [TOOLS]
            with pytest.raises(LimitExceeded, match="`asking`"):
                await begin(client.listen(), "enter")
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            assert await client.list_prompts() == []
        waiting = [asyncio.ensure_future(client.list_prompts()) for _ in range(5)]
        assert await asyncio.gather(*waiting) == [[]] * 5


async def test_a_stream_that_ends_makes_room_for_a_call() -> None:
    """A call that waits for a place gets that of a stream (limit `asking`)."""
    server = telling(tools__call=Fake.SILENT, prompts__list={"prompts": []})
    async with Client(server, limits=Limits(asking=2)) as client:
        events = client.listen()
        await events.__aenter__()
        call = asyncio.ensure_future(client.call_tool("a"))
        await server.until(lambda: "tools/call" in server.methods())
        waiting = asyncio.ensure_future(client.list_prompts())
        await asyncio.sleep(0)
        assert "prompts/list" not in server.methods()
        await events.aclose()
        assert await waiting == []
        call.cancel()


ENDS = {
    "result": end_with_a_result,
    "cancellation": end_with_a_cancellation,
    "error": end_with_an_error,
    "loss": end_with_the_connection,
}


@given(st.lists(st.sampled_from(["news", "take", *ENDS]), max_size=12))
def test_every_stream_ends_once(steps: list[str]) -> None:
    """Whatever happens, there is one stream at a time, it ends once, and what it told is heard (SUB-5, SUB-8)."""

    async def play() -> None:
        open_now = most = 0

        def listen(message: dict[str, Any]) -> object:
            nonlocal open_now, most
            open_now += 1
            most = max(most, open_now)
            return acknowledge(server, message)

        server = telling(listen)
        async with Client(server) as client, client.listen(tools=True) as events:
            waiting = False
            for step in steps:
                if step == "news":
                    changed(server, "tools", streams(server)[-1])
                    waiting = True
                elif step == "take" and waiting:
                    assert await take(events, 1) == [TOOLS]
                    waiting = False
                elif step in ENDS:
                    before, open_now = len(streams(server)), 0
                    ENDS[step](server, streams(server)[-1])
                    await server.until(lambda before=before: len(streams(server)) > before)
                    for _ in range(5):
                        await asyncio.sleep(0)
                    waiting = True
            if not waiting:
                assert await silent(events)
        assert len(cancelled(server)) == open_now == most == 1
        assert cancelled(server) == streams(server)[-1:]

    with pytest.MonkeyPatch.context() as patch:
        no_waits(patch)
        asyncio.run(asyncio.wait_for(play(), 5))
