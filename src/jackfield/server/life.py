"""A server's life: it begins with the first conversation, ends with the last, and its lifespan runs in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from .engine import Engine
from .threads import Threads

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]
"""Called with the server; what the context manager yields is `ctx.state`."""


class Life:
    """Counts the conversations of a server. The lifespan is entered and left in one task of its own, whoever comes or goes."""

    def __init__(self, server: Any, engine: Engine, lifespan: Lifespan | None, threads: int) -> None:
        self._server = server
        self._engine = engine
        self._lifespan = lifespan
        self._threads = threads
        self._users = 0
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None
        self._stop: asyncio.Event | None = None

    async def enter(self) -> None:
        """Begin a conversation; the first one starts the lifespan. Raises what the lifespan raises."""
        while self._users == 0 and self._task is not None:
            await asyncio.wait([self._task])  # the life before is still ending
        self._users += 1
        if self._ready is None:
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
        if self._users == 0 and self._stop is not None and self._task is not None:
            self._stop.set()
            self._ready = None
            await asyncio.wait([self._task])

    async def _live(self, ready: asyncio.Future[None], stop: asyncio.Event) -> None:
        engine = self._engine
        engine.loop = asyncio.get_running_loop()
        engine.threads = Threads(self._threads)
        try:
            if self._lifespan is None:
                ready.set_result(None)
                await stop.wait()
            else:
                async with self._lifespan(self._server) as state:
                    engine.state = state
                    ready.set_result(None)
                    await stop.wait()
        except Exception as fault:
            if ready.done():
                raise
            ready.set_exception(fault)
        finally:
            engine.state = None
            engine.threads.close()
            self._task = None
