"""Listening to a scripted legacy server, and what `on_list_changed` hears in both eras."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from jackfield.client import subscription
from jackfield.client.client import Client
from jackfield.client.events import Choice
from jackfield.protocol.errors import (
    NotSupported,
    PeerError,
)
from jackfield.protocol.events import Event
from jackfield.protocol.limits import Limits
from tests.client.fakes import DISCOVERED, INITIALIZED, Fake, Fault, legacy
from tests.client.listens import (
    ID,
    LISTEN,
    RESOURCES,
    TELLING,
    TOOLS,
    begin,
    cancelled,
    changed,
    end_with_a_result,
    end_with_the_connection,
    no_waits,
    silent,
    streams,
    take,
    telling,
    updated,
)

# ---- legacy servers


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_waits(monkeypatch)


def subscribable(**answers: Any) -> Fake:
    """A legacy server whose resources can be subscribed to."""
    known = {"initialize": INITIALIZED | {"capabilities": TELLING}}
    known |= {"resources__subscribe": {}, "resources__unsubscribe": {}}
    return legacy(**(known | answers))


def subscribed(server: Fake) -> list[str]:
    return [params["uri"] for params in server.asked("resources/subscribe")]


def unsubscribed(server: Fake) -> list[str]:
    return [params["uri"] for params in server.asked("resources/unsubscribe")]


async def test_legacy_events() -> None:
    """A legacy server is subscribed to for each resource, and its lists are told as they are (RSC-6, TOOL-11)."""
    server = subscribable()
    async with Client(server) as client:
        async with client.listen(tools=True, uris=["a:b", "a:c"]) as events:
            assert events.acknowledged == Choice(tools=True, uris=("a:b", "a:c"))
            for kind in ("tools", "prompts"):
                server.notify(f"notifications/{kind}/list_changed")
            for uri in ("a:b", "a:b/x", "a:bx", "a:d", "a:c"):
                updated(server, uri)
            server.notify("notifications/tools/list_changed", {"_meta": {ID: 7}})  # means nothing here
            heard = await take(events, 4)
            assert await silent(events)
        assert sorted(unsubscribed(server)) == ["a:b", "a:c"]
        assert cancelled(server) == []
    assert heard == [TOOLS, *[Event("resource", uri) for uri in ("a:b", "a:b/x", "a:c")]]
    assert subscribed(server) == ["a:b", "a:c"]


async def test_legacy_lists_take_no_request() -> None:
    """A legacy server's lists are heard of without asking for it."""
    server = subscribable()
    async with Client(server) as client, client.listen() as events:
        server.notify("notifications/resources/list_changed")
        assert await take(events, 1) == [RESOURCES]
    assert server.methods()[-1] == "notifications/initialized"


async def test_legacy_resources_that_several_want() -> None:
    """A resource is subscribed to once, and unsubscribed from when the last who wants it is gone (RSC-6)."""
    server = subscribable()
    async with Client(server) as client:
        async with client.listen(uris=["a:b", "a:c"]) as one:
            async with client.listen(uris=["a:b", "a:d"]) as other:
                updated(server, "a:b")
                assert await take(one, 1) == await take(other, 1) == [Event("resource", "a:b")]
            assert unsubscribed(server) == ["a:d"]
            updated(server, "a:b")
            assert await take(one, 1) == [Event("resource", "a:b")]
        assert sorted(unsubscribed(server)) == ["a:b", "a:c", "a:d"]
        async with client.listen(uris=["a:b"]):
            pass
    assert subscribed(server) == ["a:b", "a:c", "a:d", "a:b"]
    assert unsubscribed(server)[3:] == ["a:b"]


@pytest.mark.parametrize(
    ("capabilities", "options"),
    [({"resources": {}}, {"uris": ["a:b"]}), ({"resources": {"subscribe": False}}, {"uris": ["a:b"]}), ({}, {})],
)
async def test_legacy_server_that_does_not_tell(capabilities: dict[str, Any], options: dict[str, Any]) -> None:
    """Where a legacy server declares nothing of it nothing is sent (CAP-3)."""
    server = subscribable(initialize=INITIALIZED | {"capabilities": capabilities})
    async with Client(server) as client:
        with pytest.raises(NotSupported):
            await begin(client.listen(**options), "iterate")
    assert server.methods()[-1] == "notifications/initialized"


def refusing(message: dict[str, Any]) -> Any:
    return {} if message["params"]["uri"] == "a:b" else Fault(-32002, "no such resource")


async def test_legacy_refusals() -> None:
    """Resources that are refused are not acknowledged; where nothing is left the refusal is raised (SUB-2)."""
    server = subscribable(resources__subscribe=refusing)
    async with Client(server) as client:
        async with client.listen(uris=["a:b", "a:c"]) as events:
            assert events.acknowledged == Choice(uris=("a:b",))
        assert unsubscribed(server) == ["a:b"]
        with pytest.raises(PeerError, match="no such resource"):
            await begin(client.listen(uris=["a:c"]), "enter")
        async with client.listen(tools=True, uris=["a:c"]) as events:
            assert events.acknowledged == Choice(tools=True)
        server.answers["resources/subscribe"] = Fault(-32601, "what?")
        with pytest.raises(PeerError, match="what"):
            await begin(client.listen(uris=["a:b"]), "enter")


