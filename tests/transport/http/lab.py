"""The server that the tests of the HTTP application ask."""

import asyncio
from collections.abc import Callable
from typing import Any

from jackfield import Context, Limits, Server


class Lab:
    """A server with tools that wait, so that a test can look at what goes on meanwhile."""

    def __init__(self, *, limits: Limits | None = None, lifespan: Any = None, eras: Any = ("modern", "legacy")) -> None:
        self.server = Server("lab", limits=limits, lifespan=lifespan, eras=eras)
        self.begun: list[Any] = []
        """What handlers were called with, in order."""
        self.cancelled: list[Any] = []
        self.go = asyncio.Event()
        self._changed = asyncio.Event()
        server = self.server

        @server.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @server.tool
        async def wait(mark: str, ctx: Context) -> str:
            """Wait for the test to go on."""
            self.note(self.begun, mark)
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.note(self.cancelled, mark)
                raise
            return mark

        @server.tool
        async def report(steps: int, ctx: Context, waits: bool = False) -> str:
            """Report progress, then wait if asked to."""
            for step in range(steps):
                await ctx.report_progress(step + 1, message="x" * 100)
                self.note(self.begun, step + 1)
            if waits:
                await self.go.wait()
            return "reported"

        @server.tool
        async def stubborn(ctx: Context) -> str:
            """Go on when cancelled."""
            self.note(self.begun, "stubborn")
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.note(self.cancelled, "stubborn")
            await ctx.report_progress(1)
            return "still here"

        @server.tool
        def header(name: str, ctx: Context) -> str:
            return ctx.headers.get(name, "none")

    def note(self, where: list[Any], what: Any) -> None:
        """Note what a handler tells, and wake up who waits for it."""
        where.append(what)
        self._changed.set()

    async def until(self, done: Callable[[], bool]) -> None:
        """Wait until `done`, which is asked whenever a handler has noted something."""
        async with asyncio.timeout(10):
            while not done():
                self._changed.clear()
                await self._changed.wait()

    async def until_begun(self, count: int = 1) -> None:
        """Wait until so many handlers have begun."""
        await self.until(lambda: len(self.begun) >= count)
