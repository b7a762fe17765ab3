"""One POST and its answer: a JSON text where nothing comes before it, a stream of Server-Sent Events where it does."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, Final

from msgspec import Raw, Struct

from ...protocol.errors import INTERNAL_ERROR, ConnectionClosed, NotSupported
from ...protocol.framing import encode_comment, encode_event
from ...protocol.headers import PLAIN, verify_request
from ...protocol.jsonrpc import Id, OutNotification, Refused, encode, refusal
from ...protocol.limits import Limits
from ..connection import Connection
from ..rest import Rest
from .guard import JSON, STREAM, Pairs, joined
from .service import Whole

log = logging.getLogger("jackfield")

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

JSON_TYPE: Final = (b"content-type", b"application/json")
_STREAM_TYPE: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
_BEAT: Final = encode_comment("")
RETRY: Final = (b"retry-after", b"1")


def refused(status: int, code: int, text: str, id: Id | None = None) -> Refused:
    """An error answer that is sent with this HTTP status."""
    frame = Refused(refusal(code, text, id))
    frame.code = code
    frame.status = status
    return frame


async def reply(
    send: Send,
    status: int,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
    seconds: float,
    whole: Whole | None = None,
) -> None:
    """Send a whole answer; it is given up where the peer hung up, or takes nothing of it for `seconds` (R07)."""
    if status == 200 and whole is not None:
        lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        if whole(send, lines, body):
            return
    headers.append((b"content-length", b"%d" % len(body)))
    start = {"type": "http.response.start", "status": status, "headers": headers}
    try:
        for message in (start, {"type": "http.response.body", "body": body}):
            steps: Any = send(message).__await__()
            for waits_for in steps:  # mostly there is nothing to wait for; only else a deadline is set up
                async with asyncio.timeout(seconds):
                    await Rest(steps, contextvars.copy_context(), waits_for)
                break
    except OSError as fault:  # TimeoutError is one too
        log.debug("an answer was not taken: %r", fault)


class Exchange(Struct, eq=False):
    """A request that is being answered; its handler's link to the peer.

    Whoever made it awaits `serve` (or `wait`), then `finish` with what it gave. Where the handler waits, the peer is
    watched from then on; where it is gone a modern request is cancelled (HTTP-7), a legacy one goes on (LH-2).
    """

    raw: dict[bytes, bytes]
    """The headers by name; the last value of one that came several times."""
    pairs: Pairs
    id: Id
    takes: int
    """What the peer takes as the answer: bits of JSON and STREAM."""
    limits: Limits
    send: Send
    receive: Receive
    waiting: set[Exchange]
    """The exchanges of the application whose handlers wait; this one is among them while its own does, the peer there
    or not."""
    whole: Whole | None = None
    extra: Pairs = ()
    """Headers that the answer has on top."""
    principal: str = "local"
    """Whoever the request is from, as far as that was made sure of."""
    cancels: bool = True
    """Whether the request is cancelled when the peer is gone."""
    plain: bool = True
    """True while nothing was sent and nobody had to wait: the answer can go out as it is."""
    over: bool = False
    """True once the request was answered or cancelled: nothing more is sent for it."""
    gone: bool = False
    """True once the peer is gone, or takes nothing any more."""
    answered: asyncio.Future[Refused | bytes | None] | None = None
    """Where the handler runs elsewhere: its answer, None where none will come."""
    goodbye: bytes | None = None
    """The answer where the server ends before the handler does; None: an error that says so."""
    longest: int = 2**62
    """As the channel of what the peer is asked: a question may be of any size."""
    conversation: Connection | None = None
    """Where a legacy peer can be asked: the session's conversation."""
    _asked: set[Id] = set()
    """Our requests that went out on this stream and wait for an answer."""
    _headers: dict[str, str] | None = None
    _ending: Refused | bytes | None = None
    """Why the handler was cancelled on this side."""
    _task: asyncio.Task[Any] | None = None
    """The task that the handler waits in."""
    _events: list[bytes] = []
    _size: int = 0
    _last: bool = False
    """True once the last event is among `_events`."""
    _pump: asyncio.Task[None] | None = None
    _news: asyncio.Future[None] | None = None
    _room: asyncio.Event | None = None

    # ---- the handler's side

    @property
    def headers(self) -> dict[str, str]:
        """The headers, with lower-case names; values of one that came several times stand in one, with commas."""
        if self._headers is None:
            self._headers = joined(self.pairs)
        return self._headers

    def verify(self, revision: str, method: str, name: str | None) -> None:
        """Refuse a request whose headers do not say what its body says (HDR-1 to HDR-3). Raises ProtocolError."""
        raw = self.raw
        if (
            raw.get(b"mcp-method") == method.encode()
            and raw.get(b"mcp-protocol-version") == revision.encode()
            and (
                name is None
                or (
                    raw.get(b"mcp-name") == name.encode()
                    and ((name.isascii() and name.isidentifier()) or PLAIN.fullmatch(name))
                )
            )
            and len(raw) == len(self.pairs)
        ):
            return  # nearly all do
        verify_request(self.headers, revision, method, name)

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification before the answer (HTTP-5); waits while the peer does not read (limit `outgoing`).

        It is dropped where the answer has been given, the peer is gone, or takes no streams.
        """
        if self.over or self.gone or not self.takes & STREAM:
            return
        self.write(encode(OutNotification(method, params)))
        if self.full:
            await self.drained()

    @property
    def streams(self) -> bool:
        """Tell whether the peer takes a stream at all."""
        return bool(self.takes & STREAM)

    async def sent(self) -> None:
        """Return when nothing waits to be sent, or nobody reads any more."""
        while self._size and not (self.over or self.gone):
            await self._some_sent()

    async def ask(self, method: str, params: Any, timeout: float) -> Raw:
        """Ask a legacy peer on this stream; the answer comes with a POST of its own. Raises as `Connection.ask`.

        NotSupported where no session is kept, for then no answer could find its way back.
        """
        conversation = self.conversation
        if conversation is None:
            raise NotSupported("the client cannot be asked: this server keeps no sessions")
        if self.over or self.gone:
            raise _hung_up()
        id = conversation.new_id()
        self._asked.add(id)
        try:
            return await conversation.request(id, method, params, timeout=timeout, total=timeout, channel=self)
        finally:
            self._asked.discard(id)

    def at_end(self, id: Id, frame: bytes) -> None:
        """Note with which answer the request ends where the server ends first; b"" takes that back."""
        self.goodbye = frame or None

    # ---- as the channel of what the peer is asked

    @property
    def full(self) -> bool:
        """True while so much waits to be sent that a sender should wait (limit `outgoing`)."""
        return self._size >= self.limits.outgoing and not (self.over or self.gone)

    def write(self, frame: bytes) -> None:
        """Put a message on the stream."""
        if self.over or self.gone:
            return
        self.plain = False
        self._put(encode_event(frame))
        if self._task is not None:  # else what is there after the first step goes out at once
            self._open()

    async def drained(self) -> None:
        """Return when there is room, or nobody reads any more."""
        while self.full:
            await self._some_sent()

    async def _some_sent(self) -> None:
        if self._room is None:
            self._room = asyncio.Event()
        self._room.clear()
        await self._room.wait()

    def close(self) -> None:
        """Nothing is to be given up: the stream ends with its answer."""

    def serving(self, id: Id) -> bool:
        """Tell whether the request is still under way: neither answered nor cancelled."""
        return not self.over

    # ---- the answer

    async def serve(self, answer: Coroutine[Any, Any, bytes]) -> Refused | bytes | None:
        """Run a handler and return its answer; None where nobody waits for it any more.

        Its first step is taken at once: most handlers need no other, and so neither timer nor watch.
        """
        try:
            waits_for = answer.send(None)
        except StopIteration as done:
            return done.value
        except asyncio.CancelledError:  # the handler's own; nobody else could have asked for it meanwhile
            return self._cancelled_here()
        return await self.wait(Rest(answer, None, waits_for))

    async def wait(self, answer: Awaitable[Refused | bytes | None]) -> Refused | bytes | None:
        """Wait for the answer, while the peer is watched; after `silence` seconds it becomes a stream."""
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        self._task = task
        self.plain = False
        self.waiting.add(self)
        timer = None
        if self._events:
            self._open()
        elif self.takes & STREAM:
            timer = loop.call_later(self.limits.silence, self._open)
        watch = loop.create_task(self._watch())
        frame = None
        try:
            frame = await answer
        except asyncio.CancelledError:
            if not self.over:
                if task.cancelling():
                    self._abandon()
                    raise
                frame = self._cancelled_here()
        finally:
            self._task = None
            if self.over or self.answered is None or not self.gone:  # else the handler goes on without its peer
                self.waiting.discard(self)
            watch.cancel()
            if timer is not None:
                timer.cancel()
        if not self.over:
            return frame
        if self.answered is None and task.uncancel() > 0:  # `stop` asked once, and somebody else too
            self._abandon()
            raise asyncio.CancelledError
        return self._ending

    async def finish(self, frame: Refused | bytes | None) -> None:
        """Send the answer, as the last event where a stream has begun (HTTP-5).

        None is for a request that its peer cancelled: nothing more is said (CAN-3), so that an empty stream is sent.
        """
        self.over = True
        if self._room is not None:
            self._room.set()
        if self.gone:
            return
        status = frame.status if type(frame) is Refused else 200
        if frame is not None and self._pump is None and not self._events and (self.takes & JSON or status != 200):
            headers = [JSON_TYPE, *self.extra]
            if status == 503:
                headers.append(RETRY)
            await reply(self.send, status, headers, frame, self.limits.write, self.whole)
            return
        if frame is not None:
            self._put(encode_event(frame))
        if self._pump is not None:
            await self._end(self._pump)
        else:
            await reply(self.send, 200, [*_STREAM_TYPE, *self.extra], b"".join(self._events), self.limits.write)

    def _cancelled_here(self) -> Refused:
        return refused(200, INTERNAL_ERROR, "the request was cancelled on this side", self.id)

    # ---- the end from elsewhere

    def stop(self, ending: Refused | bytes | None = None) -> None:
        """Cancel the handler; `ending` is what the peer is told, where it is still there."""
        self.waiting.discard(self)
        if self.over:
            return
        self.over = True
        self._ending = ending
        if self._room is not None:
            self._room.set()
        if self.answered is not None:
            self.answer(ending)
        elif self._task is not None:
            self._task.cancel()

    def answer(self, frame: Refused | bytes | None) -> None:
        """Give the answer of a handler that runs elsewhere; None: there will be none."""
        self.waiting.discard(self)
        if self.answered is not None and not self.answered.done():
            self.answered.set_result(frame)

    def left(self) -> None:
        """Note that the peer is gone, or takes nothing."""
        if self.gone:
            return
        self._abandon()
        if self.cancels:
            self.stop()
        elif self.answered is not None and not self.answered.done():
            self.answered.set_result(None)

    def _abandon(self) -> None:
        self.gone = True
        self._events.clear()
        self._size = 0
        if self.conversation is not None:
            for id in list(self._asked):
                self.conversation.fail(id, _hung_up())
        if self._room is not None:
            self._room.set()
        if self._pump is not None:
            self._pump.cancel()

    async def _watch(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.left()

    # ---- the stream

    def _put(self, event: bytes) -> None:
        self._events.append(event)
        self._size += len(event)
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _open(self) -> None:
        """Make the answer a stream: what is put from now on is sent by a task of its own."""
        if self._pump is None and not (self.over or self.gone):
            self._pump = asyncio.get_running_loop().create_task(self._flow())

    async def _flow(self) -> None:
        """Send what was put, in order; a sign of life where nothing is for `heartbeat` seconds."""
        loop = asyncio.get_running_loop()
        try:
            await self._deliver({"type": "http.response.start", "status": 200, "headers": [*_STREAM_TYPE, *self.extra]})
            more = True
            while more:
                if not self._events and not self._last:
                    self._news = loop.create_future()
                    beat = loop.call_later(self.limits.heartbeat, self._put, _BEAT)
                    try:
                        await self._news
                    finally:
                        beat.cancel()
                body, more = b"".join(self._events), not self._last
                self._events.clear()
                await self._deliver({"type": "http.response.body", "body": body, "more_body": more})
                self._size -= min(len(body), self._size)
                if self._room is not None:
                    self._room.set()
        except Exception as fault:  # mostly it hung up, or has taken nothing for `write` seconds (R07)
            if not isinstance(fault, OSError):
                log.exception("a stream broke off")
            self.left()

    async def _deliver(self, message: MutableMapping[str, Any]) -> None:
        async with asyncio.timeout(self.limits.write):
            await self.send(message)

    async def _end(self, pump: asyncio.Task[None]) -> None:
        """Have the stream sent to its end, and wait for that."""
        self._last = True
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
        try:
            await asyncio.wait([pump])
        finally:
            pump.cancel()


def _hung_up() -> ConnectionClosed:
    return ConnectionClosed("the client hung up, so that it could not be asked")


def closing(id: Id | None) -> Refused:
    """What is said to those who wait when the server ends."""
    return refused(503, INTERNAL_ERROR, "the server is shutting down", id)
