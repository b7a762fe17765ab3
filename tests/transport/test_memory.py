"""Two connections joined in one process: what passes between them, what bounds it, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from jackfield.protocol.errors import ConnectionClosed, PeerError
from jackfield.protocol.jsonrpc import Answer, Notification, Request, encode
from jackfield.protocol.limits import Limits
from jackfield.transport.connection import Channel, Connection
from jackfield.transport.memory import connect
from tests.transport.fakes import Desk, settle


class Joined:
    """A client's connection to a server's, and what the server saw."""

    def __init__(self, serve: Any = None, grace: float = 5, limits: Limits | None = None) -> None:
        self.desk = Desk()
        self.left = 0
        self.heard: list[Notification] = []
        self.asked: list[Request] = []
        self.notices: list[Notification] = []

        async def answer(request: Request, connection: Connection) -> bytes:
            self.asked.append(request)
            return encode(Answer(request.id, "roots"))

        async def leave() -> None:
            self.left += 1

        def near(channel: Channel) -> Connection:
            self.channel = channel
            return Connection(
                channel, serve=answer, notice=self.notices.append, stray=lambda frame, fault: None, name="server"
            )

        def far(channel: Channel) -> Connection:
            return Connection(
                channel, serve=serve or self.desk.serve, notice=self.heard.append, limits=limits, name="client"
            )

        self.client, self.server = connect(near, far, leave, grace)

    async def close(self) -> None:
        self.client.lost(ConnectionClosed("closed here"))
        self.channel.close()
        assert self.client.farewell is not None
        await self.client.farewell


async def test_both_sides_ask_and_tell() -> None:
    """Requests, answers, errors and notifications pass both ways, as bytes: no object is shared."""

    async def serve(request: Request, connection: Connection) -> bytes:
        await connection.notify("notifications/message", {"data": 1})
        roots = await connection.request("q", "roots/list", {})
        return encode(Answer(request.id, [msgspec.json.decode(request.params), msgspec.json.decode(roots)]))

    joined = Joined(serve)
    params = {"a": [1]}
    asking = asyncio.create_task(joined.client.request(1, "tools/call", params))
    await joined.client.notify("notifications/roots/list_changed", {})
    result = msgspec.json.decode(await asking)
    assert result == [{"a": [1]}, "roots"]
    assert [notice.method for notice in joined.notices] == ["notifications/message"]
    assert [notice.method for notice in joined.heard] == ["notifications/roots/list_changed"]
    assert [request.id for request in joined.asked] == ["q"]
    await joined.close()


async def test_the_server_bounds_what_it_takes() -> None:
    """A client in the same process that asks too much at once is told "server busy" like any other."""
    joined = Joined(limits=Limits(running=2, queued=2))
    calls = [asyncio.create_task(joined.client.request(id, "work", {})) for id in range(1, 7)]
    await settle()
    assert joined.desk.started == [1, 2]
    for id in (1, 2, 3, 4):
        joined.desk.finish(id)
        await settle()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [bytes(outcome) for outcome in outcomes[:4]] == [b'"done"'] * 4
    assert all(isinstance(fault, PeerError) and "server busy" in fault.message for fault in outcomes[4:])
    await joined.close()


async def test_giving_up_reaches_the_handler() -> None:
    """A cancelled caller cancels the server's handler (F39)."""
    joined = Joined()
    call = asyncio.create_task(joined.client.request(1, "work", {}))
    await settle()
    call.cancel()
    await settle()
    assert joined.desk.cancelled == [1]
    await joined.close()


async def test_closing_ends_both_sides() -> None:
    """Closing fails what both sides wait for and cancels the server's handlers, and then the server leaves."""
    joined = Joined()
    call = asyncio.create_task(joined.client.request(1, "work", {}))
    await settle()
    await joined.close()
    with pytest.raises(ConnectionClosed, match="closed here"):
        await call
    assert joined.left == 1
    assert joined.desk.cancelled == [1]
    with pytest.raises(ConnectionClosed, match="client closed the connection"):
        await joined.server.request("r", "ping", {})
    joined.channel.close()
    await settle()
    assert joined.left == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_handler_that_will_not_end_holds_up_nobody() -> None:
    """The server leaves after the grace time, though a handler ignores its cancellation; nothing of it is delivered."""
    joined = Joined(grace=0.01)
    joined.desk.stubborn = {1}
    call = asyncio.create_task(joined.client.request(1, "work", {}))
    await settle()
    await joined.close()
    assert joined.left == 1
    late = joined.client.late
    joined.desk.finish(1)
    await settle()
    assert joined.client.late == late
    with pytest.raises(ConnectionClosed):
        await call


async def test_what_is_said_after_the_end_is_dropped() -> None:
    """Neither side hears anything once the channel was closed."""
    joined = Joined()
    await joined.close()
    await joined.client.notify("notifications/late", {})
    await joined.server.notify("notifications/late", {})
    await settle()
    assert joined.heard == []
    assert joined.notices == []
