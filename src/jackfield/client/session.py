"""One conversation whose revision is agreed on: stamps requests, sends them and reads the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..protocol.errors import UNSUPPORTED_VERSION, HttpError, InvalidResult, NotSupported, PeerError, SessionExpired
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
from .link import Link
from .values import encode_value

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
    capabilities: ClientCapabilities


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


def request_meta(revision: Revision, hello: Hello, level: LogLevel | None = None) -> dict[str, Any]:
    """The `_meta` members of every request (META-1, META-2); none on legacy wires."""
    if not revision.modern:
        return {}
    meta = RequestMeta(
        version=revision.name, client_capabilities=hello.capabilities, client_info=hello.info, log_level=level
    )
    return msgspec.to_builtins(meta)


class Session:
    """A conversation of one revision. When its connection is gone it stays gone; the client opens another."""

    def __init__(self, link: Link, revision: Revision, hello: Hello, facts: Facts) -> None:
        self.link = link
        self.connection = link.connection
        self.revision = revision
        self.facts = facts
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

    def _offers(self, row: Method) -> bool:
        if not exists(row.name, self.revision.name):
            return False
        if row.name == "completion/complete" and not self.revision.completions_capability:
            return True
        return row.offered(self.facts.capabilities)

    async def request(self, method: Method, params: Params, asking: Asking | None = None) -> Any:
        """Send a request and return its decoded result.

        Raises NotSupported before anything is sent if the server did not declare what it takes (CAP-3), TypeError for
        params that have no form in JSON, PeerError, RequestTimeout, ConnectionClosed, SessionExpired, HttpError, and
        InvalidResult for an answer that does not fit.
        """
        if method.name not in self._offered:
            raise NotSupported(self._missing(method))
        connection = self.connection
        id = connection.new_id()
        if asking is not None and asking.meta:
            members = {"progressToken": id, **asking.meta, **self._own}
            members["progressToken"] = id  # the connection knows progress by the id
            params.meta = Raw(encode_value(members))
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
            self._judge(error)
            raise
        return self._read_call(raw) if method is CALL else self._read(method, raw)

    def _judge(self, error: SessionExpired | HttpError | PeerError) -> None:
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
            return self._read(CALL, raw)
        if result.result_type is not None and result.result_type != CallToolResult.kind:
            return self._read(CALL, raw)
        keep(result, raw)
        return result

    def _read(self, method: Method, raw: Raw) -> Any:
        result = method.decode_result(raw)
        if isinstance(result, InputRequiredResult):
            raise InvalidResult(
                f"{self.connection.name} answered {method.name} with a question (resultType 'input_required'), though "
                "this client did not say that it can be asked; questions come with a later release"
            )
        return result

    def _missing(self, method: Method) -> str:
        if not exists(method.name, self.revision.name) and method is not _SET_LEVEL:
            return f"{method.name} is no method of revision {self.revision.name}"
        name = self.connection.name
        return f"{name} does not offer {method.name}: it did not declare the capability `{method.capability}`"
