"""One conversation's rules for the peer's requests: order, limits, cancellation, answers, and the end."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.errors import ConnectionClosed, FrameError
from jackfield.protocol.framing import TooLong
from jackfield.protocol.jsonrpc import Answer, Notification, Request, encode
from jackfield.protocol.limits import Limits
from jackfield.transport.connection import Connection
from tests.transport.fakes import (
    OPEN,
    Desk,
    FakeChannel,
    answer,
    cancel,
    error,
    notification,
    request,
    served,
    settle,
)

GONE = ConnectionClosed("client is gone")


@pytest.fixture(autouse=True)
async def _ended() -> AsyncIterator[None]:
    """What is still open after a test is ended in its loop."""
    yield
    while OPEN:
        OPEN.pop().lost(GONE)
    await settle()


async def test_a_peer_that_fills_every_place_is_still_heard() -> None:
    """256 stuck calls and 256 waiting ones: the 513th is told "server busy", pings, cancels and answers are handled."""
    connection, channel, desk = served()
    for id in range(513):
        connection.receive(request(id))
    await settle()
    assert desk.started == list(range(256))
    [refused] = channel.sent
    assert refused["id"] == 512
    assert refused["error"]["code"] == -32603
    assert "server busy" in refused["error"]["message"]
    assert "`running`" in refused["error"]["message"]

    connection.receive(request("p", "ping"))
    asked = asyncio.create_task(connection.request("q", "roots/list", {}))
    await settle()
    assert channel.answers("p")[0]["result"] == {}
    connection.receive(answer("q", {"roots": []}))
    assert json.loads(bytes(await asked)) == {"roots": []}

    for id in range(3):
        connection.receive(cancel(id))
    await settle()
    assert desk.cancelled == [0, 1, 2]
    assert desk.started[256:] == [256, 257, 258]
    desk.finish(100)
    await settle()
    assert channel.answers(100) == [{"jsonrpc": "2.0", "id": 100, "result": "done"}]
    assert desk.started[259:] == [259]
    assert not [message for id in range(3) for message in channel.answers(id)]


async def test_the_waiting_requests_are_bounded_in_bytes() -> None:
    """Beyond `queued_bytes` a request is refused, though there would be places by number."""
    connection, channel, desk = served(Limits(running=1, queued_bytes=1000))
    connection.receive(request(1))
    connection.receive(request(2, text="x" * 800))
    connection.receive(request(3, text="x" * 800))
    assert [message["id"] for message in channel.sent] == [3]
    connection.receive(cancel(2))
    connection.receive(request(4, text="x" * 800))
    await settle()
    desk.finish(1)
    await settle()
    assert desk.started == [1, 4]


async def test_pings_beyond_the_places_are_bounded_too() -> None:
    """A flood of pings in one read runs in at most twice `running` tasks; the rest is refused, never unanswered."""
    connection, channel, _ = served(Limits(running=4, queued=4))
    for id in range(4):
        connection.receive(request(id))
    for id in range(100, 120):
        connection.receive(request(id, "ping"))
    await settle()
    pongs = [message["id"] for message in channel.answers() if message.get("result") == {}]
    assert pongs == [100, 101, 102, 103]
    assert len(channel.codes()) == 12  # four more wait for a place
    connection.receive(request(200, "ping"))
    await settle()
    assert channel.answers(200)[0]["result"] == {}


@pytest.mark.parametrize("id", [0, -1, 10**30, "", "0", "x" * 5000])
async def test_an_answer_has_the_id_of_its_request(id: int | str) -> None:
    """Whatever the id is, it comes back with its value and type (BASE-2)."""
    connection, channel, desk = served()
    connection.receive(request(id))
    await settle()
    desk.finish(id)
    await settle()
    assert len(channel.answers(id)) == 1


async def test_an_id_under_way_is_not_taken_twice() -> None:
    """The id of a running, waiting or cancelled but unfinished request is refused; 1 and "1" are two (BASE-1, R15)."""
    connection, channel, desk = served(Limits(running=2, queued=4))
    desk.stubborn = {1}
    for id in (1, "1", 2):
        connection.receive(request(id))
    for id in (1, 2):
        connection.receive(request(id))
    assert [(message["id"], message["error"]["code"]) for message in channel.sent] == [(1, -32600), (2, -32600)]
    await settle()
    connection.receive(cancel(1))
    await settle()
    connection.receive(request(1))
    assert channel.codes() == [-32600] * 3

    desk.finish(1)
    desk.finish("1")
    await settle()
    assert "result" not in channel.answers(1)[-1]
    connection.receive(request(1))
    await settle()
    desk.finish(1)
    await settle()
    assert channel.answers(1)[-1]["result"] == "done"


async def test_a_request_cancelled_before_its_first_step_never_starts() -> None:
    """A cancel in the same read as its request: no handler runs, nothing is sent, the place is free (STDIO-4)."""
    connection, channel, desk = served(Limits(running=1))
    connection.receive(request(1))
    connection.receive(cancel(1))
    connection.receive(request(2))
    await settle()
    assert desk.started == [2]
    assert channel.sent == []


async def test_a_request_cancelled_while_it_waits_never_starts() -> None:
    """Cancelling a request in the queue takes it out; those behind it keep their order (STDIO-4)."""
    connection, channel, desk = served(Limits(running=1))
    for id in (1, 2, 3, 4):
        connection.receive(request(id))
    connection.receive(cancel(3))
    for id in (1, 2, 4):
        await settle()
        desk.finish(id)
    await settle()
    assert desk.started == [1, 2, 4]
    assert [message["id"] for message in channel.sent] == [1, 2, 4]


async def test_a_handler_that_ignores_cancellation_is_not_multiplied() -> None:
    """It is abandoned: nothing is sent for it, but it keeps its place until it has really ended (STDIO-4)."""
    connection, channel, desk = served(Limits(running=2))
    desk.stubborn = {1}
    for id in (1, 2, 3):
        connection.receive(request(id))
    await settle()
    connection.receive(cancel(1))
    connection.receive(cancel(1))
    await settle()
    assert desk.cancelled == [1]
    assert desk.started == [1, 2]
    assert not connection.serving(1)
    assert connection.serving(2)
    desk.finish(1)
    await settle()
    assert desk.started == [1, 2, 3]
    assert channel.sent == []


async def test_nothing_is_sent_for_a_cancelled_handler_that_fails() -> None:
    """What a handler raises after it was cancelled is not the peer's business any more (STDIO-4)."""
    connection, channel, desk = served()
    desk.stubborn = {1}
    connection.receive(request(1))
    await settle()
    connection.receive(cancel(1))
    desk.fail(1, RuntimeError("too late"))
    await settle()
    assert channel.sent == []


