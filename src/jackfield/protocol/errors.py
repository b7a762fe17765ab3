"""The exceptions of jackfield, each raised for one kind of fault.

    JackfieldError
    ├── ProtocolError          a JSON-RPC error that a handler raises for the peer to receive
    │   └── FrameError         bytes that are no legal message; knows the request id where the envelope could be read
    ├── PeerError              a JSON-RPC error that the peer sent as its answer
    ├── ResourceNotFound       raised by a resource's handler: there is nothing at this URI
    ├── ToolError              a tool's failure in words for the model: answered as `isError`, never as a JSON-RPC error
    │   └── Unanswered         a question that got no answer: the client failed, hung up or took too long
    │       └── CannotAsk      the client did not declare that it can be asked this
    ├── CallError              a request that got no answer from the peer; made here, never received (BASE-8)
    │   ├── RequestTimeout     no answer in time; the peer was told to cancel
    │   ├── ConnectionClosed   the other side is gone, or this side closed
    │   │   └── SessionExpired the server does not know the HTTP session any more; a new one takes its place
    │   ├── HttpError          the server answered over HTTP, but with no message of this protocol
    │   └── NotSupported       the peer did not declare what the request needs, so it was not sent
    ├── InvalidResult          the peer's answer does not fit its method, or the schema that the peer itself declared
    ├── LimitExceeded          one of `Limits` was passed; the message names it
    └── RegistrationError      a tool, resource, prompt or option that cannot be served as written

`ProtocolError` is what *we* say, `PeerError` what we were *told*: a server's tool that calls another server and fails
must not pass the other's error off as its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .printable import printable

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
"""Legacy revisions only; 2026-07-28 says INVALID_PARAMS (RSC-3)."""
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042
"""2025-11-25 only."""
USER_REJECTED = -1


class JackfieldError(Exception):
    """The base of every exception that jackfield raises on purpose."""


class ProtocolError(JackfieldError):
    """Raised in a handler: the peer receives a JSON-RPC error with this code, message and data (BASE-7).

    Application codes must lie outside -32768..-32000 (ERR-1); that range belongs to the protocol.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if not isinstance(code, int) or not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"ProtocolError({code!r}, {message!r}): the code is an integer, the message a text")
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class FrameError(ProtocolError):
    """Bytes that are no legal message.

    `id` is the one that stands in the envelope where that could be read, else None (BASE-3); `reply` tells that the
    bytes were an answer to that id and no request.
    """

    def __init__(self, code: int, message: str, id: int | str | None = None, *, reply: bool = False) -> None:
        super().__init__(code, message)
        self.id = id
        self.reply = reply


class PeerError(JackfieldError):
    """The peer answered with a JSON-RPC error. `message` is its own text, `str(error)` is fit for a terminal.

    `status` is the HTTP status that came with it, where that says that the request failed (FT-2); else None.
    """

    def __init__(self, code: int, message: str, data: Any = None, status: int | None = None) -> None:
        super().__init__(f"{printable(message, 1000)} ({code})")
        self.status = status
        self.code = code
        self.message = message
        self.data = data


class ToolError(JackfieldError):
    """Raised in a tool: the call is answered with `isError` and this text, for the model to read and mend (TOOL-7)."""


class Unanswered(ToolError):
    """A question got no answer that counts: the client failed, hung up, or took too long. It is never a yes."""


class CannotAsk(Unanswered):
    """The client did not say that it can be asked this (MR-2).

    `required` is what it would have to declare, in the shape of its capabilities. Where a handler does not catch it, a
    modern client gets error -32021 with it (ERR-2), a legacy one the text.
    """

    def __init__(self, message: str, required: dict[str, Any]) -> None:
        super().__init__(message)
        self.required = required


class ResourceNotFound(JackfieldError):
    """Raised in a resource's handler: nothing is at `uri`. The peer gets its revision's error for that (RSC-3)."""

    def __init__(self, uri: str) -> None:
        super().__init__(f"Resource not found: {uri}")
        self.uri = uri


class CallError(JackfieldError):
    """A request that got no answer from the peer."""


class RequestTimeout(CallError):
    """No answer came in time; the request was cancelled at the peer (CAN-5)."""


class ConnectionClosed(CallError):
    """The conversation is over.

    `exit_code` is the status of a child process that ended (None while unknown or without one), `stderr` the
    last lines that it wrote to its standard error.
    """

    def __init__(self, message: str, *, exit_code: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.stderr = stderr


class SessionExpired(ConnectionClosed):
    """The server does not know this HTTP session any more (LH-8); it did not look at the request."""


class HttpError(CallError):
    """The server answered over HTTP, but with no message of this protocol (FT-2).

    `status` is the HTTP status, `headers` are the answer's, with lower-case names.
    """

    def __init__(self, message: str, status: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


class NotSupported(CallError):
    """The peer did not declare what this request needs (CAP-3); nothing was sent."""


class InvalidResult(JackfieldError):
    """The peer's answer does not fit its method or the schema that it declared."""


class LimitExceeded(JackfieldError):
    """A limit was passed. `limit` is its name in `Limits`."""

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class RegistrationError(JackfieldError):
    """A tool, resource, prompt or option that cannot be served as it is written; the message names place and fix."""
