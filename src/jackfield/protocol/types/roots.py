"""Roots: the places that a client lets a server know of."""

from __future__ import annotations

from typing import Any

from msgspec import field

from .base import Kept, Result


class Root(Kept):
    """One place, a file URI; advice, no access control (ROOT-1)."""

    uri: str
    name: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListRootsResult(Result):
    """`roots/list`."""

    roots: list[Root]
