"""Reading values of unknown shape: what JSON can hold, when two are equal, and paths such as `$.routine.blocks[3]`."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple, cast

import msgspec

DEPTH = 64
"""The deepest nesting of objects and arrays that is read."""

_TYPES = (str, dict, int, float, bool, list, type(None))
_BIGGEST_BITS = 1024  # the range of a double: beyond it other JSON readers see infinity
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_QUOTED = 60


class Fault(NamedTuple):
    """Why a value is not readable: `code` is json or size."""

    code: str
    path: str
    message: str


def member(path: str, key: str) -> str:
    """The path of an object's member."""
    return f"{path}.{key}" if _NAME.fullmatch(key) else f"{path}[{msgspec.json.encode(key).decode()}]"


def item(path: str, index: int) -> str:
    """The path of an array's item."""
    return f"{path}[{index}]"


def quote(text: str) -> str:
    """A text as a message shows it: quoted, on one line, cut when it is long."""
    shown = text if len(text) <= _QUOTED else text[: _QUOTED - 3] + "..."
    return msgspec.json.encode(shown).decode()


def as_object(value: object) -> dict[str, Any] | None:
    """The value if it is a JSON object, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_array(value: object) -> list[Any] | None:
    """The value if it is a JSON array, else None."""
    return cast("list[Any]", value) if isinstance(value, list) else None


def as_integer(value: object) -> int | None:
    """The value if JSON sees a whole number in it, else None: 1.0 is one, true is not."""
    if type(value) is float and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def as_minutes(value: object) -> int | None:
    """The minutes after midnight of a time `HH:MM` from 00:00 to 23:59, or None if the value is no such text."""
    match = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) * 60 + int(match[2]) if match else None


def clock(minutes: int) -> str:
    """Minutes after midnight as `HH:MM`; those of the next day begin at 00:00 again."""
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"


def same(left: object, right: object) -> bool:
    """Whether two JSON values are equal: order of members aside, 1 equals 1.0, and true does not equal 1."""
    pairs: list[tuple[object, object]] = [(left, right)]
    while pairs:
        one, two = pairs.pop()
        one_object, two_object = as_object(one), as_object(two)
        one_array, two_array = as_array(one), as_array(two)
        if one_object is not None and two_object is not None:
            if one_object.keys() != two_object.keys():
                return False
            pairs.extend((one_object[name], two_object[name]) for name in one_object)
        elif one_array is not None and two_array is not None:
            if len(one_array) != len(two_array):
                return False
            pairs.extend(zip(one_array, two_array, strict=True))
        elif isinstance(one, bool) is not isinstance(two, bool) or one != two:
            return False
    return True


def find_fault(root: object, limit: int) -> Fault | None:
    """Return the first reason why `root` is no JSON value of at most `limit` bytes, or None.

    It never recurses, and it stops once what it has seen must cost more than `limit` bytes, so that no value of any
    depth, width or shape, shared or cyclic, can hold it up. The exact size is left to the caller, who can encode what
    passed here.
    """
    waiting: list[tuple[object, _Link, int]] = [(root, None, 0)]
    least = 0
    while waiting:
        value, link, depth = waiting.pop()
        least += _least_bytes(value)
        if least > limit:
            return Fault("size", "$", f"more than {limit} bytes; say less")
        problem = _problem(value)
        if problem is not None:
            return Fault("json", _render(link), problem)
        children = _children(value)
        if children and depth == DEPTH:
            return Fault("json", _render(link), f"nested deeper than {DEPTH} levels")
        waiting.extend((child, (link, key), depth + 1) for key, child in reversed(children))
    return None


_Link = tuple["_Link", "str | int"] | None
"""A path while it is walked: rendering one for each value would cost the length of its keys each time."""


def _render(link: _Link) -> str:
    keys: list[str | int] = []
    while link is not None:
        link, key = link
        keys.append(key)
    path = "$"
    for key in reversed(keys):
        path = item(path, key) if isinstance(key, int) else member(path, key)
    return path


def _children(value: object) -> list[tuple[str | int, object]]:
    pairs = as_object(value)
    if pairs is not None:
        return list(pairs.items())
    return list(enumerate(as_array(value) or ()))


def _least_bytes(value: object) -> int:
    """The bytes that this value takes at least, with the commas but not the values inside of it."""
    if isinstance(value, str):
        return len(value)
    pairs = as_object(value)
    if pairs is not None:
        return sum(len(name) + 1 for name in pairs if type(name) is str)
    return len(as_array(value) or (None,))


def _problem(value: object) -> str | None:
    """Why JSON cannot hold this value itself; what stands inside of it is looked at later."""
    if type(value) not in _TYPES:
        return f"JSON has no value of the Python type {type(value).__name__}"
    if isinstance(value, str) and not _is_text(value):
        return "this text has half of a surrogate pair, which UTF-8 cannot hold"
    if isinstance(value, dict) and not all(_is_text(name) for name in cast("dict[object, object]", value)):
        return "the name of a member is no text that UTF-8 can hold"
    if isinstance(value, int) and value.bit_length() > _BIGGEST_BITS:
        return "this number is too big"
    if isinstance(value, float) and not math.isfinite(value):
        return "JSON has no such number: NaN and infinities cannot be sent"
    return None


def _is_text(value: object) -> bool:
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
