"""The ASGI application that serves both eras at one path, and says of each request which of them it is of."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, MutableMapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from ...protocol.errors import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    FrameError,
    RegistrationError,
)
from ...protocol.jsonrpc import Id, Message, Notification, Refused, Request, Response, decode, refusal
from ...protocol.printable import printable
from ...protocol.revisions import find
from .guard import (
    BOTH_TYPES,
    JSON,
    LATEST,
    MODERN_NAMES,
    SERVER_ERROR,
    STREAM,
    Denied,
    Guard,
    Pairs,
    beyond_legacy,
    joined,
    too_large,
)
from .post import JSON_TYPE, RETRY, Exchange, Receive, Send, closing, reply
from .service import WHOLE, Service, Whole
from .sessions import Sessions

log = logging.getLogger("jackfield")

Scope = MutableMapping[str, Any]

_USUAL_TYPE: Final = b"application/json"
_USUAL_ACCEPT: Final = b"application/json, text/event-stream"
_UNUSUAL: Final = (b"origin", b"sec-fetch-site", b"content-encoding")
"""Headers that most requests do not have, and that the guard must see."""
_MOST_SAID: Final = 16 * 2**10
"""How large an `initialize` may be that begins a session (R08)."""
_VERSION: Final = "mcp-protocol-version"
_VERSION_RAW: Final = _VERSION.encode()
_MODERN: Final = frozenset(name.encode() for name in MODERN_NAMES)
_JSON_LINE: Final = b"content-type: application/json\r\n"
_SESSION: Final = "mcp-session-id"
_UNTOLD: Final = "2025-03-26"
"""What a legacy client speaks that does not say so (LH-4)."""
_TEXT: Final = (b"content-type", b"text/plain; charset=utf-8")


class _Meta(Struct):
    version: Raw | UnsetType = field(default=UNSET, name="io.modelcontextprotocol/protocolVersion")


class _Params(Struct):
    meta: _Meta | UnsetType = field(default=UNSET, name="_meta")


_read_params = msgspec.json.Decoder(_Params).decode


class App:
    """Serves a `Service` at `path`: POST in both eras, DELETE for the sessions of the legacy one.

    Its options are told at `Server.http_app`. It starts with the first request where no lifespan has begun it.
    """

    def __init__(
        self,
        service: Service,
        *,
        path: str = "/mcp",
        stateless: bool = False,
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] = (),
        cors: Sequence[str] = (),
        token: str | None = None,
        health: bool = False,
        loopback: bool = False,
    ) -> None:
        if not isinstance(path, str) or not path.startswith("/") or any(mark in path for mark in "?#%"):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(f"path {path!r}: it begins with / and has none of ? # %")
        self.service = service
        self.path = "/" + path.strip("/")
        self.guard = Guard(
            service.limits,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            cors=cors,
            token=token,
            loopback=loopback,
            eras=service.eras,
        )
        self.sessions = Sessions(service)
        self.waiting: set[Exchange] = set()
        """The requests that are being answered and had to wait."""
        self._long_size = len(str(service.limits.body))
        """A body whose length takes fewer digits is not too large."""
        self._keeps_sessions = "legacy" in service.eras and not stateless
        self._paths = frozenset((self.path, self.path.rstrip("/") + "/"))
        self._health = health
        self._limits = service.limits
        self._modern = "modern" in service.eras
        self._legacy = "legacy" in service.eras
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that the server was started on; None before, and when it is closing."""
        self._starting: asyncio.Task[Exception | None] | None = None
        self._entered = False
        self._closed = False

    def __repr__(self) -> str:
        return f"App({self.service.label!r}, path={self.path!r})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request, or run the server's lifespan; WebSockets are refused."""
        if scope["type"] != "http":
            await self._other(scope["type"], receive, send)
            return
        pairs, limits = scope["headers"], self._limits
        raw: dict[bytes, bytes] = dict(pairs)
        extra: Pairs = ()
        takes = JSON | STREAM
        try:
            # Nearly all requests are good at a glance; the guard looks closely at the others.
            if (
                raw.get(b"accept") != _USUAL_ACCEPT
                or raw.get(b"content-type") != _USUAL_TYPE
                or raw.get(b"host") not in self.guard.plain_hosts
                or scope["path"] not in self._paths
                or scope["method"] != "POST"
                or not raw.keys().isdisjoint(_UNUSUAL)
                or len(raw) != len(pairs)
                or len(raw.get(b"content-length", b"")) >= self._long_size
            ):
                headers = joined(pairs)
                if self.guard.cors:
                    extra = self.guard.cors_headers(headers)
                if scope["method"] != "POST" or (scope["path"] not in self._paths and not self._is_here(scope)):
                    await self._not_post(scope, headers, extra, send)
                    return
                takes = self.guard.check_post(headers)
                self.guard.check_size(raw.get(b"content-length"))
            message = await receive()
            body: bytes | None = message.get("body", b"")
            if message.get("more_body", False) or not body or len(body) > limits.body:
                body = await self._read_on(message, receive)
                if body is None:
                    return  # it hung up
            if asyncio.get_running_loop() is not self._loop:
                await self._start()
            request = decode(body, limits.depth)
            id = "" if type(request) is not Request else request.id
            whole: Whole | None = scope.get(WHOLE)
            exchange = Exchange(
                raw, pairs, id, takes, limits, send, receive, self.waiting, whole, extra, self.guard.principal
            )
            if len(self.waiting) >= limits.requests:
                self._refuse_busy(request)
            if type(request) is Request and raw.get(_VERSION_RAW) in _MODERN and self._modern:
                frame = await exchange.serve(self.service.serve(self.service.stranger, request, exchange))
                if type(frame) is bytes and exchange.plain and takes & JSON:  # as `finish`, some steps less
                    exchange.over = True
                    if extra or whole is None or not whole(send, _JSON_LINE, frame):
                        await reply(send, 200, [JSON_TYPE, *extra], frame, limits.write)
                else:
                    await exchange.finish(frame)
            else:
                await self._route(request, len(body), exchange)
        except FrameError as error:
            await self._deny(Denied(400, error.message, error.code, id=None if error.reply else error.id), extra, send)
        except Denied as denied:
            await self._deny(denied, extra, send)

    async def _read_on(self, message: MutableMapping[str, Any], receive: Receive) -> bytes | None:
        """The whole body, counted while it comes (T11); None where the client hung up. Raises Denied."""
        parts: list[bytes] = []
        size = 0
        while message["type"] == "http.request":
            part = message.get("body", b"")
            parts.append(part)
            size += len(part)
            if size > self._limits.body:
                raise too_large(self._limits)
            if not message.get("more_body", False):
                return b"".join(parts)
            message = await receive()
        return None

    def _refuse_busy(self, message: Message) -> None:
        if type(message) is Request:
            text = f"server busy: {len(self.waiting)} requests are under way (limit `requests`)"
            raise Denied(503, text, INTERNAL_ERROR, id=message.id).with_header(*RETRY)

    async def _deny(self, denied: Denied, extra: Pairs, send: Send) -> None:
        log.info("%r refused a request: %s (%d)", self, denied.text, denied.status)
        body = refusal(denied.code, denied.text, denied.id)
        await reply(send, denied.status, [JSON_TYPE, *extra, *denied.headers], body, self._limits.write)

    # ---- which era

    async def _route(self, message: Message, size: int, exchange: Exchange) -> None:
        """Serve what does not say in the usual way that it is modern (ERA-V1, ERA-V2, ERA-V5). Raises Denied."""
        version = exchange.headers.get(_VERSION)
        if self._is_modern(message, exchange.headers):
            if not self._modern:  # so that a client of both eras falls back to `initialize`
                shown = ", ".join(sorted(MODERN_NAMES))
                text = f"this server does not serve {shown}; begin with `initialize`"
                raise Denied(400, text, SERVER_ERROR, id=_id(message))
            await self._serve_modern(message, exchange)
        elif self._legacy:
            if not _is_initialize(message):
                _check_version(version)
            await self._serve_legacy(message, size, exchange)
        elif _is_initialize(message):  # the engine says what to do instead (ERA-V4)
            frame = await exchange.serve(
                self.service.serve(self.service.session(None, self._keeps_sessions), message, exchange)
            )
            if type(frame) is Refused:
                frame.status = 404
            await exchange.finish(frame)
        elif version is None and type(message) is Request:
            raise Denied(400, "the header MCP-Protocol-Version is missing", HEADER_MISMATCH, id=message.id)  # ERA-V3
        else:
            await self._serve_modern(message, exchange)

    def _is_modern(self, message: Message, headers: dict[str, str]) -> bool:
        version = headers.get(_VERSION, "").strip()
        if version in MODERN_NAMES:
            return True
        if type(message) is Request:
            if b"protocolVersion" in message.params:
                with contextlib.suppress(msgspec.DecodeError, RecursionError):  # the engine tells of what does not fit
                    meta = _read_params(message.params).meta
                    if meta is not UNSET and meta.version is not UNSET:
                        return True
            if message.method == "initialize":
                return False
        return version != "" and _SESSION not in headers and find(version) is None and beyond_legacy(version)

    async def _serve_modern(self, message: Message, exchange: Exchange) -> None:
        if isinstance(message, Request):
            answer = self.service.serve(self.service.stranger, message, exchange)
            await exchange.finish(await exchange.serve(answer))
        elif isinstance(message, Response):
            raise Denied(400, "a client sends no answers in this revision")
        else:
            self.service.notice(self.service.stranger, message)
            await self._accept(exchange)

    async def _serve_legacy(self, message: Message, size: int, exchange: Exchange) -> None:
        if exchange.takes != JSON | STREAM:
            raise Denied(406, BOTH_TYPES, SERVER_ERROR, id=_id(message))
        if _is_initialize(message):
            if self._keeps_sessions and size > _MOST_SAID:
                text = f"`initialize` may take {_MOST_SAID} bytes here, for a session keeps what it says"
                raise Denied(413, text, id=message.id)
            await self._initialize(message, exchange)
            return
        if not self._keeps_sessions:
            revision = find(exchange.headers.get(_VERSION, _UNTOLD).strip())
            if type(message) is Request:
                exchange.cancels = False
                answer = self.service.serve(self.service.session(revision, False), message, exchange)
                await exchange.finish(await exchange.serve(answer))
                return
            if type(message) is Notification:
                self.service.notice(self.service.session(revision, False), message)
            await self._accept(exchange)
            return
        session = self.sessions.find(exchange.headers.get(_SESSION), self.guard.principal)
        self.sessions.enter(session)
        try:
            if isinstance(message, Request):
                exchange.cancels = False
                await session.post(message, size, exchange)
            else:
                session.take(message, size)
                await self._accept(exchange)
        finally:
            self.sessions.leave(session)

    async def _initialize(self, request: Request, exchange: Exchange) -> None:
        """Answer `initialize`; a session is made only where the answer is no error (F17)."""
        exchange.takes = JSON  # the answer's head has the session's id, so it cannot begin before there is one
        peer = self.service.session(None, self._keeps_sessions)
        frame = await exchange.serve(self.service.serve(peer, request, exchange))
        if self._keeps_sessions and type(frame) is bytes:
            session = self.sessions.open(peer, self.guard.principal)
            exchange.extra = (*exchange.extra, (b"mcp-session-id", session.id.encode()))
        await exchange.finish(frame)

    async def _accept(self, exchange: Exchange) -> None:
        await reply(exchange.send, 202, [*exchange.extra], b"", self._limits.write)

    # ---- everything but a POST to the endpoint

    def _is_here(self, scope: Scope) -> bool:
        return _local(scope) in self._paths

    async def _not_post(self, scope: Scope, headers: dict[str, str], extra: Pairs, send: Send) -> None:
        method, seconds = scope["method"], self._limits.write
        here = scope["path"] in self._paths or self._is_here(scope)
        self.guard.check_host(headers)
        if here and method == "OPTIONS" and (answer := self.guard.preflight(headers)) is not None:
            await reply(send, 200, [*answer], b"", seconds)
            return
        self.guard.check_place(headers)
        if not here:
            if self._health and method in ("GET", "HEAD") and _local(scope) == "/health":
                await reply(send, 200, [JSON_TYPE, *extra], b'{"status":"ok"}', seconds)
                return
            root = scope.get("root_path", "").rstrip("/")
            text = f"Nothing is here. The MCP endpoint of {self.service.label} is {root}{self.path}\n"
            await reply(send, 404, [_TEXT, *extra], text.encode(), seconds)
            return
        self.guard.check_token(headers)
        ends = self._keeps_sessions and not beyond_legacy(headers.get(_VERSION, LATEST))
        if method != "DELETE" or not ends:
            allowed = b"POST, DELETE" if self._keeps_sessions else b"POST"
            raise Denied(405, "Method Not Allowed: messages are POSTed", SERVER_ERROR).with_header(b"allow", allowed)
        _check_version(headers.get(_VERSION))
        self.sessions.end(self.sessions.find(headers.get(_SESSION), self.guard.principal))
        await reply(send, 200, [*extra], b"", seconds)

    # ---- beginning and end

    @contextlib.asynccontextmanager
    async def lifespan(self, app: object = None) -> AsyncGenerator[None]:
        """The server's lifespan, for the application that this one is mounted in: `FastAPI(lifespan=app.lifespan)`.

        Raises what the server's own lifespan raises.
        """
        fault = await self._begin()
        if fault is not None:
            raise fault
        try:
            yield
        finally:
            await self._end()

    def closing(self) -> None:
        """End every answer that is under way, streams properly (F24); refuse what comes from now on."""
        self._closed = True
        self._loop = None
        self.sessions.close()
        for exchange in list(self.waiting):
            exchange.stop(exchange.goodbye or closing(exchange.id))

    async def _other(self, kind: str, receive: Receive, send: Send) -> None:
        if kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000, "reason": ""})
            return
        if kind != "lifespan":
            raise ValueError(f"{self!r} serves HTTP; a scope of type {kind!r} is none")
        await receive()
        fault = await self._begin()
        if fault is not None:
            await send({"type": "lifespan.startup.failed", "message": f"{self.service.label} could not start: {fault}"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._end()
        await send({"type": "lifespan.shutdown.complete"})

    async def _start(self) -> None:
        """Start the server with its first request, once for all that come meanwhile. Raises Denied."""
        if self._closed:
            raise Denied(503, "the server is shutting down", INTERNAL_ERROR).with_header(*RETRY)
        if await self._begin() is not None:
            raise Denied(500, "the server could not start; its log has the reason", INTERNAL_ERROR)

    async def _begin(self) -> Exception | None:
        """Begin to use the server on this loop; what kept it from starting, after which it may be tried again."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return None
        starting = self._starting
        if starting is None or starting.done() or starting.get_loop() is not loop:
            starting = self._starting = loop.create_task(self._enter(loop))
        return await asyncio.shield(starting)

    async def _enter(self, loop: asyncio.AbstractEventLoop) -> Exception | None:
        try:
            await self.service.enter()
        except Exception as fault:
            log.exception("%r could not start", self)
            return fault
        self._entered, self._closed, self._loop = True, False, loop
        self.sessions = Sessions(self.service)
        self.waiting.clear()
        return None

    async def _end(self) -> None:
        """End what runs, and the use of the server once that is done, or has had `grace` seconds."""
        self.closing()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.grace):
                await self.sessions.quiet()
        if self._entered:
            self._entered = False
            await self.service.leave()


def _check_version(version: str | None) -> None:
    if version is not None and find(version.strip()) is None:
        raise Denied(400, f"Bad Request: Unsupported protocol version {printable(version, 80)!r}", SERVER_ERROR)


def _is_initialize(message: Message) -> TypeGuard[Request]:
    return type(message) is Request and message.method == "initialize"


def _id(message: Message) -> Id | None:
    return message.id if type(message) is Request else None


def _local(scope: Scope) -> str:
    """The path inside this application; servers give it with the root path before it, or without."""
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    return path.removeprefix(root) or "/"
