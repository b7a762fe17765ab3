"""The Model Context Protocol for Python: the front door, whose names are imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .client.client import Client as Client
    from .protocol.errors import CallError as CallError
    from .protocol.errors import ConnectionClosed as ConnectionClosed
    from .protocol.errors import HttpError as HttpError
    from .protocol.errors import InvalidResult as InvalidResult
    from .protocol.errors import JackfieldError as JackfieldError
    from .protocol.errors import LimitExceeded as LimitExceeded
    from .protocol.errors import NotSupported as NotSupported
    from .protocol.errors import PeerError as PeerError
    from .protocol.errors import ProtocolError as ProtocolError
    from .protocol.errors import RegistrationError as RegistrationError
    from .protocol.errors import RequestTimeout as RequestTimeout
    from .protocol.errors import ResourceNotFound as ResourceNotFound
    from .protocol.errors import SessionExpired as SessionExpired
    from .protocol.errors import ToolError as ToolError
    from .protocol.limits import Limits as Limits
    from .protocol.types import Annotations as Annotations
    from .protocol.types import AudioContent as AudioContent
    from .protocol.types import CallToolResult as CallToolResult
    from .protocol.types import Completion as Completion
    from .protocol.types import EmbeddedResource as EmbeddedResource
    from .protocol.types import GetPromptResult as GetPromptResult
    from .protocol.types import Icon as Icon
    from .protocol.types import ImageContent as ImageContent
    from .protocol.types import Implementation as Implementation
    from .protocol.types import PromptReference as PromptReference
    from .protocol.types import ReadResourceResult as ReadResourceResult
    from .protocol.types import Resource as Resource
    from .protocol.types import ResourceContents as ResourceContents
    from .protocol.types import ResourceLink as ResourceLink
    from .protocol.types import ResourceTemplateReference as ResourceTemplateReference
    from .protocol.types import TextContent as TextContent
    from .protocol.types import Tool as Tool
    from .protocol.types import UnknownContent as UnknownContent
    from .server.content import Audio as Audio
    from .server.content import File as File
    from .server.content import Image as Image
    from .server.content import ToolResult as ToolResult
    from .server.context import Context as Context
    from .server.prompts import Message as Message
    from .server.server import Server as Server
    from .server.typeschema import Header as Header
    from .transport.http.target import Http as Http
    from .transport.process import Stdio as Stdio

_NAMES = {
    "UnknownContent": "protocol.types",
    "EmbeddedResource": "protocol.types",
    "AudioContent": "protocol.types",
    "Annotations": "protocol.types",
    "Audio": "server.content",
    "CallError": "protocol.errors",
    "CallToolResult": "protocol.types",
    "Client": "client.client",
    "Completion": "protocol.types",
    "ConnectionClosed": "protocol.errors",
    "Context": "server.context",
    "File": "server.content",
    "GetPromptResult": "protocol.types",
    "Header": "server.typeschema",
    "Http": "transport.http.target",
    "HttpError": "protocol.errors",
    "Icon": "protocol.types",
    "Image": "server.content",
    "ImageContent": "protocol.types",
    "Implementation": "protocol.types",
    "InvalidResult": "protocol.errors",
    "JackfieldError": "protocol.errors",
    "LimitExceeded": "protocol.errors",
    "Limits": "protocol.limits",
    "Message": "server.prompts",
    "NotSupported": "protocol.errors",
    "PeerError": "protocol.errors",
    "PromptReference": "protocol.types",
    "ProtocolError": "protocol.errors",
    "ReadResourceResult": "protocol.types",
    "RegistrationError": "protocol.errors",
    "RequestTimeout": "protocol.errors",
    "Resource": "protocol.types",
    "ResourceContents": "protocol.types",
    "ResourceLink": "protocol.types",
    "ResourceNotFound": "protocol.errors",
    "ResourceTemplateReference": "protocol.types",
    "SessionExpired": "protocol.errors",
    "Server": "server.server",
    "Stdio": "transport.process",
    "TextContent": "protocol.types",
    "Tool": "protocol.types",
    "ToolError": "protocol.errors",
    "ToolResult": "server.content",
}

__all__ = [
    "UnknownContent",
    "EmbeddedResource",
    "AudioContent",
    "Annotations",
    "Audio",
    "CallError",
    "CallToolResult",
    "Client",
    "Completion",
    "ConnectionClosed",
    "Context",
    "File",
    "GetPromptResult",
    "Header",
    "Http",
    "HttpError",
    "Icon",
    "Image",
    "ImageContent",
    "Implementation",
    "InvalidResult",
    "JackfieldError",
    "LimitExceeded",
    "Limits",
    "Message",
    "NotSupported",
    "PeerError",
    "PromptReference",
    "ProtocolError",
    "ReadResourceResult",
    "RegistrationError",
    "RequestTimeout",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceTemplateReference",
    "SessionExpired",
    "Server",
    "Stdio",
    "TextContent",
    "Tool",
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