async def test_legacy_connection_that_is_lost(waits: list[float]) -> None:
    """After a reconnect everything is subscribed to again, and may have changed (RSC-6, SUB-8)."""
    server = subscribable()
    async with Client(server) as client, client.listen(tools=True, uris=["a:b"]) as events:
        async with client.listen(uris=["a:b"]) as other:
            end_with_the_connection(server, 0)
            assert await take(events, 2) == [TOOLS, Event("resource", "a:b")]
            assert await take(other, 1) == [Event("resource", "a:b")]
            assert subscribed(server) == ["a:b"] * 2  # once on each connection
            updated(server, "a:b")
            assert await take(events, 1) == await take(other, 1) == [Event("resource", "a:b")]
        assert unsubscribed(server) == []
    assert unsubscribed(server) == ["a:b"]
    assert server.starts == 2
    assert waits == [0.0] * 2


async def test_legacy_client_that_is_closed() -> None:
    """The end of the connection ends the subscriptions: nothing is unsubscribed from before it."""
    server = subscribable()
    async with Client(server) as client:
        events = client.listen(uris=["a:b"])
        await events.__aenter__()
    assert unsubscribed(server) == []
    assert [event async for event in events] == []


async def test_legacy_server_that_does_not_answer_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever stops listening does not wait long for a server that does not answer (limit `grace`)."""
    caplog.set_level(logging.DEBUG, "jackfield")
    server = subscribable(resources__unsubscribe=Fake.SILENT)
    async with Client(server, limits=Limits(grace=0.01)) as client:
        async with client.listen(uris=["a:b", "a:c"]):
            pass
        assert len(unsubscribed(server)) == 1
    assert "fake: could not unsubscribe: TimeoutError" in caplog.text


async def test_legacy_listening_that_is_closed_twice() -> None:
    """Closing it again does not keep the server from being told."""
    held: list[dict[str, Any]] = []
    server = subscribable(resources__unsubscribe=lambda message: held.append(message) or Fake.SILENT)
    async with Client(server) as client, client.listen(uris=["a:b", "a:c"]) as events:
        closing = [asyncio.ensure_future(events.aclose())]
        for count in (1, 2):
            await server.until(lambda count=count: len(unsubscribed(server)) == count)
            closing.append(asyncio.ensure_future(events.aclose()))
            for _ in range(5):
                await asyncio.sleep(0)
            server.say({"id": held[-1]["id"], "result": {}})
        await asyncio.wait(closing)
    assert sorted(unsubscribed(server)) == ["a:b", "a:c"]


async def test_legacy_server_that_refuses_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """A refusal to unsubscribe is nobody's failure."""
    caplog.set_level(logging.DEBUG, "jackfield")
    server = subscribable(resources__unsubscribe=Fault(-32603, "never"))
    async with Client(server) as client, client.listen(uris=["a:b"]):
        pass
    assert "fake: could not unsubscribe: never (-32603)" in caplog.text


async def test_legacy_subscription_that_is_given_up() -> None:
    """What was being subscribed to when the consumer was cancelled is unsubscribed from (RSC-6)."""
    server = subscribable(resources__subscribe=Fake.SILENT)
    async with Client(server) as client:
        consumer = asyncio.ensure_future(begin(client.listen(uris=["a:b"]), "iterate"))
        await server.until(lambda: "resources/subscribe" in server.methods())
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
        await server.until(lambda: unsubscribed(server) == ["a:b"])


async def test_many_legacy_resources() -> None:
    """A thousand resources are subscribed to a few at a time."""
    server = subscribable()
    async with Client(server) as client, client.listen(uris=[f"a:{n}" for n in range(1000)]) as events:
        assert events.acknowledged is not None
        assert len(events.acknowledged.uris) == 1000
    assert subscribed(server) == [f"a:{n}" for n in range(1000)]


async def test_on_list_changed_of_a_legacy_server() -> None:
    """The callback hears a legacy server without a request, also while others listen."""
    heard: list[str] = []
    server = subscribable()
    async with Client(server, on_list_changed=heard.append) as client, client.listen() as events:
        server.notify("notifications/tools/list_changed")
        assert await take(events, 1) == [TOOLS]
    assert heard == ["tools"]
    assert LISTEN not in server.methods()


# ---- on_list_changed on the modern wire


def declaring(**capabilities: Any) -> dict[str, Any]:
    return DISCOVERED | {"capabilities": {"tools": {}, "prompts": {}, **capabilities}}


