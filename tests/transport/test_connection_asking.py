"""One conversation's rules for this side's requests: answers, time, progress, cancellation, and a full channel."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jackfield.protocol.errors import ConnectionClosed, InvalidResult, LimitExceeded, PeerError, RequestTimeout
from jackfield.protocol.framing import TooLong
from jackfield.protocol.limits import Limits
from jackfield.protocol.types import ProgressParams
from jackfield.transport.connection import Connection
from tests.transport.fakes import FakeChannel, answer, error, notification, settle


class Clock:
    """The running loop's clock, moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        asyncio.get_running_loop().time = lambda: self.now  # type: ignore[method-assign]

    async def forward(self, seconds: float) -> None:
        """Let that time pass, and what falls due in it happen."""
        self.now += seconds
        await settle()


def asking(limits: Limits | None = None) -> tuple[Connection, FakeChannel]:
    """A client's side of a conversation."""
    channel = FakeChannel()
    return Connection(channel, stray=lambda frame, fault: None, limits=limits, name="server"), channel


def ask(connection: Connection, id: int | str, **options: Any) -> asyncio.Task[Any]:
    """Send a request."""
    return asyncio.create_task(connection.request(id, "tools/call", {"name": "x"}, **options))


def progress(token: int | str, value: float) -> bytes:
    """A progress notification's frame."""
    return notification("notifications/progress", progressToken=token, progress=value)


async def test_answers_find_their_requests() -> None:
    """Answers come in any order and go by id and its type; the bytes of the result come as they are (BASE-2)."""
    connection, channel = asking()
    one, other = ask(connection, 1), ask(connection, "1")
    await settle()
    assert [(message["id"], message["method"]) for message in channel.sent] == [(1, "tools/call"), ("1", "tools/call")]
    connection.receive(b'{"jsonrpc":"2.0","id":"1","result":{"a": 1.0, "a" :2}}')
    connection.receive(answer(1, None))
    assert bytes(await other) == b'{"a": 1.0, "a" :2}'
    assert bytes(await one) == b"null"


async def test_an_error_of_the_peer_is_told_apart() -> None:
    """The peer's error arrives as PeerError with code, message and data (BASE-7, BASE-8)."""
    connection, _ = asking()
    asked = ask(connection, 1)
    await settle()
    connection.receive(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no","data":[1]}}')
    with pytest.raises(PeerError) as caught:
        await asked
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32001, "no", [1])


async def test_an_unreadable_answer_fails_its_request() -> None:
    """A reply that breaks the rules but has a known id ends that request with InvalidResult, not with silence (F4)."""
    connection, channel = asking()
    first, second = ask(connection, 1), ask(connection, 2)
    await settle()
    connection.receive(b'{"jsonrpc":"2.0","id":1,"result":{"text":"\xff"}}')
    connection.receive(b'{"jsonrpc":"2.0","id":2,"error":"broken"}')
    for asked in (first, second):
        with pytest.raises(InvalidResult, match="server answered tools/call with"):
            await asked
    assert len(channel.sent) == 2


