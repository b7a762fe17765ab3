"""The engine: one decoded request in, one encoded answer out, the same for every revision and transport."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct

from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    FrameError,
    ProtocolError,
    ToolError,
)
from ..protocol.headers import NAMED, named, verify_version
from ..protocol.jsonrpc import Answer, Id, Notification, Refused, Request, check_members, encode, refusal
from ..protocol.methods import METHODS, Method
from ..protocol.printable import printable
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
    UnsupportedVersionData,
)
from ..protocol.wire import MODERN as MODERN_WIRE
from ..protocol.wire import Stamp, fit
from .context import Context
from .peer import Link, Peer
from .tools import failure

if TYPE_CHECKING:
    from .threads import Threads

log = logging.getLogger("jackfield")

Handler = Callable[[Any, Context], Awaitable[Result | Raw]]
"""Answers one method: typed params and the request's context in, a result out (Raw: already stamped and encoded)."""

Next = Callable[[Any, Context], Awaitable[Any]]
Middleware = Callable[[Any, Context, Next], Awaitable[Any]]
"""`async def middleware(params, ctx, next)`: sees every request that has a handler (`ctx.method`), `initialize` too,
and returns `await next(params, ctx)`, changed or not. To refuse a request it raises ProtocolError, or, around a
`tools/call`, ToolError, which is answered as the tool's own."""


class Route(Struct, frozen=True):
    """One method, ready to be served."""

    row: Method
    decode: Callable[[bytes | Raw], Any]
    handler: Handler
    early: bool = False
    """Whether a session may ask it before `initialize`."""
    named: str | None = None
    """The member of the params that an HTTP request names in its headers too (4.2)."""


class _BadMeta(ProtocolError):
    """A request that does not say what it must about itself; over HTTP that is 400, not as for other params (4.5)."""


# How many bytes of a `tools/call`'s params are neither the name nor the arguments nor `_meta`, by which of the last two
# are there, in the two usual ways to space JSON. A key given twice takes at least ten bytes more than either, so params
# of just this size need no search for one (T08).
_SPARE = {
    (False, False): (len('{"name":""}'), len('{"name": ""}')),
    (True, False): (len('{"name":"","arguments":}'), len('{"name": "", "arguments": }')),
    (False, True): (len('{"name":"","_meta":}'), len('{"name": "", "_meta": }')),
    (True, True): (len('{"name":"","arguments":,"_meta":}'), len('{"name": "", "arguments": , "_meta": }')),
}
_COMPACT, _COMPACT_WITH_META = _SPARE[True, False][0], _SPARE[True, True][0]
_decode_params = msgspec.json.Decoder(Params).decode
_decode_meta = msgspec.json.Decoder(RequestMeta).decode
_NOT_OURS = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)
_TOKEN = b'{"progressToken":'
_KNOWN_METAS = 64
_KNOWN_META_SIZE = 2048


