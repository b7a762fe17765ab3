"""Tools whose parameters are repeated in headers: the marks in their schemas, and what is refused at registration."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal, TypedDict

import pydantic
import pytest
from msgspec import Meta, Struct

from jackfield import RegistrationError, Server
from jackfield.protocol.headers import Mark
from jackfield.protocol.types import Tool
from jackfield.server.tools import ToolEntry
from jackfield.server.typeschema import Header
from tests.server.talk import talking, text_of


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Span(Struct):
    low: Annotated[int, Header("Low")]
    high: int | None = None


@dataclasses.dataclass
class Place:
    span: Span
    zone: Annotated[str | None, Header("Zone")] = None


class Typed(TypedDict):
    region: Annotated[str, Header("Region")]


class Model(pydantic.BaseModel):
    region: Annotated[str, Header("Region")]
    color: Annotated[Color | None, Header("Color")] = None


class Tree(Struct):
    region: Annotated[str, Header("Region")]
    branches: list[Tree] = []


def entry(fn: Any, **options: Any) -> ToolEntry:
    return ToolEntry(fn, Tool("route", {}), strict=False, **options)


def refused(fn: Any, **options: Any) -> str:
    with pytest.raises(RegistrationError) as caught:
        entry(fn, **options)
    return str(caught.value)


def plain(region: str) -> str:
    return region


def region(region: Annotated[str, Header("Region")]) -> str:
    return region


class TestMarks:
    def test_a_header_marks_its_parameter(self) -> None:
        """The note is a keyword beside the type, and the tool knows its marks (XH-1)."""

        def route(
            region: Annotated[str, Header("Region"), Meta(description="where")],
            count: Annotated[int, Meta(ge=1), Header("Count")] = 1,
            dry: Annotated[bool, Header("Dry")] = False,
            other: str = "",
        ) -> None: ...

        tool = entry(route)

        assert tool.definition.input_schema["properties"] == {
            "region": {"type": "string", "description": "where", "x-mcp-header": "Region"},
            "count": {"type": "integer", "minimum": 1, "default": 1, "x-mcp-header": "Count"},
            "dry": {"type": "boolean", "default": False, "x-mcp-header": "Dry"},
            "other": {"type": "string", "default": ""},
        }
        assert tool.marks == (
            Mark("Region", ("region",), "string"),
            Mark("Count", ("count",), "integer"),
            Mark("Dry", ("dry",), "boolean"),
        )

    def test_no_header_no_mark(self) -> None:
        """Other tools have none."""
        assert entry(plain).marks == ()

    def test_one_type_is_listed_beside_the_mark(self) -> None:
        """No null, and no reference to an Enum: clients that ask for a plain type there drop the tool else (XH-1)."""

        def route(
            a: Annotated[str | None, Header("A")] = None,
            b: Annotated[int, Header("B")] = None,  # noqa: RUF013
            c: Annotated[Color, Header("C")] = Color.RED,
            d: Annotated[Literal["x", "y"] | None, Header("D")] = "x",
        ) -> None: ...

        schema = entry(route).definition.input_schema

        assert schema["properties"] == {
            "a": {"type": "string", "x-mcp-header": "A"},
            "b": {"type": "integer", "x-mcp-header": "B"},
            "c": {"title": "Color", "type": "string", "enum": ["blue", "red"], "default": "red", "x-mcp-header": "C"},
            "d": {"type": "string", "enum": ["x", "y"], "default": "x", "x-mcp-header": "D"},
        }
        assert schema.keys() == {"type", "properties"}

    async def test_null_is_taken_where_it_is_not_listed(self) -> None:
        """A null for such a parameter is its default, and no fault is told of it beside another one (F50)."""
        server = Server("s")

        @server.tool
        def route(count: int, region: Annotated[str | None, Header("Region")] = None) -> str:
            return f"{count} {region}"

        async with talking(server) as talk:
            assert text_of(await talk.call("route", {"count": 1, "region": None})) == "1 None"
            told = text_of(await talk.call("route", {"count": "x", "region": None}))
        assert "$.count" in told
        assert "region" not in told

    def test_fields_of_classes(self) -> None:
        """Marks in a parameter's class are reached through `properties` alone: no `$ref` stands on the way (XH-2)."""

        def route(place: Place) -> None: ...

        tool = entry(route)

        place = tool.definition.input_schema["properties"]["place"]
        assert place["properties"]["zone"] == {"type": "string", "x-mcp-header": "Zone"}
        assert place["properties"]["span"]["properties"]["low"] == {"type": "integer", "x-mcp-header": "Low"}
        assert "$defs" not in tool.definition.input_schema
        assert set(tool.marks) == {
            Mark("Zone", ("place", "zone"), "string"),
            Mark("Low", ("place", "span", "low"), "integer"),
        }

    @pytest.mark.parametrize("kind", [Typed, Model])
    def test_other_kinds_of_classes(self, kind: Any) -> None:
        """TypedDicts and pydantic models carry marks too (XH-2)."""

        def route(value: Any) -> None: ...

        route.__annotations__["value"] = kind

        assert Mark("Region", ("value", "region"), "string") in entry(route).marks

    def test_pydantic_notes_beside_it(self) -> None:
        """What pydantic makes of a parameter keeps its mark, whichever way it is written."""

        def route(
            a: Annotated[str, Header("A"), pydantic.BeforeValidator(str)],
            b: Annotated[str, Header("B")] = pydantic.Field(default="x", max_length=3),
            c: str = pydantic.Field(default="x", json_schema_extra={"x-mcp-header": "C"}),
        ) -> None: ...

        assert [mark.name for mark in entry(route).marks] == ["A", "B", "C"]

    async def test_calls_are_as_ever_without_http(self) -> None:
        """A marked tool is listed with its marks, and called in a conversation that has no headers (XH-3)."""
        server = Server("s")
        server.tool(region)

        async with talking(server) as talk:
            (tool,) = (await talk.ask("tools/list"))["tools"]
            assert tool["inputSchema"]["properties"]["region"]["x-mcp-header"] == "Region"
            assert text_of(await talk.call("region", {"region": "eu"})) == "eu"

    def test_results_have_no_marks(self) -> None:
        """A class with marks that is returned is described without them."""

        def route() -> Span: ...  # type: ignore[empty-body]

        assert "x-mcp-header" not in str(entry(route).definition.output_schema)

    def test_a_schema_of_ones_own(self) -> None:
        """A given input schema is listed as it is, and its marks count (JS-4, XH-1)."""
        schema = {"type": "object", "properties": {"a": {"type": ["string", "null"], "x-mcp-header": "A"}}}

        def route(arguments: dict[str, Any]) -> None: ...

        tool = entry(route, input_schema=schema)

        assert tool.definition.input_schema is schema
        assert tool.marks == (Mark("A", ("a",), "string"),)


