"""What a server sends of its own accord: notifications, requests, and lines that are no messages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import Struct

from ..protocol.errors import METHOD_NOT_FOUND, FrameError
from ..protocol.jsonrpc import Answer, Notification, Request, encode, refusal
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.revisions import Revision
from ..protocol.types import (
    ElicitationCompleteParams,
    LogLevel,
    LogParams,
    ProgressParams,
    ResourceUpdatedParams,
    decoder,
)
from ..transport.connection import Connection
from .answering import Answering
from .questions import Handlers

if TYPE_CHECKING:
    from .listening import Listeners

log = logging.getLogger("jackfield")

OnLog = Callable[[LogLevel, str | None, Any], object]
OnListChanged = Callable[[str], object]
OnNotification = Callable[[str, dict[str, Any]], object]
OnProgress = Callable[[float, float | None, str | None], object]

BACKLOG: Final = 256
"""Calls of one async callback that may wait for the one that runs; beyond it the oldest are dropped (F45)."""

_LIST_CHANGED: Final = {f"notifications/{kind}/list_changed": kind for kind in ("tools", "resources", "prompts")}
_UPDATED: Final = "notifications/resources/updated"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_decode_log = decoder(LogParams)
_decode_updated = decoder(ResourceUpdatedParams)
_decode_any = decoder(dict[str, Any])
_VISITED: Final = "notifications/elicitation/complete"
_decode_visited = decoder(ElicitationCompleteParams)


MOST_STRAYS = 100
"""Lines that are no messages, reported for one client; a server that writes nothing else must not fill the logs."""


class Inbox:
    """Calls one kind of callback in order, and never makes the reader wait for it.

    A plain function is called at once; what an `async` one returns runs in a task of this object, one after the other.
    Of calls with the same news only one waits at a time: it will see all that has changed by then (R05).
    """

    def __init__(self, what: str) -> None:
        self.dropped = 0
        self._what = what
        self._waiting: deque[tuple[str | None, Coroutine[Any, Any, object]]] = deque()
        self._news: set[str] = set()
        self._worker: asyncio.Task[None] | None = None

    def call(self, callback: Callable[..., object], *values: Any, news: str | None = None) -> None:
        """Call back, unless a call with the same `news` waits already; what the callback raises is logged."""
        if news in self._news:
            return
        try:
            outcome = callback(*values)
        except Exception:
            log.exception("the %s callback failed", self._what)
            return
        if not isawaitable(outcome):
            return
        if len(self._waiting) >= BACKLOG:
            if not self.dropped:
                log.warning("the %s callback is too slow: the oldest of its calls are dropped", self._what)
            self.dropped += 1
            self._next().close()
        self._waiting.append((news, cast("Coroutine[Any, Any, object]", outcome)))
        if news is not None:
            self._news.add(news)
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    def _next(self) -> Coroutine[Any, Any, object]:
        news, outcome = self._waiting.popleft()
        if news is not None:
            self._news.discard(news)
        return outcome

    async def _work(self) -> None:
        try:
            while self._waiting:
                try:
                    await self._next()
                except Exception:
                    log.exception("the %s callback failed", self._what)
        finally:
            self._worker = None

    def close(self) -> None:
        """Drop what waits, and stop what runs (unless it is what closes this)."""
        while self._waiting:
            self._next().close()
        if self._worker is not None and self._worker is not asyncio.current_task():
            self._worker.cancel()


class Callbacks(Struct, frozen=True):
    """What the user of a client wants to hear of."""

    log: OnLog | None = None
    list_changed: OnListChanged | None = None
    notification: OnNotification | None = None


class Incoming:
    """The ears of one client, over all of its connections."""

    def __init__(
        self, callbacks: Callbacks, forget: Callable[[str, str | None], None], answering: Answering | None = None
    ) -> None:
        """`forget` is told which kind of list has changed, or "resource" and its URI, before the user is."""
        self.revision: Revision | None = None
        """What the newest conversation speaks; None before that is agreed on."""
        self.listeners: Listeners | None = None
        """Those who are told of news besides the callbacks; they announce themselves."""
        self.strays = 0
        """Lines that were no messages."""
        self._callbacks = callbacks
        self._forget = forget
        self._answering = answering or Answering(Handlers(), Limits())
        self._logs = Inbox("on_log")
        self._changes = Inbox("on_list_changed")
        self._others = Inbox("on_notification")
        self._progress = Inbox("progress")

    @property
    def wants_changes(self) -> bool:
        """Whether somebody is to be told of lists that changed, besides those who listen."""
        return self._callbacks.list_changed is not None

    def changed(self, kind: str) -> None:
        """Tell that a list is another now."""
        if self._callbacks.list_changed is not None:
            self._changes.call(self._callbacks.list_changed, kind, news=kind)

    def hear(self, notification: Notification, connection: Connection) -> None:
        """Give a notification to the callback that it belongs to, and news to who listens; else it is ignored."""
        method, callbacks = notification.method, self._callbacks
        kind = _LIST_CHANGED.get(method)
        if kind is not None:
            self._forget(kind, None)
            if not (self.listeners is not None and self.listeners.heard(notification, connection, kind)):
                self.changed(kind)
            if self.wants_changes:
                return
        elif method == _UPDATED:
            with contextlib.suppress(msgspec.DecodeError):
                uri = _decode_updated(notification.params).uri
                self._forget("resource", uri)
                if self.listeners is not None:
                    self.listeners.heard(notification, connection, "resource", uri)
        elif method == _ACKNOWLEDGED and self.listeners is not None:
            self.listeners.acknowledged(notification, connection)
        elif method == _VISITED:
            with contextlib.suppress(msgspec.DecodeError):
                self._answering.visited(_decode_visited(notification.params).elicitation_id)
        elif callbacks.log is not None and method == "notifications/message" and self._hear_log(notification):
            return
        if callbacks.notification is not None:
            try:
                params = _decode_any(notification.params)
            except msgspec.DecodeError:
                log.debug("a notification (%s) whose params are no object", printable(method))
                return
            news = method if kind is not None else None
            if method == _UPDATED:
                news = f"{method} {params.get('uri')}"
            self._others.call(callbacks.notification, method, params, news=news)

    def _hear_log(self, notification: Notification) -> bool:
        try:
            params = _decode_log(notification.params)
        except msgspec.DecodeError:
            return False
        if self._callbacks.log is not None:
            self._logs.call(self._callbacks.log, params.level, params.logger, params.data)
        return True

    def progress(self, callback: OnProgress) -> Callable[[ProgressParams], None]:
        """What the connection calls with each progress notification of one request."""

        def hear(params: ProgressParams) -> None:
            self._progress.call(callback, params.progress, params.total, params.message)

        return hear

    async def serve(self, request: Request, connection: Connection) -> bytes:
        """Answer a legacy server's request: `ping` with an empty result (LIFE-6), a question as `Answering` does.

        In the modern era a client never answers (STDIO-3).
        """
        if self.revision is not None and self.revision.modern:
            log.warning(
                "%s sent a request (%s), which this revision does not have", connection.name, printable(request.method)
            )
            connection.cancel_served(request.id)  # so that nothing is sent
            return b""
        if request.method == "ping":
            return encode(Answer(request.id, {}))
        if self.revision is None:  # nothing is agreed on yet, and so not what may be asked (LIFE-3)
            return refusal(METHOD_NOT_FOUND, f"{printable(request.method)} came before the handshake", request.id)
        return await self._answering.serve(request, connection, self.revision)

    def stray(self, name: str, frame: bytes, error: FrameError) -> None:
        """Report a line that is no message (F4, F7); from the hundredth on they are only counted."""
        self.strays += 1
        if self.strays > MOST_STRAYS:
            if self.strays == MOST_STRAYS + 1:
                log.warning("%s goes on writing lines that are no messages; no more of them are reported", name)
            return
        shown = printable(frame) or "(left out)"
        log.warning("%s wrote a line that is no message (%s): %s", name, printable(error.message), shown)

    def close(self) -> None:
        """Stop all callbacks, and withdraw the questions that are open."""
        self._answering.close()
        for inbox in (self._logs, self._changes, self._others, self._progress):
            inbox.close()
