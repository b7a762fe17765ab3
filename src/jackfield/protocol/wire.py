"""The two eras' ways on the wire: how results are stamped, definitions shown, errors told over HTTP, hang-ups taken."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from .errors import (
    HEADER_MISMATCH,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from .revisions import Revision
from .types.base import CacheableResult, Result
from .types.lifecycle import Implementation
from .types.offers import CallToolResult, Prompt, Tool

SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"


class Stamp(Struct, frozen=True):
    """What a server says of itself in each modern result (RES-4): as a dict, and encoded."""

    members: dict[str, Any]
    encoded: Raw

    @classmethod
    def of(cls, info: Implementation) -> Stamp:
        """The stamp of a server with this identity."""
        members = {SERVER_INFO: msgspec.to_builtins(info)}
        return cls(members, Raw(msgspec.json.encode(members)))


class Wire(Protocol):
    """One era's way on the wire."""

    era: ClassVar[str]
    disconnect_cancels: ClassVar[bool]
    """Whether the end of a request's HTTP exchange cancels the request (HTTP-7, LH-2)."""

    def stamp(self, result: Result, stamp: Stamp) -> None:
        """Make a finished result fit this wire, in place, just before it is encoded."""
        ...

    def http_status(self, code: int) -> int:
        """The HTTP status that goes with a JSON-RPC error code (4.5)."""
        ...


class LegacyWire:
    """Revisions up to 2025-11-25: sessions, plain results (RES-5)."""

    era: ClassVar[str] = "legacy"
    disconnect_cancels: ClassVar[bool] = False

    def stamp(self, result: Result, stamp: Stamp) -> None:
        """Take off what these revisions do not know."""
        result.result_type = None
        if type(result) is not CallToolResult and isinstance(result, CacheableResult):
            result.ttl_ms = result.cache_scope = None

    def http_status(self, code: int) -> int:
        """400 for what is no request, 200 for everything that a request was answered with."""
        return 400 if code in (PARSE_ERROR, INVALID_REQUEST) else 200


_MODERN_STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    MISSING_CAPABILITY: 400,
    METHOD_NOT_FOUND: 404,
}


class ModernWire:
    """2026-07-28 and later: every result says what it is and who made it."""

    era: ClassVar[str] = "modern"
    disconnect_cancels: ClassVar[bool] = True

    def stamp(self, result: Result, stamp: Stamp) -> None:
        """Add `resultType` (RES-1), the server's identity (RES-4), and how long what can be cached is fresh (CCH-1)."""
        if result.result_type is None:
            result.result_type = result.kind
        result.meta = stamp.encoded if result.meta is None else _merged(stamp, result.meta)
        if type(result) is not CallToolResult and isinstance(result, CacheableResult):
            if result.ttl_ms is None:
                result.ttl_ms = 0
            if result.cache_scope is None:
                result.cache_scope = "private"

    def http_status(self, code: int) -> int:
        """The table of 4.5; errors of the request's own content are answered with 200."""
        return _MODERN_STATUS.get(code, 200)


def _merged(stamp: Stamp, meta: dict[str, Any] | Raw) -> dict[str, Any]:
    own: dict[str, Any] = msgspec.json.decode(meta) if isinstance(meta, Raw) else meta
    return {**stamp.members, **own}


_FACTS: Final = {
    "title": "title",
    "meta": "title",
    "icons": "icons",
    "website_url": "icons",
    "completions": "completions_capability",
}
"""A member that some revisions lack, by the fact of a revision that says so."""

T = TypeVar("T", bound=Struct)


def fit(definition: T, revision: Revision) -> T:
    """A definition, identity or set of capabilities as `revision` knows it (LIFE-4); itself where nothing has to go.

    A tool's output schema goes where the revision could not carry what it describes (TOOL-4).
    """
    gone = [member for member, fact in _FACTS.items() if not getattr(revision, fact)]
    changed: dict[str, Any] = {}
    if isinstance(definition, Tool):
        if not revision.tool_annotations:
            gone.append("annotations")
        if not _carries(revision, definition.output_schema):
            gone.append("output_schema")
    elif isinstance(definition, Prompt) and definition.arguments and not revision.title:
        changed["arguments"] = [fit(argument, revision) for argument in definition.arguments]
    changed.update({member: None for member in gone if getattr(definition, member, None) is not None})
    return msgspec.structs.replace(definition, **changed) if changed else definition


def _carries(revision: Revision, output_schema: dict[str, Any] | None) -> bool:
    if revision.output_schema == "object":
        return output_schema is None or output_schema.get("type") == "object"
    return revision.output_schema is not None


LEGACY: Final = LegacyWire()
MODERN: Final = ModernWire()