async def test_a_handler_that_cancels_itself_is_answered() -> None:
    """A CancelledError that the peer did not ask for gives -32603: a request is never left without an answer."""
    connection, channel, desk = served(Limits(running=1))
    connection.receive(request(1))
    await settle()
    desk.open[1].cancel()
    await settle()
    assert [(message["id"], message["error"]["code"]) for message in channel.sent] == [(1, -32603)]
    connection.receive(request(2))
    await settle()
    assert desk.started == [1, 2]


async def test_a_fault_of_one_request_stays_in_it(caplog: pytest.LogCaptureFixture) -> None:
    """An exception out of `serve` gives -32603 without its text, a log entry, and nothing else."""
    connection, channel, desk = served(Limits(running=1))
    connection.receive(request(1, "work\x1b[2J"))
    await settle()
    desk.fail(1, RuntimeError("secret"))
    await settle()
    assert channel.codes() == [-32603]
    assert "secret" not in str(channel.sent)
    assert "\x1b" not in caplog.text.replace("Traceback", "")
    connection.receive(request(2))
    await settle()
    desk.finish(2)
    await settle()
    assert channel.answers(2)


async def test_an_answer_to_a_peer_that_does_not_read_keeps_its_place() -> None:
    """While the channel is full an answered request holds its place, so unsent answers are bounded; its id is free."""
    connection, channel, desk = served(Limits(running=2, queued=8))
    for id in range(1, 6):
        connection.receive(request(id))
    await settle()
    channel.fill()
    desk.finish(1)
    desk.finish(2)
    await settle()
    assert desk.started == [1, 2]
    assert len(channel.answers()) == 2
    assert not connection.serving(1)
    connection.receive(cancel(1))
    connection.receive(request(1))
    await settle()
    assert len(channel.sent) == 2
    channel.empty()
    await settle()
    assert desk.started == [1, 2, 3, 4]
    for id in (3, 4, 5, 1):
        desk.finish(id)
        await settle()
    assert [message["id"] for message in channel.answers()] == [1, 2, 3, 4, 5, 1]


