"""Tools: their definitions, calls and results."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType, field

from .base import Kept, Object, PaginatedResult, Params, Result
from .content import Content, Icon, TextContent


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


class CallToolResult(Result):
    """What a tool gave. `structured_content` is UNSET when absent: since 2026-07-28 null is a value (TOOL-5)."""

    content: list[Content]
    structured_content: Any = UNSET
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined by line ends; "" where there is none."""
        return "\n".join([block.text for block in self.content if isinstance(block, TextContent)])
