"""pydantic's models and notes as arguments and results, where the user has pydantic loaded."""

import decimal
import json
import os
import subprocess
import sys
from typing import Annotated, Any, Generic, Literal, TypeVar

import annotated_types
import jsonschema_rs
import msgspec
import pydantic
import pytest
from msgspec import Struct
from pydantic import BaseModel, Field

import jackfield
from jackfield.protocol.errors import RegistrationError
from jackfield.server.arguments import Arguments, ArgumentsError, arguments_of, prompt_arguments_of
from jackfield.server.returns import returns_of


class Part(BaseModel):
    size: int = Field(ge=0)


class Model(BaseModel):
    """A model."""

    name: str
    parts: list[Part] = []
    kind: str = Field("plain", alias="modelKind")
    price: decimal.Decimal = decimal.Decimal("1.0")
    inner: "Model | None" = None


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Holder(Struct):
    model: Model


@pydantic.dataclasses.dataclass
class Checked:
    size: Annotated[int, Field(gt=0)]


def shouting(text: str) -> str:
    return text.upper()


def built(annotation: Any) -> Arguments:
    def fn(v: Any) -> None: ...

    fn.__annotations__["v"] = annotation
    return arguments_of(fn, skip=set(), strict=False)


def taken(annotation: Any, value: Any) -> Any:
    """The decoded argument; its JSON fits the listed schema."""
    arguments = built(annotation)
    jsonschema_rs.meta.validate(arguments.schema)
    data = msgspec.json.encode({"v": value})
    assert jsonschema_rs.is_valid(arguments.schema, {"v": value})
    return arguments.decode(data).v


def refused(annotation: Any, value: Any) -> str:
    arguments = built(annotation)
    data = msgspec.json.encode({"v": value})
    with pytest.raises(msgspec.ValidationError) as caught:
        arguments.decode(data)
    with pytest.raises(ArgumentsError) as told:
        arguments.repair(data, caught.value)
    return str(told.value)


def test_models_anywhere():
    """A model is validated by pydantic, at the top, in containers, unions and Structs, by its aliases."""
    assert taken(Model, {"name": "a", "modelKind": "k", "inner": {"name": "b"}}) == Model(
        name="a", modelKind="k", inner=Model(name="b")
    )
    assert taken(list[Part], [{"size": 1}]) == [Part(size=1)]
    assert taken(Model | None, None) is None
    assert taken(Cat | Dog, {"kind": "dog"}) == Dog(kind="dog")
    assert taken(Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cat", "lives": 9}) == Cat(
        kind="cat", lives=9
    )
    assert taken(Holder, {"model": {"name": "a"}}) == Holder(Model(name="a"))
    assert taken(Checked, {"size": 1}) == Checked(1)


def test_model_used_often_stands_once():
    """A model's schema is shared, recursion and siblings kept (F46)."""

    def fn(a: Annotated[Model, Field(description="the a")], b: list[Model], c: Part) -> None: ...

    schema = arguments_of(fn, skip=set(), strict=False).schema
    assert schema["properties"]["a"] == {"$ref": "#/$defs/Model", "description": "the a"}
    assert schema["properties"]["b"]["items"] == {"$ref": "#/$defs/Model"}
    assert set(schema["$defs"]) == {"Model", "Part"}


def test_models_of_one_name_do_not_mix():
    """Two models of the same name each keep their own schema (F46)."""

    def other() -> Any:
        class Part(BaseModel):
            label: str

        return Part

    Other = other()

    def fn(a: Part, b: Any) -> None: ...

    fn.__annotations__["b"] = Other
    arguments = arguments_of(fn, skip=set(), strict=False)
    assert jsonschema_rs.is_valid(arguments.schema, {"a": {"size": 1}, "b": {"label": "x"}})
    assert not jsonschema_rs.is_valid(arguments.schema, {"a": {"label": "x"}, "b": {"label": "x"}})