async def test_quiet_waits_for_all_that_the_peer_asked_for() -> None:
    """`quiet` returns to every waiter when nothing runs, waits, ends late or waits for the peer to read."""
    connection, channel, desk = served(Limits(running=2))
    await connection.quiet()
    desk.stubborn = {1}
    for id in (1, 2, 3):
        connection.receive(request(id))
    waiters = [asyncio.create_task(connection.quiet()) for _ in range(2)]
    await settle()
    connection.receive(cancel(1))
    desk.finish(2)
    await settle()
    assert desk.started == [1, 2, 3]
    channel.fill()
    desk.finish(3)
    await settle()
    channel.empty()
    await settle()
    assert not any(waiter.done() for waiter in waiters)
    desk.finish(1)
    await asyncio.gather(*waiters)


async def test_a_lost_peer_ends_everything() -> None:
    """`lost` cancels handlers, drops the queue, fails our requests with errors of their own, and sends nothing more."""
    connection, channel, desk = served(Limits(running=2))
    for id in (1, 2, 3):
        connection.receive(request(id))
    ours = [asyncio.create_task(connection.request(connection.new_id(), "ping", {})) for _ in range(2)]
    await settle()
    channel.sent.clear()
    connection.lost(GONE)
    connection.lost(ConnectionClosed("again"))
    await connection.quiet()
    assert desk.started == [1, 2]
    assert desk.cancelled == [1, 2]
    errors = await asyncio.gather(*ours, return_exceptions=True)
    assert [str(fault) for fault in errors] == ["client is gone"] * 2
    assert errors[0] is not errors[1]
    with pytest.raises(ConnectionClosed, match="client is gone"):
        await connection.request(9, "ping", {})
    assert channel.sent == []


async def test_the_end_of_input_leaves_what_was_asked() -> None:
    """After `input_ended` our requests fail, and the peer's requests are still served, the waiting ones too."""
    connection, channel, desk = served(Limits(running=1))
    for id in (1, 2):
        connection.receive(request(id))
    ours = asyncio.create_task(connection.request("q", "ping", {}))
    await settle()
    connection.input_ended(GONE)
    with pytest.raises(ConnectionClosed):
        await ours
    for id in (1, 2):
        desk.finish(id)
        await settle()
    await connection.quiet()
    assert [message["id"] for message in channel.answers()] == [1, 2]


async def test_notifications_get_no_answer() -> None:
    """Known, unknown, late and malformed notifications are heard or ignored and never answered (BASE-4, CAN-3, F34)."""
    heard: list[str] = []
    channel = FakeChannel()
    connection = Connection(channel, serve=Desk().serve, notice=lambda notice: heard.append(notice.method))
    for params in (
        {"requestId": 99},
        {"requestId": "99"},
        {"requestId": None},
        {"requestId": [1]},
        {},
        {"reason": "x"},
    ):
        connection.receive(notification("notifications/cancelled", **params))
    connection.receive(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}')
    connection.receive(b'{"jsonrpc":"2.0","method":"notifications/cancelled"}')
    connection.receive(notification("notifications/progress", progressToken="none", progress=1))
    connection.receive(notification("notifications/progress", progress="x"))
    connection.receive(notification("notifications/unknown"))
    await settle()
    assert heard == ["notifications/progress", "notifications/progress", "notifications/unknown"]
    assert channel.sent == []


@pytest.mark.parametrize(
    ("frame", "id", "code"),
    [
        (b"\xff\xfe", None, -32700),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":"\xff"}}', 7, -32700),
        (b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}', None, -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]', None, -32600),
        (b"[]", None, -32600),
        (b'{"jsonrpc":"1.0","id":3,"method":"ping"}', 3, -32600),
        (b'{"id":3,"method":"ping"}', 3, -32600),
        (b"42", None, -32600),
        (b"{", None, -32700),
        (b'{"jsonrpc":"2.0","id":5,"method":"a","params":' + b"[" * 100 + b"]" * 100 + b"}", 5, -32700),
    ],
)
async def test_a_server_answers_what_it_cannot_read(frame: bytes, id: int | None, code: int) -> None:
    """One error, with the id if the envelope has one, else without that member (BASE-3, BASE-5, F4, F30, F33, T13)."""
    connection, channel, _ = served()
    connection.receive(frame)
    [said] = channel.sent
    assert said["error"]["code"] == code
    assert said.get("id") == id
    assert ("id" in said) == (id is not None)
    connection.receive(request(9, "ping"))
    await settle()
    assert channel.answers(9)


