"""Content blocks: what tools, prompts and models say, in every kind that a revision knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, field

from .base import Object, Role


class Annotations(Object):
    """Hints on who a block or resource is for and how much it matters (IMPL-2); unknown values are kept."""

    audience: list[str] | None = None
    priority: float | None = None
    last_modified: str | None = None


class Icon(Object):
    """A picture for lists; `src` is an https or data URI, and not to be trusted before it was checked (ICO-1)."""

    src: str
    mime_type: str | None = None
    sizes: list[str] | None = None
    theme: str | None = None


class TextContent(Object, tag_field="type", tag="text", gc=False):
    """Plain text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ImageContent(Object, tag_field="type", tag="image", gc=False):
    """A picture; `data` is base64."""

    type: ClassVar[Literal["image"]] = "image"
    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class AudioContent(Object, tag_field="type", tag="audio", gc=False):
    """Sound, from 2025-03-26 on; `data` is base64."""

    type: ClassVar[Literal["audio"]] = "audio"
    data: str
    mime_type: str
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ResourceContents(Object):
    """One piece of a resource: `text`, or `blob` in base64, never both (RSC-2)."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ResourceLink(Object, tag_field="type", tag="resource_link"):
    """A resource by its URI, from 2025-06-18 on; it need not be in `resources/list`."""

    type: ClassVar[Literal["resource_link"]] = "resource_link"
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class EmbeddedResource(Object, tag_field="type", tag="resource"):
    """A resource with its contents."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: ResourceContents
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class UnknownContent(dict[str, Any]):
    """A block of a kind that we do not know, or of a known kind whose body does not fit: its JSON object, kept whole.

    `raw` has its exact bytes. A block that is no object, or whose text cannot be read, is empty here but for them.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: bytes) -> None:
        try:
            super().__init__(msgspec.json.decode(raw, type=dict[str, Any]))
        except msgspec.DecodeError:  # no object, or half a surrogate pair
            super().__init__()
        self.raw = raw

    @property
    def type(self) -> str:
        """The kind that the peer named; "" when it named none."""
        kind = self.get("type")
        return kind if isinstance(kind, str) else ""


ContentBlock = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource

if TYPE_CHECKING:
    Content = ContentBlock | UnknownContent
    """A block as a client meets it."""
else:
    Content = ContentBlock  # a decoder's union takes tagged structs only; `read` and `decode_block` keep the rest


class ToolUseContent(Object, tag_field="type", tag="tool_use"):
    """A model's wish to call a tool, in sampling from 2025-11-25 on."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ToolResultContent(Object, tag_field="type", tag="tool_result"):
    """What that call gave, in sampling from 2025-11-25 on."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_use_id: str
    content: list[Content]
    structured_content: Any = UNSET
    is_error: bool = False
    meta: dict[str, Any] | None = field(name="_meta", default=None)


SamplingBlock = TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent

if TYPE_CHECKING:
    SamplingContent = SamplingBlock | UnknownContent
    """A block of a sampling message as its receiver meets it."""
else:
    SamplingContent = SamplingBlock

AnyBlock = ContentBlock | ToolUseContent | ToolResultContent


class PromptMessage(Object):
    """One message of a prompt (PRM-3)."""

    role: Role
    content: Content
