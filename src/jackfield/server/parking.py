"""Calls whose handlers stay alive while a modern client is asked (`replay=False`): they never run a second time."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from ..protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, NotSupported, ProtocolError
from ..protocol.jsonrpc import Id
from ..protocol.limits import Limits
from .asking import Open, Round, read_answer
from .context import Asked

if TYPE_CHECKING:
    from .context import Context

log = logging.getLogger("jackfield")


class Nowhere:
    """The link of a call between two requests of its client: nobody hears, and nobody has given up."""

    verify = None
    streams = True

    def __init__(self, principal: str, headers: Mapping[str, str] | None) -> None:
        self.principal = principal
        self.headers = headers

    async def notify(self, method: str, params: Any) -> None:
        """Nothing is sent: no request is under way to send it for (PRG-2, LOG-2)."""

    async def sent(self) -> None:
        """Nothing is on its way."""

    async def ask(self, method: str, params: Any, timeout: float) -> Raw:
        """Never called: a modern client is asked by an answer."""
        raise NotSupported("no request is under way")

    def at_end(self, id: Id, frame: bytes) -> None:
        """Nothing to end."""

    def serving(self, id: Id) -> bool:
        """The call goes on."""
        return True


class Parking:
    """The parked calls of one server (limits `parked`, `question`)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._parked: dict[str, Parked] = {}
        self._calls: set[Parked] = set()
        """All that began and whose outcome was not given to a request yet."""

    def begin(self, context: Context, start: Callable[[Context], Coroutine[Any, Any, Any]]) -> Parked:
        """Begin a call. Raises ProtocolError where too many are alive already."""
        if len(self._calls) >= self._limits.parked:
            text = f"server busy: {len(self._calls)} calls of this kind are under way (limit `parked`)"
            raise ProtocolError(INTERNAL_ERROR, text)
        call = Parked(self, context, start)
        self._calls.add(call)
        return call

    def ended(self, call: Parked) -> None:
        """Note that the call was answered for good, or that nobody will come for its outcome."""
        self._calls.discard(call)

    def park(self, call: Parked) -> str:
        """Keep a call until somebody comes back with its handle, or its time is over."""
        handle = secrets.token_urlsafe(16)
        self._parked[handle] = call
        call.timer = asyncio.get_running_loop().call_later(self._limits.question, self._expire, handle)
        return handle

    def take(self, handle: str) -> Parked:
        """The parked call, which is not parked any more. Raises ProtocolError where there is none (any more)."""
        call = self._parked.pop(handle, None)
        if call is None:
            text = "Invalid requestState: the call that it belongs to does not wait any more; make the call anew"
            raise ProtocolError(INVALID_PARAMS, text)
        if call.timer is not None:
            call.timer.cancel()
        return call

    def put_back(self, handle: str, call: Parked) -> None:
        """Keep a call under the handle that it had, for its answers did not fit."""
        self._parked[handle] = call
        call.timer = asyncio.get_running_loop().call_later(self._limits.question, self._expire, handle)

    def close(self) -> None:
        """End all of them: the server ends."""
        for call in self._calls:
            call.task.cancel()
            if call.timer is not None:
                call.timer.cancel()
        self._calls.clear()
        self._parked.clear()

    def _expire(self, handle: str) -> None:
        call = self._parked.pop(handle, None)
        if call is not None:
            log.info("%s: nobody came back with an answer in time (limit `question`)", call.context.method)
            call.task.cancel()
            self.ended(call)


class Parked:
    """One such call."""

    def __init__(
        self, parking: Parking, context: Context, start: Callable[[Context], Coroutine[Any, Any, Any]]
    ) -> None:
        loop = asyncio.get_running_loop()
        self.timer: asyncio.TimerHandle | None = None
        self.context = inner = copy(context)
        """The handler's own: it goes from request to request, each of which has one besides."""
        inner.call = self
        inner.round = context.round = context.round or Round()
        self._parking = parking
        self._open: dict[str, tuple[Open, asyncio.Future[Any]]] = {}
        self._news = asyncio.Event()
        self.task: asyncio.Task[Any] = loop.create_task(start(inner))
        self.task.add_done_callback(lambda _: inner.withdraw())  # a thread of it must not wait on for ever

    async def ask(self, key: str, question: Open) -> Any:
        """Wait until a request brings the answer."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._open[key] = question, future
        await asyncio.sleep(0)  # what the handler asks besides, in other tasks, travels in the same round
        self._news.set()
        try:
            return await future
        finally:
            self._open.pop(key, None)

    async def serve(self, context: Context) -> Any:
        """Go on, for a request: until the handler has ended, whose outcome it is, or has asked (raises Asked)."""
        found = context.round = context.round or Round()
        self.context.follow(context)
        self._news.clear()
        await asyncio.sleep(0)  # those who have their answers go on first
        if self._open:
            self._news.set()
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((self.task, news), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.task.cancel()
            await asyncio.wait([self.task])
            self._parking.ended(self)
            raise
        finally:
            news.cancel()
        if self.task.done():
            self._parking.ended(self)
            return self.task.result()
        self.context.link = Nowhere(context.link.principal, context.link.headers)
        for key, (question, _) in self._open.items():
            found.add(key, question)
        found.answers = {}  # the handler has them
        found.handle = self._parking.park(self)
        raise Asked

    def deliver(self, found: Round) -> None:
        """Give the answers to those who wait for them. Raises ProtocolError, and gives none, where one does not fit."""
        values: list[tuple[asyncio.Future[Any], Any]] = []
        for key, (asked, future) in self._open.items():
            answer = found.answers.get(key)
            if answer is not None and answer.digest == asked.digest and not future.done():
                values.append((future, read_answer(asked.question, key, answer.result)))
        for future, value in values:
            future.set_result(value)


async def run(context: Context, start: Callable[[Context], Coroutine[Any, Any, Any]]) -> Any:
    """Serve a call whose handler must not run twice: `start` begins it, unless the request goes on with one."""
    parking, found = context.parking, context.round
    if found is None or not found.handle:
        return await parking.begin(context, start).serve(context)
    handle, found.handle = found.handle, ""
    call = parking.take(handle)
    try:
        call.deliver(found)
    except ProtocolError:
        parking.put_back(handle, call)
        raise
    return await call.serve(context)
