"""What a handler can know and do about its request: who asks, progress, log messages, the server's state."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Raw, Struct

from ..protocol.jsonrpc import Id
from ..protocol.types import LOG_LEVELS, ClientCapabilities, Implementation, LogLevel, LogParams, ProgressParams
from .peer import Link, Peer
from .returns import to_member

if TYPE_CHECKING:
    from .engine import Engine
    from .threads import Threads

_log = logging.getLogger("jackfield")

_RANK = {level: rank for rank, level in enumerate(LOG_LEVELS)}


class Context(Struct, eq=False):
    """One request, as its handler sees it. A handler gets it by annotating a parameter with `Context`."""

    request_id: Id
    method: str
    peer: Peer
    _link: Link
    _engine: Engine
    _token: Id | None = None
    _progress: float = -math.inf
    over: bool = False
    """True once the request was answered: nothing more is sent for it (PRG-2)."""

    @property
    def revision(self) -> str:
        """The protocol revision that this request speaks, such as "2026-07-28"."""
        return self.peer.revision.name if self.peer.revision else ""

    @property
    def client(self) -> Implementation | None:
        """Name and version that the client gives itself, or None. Self-asserted: nothing may rest on it (META-5)."""
        return self.peer.client

    @property
    def capabilities(self) -> ClientCapabilities:
        """What the client says that it can be asked."""
        return self.peer.capabilities

    @property
    def headers(self) -> Mapping[str, str]:
        """The HTTP headers of this very request, with lower-case names; empty where it did not come over HTTP."""
        return self._link.headers or {}

    @property
    def state(self) -> Any:
        """What the server's lifespan yielded; None without one."""
        return self._engine.state

    @property
    def threads(self) -> Threads:
        """The threads that blocking handlers run on."""
        return self._engine.threads

    @property
    def cancelled(self) -> bool:
        """True as soon as nobody waits for the answer any more: for `def` handlers, that nothing interrupts, to ask."""
        return self.over or not self._link.serving(self.request_id)

    @property
    def sync(self) -> SyncContext:
        """The same for a `def` handler, which runs on a thread: each method blocks until it is done."""
        return SyncContext(self, self._engine.loop)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell how far the work is, in any unit; `total` when it is known.

        Sent only when the caller asked for it and `progress` has grown since the last report (PRG-2).
        """
        if self._token is None or self.cancelled or not self._progress < progress < math.inf:
            return
        self._progress = progress
        if total is not None and not math.isfinite(total):
            total = None
        text = _readable(message) if message is not None and self.peer.speaks.progress_message else None
        params = ProgressParams(progress_token=self._token, progress=progress, total=total, message=text)
        await self._link.notify("notifications/progress", params)

    async def log(self, level: LogLevel, data: Any, *, logger: str | None = None) -> None:
        """Send a log message (any JSON value) to the client, where it wants messages of this level (LOG-2, LOG-3).

        Whether it is sent depends on the client, so `data` that is no JSON fails no call: a word on it is sent instead.
        Raises ValueError for a level that is none of LOG_LEVELS.
        """
        if level not in _RANK:
            raise ValueError(f"{level!r} is no log level; use one of {', '.join(LOG_LEVELS)}")
        wanted = self.peer.log_level
        if wanted is None or _RANK[level] < _RANK[wanted] or self.cancelled:
            return
        try:
            shown: Any = Raw(to_member(_readable(data) if isinstance(data, str) else data))
        except (TypeError, ValueError, RecursionError) as fault:
            _log.warning("%s: a log message is no JSON: %s", self.method, fault)
            shown = f"(a {type(data).__name__} that is no JSON)"
        await self._link.notify("notifications/message", LogParams(level=level, data=shown, logger=logger))

    async def debug(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level debug."""
        await self.log("debug", data, logger=logger)

    async def info(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level info."""
        await self.log("info", data, logger=logger)

    async def notice(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level notice."""
        await self.log("notice", data, logger=logger)

    async def warning(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level warning."""
        await self.log("warning", data, logger=logger)

    async def error(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level error."""
        await self.log("error", data, logger=logger)

    async def critical(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level critical."""
        await self.log("critical", data, logger=logger)

    async def alert(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level alert."""
        await self.log("alert", data, logger=logger)

    async def emergency(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level emergency."""
        await self.log("emergency", data, logger=logger)


class SyncContext:
    """The blocking twins of a Context's methods, for `def` handlers."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    def _wait(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            if _on(self._loop):
                raise RuntimeError(
                    "ctx.sync is for `def` handlers, on their threads; in an `async def` await ctx's own methods"
                )
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()  # the loop is closed, or is the caller's own
            raise
        future.result()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """See `Context.report_progress`."""
        self._wait(self._context.report_progress(progress, total, message))

    def log(self, level: LogLevel, data: Any, *, logger: str | None = None) -> None:
        """See `Context.log`."""
        self._wait(self._context.log(level, data, logger=logger))

    def debug(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level debug."""
        self.log("debug", data, logger=logger)

    def info(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level info."""
        self.log("info", data, logger=logger)

    def notice(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level notice."""
        self.log("notice", data, logger=logger)

    def warning(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level warning."""
        self.log("warning", data, logger=logger)

    def error(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level error."""
        self.log("error", data, logger=logger)

    def critical(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level critical."""
        self.log("critical", data, logger=logger)

    def alert(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level alert."""
        self.log("alert", data, logger=logger)

    def emergency(self, data: Any, *, logger: str | None = None) -> None:
        """Log at level emergency."""
        self.log("emergency", data, logger=logger)


def _readable(text: str) -> str:
    """The text without lone surrogates, which names of files may hold and JSON may not."""
    return text.encode("utf-8", "backslashreplace").decode()


def _on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
