"""Python values as JSON: one form for each type, the same that the output schemas promise (F57)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from . import pydantic_bridge
from .records import Field, attributes
from .signature import EMPTY

Show = Callable[[Any], Any]
NO_CLASSES: dict[type, tuple[Field, ...]] = {}


def show_by(plain: dict[type, tuple[Field, ...]]) -> Show:
    """The `enc_hook` for values that msgspec cannot encode: paths, pydantic's values, and the given plain classes.

    Only the plain classes that a function names in its annotation are shown: any other object may hold what is nobody's
    business.
    """

    def show(value: Any) -> Any:
        found = pydantic_bridge.dumped(value)
        if found is not NotImplemented:
            return found
        if (pathlib := sys.modules.get("pathlib")) and isinstance(value, pathlib.PurePath):
            return str(value)
        for cls in type(value).__mro__:
            if fields := plain.get(cls):
                return attributes(value, fields)
        raise TypeError(f"a value of type {type(value).__name__} cannot be made JSON")

    return show


def require_finite(value: Any, show: Show) -> None:
    """Raises ValueError where NaN or an infinity is anywhere in `value`: they are no JSON, and msgspec writes null."""
    if not _finite(msgspec.to_builtins(value, enc_hook=show, str_keys=True)):
        raise ValueError("NaN and infinity are no JSON numbers")


def json_value(value: Any) -> Any:
    """`value` as JSON built-ins, for a schema; EMPTY for what is no JSON."""
    show = show_by(NO_CLASSES)
    try:
        require_finite(value, show)
        return msgspec.json.decode(msgspec.json.encode(value, enc_hook=show))
    except (TypeError, ValueError, RecursionError):
        return EMPTY


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return not isinstance(value, (list, tuple)) or all(map(_finite, value))  # pyright: ignore[reportUnknownArgumentType]
