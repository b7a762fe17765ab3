"""Reading what a peer sent so that one unknown or broken part does not cost the rest, and each item keeps its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from .base import Kept, PaginatedResult, keep
from .content import AnyBlock, PromptMessage, ToolResultContent, UnknownContent
from .offers import (
    CallToolResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from .questions import CreateMessageResult, ListRootsResult, Root

T = TypeVar("T")
Json = bytes | Raw
AnyContent = AnyBlock | UnknownContent


def read(kind: type[T], raw: Json) -> T:
    """Read one object; a `Kept` one remembers its bytes, and so does each item of a list of them.

    Content blocks that are unknown or do not fit become UnknownContent. Of a page of a list, an item that does not fit
    is left out and named in `dropped`. Raises msgspec.DecodeError where anything else does not fit.
    """
    items = _ITEMS.get(kind)
    if items is not None:
        value: Any = _read_items(kind, items[0], items[1], raw)
    else:
        try:
            value = decoder(kind)(raw)
        except msgspec.DecodeError:
            if kind not in _BLOCKS:
                raise
            value = _read_blocks(kind, raw)
    if issubclass(kind, Kept):
        keep(value, raw)
    return value


def decode_block(raw: Json) -> AnyContent:
    """Read one content block; what is unknown or does not fit becomes UnknownContent, never an exception."""
    try:
        return decoder(AnyBlock)(raw)
    except msgspec.DecodeError:
        unknown = UnknownContent(bytes(raw))
    if unknown.type != "tool_result":
        return unknown
    try:
        return _read_blocks(ToolResultContent, raw)
    except msgspec.DecodeError:
        return unknown


def decode_blocks(raws: Iterable[Json]) -> list[AnyContent]:
    """Read content blocks one by one, so that one unknown kind costs none of the others."""
    return [decode_block(raw) for raw in raws]


@cache
def decoder(kind: Any) -> Callable[[Json], Any]:
    """The strict decoder of a type, built once: it raises msgspec.ValidationError where anything does not fit."""
    return msgspec.json.Decoder(kind).decode


def _decode_messages(raws: list[Raw]) -> list[PromptMessage]:
    return [read(PromptMessage, raw) for raw in raws]


def _decode_one_or_more(raw: Raw) -> AnyContent | list[AnyContent]:
    if bytes(raw).startswith(b"["):
        return decode_blocks(decoder(list[Raw])(raw))
    return decode_block(raw)


_BLOCKS: dict[type, tuple[str, Any, Callable[[Any], Any]]] = {
    CallToolResult: ("content", list[Raw], decode_blocks),
    ToolResultContent: ("content", list[Raw], decode_blocks),
    GetPromptResult: ("messages", list[Raw], _decode_messages),
    PromptMessage: ("content", Raw, decode_block),
    CreateMessageResult: ("content", Raw, _decode_one_or_more),
}
"""Where content blocks may stand: the member, how it is split, and how its parts are read."""

_ITEMS: dict[type, tuple[str, type[Kept]]] = {
    ListToolsResult: ("tools", Tool),
    ListResourcesResult: ("resources", Resource),
    ListResourceTemplatesResult: ("resource_templates", ResourceTemplate),
    ListPromptsResult: ("prompts", Prompt),
    ListRootsResult: ("roots", Root),
}
"""The lists whose items keep their bytes."""


def _read_blocks(kind: type[Any], raw: Json) -> Any:
    member, parts, read_parts = _BLOCKS[kind]
    return _rebuild(kind, _split(kind, member, parts)(raw), member, read_parts)


def _read_items(kind: type[Any], member: str, item: type[Kept], raw: Json) -> Any:
    dropped: list[str] = []

    def read_item(place: int, part: Raw) -> Kept | None:
        try:
            return read(item, part)
        except msgspec.DecodeError as error:
            if not issubclass(kind, PaginatedResult):
                raise
            dropped.append(f"{member}[{place}]: {error}")
            return None

    def read_parts(parts: list[Raw]) -> list[Kept]:
        found = [read_item(place, part) for place, part in enumerate(parts)]
        return [value for value in found if value is not None]

    value = _rebuild(kind, _split(kind, member, list[Raw])(raw), member, read_parts)
    if dropped:
        vars(value)["dropped"] = dropped
    return value


@cache
def _split(kind: type[Any], member: str, parts: Any) -> Callable[[Json], Any]:
    """A decoder of `kind` that leaves `member` in undecoded parts."""
    loose = msgspec.defstruct(f"Loose{kind.__name__}", [(member, parts)], bases=(kind,), kw_only=True)
    return decoder(loose)


def _rebuild(kind: type[Any], loose: Any, member: str, read_parts: Callable[[Any], Any]) -> Any:
    values = {name: getattr(loose, name) for name in kind.__struct_fields__}
    values[member] = read_parts(values[member])
    return kind(**values)
