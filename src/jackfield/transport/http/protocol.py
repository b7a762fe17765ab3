"""One HTTP/1.1 connection of the server: uvicorn's protocol on httptools, with the limits that it lacks.

Of uvicorn (0.30 and later) this relies on `Config`, `ServerState` and what `HttpToolsProtocol` is to its parser and its
transport: the callbacks of both, `_unset_keepalive_if_required`, `_should_upgrade`, and in `cycle` the state of the
response. It replaces `data_received`, and adds to the others.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from ...protocol.limits import Limits
from .service import WHOLE

KEEP_ALIVE = 75
"""Seconds that an idle connection is kept, longer than what clients and proxies keep theirs."""

LINGER = 2.0
"""Seconds in which a refused client may read why; closing at once would take the answer from it (RFC 9112, 9.6)."""

ASGIApp = Callable[[Any, Any, Any], Awaitable[None]]


class State(ServerState):
    """What the connections of one process share."""

    def __init__(self, limits: Limits, most: int) -> None:
        super().__init__()
        self.limits = limits
        self.most = most
        """Connections at the same time; who comes later is told to come again."""
        self.ending = False
        """Requests are cancelled now, because the server ends."""
        self.changed = asyncio.Event()
        """A connection is gone."""


def configure(app: ASGIApp, state: State) -> Config:
    """The settings of uvicorn's that its protocol reads. What it could say on its own loggers stays unsaid or rare."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if not state.ending:
                raise
            await _finish(send)

    config = Config(
        guarded,
        interface="asgi3",
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        workers=1,
    )
    config.load()
    return config


async def _finish(send: Callable[[Any], Awaitable[None]]) -> None:
    """Answer a cancelled request: that the server ends, or the end of the body where the answer had begun."""
    body = b"the server is ending\n"
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"retry-after", b"1"),
        (b"connection", b"close"),
    ]
    try:
        await send({"type": "http.response.start", "status": 503, "headers": headers})
    except RuntimeError:  # it has begun, or is complete
        body = b""
    try:
        await send({"type": "http.response.body", "body": body, "more_body": False})
    except RuntimeError:  # complete, or shorter than announced, which only cutting the connection can tell
        pass


