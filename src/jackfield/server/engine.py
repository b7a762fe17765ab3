"""The engine: one decoded request in, one encoded answer out, the same for every revision and transport."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    ProtocolError,
)
from ..protocol.jsonrpc import Answer, Id, Notification, Request, check_members, encode, refusal
from ..protocol.methods import METHODS, Method
from ..protocol.revisions import MODERN, find, negotiate
from ..protocol.types import (
    CallToolParams,
    CallToolResult,
    DiscoverResult,
    Implementation,
    InitializeParams,
    InitializeResult,
    Params,
    RequestMeta,
    Result,
    ServerCapabilities,
    SetLevelParams,
    TextContent,
    UnsupportedVersionData,
)
from ..protocol.wire import MODERN as MODERN_WIRE
from ..protocol.wire import Stamp
from .context import Context
from .peer import Link, Peer
from .threads import Threads

log = logging.getLogger("jackfield")

Handler = Callable[[Any, Context], Awaitable[Result | Raw]]
"""Answers one method: typed params and the request's context in, a result out (Raw: already stamped and encoded)."""

Next = Callable[[Any, Context], Awaitable[Any]]
Middleware = Callable[[Any, Context, Next], Awaitable[Any]]
"""`async def middleware(params, ctx, next)`: sees every request (`ctx.method`), and returns `await next(params, ctx)`, changed or not."""


class Route(Struct, frozen=True):
    """One method, ready to be served."""

    row: Method
    decode: Callable[[Raw], Any]
    handler: Handler
    early: bool = False
    """Whether a session may ask it before `initialize`."""


# How many bytes of a `tools/call`'s params are neither the name nor the arguments nor `_meta`, by which of the last two are
# there, in the two usual ways to space JSON. A key given twice takes at least ten bytes more than either, so params of just
# this size need no search for one (T08).
_SPARE = {
    (False, False): (len('{"name":""}'), len('{"name": ""}')),
    (True, False): (len('{"name":"","arguments":}'), len('{"name": "", "arguments": }')),
    (False, True): (len('{"name":"","_meta":}'), len('{"name": "", "_meta": }')),
    (True, True): (len('{"name":"","arguments":,"_meta":}'), len('{"name": "", "arguments": , "_meta": }')),
}
_decode_params = msgspec.json.Decoder(Params).decode
_decode_meta = msgspec.json.Decoder(RequestMeta).decode
_KNOWN_METAS = 64
_KNOWN_META_SIZE = 2048


