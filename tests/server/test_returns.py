"""Returns: the output schema of an annotation, and JSON that fits it (F57, TOOL-4, TOOL-5)."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import sys
import uuid
from typing import Annotated, Any, NamedTuple, NewType, TypedDict

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from jackfield.protocol.errors import RegistrationError
from jackfield.protocol.types import CallToolResult, TextContent
from jackfield.server.content import Audio, File, Image, ToolResult
from jackfield.server.returns import BadOutput, Returns, returns_of, to_json, to_member


class Point(Struct):
    x: int
    y: float | None = None


class Node(Struct):
    name: str
    kids: list["Node"] = []


class Level(enum.Enum):
    LOW = "low"


class Ratio(enum.Enum):
    HALF = 0.5


@dataclasses.dataclass
class Report:
    """What was found."""

    when: datetime.datetime
    level: Level = Level.LOW


class Totals(TypedDict):
    count: int


class Span(NamedTuple):
    start: int
    end: int = 0


class Plain:
    size: int

    def __init__(self, size: int) -> None:
        self.size = size
        self.secret = "s"


@dataclasses.dataclass
class Holder:
    pet: Point | Report
    where: pathlib.Path


Ids = NewType("Ids", str)


def returns(annotation: Any) -> Returns:
    def fn() -> Any: ...

    fn.__annotations__["return"] = annotation
    return returns_of(fn)


NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("annotation", "value", "shown"),
    [
        (int, 5, 5),
        (int, 2**60, 2**60),
        (int, 10**30, 10**30),
        (bool, True, True),
        (float, 1.5, 1.5),
        (bytes, b"hi", "aGk="),
        (datetime.datetime, NOW, "2026-01-02T03:04:05Z"),
        (datetime.datetime, NOW.replace(tzinfo=None), "2026-01-02T03:04:05"),
        (datetime.date, NOW.date(), "2026-01-02"),
        (datetime.time, datetime.time(3, 4), "03:04:00"),
        (datetime.timedelta, datetime.timedelta(minutes=1), "PT60S"),
        (uuid.UUID, uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (decimal.Decimal, decimal.Decimal("1.50"), "1.50"),
        (pathlib.PurePosixPath, pathlib.PurePosixPath("a/b"), "a/b"),
        (Level, Level.LOW, "low"),
        (Ratio, Ratio.HALF, 0.5),
        (set[int], {3}, [3]),
        (frozenset[str], frozenset("a"), ["a"]),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (list[int], [], []),
        (list[Point], [Point(1)], [{"x": 1, "y": None}]),
        (int | None, None, None),
        (str | int, "a", "a"),
        (Point | None, Point(1, 2.0), {"x": 1, "y": 2.0}),
        (Point | Report, Report(NOW), {"when": "2026-01-02T03:04:05Z", "level": "low"}),
        (Span, Span(1), [1, 0]),
        (list[Any], [{"a": 10**30}], [{"a": 10**30}]),
    ],
)
def test_what_is_no_object_is_wrapped(annotation: Any, value: Any, shown: Any):
    """Every value has one JSON form, which fits the output schema under `result`, every digit kept (F57, TOOL-5)."""
    found = returns(annotation)
    assert found.wrapped
    assert found.schema is not None
    assert found.schema["type"] == "object"
    jsonschema_rs.meta.validate(found.schema)
    data = found.structure(value)
    assert msgspec.json.decode(data) == {"result": shown}
    assert data.startswith(b'{"result":')
    assert jsonschema_rs.is_valid(found.schema, msgspec.json.decode(data))


@pytest.mark.parametrize(
    ("annotation", "value", "shown"),
    [
        (Point, Point(1), {"x": 1, "y": None}),
        (Annotated[Point, Meta(description="p")], Point(1), {"x": 1, "y": None}),
        (Node, Node("a", [Node("b")]), {"name": "a", "kids": [{"name": "b", "kids": []}]}),
        (Report, Report(NOW), {"when": "2026-01-02T03:04:05Z", "level": "low"}),
        (Totals, {"count": 1}, {"count": 1}),
        (dict, {"a": [1]}, {"a": [1]}),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[int, Point], {1: Point(1)}, {"1": {"x": 1, "y": None}}),
        (Plain, Plain(3), {"size": 3}),
        (Holder, Holder(Point(1), pathlib.PurePosixPath("a")), {"pet": {"x": 1, "y": None}, "where": "a"}),
    ],
)
def test_objects_are_their_own_schema(annotation: Any, value: Any, shown: Any):
    """An object goes out unwrapped, its schema at the root without a $ref, recursion kept (TOOL-4)."""
    found = returns(annotation)
    assert not found.wrapped
    assert found.schema is not None
    assert (found.schema["type"], "$ref" in found.schema) == ("object", False)
    jsonschema_rs.meta.validate(found.schema)
    sent = msgspec.json.decode(found.structure(value))
    assert sent == shown
    assert jsonschema_rs.is_valid(found.schema, sent)


@pytest.mark.parametrize(
    "annotation",
    [
        Any, object, None, str, str | None, Ids, Image, Audio, File, TextContent, ToolResult, CallToolResult,
        list[Image], list[str | Image], Image | str, Image | int, tuple[Image, ...], Annotated[str, "text"],
        Annotated[Any, Meta(examples=[1])],
    ],
)  # fmt: skip
def test_text_content_and_anything_have_no_schema(annotation: Any):
    """Text, content, None and Any promise no structured content (TOOL-4)."""
    found = returns(annotation)
    assert (found.schema, found.wrapped) == (None, False)


def test_no_annotation_has_no_schema():
    """A function without a return annotation has no output schema; its dicts can still be shown."""
    found = returns_of(lambda: {"a": 1})
    assert found.schema is None
    assert found.structure({"a": 1}) == b'{"a":1}'


def test_type_without_json_is_refused_at_registration():
    """A return type that cannot be JSON is an error that names the function."""

    def fn() -> complex: ...

    with pytest.raises(RegistrationError, match="fn: the return annotation: complex cannot be made of JSON"):
        returns_of(fn)


BAD = [
    (float, float("nan")),
    (float, float("inf")),
    (Point, Point(1, float("-inf"))),
    (list[float], [1.0, float("nan")]),
    (dict[str, Any], {"a": [{"b": float("nan")}]}),
    (float | None, float("nan")),
    (str | float, float("inf")),
    (Any, {"a": float("nan")}),
    (Any, "\ud800"),
    (Totals, {"count": "\ud800"}),
    (Any, object()),
    (Any, complex(1)),
    (dict, {"a": Plain(1)}),
    (Plain, object.__new__(Plain)),
]


@pytest.mark.parametrize(("annotation", "value"), BAD)
def test_what_cannot_be_shown_fails(annotation: Any, value: Any):
    """NaN, infinities, lone surrogates and foreign objects raise; they never go out as something else (F57)."""
    with pytest.raises((TypeError, ValueError, AttributeError)):
        returns(annotation).structure(value)


def test_sets_have_a_fixed_order():
    """A set is shown in the same order in every process (F57)."""
    words = {f"word {number}" for number in range(20)}
    assert msgspec.json.decode(returns(set[str]).structure(words)) == {"result": sorted(words)}


def test_endless_value_fails():
    """A value that contains itself raises RecursionError."""
    value: list[Any] = []
    value.append(value)
    with pytest.raises(RecursionError):
        returns(list[Any]).structure(value)


def test_null_and_the_word_null_are_fine():
    """Legal nulls, and texts that hold the word, pass the search for NaN."""
    assert returns(Point).structure(Point(1)) == b'{"x":1,"y":null}'
    assert returns(list[str]).structure(["null"]) == b'{"result":["null"]}'
    assert returns(str | None).structure(None) == b"null"
    assert to_json({"a": None, "b": "null", "c": 1.5}) == b'{"a":null,"b":"null","c":1.5}'


@given(
    st.recursive(
        st.none() | st.floats() | st.text(max_size=4), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_output_is_exact_or_an_error(value: Any):
    """Whatever a value holds, its JSON reads back as the same value, or it raises (F57)."""
    try:
        data = to_json(value)
    except ValueError:
        return
    assert msgspec.json.decode(data) == value


@pytest.mark.parametrize("annotation", [int, Point, list[Point]])
def test_structure_is_one_python_step(annotation: Any):
    """Showing a plain typed value runs at most one Python frame."""
    structure = returns(annotation).structure
    value = {int: 1, Point: Point(1, 2.0)}.get(annotation, [Point(1, 2.0)])
    steps: list[str] = []
    sys.setprofile(lambda frame, event, _: steps.append(frame.f_code.co_name) if event == "call" else None)
    try:
        structure(value)
    finally:
        sys.setprofile(None)
    assert len(steps) <= 1


class Movie(TypedDict):
    title: str


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Point, None),
        (Point, [Point(1)]),
        (dict[str, int], None),
        (dict, [1]),
        (Movie, "title"),
        (int, None),
        (list[Point], None),
        (Level, None),
        (int | str, None),
    ],
)
def test_a_value_that_its_annotation_rules_out(annotation: Any, value: Any):
    """None where none is allowed, and no object where one is promised, never become structured content (F54, S06)."""
    with pytest.raises(BadOutput, match="annotation"):
        returns(annotation).structure(value)


@pytest.mark.parametrize("annotation", [int | None, Point | None, Any, list[Any] | None])
def test_none_where_it_is_allowed(annotation: Any):
    """None is a value like others where the annotation has it (F54)."""
    assert b"null" in returns(annotation).structure(None)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def chain(levels: int) -> Node:
    node = Node("x")
    for _ in range(levels):
        node = Node("x", [node])
    return node


def test_what_is_too_deep_for_a_message():
    """A value may have 62 levels, so that its message has no more than the 64 that peers take (F57, T13)."""
    for structure in (to_member, returns(Any).structure):
        assert structure(nested(62))
        with pytest.raises(BadOutput, match="deeper than 62 levels"):
            structure(nested(63))
    assert returns(list[Any]).structure(nested(61))
    with pytest.raises(BadOutput):
        returns(list[Any]).structure(nested(62))
    assert returns(dict).structure({"a": nested(61)})
    with pytest.raises(BadOutput):
        returns(dict).structure({"a": nested(62)})
    assert returns(Node).structure(chain(30))
    with pytest.raises(BadOutput):
        returns(Node).structure(chain(31))
    for text in ("[" * 100, "]" * 100, '\\"[' * 100):
        assert to_member([text, text, *([[]] * 100)]), "brackets in texts, and side by side, are no depth"
        with pytest.raises(BadOutput):
            to_member([text, nested(62)])
    closing: Any = 1
    for _ in range(63):
        closing = ["]", closing]
    with pytest.raises(BadOutput):
        to_member(closing)
