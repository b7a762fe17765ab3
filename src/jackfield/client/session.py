"""One conversation whose revision is agreed on: stamps requests, sends them and reads the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..protocol.errors import (
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
    HttpError,
    NotSupported,
    PeerError,
    SessionExpired,
)
from ..protocol.methods import METHODS, Method, exists
from ..protocol.revisions import Revision
from ..protocol.types import (
    CallToolResult,
    ClientCapabilities,
    Implementation,
    InputRequiredResult,
    LogLevel,
    Params,
    ProgressParams,
    RequestMeta,
    ServerCapabilities,
    SetLevelParams,
    decoder,
    keep,
)
from .answering import Answering
from .link import Link
from .tracing import OnTrace, traced
from .values import encode_value

if TYPE_CHECKING:
    from .retrying import Retrying

CALL: Final = METHODS["tools/call"]
_SET_LEVEL: Final = METHODS["logging/setLevel"]
_LONG: Final = frozenset(("tools/call", "resources/read", "prompts/get"))
"""What may take long. These ask for progress, callback or not: it is what starts their timeout anew (F42)."""
_NO_MCP_HERE: Final = (400, 404, 405)
"""What a server of the other era answers to this one's requests, and any other server too."""
_decode_call = decoder(CallToolResult)


class Hello(Struct, frozen=True):
    """What this side says of itself."""

    info: Implementation
    answering: Answering
    extensions: dict[str, Any] | None = None

    def capabilities(self, modern: bool) -> ClientCapabilities:
        """What this side can be asked, and which extensions it speaks."""
        return self.answering.handlers.capabilities(modern, self.extensions)


class Facts(Struct, frozen=True):
    """What the server said of itself."""

    server: Implementation | None
    capabilities: ServerCapabilities
    instructions: str | None


class Asking(Struct, frozen=True):
    """How one request differs from others: its time, who hears of its progress, and what its `_meta` holds besides."""

    timeout: float | None = None
    progress: Callable[[ProgressParams], None] | None = None
    meta: Mapping[str, Any] | None = None
    trace: OnTrace | None = None

    def members(self) -> Mapping[str, Any]:
        """What goes into `_meta` besides what every request has there: the trace, where the caller gave no other."""
        given = self.meta or {}
        return given if self.trace is None else {**traced(self.trace), **given}


def request_meta(revision: Revision, hello: Hello, level: LogLevel | None = None) -> dict[str, Any]:
    """The `_meta` members of every request (META-1, META-2); none on legacy wires."""
    if not revision.modern:
        return {}
    meta = RequestMeta(
        version=revision.name, client_capabilities=hello.capabilities(True), client_info=hello.info, log_level=level
    )
    return msgspec.to_builtins(meta)