def test_faults_in_models_have_their_path():
    """A wrong value in a model is named by its path, text is not coerced (F48, F50)."""
    said = refused(Model, {"name": 1, "parts": [{"size": "5"}, {"size": -1}]})
    for path in ("$.v.name", "$.v.parts[0].size", "$.v.parts[1].size"):
        assert path in said


def test_validators_speak_where_the_schema_is_silent():
    """A validator's own message reaches the model, with its place."""

    class Even(BaseModel):
        n: int

        @pydantic.field_validator("n")
        @classmethod
        def even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("n must be even")
            return n

    assert refused(list[Even], [{"n": 2}, {"n": 3}]) == "$.v[1].n: Value error, n must be even"


def test_whole_floats_and_texts_are_mended_in_models():
    """An integral float is an integer inside a model, and a model may come as JSON text (F49)."""
    arguments = built(Model)
    got = arguments.repair(b'{"v": "{\\"name\\": \\"a\\", \\"parts\\": [{\\"size\\": 2.0}]}"}', ValueError())
    assert got.v == Model(name="a", parts=[Part(size=2)])


def test_field_notes_become_limits_and_texts():
    """What `Field` says is shown and enforced, without pydantic at call time (F51)."""

    def fn(
        a: Annotated[int, Field(ge=1, description="the a", examples=[3], json_schema_extra={"x-unit": "m"})],
        b: int | None = Field(None, le=5, title="B"),
        c: list[str] = Field(default_factory=list, max_length=2),
        d: Annotated[str, Field(pattern="^d")] = "d",
        e: str = Field("e", alias="from"),
        f: Annotated[int, annotated_types.Interval(gt=0, lt=9)] = 1,
        g: pydantic.PositiveInt = 1,
        h: Annotated[list[int], Field(default_factory=lambda: [7])] = Field(),
    ) -> None: ...

    arguments = arguments_of(fn, skip=set(), strict=False)
    properties = arguments.schema["properties"]
    assert properties["a"] == {
        "type": "integer", "minimum": 1, "description": "the a", "examples": [3], "x-unit": "m",
    }  # fmt: skip
    assert properties["b"] == {
        "title": "B",
        "anyOf": [{"type": "integer", "maximum": 5}, {"type": "null"}],
        "default": None,
    }
    assert properties["c"] == {"type": "array", "items": {"type": "string"}, "maxItems": 2, "default": []}
    assert properties["f"] == {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9, "default": 1}
    assert "default" not in properties["h"]
    assert arguments.schema["required"] == ["a"]
    first, second = arguments.decode(b'{"a": 1}'), arguments.decode(b'{"a": 1, "from": "x"}')
    first.c.append("y")
    assert msgspec.structs.astuple(second) == (1, None, [], "d", "x", 1, 1, [7])
    for wrong in (b'{"a": 0}', b'{"a": 1, "b": 6}', b'{"a": 1, "d": "x"}', b'{"a": 1, "f": 9}', b'{"a": 1, "g": 0}'):
        with pytest.raises(msgspec.ValidationError):
            arguments.decode(wrong)


def test_field_without_default_is_required():
    """`= Field(...)` with a text alone leaves the parameter required, and names a prompt's argument."""

    def fn(a: str = Field(title="A", description="the a")) -> None: ...

    (listed,) = prompt_arguments_of(fn, skip=set()).listed
    assert (listed.title, listed.description, listed.required) == ("A", "the a", True)


def test_notes_that_only_pydantic_can_honour():
    """A validator or a limit that msgspec does not know goes through pydantic."""
    assert taken(Annotated[str, pydantic.AfterValidator(shouting)], "a") == "A"
    assert taken(Annotated[str, pydantic.StringConstraints(to_lower=True)], "A") == "a"
    assert taken(Annotated[decimal.Decimal, Field(ge=0)], "1.50") == decimal.Decimal("1.50")
    assert str(taken(pydantic.HttpUrl, "http://a.example/")) == "http://a.example/"
    assert "$.v" in refused(Annotated[int, Field(le=2**70)], 2**71)
    assert "$.v" in refused(Annotated[decimal.Decimal, Field(ge=0)], -1)


