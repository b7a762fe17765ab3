"""Python values as JSON: what can be shown, and what must not be."""

import enum
import pathlib
from typing import Any

import msgspec
import pytest

from jackfield.server.encoding import NO_CLASSES, json_value, require_finite, show_by
from jackfield.server.records import fields_of
from jackfield.server.signature import EMPTY


class Plain:
    def __init__(self, size: int) -> None:
        self.size = size
        self.password = "p"


class More(Plain):
    pass


class Level(enum.Enum):
    LOW = "low"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Level.LOW, "low"),
        (b"hi", "aGk="),
        ((1, {"a": None}), [1, {"a": None}]),
        (10**30, 10**30),
        (pathlib.PurePosixPath("a"), "a"),
        (object(), EMPTY),
        (float("inf"), EMPTY),
        ({"a": [float("nan")]}, EMPTY),
        ("\ud800", EMPTY),
        (print, EMPTY),
        (msgspec.UNSET, EMPTY),
    ],
)
def test_json_value(value: Any, shown: Any):
    """A value as JSON for a schema, or EMPTY where it is none (F51)."""
    assert json_value(value) == shown


def test_only_named_classes_are_shown():
    """A plain object is shown only where its class, or a base of it, was named; never by accident."""
    show = show_by({Plain: fields_of(Plain)})
    assert show(Plain(1)) == show(More(1)) == {"size": 1}
    with pytest.raises(TypeError, match="type Plain cannot be made JSON"):
        show_by(NO_CLASSES)(Plain(1))


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": {"b": (1, -float("inf"))}}, {1: float("nan")}])
def test_no_number_without_end(value: Any):
    """NaN and infinities are found at any depth (F57)."""
    with pytest.raises(ValueError, match="NaN"):
        require_finite(value, show_by(NO_CLASSES))
    require_finite([1.5, None, "nan", {"a": 1e308}], show_by(NO_CLASSES))
