"""Classes with fields of every kind, seen alike."""

import dataclasses
from typing import Any, NamedTuple, NotRequired, Required, TypedDict

import msgspec
import pytest
from msgspec import Struct

from jackfield.server.records import attributes, build, fields_of, is_array, is_native
from jackfield.server.signature import EMPTY


class Made(Struct, rename="upper"):
    a: int
    b: int = 1
    c: list[int] = []
    d: int | msgspec.UnsetType = msgspec.UNSET


@dataclasses.dataclass
class Data:
    a: int
    b: int = 1
    c: list[int] = dataclasses.field(default_factory=list)
    d: int = dataclasses.field(default=5, init=False)


class Typed(TypedDict, total=False):
    a: Required[int]
    b: NotRequired[int]


class Tupled(NamedTuple):
    a: int
    b: int = 1


class Constructed:
    def __init__(self, a: int, b: int = 1) -> None:
        self.a = a
        self.b = b


class Attributed:
    a: int
    b: int = 1


class Bare:
    def __init__(self, a, b: int = 1) -> None: ...  # type: ignore[no-untyped-def]


class Open:
    def __init__(self, *a: int) -> None: ...


class Rows(Struct, array_like=True):
    a: int


def told(cls: Any) -> list[tuple[str, str, bool, Any]]:
    return [(field.name, field.wire, field.required, field.default) for field in fields_of(cls)]


def test_fields_of_every_kind():
    """Names, wire names, defaults and which are required, whatever the kind of class."""
    assert told(Made) == [
        ("a", "A", True, EMPTY), ("b", "B", False, 1), ("c", "C", False, []), ("d", "D", False, EMPTY),
    ]  # fmt: skip
    assert told(Data) == [("a", "a", True, EMPTY), ("b", "b", False, 1), ("c", "c", False, [])]
    assert told(Typed) == [("a", "a", True, EMPTY), ("b", "b", False, EMPTY)]
    for cls in (Tupled, Constructed, Attributed):
        assert told(cls) == [("a", "a", True, EMPTY), ("b", "b", False, 1)]


@pytest.mark.parametrize("cls", [Bare, Open, object, complex, type("Empty", (), {})])
def test_classes_without_annotations_have_no_fields(cls: type):
    """A class whose constructor is not annotated throughout, or takes anything, is no record."""
    assert fields_of(cls) == ()


@pytest.mark.parametrize("cls", [Made, Data, Typed, Tupled, Constructed, Attributed])
def test_build(cls: Any):
    """An instance is built from the values by name; what is left out takes the class's default."""
    made = build(cls, {"a": 3})
    assert (made if isinstance(made, dict) else {"a": made.a}) == {"a": 3}
    assert cls is Typed or made.b == 1


def test_kinds():
    """What msgspec handles itself is native; NamedTuples and array-like Structs are arrays."""
    assert [is_native(cls) for cls in (Made, Data, Typed, Tupled, Constructed, int)] == [True] * 4 + [False] * 2
    assert [is_array(cls) for cls in (Made, Tupled, Rows)] == [False, True, True]


def test_attributes():
    """A plain object is shown by its annotated attributes alone; a missing one is an error."""
    made = Constructed(1)
    made.secret = "s"  # type: ignore[attr-defined]
    assert attributes(made, fields_of(Constructed)) == {"a": 1, "b": 1}
    with pytest.raises(TypeError, match="Attributed has no attribute 'a'"):
        attributes(Attributed(), fields_of(Attributed))
