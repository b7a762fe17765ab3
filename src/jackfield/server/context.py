"""What a handler can know and do about its request: who asks, progress, log messages, the server's state."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Mapping
from concurrent import futures
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, Raw, Struct
from msgspec.json import decode

from ..protocol.errors import MISSING_CAPABILITY, ProtocolError, ToolError
from ..protocol.jsonrpc import Id
from ..protocol.limits import Limits
from ..protocol.types import (
    LOG_LEVELS,
    ClientCapabilities,
    Implementation,
    LogLevel,
    LogParams,
    MissingCapabilityData,
    Params,
    ProgressParams,
)
from .peer import Peer
from .returns import to_member

if TYPE_CHECKING:
    from ..protocol.meta import Trace
    from ..protocol.types import CreateMessageResult, Root
    from ..transport.link import Link
    from .asking import Round
    from .engine import Engine
    from .parking import Parked, Parking
    from .questions import ElicitationResult, Question
    from .sealing import Sealer
    from .threads import Threads

T = TypeVar("T")

_log = logging.getLogger("jackfield")

_RANK = {level: rank for rank, level in enumerate(LOG_LEVELS)}


class Asked(BaseException):
    """Ends a handler whose question goes to the client first; it is no Exception, so that `except Exception` passes it.

    The handler runs again, from the top, when the answer is there.
    """


class SaidNo(ToolError):
    """The person did not agree to what has to be agreed to: the call ends, whatever else was to be asked."""


class Notifying:
    """What tells everybody who listens, in either era, that something changed.

    All of these may be called from any thread, and return at once: what cannot be told is logged, never raised. Equal
    ones that come close together are told once. A server's own `add_*` and `remove_*` tell by themselves.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        _engine: Engine

    def notify_tools_changed(self) -> None:
        """Tell that the list of tools changed (TOOL-11)."""
        self._engine.hub.publish("tools")

    def notify_prompts_changed(self) -> None:
        """Tell that the list of prompts changed (PRM-3)."""
        self._engine.hub.publish("prompts")

    def notify_resources_changed(self) -> None:
        """Tell that the list of resources or of their templates changed."""
        self._engine.hub.publish("resources")

    def notify_resource_updated(self, uri: str) -> None:
        """Tell those who watch the resource `uri`, or one that it lies below, that it has other contents (RSC-6).

        Raises ValueError for what is no URI.
        """
        from ..protocol.uri import LONGEST_URI, is_uri  # not at the top: many servers have no resources

        if not isinstance(uri, str) or len(uri) > LONGEST_URI or not is_uri(uri):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"{str(uri)[:200]!r} is no URI; a resource needs a scheme, as in notes://todo")
        self._engine.hub.publish("resource", uri)

    def notify_elicitation_complete(self, id: str) -> None:
        """Tell the client that was asked to visit the page of an `ElicitURL` with this `id` that all is done there.

        For what the page itself calls, later. Only 2025-11-25 has a word for it (ELC-8), and only a session that can be
        told something outside of its requests hears it; others come back by themselves.
        """
        self._engine.hub.visited(id)


