"""One conversation, either side: ids, correlation, requests under way, cancellation, queue and backpressure."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ConnectionClosed,
    FrameError,
    InvalidResult,
    LimitExceeded,
    PeerError,
    RequestTimeout,
)
from ..protocol.framing import TooLong
from ..protocol.jsonrpc import (
    ErrorObject,
    Id,
    Notification,
    OutNotification,
    OutRequest,
    Request,
    Response,
    decode,
    encode,
    read_head,
    refusal,
)
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.types import CancelledParams, ProgressParams, decoder
from .rest import Rest

log = logging.getLogger("jackfield")

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
_ALWAYS = ("ping", "server/discover")
"""Requests that are answered however busy this side is."""


class Channel(Protocol):
    """The way out to the peer: what a transport gives to its connection."""

    full: bool
    """True while so much waits to be sent that a sender should await `drained` (limit `outgoing`)."""
    longest: int
    """How many bytes the longest frame may have that the other side is expected to take."""

    def write(self, frame: bytes) -> None:
        """Take one frame (no line end) to send; never waits and never raises."""

    async def drained(self) -> None:
        """Return when the channel is no longer full, or is gone."""

    def close(self) -> None:
        """Give the channel up; what is written but not sent may be lost."""


_decode_progress = decoder(ProgressParams)
_decode_cancelled = decoder(CancelledParams)

Serve = Callable[[Request, "Connection"], Coroutine[Any, Any, bytes]]
"""Answers a request with the encoded answer; raises nothing but CancelledError."""


class Waiting(Struct, eq=False):
    """A request of ours that has no answer yet. Times are the loop's clock, in seconds."""

    method: str
    future: asyncio.Future[Raw]
    idle: float
    last: float
    end: float
    progress: Callable[[ProgressParams], None] | None = None
    cancellable: bool = True
    timer: asyncio.TimerHandle | None = None


