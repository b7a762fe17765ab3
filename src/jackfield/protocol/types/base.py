"""The bases of the vocabulary: what every params, result and list item has in common."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

ProgressToken = int | str
Role = Literal["user", "assistant"]
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""From the least to the most severe (LOG-1)."""


class Object(Struct, rename="camel", omit_defaults=True):
    """The base of all: snake_case here, camelCase on the wire. Unknown members are ignored, absent ones not written."""


class Kept(Object, dict=True):
    """An object that remembers the bytes it was read from, with the members that its struct has no name for.

    Two of them are equal when their members are, whatever the bytes. Changing a member does not change the bytes.
    """

    @property
    def raw(self) -> bytes:
        """The exact bytes this came from; b"" when it was built here."""
        return bytes(vars(self).get("raw", b""))


def keep(value: Kept, raw: bytes | Raw) -> None:
    """Let `value.raw` give `raw`. A `Raw` is copied only when somebody asks, so this is cheap."""
    vars(value)["raw"] = raw


class Params(Object, kw_only=True):
    """The params of a request or notification that has none of its own.

    `meta` stays undecoded: `RequestMeta` or `NotificationMeta` read it.
    """

    meta: Raw | UnsetType = field(name="_meta", default=UNSET)


class PaginatedParams(Params):
    """The params of a list method; an empty cursor is a cursor (PAG-2)."""

    cursor: str | None = None


class Result(Kept, kw_only=True):
    """The result of a request that answers nothing else, and the base of all results.

    `result_type` is None on legacy wires (RES-5); on the modern one it is written from `kind` (RES-1).
    """

    kind: ClassVar[str] = "complete"

    meta: dict[str, Any] | Raw | None = field(name="_meta", default=None)
    """A dict when it was read; a sender may set encoded JSON instead."""
    result_type: str | None = None


class CacheableResult(Result, kw_only=True):
    """A result that says how long it stays fresh; both members are required on the modern wire only (CCH-1)."""

    ttl_ms: int | None = None
    cache_scope: str | None = None
    """`public` or `private`; anything else counts as private."""


class PaginatedResult(CacheableResult, kw_only=True):
    """One page of a list; without `next_cursor` it is the last (PAG-2)."""

    next_cursor: str | None = None

    @property
    def dropped(self) -> list[str]:
        """What the peer listed but did not fit its type, one line for each: the place and the reason."""
        return list(vars(self).get("dropped", ()))


class ErrorData(Object):
    """A JSON-RPC error inside a result (a failed task)."""

    code: int
    message: str
    data: Any = UNSET