async def test_on_list_changed(caplog: pytest.LogCaptureFixture) -> None:
    """With the callback a modern server is listened to, for the lists whose changes it declares (TOOL-11)."""
    heard: list[str] = []
    server = telling(server__discover=declaring(tools={"listChanged": True}, resources={"listChanged": True}))
    async with Client(server, on_list_changed=heard.append):
        await server.until(lambda: LISTEN in server.methods())
        await asyncio.sleep(0)
        changed(server, "tools", streams(server)[0])
        changed(server, "resources", streams(server)[0])
    asked = {"toolsListChanged": True, "resourcesListChanged": True}
    assert [params["notifications"] for params in server.asked(LISTEN)] == [asked]
    assert heard == ["tools", "resources"]
    assert cancelled(server) == streams(server)
    assert caplog.text == ""


async def test_on_list_changed_hears_before_the_first_call() -> None:
    """The stream is asked for before anything that the application asks for, so that nothing is missed."""
    server = telling(server__discover=declaring(tools={"listChanged": True}), tools__list={"tools": []})
    async with Client(server, on_list_changed=print) as client:
        await client.list_tools()
    assert server.methods()[1:3] == [LISTEN, "tools/list"]


async def test_on_list_changed_and_others_who_listen() -> None:
    """The callback is told once, however many streams tell it; without a stream it is told as ever (F80)."""
    heard: list[str] = []
    server = telling(server__discover=declaring(tools={"listChanged": True}))
    async with Client(server, on_list_changed=heard.append) as client, client.listen() as events:
        for id in streams(server):
            changed(server, "tools", id)
        assert await take(events, 1) == [TOOLS]
        assert heard == ["tools"]
        server.notify("notifications/tools/list_changed")
        changed(server, "tools", 99)
        assert heard == ["tools"] * 2
        assert await silent(events)


@pytest.mark.parametrize("capabilities", [{}, {"tools": {"listChanged": False}}])
async def test_on_list_changed_where_nothing_is_declared(capabilities: dict[str, Any]) -> None:
    """A server that declares no changes is not listened to for the callback."""
    server = telling(server__discover=declaring(**capabilities), tools__list={"tools": []})
    async with Client(server, on_list_changed=print) as client:
        await client.list_tools()
    assert LISTEN not in server.methods()


async def test_on_list_changed_without_a_place() -> None:
    """The callback's stream never takes the last place among requests (limit `asking`)."""
    server = telling(server__discover=declaring(tools={"listChanged": True}), tools__list={"tools": []})
    async with Client(server, on_list_changed=print, limits=Limits(asking=1)) as client:
        assert await client.list_tools() == []
    assert LISTEN not in server.methods()


async def test_on_list_changed_after_a_loss(waits: list[float]) -> None:
    """The callback's stream is begun again: on the same connection at once, else on the next (SUB-5, SUB-8)."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    server = telling(server__discover=declaring(tools={"listChanged": True}), tools__list={"tools": []})
    async with Client(server, on_list_changed=heard.put_nowait) as client:
        await client.list_tools()
        end_with_a_result(server, streams(server)[0])
        assert await heard.get() == "tools"  # what may have changed meanwhile
        assert (len(streams(server)), waits) == (2, [0.0])
        end_with_the_connection(server, 0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert server.starts == 1  # it is not for a callback to start a server
        await client.list_tools()
        assert await heard.get() == "tools"
        assert server.starts == 2
        assert len(streams(server)) == 3


async def test_on_list_changed_while_nothing_is_declared(waits: list[float]) -> None:
    """A server that declares changes no more, and then again, is listened to when it does."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    server = telling(server__discover=declaring(tools={"listChanged": True}), tools__list={"tools": []})
    async with Client(server, on_list_changed=heard.put_nowait) as client:
        for capabilities in ({}, {}, {"tools": {"listChanged": True}}):
            server.answers["server/discover"] = declaring(**capabilities)
            end_with_the_connection(server, 0)
            await client.list_tools()
        assert await heard.get() == "tools"
    assert len(streams(server)) == 2


@pytest.mark.parametrize("answer", [Fault(-32601), Fault(-32602), {"resultType": "complete"}])
async def test_on_list_changed_refused(
    answer: Any, waits: list[float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that will not be listened to can be used all the same; the refusal is logged, or tried again."""
    tried = asyncio.Event()

    async def sleep(seconds: float) -> None:
        tried.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(subscription, "sleep", sleep)
    discovered = declaring(tools={"listChanged": True})
    server = telling(lambda message: answer, server__discover=discovered, tools__list={"tools": []})
    async with Client(server, on_list_changed=print) as client:
        assert await client.list_tools() == []
        for _ in range(10):
            await asyncio.sleep(0)
        assert ("changes of lists are not heard of" in caplog.text) == isinstance(answer, Fault)
        assert tried.is_set() == (not isinstance(answer, Fault))
        end_with_the_connection(server, 0)
        await client.list_tools()
    if isinstance(answer, Fault):
        assert len(streams(server)) == 2  # the next one may be another server