class Connection:
    """One conversation over any channel.

    `serve` answers the peer's requests (None: a side that takes none; they are logged and dropped), `notice` hears its
    notifications except those that the connection itself handles (cancelled; progress of a request under way), `stray`
    hears frames that cannot be read. A side without `stray` (a server) answers these with a JSON-RPC error; a client
    must not (BASE-6). What a callback raises is logged.
    Everything happens on one event loop; `receive` never waits, so answers and cancellations are handled at once.
    """

    def __init__(
        self,
        channel: Channel,
        *,
        serve: Serve | None = None,
        notice: Callable[[Notification], None] | None = None,
        stray: Callable[[bytes, FrameError], None] | None = None,
        limits: Limits | None = None,
        name: str = "peer",
    ) -> None:
        self.limits = limits or Limits()
        self.name = name
        self.closed: ConnectionClosed | None = None
        self.late = 0
        """Answers that came after their request had ended (R15)."""
        self.farewell: asyncio.Task[None] | None = None
        """In memory: what the other side still does after this one closed its channel."""
        self.unmatched: Callable[[ErrorObject], None] | None = None
        """Where set, told of an error that names no request, which is logged otherwise (F31)."""
        self._channel = channel
        self._serve = serve
        self._notice = notice
        self._stray = stray
        self._loop = asyncio.get_running_loop()
        # Each task in these three holds one of the slots.
        self._running: dict[Id, Request | asyncio.Task[None]] = {}
        """The task that serves the request, or the request itself while it is still `_ready`."""
        self._ready: deque[Request] = deque()
        self._scheduled = 0
        """Tasks that are about to look after what is ready."""
        self._abandoned: dict[Id, asyncio.Task[None]] = {}
        self._answered: set[asyncio.Task[None]] = set()
        self._queue: dict[Id, tuple[Request, int]] = {}
        self._queued_bytes = 0
        self._waiting: dict[Id, Waiting] = {}
        self._places: deque[asyncio.Future[None]] = deque()
        """Requests of ours that wait until fewer are under way (limit `asking`)."""
        self._last_id = 0
        self._slots = 0 if serve is None else self.limits.running
        self._depth = self.limits.depth

    # ---- what came in

    def receive(self, frame: bytes) -> None:
        """Take one whole frame from the peer; never raises, never waits."""
        try:
            message = decode(frame, self._depth)
        except FrameError as error:
            if not frame.isspace():  # a blank line is nothing (STDIO-1)
                self.refuse_frame(frame, error)
            return
        if type(message) is Request:  # quicker than isinstance, which asks a Struct's metaclass
            if message.id in self._running or self._slots <= 0 or self._abandoned:
                self._sort(message, len(frame))
            else:  # as `_start` does, a step less
                self._slots -= 1
                self._running[message.id] = message
                self._ready.append(message)
                if not self._scheduled:
                    self._scheduled = 1
                    self._loop.create_task(self._work())
        elif type(message) is Response:
            self._resolve(message)
        elif isinstance(message, Notification):
            self._hear(message)

    def refuse_frame(self, frame: bytes, error: FrameError) -> None:
        """Handle a frame that cannot be read: fail the request it answers, tell `stray`, or answer it (F4)."""
        if error.reply and (waiting := self._take(error.id)):
            fault = InvalidResult(f"{self.name} answered {waiting.method} with {printable(error.message)}")
            waiting.future.set_exception(fault)
        elif self._stray is not None:
            self._tell(self._stray, frame, error)
        elif error.reply:
            self._unasked(error.id)
        else:
            self._channel.write(refusal(error.code, error.message, error.id))

    def refuse_long(self, line: TooLong) -> None:
        """Handle a frame that was longer than the transport's limit and was dropped, but for its head."""
        id, reply = read_head(line.head)
        text = f"a message that is longer than {line.limit} bytes (limit `line`)"
        self.refuse_frame(line.head, FrameError(PARSE_ERROR, text, id, reply=reply))

    def _start(self, request: Request) -> None:
        self._slots -= 1
        self._running[request.id] = request
        self._ready.append(request)
        self._hand_over(1)

    def _sort(self, request: Request, size: int) -> None:
        """Refuse, start or queue up a request for which there may be no place."""
        id, limits = request.id, self.limits
        if self._serve is None:
            log.warning("%s sent a request (%s), which this side does not take", self.name, printable(request.method))
        elif id in self._running or id in self._queue or id in self._abandoned:
            self._channel.write(refusal(INVALID_REQUEST, "a request with this id is already under way", id))
        elif self._slots > 0 or (request.method in _ALWAYS and self._slots > -limits.running):
            self._start(request)  # these also beyond the slots, or a busy peer would look like a dead one
        elif len(self._queue) >= limits.queued or self._queued_bytes + size > limits.queued_bytes:
            text = f"server busy: {limits.running} requests run, {len(self._queue)} wait (limits `running`, `queued`)"
            self._channel.write(refusal(INTERNAL_ERROR, text, id))
        else:
            self._queue[id] = request, size
            self._queued_bytes += size

    async def _work(self) -> None:
        """Serve what came in, one request after the other, until one has to wait; a new task goes on with the rest.

        Most requests are served without waiting, and a task for each would cost as much as serving it. Each has a
        context of its own, as in a task of its own, and what it waits for it waits for in the task that began it.
        """
        self._scheduled -= 1
        task, serve = asyncio.current_task(), self._serve
        assert task is not None
        assert serve is not None
        ready, running, channel = self._ready, self._running, self._channel
        waited = False
        while ready and not waited and not task.cancelling():
            request = ready.popleft()
            id = request.id
            if running.get(id) is not request:
                continue  # cancelled before it began
            running[id] = task
            try:
                answer, context = serve(request, self), contextvars.copy_context()
                try:
                    waits_for = context.run(answer.send, None)
                except StopIteration as done:
                    frame = done.value
                else:
                    waited = self._hand_over(len(ready))
                    frame = await Rest(answer, context, waits_for)
            except asyncio.CancelledError:  # where the peer did not ask for that, it still needs an answer
                frame = refusal(INTERNAL_ERROR, "the request was cancelled on this side", id)
            except (Exception, GeneratorExit):
                log.exception("serving %s failed", printable(request.method))
                frame = refusal(INTERNAL_ERROR, "internal error", id)
            if running.get(id) is not task:
                break  # cancelled: nothing is sent for it (STDIO-4), and `_released` frees its slot
            del running[id]
            if len(frame) > channel.longest:
                text = f"the answer would take {len(frame)} bytes, more than one message may have (limit `line`)"
                frame = refusal(INTERNAL_ERROR, text, id)
            channel.write(frame)
            if channel.full:  # the slot is kept until the peer has read, which bounds what waits to be sent
                waited = waited or self._hand_over(1)
                await self._hold_slot(task)
            elif self._queue:
                self._free_slot()
            else:
                self._slots += 1
        if ready and not waited:
            self._hand_over(1)

    def _hand_over(self, tasks: int) -> bool:
        """Have up to `tasks` tasks look after the requests that are ready; where one had to wait, others may too."""
        for _ in range(min(tasks, len(self._ready)) - self._scheduled):
            self._scheduled += 1
            self._loop.create_task(self._work())
        return True

    async def _hold_slot(self, task: asyncio.Task[None]) -> None:
        self._answered.add(task)
        try:
            await self._channel.drained()
        finally:
            self._answered.discard(task)
            self._free_slot()

    def _free_slot(self) -> None:
        self._slots += 1
        while self._queue and self._slots > 0:
            request, size = self._queue.pop(next(iter(self._queue)))
            self._queued_bytes -= size
            self._start(request)

    def _hear(self, notification: Notification) -> None:
        if notification.method == CANCELLED:
            try:
                cancelled = _decode_cancelled(notification.params)
                if cancelled.request_id is not None:
                    self.cancel_served(cancelled.request_id)
            except (msgspec.DecodeError, RecursionError):
                log.debug("%s: a cancellation without a usable requestId", self.name)  # CAN-3
            return
        if notification.method == PROGRESS and self._progressed(notification):
            return
        if self._notice is not None:
            self._tell(self._notice, notification)

    def _tell(self, callback: Callable[..., None], *values: Any) -> None:
        """Call back; a fault in there must not keep the messages that follow from being handled."""
        try:
            callback(*values)
        except Exception:
            log.exception("a callback failed on a message from %s", self.name)

    def cancel_served(self, id: Id) -> None:
        """Stop serving the peer's request `id` and send nothing more for it; unknown ids are ignored (CAN-3)."""
        if entry := self._queue.pop(id, None):
            self._queued_bytes -= entry[1]
            return
        task = self._running.pop(id, None)
        if type(task) is Request:
            self._free_slot()  # it had not begun; `_work` passes over it
        elif isinstance(task, asyncio.Task):
            # It keeps its slot until it has really ended: a handler that ignores cancellation must not be multiplied.
            self._abandoned[id] = task
            task.add_done_callback(lambda _: self._released(id))
            task.cancel()

    def serving(self, id: Id) -> bool:
        """Tell whether the peer's request `id` is still under way: neither answered nor cancelled."""
        return id in self._running

    def _released(self, id: Id) -> None:
        del self._abandoned[id]
        self._free_slot()

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

    # ---- what goes out

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
    ) -> Raw:
        """Send a request and return the bytes of its result.

        `timeout` is the longest silence and `total` the longest time in seconds (defaults: limits `request_timeout` and
        `request_total`); progress with the token `id` starts the first anew. Raises PeerError, RequestTimeout,
        InvalidResult, ConnectionClosed, or LimitExceeded. When it times out or the caller is cancelled the peer is told
        (CAN-5), unless not `cancellable`.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise ConnectionClosed(
                f"the connection to {self.name} was opened in another event loop; open one in this loop"
            )
        frame = encode(OutRequest(id, method, params))
        if len(frame) > self._channel.longest:
            text = f"{method} would take {len(frame)} bytes, more than one message may have (limit `line`)"
            raise LimitExceeded(text, "line")
        while len(self._waiting) >= self.limits.asking and self.closed is None:
            await self._place()  # more at a time would be refused by most servers
        if self.closed is not None:
            raise copy.copy(self.closed)
        now = self._loop.time()
        idle = self.limits.request_timeout if timeout is None else timeout
        end = now + (max(self.limits.request_total, idle) if total is None else total)
        waiting = Waiting(method, self._loop.create_future(), idle, now, end, progress, cancellable)
        self._waiting[id] = waiting
        waiting.timer = self._loop.call_at(min(now + idle, end), self._expire, id)
        self._channel.write(frame)
        try:
            if self._channel.full:
                await self._drained_or(waiting.future)
            return await waiting.future
        except (asyncio.CancelledError, RequestTimeout):
            if cancellable and self.closed is None:
                self._channel.write(encode(OutNotification(CANCELLED, {"requestId": id})))
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

    async def _drained_or(self, answer: asyncio.Future[Raw]) -> None:
        """Wait for the channel, but not beyond the answer: a peer that does not read must not outlast the time."""
        drained = self._loop.create_task(self._channel.drained())
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
        if due > now:
            waiting.timer = self._loop.call_at(due, self._expire, id)
            return
        limit = "request_total" if now >= waiting.end else "request_timeout"
        text = f"{self.name} gave no answer to {waiting.method} in time (limit `{limit}`)"
        waiting.future.set_exception(RequestTimeout(text))

    def _take(self, id: Id | None) -> Waiting | None:
        """The request of ours with this id, which has its answer now; None where it does not wait (any more)."""
        waiting = None if id is None else self._waiting.pop(id, None)
        return None if waiting is None or waiting.future.done() else waiting

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification; waits while the channel is full. Nothing happens on a closed connection."""
        self._channel.write(encode(OutNotification(method, params)))
        if self._channel.full:
            await self._channel.drained()

    # ---- the end

    def leave(self, reason: ConnectionClosed) -> None:
        """This side ends the conversation: the peer is told to stop what still runs for it (CAN-5), then as `lost`."""
        if self.closed is None:
            for id, waiting in list(self._waiting.items()):
                if waiting.cancellable:
                    self._channel.write(encode(OutNotification(CANCELLED, {"requestId": id})))
        self.lost(reason)

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

    def lost(self, reason: ConnectionClosed) -> None:
        """The peer is gone for good: requests of ours fail, its own are cancelled, queued ones dropped."""
        self.input_ended(reason)
        self._queue.clear()
        self._queued_bytes = 0
        for id in list(self._running):
            self.cancel_served(id)

    async def quiet(self) -> None:
        """Return when no request of the peer is under way; cancelled handlers that have not ended yet count too."""
        # Where nobody holds a slot, nothing waits for one either.
        while held := [*self._running.values(), *self._abandoned.values(), *self._answered]:
            tasks = [task for task in held if isinstance(task, asyncio.Task)]
            await (asyncio.wait(tasks) if tasks else asyncio.sleep(0))  # what is ready begins in the loop's next turn
