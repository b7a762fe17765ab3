"""Subscriptions over HTTP and stdio: how a stream begins, waits for a slow reader, and ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from jackfield import ConnectionClosed, Limits
from jackfield.server import subscriptions
from tests.asgi import Call, legacy, message, meta, modern, session, settled, tool
from tests.server.ears import LISTS, SUBSCRIPTION, about, listed, shop
from tests.server.talk import PREFIX
from tests.transport.fakes import FakeChannel

SERVER_INFO = {PREFIX + "serverInfo": {"name": "shop", "version": "0"}}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was told something can be told more at once."""
    monkeypatch.setattr(subscriptions, "_PAUSE", 0)


def listen(app: Any, id: Any = 1, **wanted: Any) -> Call:
    return modern(app, "subscriptions/listen", {"notifications": wanted}, id=id)


def told(call: Call) -> list[tuple[str, Any]]:
    """The notifications that came after the acknowledgement."""
    first, *others = [each for each in call.events if "method" in each]
    assert first["method"] == "notifications/subscriptions/acknowledged"
    return [(each["method"].removeprefix("notifications/"), each["params"]) for each in others]


class TestHttp:
    async def test_the_stream_opens_with_the_acknowledgement(self) -> None:
        """The answer is a stream from the first moment on, each with its own id, and nothing else comes on it (SUB-2,
        SUB-3, SUB-4, HTTP-5).
        """
        server = shop()
        app = server.http_app()
        one, other = listen(app, 1, **LISTS), listen(app, "1", resourceSubscriptions=["shop://stock"])
        for call, id in ((one, 1), (other, "1")):
            await call.came("acknowledged")
            assert call.status == 200
            assert call.events[0]["params"]["_meta"] == {SUBSCRIPTION: id}
        bought = await tool(app, "buy", token=7).end()
        assert bought.json["result"]["content"][0]["text"] == "bought"
        server.notify_tools_changed()
        await one.came("tools/list_changed")
        await other.came("apples")
        assert told(one) == [listed("tools", 1)]
        assert told(other) == [about("shop://stock/apples", "1")]
        assert not one.ended

    async def test_a_server_that_ends_gives_the_result(self) -> None:
        """When the server ends first, the stream ends with the request's result, which names the subscription (SUB-5,
        SUB-6).
        """
        app = shop().http_app()
        call = await listen(app, "x", **LISTS).came("acknowledged")
        app.closing()
        await call.end()
        assert call.ended
        result = {"resultType": "complete", "_meta": {**SERVER_INFO, SUBSCRIPTION: "x"}}
        assert call.events[1:] == [{"jsonrpc": "2.0", "id": "x", "result": result}]

    async def test_a_client_that_hangs_up_frees_its_place(self) -> None:
        """Closing the stream ends the subscription: another one may take its place (SUB-5, SUB-7, HTTP-7)."""
        server = shop(limits=Limits(listens=1))
        app = server.http_app()
        call = await listen(app, **LISTS).came("acknowledged")
        refused = await listen(app, 2, **LISTS).end()
        assert refused.status == 200
        assert refused.json["error"]["code"] == -32603
        assert "limit `listens`" in refused.json["error"]["message"]
        call.hang_up()
        await call.end()
        server.notify_tools_changed()
        await settled()
        assert told(call) == []
        again = await listen(app, 3, **LISTS).came("acknowledged")
        server.notify_tools_changed()
        await again.came("tools/list_changed")
        assert told(again) == [listed("tools", 3)]

    async def test_a_client_that_takes_no_stream_is_refused(self) -> None:
        """Whoever accepts JSON alone could never be told anything, and gets an error that says so (HTTP-9)."""
        app = shop().http_app()
        params = {"notifications": LISTS}
        call = await modern(app, "subscriptions/listen", params, accept="application/json").end()
        assert call.status == 400
        assert call.json["error"]["code"] == -32600
        assert "text/event-stream" in call.json["error"]["message"]

    async def test_a_client_that_does_not_read_costs_no_more_than_what_it_watches(self) -> None:
        """While nothing is read each event waits once, whatever happens, and is told once in the end (SUB-7)."""
        server = shop()
        app = server.http_app()
        call = await listen(app, **LISTS, resourceSubscriptions=["shop://stock"]).came("acknowledged")
        await settled()
        call.stall()
        for _ in range(200):
            server.notify_tools_changed()
            server.notify_resource_updated("shop://stock")
            await settled()
        (exchange,) = app.waiting
        assert exchange._size < 1000
        call.read()
        server.notify_prompts_changed()
        await call.came("prompts/list_changed")
        assert told(call)[-1] == listed("prompts", 1)
        assert 3 <= len(told(call)) <= 6

    async def test_a_session_may_watch_without_a_stream(self) -> None:
        """A legacy session's POSTs are never used to tell it of changes; watching and not watching are answered (LH-2,
        RSC-6).
        """
        server = shop()
        app = server.http_app()
        id = await session(app)
        for method in ("subscribe", "unsubscribe", "subscribe"):
            call = await legacy(app, message(f"resources/{method}", {"uri": "shop://stock"}), id).end()
            assert call.json == {"jsonrpc": "2.0", "id": 1, "result": {}}
        bought = await legacy(app, message("tools/call", {"name": "buy", "arguments": {}}), id).end()
        assert bought.json["result"]["content"][0]["text"] == "bought"

    async def test_without_sessions_nothing_can_be_watched(self) -> None:
        """A server that keeps no sessions says so, instead of a promise that it cannot keep (LH-11)."""
        app = shop().http_app(stateless=True)
        call = await legacy(app, message("resources/subscribe", {"uri": "shop://stock"})).end()
        assert call.json["error"] == {
            "code": -32601,
            "message": "resources/subscribe needs a session, and this server keeps none",
        }


