"""Types of every kind: what msgspec takes stays as it is, anything else gets a stand-in with schema and converter."""

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import pathlib
import typing
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Required, TypedDict, TypeVar

import jsonschema_rs
import msgspec
import pytest
from msgspec import Meta, Struct

from jackfield.protocol.errors import RegistrationError
from jackfield.server.schemas import rooted, schemas_of
from jackfield.server.typeschema import TypeMap, unproxy

T = TypeVar("T")


class Cat(Struct):
    name: str
    lives: int = 9


class Tree(Struct):
    value: Annotated[int, Meta(ge=0)]
    kids: list["Tree"] = []


class Dog(Struct):
    name: str
    tricks: list[str] = []


@dataclasses.dataclass
class Files:
    """Some files."""

    root: pathlib.Path
    inner: list["Files"] = dataclasses.field(default_factory=list)
    back: "Mutual | None" = None
    mode: int = 3


@dataclasses.dataclass
class Mutual:
    files: Files | None = None


class Pair(NamedTuple):
    first: int
    path: pathlib.Path = pathlib.Path("here")


class Options(TypedDict, total=False):
    name: Required[str]
    more: NotRequired[object]


class Point:
    """A plain class."""

    def __init__(self, x: int, label: str | None = None) -> None:
        self.x = x
        self.label = label


class Bag:
    size: int
    color: str = "red"


class Mixed(enum.Enum):
    LOW = 1.5
    TEXT = "t"


class Holder(Struct, rename="camel", forbid_unknown_fields=True):
    the_pet: Cat | Dog
    any_thing: object = None


@dataclasses.dataclass
class Box(Generic[T]):
    value: T
    more: list[T] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Optionally:
    path: pathlib.Path
    number: Annotated[int, Meta(examples=[1], ge=0)] = 0


@dataclasses.dataclass
class Marked:
    value: Any = print


Meters = NewType("Meters", int)


def mapped(annotation: Any, *, output: bool = False) -> tuple[Any, dict[str, Any]]:
    """The decoder for values of the annotation, and the schema."""
    types = TypeMap(output=output)
    (taken,) = types.take_all({"it": annotation}).values()
    (schema,), defs = schemas_of(types, [taken])
    whole = rooted(schema, defs)
    jsonschema_rs.meta.validate(whole)
    return msgspec.json.Decoder(taken, dec_hook=unproxy).decode, whole


def agreed(annotation: Any, data: str) -> Any:
    """The decoded value, whose JSON the schema allows too."""
    decode, schema = mapped(annotation)
    value = decode(data)
    assert jsonschema_rs.is_valid(schema, msgspec.json.decode(data)), schema
    return value


@pytest.mark.parametrize(
    ("annotation", "data", "expected"),
    [
        (bytes, '"aGk="', b"hi"),
        (datetime.datetime, '"2026-01-02T03:04:05Z"', datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)),
        (datetime.date, '"2026-01-02"', datetime.date(2026, 1, 2)),
        (datetime.time, '"03:04:05"', datetime.time(3, 4, 5)),
        (datetime.timedelta, '"PT1S"', datetime.timedelta(seconds=1)),
        (uuid.UUID, '"12345678-1234-5678-1234-567812345678"', uuid.UUID("12345678123456781234567812345678")),
        (decimal.Decimal, '"1.50"', decimal.Decimal("1.50")),
        (set[int], "[1, 2]", {1, 2}),
        (frozenset[str], '["a"]', frozenset({"a"})),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (dict[int, str], '{"1": "a"}', {1: "a"}),
        (collections.abc.Sequence[int], "[1]", [1]),
        (collections.abc.Iterable[int], "[1]", [1]),
        (collections.abc.Mapping[str, int], '{"a": 1}', {"a": 1}),
        (typing.List[int], "[1]", [1]),  # noqa: UP006
        (list, '[1, "a"]', [1, "a"]),
        (Meters, "3", 3),
        (Literal["a", 1, True, None], "true", True),
        (Options, '{"name": "x", "more": [1]}', {"name": "x", "more": [1]}),
        (Box[int], '{"value": 1, "more": [2]}', Box(1, [2])),
        (Annotated[int, "text", object()], "1", 1),
        (dict[str, object], '{"a": [1, null]}', {"a": [1, None]}),
        (pathlib.Path, '"a/b"', pathlib.Path("a/b")),
        (pathlib.PurePosixPath | None, '"a/b"', pathlib.PurePosixPath("a/b")),
        (list[pathlib.Path | str], '["a"]', [pathlib.Path("a")]),
        (Mixed, "1.5", Mixed.LOW),
        (Mixed | None, '"t"', Mixed.TEXT),
        (Literal[Mixed.LOW, "x"], "1.5", Mixed.LOW),
        (datetime.datetime | str, '"soon"', "soon"),
        (str | datetime.datetime, '"2026-01-02T03:04:05Z"', "2026-01-02T03:04:05Z"),
        (dict[str, int] | Cat, '{"name": "a"}', Cat("a")),
        (list[int] | tuple[str, str], '["a", "b"]', ("a", "b")),
        (Pair, '[1, "p"]', Pair(1, pathlib.Path("p"))),
        (Pair, "[1]", Pair(1)),
        (dict[pathlib.Path, int], '{"a": 1}', {pathlib.Path("a"): 1}),
        (Holder, '{"thePet": {"name": "a", "tricks": ["sit"]}}', Holder(Dog("a", ["sit"]))),
    ],
)
def test_types_decode_as_their_schema_says(annotation: Any, data: str, expected: Any):
    """Each supported type decodes a value that its schema allows, to the type the function asks for."""
    value = agreed(annotation, data)
    assert (value, type(value)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("annotation", "data"),
    [
        (pathlib.Path, "1"),
        (Mixed, "2.5"),
        (Mixed, "true"),
        (Cat | Dog, '{"lives": 1}'),
        (Cat | Dog, "[]"),
        (Cat | Dog | None, "1"),
        (datetime.date | uuid.UUID, '"x"'),
        (Files, '{"root": "a", "inner": [{"root": 1}]}'),
        (Pair, '[1, "p", 2]'),
        (Holder, '{"thePet": {"name": "a"}, "other": 1}'),
        (Point, "{}"),
        (Options, "{}"),
    ],
)
def test_wrong_values_are_refused(annotation: Any, data: str):
    """A value that fits no part of a type is an error that msgspec reports."""
    decode, _ = mapped(annotation)
    with pytest.raises(msgspec.ValidationError):
        decode(data)


