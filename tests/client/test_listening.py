"""Listening to a scripted modern server: what is asked for, what is heard, and how it is closed."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from jackfield.client import subscription
from jackfield.client.client import Client
from jackfield.client.events import Choice
from jackfield.client.listening import Listening
from jackfield.protocol.errors import (
    ConnectionClosed,
    InvalidResult,
    NotSupported,
    PeerError,
    RequestTimeout,
)
from jackfield.protocol.events import Event
from jackfield.protocol.limits import Limits
from tests.client.fakes import Fake, Fault
from tests.client.listens import (
    EVERYTHING,
    ID,
    LISTEN,
    PROMPTS,
    RESOURCES,
    TOOLS,
    acknowledge,
    begin,
    cancelled,
    changed,
    no_waits,
    silent,
    streams,
    take,
    telling,
    updated,
)

# ---- what is asked for, and what is heard


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_waits(monkeypatch)


async def test_what_is_asked_for() -> None:
    """The request names what was chosen and has the `_meta` of every request, but wants no log messages (SUB-1)."""
    server = telling()
    async with Client(server, on_log=print, trace=lambda: {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}) as client:
        async with client.listen(tools=True, uris=["a:b", "a:c", "a:b"]):
            pass
    params = server.asked(LISTEN)[0]
    assert params["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": ["a:b", "a:c"]}
    assert params["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert params["_meta"]["traceparent"].startswith("00-1111")
    assert "io.modelcontextprotocol/logLevel" not in params["_meta"]


async def test_without_a_choice() -> None:
    """Where nothing is chosen all lists are; a single URI may be given as it is."""
    server = telling()
    async with Client(server) as client, client.listen() as lists, client.listen(uris="a:b") as one:
        assert lists.acknowledged == Choice(tools=True, prompts=True, resources=True)
        assert one.acknowledged == Choice(uris=("a:b",))
    assert [params["notifications"] for params in server.asked(LISTEN)] == [
        EVERYTHING,
        {"resourceSubscriptions": ["a:b"]},
    ]


async def test_events_of_every_kind() -> None:
    """Lists are told by kind, resources by the URI that the server says, also below the one asked for (RSC-6)."""
    server = telling()
    async with Client(server) as client:
        async with client.listen(tools=True, prompts=True, resources=True, uris=["a:b"]) as events:
            (id,) = streams(server)
            for kind in ("tools", "prompts", "resources"):
                changed(server, kind, id)
            updated(server, "a:b", id)
            updated(server, "a:b/c", id)
            updated(server, "a:b?c", id)  # only the server knows what is part of what
            heard = await take(events, 6)
    assert heard[:3] == [TOOLS, PROMPTS, RESOURCES]
    assert [(event.kind, event.uri) for event in heard[3:]] == [
        ("resource", "a:b"),
        ("resource", "a:b/c"),
        ("resource", "a:b?c"),
    ]


async def test_streams_are_told_apart() -> None:
    """Each of several streams on one connection gives what was told on it (SUB-3, SUB-4, STDIO-5)."""
    server = telling()
    async with Client(server) as client, client.listen(tools=True) as one, client.listen() as other:
        first, second = streams(server)
        changed(server, "tools", first)
        changed(server, "prompts", first)  # was not asked for
        changed(server, "prompts", second)
        updated(server, "a:b", second)  # was not asked for
        assert await take(one, 1) == [TOOLS]
        assert await take(other, 1) == [PROMPTS]
        assert await silent(one)
        assert await silent(other)


@pytest.mark.parametrize("meta", [None, {}, {ID: "2"}, {ID: 99}, {ID: 2.5}, {ID: None}, {ID: [2]}, "2", [ID]])
async def test_news_of_no_stream(meta: Any) -> None:
    """News that name no stream, or one that there is not, are no events; what was kept is forgotten (SUB-3, CCH-5)."""
    kept = {"tools": [], "ttlMs": 60_000, "resultType": "complete"}
    server = telling(tools__list=kept)
    async with Client(server) as client:
        await client.list_tools()
        async with client.listen(uris=["a:b"], tools=True) as events:
            params = {} if meta is None else {"_meta": meta}
            server.notify("notifications/tools/list_changed", params)
            server.notify("notifications/resources/updated", {"uri": "a:b", **params})
            assert await silent(events)
        await client.list_tools()
    assert server.methods().count("tools/list") == 2


async def test_acknowledgements_of_no_stream() -> None:
    """An acknowledgement counts for the stream that it names, when it can be read, and the first one only (SUB-2)."""

    def listen(message: dict[str, Any]) -> object:
        for id in (99, "2", True):
            acknowledge(server, message, id=id)
        acknowledge(server, message, told="everything")
        acknowledge(server, message, told={"toolsListChanged": True})
        return acknowledge(server, message)

    server = telling(listen)
    async with Client(server) as client, client.listen() as events:
        assert events.acknowledged == Choice(tools=True)


async def test_news_that_come_early() -> None:
    """What is told before the acknowledgement is not lost."""

    def listen(message: dict[str, Any]) -> object:
        changed(server, "tools", message["id"])
        return acknowledge(server, message)

    server = telling(listen)
    async with Client(server) as client, client.listen() as events:
        assert await take(events, 1) == [TOOLS]


async def test_plain_iteration() -> None:
    """Without `async with` the first step begins it."""
    server = telling()
    heard = []
    async with Client(server) as client:
        events = client.listen()
        assert events.acknowledged is None
        assert LISTEN not in server.methods()
        listener = asyncio.ensure_future(take(events, 1))
        await server.until(lambda: LISTEN in server.methods())
        await asyncio.sleep(0)
        changed(server, "tools", streams(server)[0])
        heard = await listener
    assert heard == [TOOLS]


# ---- whoever is slow


async def test_the_same_news_waits_once() -> None:
    """Of 200 equal news that nobody took one is given, and then those that came after it (R05)."""
    server = telling()
    async with Client(server) as client, client.listen(tools=True, uris=["a:b"]) as events:
        (id,) = streams(server)
        for _ in range(200):
            changed(server, "tools", id)
            updated(server, "a:b", id)
        assert await take(events, 1) == [TOOLS]
        changed(server, "tools", id)
        assert await take(events, 2) == [Event("resource", "a:b"), TOOLS]
        assert await silent(events)


async def test_a_flood_of_resources_costs_no_memory() -> None:
    """Beyond the limit `watched` what changed below a resource counts as that resource, and so do huge URIs (F45)."""
    server = telling()
    limits = Limits(watched=5)
    async with Client(server, limits=limits) as client, client.listen(uris=["a:b", "a:c/", "a:d"]) as events:
        (id,) = streams(server)
        updated(server, "a:b/" + "x" * subscription.LONGEST_URI, id)
        assert await take(events, 1) == [Event("resource", "a:b")]
        for n in range(1000):
            updated(server, f"a:c/{n}", id)
        updated(server, "a:d", id)
        below = [f"a:c/{n}" for n in range(5)]
        assert await take(events, 7) == [Event("resource", uri) for uri in [*below, "a:c/", "a:d"]]
        for n in range(1000):
            updated(server, f"b:{n}", id)  # below nothing that can be seen: it may be any of them
        await take(events, 5)
        assert await take(events, 3) == [Event("resource", uri) for uri in ("a:b", "a:c/", "a:d")]
        assert await silent(events)


async def test_a_consumer_that_is_cancelled_may_wait_again() -> None:
    """Waiting for an event with a timeout loses neither events nor the stream."""
    server = telling()
    async with Client(server) as client, client.listen() as events:
        for _ in range(3):
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        changed(server, "tools", streams(server)[0])
        assert await take(events, 1) == [TOOLS]
        assert cancelled(server) == []


async def test_two_who_read_from_one() -> None:
    """Each event is given to one of those who wait."""
    server = telling()
    async with Client(server) as client, client.listen() as events:
        both = [asyncio.ensure_future(anext(events)) for _ in range(2)]
        await asyncio.sleep(0)
        for kind in ("tools", "prompts"):
            changed(server, kind, streams(server)[0])
        assert set(await asyncio.gather(*both)) == {TOOLS, PROMPTS}


# ---- what the server acknowledges


async def test_less_than_was_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    """What the server leaves out can be read, and is logged; what it adds is not ours (SUB-2)."""
    caplog.set_level(logging.INFO, "jackfield")
    told = {"toolsListChanged": True, "promptsListChanged": False, "resourceSubscriptions": ["a:c", "a:x"]}
    server = telling(lambda message: acknowledge(server, message, told))
    async with Client(server) as client, client.listen(tools=True, prompts=True, uris=["a:b", "a:c"]) as events:
        assert events.acknowledged == Choice(tools=True, uris=("a:c",))
    assert "fake does not tell of changes of: a:b, prompts" in caplog.text


@pytest.mark.parametrize("how", ["enter", "iterate"])
async def test_nothing_of_what_was_asked_for(how: str) -> None:
    """A server that will tell nothing of it is not listened to (SUB-2)."""
    server = telling(lambda message: acknowledge(server, message, {"promptsListChanged": True}))
    async with Client(server) as client:
        with pytest.raises(NotSupported, match="fake does not tell of any"):
            await begin(client.listen(tools=True), how)
    assert cancelled(server) == streams(server)


@pytest.mark.parametrize("how", ["enter", "iterate"])
@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (Fault(-32601, "method not found"), NotSupported, r"fake does not have subscriptions/listen: method not found"),
        (Fault(-32603, "too many"), PeerError, "too many"),
        (Fault(-32602, "no"), PeerError, "no"),
        ({"resultType": "complete"}, InvalidResult, "before it said what it tells of"),
        (Fake.EXIT, ConnectionClosed, "exit code 1"),
    ],
)
async def test_refusals(answer: Any, error: type[Exception], text: str, how: str, waits: list[float]) -> None:
    """What keeps it from beginning is raised, once; after that it is at its end."""
    server = telling(lambda message: answer)
    async with Client(server) as client:
        events = client.listen()
        with pytest.raises(error, match=text):
            await begin(events, how)
        assert [event async for event in events] == []
    assert len(streams(server)) == 1
    assert cancelled(server) == []
    assert waits == []


async def test_no_acknowledgement_in_time() -> None:
    """A stream that is never acknowledged is given up and cancelled (limit `request_timeout`)."""
    server = telling(lambda message: Fake.SILENT)
    async with Client(server, limits=Limits(request_timeout=0.01)) as client:
        with pytest.raises(RequestTimeout, match="fake did not acknowledge subscriptions/listen in time"):
            await begin(client.listen(), "enter")
        assert cancelled(server) == streams(server)
    assert len(cancelled(server)) == 1


async def test_no_time_for_the_stream(waits: list[float]) -> None:
    """A stream that was acknowledged stays, whatever the limits say of requests."""
    limits = Limits(request_timeout=0.01, request_total=0.02)
    server = telling()
    async with Client(server, limits=limits) as client, client.listen() as events:
        with pytest.raises(RequestTimeout):
            server.answers["tools/call"] = Fake.SILENT
            await client.call_tool("a")  # which takes longer than any request may
        changed(server, "tools", streams(server)[0])
        assert await take(events, 1) == [TOOLS]
    assert waits == []


async def test_before_connecting() -> None:
    """A client that was never connected cannot listen; nor can one that was closed."""
    client = Client(telling())
    with pytest.raises(ConnectionClosed, match="not connected"):
        await begin(client.listen(), "iterate")
    await client.connect()
    await client.close()
    with pytest.raises(ConnectionClosed, match="closed"):
        await begin(client.listen(), "enter")


# ---- the end, on this side


async def leave(events: Listening, how: str, client: Client) -> None:
    """End a listening that has begun, in one of many ways."""
    if how == "aclose":
        for _ in range(3):
            await events.aclose()
    elif how == "close and aclose":
        await asyncio.gather(client.close(), events.aclose())
    else:
        await client.close()


@pytest.mark.parametrize("how", ["aclose", "close and aclose", "close"])
async def test_closing(how: str) -> None:
    """Whoever closes it, and however often, the server is told once (SUB-5); iterators come to their end."""
    server = telling()
    async with Client(server) as client:
        async with client.listen() as events:
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            changed(server, "prompts", streams(server)[0])
            await waiting
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            await leave(events, how, client)
            with pytest.raises(StopAsyncIteration):
                await waiting
            assert [event async for event in events] == []
        with pytest.raises(ConnectionClosed):
            async with events:
                pass
    assert cancelled(server) == streams(server)
    assert len(streams(server)) == 1


@pytest.mark.parametrize("how", ["aclose", "close"])
async def test_closing_with_events_left(how: str) -> None:
    """What nobody took before it was closed is not given after it."""
    server = telling()
    async with Client(server) as client, client.listen() as events:
        changed(server, "tools", streams(server)[0])
        await leave(events, how, client)
        changed(server, "tools", streams(server)[0])
        assert [event async for event in events] == []


async def test_closed_before_it_began() -> None:
    """What is closed before its first step never begins."""
    server = telling()
    async with Client(server) as client:
        events = client.listen()
        await events.aclose()
        assert [event async for event in events] == []
    assert streams(server) == []


async def told_the_end(server: Fake) -> None:
    """Wait until the server is told that the stream is not wanted any more; then it must not be told again."""
    gc.collect()
    await server.until(lambda: bool(cancelled(server)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert cancelled(server) == streams(server)
    assert len(cancelled(server)) == 1


async def test_break() -> None:
    """A loop that is left ends what nothing else refers to (SUB-5)."""
    server = telling(lambda message: changed(server, "tools", message["id"]) or acknowledge(server, message))
    async with Client(server) as client:
        async for event in client.listen():
            assert event == TOOLS
            break
        await told_the_end(server)


@pytest.mark.parametrize("with_block", [False, True])
async def test_consumer_that_is_cancelled(with_block: bool) -> None:
    """A task that is cancelled while it waits for an event leaves no stream behind (SUB-5)."""
    server = telling()

    async def consume() -> None:
        if with_block:
            async with client.listen() as events:
                async for _ in events:
                    pass
        else:
            async for _ in client.listen():
                pass

    async with Client(server) as client:
        consumer = asyncio.ensure_future(consume())
        await server.until(lambda: LISTEN in server.methods())
        await asyncio.sleep(0)
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await consumer
        await told_the_end(server)
        assert caught.tb is not None  # which is kept all the while, as whoever reports it does


@pytest.mark.parametrize("how", ["enter", "iterate"])
async def test_cancelled_before_the_acknowledgement(how: str) -> None:
    """Whoever gives up while the server has not acknowledged leaves no stream behind (SUB-5)."""
    server = telling(lambda message: Fake.SILENT)
    async with Client(server) as client:
        events: Listening | None = client.listen()
        consumer = asyncio.ensure_future(begin(events, how))
        await server.until(lambda: LISTEN in server.methods())
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
        if how == "iterate":
            events = None
        await told_the_end(server)
        assert events is None or [event async for event in events] == []


async def test_forgotten() -> None:
    """One that nothing refers to any more ends, without a call (SUB-5)."""
    server = telling()
    async with Client(server) as client:
        events = client.listen()
        await events.__aenter__()
        del events
        await told_the_end(server)


async def test_collected_after_the_loop() -> None:
    """One that is collected when its loop is closed does no harm."""
    server = telling()

    def run() -> Listening:
        with asyncio.Runner() as runner:
            return runner.run(work())

    async def work() -> Listening:
        async with Client(server) as client:
            events = client.listen()
            await events.__aenter__()
            return events

    events = await asyncio.to_thread(run)
    del events
    gc.collect()
    assert cancelled(server) == streams(server)


async def test_another_loop() -> None:
    """A connection cannot be listened to in another loop than its own."""
    server = telling()
    async with Client(server) as client:
        with pytest.raises(ConnectionClosed, match="another event loop"):
            await asyncio.to_thread(asyncio.run, begin(client.listen(), "enter"))
