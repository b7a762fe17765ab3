"""Requests that last until somebody ends them: how they end, and that they keep no place from the others."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from jackfield.protocol.errors import ConnectionClosed
from jackfield.protocol.jsonrpc import Answer, encode
from jackfield.protocol.limits import Limits
from tests.transport.fakes import OPEN, cancel, request, served, settle

GONE = ConnectionClosed("client is gone")


@pytest.fixture(autouse=True)
async def _ended() -> AsyncIterator[None]:
    """What is still open after a test is ended in its loop."""
    yield
    while OPEN:
        OPEN.pop().lost(GONE)
    await settle()


async def test_what_never_ends_by_itself_ends_as_foreseen() -> None:
    """A request whose answer was foreseen gets it when the input ends, the others go on; what was taken back does not
    (SUB-5).
    """
    connection, channel, desk = served()
    for id in (1, 2, 3):
        connection.receive(request(id))
    await settle()
    for id in (1, 2):
        connection.at_end(id, encode(Answer(id, {"ended": True})))
    connection.at_end(2, b"")
    connection.input_ended(GONE)
    await settle()
    assert channel.answers() == [{"jsonrpc": "2.0", "id": 1, "result": {"ended": True}}]
    assert desk.cancelled == [1]


async def test_what_never_ends_by_itself_takes_no_place() -> None:
    """Requests whose end was foreseen leave the places to the others, and take one again when they do end (F37)."""
    connection, _, desk = served(Limits(running=2))
    for id in range(1, 6):
        connection.receive(request(id))
        await settle()
        connection.at_end(id, b"{}")
    for id in (6, 7, 8):
        connection.receive(request(id))
    await settle()
    assert desk.started == [1, 2, 3, 4, 5, 6, 7]
    for id in range(1, 6):
        connection.at_end(id, b"")
        connection.receive(cancel(id))
    await settle()
    assert desk.started == [1, 2, 3, 4, 5, 6, 7]
    desk.finish(6)
    await settle()
    assert desk.started == [1, 2, 3, 4, 5, 6, 7, 8]
