"""Forms of Python types: their schemas, and the values that come of what was filled in (ELC-2 to ELC-6)."""

import dataclasses
import datetime
import enum
import json
import uuid
from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Required, TypedDict

import pydantic
import pytest
from msgspec import UNSET, Meta, Struct, UnsetType
from pydantic import AnyUrl, BaseModel, Field, PositiveInt, SecretStr

from jackfield.protocol.errors import RegistrationError
from jackfield.server.forms import Format, Titles, form_of


class Color(enum.Enum):
    """What it looks like."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Booking:
    name: Annotated[str, Meta(min_length=1, title="Name", description="Yours.")]
    day: datetime.date
    guests: Annotated[int, Meta(ge=1, le=9)] = 2
    color: Color = Color.BLUE
    note: str | None = None
    sides: set[Literal["salad", "chips"]] = dataclasses.field(default_factory=lambda: {"salad", "chips"})


class Size(NamedTuple):
    width: float
    unit: str = "cm"


class Partial(TypedDict, total=False):
    a: Required[int | None]
    b: str


class Stored(TypedDict):
    a: str
    b: NotRequired[bool]


class Person(Struct, rename="camel", forbid_unknown_fields=True, tag=True):
    first_name: str
    age: Annotated[float, Meta(ge=0)] | UnsetType = UNSET


class Row(Struct, array_like=True):
    a: int
    b: int = 1


class Plain:
    def __init__(self, a: str, b: int = 3) -> None:
        self.a, self.b = a, b


class Bare:
    a: str
    b: int = 3


class Model(BaseModel):
    name: str = Field(min_length=2, description="Yours.")
    url: AnyUrl
    count: PositiveInt | None
    color: Color = Color.RED
    only: Literal["z"] = "z"
    pick: Annotated[Literal["a", "b"], Titles({"a": "A"})] = Field("b", alias="choice")
    sides: set[Literal["s", "t", "u"]] = {"u", "s", "t"}
    mail: Annotated[str, Format("email")] | None = None
    when: datetime.datetime | None = None


@pydantic.dataclasses.dataclass
class Checked:
    a: int
    b: Annotated[str, Format("uri")] = "https://example.com"


def schema_of(kind: Any) -> dict[str, Any]:
    """The schema of the only field of a single type."""
    return form_of(kind).schema["properties"]["value"]


def refused(kind: Any) -> str:
    with pytest.raises(RegistrationError) as caught:
        form_of(kind)
    return str(caught.value)


class TestSchema:
    def test_a_class(self) -> None:
        """A class is a form of its fields, in their order, with bounds, titles, options and defaults (ELC-2..ELC-4)."""
        assert form_of(Booking).schema == {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Name", "description": "Yours.", "minLength": 1},
                "day": {"type": "string", "format": "date"},
                "guests": {"type": "integer", "minimum": 1, "maximum": 9, "default": 2},
                "color": {
                    "type": "string",
                    "description": "What it looks like.",
                    "enum": ["red", "blue"],
                    "default": "blue",
                },
                "note": {"type": "string"},
                "sides": {"type": "array", "items": {"type": "string", "enum": ["salad", "chips"]}},
            },
            "required": ["name", "day"],
        }

    @pytest.mark.parametrize(
        ("kind", "names", "required"),
        [
            (Size, ["width", "unit"], ["width"]),
            (Partial, ["a", "b"], None),
            (Stored, ["a", "b"], ["a"]),
            (Person, ["firstName", "age"], ["firstName"]),
            (Row, ["a", "b"], ["a"]),
            (Plain, ["a", "b"], ["a"]),
            (Bare, ["a", "b"], ["a"]),
            (Checked, ["a", "b"], ["a"]),
            (
                Model,
                ["name", "url", "count", "color", "only", "choice", "sides", "mail", "when"],
                ["name", "url"],
            ),
        ],
    )
    def test_every_kind_of_class(self, kind: Any, names: list[str], required: list[str] | None) -> None:
        """All kinds of class with fields are forms; what may be None or has a default is not needed (ELC-2)."""
        schema = form_of(kind).schema
        assert list(schema["properties"]) == names
        assert schema.get("required") == required

    def test_a_pydantic_model(self) -> None:
        """A model's own schema is put into the words of forms: aliases, bounds, marks, sets, null (ELC-2, ELC-3)."""
        fields = form_of(Model).schema["properties"]
        assert fields["name"] == {"type": "string", "title": "Name", "description": "Yours.", "minLength": 2}
        assert fields["url"]["format"] == "uri"
        assert fields["count"] == {"type": "integer", "title": "Count", "minimum": 1}
        assert fields["color"]["enum"] == ["red", "blue"]
        assert fields["only"]["enum"] == ["z"]
        assert fields["choice"]["oneOf"] == [{"const": "a", "title": "A"}, {"const": "b", "title": "b"}]
        assert fields["sides"]["default"] == ["s", "t", "u"]
        assert fields["mail"]["format"] == "email"
        assert fields["when"] == {"type": "string", "format": "date-time", "title": "When"}
        assert form_of(Checked).schema["properties"]["b"]["format"] == "uri"

    @pytest.mark.parametrize(
        ("kind", "schema"),
        [
            (str, {"type": "string"}),
            (int, {"type": "integer"}),
            (float, {"type": "number"}),
            (bool, {"type": "boolean"}),
            (datetime.date, {"type": "string", "format": "date"}),
            (datetime.datetime, {"type": "string", "format": "date-time"}),
            (Annotated[datetime.datetime, Meta(tz=True)], {"type": "string", "format": "date-time"}),
            (AnyUrl, {"type": "string", "format": "uri", "minLength": 1}),
            (Annotated[str, Format("email")], {"type": "string", "format": "email"}),
            (Annotated[str, Format("date")] | None, {"type": "string", "format": "date"}),
            (Annotated[str, "Your name."], {"type": "string", "description": "Your name."}),
            (NewType("Name", Annotated[str, Format("uri")]), {"type": "string", "format": "uri"}),
            (Annotated[int, Meta(gt=0, lt=9)], {"type": "integer", "minimum": 1, "maximum": 8}),
            (Annotated[str, Meta(examples=["x"], max_length=3)], {"type": "string", "maxLength": 3}),
            (Literal["b", "a"], {"type": "string", "enum": ["b", "a"]}),
            (Literal["b", None, "a"], {"type": "string", "enum": ["b", "a"]}),
            (Color, {"type": "string", "enum": ["red", "blue"], "description": "What it looks like."}),
            (
                Annotated[Literal["d", "c"], Titles({"c": "C"})],
                {"type": "string", "oneOf": [{"const": "d", "title": "d"}, {"const": "c", "title": "C"}]},
            ),
            (
                Annotated[list[Literal["y", "x"]], Meta(extra_json_schema={"default": ["x"]})],
                {"type": "array", "items": {"type": "string", "enum": ["y", "x"]}, "default": ["x"]},
            ),
            (list[Literal["b", "a"]], {"type": "array", "items": {"type": "string", "enum": ["b", "a"]}}),
            (Sequence[Color], {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}),
            (
                Annotated[list[Color], Titles({Color.BLUE: "Sky"}), Meta(min_length=1, max_length=2)],
                {
                    "type": "array",
                    "items": {"anyOf": [{"const": "red", "title": "red"}, {"const": "blue", "title": "Sky"}]},
                    "minItems": 1,
                    "maxItems": 2,
                },
            ),
            (
                frozenset[Annotated[Literal["a"], Titles({"a": "A"})]],
                {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
            ),
        ],
    )
    def test_single_values(self, kind: Any, schema: dict[str, Any]) -> None:
        """One value is a form of the one field `value`; four of the five shapes of choice come of types (ELC-3)."""
        assert schema_of(kind) == schema

    def test_a_schema_as_it_is(self) -> None:
        """A dict is the form itself, with the old titled choice that no type gives (ELC-3)."""
        schema = {"type": "object", "properties": {"x": {"type": "string", "enum": ["a"], "enumNames": ["A"]}}}
        form = form_of(schema)
        assert form.schema == schema
        schema["properties"]["x"]["enum"].append("b")
        assert form.schema["properties"]["x"]["enum"] == ["a"]

    def test_a_form_is_made_once(self) -> None:
        """The same type gives the same form; the same options in another order are another form."""
        assert form_of(Booking) is form_of(Booking)
        assert schema_of(Literal["a", "b"])["enum"] == ["a", "b"]
        assert schema_of(Literal["b", "a"])["enum"] == ["b", "a"]
        noted = Annotated[str, Meta(extra_json_schema={"title": "T"})]
        assert schema_of(noted) == {"type": "string", "title": "T"}

    def test_an_empty_class(self) -> None:
        """A form without fields asks for a yes alone."""
        kind = dataclasses.make_dataclass("Sure", [])
        assert form_of(kind).schema == {"type": "object", "properties": {}}
        assert form_of(kind).read({"x": 1}) == kind()


class TestRefused:
    @pytest.mark.parametrize(
        ("kind", "fault"),
        [
            (list[str], "field 'value': an array is a choice of several"),
            (list[Booking], "an array is a choice of several"),
            (Level, "the options of a form are texts"),
            (Literal[1, 2], "the options of a form are texts"),
            (Literal["a", True], "field 'value'"),
            (dict[str, int], "a form is flat"),
            (Booking | None, "a form is flat"),
            (Any, "each field of one kind"),
            (int | str, "each field of one kind"),
            (uuid.UUID, "`format` is one of email, uri, date, date-time"),
            (datetime.time, "a form has no time of day"),
            (bytes, "a string has no `contentEncoding`"),
            (tuple[int, str], "has no `prefixItems`"),
            (complex, "cannot be made of JSON"),
            (Annotated[str, Meta(pattern="a")], "a string has no `pattern`"),
            (Annotated[float, Meta(gt=0)], "only maximum, minimum"),
            (Annotated[int, Format("date")], "a number has no `format`"),
            (Annotated[datetime.datetime, Meta(tz=False)], "take tz=False away"),
            (Annotated[bool, Titles({"a": "A"})], "Titles has one for 'a'"),
            (Annotated[list[int], Titles({"a": "A"})], "Titles has one for 'a'"),
            (Annotated[Color, Titles({"green": "Green"})], "Titles has one for 'green', which is no choice of it"),
            ({"type": "object"}, "form: a form has its fields in `properties`"),
        ],
    )
    def test_types_that_no_form_can_hold(self, kind: Any, fault: str) -> None:
        """A type beyond the words of forms is an error before anyone is asked, with what is wrong (ELC-2, ELC-3)."""
        assert fault in refused(kind)

    def test_the_field_is_named(self) -> None:
        """The class and the field are told, whoever finds the fault."""
        for annotation, default in ((complex, ...), (dict[str, str], ...), (Annotated[int, Meta(ge=0)], -1)):
            fields: list[Any] = [("ok", str), ("bad", annotation) if default is ... else ("bad", annotation, default)]
            assert refused(dataclasses.make_dataclass("Trip", fields)).startswith("Trip: field 'bad': ")
        model = pydantic.create_model("Trip", bad=(Booking, ...))
        assert refused(model).startswith("Trip: field 'bad': ")
        unknown = type("Trip", (), {"__annotations__": {"bad": "Nowhere"}})
        assert refused(unknown).startswith("Trip: its fields cannot be read: ")

    @pytest.mark.parametrize(
        "kind",
        [
            dataclasses.make_dataclass("Login", [("name", str), ("password", str)]),
            pydantic.create_model("Login", password=(str, ...)),
            pydantic.create_model("Login", x=(SecretStr, ...)),
            Annotated[str, Meta(title="Your API key")],
            {"type": "object", "properties": {"pin": {"type": "integer"}}},
        ],
    )
    def test_secrets(self, kind: Any) -> None:
        """A form that asks for a secret is refused, and the page named instead (ELC-6, P12)."""
        assert "asks for a secret" in (text := refused(kind))
        assert "ElicitURL" in text

    def test_notes_that_are_wrong(self) -> None:
        """A note that no form could follow is refused where it is written."""
        with pytest.raises(RegistrationError, match=r"Format\('uuid'\): a form knows email, uri, date, date-time"):
            Format("uuid")
        with pytest.raises(RegistrationError, match="choices are texts"):
            Titles({1: "One"})

    def test_titles_compare_by_what_they_say(self) -> None:
        """Notes with the same titles are equal, so that unions of the types around them work."""
        assert Titles({Color.RED: "x"}) == Titles({"red": "x"}) != Titles({"red": "y"})
        assert hash(Titles({"a": "b"})) == hash(Titles({"a": "b"}))
        assert repr(Titles({"a": "b"})) == "Titles({'a': 'b'})"


class TestRead:
    @pytest.mark.parametrize(
        ("kind", "content", "value"),
        [
            (
                Booking,
                {"name": "x", "day": "2026-07-28", "guests": 3.0, "color": "red", "sides": ["chips"], "other": 1},
                Booking("x", datetime.date(2026, 7, 28), 3, Color.RED, None, {"chips"}),
            ),
            (Booking, {"name": "x", "day": "2026-07-28"}, Booking("x", datetime.date(2026, 7, 28))),
            (Booking, {"name": "x", "day": "2026-07-28", "note": None}, Booking("x", datetime.date(2026, 7, 28))),
            (Size, {"width": 3}, Size(3.0)),
            (Partial, {}, {"a": None}),
            (Partial, {"a": 1, "b": "x"}, {"a": 1, "b": "x"}),
            (Stored, {"a": "x"}, {"a": "x"}),
            (Person, {"firstName": "x", "type": "y"}, Person("x")),
            (Person, {"firstName": "x", "age": 3}, Person("x", 3.0)),
            (Row, {"a": 1}, Row(1, 1)),
            (Checked, {"a": 2.0}, Checked(2)),
            (str, {"value": "x"}, "x"),
            (int, {"value": 3.0}, 3),
            (int, {"value": 2**70}, 2**70),
            (float, {"value": 2**70}, 2.0**70),
            (bool, {"value": False}, False),
            (str | None, {}, None),
            (str | None, {"value": None}, None),
            (Color, {"value": "red"}, Color.RED),
            (list[Color], {"value": ["red"]}, [Color.RED]),
            (list[Color], {"value": []}, []),
            (AnyUrl, {"value": "https://example.com/"}, AnyUrl("https://example.com/")),
            (
                datetime.datetime,
                {"value": "2026-07-28T09:30:00Z"},
                datetime.datetime(2026, 7, 28, 9, 30, tzinfo=datetime.UTC),
            ),
        ],
    )
    def test_values(self, kind: Any, content: dict[str, Any], value: Any) -> None:
        """What was filled in is the value of the type; absent or null fields take what the type has (ELC-5)."""
        given = json.loads(json.dumps(content))
        got = form_of(kind).read(content)
        assert got == value
        assert type(got) is type(value)
        assert content == given

    def test_plain_classes(self) -> None:
        """Classes without comparison are made as well, by their own constructor or by their fields."""
        assert vars(form_of(Plain).read({"a": "x"})) == {"a": "x", "b": 3}
        assert vars(form_of(Bare).read({"a": "x", "b": 4})) == {"a": "x", "b": 4}

    def test_a_model(self) -> None:
        """A pydantic model is made by pydantic, with None where a field without default was left empty."""
        model = form_of(Model).read({"name": "xx", "url": "https://example.com", "choice": "a", "sides": ["t"]})
        assert (model.count, model.pick, model.sides, model.when) == (None, "a", {"t"}, None)

    def test_a_raw_schema(self) -> None:
        """The answer to a raw schema is a dict of its fields alone, defaults filled in (ELC-4)."""
        form = form_of(
            {"type": "object", "properties": {"x": {"type": "string", "default": "a"}, "n": {"type": "integer"}}}
        )
        assert form.read({"n": 3.0, "other": 1}) == {"x": "a", "n": 3}
        assert type(form.read({"n": 3.0})["n"]) is int

    def test_what_does_not_fit(self) -> None:
        """Every place that does not fit is told; nothing is made of an answer that is wrong (F63, ELC-5)."""
        with pytest.raises(ValueError) as caught:
            form_of(Booking).read({"day": "soon", "guests": 10, "color": "green", "sides": ["x"], "note": 1})
        for place in ("$.name: ", "$.day: ", "$.guests: ", "$.color: ", "$.sides: ", "$.note: "):
            assert place in str(caught.value)
        for content in ([], None, "x"):
            with pytest.raises(ValueError, match=r"^\$: expected object"):
                form_of(Booking).read(content)  # type: ignore[arg-type]

    def test_what_the_type_itself_refuses(self) -> None:
        """A check of the author's own in the class is a fault of the answer, not of the server."""

        @dataclasses.dataclass
        class Trip:
            start: int
            end: int

            def __post_init__(self) -> None:
                if self.end < self.start:
                    raise ValueError("it ends before it starts")

        class Short(BaseModel):
            n: int

            @pydantic.field_validator("n")
            @classmethod
            def odd(cls, n: int) -> int:
                if n % 2 == 0:
                    raise ValueError("must be odd")
                return n

        with pytest.raises(ValueError, match=r"^\$: it ends before it starts"):
            form_of(Trip).read({"start": 2, "end": 1})
        with pytest.raises(ValueError, match=r"^\$\.n: .*must be odd"):
            form_of(Short).read({"n": 2})