async def test_late_and_foreign_answers_are_counted_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Answers to nothing, a second time or too late change nothing and are logged, as errors without id (F31, R15)."""
    caplog.set_level("DEBUG", "jackfield")
    connection, _ = asking()
    asked = ask(connection, 1)
    await settle()
    connection.receive(answer(99))
    connection.receive(answer("1\x1b[2J"))
    connection.receive(answer(1, "first"))
    connection.receive(answer(1, "second"))
    connection.receive(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what?\\u001b[2J"}}')
    assert bytes(await asked) == b'"first"'
    assert connection.late == 4
    for id in ("99", r"'1\x1b[2J'", "1"):
        assert f"server answered a request that does not wait for it: id {id}\n" in caplog.text
    assert "\x1b" not in caplog.text
    assert r"server reports: what?\x1b[2J (-32600)" in caplog.text

    told: list[str] = []
    connection.unmatched = lambda fault: told.append(fault.message)
    connection.receive(error(None, message="again"))
    assert told == ["again"]


async def test_a_silent_peer_is_given_up() -> None:
    """After the limit the request fails, names the limit, and the peer is told; the late answer is dropped (CAN-5)."""
    clock = Clock()
    connection, channel = asking(Limits(request_timeout=60))
    asked = ask(connection, 1)
    await settle()
    await clock.forward(59)
    assert not asked.done()
    await clock.forward(1)
    with pytest.raises(
        RequestTimeout, match=r"server gave no answer to tools/call in time \(limit `request_timeout`\)"
    ):
        await asked
    assert channel.notices("notifications/cancelled") == [{"requestId": 1}]
    connection.receive(answer(1))
    assert connection.late == 1


async def test_an_answer_in_the_moment_of_the_timeout_is_late() -> None:
    """An answer that is read after the time is up, but before the caller could run, changes nothing."""
    clock = Clock()
    connection, channel = asking()
    asked = ask(connection, 1, timeout=1)
    await settle()
    asyncio.get_running_loop().call_at(clock.now + 1.001, connection.receive, answer(1))
    await clock.forward(1.01)
    with pytest.raises(RequestTimeout):
        await asked
    assert connection.late == 1
    assert len(channel.notices("notifications/cancelled")) == 1


async def test_progress_starts_the_time_anew_up_to_the_end() -> None:
    """Each progress notification resets the silence, with or without a callback; the total stays (F42, CAN-5)."""
    clock = Clock()
    connection, channel = asking()
    heard: list[ProgressParams] = []
    asked = ask(connection, 7, timeout=10, total=25, progress=heard.append)
    deaf = ask(connection, "7", timeout=10, total=100)
    await settle()
    for step in (1, 2, 3):
        await clock.forward(8)
        for token in (7, "7"):
            connection.receive(progress(token, step))
    assert [said.progress for said in heard] == [1, 2, 3]
    assert not asked.done()
    await clock.forward(1)
    with pytest.raises(RequestTimeout, match="limit `request_total`"):
        await asked
    connection.receive(progress(7, 4))
    assert len(heard) == 3
    await clock.forward(8)
    assert not deaf.done()
    await clock.forward(1)
    with pytest.raises(RequestTimeout, match="limit `request_timeout`"):
        await deaf
    assert channel.notices("notifications/cancelled") == [{"requestId": 7}, {"requestId": "7"}]


@pytest.mark.parametrize("cancellable", [True, False])
async def test_a_cancelled_caller_cancels_at_the_peer(cancellable: bool) -> None:
    """Giving a request up tells the peer once, except for one that must not be cancelled, `initialize` (CAN-4, F39)."""
    connection, channel = asking()
    asked = ask(connection, 3, cancellable=cancellable)
    await settle()
    asked.cancel()
    await settle()
    assert asked.cancelled()
    assert channel.notices("notifications/cancelled") == ([{"requestId": 3}] if cancellable else [])
    connection.receive(answer(3))
    assert connection.late == 1


async def test_fifty_requests_given_up_leave_nothing_behind() -> None:
    """Each of 50 cancelled and 50 timed-out requests is cancelled at the peer once, with its own id (F39, R14)."""
    clock = Clock()
    connection, channel = asking()
    tasks = [ask(connection, connection.new_id(), timeout=5) for _ in range(100)]
    await settle()
    for task in tasks[:50]:
        task.cancel()
    await clock.forward(5)
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(fault, asyncio.CancelledError) for fault in outcomes[:50])
    assert all(isinstance(fault, RequestTimeout) for fault in outcomes[50:])
    told = [params["requestId"] for params in channel.notices("notifications/cancelled")]
    assert sorted(told) == list(range(1, 101))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_closed_connection_fails_what_waits_and_what_comes() -> None:
    """Requests fail with ConnectionClosed, its details kept, and the peer is sent nothing more (BASE-8)."""
    connection, channel = asking()
    asked = ask(connection, 1)
    await settle()
    connection.lost(ConnectionClosed("server is gone", exit_code=3, stderr="bad"))
    with pytest.raises(ConnectionClosed, match="server is gone") as caught:
        await asked
    assert (caught.value.exit_code, caught.value.stderr) == (3, "bad")
    with pytest.raises(ConnectionClosed) as later:
        await ask(connection, 2)
    assert later.value is not caught.value
    assert later.value.exit_code == 3
    assert len(channel.sent) == 1


async def test_leaving_tells_the_peer_to_stop() -> None:
    """Who ends the conversation cancels once all that is under way, but never the handshake (F12, CAN-4, CAN-5)."""
    connection, channel = asking()
    handshake, waits, given_up, answered = (ask(connection, id, cancellable=id > 0) for id in range(4))
    await settle()
    connection.receive(answer(3))
    given_up.cancel()
    connection.leave(ConnectionClosed("this side left"))
    connection.leave(ConnectionClosed("again"))
    for asked in (handshake, waits):
        with pytest.raises(ConnectionClosed, match="this side left"):
            await asked
    await settle()
    assert given_up.cancelled()
    assert bytes(await answered) == b"null"
    assert channel.notices("notifications/cancelled") == [{"requestId": 1}, {"requestId": 2}]


async def test_a_peer_that_does_not_read_is_given_up_too() -> None:
    """A request that waits for room in the channel still ends by its answer, its timeout or its caller."""
    clock = Clock()
    connection, channel = asking()
    channel.fill()
    answered, timed, cancelled = (ask(connection, id, timeout=5) for id in (1, 2, 3))
    await settle()
    connection.receive(answer(1, "quick"))
    assert bytes(await answered) == b'"quick"'
    cancelled.cancel()
    await settle()
    assert cancelled.cancelled()
    await clock.forward(5)
    with pytest.raises(RequestTimeout):
        await timed
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}

    waits = ask(connection, 4)
    await settle()
    channel.empty()
    await settle()
    connection.receive(answer(4, "then"))
    assert json.loads(bytes(await waits)) == "then"


async def test_a_notification_waits_for_the_peer_to_read() -> None:
    """`notify` returns when there is room again, so a handler that reports a lot cannot fill the memory (F45)."""
    connection, channel = asking()
    await connection.notify("notifications/message", {"n": 1})
    channel.fill()
    waits = asyncio.create_task(connection.notify("notifications/message", {"n": 2}))
    await settle()
    assert not waits.done()
    channel.empty()
    await waits
    assert channel.notices("notifications/message") == [{"n": 1}, {"n": 2}]


async def test_ids_are_never_used_twice() -> None:
    """`new_id` only counts up (BASE-1)."""
    connection, _ = asking()
    ids = [connection.new_id() for _ in range(100)]
    assert len(set(ids)) == 100


async def test_an_answer_that_was_too_long_fails_its_request() -> None:
    """A request whose answer was dropped for its length fails at once and names the limit (R06)."""
    connection, _ = asking()
    asked = ask(connection, 1)
    await settle()
    connection.refuse_long(TooLong(1000, b'{"jsonrpc":"2.0","id":1,"result":{"content":"'))
    with pytest.raises(InvalidResult, match="longer than 1000 bytes \\(limit `line`\\)"):
        await asked


async def test_a_request_that_no_peer_would_take_is_not_sent() -> None:
    """A message over the limit `line` fails at once, with a typed error that names the limit (R06)."""
    connection, channel = asking()
    channel.longest = 1000
    with pytest.raises(LimitExceeded, match="limit `line`") as caught:
        await connection.request(1, "tools/call", {"text": "x" * 1000})
    assert caught.value.limit == "line"
    assert channel.sent == []


async def test_more_requests_than_a_peer_runs_wait_here() -> None:
    """Beyond the limit `asking` requests wait for earlier ones to end; a cancelled one gives its place on."""
    connection, channel = asking(Limits(asking=2))
    asked = [ask(connection, id) for id in range(1, 6)]
    await settle()
    assert [message["id"] for message in channel.sent] == [1, 2]
    connection.receive(answer(1))
    await settle()
    assert [message["id"] for message in channel.sent] == [1, 2, 3]
    asked[3].cancel()
    connection.receive(answer(2))
    await settle()
    assert [message["id"] for message in channel.sent] == [1, 2, 3, 5]
    connection.lost(ConnectionClosed("gone"))
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results[2:]] == [ConnectionClosed, asyncio.CancelledError, ConnectionClosed]


async def test_requests_that_wait_for_a_place_fail_when_the_peer_is_gone() -> None:
    """Nothing waits for a place on a connection that is closed (F11)."""
    connection, _ = asking(Limits(asking=1))
    asked = [ask(connection, id) for id in range(1, 5)]
    await settle()
    connection.lost(ConnectionClosed("gone"))
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [ConnectionClosed] * 4


def test_a_connection_belongs_to_its_loop() -> None:
    """A request from another event loop is refused with the reason, where it would wait for ever."""

    async def opened() -> Connection:
        return asking()[0]

    async def used(connection: Connection) -> None:
        with pytest.raises(ConnectionClosed, match="opened in another event loop"):
            await connection.request(1, "tools/list", {})

    asyncio.run(used(asyncio.run(opened())))


async def test_time_stands_still_while_the_peer_waits_for_an_answer() -> None:
    """While a question is open no request of ours runs out of time, also one that began meanwhile (design 6)."""
    connection, _ = asking(Limits(request_timeout=10, request_total=20))
    clock = Clock()
    before = ask(connection, 1)
    await settle()
    await clock.forward(9)
    with connection.hold():
        during = ask(connection, 2)
        await settle()
        with connection.hold():
            await clock.forward(1000)
        await clock.forward(1000)
        assert not before.done()
    await clock.forward(9)
    assert not before.done()
    assert not during.done()
    await clock.forward(2)
    for each in (before, during):
        with pytest.raises(RequestTimeout, match="limit"):
            await each


async def test_the_total_time_is_what_passed_without_questions() -> None:
    """A question moves the end of a request's whole time by as long as it took (design 6)."""
    connection, _ = asking(Limits(request_timeout=10, request_total=20))
    clock = Clock()
    asked = ask(connection, 1)
    await settle()
    with connection.hold():
        await clock.forward(100)
    for step in range(4):
        await clock.forward(4)
        connection.receive(progress(1, step))
    assert not asked.done()
    await clock.forward(5)
    with pytest.raises(RequestTimeout, match="request_total"):
        await asked


async def test_a_request_may_go_another_way() -> None:
    """With a channel of its own a request, and its cancellation, go out there; the answer may come by any way."""
    connection, channel = asking()
    other = FakeChannel()
    asked = asyncio.create_task(connection.request(7, "roots/list", {}, channel=other))
    await settle()
    assert (channel.sent, [each["id"] for each in other.sent]) == ([], [7])
    connection.receive(answer(7))
    await asked
    asked = asyncio.create_task(connection.request(8, "roots/list", {}, channel=other))
    await settle()
    asked.cancel()
    await settle()
    assert other.notices("notifications/cancelled") == [{"requestId": 8}]
    assert channel.sent == []