class Context(Notifying, Struct, eq=False):
    """One request, as its handler sees it. A handler gets it by annotating a parameter with `Context`."""

    request_id: Id
    method: str
    peer: Peer
    link: Link
    """The way back to the client, for what belongs to this request."""
    _engine: Engine
    _token: Id | None
    raw: bytes
    """The request's params, as they came: whatever a middleware makes of the decoded ones."""
    _progress: float = -math.inf
    over: bool = False
    """True once the request was answered: nothing more is sent for it (PRG-2)."""
    round: Round | None = None
    """What was asked for this request; None as long as nothing was."""
    call: Parked | None = None
    """Where the handler is one that stays alive while the client is asked."""
    _waiting: set[asyncio.Task[Any]] | None = None
    """What threads wait for: questions that nobody waits for any more where the request is cancelled."""

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
    def extensions(self) -> dict[str, dict[str, Any]]:
        """The extensions that both sides declared, with the client's settings (CAP-4)."""
        from ..protocol.meta import negotiated  # not at the top: few handlers know of any

        return negotiated(self._engine.capabilities.extensions, self.peer.capabilities.extensions)

    def require_extension(self, id: str) -> dict[str, Any]:
        """The client's settings of an extension that this request cannot do without (CAP-4).

        Raises ProtocolError (-32021, naming it) where the client did not declare it, and ValueError where this server
        did not.
        """
        own = self._engine.capabilities.extensions or {}
        if id not in own:
            raise ValueError(f"this server does not speak the extension {id!r}; write extensions={{{id!r}: {{}}}}")
        settings = self.extensions.get(id)
        if settings is None:
            lacking = MissingCapabilityData(ClientCapabilities(extensions={id: {}}))
            text = f"This call needs a client that speaks the extension {id!r}"
            raise ProtocolError(MISSING_CAPABILITY, text, lacking)
        return settings

    @property
    def trace(self) -> Trace | None:
        """The distributed trace that the client says this request belongs to; None without a valid one (TRC-1).

        It is the one in `_meta`, which may differ from that in the HTTP headers: that is the transport's own.
        """
        from ..protocol.meta import read_trace

        meta = decode(self.raw, type=Params).meta
        return None if meta is UNSET else read_trace(meta)

    @property
    def headers(self) -> Mapping[str, str]:
        """The HTTP headers of this very request, with lower-case names; empty where it did not come over HTTP."""
        return self.link.headers or {}

    @property
    def state(self) -> Any:
        """What the server's lifespan yielded; None without one."""
        return self._engine.state

    @property
    def threads(self) -> Threads:
        """The threads that blocking handlers run on."""
        return self._engine.threads

    @property
    def limits(self) -> Limits:
        """The server's limits."""
        return self._engine.limits

    @property
    def server_name(self) -> str:
        """The name of the server."""
        return self._engine.info.name

    @property
    def spent(self) -> dict[str, float]:
        """The states whose answers were used at this server."""
        return self._engine.spent

    @property
    def sealer(self) -> Sealer:
        """What seals the state of calls that wait for answers."""
        return self._engine.sealer

    @property
    def parking(self) -> Parking:
        """The calls that stay alive while their clients are asked."""
        return self._engine.parking

    def expect(self, id: str) -> None:
        """Note that this client was sent to a page: see `notify_elicitation_complete`."""
        self._engine.hub.expect(id, self.peer)

    def follow(self, other: Context) -> None:
        """Go on as the handler of another request, in which the same call is made again with answers."""
        self.request_id, self.link, self.raw, self.peer = other.request_id, other.link, other.raw, other.peer
        self._token, self._progress, self.over = other._token, -math.inf, False

    @property
    def cancelled(self) -> bool:
        """True as soon as nobody waits for the answer any more: for `def` handlers, that nothing interrupts, to ask."""
        return self.over or not self.link.serving(self.request_id)

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
        await self.link.notify("notifications/progress", params)

    async def log(self, level: LogLevel, data: Any, *, logger: str | None = None) -> None:
        """Send a log message (any JSON value) to the client, where it wants messages of this level (LOG-2, LOG-3).

        Whether it is sent depends on the client, so `data` that is no JSON fails no call: a word on it is sent instead.
        2026-07-28 marks this as deprecated: what only an operator needs belongs in the server's own log.
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
        await self.link.notify("notifications/message", LogParams(level=level, data=shown, logger=logger))

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

    # ---- questions

    def withdraw(self) -> None:
        """The request was cancelled: so is what its threads have asked, for a late yes must do nothing."""
        self.over = True
        for task in self._waiting or ():
            task.cancel()

    async def from_thread(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await what a thread asks, while that thread does not count (limits `threads`, `parked`)."""
        task = asyncio.current_task()
        assert task is not None
        if self._waiting is None:
            self._waiting = set()
        self._waiting.add(task)
        try:
            with self.threads.away():
                return await ask()
        finally:
            self._waiting.discard(task)

    async def ask(self, question: Question) -> Any:
        """Ask the client `question`, an Elicit, ElicitURL, Sample or ListRoots, and return what it said.

        A legacy client is asked at once. A modern one can only be asked by an answer: the handler ends here, and runs
        again from the top when the client comes back, so that what stands before its first question runs again
        (MR-11). An answer counts only for the very question that it was given to.

        Raises CannotAsk where the client did not declare what it takes (MR-2), and Unanswered where a legacy client
        gave no answer that counts. A person's no is no exception: see `elicit`.
        """
        from .asking import ask  # not at the top: most handlers ask nothing

        return await ask(self, question)

    async def elicit(
        self, message: str, schema: type[T], *, key: str | None = None, bound: bool = True
    ) -> ElicitationResult[T]:
        """Ask the person to fill in a form, and return whether they did (`.action`), and what (`.data`).

        `schema` is a class with fields, one kind of value such as `bool`, or a `requestedSchema` (18); the options are
        those of `Elicit`. Raises as `ask`, and RegistrationError for a form that the protocol does not allow.
        """
        from .questions import Elicit

        return await self.ask(Elicit(message, schema, key=key, bound=bound))

    async def elicit_url(self, message: str, url: str, *, key: str | None = None) -> ElicitationResult[None]:
        """Ask the person to visit a page; a yes says that they will, not that they are done there (ELC-7).

        Raises as `ask`, and ValueError for a URL that is not https.
        """
        from .questions import ElicitURL

        return await self.ask(ElicitURL(message, url, key=key))

    async def sample(self, messages: Any, *, max_tokens: int, **options: Any) -> CreateMessageResult:
        """Ask the client's model; the options are those of `Sample`. Raises as `ask`, and as `Sample` does.

        2026-07-28 deprecates it: a new server calls a model of its own.
        """
        from .questions import Sample

        return await self.ask(Sample(messages, max_tokens=max_tokens, **options))

    async def list_roots(self) -> list[Root]:
        """Ask which places of its system the client wants to be worked in: advice, no access control (ROOT-1).

        Raises as `ask`. 2026-07-28 deprecates it: a new server takes such places as arguments.
        """
        from .questions import ListRoots

        return await self.ask(ListRoots())

    async def elicitation_complete(self, id: str) -> None:
        """Tell a client of 2025-11-25 that what the page of an `ElicitURL` with this id was for is done (ELC-8)."""
        if self.peer.speaks.core_tasks and not self.over:
            await self.link.notify("notifications/elicitation/complete", {"elicitationId": id})