class Engine:
    """Serves requests from routes that were built beforehand; knows no transport."""

    def __init__(self, info: Implementation, instructions: str | None, eras: frozenset[str]) -> None:
        self.info = info
        self.eras = eras
        self.instructions = instructions
        self.stamp = Stamp.of(info)
        self.state: Any = None
        self.ttl_ms = 0
        """How long lists and what is said of the server itself stay fresh, in milliseconds (CCH-1)."""
        self.capabilities = ServerCapabilities()
        self.loop: asyncio.AbstractEventLoop
        self.threads: Threads
        self._routes: dict[str, Route] = {}
        self._peers: dict[bytes, Peer] = {}

    def set_routes(
        self, handlers: dict[str, Handler], capabilities: ServerCapabilities, middleware: Sequence[Middleware]
    ) -> None:
        """Serve these methods now, and those of every server; `middleware` goes around each, outermost first."""
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
            if middleware:
                handler = _checked(handler)
            early = name in ("initialize", "ping")
            routes[name] = Route(row, row.decode_params, handler, early, NAMED.get(name))
        self._routes = routes

    async def serve(self, session: Peer, request: Request, link: Link) -> bytes:
        """Answer one request of a conversation; `session` is what `initialize` said in it, or will say.

        Whether the request is of the modern era is judged from its own `_meta` first (ERA-V1, ERA-V5). Raises nothing
        but CancelledError.
        """
        id, method, peer = request.id, request.method, session
        context = opening = None
        try:
            route = self._routes.get(method)
            try:
                params = (_decode_params if route is None else route.decode)(request.params)
            except (msgspec.DecodeError, RecursionError) as fault:
                raise self._misfit(session, request, route, fault, link) from None
            token, meta = None, b""
            if params.meta is not UNSET:
                meta = bytes(params.meta)
                known = self._peers.get(meta)
                peer, token = (known, None) if known is not None else self._read_meta(session, meta)
            if peer.revision is None and (route is None or not route.early or peer.wire is MODERN_WIRE):
                await _initialized(session, method)
            revision = peer.revision
            if link.verify is not None and revision is not None and revision.headers:
                name = route.named if route is not None else None
                link.verify(revision.name, method, name and getattr(params, name))
            if route is None or (revision is not None and revision.name not in route.row.revisions):
                raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {printable(method)}")
            if revision is None and method == "initialize":
                session.opening = opening = asyncio.Event()
            if type(params) is CallToolParams:  # quicker than isinstance, which asks a Struct's metaclass
                arguments = params.arguments
                size = len(request.params) - len(params.name) - len(meta)
                if arguments is not UNSET:
                    size -= len(bytes(arguments))
                usual = _COMPACT if params.meta is UNSET else _COMPACT_WITH_META  # most clients'; the others below
                if (size != usual or arguments is UNSET) and (
                    size not in _SPARE[arguments is not UNSET, params.meta is not UNSET]
                ):
                    check_members(request.params, "params")
            else:
                check_members(request.params, "params")
            context = Context(id, method, peer, link, self, token)
            result = await route.handler(params, context)
        except _NOT_OURS:
            raise
        except BaseException as fault:  # SystemExit too: one request's failure ends no server
            return self._refused(peer, request, fault, link)
        finally:
            if context is not None:
                context.over = True
            if opening is not None:
                opening.set()
        try:
            if type(result) is not Raw:
                peer.wire.stamp(result, self.stamp)
            return encode(Answer(id, result))
        except Exception as fault:
            return self._unencodable(peer, request, result, fault)

    def notice(self, session: Peer, notification: Notification) -> None:
        """Hear a notification; none of those that a client sends needs more than to be heard (F34)."""
        log.debug("notification: %s", printable(notification.method))

    def _misfit(
        self, session: Peer, request: Request, route: Route | None, fault: Exception, link: Link
    ) -> ProtocolError:
        """The error for params that do not fit; what `_meta`, headers and the method say comes first (META-8)."""
        revision = session.revision
        try:
            params = _decode_params(request.params)
            if params.meta is not UNSET:
                revision = self._read_meta(session, bytes(params.meta))[0].revision
                if link.verify is not None and revision is not None and revision.headers:
                    link.verify(revision.name, request.method, named(request.method, request.params))
        except ProtocolError as error:
            return error
        except (msgspec.DecodeError, RecursionError):
            pass  # the params are no object at all, which `fault` says too
        if revision is not None and (route is None or revision.name not in route.row.revisions):
            return ProtocolError(METHOD_NOT_FOUND, f"Method not found: {printable(request.method)}")
        return ProtocolError(INVALID_PARAMS, f"Invalid params for {request.method}: {fault}")

    def _read_meta(self, session: Peer, text: bytes) -> tuple[Peer, Id | None]:
        """The peer that `_meta` describes, the session's where it names no version (ERA-V1), and the progress token."""
        digits, comma, rest = text.removeprefix(_TOKEN).partition(b",")
        if comma and digits.isdigit() and len(digits) < 19:  # as our client writes it; what follows is mostly known
            rest = b"{" + rest
            known = self._peers.get(rest)
            peer, token = (known, None) if known is not None else self._read_meta(session, rest)
            if token is not None:
                raise FrameError(INVALID_REQUEST, "a key of `_meta` is given twice")
            return peer, int(digits)
        if digits[-1:] == b"}" and digits[:-1].isdigit() and len(digits) < 19:
            return session, int(digits[:-1])  # the same of a legacy client
        try:
            meta = _decode_meta(text)
            check_members(text, "_meta")
        except (msgspec.DecodeError, RecursionError) as fault:
            raise _BadMeta(INVALID_PARAMS, f"Invalid `_meta`: {fault}") from None
        if meta.version is UNSET:
            if meta.client_capabilities is not UNSET and session.revision is None:
                raise _BadMeta(INVALID_PARAMS, "`_meta` lacks io.modelcontextprotocol/protocolVersion")
            return session, meta.progress_token
        if "modern" not in self.eras:
            return session, meta.progress_token  # as a server would that knows nothing of that era
        revision = find(meta.version)
        if revision is None or not revision.modern:
            data = UnsupportedVersionData([known.name for known in MODERN], meta.version)
            raise ProtocolError(UNSUPPORTED_VERSION, f"Unsupported protocol version: {printable(meta.version)}", data)
        if meta.client_capabilities is UNSET:
            raise _BadMeta(INVALID_PARAMS, "`_meta` lacks io.modelcontextprotocol/clientCapabilities")
        peer = Peer(MODERN_WIRE, revision, meta.client_capabilities, meta.client_info, meta.log_level)
        if meta.progress_token is None and len(text) <= _KNOWN_META_SIZE:
            if len(self._peers) >= _KNOWN_METAS:
                self._peers.clear()
            self._peers[text] = peer  # most clients send the very same `_meta` with each request
        return peer, meta.progress_token

    def _refused(self, peer: Peer, request: Request, fault: BaseException, link: Link) -> bytes:
        """Answer a request whose handler raised: a ProtocolError as it is, a ToolError's text, else nothing (O03)."""
        method = request.method
        try:
            if isinstance(fault, ProtocolError):
                unknown = fault.data if fault.code == UNSUPPORTED_VERSION else None
                if isinstance(unknown, UnsupportedVersionData) and link.headers is not None:
                    try:  # an unknown version is one that header and body agree on (4.5)
                        verify_version(link.headers, unknown.requested)
                    except ProtocolError as mismatch:
                        fault = mismatch
                return _refuse(peer, request, fault)
            if isinstance(fault, ToolError):  # of a middleware, or a handler that is no tool
                if method == "tools/call":
                    return self._tool_failure(peer, request, str(fault))
                return _refuse(peer, request, ProtocolError(INTERNAL_ERROR, str(fault)))
            log.error("serving %s failed", method, exc_info=fault)
        except Exception as unencodable:
            log.error("the error of %s cannot be encoded: %s", method, unencodable)
        return _refuse(peer, request, ProtocolError(INTERNAL_ERROR, f"{method} failed on the server"))

    def _unencodable(self, peer: Peer, request: Request, result: object, fault: Exception) -> bytes:
        """Answer a request whose result no JSON can hold; a tool's caller gets it as the tool's failure (F57)."""
        log.error("the result of %s cannot be encoded: %s", request.method, fault)
        if isinstance(result, CallToolResult):
            name = msgspec.json.decode(request.params, type=CallToolParams).name
            return self._tool_failure(peer, request, f"Tool '{name}' gave a result that cannot be sent as JSON")
        text = f"the result of {request.method} cannot be sent as JSON"
        return _refuse(peer, request, ProtocolError(INTERNAL_ERROR, text))

    def _tool_failure(self, peer: Peer, request: Request, text: str) -> bytes:
        result = failure(text)
        peer.wire.stamp(result, self.stamp)
        return encode(Answer(request.id, result))

    async def _initialize(self, params: InitializeParams, context: Context) -> Result:
        session = context.peer
        if "legacy" not in self.eras:
            text = "this server has no handshake: ask server/discover, with the revision in `_meta` (ERA-V4)"
            data = UnsupportedVersionData([known.name for known in MODERN], params.protocol_version)
            raise ProtocolError(METHOD_NOT_FOUND, text, data)
        revision = negotiate(params.protocol_version)
        session.revision = revision
        session.capabilities = params.capabilities
        session.client = params.client_info
        alias = find(params.protocol_version) is revision
        version = params.protocol_version if alias else revision.name
        offer, info = fit(self.capabilities, revision), fit(self.info, revision)
        return InitializeResult(version, offer, info, self.instructions)

    async def _discover(self, params: Params, context: Context) -> Result:
        versions = [revision.name for revision in MODERN]
        return DiscoverResult(versions, self.capabilities, self.instructions, ttl_ms=self.ttl_ms, cache_scope="public")

    async def _ping(self, params: Params, context: Context) -> Result:
        return Result()

    async def _set_level(self, params: SetLevelParams, context: Context) -> Result:
        context.peer.log_level = params.level
        return Result()


