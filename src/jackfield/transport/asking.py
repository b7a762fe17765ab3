"""The asking half of a conversation: our requests that wait for their answers, and their deadlines."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from ..protocol.errors import ConnectionClosed, LimitExceeded, PeerError, RequestTimeout
from ..protocol.jsonrpc import ErrorObject, Id, Notification, OutNotification, OutRequest, Response, encode
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.types import ProgressParams, decoder

log = logging.getLogger("jackfield")

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"

_decode_progress = decoder(ProgressParams)


class Channel(Protocol):
    """The way out to the peer: what a transport gives to its connection."""

    longest: int
    """How many bytes the longest frame may have that the other side is expected to take."""

    @property
    def full(self) -> bool:
        """True while so much waits to be sent that a sender should await `drained` (limit `outgoing`)."""
        ...

    def write(self, frame: bytes) -> None:
        """Take one frame (no line end) to send; never waits and never raises."""

    async def drained(self) -> None:
        """Return when the channel is no longer full, or is gone."""

    def close(self) -> None:
        """Give the channel up; what is written but not sent may be lost."""


class Waiting(Struct, eq=False):
    """A request of ours that has no answer yet. Times are the loop's clock, in seconds."""

    method: str
    future: asyncio.Future[Raw]
    idle: float
    start: float
    last: float
    end: float
    progress: Callable[[ProgressParams], None] | None = None
    cancellable: bool = True
    timer: asyncio.TimerHandle | None = None


