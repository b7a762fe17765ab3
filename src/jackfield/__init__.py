"""The Model Context Protocol for Python: the front door, whose names are imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .client.client import Client as Client
    from .protocol.errors import CallError as CallError
    from .protocol.errors import ConnectionClosed as ConnectionClosed
    from .protocol.errors import InvalidResult as InvalidResult
    from .protocol.errors import JackfieldError as JackfieldError
    from .protocol.errors import LimitExceeded as LimitExceeded
    from .protocol.errors import NotSupported as NotSupported
    from .protocol.errors import PeerError as PeerError
    from .protocol.errors import ProtocolError as ProtocolError
    from .protocol.errors import RegistrationError as RegistrationError
    from .protocol.errors import RequestTimeout as RequestTimeout
    from .protocol.errors import ResourceNotFound as ResourceNotFound
    from .protocol.errors import ToolError as ToolError
    from .protocol.limits import Limits as Limits
    from .protocol.types import Icon as Icon
    from .protocol.types import ResourceLink as ResourceLink
    from .server.content import Audio as Audio
    from .server.content import File as File
    from .server.content import Image as Image
    from .server.content import ToolResult as ToolResult
    from .server.context import Context as Context
    from .server.prompts import Message as Message
    from .server.server import Server as Server
    from .transport.process import Stdio as Stdio

_NAMES = {
    "Audio": "server.content",
    "CallError": "protocol.errors",
    "Client": "client.client",
    "ConnectionClosed": "protocol.errors",
    "Context": "server.context",
    "File": "server.content",
    "Icon": "protocol.types",
    "Image": "server.content",
    "InvalidResult": "protocol.errors",
    "JackfieldError": "protocol.errors",
    "LimitExceeded": "protocol.errors",
    "Limits": "protocol.limits",
    "Message": "server.prompts",
    "NotSupported": "protocol.errors",
    "PeerError": "protocol.errors",
    "ProtocolError": "protocol.errors",
    "RegistrationError": "protocol.errors",
    "RequestTimeout": "protocol.errors",
    "ResourceLink": "protocol.types",
    "ResourceNotFound": "protocol.errors",
    "Server": "server.server",
    "Stdio": "transport.process",
    "ToolError": "protocol.errors",
    "ToolResult": "server.content",
}

__all__ = [
    "Audio",
    "CallError",
    "Client",
    "ConnectionClosed",
    "Context",
    "File",
    "Icon",
    "Image",
    "InvalidResult",
    "JackfieldError",
    "LimitExceeded",
    "Limits",
    "Message",
    "NotSupported",
    "PeerError",
    "ProtocolError",
    "RegistrationError",
    "RequestTimeout",
    "ResourceLink",
    "ResourceNotFound",
    "Server",
    "Stdio",
    "ToolError",
    "ToolResult",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'jackfield' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"jackfield.{_NAMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_NAMES])