def _refuse(peer: Peer, request: Request, fault: ProtocolError) -> Refused:
    refused = Refused(refusal(fault.code, fault.message, request.id, fault.data))
    refused.code = fault.code
    refused.status = 400 if isinstance(fault, _BadMeta) else peer.wire.http_status(fault.code)
    return refused


def _wrapped(middleware: Middleware, handler: Handler) -> Handler:
    async def wrapped(params: Any, context: Context) -> Any:
        return await middleware(params, context, handler)

    return wrapped


def _checked(handler: Handler) -> Handler:
    """What is outermost where there is middleware, which may return anything, and the same result twice."""
    from copy import copy

    async def checked(params: Any, context: Context) -> Any:
        result: Any = await handler(params, context)
        if isinstance(result, Result):
            return copy(result)
        if isinstance(result, Raw):
            return result
        raise TypeError(f"a middleware returned {type(result).__name__}; it must return the result that `next` gave it")

    return checked


async def _initialized(session: Peer, method: str) -> None:
    """Wait for an `initialize` that is under way. Raises ProtocolError where there is none, or it failed."""
    if session.opening is not None:
        await session.opening.wait()
    if session.revision is not None:
        return
    if session.wire is MODERN_WIRE:
        raise _BadMeta(INVALID_PARAMS, "the request has no `_meta` with io.modelcontextprotocol/protocolVersion")
    if method not in METHODS:
        raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {printable(method)}")
    text = (
        f"{method} came before `initialize`, and without `_meta` io.modelcontextprotocol/protocolVersion; "
        "begin with either (2025-11-25 and earlier, or 2026-07-28)"
    )
    raise ProtocolError(INVALID_PARAMS, text)
