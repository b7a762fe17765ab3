"""A client's conversation: streams beside requests, and what becomes of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jackfield.client.conversation import Conversation, stream_id
from jackfield.protocol.errors import ConnectionClosed, LimitExceeded, PeerError
from jackfield.protocol.jsonrpc import Id, Notification, Request
from jackfield.protocol.limits import Limits
from jackfield.transport.connection import Connection
from tests.client.fakes import Fake


async def serve(request: Request, connection: Connection) -> bytes:
    raise AssertionError(request)


def nothing(*values: Any) -> None:
    """A callback that nobody listens to."""


async def conversation(server: Fake) -> Conversation:
    """A conversation with a scripted server."""
    made = await server.__mcp_connect__(
        lambda channel: Conversation(channel, serve=serve, notice=nothing, stray=nothing, limits=Limits(), name="fake")
    )
    assert isinstance(made, Conversation)
    return made


@pytest.mark.parametrize(
    ("params", "id"),
    [
        (b'{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}', 7),
        (b'{"_meta":{"io.modelcontextprotocol/subscriptionId":"7"},"uri":1}', "7"),
        (b'{"_meta":{"io.modelcontextprotocol/subscriptionId":true}}', None),
        (b'{"_meta":{"io.modelcontextprotocol/subscriptionId":null}}', None),
        (b'{"_meta":["io.modelcontextprotocol/subscriptionId"]}', None),
        (b'{"io.modelcontextprotocol/subscriptionId":7}', None),
        (b'{"_meta":{"subscriptionId":7}}', None),
        (b"{}", None),
    ],
)
def test_the_stream_of_a_notification(params: bytes, id: Id | None) -> None:
    """The id of the stream is read with its JSON type; what cannot be read is none (SUB-3)."""
    found = stream_id(Notification("notifications/tools/list_changed", params))
    assert (found, type(found)) == (id, type(id))


async def test_a_stream_outlasts_a_question() -> None:
    """The time that stands still while a question is open is none of a stream's, which leaves no timer behind."""
    server = Fake({"subscriptions/listen": Fake.SILENT})
    ours = await conversation(server)
    stream = ours.listen({}, nothing)
    with ours.hold():
        await asyncio.sleep(0)
    assert not stream.answer.done()
    timer = stream.waiting.timer
    assert timer is not None
    ours.end(stream)
    assert timer.cancelled()


async def test_the_end_of_a_stream_is_told_once() -> None:
    """Ending a stream again, or one that the server has ended, or that is lost, tells nothing (SUB-5)."""
    server = Fake({"subscriptions/listen": Fake.SILENT})
    ours = await conversation(server)
    one, other, third = [ours.listen({}, nothing) for _ in range(3)]
    ours.end(one)
    ours.end(one)
    server.say({"id": other.id, "error": {"code": -32603, "message": "no"}})
    with pytest.raises(PeerError):
        await other.answer
    ours.end(other)
    ours.lost(ConnectionClosed("gone"))
    ours.end(third)
    with pytest.raises(ConnectionClosed):
        await third.answer
    assert server.asked("notifications/cancelled") == [{"requestId": one.id}]
    assert ours.listens == {}


async def test_a_request_to_listen_that_cannot_be_sent() -> None:
    """One that is longer than a message may be is not sent (limit `line`), nor one on a lost connection."""
    server = Fake()
    ours = await conversation(server)
    with pytest.raises(LimitExceeded, match="limit `line`"):
        ours.listen({"uris": "x" * server.longest}, nothing)
    ours.lost(ConnectionClosed("gone"))
    with pytest.raises(ConnectionClosed, match="gone"):
        ours.listen({}, nothing)
    assert server.heard == []