class Asking:
    """What a side asks the other: a request waits here from the moment it is sent until its answer or its end."""

    def __init__(self, channel: Channel, limits: Limits, name: str) -> None:
        self.limits = limits
        self.name = name
        self.closed: ConnectionClosed | None = None
        self.late = 0
        """Answers that came after their request had ended (R15)."""
        self.unmatched: Callable[[ErrorObject], None] | None = None
        """Where set, told of an error that names no request, which is logged otherwise (F31)."""
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Id, Waiting] = {}
        self._holds = 0
        self._held_since = 0.0
        self._places: deque[asyncio.Future[None]] | None = None
        """Requests of ours that wait until fewer are under way (limit `asking`); made when the first one does."""
        self._last_id = 0

    @property
    def last_id(self) -> int:
        """The id of the newest request of ours."""
        return self._last_id

    @property
    def under_way(self) -> int:
        """How many requests of ours wait for their answers."""
        return len(self._waiting)

    def new_id(self) -> int:
        """An id for the next request; never used twice on this connection (BASE-1)."""
        self._last_id += 1
        return self._last_id

    async def request(
        self,
        id: Id,
        method: str,
        params: Any,
        *,
        timeout: float | None = None,
        total: float | None = None,
        progress: Callable[[ProgressParams], None] | None = None,
        cancellable: bool = True,
        channel: Channel | None = None,
    ) -> Raw:
        """Send a request and return the bytes of its result.

        `timeout` is the longest silence and `total` the longest time in seconds (defaults: limits `request_timeout` and
        `request_total`); progress with the token `id` starts the first anew. Raises PeerError, RequestTimeout,
        InvalidResult, ConnectionClosed, or LimitExceeded. When it times out or the caller is cancelled the peer is told
        (CAN-5), unless not `cancellable`. `channel` is another way out than the connection's own, to the same peer.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise ConnectionClosed(
                f"the connection to {self.name} was opened in another event loop; open one in this loop"
            )
        frame = encode(OutRequest(id, method, params))
        channel = channel or self._channel
        if len(frame) > channel.longest:
            text = f"{method} would take {len(frame)} bytes, more than one message may have (limit `line`)"
            raise LimitExceeded(text, "line")
        while len(self._waiting) >= self.limits.asking and self.closed is None:
            await self._place()  # more at a time would be refused by most servers
        if self.closed is not None:
            raise copy.copy(self.closed)
        now = self._loop.time()
        idle = self.limits.request_timeout if timeout is None else timeout
        end = now + (max(self.limits.request_total, idle) if total is None else total)
        waiting = Waiting(method, self._loop.create_future(), idle, now, now, end, progress, cancellable)
        self._waiting[id] = waiting
        waiting.timer = self._loop.call_at(min(now + idle, end), self._expire, id)
        channel.write(frame)
        try:
            if channel.full:
                await self._drained_or(waiting.future, channel)
            return await waiting.future
        except (asyncio.CancelledError, RequestTimeout):
            if cancellable and self.closed is None:
                channel.write(encode(OutNotification(CANCELLED, {"requestId": id})))
            raise
        finally:
            self._waiting.pop(id, None)
            if self._places:
                self._next_place()
            waiting.timer.cancel()
            if not waiting.future.cancel() and not waiting.future.cancelled():
                waiting.future.exception()  # looked at, so that a fault is not reported again where the caller is gone

    async def _place(self) -> None:
        """Wait until one of the requests under way has ended."""
        place: asyncio.Future[None] = self._loop.create_future()
        if self._places is None:
            self._places = deque()
        self._places.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._next_place()  # the place that this one was given is for another
            raise

    def _next_place(self) -> None:
        while self._places:
            place = self._places.popleft()
            if not place.done():
                place.set_result(None)
                return

    async def _drained_or(self, answer: asyncio.Future[Raw], channel: Channel) -> None:
        """Wait for the channel, but not beyond the answer: a peer that does not read must not outlast the time."""
        drained = self._loop.create_task(channel.drained())
        try:
            await asyncio.wait([drained, answer], return_when=asyncio.FIRST_COMPLETED)
        finally:
            drained.cancel()

    def _expire(self, id: Id) -> None:
        waiting = self._waiting.get(id)
        if waiting is None or waiting.future.done():
            return
        now = self._loop.time()
        due = min(waiting.last + waiting.idle, waiting.end)
        if due > now or self._holds:
            waiting.timer = self._loop.call_at(max(due, now + waiting.idle) if self._holds else due, self._expire, id)
            return
        limit = "request_total" if now >= waiting.end else "request_timeout"
        text = f"{self.name} gave no answer to {waiting.method} in time (limit `{limit}`)"
        waiting.future.set_exception(RequestTimeout(text))

    @contextlib.contextmanager
    def hold(self) -> Generator[None]:
        """While this lasts the time of our requests stands still: the peer waits for an answer of this side."""
        if not self._holds:
            self._held_since = self._loop.time()
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            if not self._holds:
                now = self._loop.time()
                for id, waiting in self._waiting.items():
                    waiting.end += now - max(self._held_since, waiting.start)
                    waiting.last = now
                    if waiting.timer is not None:
                        waiting.timer.cancel()
                    waiting.timer = self._loop.call_at(min(now + waiting.idle, waiting.end), self._expire, id)

    def _take(self, id: Id | None) -> Waiting | None:
        """The request of ours with this id, which has its answer now; None where it does not wait (any more)."""
        waiting = None if id is None else self._waiting.pop(id, None)
        return None if waiting is None or waiting.future.done() else waiting

    def fail(self, id: Id, fault: Exception) -> None:
        """End a request of ours for which no answer will come with `fault`; unknown ids are ignored."""
        if waiting := self._take(id):
            waiting.future.set_exception(fault)

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification; waits while the channel is full. Nothing happens on a closed connection."""
        self._channel.write(encode(OutNotification(method, params)))
        if self._channel.full:
            await self._channel.drained()

    def _resolve(self, response: Response) -> None:
        waiting, error = self._take(response.id), response.error
        if waiting is None:
            self._unasked(response.id)
            if error is not None and response.id is None:
                if self.unmatched is not None:
                    self._tell(self.unmatched, error)
                else:
                    log.warning("%s reports: %s (%d)", self.name, printable(error.message), error.code)
        elif error is not None:
            waiting.future.set_exception(PeerError(error.code, error.message, error.data))
        elif response.result is not None:
            waiting.future.set_result(response.result)

    def _unasked(self, id: Id | None) -> None:
        """Note an answer to what was never asked, or is no longer waited for (F31, R15)."""
        self.late += 1
        log.debug("%s answered a request that does not wait for it: id %s", self.name, printable(repr(id), 80))

    def _progressed(self, notification: Notification) -> bool:
        try:
            params = _decode_progress(notification.params)
        except (msgspec.DecodeError, RecursionError):
            return False
        waiting = self._waiting.get(params.progress_token)
        if waiting is None:
            return False
        waiting.last = self._loop.time()
        if waiting.progress is not None:
            self._tell(waiting.progress, params)
        return True

    def _tell(self, callback: Callable[..., None], *values: Any) -> None:
        """Call back; a fault in there must not keep the messages that follow from being handled."""
        try:
            callback(*values)
        except Exception:
            log.exception("a callback failed on a message from %s", self.name)

    def _withdraw(self) -> None:
        """Tell the peer to stop what still runs for us (CAN-5): this side ends the conversation."""
        if self.closed is None:
            for id, waiting in list(self._waiting.items()):
                if waiting.cancellable:
                    self._channel.write(encode(OutNotification(CANCELLED, {"requestId": id})))

    def input_ended(self, reason: ConnectionClosed) -> None:
        """Nothing more will come: requests of ours fail now; what the peer asked for goes on."""
        if self.closed is None:
            self.closed = reason
        for waiting in list(self._waiting.values()):
            if not waiting.future.done():
                waiting.future.set_exception(copy.copy(reason))
        self._waiting.clear()
        while self._places:
            self._next_place()