class Session:
    """A conversation of one revision. When its connection is gone it stays gone; the client opens another."""

    def __init__(self, link: Link, revision: Revision, hello: Hello, facts: Facts) -> None:
        self.link = link
        self.connection = link.connection
        self.revision = revision
        self.facts = facts
        self.answering = hello.answering
        self._hello = hello
        self._own: dict[str, Any] = {}
        self._stamp: Raw | UnsetType = UNSET
        self._after_token = b"}"
        self._stale = False
        self._offered = frozenset([row.name for row in METHODS.values() if self._offers(row)])
        self._set_stamp(None)

    def _set_stamp(self, level: LogLevel | None) -> None:
        self._own = request_meta(self.revision, self._hello, level)
        if self._own:
            text = encode_value(self._own)
            self._stamp = Raw(text)
            self._after_token = b"," + text[1:]

    @property
    def over(self) -> bool:
        """Whether another session must take the place of this one; what is under way in it may still be answered."""
        return self._stale or self.connection.closed is not None

    async def set_log_level(self, level: LogLevel) -> None:
        """Ask for log messages: once on a legacy wire (LOG-3), in each request to come on the modern one (META-2)."""
        if not self.revision.modern:
            await self.request(_SET_LEVEL, SetLevelParams(level))
        elif self.facts.capabilities.logging is None:
            raise NotSupported(self._missing(_SET_LEVEL))
        else:
            self._set_stamp(level)

    async def roots_changed(self) -> None:
        """Tell a legacy server that the roots are others now (ROOT-2). Raises NotSupported where there are none."""
        if self.answering.handlers.roots is None:
            raise NotSupported("this client has no roots; give it some: Client(roots=[...])")
        if not self.revision.modern:
            await self.connection.notify("notifications/roots/list_changed", Params())

    def _offers(self, row: Method) -> bool:
        if not exists(row.name, self.revision.name):
            return False
        if row.name == "completion/complete" and not self.revision.completions_capability:
            return True
        return row.offered(self.facts.capabilities)

    async def request(
        self, method: Method, params: Params, asking: Asking | None = None, *, again: bool = False
    ) -> Any:
        """Send a request and return its decoded result; questions that come back are asked, and it is sent again.

        Raises NotSupported before anything is sent if the server did not declare what it takes (CAP-3), TypeError for
        params that have no form in JSON, PeerError, RequestTimeout, ConnectionClosed, SessionExpired, HttpError,
        InvalidResult for an answer that does not fit, and what `Retrying.finish` raises. With `again` questions are
        given as they came: an InputRequiredResult, or the error that 2025-11-25 has for it.
        """
        if method.name not in self._offered:
            raise NotSupported(self._missing(method))
        connection = self.connection
        id = connection.new_id()
        if asking is not None and (extra := asking.members()):
            token = {"progressToken": id} if method.name in _LONG else {}
            params.meta = Raw(encode_value({**token, **self._own, **extra}))
        elif method.name in _LONG:
            # First, and before what is the same each time: a server may know the rest by its bytes.
            params.meta = Raw(b'{"progressToken":%d%b' % (id, self._after_token))
        else:
            params.meta = self._stamp
        body = Raw(encode_value(params))
        try:
            if asking is None:
                raw = await connection.request(id, method.name, body)
            else:
                raw = await connection.request(id, method.name, body, timeout=asking.timeout, progress=asking.progress)
        except (SessionExpired, HttpError, PeerError) as error:
            self.judge(error)
            if again or not isinstance(error, PeerError) or error.code != URL_ELICITATION_REQUIRED:
                raise
            return await self._retrying(method, params, asking).visit(error)
        result = self._read_call(raw) if method is CALL else method.decode_result(raw)
        if type(result) is not InputRequiredResult or again:
            return result
        return await self._retrying(method, params, asking).finish(result)

    def _retrying(self, method: Method, params: Params, asking: Asking | None) -> Retrying:
        from .retrying import Retrying  # not at the top: it imports this module's types, and few calls need it

        return Retrying(self, method, params, asking)

    def judge(self, error: SessionExpired | HttpError | PeerError) -> None:
        """Note where a refusal over HTTP means that the server is not what it was: look at it anew (ERA-H2, LH-8)."""
        if isinstance(error, HttpError):
            self._stale = self._stale or error.status in _NO_MCP_HERE
        elif isinstance(error, SessionExpired) or (error.status is not None and error.code == UNSUPPORTED_VERSION):
            self._stale = True

    def _read_call(self, raw: Raw) -> Any:
        """The quick way for the usual answer to `tools/call`."""
        try:
            result = _decode_call(raw)
        except msgspec.DecodeError:
            return CALL.decode_result(raw)
        if result.result_type is not None and result.result_type != CallToolResult.kind:
            return CALL.decode_result(raw)
        keep(result, raw)
        return result

    def _missing(self, method: Method) -> str:
        if not exists(method.name, self.revision.name) and method is not _SET_LEVEL:
            return f"{method.name} is no method of revision {self.revision.name}"
        name = self.connection.name
        return f"{name} does not offer {method.name}: it did not declare the capability `{method.capability}`"