def test_place_of_a_fault_inside_a_stand_in():
    """The error of a value behind a stand-in keeps the place, the innermost first."""
    decode, _ = mapped(list[Files])
    with pytest.raises(msgspec.ValidationError, match=r"at `\$\.root` - at `\$\.inner\[0\]` - at `\$\[0\]`"):
        decode('[{"root": "a", "inner": [{"root": 1}]}]')


def test_native_types_are_not_touched():
    """What msgspec takes by itself, recursion included, gets no stand-in: the decoder stays all C."""
    types = TypeMap()
    annotations = {"a": Tree, "b": list[Cat], "c": Cat | None, "d": dict[str, Any], "e": Annotated[int, Meta(ge=0)]}
    assert types.take_all(annotations) == annotations
    assert not types.proxies


def test_union_of_objects_takes_the_best_fit():
    """Of two classes that both take an object the one that knows more of its fields is meant, else the first."""
    assert agreed(Cat | Dog, '{"name": "a", "tricks": []}') == Dog("a")
    assert agreed(Cat | Dog, '{"name": "a", "lives": 1}') == Cat("a", 1)
    assert agreed(Dog | Cat, '{"name": "a"}') == Dog("a")
    assert agreed(list[Cat | Dog], '[{"name": "a", "tricks": []}]') == [Dog("a")]


def test_recursive_classes_that_need_stand_ins():
    """Classes that name each other get stand-ins together, with shared definitions and their own defaults."""
    data = '{"root": "a", "inner": [{"root": "b"}], "back": {"files": {"root": "c"}}}'
    value = agreed(Files, data)
    assert value == Files(pathlib.Path("a"), [Files(pathlib.Path("b"))], Mutual(Files(pathlib.Path("c"))))
    schema = mapped(Files)[1]
    assert schema["description"] == "Some files."
    assert schema["properties"]["mode"] == {"type": "integer", "default": 3}
    assert schema["properties"]["inner"] == {"type": "array", "items": {"$ref": "#/$defs/Files"}, "default": []}


def test_plain_classes():
    """A class with an annotated constructor, or with annotated attributes alone, is an object."""
    point = agreed(Point, '{"x": 1}')
    assert (type(point), point.x, point.label) == (Point, 1, None)
    bag = agreed(Bag, '{"size": 2}')
    assert (type(bag), bag.size, bag.color) == (Bag, 2, "red")
    assert mapped(Point)[1]["required"] == ["x"]


def test_default_without_json_inside_a_class():
    """A field's default that is no JSON is left out of the schema, and still its default."""
    decode, schema = mapped(Marked)
    assert schema["properties"] == {"value": {}}
    assert decode("{}").value is print


def test_limits_reach_the_member_that_bears_them():
    """A limit on a union holds for the members of its kind."""
    annotation = Annotated[int | float | str | None, Meta(ge=0, description="d"), Meta(max_length=1)]
    decode, schema = mapped(annotation)
    assert schema["description"] == "d"
    assert [decode("0"), decode("0.5"), decode('"a"'), decode("null")] == [0, 0.5, "a", None]
    for data in ("-1", "-0.5", '"ab"'):
        with pytest.raises(msgspec.ValidationError):
            decode(data)


def test_notes_without_a_hash_in_a_union():
    """Notes that cannot be hashed, such as examples, do not keep a union from being built."""
    noted = Annotated[int, Meta(examples=[1], ge=0)]
    schema = mapped(noted)[1]
    assert (schema["examples"], schema["minimum"]) == ([1], 0)
    decode, schema = mapped(Optionally)
    assert schema["properties"]["number"]["minimum"] == 0
    assert decode('{"path": "x"}').path == pathlib.Path("x")


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (complex, "complex cannot be made of JSON"),
        (collections.abc.Callable[[int], int], "cannot be made of JSON"),
        (type, "cannot be made of JSON"),
        (dict[tuple[int, int], str], "keys of a JSON object are text"),
        (dict[Cat, str], "keys of a JSON object are text"),
        (Annotated[int, Meta(le=2**70)], "64 bits"),
        (Annotated[str, Meta(ge=1)], "numeric"),
        (Annotated[int | None, Meta(pattern="a")], "pattern"),
        (Box[pathlib.Path], "generic"),
        (5, "cannot be made of JSON"),
    ],
)
def test_unsupported_types_are_named(annotation: Any, said: str):
    """What has no JSON form is refused at registration, with the label and the reason."""
    with pytest.raises(RegistrationError, match=f"^it: .*{said}"):
        mapped(annotation)


def test_fault_deep_inside_is_refused_too():
    """A type that msgspec refuses is found inside containers, classes and unions."""

    @dataclasses.dataclass
    class Outer:
        inner: list[complex | None]

    for annotation in (Outer, list[Outer], Outer | Cat, dict[str, Outer]):
        with pytest.raises(RegistrationError, match="it: complex"):
            mapped(annotation)
