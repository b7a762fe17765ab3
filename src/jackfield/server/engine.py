"""The engine: one decoded request in, one encoded answer out, the same for every revision and transport."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, Struct

from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
    CannotAsk,
    FrameError,
    ProtocolError,
    RegistrationError,
    ToolError,
)
from ..protocol.headers import NAMED, named, verify_version
from ..protocol.jsonrpc import Answer, Id, Notification, Refused, Request, check_members, encode, refusal
from ..protocol.limits import Limits
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
    PromptsCapability,
    RequestMeta,
    ResourcesCapability,
    Result,
    ServerCapabilities,
    SetLevelParams,
    ToolsCapability,
    UnsupportedVersionData,
)
from ..protocol.wire import MODERN as MODERN_WIRE
from ..protocol.wire import Stamp, fit
from .context import Asked, Context
from .peer import Peer

if TYPE_CHECKING:
    from ..transport.link import Link
    from .parking import Parking
    from .sealing import Sealer
    from .subscriptions import Subscriptions
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
    asks: bool = False
    """Whether its handler may ask the client (MR-1)."""
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
_USUAL, _USUAL_WITH_META = _SPARE[True, False], _SPARE[True, True]
_decode_params: Callable[[bytes | Raw], Any] = msgspec.json.Decoder(Params).decode
_decode_meta = msgspec.json.Decoder(RequestMeta).decode
_NOT_OURS = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)
_TOKEN = b'{"progressToken":'
_KNOWN_METAS = 64
SHORTEST_KEY = 32
"""Bytes that a secret must have which seals what clients keep."""
_KNOWN_META_SIZE = 2048


class Engine:
    """Serves requests from routes that were built beforehand; knows no transport."""

    def __init__(
        self,
        info: Implementation,
        instructions: str | None,
        eras: frozenset[str],
        limits: Limits,
        state_keys: Sequence[str | bytes],
    ) -> None:
        self.info = info
        self.eras = eras
        self.limits = limits
        self._state_keys = state_keys
        self._sealer: Sealer | None = None
        self._parking: Parking | None = None
        self.spent: dict[str, float] = {}
        """The states whose answers were used here, and when they expire: none counts twice (M01)."""
        self.instructions = instructions
        self.stamp = Stamp.of(info)
        self.state: Any = None
        self.ttl_ms = 0
        """How long lists and what is said of the server itself stay fresh, in milliseconds (CCH-1)."""
        self.capabilities = ServerCapabilities()
        self.hub: Subscriptions
        """Who hears of changes; set by the server."""
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
            routes[name] = Route(row, row.decode_params, handler, early, row.may_ask, NAMED.get(name))
        self._routes = routes

    async def serve(self, session: Peer, request: Request, link: Link) -> bytes:
        """Answer a request of a session, or of the era that its `_meta` tells (ERA-V1). Raises only CancelledError."""
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
                usual = _USUAL if params.meta is UNSET else _USUAL_WITH_META
                if arguments is UNSET or size - len(bytes(arguments)) not in usual:
                    _check_call(request, params, size)
            else:
                check_members(request.params, "params")
            context = Context(id, method, peer, link, self, token, request.params)
            if route.asks and (params.request_state is not None or params.input_responses is not UNSET):
                _reopen(context, params)
            result = await route.handler(params, context)
            if context.round is not None and context.round.unfinished:
                raise Asked  # whatever the handler made of it: a question that is open is asked
            if type(result) is not Raw and result.result_type is not None:
                _check_kind(result, context)
        except _NOT_OURS:
            if context is not None:
                context.withdraw()
            raise
        except BaseException as fault:  # SystemExit too: one request's failure ends no server
            return self._refused(peer, request, fault, link, context)
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

    @property
    def sealer(self) -> Sealer:
        """What seals the state of calls that wait for answers; made when the first one does."""
        if self._sealer is None:
            from .sealing import Sealer

            self._sealer = Sealer(self._state_keys)
        return self._sealer

    @property
    def parking(self) -> Parking:
        """The calls that stay alive while their clients are asked."""
        if self._parking is None:
            from .parking import Parking

            self._parking = Parking(self.limits)
        return self._parking

    def end(self) -> None:
        """The server ends: nothing waits for a client any more."""
        if self._parking is not None:
            self._parking.close()

    def notice(self, session: Peer, notification: Notification) -> None:
        """Hear a notification; most of those that a client sends need no more than to be heard (F34)."""
        if notification.method == "notifications/initialized":
            self.hub.begin(session)
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
        traced = meta.traceparent is not None or meta.tracestate is not None or meta.baggage is not None
        if meta.progress_token is None and len(text) <= _KNOWN_META_SIZE and not traced:
            if len(self._peers) >= _KNOWN_METAS:
                self._peers.clear()
            self._peers[text] = peer  # most clients send the very same `_meta` with each request
        return peer, meta.progress_token

    def _refused(
        self, peer: Peer, request: Request, fault: BaseException, link: Link, context: Context | None
    ) -> bytes:
        """Answer a request whose handler raised: a ProtocolError as it is, a ToolError's text, else nothing (O03).

        Where it has asked for something, the answer is what it asked (MR-1).
        """
        method = request.method
        try:
            if context is not None and (context.round is not None or _requires_pages(fault)):
                from .asking import conclude

                outcome = conclude(context, fault)
                if isinstance(outcome, Result):
                    peer.wire.stamp(outcome, self.stamp)
                    return encode(Answer(request.id, outcome))
                fault = outcome
            if isinstance(fault, CannotAsk) and peer.wire is MODERN_WIRE:
                fault = ProtocolError(MISSING_CAPABILITY, str(fault), {"requiredCapabilities": fault.required})
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
        from .tools import failure  # not at the top: serving begins without tools

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
        if not session.kept:
            offer = _without_news(offer)
        if params.capabilities.extensions is None:  # none of these revisions has a word for them (CAP-5)
            offer = msgspec.structs.replace(offer, extensions=None)
        self.hub.join(session, context.link.principal)
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


def checked_keys(keys: Sequence[str | bytes]) -> tuple[str | bytes, ...]:
    """The keys of a server; a random one where there are none. Raises RegistrationError for one that is too short."""
    if isinstance(keys, str | bytes):
        raise RegistrationError("state_keys is a sequence of secrets, the newest first; write state_keys=[...]")
    for place, key in enumerate(keys):
        if not isinstance(key, str | bytes) or len(key) < SHORTEST_KEY:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(f"state_keys[{place}] must be a secret of {SHORTEST_KEY} or more random characters")
    return tuple(keys) or (os.urandom(SHORTEST_KEY),)


def _without_news(offer: ServerCapabilities) -> ServerCapabilities:
    """What is offered to a client that cannot be told of changes (CAP-3)."""
    offer = copy(offer)
    offer.tools = offer.tools and ToolsCapability()
    offer.prompts = offer.prompts and PromptsCapability()
    offer.resources = offer.resources and ResourcesCapability()
    return offer


def _requires_pages(fault: BaseException) -> bool:
    return isinstance(fault, ProtocolError) and fault.code == URL_ELICITATION_REQUIRED


def _check_call(request: Request, params: CallToolParams, size: int) -> None:
    """Search the params of a `tools/call` for a key that is given twice, unless their `size` tells that none is."""
    if params.arguments is not UNSET:
        size -= len(bytes(params.arguments))
    if size not in _SPARE[params.arguments is not UNSET, params.meta is not UNSET]:
        check_members(request.params, "params")


def _reopen(context: Context, params: Any) -> None:
    if context.peer.wire is MODERN_WIRE:
        from .asking import reopen  # not at the top: most servers ask nothing

        reopen(context, params)


def _check_kind(result: Result, context: Context) -> None:
    """Refuse a result of an extension's kind to a client that speaks no extension of this server's (RES-3)."""
    if result.result_type != result.kind and not context.extensions:
        raise RuntimeError(f"a result of kind {result.result_type!r} was made for a client that declared no extension")


def _wrapped(middleware: Middleware, handler: Handler) -> Handler:
    async def wrapped(params: Any, context: Context) -> Any:
        return await middleware(params, context, handler)

    return wrapped


def _checked(handler: Handler) -> Handler:
    """What is outermost where there is middleware, which may return anything, and the same result twice."""

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