class Connection(HttpToolsProtocol):
    """The connection of one client."""

    server_state: State

    def __init__(
        self,
        config: Config,
        server_state: State,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = server_state.limits
        self._deadline: asyncio.TimerHandle | None = None
        """The end of the time for a head, for more of a body, or for reading a refusal."""
        self._stalled: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._unparsed = 0
        """Bytes that came since the last head, piece of a body or message was complete: what the parser keeps."""
        self._fault: HTTPStatus | None = None
        """What a callback found; httptools tells only that one failed."""
        self._refused = False
        self._body_until = 0.0
        """The end of the time for the body that comes, by the loop's clock."""
        self._earlier: list[Any] = []
        """Requests that are still being answered while later ones came: `cycle` is the latest."""

    # ---- the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.server_state.most and not self._make_room():
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections (limit `requests`)")
        else:
            self._expect_more()

    def _make_room(self) -> bool:
        """Close a connection that has nothing to do, if there is one."""
        others: set[Any] = self.connections
        for other in others:
            if isinstance(other, Connection) and other is not self and other._rests():
                other.transport.close()
                return True
        return False

    def _rests(self) -> bool:
        """Whether it has been of use, and nothing is under way."""
        return self.cycle is not None and self._idle() and not self._unparsed and not self.transport.is_closing()  # pyright: ignore[reportUnnecessaryComparison]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for cycle in self._earlier:  # uvicorn tells the latest alone
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        self._unset_keepalive_if_required()
        for timer in (self._deadline, self._stalled):
            if timer is not None:
                timer.cancel()
        self.server_state.changed.set()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._unset_keepalive_if_required()
        self._unparsed += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
            return
        except httptools.HttpParserError:
            self._refuse(self._fault or HTTPStatus.BAD_REQUEST)
            return
        if self._unparsed > self._limits.headers:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._idle():
            if self._deadline is None:
                self._expect_more()
        elif self.cycle.more_body and not self.cycle.response_started:
            self._in_time()
            self._expect_more(self._body_until - self.loop.time())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        self._stalled = self.loop.call_later(self._limits.write, self._check_progress)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _check_progress(self) -> None:
        """Give a peer up that has taken nothing for `write` seconds."""
        unsent = self.transport.get_write_buffer_size()
        if unsent >= self._unsent:
            self.transport.abort()
            return
        self._unsent = unsent
        self._stalled = self.loop.call_later(self._limits.write, self._check_progress)

    # ---- the parser

    def on_headers_complete(self) -> None:
        names = [name for name, _ in self.headers]
        # Another coding would stay in the body; llhttp refuses what is ambiguous, except in HTTP/1.0.
        if b"transfer-encoding" in names and not self._is_chunked():
            raise self._failed(HTTPStatus.BAD_REQUEST)
        if self._unparsed > self._limits.headers and self._head_size() > self._limits.headers:
            raise self._failed(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if self.parser.get_http_version() not in ("1.1", "1.0"):
            raise self._failed(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        self._unparsed = 0
        if self._deadline is not None:
            self._in_time()
        if b"expect" in names:
            self.expect_100_continue = b"100-continue" in [v.lower() for name, v in self.headers if name == b"expect"]
        before = self.cycle
        super().on_headers_complete()
        if before is not None and not before.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            self._earlier = [cycle for cycle in (*self._earlier, before) if not cycle.response_complete]
        self._body_until = self.loop.time() + self._limits.body_time
        self.scope[WHOLE] = self._whole  # type: ignore[literal-required]
        self.headers = []  # trailers are no headers: the request's own list is in its scope

    def _is_chunked(self) -> bool:
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        return codings == [b"chunked"] * len(codings) and self.parser.get_http_version() != "1.0"

    def _head_size(self) -> int:
        return len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        if self._deadline is not None:
            self._in_time()
        super().on_message_complete()

    def _failed(self, fault: HTTPStatus) -> ValueError:
        self._fault = fault
        return ValueError(fault.phrase)

    def _should_upgrade(self) -> bool:
        """Take no request that wants another protocol as it stands: llhttp does not read its body."""
        return True

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Serve a request that offers another protocol as one that does not, as RFC 9110, 7.8 lets us.

        Java's client offers HTTP/2 with each first request.
        """
        if self.parser.get_method() == b"CONNECT":
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        head = [b"%s %s HTTP/%s\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.scope["headers"]:
            if name == b"connection":
                value = b"close" if b"close" in value.lower() else b"keep-alive"
            if name not in (b"upgrade", b"http2-settings"):
                head += [name, b": ", value, b"\r\n"]
        self.parser = httptools.HttpRequestParser(self)
        self._unparsed = 0
        self.data_received(b"".join((*head, b"\r\n", rest)))

    @staticmethod
    def _whole(send: Any, headers: bytes, body: bytes) -> bool:
        """See `Whole`. As `send` does it, in a third of the time: one system call, and no look at each header."""
        cycle = send.__self__
        if cycle.response_started or cycle.disconnected or not cycle.keep_alive or cycle.flow.write_paused:
            return False
        cycle.response_started = cycle.response_complete = True
        dates = b"".join([b"%b: %b\r\n" % header for header in cycle.default_headers])
        head = b"HTTP/1.1 200 OK\r\n%b%bcontent-length: %d\r\n\r\n" % (dates, headers, len(body))
        cycle.transport.write(head + body)
        cycle.message_event.set()
        cycle.on_response()
        return True

    # ---- the ends

    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _expect_more(self, left: float = math.inf) -> None:
        self._deadline = self.loop.call_later(max(0, min(self._limits.head_time, left)), self._too_slow)

    def _in_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        """Give up who has not sent a head in its time, or nothing more of a body for as long."""
        if self._idle() and not self._unparsed:
            self.transport.close()
        elif not self._idle() and self.cycle.response_started:  # answered before the body was read: nobody waits for it
            self._deadline = None
        elif self.flow.read_paused:  # it may not send
            self._expect_more()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _refuse(self, status: HTTPStatus, why: str = "") -> None:
        """Answer what is no request, and read no more; cut the connection where that answer could be taken for another.

        The client has a moment to read it.
        """
        self._refused = True
        cycle = self.cycle
        if not self._idle():
            if self.pipeline or cycle.response_started or not cycle.more_body:
                self.transport.abort()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        self._in_time()
        text = f"{why or status.phrase}\n".encode()
        head = [b"HTTP/1.1 %d %s\r\n" % (status, status.phrase.encode())]
        head += [b"%s: %s\r\n" % header for header in self.server_state.default_headers]
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            head.append(b"retry-after: 1\r\n")
        head.append(b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n" % len(text))
        self.transport.write(b"".join((*head, b"connection: close\r\n\r\n", text)))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER, self.transport.abort)