async def test_a_client_never_answers_what_it_cannot_read() -> None:
    """A side with `stray` tells it of frames that are no messages and sends nothing (BASE-6, F7)."""
    channel, told = FakeChannel(), list[tuple[bytes, int]]()
    connection = Connection(channel, stray=lambda frame, fault: told.append((frame, fault.code)))
    connection.receive(b"Server ready.")
    connection.receive(b"42")
    connection.refuse_long(TooLong(100, b"x"))
    assert told == [(b"Server ready.", -32700), (b"42", -32600), (b"x", -32700)]
    assert channel.sent == []


async def test_a_line_that_was_too_long_is_answered() -> None:
    """The error for a dropped line names the limit, and the id where the line began with it (T15)."""
    connection, channel, _ = served()
    connection.refuse_long(TooLong(1000, b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":"'))
    connection.refuse_long(TooLong(1000, b'{"method":"x","params":{"a":"'))
    said, unknown = channel.sent
    assert said["id"] == 5
    assert "id" not in unknown
    assert said["error"]["code"] == -32700
    assert "1000 bytes (limit `line`)" in said["error"]["message"]


async def test_a_side_without_handlers_drops_requests(caplog: pytest.LogCaptureFixture) -> None:
    """Where `serve` is None a request is logged, escaped, and not answered (BASE-6)."""
    channel = FakeChannel()
    connection = Connection(channel, stray=lambda frame, fault: None, name="server")
    connection.receive(request(1, "sampling/\x1b[31m"))
    await settle()
    assert channel.sent == []
    assert r"server sent a request (sampling/\x1b[31m)" in caplog.text


async def test_a_callback_that_fails_takes_nothing_with_it(caplog: pytest.LogCaptureFixture) -> None:
    """Faults in `notice`, `stray`, `unmatched` and a progress callback are logged, and `receive` goes on."""

    def burst(*_: object) -> None:
        raise RuntimeError("burst")

    connection = Connection(FakeChannel(), notice=burst, stray=burst)
    connection.unmatched = burst
    asked = asyncio.create_task(connection.request("q", "tools/call", {}, progress=burst))
    await settle()
    connection.receive(notification("notifications/message"))
    connection.receive(b"no message")
    connection.receive(error(None))
    connection.receive(notification("notifications/progress", progressToken="q", progress=1))
    connection.receive(answer("q", 1))
    assert bytes(await asked) == b"1"
    assert caplog.text.count("RuntimeError: burst") == 4


@given(st.data())
def test_receive_never_raises(data: st.DataObject) -> None:
    """Whatever bytes come, `receive` returns, and the next request is answered."""
    parts = st.sampled_from(
        [b"{", b"}", b"[", b'"', b":", b",", b"\xff", b"\\ud800", b"1e999", b"9" * 5000, b"null", b"0"]
    )
    whole = st.sampled_from([request(1), cancel(1), answer(1), error(1), error(None), notification("x")])

    async def main() -> None:
        channel = FakeChannel()
        sides: list[dict[str, Any]] = [{"serve": _echo}, {"serve": _echo, "stray": _ignore, "notice": _ignore}, {}]
        connection = Connection(channel, **data.draw(st.sampled_from(sides)))
        frame = bytearray(data.draw(whole))
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(frame)))
            frame[at : at + data.draw(st.integers(0, 9))] = data.draw(parts | st.binary(max_size=4))
        connection.receive(bytes(frame))
        if connection._serve is not None:
            connection.receive(request("last"))
            await settle()
            assert channel.answers("last")[-1]["result"] == "echo"

    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(main())
    finally:
        logging.disable(logging.NOTSET)


async def _echo(request: Request, connection: Connection) -> bytes:
    return encode(Answer(request.id, "echo"))


def _ignore(*_: Notification | FrameError | bytes) -> None:
    """Hear it."""


async def test_an_answer_that_no_peer_would_take_is_an_error() -> None:
    """An answer over the limit `line` becomes an error that names the limit, and nothing is silent (R06)."""
    connection, channel, _ = served()
    channel.longest = 10
    connection.receive(request(1, "ping"))
    await settle()
    [said] = channel.answers(1)
    assert "limit `line`" in said["error"]["message"]


async def test_blank_lines_are_nothing() -> None:
    """A line of blanks is neither answered nor told of (STDIO-1)."""
    connection, channel, _ = served()
    connection.receive(b"  \t")
    assert channel.sent == []


async def test_half_a_surrogate_in_an_id_costs_nothing_else() -> None:
    """The frame is answered without an id, and nothing escapes `receive` (F4, T14)."""
    connection, channel, _ = served()
    connection.receive(rb'{"jsonrpc":"2.0","id":"x\ud800","method":"ping"}')
    [said] = channel.sent
    assert said["error"]["code"] == -32700
    assert "id" not in said