class Engine:
    """Serves requests from routes that were built beforehand; knows no transport."""

    def __init__(self, info: Implementation, instructions: str | None) -> None:
        self.info = info
        self.instructions = instructions
        self.stamp = Stamp.of(info)
        self.state: Any = None
        self.capabilities = ServerCapabilities()
        self.loop: asyncio.AbstractEventLoop
        self.threads: Threads
        self._routes: dict[str, Route] = {}
        self._peers: dict[bytes, Peer] = {}

    def set_routes(
        self, handlers: dict[str, Handler], capabilities: ServerCapabilities, middleware: Sequence[Middleware]
    ) -> None:
        """Serve these methods from now on, besides those that every server has; `middleware` goes around each, first outermost."""
        self.capabilities = capabilities
        own: dict[str, Handler] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
        }
        routes: dict[str, Route] = {}
        for name, handler in {**own, **handlers}.items():
            row = METHODS[name]
            for wrap in reversed(middleware):
                handler = _wrapped(wrap, handler)
            routes[name] = Route(row, row.decode_params, handler, name in ("initialize", "ping"))
        self._routes = routes

    async def serve(self, session: Peer, request: Request, link: Link) -> bytes:
        """Answer one request of a conversation; `session` is what `initialize` said in it, or will say.

        Whether the request is of the modern era is judged from its own `_meta` first (ERA-V1, ERA-V5). Raises nothing but
        CancelledError.
        """
        id, method = request.id, request.method
        context = None
        try:
            route = self._routes.get(method)
            try:
                params = _decode_params(request.params) if route is None else route.decode(request.params)
            except (msgspec.DecodeError, RecursionError) as fault:
                raise self._misfit(session, request, fault) from None
            peer, token, meta = session, None, b""
            if params.meta is not UNSET:
                meta = bytes(params.meta)
                known = self._peers.get(meta)
                if known is None:
                    peer, token = self._read_meta(session, meta)
                else:
                    peer = known
            if peer.revision is None and (route is None or not route.early):
                await _initialized(session, method)
            revision = peer.revision
            if revision is None:
                if method == "initialize":
                    session.opening = asyncio.Event()
            elif route is None or revision.name not in route.row.revisions:
                raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")
            if isinstance(params, CallToolParams):
                arguments = params.arguments
                size = len(bytes(request.params)) - len(params.name) - len(meta)
                if arguments is not UNSET:
                    size -= len(bytes(arguments))
                if size not in _SPARE[arguments is not UNSET, params.meta is not UNSET]:
                    check_members(request.params, "params")
            else:
                check_members(request.params, "params")
            context = Context(id, method, peer, link, self, token)
            result = await route.handler(params, context)
        except ProtocolError as error:
            return refusal(error.code, error.message, id, error.data)
        except Exception:
            log.exception("serving %s failed", method)
            return refusal(INTERNAL_ERROR, f"{method} failed on the server", id)
        finally:
            if context is not None:
                context.over = True
            if method == "initialize" and session.opening is not None:
                session.opening.set()
        try:
            if isinstance(result, Result):
                peer.wire.stamp(result, self.stamp)
            return encode(Answer(id, result))
        except Exception as fault:
            return self._unencodable(peer, request, result, fault)

    def notice(self, session: Peer, notification: Notification) -> None:
        """Hear a notification; none of those that a client sends needs more than to be heard (F34)."""
        log.debug("%s from %s", notification.method, session.client.name if session.client else "client")

    def _misfit(self, session: Peer, request: Request, fault: Exception) -> ProtocolError:
        """The error for params that do not fit; what `_meta` has to say comes first (META-8)."""
        try:
            params = _decode_params(request.params)
            if params.meta is not UNSET:
                self._read_meta(session, bytes(params.meta))
        except ProtocolError as error:
            return error
        except (msgspec.DecodeError, RecursionError):
            pass  # the params are no object at all, which `fault` says too
        return ProtocolError(INVALID_PARAMS, f"Invalid params for {request.method}: {fault}")

    def _read_meta(self, session: Peer, text: bytes) -> tuple[Peer, Id | None]:
        """The peer that `_meta` describes and the progress token in it; without a version it is the session's (ERA-V1)."""
        try:
            meta = _decode_meta(text)
            check_members(text, "_meta")
        except (msgspec.DecodeError, RecursionError) as fault:
            raise ProtocolError(INVALID_PARAMS, f"Invalid `_meta`: {fault}") from None
        if meta.version is UNSET:
            if meta.client_capabilities is not UNSET and session.revision is None:
                raise ProtocolError(INVALID_PARAMS, "`_meta` lacks io.modelcontextprotocol/protocolVersion")
            return session, meta.progress_token
        revision = find(meta.version)
        if revision is None or not revision.modern:
            data = UnsupportedVersionData([known.name for known in MODERN], meta.version)
            raise ProtocolError(UNSUPPORTED_VERSION, f"Unsupported protocol version: {meta.version}", data)
        if meta.client_capabilities is UNSET:
            raise ProtocolError(INVALID_PARAMS, "`_meta` lacks io.modelcontextprotocol/clientCapabilities")
        peer = Peer(MODERN_WIRE, revision, meta.client_capabilities, meta.client_info, meta.log_level)
        if meta.progress_token is None and len(text) <= _KNOWN_META_SIZE:
            if len(self._peers) >= _KNOWN_METAS:
                self._peers.clear()
            self._peers[text] = peer  # most clients send the very same `_meta` with each request
        return peer, meta.progress_token

    def _unencodable(self, peer: Peer, request: Request, result: object, fault: Exception) -> bytes:
        """Answer a request whose result no JSON can hold; a tool's caller gets it as the tool's failure."""
        log.error("the result of %s cannot be encoded: %s", request.method, fault)
        if isinstance(result, CallToolResult):
            name = msgspec.json.decode(request.params, type=CallToolParams).name
            failed = CallToolResult(
                [TextContent(f"Tool '{name}' gave a result that cannot be sent as JSON")], is_error=True
            )
            peer.wire.stamp(failed, self.stamp)
            return encode(Answer(request.id, failed))
        return refusal(INTERNAL_ERROR, f"the result of {request.method} cannot be sent as JSON", request.id)

    async def _initialize(self, params: InitializeParams, context: Context) -> Result:
        session = context.peer
        revision = negotiate(params.protocol_version)
        session.revision = revision
        session.capabilities = params.capabilities
        session.client = params.client_info
        alias = find(params.protocol_version) is revision
        version = params.protocol_version if alias else revision.name
        return InitializeResult(version, self.capabilities, self.info, self.instructions)

    async def _discover(self, params: Params, context: Context) -> Result:
        versions = [revision.name for revision in MODERN]
        return DiscoverResult(versions, self.capabilities, self.instructions, cache_scope="public")

    async def _ping(self, params: Params, context: Context) -> Result:
        return Result()

    async def _set_level(self, params: SetLevelParams, context: Context) -> Result:
        context.peer.log_level = params.level
        return Result()


def _wrapped(middleware: Middleware, handler: Handler) -> Handler:
    async def wrapped(params: Any, context: Context) -> Any:
        return await middleware(params, context, handler)

    return wrapped


async def _initialized(session: Peer, method: str) -> None:
    """Wait for an `initialize` that is under way. Raises ProtocolError where there is none, or it failed."""
    if session.opening is not None:
        await session.opening.wait()
    if session.revision is not None:
        return
    if method not in METHODS:
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {method}")
    text = (
        f"{method} came before `initialize`, and without `_meta` io.modelcontextprotocol/protocolVersion; "
        "begin with either (2025-11-25 and earlier, or 2026-07-28)"
    )
    raise ProtocolError(INVALID_PARAMS, text)
