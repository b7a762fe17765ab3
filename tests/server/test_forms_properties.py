"""Forms of generated types: what fits them can be read, and nothing breaks them (ELC-2 to ELC-5)."""

import builtins
import dataclasses
import datetime
import enum
import typing
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from jackfield.protocol.errors import RegistrationError
from jackfield.protocol.forms import check_form, filled, fit_form, problems
from jackfield.protocol.revisions import find
from jackfield.server.forms import Format, Titles, form_of


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


TEXTS = st.sampled_from(["a", "b", "", "abc", "x@example.com", "https://example.com", "2026-07-28"])
ANNOTATIONS: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, TEXTS),
    (Annotated[str, Meta(min_length=1, max_length=3)], st.sampled_from(["a", "abc"])),
    (Annotated[str, Format("email")], st.just("x@example.com")),
    (Annotated[str, Format("uri")], st.just("https://example.com")),
    (int, st.integers()),
    (Annotated[int, Meta(ge=-3, le=3)], st.integers(-3, 3)),
    (float, st.floats(allow_nan=False, allow_infinity=False)),
    (Annotated[float, Meta(ge=0)], st.floats(0, 9)),
    (bool, st.booleans()),
    (datetime.date, st.dates()),
    (datetime.datetime, st.datetimes(timezones=st.just(datetime.UTC))),
    (Color, st.sampled_from(Color)),
    (Literal["a", "b"], st.sampled_from("ab")),
    (Annotated[Literal["a", "b"], Titles({"a": "A"})], st.sampled_from("ab")),
    (list[Color], st.lists(st.sampled_from(Color), unique=True)),
    (set[Literal["a", "b"]], st.sets(st.sampled_from("ab"))),
    (Annotated[set[Literal["a", "b"]], Meta(max_length=1)], st.sets(st.sampled_from("ab"), max_size=1)),
]
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXTS, st.text(max_size=4), st.dates().map(str),
    st.datetimes(timezones=st.timezones()).map(datetime.datetime.isoformat),
    st.lists(st.sampled_from(["a", "b", "red", "c"]), max_size=3),
    st.integers(-4, 4), st.sampled_from(["red", "blue"]), st.just({}),
)  # fmt: skip


@st.composite
def filled_in(draw: st.DrawFn) -> tuple[Any, dict[str, Any]]:
    """A class of some kind with fields of the types that forms have, and a value that fits each field."""
    columns: list[Any] = []
    entered: dict[str, Any] = {}
    for number in range(draw(st.integers(0, 5))):
        annotation, values = draw(st.sampled_from(ANNOTATIONS))
        optional = draw(st.booleans())
        kind = annotation | None if optional else annotation
        column = draw(st.sampled_from(["bare", "default", "none"] if optional else ["bare", "default"]))
        value = draw(values) if column == "default" else None
        columns.append((f"f{number}", kind) if column == "bare" else (f"f{number}", kind, value))
        entered[f"f{number}"] = draw(values)
    return _made(draw(st.sampled_from(["dataclass", "struct", "model", "typeddict"])), columns), entered


def _made(what: str, columns: list[Any]) -> Any:
    if what == "struct":
        held = [(name, kind, *(_fresh(msgspec.field, value) for value in rest)) for name, kind, *rest in columns]
        return msgspec.defstruct("Made", held, kw_only=True)
    if what == "model":
        fields: dict[str, Any] = {name: (kind, *(rest or [...])) for name, kind, *rest in columns}
        return pydantic.create_model("Made", **fields)
    if what == "typeddict":
        return TypedDict("Made", {name: kind for name, kind, *_ in columns})  # type: ignore[operator]
    held = [(name, kind, *(_fresh(dataclasses.field, value) for value in rest)) for name, kind, *rest in columns]
    return dataclasses.make_dataclass("Made", held, kw_only=True)


def _fresh(field: Any, value: Any) -> Any:
    return field(default_factory=lambda: value) if isinstance(value, list | set) else field(default=value)


classes = filled_in().map(lambda made: made[0])


@given(filled_in())
def test_what_is_entered_is_what_is_read(made: tuple[Any, dict[str, Any]]) -> None:
    """What a person can enter of each type fits its form and comes back as the value that was meant (ELC-5)."""
    kind, entered = made
    form = form_of(kind)
    content = msgspec.json.decode(msgspec.json.encode(entered))
    assert problems(form.schema, content) == []
    got = form.read(content)
    values = got if isinstance(got, dict) else {name: getattr(got, name) for name in entered}
    assert values == entered
    assert {name: type(value) for name, value in values.items()} == {
        name: type(value) for name, value in entered.items()
    }


@given(classes, st.dictionaries(st.sampled_from(["f0", "f1", "f2", "f3", "f4", "g"]), VALUES))
def test_what_fits_can_be_read(kind: Any, content: dict[str, Any]) -> None:
    """Content without problems is readable, and what is refused is a ValueError (ELC-5)."""
    form = form_of(kind)
    check_form(form.schema, None)
    if not problems(form.schema, content):
        form.read(content)
        return
    if problems(form.schema, {name: value for name, value in content.items() if value is not None}):
        with pytest.raises(ValueError, match=r"^\$"):
            form.read(content)


@given(classes)
def test_defaults_can_be_read(kind: Any) -> None:
    """A yes without content, its defaults filled in, reads where no needed field lacks one (ELC-4)."""
    form = form_of(kind)
    content = filled(form.schema, {})
    for name in form.schema.get("required", []):
        assert "default" not in form.schema["properties"][name]
    if not form.schema.get("required"):
        assert form.read(content) == form.read({})


@given(classes)
def test_older_revisions(kind: Any) -> None:
    """Each form can be asked on 2025-06-18 too, unless it has a choice of several (ELC-3)."""
    old = find("2025-06-18")
    assert old is not None
    schema = form_of(kind).schema
    if any(field["type"] == "array" for field in schema["properties"].values()):
        with pytest.raises(ValueError, match="no choice of several"):
            fit_form(schema, old)
    else:
        check_form(fit_form(schema, old), old)


@given(st.sampled_from([*vars(builtins).values(), *vars(typing).values(), *vars(datetime).values()]))
def test_types_of_all_sorts(kind: Any) -> None:
    """Whatever is given as a type is a form or a RegistrationError."""
    try:
        form = form_of(kind)
    except RegistrationError:
        return
    check_form(form.schema, None)
