"""One conversation, either side: ids, correlation, requests under way, cancellation, queue and backpressure."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ConnectionClosed,
    FrameError,
    InvalidResult,
)
from ..protocol.framing import TooLong
from ..protocol.jsonrpc import Id, Message, Notification, Request, Response, decode, read_head, refusal
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.types import CancelledParams, decoder
from .asking import CANCELLED, PROGRESS, Asking, Channel
from .rest import Rest

log = logging.getLogger("jackfield")

_ALWAYS = ("ping", "server/discover")
"""Requests that are answered however busy this side is."""

_decode_cancelled = decoder(CancelledParams)

Serve = Callable[[Request, "Connection"], Coroutine[Any, Any, bytes]]
"""Answers a request with the encoded answer; raises nothing but CancelledError."""


class Connection(Asking):
    """One conversation over any channel.

    `serve` answers the peer's requests (None: a side that takes none; they are logged and dropped), `notice` hears its
    notifications except those that the connection itself handles (cancelled; progress of a request under way), `stray`
    hears frames that cannot be read. A side without `stray` (a server) answers these with a JSON-RPC error; a client
    must not (BASE-6). What a callback raises is logged.
    Everything happens on one event loop; `receive` never waits, so answers and cancellations are handled at once.
    """

    headers: Mapping[str, str] | None = None
    verify: None = None
    streams: bool = True
    principal: str = "local"
    """For the engine: requests on a connection have no HTTP headers, and nobody had to say who they are."""

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
        super().__init__(channel, limits or Limits(), name)
        self.farewell: asyncio.Task[None] | None = None
        """In memory: what the other side still does after this one closed its channel."""
        self._serve = serve
        self._notice = notice
        self._stray = stray
        # Each task in these three holds one of the slots.
        self._running: dict[Id, Request | asyncio.Task[None]] = {}
        """The task that serves the request, or the request itself while it is still `_ready`."""
        self._ready: deque[Request] = deque()
        self._scheduled = 0
        """Tasks that are about to look after what is ready."""
        self._abandoned: dict[Id, asyncio.Task[None]] = {}
        self._answered: set[asyncio.Task[None]] = set()
        self._farewells: dict[Id, bytes] = {}
        self._queue: dict[Id, tuple[Request, int]] = {}
        self._queued_bytes = 0
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
        # Nearly every message is a request for which there is a place: as in `take`, some steps less.
        if type(message) is Request and self._slots > 0 and message.id not in self._running and not self._abandoned:
            self._slots -= 1
            self._running[message.id] = message
            self._ready.append(message)
            if not self._scheduled:
                self._scheduled = 1
                self._loop.create_task(self._work())
        else:
            self.take(message, len(frame))

    def take(self, message: Message, size: int) -> None:
        """Take one message that took `size` bytes, as `receive` does."""
        if type(message) is Request:  # quicker than isinstance, which asks a Struct's metaclass
            self._sort(message, size)
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

    async def sent(self) -> None:
        """Return when there is room: all notifications share one way out, whose limit is `outgoing`."""
        if self._channel.full:
            await self._channel.drained()

    async def ask(self, method: str, params: Any, timeout: float) -> Raw:
        """Ask the peer in the middle of a request of its own; raises as `request` does."""
        return await self.request(self.new_id(), method, params, timeout=timeout, total=timeout)

    def at_end(self, id: Id, frame: bytes) -> None:
        """Note with which answer request `id` ends where this side, or the input, ends first; b"" takes that back.

        Meanwhile the request takes no place among those that run (limit `running`): it may last as long as the peer.
        """
        if not frame:
            if self._farewells.pop(id, None) is not None:
                self._slots -= 1
        elif self.closed is None:
            if id not in self._farewells:
                self._free_slot()
            self._farewells[id] = frame
        elif id in self._running:  # it began after the end of the input, before which it was read
            self._channel.write(frame)
            self.cancel_served(id)

    def _released(self, id: Id) -> None:
        del self._abandoned[id]
        self._free_slot()

    # ---- the end

    def over(self) -> bool:
        """Tell whether the conversation has ended, or nothing more comes from the peer."""
        return self.closed is not None

    def input_ended(self, reason: ConnectionClosed) -> None:
        """Nothing more will come: requests of ours fail now; what the peer asked for goes on, or ends as foreseen."""
        super().input_ended(reason)
        for id, frame in list(self._farewells.items()):
            if id in self._running:
                self._channel.write(frame)
                self.cancel_served(id)
        self._farewells.clear()

    def leave(self, reason: ConnectionClosed) -> None:
        """This side ends the conversation: the peer is told to stop what still runs for it (CAN-5), then as `lost`."""
        self._withdraw()
        self.lost(reason)

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