def test_json_value_is_any_value():
    """pydantic.JsonValue takes whatever JSON there is."""
    assert taken(pydantic.JsonValue, [1, {"a": None}]) == [1, {"a": None}]


def test_what_pydantic_refuses_is_named():
    """A type that pydantic cannot take either is an error that names the parameter."""
    with pytest.raises(RegistrationError, match=r"fn: parameter 'v': .*pydantic refuses it"):
        built(Annotated[complex | Any, pydantic.BeforeValidator(shouting), Field(discriminator="x")])


@pytest.mark.parametrize(
    ("annotation", "value", "shown"),
    [
        (Model, Model(name="a"), {"name": "a", "parts": [], "modelKind": "plain", "price": "1.0", "inner": None}),
        (list[Part], [Part(size=1)], {"result": [{"size": 1}]}),
        (Cat | Dog, Dog(kind="dog"), {"result": {"kind": "dog", "tricks": []}}),
        (Part | None, None, {"result": None}),
        (Checked, Checked(2), {"size": 2}),
        (pydantic.HttpUrl, pydantic.HttpUrl("http://a.example"), {"result": "http://a.example/"}),
    ],
)
def test_results(annotation: Any, value: Any, shown: Any):
    """A returned model is shown by its own serialiser and aliases, as its output schema says (F57)."""

    def fn() -> Any: ...

    fn.__annotations__["return"] = annotation
    returns = returns_of(fn)
    assert returns.schema is not None
    jsonschema_rs.meta.validate(returns.schema)
    sent = msgspec.json.decode(returns.structure(value))
    assert sent == shown
    assert jsonschema_rs.is_valid(returns.schema, sent)


def test_computed_fields_are_in_the_output_schema():
    """The output schema is that of serialising, computed fields included."""

    class Square(BaseModel):
        side: int

        @pydantic.computed_field
        @property
        def area(self) -> int:
            return self.side**2

    def fn() -> Any: ...

    fn.__annotations__["return"] = Square
    returns = returns_of(fn)
    assert returns.schema is not None
    assert set(returns.schema["required"]) == {"side", "area"}
    assert returns.structure(Square(side=3)) == b'{"side":3,"area":9}'


def test_nan_in_a_model_is_no_result():
    """NaN inside a model raises instead of going out as null (F57)."""

    class Measure(BaseModel):
        value: float

    def fn() -> Any: ...

    fn.__annotations__["return"] = list[Measure]
    with pytest.raises(ValueError, match="NaN"):
        returns_of(fn).structure([Measure(value=float("nan"))])


def test_pydantic_is_never_imported():
    """A server whose code does not use pydantic does not load it."""
    code = (
        "import sys, dataclasses\n"
        "from jackfield.server.arguments import arguments_of\n"
        "from jackfield.server.returns import returns_of\n"
        "def add(a: int, b: list[str] | None = None) -> dict[str, int]: ...\n"
        "arguments_of(add, skip=set(), strict=False); returns_of(add)\n"
        "assert not {'pydantic', 'jsonschema_rs', 'annotated_types'} & set(sys.modules)\n"
    )
    path = os.path.dirname(os.path.dirname(jackfield.__file__ or jackfield.__path__[0] + "/x"))
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_names_of_generic_models_are_legal_references() -> None:
    """The brackets in the name of a generic model do not get into `$ref`, where they are not legal (F46)."""
    item = TypeVar("item")

    class Box(pydantic.BaseModel, Generic[item]):
        inside: item

    def two(one: Box[int], other: Box[int]) -> None: ...

    schema = arguments_of(two, skip=set(), strict=False).schema
    assert list(schema["$defs"]) == ["Box_int_"]
    assert json.dumps(schema).count('"#/$defs/Box_int_"') == 2