async def test_a_subscription_that_was_read_last_does_not_last() -> None:
    """Where the input has ended before a subscription begins, its result comes at once (SUB-5, STDIO-6)."""
    server, channel = shop(), FakeChannel()
    await server._life.enter()
    connection = server._connection(channel)
    params = {"notifications": LISTS, "_meta": meta()}
    connection.receive(message("subscriptions/listen", params, 5))
    connection.input_ended(ConnectionClosed("the client is gone"))
    async with asyncio.timeout(10):
        await connection.quiet()
    await server._life.leave()
    assert [message["result"]["_meta"][SUBSCRIPTION] for message in channel.sent] == [5]


async def test_a_subscription_that_was_cancelled_leaves_nothing() -> None:
    """Once it is cancelled, its connection remembers nothing of it, and the end brings no result (CAN-3)."""
    server, channel = shop(), FakeChannel()
    await server._life.enter()
    connection = server._connection(channel)
    connection.receive(message("subscriptions/listen", {"notifications": LISTS, "_meta": meta()}, 5))
    await settled()
    connection.receive(message("notifications/cancelled", {"requestId": 5}, None))
    await connection.quiet()
    assert not connection._farewells
    connection.input_ended(ConnectionClosed("the client is gone"))
    await server._life.leave()
    assert [each["method"] for each in channel.sent] == ["notifications/subscriptions/acknowledged"]


SCRIPT = """
from tests.server.ears import shop
shop().run()
"""


def test_the_end_of_input_ends_a_subscription_with_its_result() -> None:
    """Over stdio a subscription does not keep the server alive: it ends with its result (SUB-5, STDIO-6)."""
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta()}
    request = json.dumps({"jsonrpc": "2.0", "id": "sub", "method": "subscriptions/listen", "params": params})
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=request + "\n", capture_output=True, text=True, timeout=20, check=True
    )
    acknowledged, result = [json.loads(line) for line in done.stdout.splitlines()]
    assert acknowledged["params"] == {"_meta": {SUBSCRIPTION: "sub"}, "notifications": {"toolsListChanged": True}}
    assert result == {
        "jsonrpc": "2.0",
        "id": "sub",
        "result": {"resultType": "complete", "_meta": {**SERVER_INFO, SUBSCRIPTION: "sub"}},
    }