class SyncContext:
    """The blocking twins of a Context's methods, for `def` handlers."""

    def __init__(self, context: Context, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            if _on(self._loop):
                raise RuntimeError(
                    "ctx.sync is for `def` handlers, on their threads; in an `async def` await ctx's own methods"
                )
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:
            coroutine.close()  # the loop is closed, or is the caller's own
            raise
        try:
            return future.result()
        except futures.CancelledError:
            raise asyncio.CancelledError("the request was cancelled") from None  # as an `async` handler sees it

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

    def ask(self, question: Question) -> Any:
        """See `Context.ask`; the thread does not count while it waits (limit `threads`)."""
        return self._wait(self._context.from_thread(lambda: self._context.ask(question)))

    def elicit(
        self, message: str, schema: type[T], *, key: str | None = None, bound: bool = True
    ) -> ElicitationResult[T]:
        """See `Context.elicit`."""
        return self._wait(
            self._context.from_thread(lambda: self._context.elicit(message, schema, key=key, bound=bound))
        )

    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> ElicitationResult[None]:
        """See `Context.elicit_url`."""
        return self._wait(self._context.from_thread(lambda: self._context.elicit_url(message, url, key=key)))

    def sample(self, messages: Any, *, max_tokens: int, **options: Any) -> CreateMessageResult:
        """See `Context.sample`."""
        return self._wait(
            self._context.from_thread(lambda: self._context.sample(messages, max_tokens=max_tokens, **options))
        )

    def list_roots(self) -> list[Root]:
        """See `Context.list_roots`."""
        return self._wait(self._context.from_thread(self._context.list_roots))

    def elicitation_complete(self, id: str) -> None:
        """See `Context.elicitation_complete`."""
        self._wait(self._context.elicitation_complete(id))


def _readable(text: str) -> str:
    """The text without lone surrogates, which names of files may hold and JSON may not."""
    return text.encode("utf-8", "backslashreplace").decode()


def _on(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
