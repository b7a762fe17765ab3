"""A server's life: it begins with the first conversation, ends with the last, and its lifespan runs in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from .engine import Engine

log = logging.getLogger("jackfield")

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
"""Called with the server; what the context manager yields is `ctx.state`."""


class Life:
    """Counts the conversations of a server; the lifespan is entered and left in one task of its own, whoever comes."""

    def __init__(self, server: Any, engine: Engine, lifespan: Lifespan | None, threads: int) -> None:
        self._server = server
        self._engine = engine
        self._lifespan = lifespan or _without
        self._threads = threads
        self._users = 0
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None]
        self._stop: asyncio.Event

    async def enter(self) -> None:
        """Begin a conversation; the first one starts the lifespan.

        Raises what the lifespan raises, after which it may be tried again, and RuntimeError while another event loop
        has the server in use.
        """
        self._leave_closed_loop()
        while self._users == 0 and self._task is not None:
            await asyncio.wait([self._task])  # the life before is still ending
        self._users += 1
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._ready = loop.create_future()
            self._stop = asyncio.Event()
            self._task = loop.create_task(self._live(self._ready, self._stop))
        try:
            await asyncio.shield(self._ready)
        except BaseException:
            await self.leave()
            raise

    async def leave(self) -> None:
        """End a conversation; after the last one the lifespan is ended before this returns."""
        self._users -= 1
        task = self._task
        if self._users or task is None:
            return
        self._stop.set()
        if not self._ready.done():
            task.cancel()  # nobody waits for the start any more
        await asyncio.wait([task])

    async def _live(self, ready: asyncio.Future[None], stop: asyncio.Event) -> None:
        from .threads import Threads  # not at the top: registering needs none

        engine = self._engine
        engine.loop = asyncio.get_running_loop()
        engine.threads = Threads(self._threads, engine.limits.parked)
        try:
            try:
                async with self._lifespan(self._server) as engine.state:
                    engine.hub.open()
                    ready.set_result(None)
                    await stop.wait()
                    engine.hub.close()  # while what the lifespan gave is there, which the bus may need
            except Exception as fault:
                if not ready.done():
                    ready.set_exception(fault)
                    return
                log.exception("the lifespan of %r failed", self._server)
            await stop.wait()  # where the lifespan was over before its time the conversations still go on
        finally:
            ready.cancel()
            engine.hub.close()
            engine.end()
            engine.state = None
            engine.threads.close()
            self._task = None

    def _leave_closed_loop(self) -> None:
        """Forget a life whose loop was closed before its conversations were: nothing can end it any more."""
        if self._task is None or (loop := self._task.get_loop()) is asyncio.get_running_loop():
            return
        if not loop.is_closed():
            raise RuntimeError(f"{self._server!r} is in use on another event loop; close its conversations there first")
        self._engine.hub.close()
        self._engine.threads.close()
        self._engine.state = None
        self._task = None
        self._users = 0


def _without(_: Any) -> AbstractAsyncContextManager[Any]:
    return nullcontext()
