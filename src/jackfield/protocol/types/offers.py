"""What a server offers: tools, resources, prompts and completion."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from .base import CacheableResult, Kept, Object, PaginatedResult, Params, Result
from .content import Annotations, Content, Icon, PromptMessage, ResourceContents, TextContent


class ToolAnnotations(Object):
    """Hints on what a tool does; untrusted unless the server is trusted (TOOL-6)."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolExecution(Object):
    """2025-11-25: whether a call can become a task: forbidden (the default), optional or required (T25-3)."""

    task_support: str | None = None


class Tool(Kept):
    """One tool as a server lists it. The schemas are plain JSON Schema (TOOL-3, TOOL-4)."""

    name: str
    input_schema: dict[str, Any]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, Any] | None = None
    annotations: ToolAnnotations | None = None
    icons: list[Icon] | None = None
    execution: ToolExecution | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListToolsResult(PaginatedResult):
    """`tools/list`."""

    tools: list[Tool]


class CallToolParams(Params, gc=False):
    """`tools/call`; still undecoded: `arguments` (absent and null count as empty), `input_responses` and `task`."""

    name: str
    arguments: Raw | UnsetType = UNSET
    input_responses: Raw | UnsetType = UNSET
    request_state: str | None = None
    task: Raw | UnsetType = UNSET


class _Given(Struct, rename="camel"):
    structured_content: Raw | UnsetType = UNSET


_decode_given = msgspec.json.Decoder(_Given).decode


class CallToolResult(Result):
    """What a tool gave. `structured_content` is None where there is none; a sender writes a null as `Raw(b"null")`."""

    content: list[Content]
    structured_content: Any = None
    is_error: bool = False

    @property
    def has_structured_content(self) -> bool:
        """Whether there is structured content, which since 2026-07-28 may be null (TOOL-5)."""
        return self.structured_content is not None or _decode_given(self.raw or b"{}").structured_content is not UNSET

    @property
    def text(self) -> str:
        """The text blocks, joined by line ends; "" where there is none."""
        return "\n".join([block.text for block in self.content if isinstance(block, TextContent)])


class Resource(Kept):
    """One resource as a server lists it (RSC-2)."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ResourceTemplate(Kept):
    """A family of resources, by the RFC 6570 template of their URIs (RSC-4)."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListResourcesResult(PaginatedResult):
    """`resources/list`."""

    resources: list[Resource]


class ListResourceTemplatesResult(PaginatedResult):
    """`resources/templates/list`."""

    resource_templates: list[ResourceTemplate]


class ReadResourceParams(Params):
    """`resources/read`; the answers to questions stay undecoded."""

    uri: str
    input_responses: Raw | UnsetType = UNSET
    request_state: str | None = None


class ReadResourceResult(CacheableResult):
    """What a resource holds; several contents where it is like a directory."""

    contents: list[ResourceContents]


class SubscribeParams(Params):
    """`resources/subscribe` and `resources/unsubscribe`, on legacy wires (RSC-6)."""

    uri: str


class ResourceUpdatedParams(Params):
    """`notifications/resources/updated`; the URI may lie below the one that was subscribed to (RSC-6)."""

    uri: str


class ResourceMissingData(Object):
    """`data` of the error for a resource that does not exist (RSC-3)."""

    uri: str


class PromptArgument(Object):
    """One argument of a prompt; its value is always a text (PRM-2)."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Kept):
    """One prompt as a server lists it (PRM-1)."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListPromptsResult(PaginatedResult):
    """`prompts/list`."""

    prompts: list[Prompt]


class GetPromptParams(Params):
    """`prompts/get`; the answers to questions stay undecoded."""

    name: str
    arguments: dict[str, str] | None = None
    input_responses: Raw | UnsetType = UNSET
    request_state: str | None = None


class GetPromptResult(Result):
    """The messages that a prompt expands to (PRM-3)."""

    messages: list[PromptMessage]
    description: str | None = None


class PromptReference(Object, tag_field="type", tag="ref/prompt"):
    """The prompt whose argument is completed."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str
    title: str | None = None


class ResourceTemplateReference(Object, tag_field="type", tag="ref/resource"):
    """The resource template whose variable is completed; `uri` is the template."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str


class CompletionArgument(Object):
    """The argument that is being typed, and what stands there so far."""

    name: str
    value: str


class CompletionContext(Object):
    """The arguments that are filled in already, from 2025-06-18 on."""

    arguments: dict[str, str] | None = None


class CompleteParams(Params):
    """`completion/complete` (CMP-2)."""

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(Object):
    """At most a hundred values, best first (CMP-2)."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result):
    """The values found."""

    completion: Completion