def listed(x: list[Span]) -> None: ...
def optional(x: Span | None = None) -> None: ...
def twice(x: Span, y: list[Span]) -> None: ...
def endless(x: Tree) -> None: ...
def branch(x: Annotated[str, Header("X")] | None = None) -> None: ...
def models(x: list[Model]) -> None: ...
def array(x: Annotated[list[str], Header("X")]) -> None: ...
def fraction(x: Annotated[float, Header("X")]) -> None: ...
def whole(x: Annotated[Span, Header("X")]) -> None: ...
def either(x: Annotated[str | int, Header("X")]) -> None: ...
def anything(x: Annotated[Any, Header("X")]) -> None: ...
def same(x: Annotated[str, Header("X")], y: Annotated[str, Header("x")]) -> None: ...


class TestRefusals:
    @pytest.mark.parametrize(
        ("fn", "place"),
        [
            (listed, "#/$defs/Span/properties/low"),
            (optional, "#/$defs/Span/properties/low"),
            (twice, "#/$defs/Span/properties/low"),
            (endless, "#/$defs/Tree/properties/region"),
            (branch, "#/properties/x/anyOf/0"),
            (models, "#/$defs/Model/properties/region"),
            (array, "#/properties/x"),
            (fraction, "#/properties/x"),
            (whole, "#/properties/x"),
            (either, "#/properties/x"),
            (anything, "#/properties/x"),
            (same, "#/properties/y"),
        ],
    )
    def test_marks_that_clients_would_refuse(self, fn: Any, place: str) -> None:
        """A mark at another place, on another type, or given twice is refused, with tool and place (XH-1, XH-2)."""
        message = refused(fn)

        assert "'route'" in message
        assert f"{place}: " in message

    @pytest.mark.parametrize("name", ["", "My Region", "a:b", "a\r\nX-Evil: 1", "Région", "a\x00", "a\n"])
    def test_names_that_are_no_header(self, name: str) -> None:
        """A name that could break a header is refused (T10)."""

        def route(x: str) -> None: ...

        route.__annotations__["x"] = Annotated[str, Header(name)]

        assert "#/properties/x" in refused(route)

    def test_a_schema_of_ones_own(self) -> None:
        """The marks of a given schema are checked as well (XH-1)."""

        def route(arguments: dict[str, Any]) -> None: ...

        schema = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
        assert "'route'" in refused(route, input_schema=schema)

    def test_a_header_without_a_name(self) -> None:
        """The class alone marks nothing, so it is refused."""

        def route(x: Annotated[str, Header]) -> None: ...

        assert 'Header("Region")' in refused(route)

    def test_prompts_and_resources_have_none(self) -> None:
        """Only a tool's parameters are repeated; elsewhere a Header is refused, not ignored (XH-4)."""
        server = Server("s")

        with pytest.raises(RegistrationError, match="parameters of tools"):
            server.prompt(region)
        with pytest.raises(RegistrationError, match="parameters of tools"):
            server.resource("a://{region}")(region)
