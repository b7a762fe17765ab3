"""Who both sides are and what they can do: initialize, discover, capabilities, and the `_meta` of each message."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType, field

from .base import CacheableResult, LogLevel, Object, Params, ProgressToken, Result
from .content import Icon


class Implementation(Object):
    """The name and version of a client or server; self-asserted, so nothing may rest on it (META-5, IMPL-1)."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: list[Icon] | None = None


class RootsCapability(Object):
    """The client has roots; `list_changed` on legacy wires only (ROOT-1)."""

    list_changed: bool | None = None


class SamplingCapability(Object):
    """The client has a model; `tools` where that may be given tools (SMP-1)."""

    context: dict[str, Any] | None = None
    tools: dict[str, Any] | None = None


class ElicitationCapability(Object):
    """The client can ask its person; empty means `form` only (ELC-1)."""

    form: dict[str, Any] | None = None
    url: dict[str, Any] | None = None


class ToolTasks(Object):
    """Tasks of 2025-11-25: tool requests that can become one."""

    call: dict[str, Any] | None = None


class SamplingTasks(Object):
    """Tasks of 2025-11-25: sampling requests that can become one."""

    create_message: dict[str, Any] | None = None


class ElicitationTasks(Object):
    """Tasks of 2025-11-25: elicitation requests that can become one."""

    create: dict[str, Any] | None = None


class TaskRequests(Object):
    """Tasks of 2025-11-25: the requests that can become one; `tools` is a server's, the others a client's (T25-1)."""

    tools: ToolTasks | None = None
    sampling: SamplingTasks | None = None
    elicitation: ElicitationTasks | None = None


class TasksCapability(Object):
    """Tasks of 2025-11-25 (T25-1)."""

    list: dict[str, Any] | None = None
    cancel: dict[str, Any] | None = None
    requests: TaskRequests | None = None


class ClientCapabilities(Object):
    """What a client can be asked (CAP-1). None is "not offered"; an empty struct or dict is an offer."""

    experimental: dict[str, Any] | None = None
    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = None
    tasks: TasksCapability | None = None
    extensions: dict[str, Any] | None = None


class PromptsCapability(Object):
    """The server has prompts."""

    list_changed: bool | None = None


class ResourcesCapability(Object):
    """The server has resources; `subscribe` where their changes can be followed."""

    subscribe: bool | None = None
    list_changed: bool | None = None


class ToolsCapability(Object):
    """The server has tools."""

    list_changed: bool | None = None


class ServerCapabilities(Object):
    """What a server offers (CAP-2). None is "not offered"; an empty struct or dict is an offer."""

    experimental: dict[str, Any] | None = None
    logging: dict[str, Any] | None = None
    completions: dict[str, Any] | None = None
    prompts: PromptsCapability | None = None
    resources: ResourcesCapability | None = None
    tools: ToolsCapability | None = None
    tasks: TasksCapability | None = None
    extensions: dict[str, Any] | None = None


class InitializeParams(Params):
    """`initialize`: the newest version the client wants, and who it is (LIFE-1)."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeResult(Result):
    """The agreed version, and who the server is (LIFE-2)."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None


class DiscoverResult(CacheableResult):
    """`server/discover`: what the server speaks and offers (DISC-1)."""

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: str | None = None
    server_info: Implementation | None = None
    """Only read: servers of an older draft say it here; it belongs in `_meta` (RES-4)."""


class RelatedTask(Object):
    """The task that a message belongs to (2025-11-25)."""

    task_id: str


class RequestMeta(Object, kw_only=True):
    """The `_meta` of a request (META-1, META-2, TRC-1).

    `version` and `client_capabilities` are UNSET when absent; with another type they do not decode, so that the two can
    be told apart (META-3). The trace members may be of any type: a wrong one is ignored, never refused.
    """

    version: str | UnsetType = field(name="io.modelcontextprotocol/protocolVersion", default=UNSET)
    client_capabilities: ClientCapabilities | UnsetType = field(
        name="io.modelcontextprotocol/clientCapabilities", default=UNSET
    )
    client_info: Implementation | None = field(name="io.modelcontextprotocol/clientInfo", default=None)
    log_level: LogLevel | None = field(name="io.modelcontextprotocol/logLevel", default=None)
    related_task: RelatedTask | None = field(name="io.modelcontextprotocol/related-task", default=None)
    progress_token: ProgressToken | None = None
    traceparent: Any = None
    tracestate: Any = None
    baggage: Any = None


class NotificationMeta(Object, kw_only=True):
    """The `_meta` of a notification: the listen stream (META-7) or the task (2025-11-25) that it belongs to."""

    subscription_id: int | str | None = field(name="io.modelcontextprotocol/subscriptionId", default=None)
    related_task: RelatedTask | None = field(name="io.modelcontextprotocol/related-task", default=None)


class ResultMeta(Object, kw_only=True):
    """The `_meta` of a result: who answered (RES-4), and the listen stream or the task that ended."""

    server_info: Implementation | None = field(name="io.modelcontextprotocol/serverInfo", default=None)
    subscription_id: int | str | None = field(name="io.modelcontextprotocol/subscriptionId", default=None)
    related_task: RelatedTask | None = field(name="io.modelcontextprotocol/related-task", default=None)
    immediate_response: str | None = field(name="io.modelcontextprotocol/model-immediate-response", default=None)


class UnsupportedVersionData(Object):
    """`data` of error -32022 (DISC-4), and of a refused `initialize` (LIFE-5)."""

    supported: list[str]
    requested: str


class MissingCapabilityData(Object):
    """`data` of error -32021: the client capabilities that the request would have needed, as an object (1.3)."""

    required_capabilities: ClientCapabilities
