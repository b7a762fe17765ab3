"""The Model Context Protocol for Python: the front door, whose names are imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .client.client import Client as Client
    from .client.listening import Listening as Listening
    from .client.questions import ClientQuestion as ClientQuestion
    from .protocol.errors import CallError as CallError
    from .protocol.errors import CannotAsk as CannotAsk
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
    from .protocol.errors import Unanswered as Unanswered
    from .protocol.events import Event as Event
    from .protocol.icons import safe_icons as safe_icons
    from .protocol.limits import Limits as Limits
    from .protocol.meta import Trace as Trace
    from .protocol.types import Annotations as Annotations
    from .protocol.types import AudioContent as AudioContent
    from .protocol.types import CallToolResult as CallToolResult
    from .protocol.types import Completion as Completion
    from .protocol.types import CreateMessageResult as CreateMessageResult
    from .protocol.types import ElicitResult as ElicitResult
    from .protocol.types import EmbeddedResource as EmbeddedResource
    from .protocol.types import GetPromptResult as GetPromptResult
    from .protocol.types import Icon as Icon
    from .protocol.types import ImageContent as ImageContent
    from .protocol.types import Implementation as Implementation
    from .protocol.types import ModelHint as ModelHint
    from .protocol.types import ModelPreferences as ModelPreferences
    from .protocol.types import PromptReference as PromptReference
    from .protocol.types import ReadResourceResult as ReadResourceResult
    from .protocol.types import Resource as Resource
    from .protocol.types import ResourceContents as ResourceContents
    from .protocol.types import ResourceLink as ResourceLink
    from .protocol.types import ResourceTemplateReference as ResourceTemplateReference
    from .protocol.types import Root as Root
    from .protocol.types import SamplingMessage as SamplingMessage
    from .protocol.types import TextContent as TextContent
    from .protocol.types import Tool as Tool
    from .protocol.types import ToolChoice as ToolChoice
    from .protocol.types import ToolResultContent as ToolResultContent
    from .protocol.types import ToolUseContent as ToolUseContent
    from .protocol.types import UnknownContent as UnknownContent
    from .server.content import Audio as Audio
    from .server.content import File as File
    from .server.content import Image as Image
    from .server.content import ToolResult as ToolResult
    from .server.context import Context as Context
    from .server.events import Bus as Bus
    from .server.events import Listener as Listener
    from .server.events import LocalBus as LocalBus
    from .server.forms import Format as Format
    from .server.forms import Titles as Titles
    from .server.handlers import Resolve as Resolve
    from .server.prompts import Message as Message
    from .server.questions import AcceptedElicitation as AcceptedElicitation
    from .server.questions import CancelledElicitation as CancelledElicitation
    from .server.questions import DeclinedElicitation as DeclinedElicitation
    from .server.questions import Elicit as Elicit
    from .server.questions import ElicitationRequired as ElicitationRequired
    from .server.questions import ElicitationResult as ElicitationResult
    from .server.questions import ElicitURL as ElicitURL
    from .server.questions import ListRoots as ListRoots
    from .server.questions import Question as Question
    from .server.questions import Sample as Sample
    from .server.server import Server as Server
    from .server.typeschema import Header as Header
    from .transport.http.target import Http as Http
    from .transport.process import Stdio as Stdio

_NAMES = {
    "AcceptedElicitation": "server.questions",
    "Annotations": "protocol.types",
    "Audio": "server.content",
    "AudioContent": "protocol.types",
    "Bus": "server.events",
    "CallError": "protocol.errors",
    "CallToolResult": "protocol.types",
    "CancelledElicitation": "server.questions",
    "CannotAsk": "protocol.errors",
    "Client": "client.client",
    "ClientQuestion": "client.questions",
    "Completion": "protocol.types",
    "ConnectionClosed": "protocol.errors",
    "Context": "server.context",
    "CreateMessageResult": "protocol.types",
    "DeclinedElicitation": "server.questions",
    "Elicit": "server.questions",
    "ElicitResult": "protocol.types",
    "ElicitURL": "server.questions",
    "ElicitationRequired": "server.questions",
    "ElicitationResult": "server.questions",
    "EmbeddedResource": "protocol.types",
    "Event": "protocol.events",
    "File": "server.content",
    "Format": "server.forms",
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
    "ListRoots": "server.questions",
    "Listener": "server.events",
    "Listening": "client.listening",
    "LocalBus": "server.events",
    "Message": "server.prompts",
    "ModelHint": "protocol.types",
    "ModelPreferences": "protocol.types",
    "NotSupported": "protocol.errors",
    "PeerError": "protocol.errors",
    "PromptReference": "protocol.types",
    "ProtocolError": "protocol.errors",
    "Question": "server.questions",
    "ReadResourceResult": "protocol.types",
    "RegistrationError": "protocol.errors",
    "RequestTimeout": "protocol.errors",
    "Resolve": "server.handlers",
    "Resource": "protocol.types",
    "ResourceContents": "protocol.types",
    "ResourceLink": "protocol.types",
    "ResourceNotFound": "protocol.errors",
    "ResourceTemplateReference": "protocol.types",
    "Root": "protocol.types",
    "Sample": "server.questions",
    "SamplingMessage": "protocol.types",
    "Server": "server.server",
    "SessionExpired": "protocol.errors",
    "Stdio": "transport.process",
    "TextContent": "protocol.types",
    "Titles": "server.forms",
    "Tool": "protocol.types",
    "ToolChoice": "protocol.types",
    "ToolError": "protocol.errors",
    "ToolResult": "server.content",
    "ToolResultContent": "protocol.types",
    "ToolUseContent": "protocol.types",
    "Trace": "protocol.meta",
    "Unanswered": "protocol.errors",
    "UnknownContent": "protocol.types",
    "safe_icons": "protocol.icons",
}

__all__ = [
    "AcceptedElicitation",
    "Annotations",
    "Audio",
    "AudioContent",
    "Bus",
    "CallError",
    "CallToolResult",
    "CancelledElicitation",
    "CannotAsk",
    "Client",
    "ClientQuestion",
    "Completion",
    "ConnectionClosed",
    "Context",
    "CreateMessageResult",
    "DeclinedElicitation",
    "Elicit",
    "ElicitResult",
    "ElicitURL",
    "ElicitationRequired",
    "ElicitationResult",
    "EmbeddedResource",
    "Event",
    "File",
    "Format",
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
    "ListRoots",
    "Listener",
    "Listening",
    "LocalBus",
    "Message",
    "ModelHint",
    "ModelPreferences",
    "NotSupported",
    "PeerError",
    "PromptReference",
    "ProtocolError",
    "Question",
    "ReadResourceResult",
    "RegistrationError",
    "RequestTimeout",
    "Resolve",
    "Resource",
    "ResourceContents",
    "ResourceLink",
    "ResourceNotFound",
    "ResourceTemplateReference",
    "Root",
    "Sample",
    "SamplingMessage",
    "Server",
    "SessionExpired",
    "Stdio",
    "TextContent",
    "Titles",
    "Tool",
    "ToolChoice",
    "ToolError",
    "ToolResult",
    "ToolResultContent",
    "ToolUseContent",
    "Trace",
    "Unanswered",
    "UnknownContent",
    "safe_icons",
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
