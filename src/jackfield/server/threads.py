"""Daemon threads on which `def` handlers run, so that none can freeze the loop or hold up the end of the process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from ..protocol.errors import Unanswered

log = logging.getLogger("jackfield")

_Job = tuple[contextvars.Context, Callable[..., Any], tuple[Any, ...], asyncio.Future[Any]]

GROW_AFTER = 0.001
"""Seconds that work may lie before more threads are started for it: short calls do better on few threads."""


class Threads:
    """At most `limit` threads that work for one loop; what comes on top waits its turn (limit `threads`).

    None of them is ever joined: a blocked one cannot hold up a shutdown. The counts are the loop's alone: no lock is
    needed, and no moment is missed at which every thread is busy and work lies about.
    """

    def __init__(self, limit: int, most_away: int) -> None:
        """`most_away` threads may wait for people besides (limit `parked`)."""
        self._limit = limit
        self._most_away = most_away
        self._loop = asyncio.get_running_loop()
        import queue  # not at the top: a server that is only registered has no threads

        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._started = 0
        self._open = 0
        """Jobs that were given to `run` and whose end the loop has not seen."""
        self._growing = False
        self._away = 0
        """Threads that wait for a person."""
        self._closed = False
        self._done: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        self._woken = False

    async def run(self, function: Callable[..., Any], *values: Any) -> Any:
        """Call `function(*values)` on a thread, in a copy of the caller's context, and return or raise what it does.

        When the caller is cancelled before a thread took the call up, it is not made; after that the thread goes on and
        its result is dropped, for Python cannot stop a thread. Raises RuntimeError once the server has ended.
        """
        if self._closed:
            raise RuntimeError("the server has ended; nothing runs on its threads any more")
        if not self._started:
            self._start()
        future: asyncio.Future[Any] = self._loop.create_future()
        self._jobs.put((contextvars.copy_context(), function, values, future))
        self._open += 1
        if self._started < self._open and self._started < self._limit + self._away and not self._growing:
            self._growing = True
            self._loop.call_later(GROW_AFTER, self._grow)
        return await future

    @contextlib.contextmanager
    def away(self) -> Generator[None]:
        """While this lasts one of the threads waits for a person, and does not count.

        Raises Unanswered where too many do.
        """
        if self._away >= self._most_away:
            raise Unanswered(f"{self._away} functions wait for people already (limit `parked`); try again later")
        self._away += 1
        try:
            self._grow()
            yield
        finally:
            self._away -= 1
            if self._started > self._limit + self._away:  # the one that took its place goes when it is free
                self._started -= 1
                self._jobs.put(None)

    def close(self) -> None:
        """Let the threads end as soon as they have nothing to do."""
        self._closed = True
        for _ in range(self._started):
            self._jobs.put(None)

    def _start(self) -> None:
        threading.Thread(target=self._work, name="jackfield-handler", daemon=True).start()
        self._started += 1

    def _grow(self) -> None:
        self._growing = False
        wanted = min(self._open - len(self._done), self._limit + self._away)
        try:
            while self._started < wanted and not self._closed:
                self._start()
        except RuntimeError as fault:  # the system gives no more threads: those that there are do the work
            log.warning("no more threads for blocking functions than %d: %s", self._started, fault)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            context, function, values, future = job
            value, error = None, None
            if not future.cancelled():
                try:
                    value = context.run(function, *values)
                except BaseException as fault:
                    error = fault
            self._done.append((future, value, error))
            del job, context, function, values, future, value, error  # nothing of a call outlives it in an idle thread
            if not self._woken:
                self._woken = True
                with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits for the result
                    self._loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._woken = False
        while self._done:
            future, value, error = self._done.popleft()
            self._open -= 1
            if future.done():
                continue
            if error is None:
                future.set_result(value)
            elif isinstance(error, StopIteration):
                future.set_exception(RuntimeError("a handler raised StopIteration"))  # a future cannot carry it
            else:
                future.set_exception(error)
