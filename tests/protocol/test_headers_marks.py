"""Marks in input schemas: which are found, and which make a schema invalid."""

from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.headers import Mark, marks_of

Json = dict[str, Any]


def schema_of(**properties: Any) -> Json:
    return {"type": "object", "properties": properties}


def refused_schema(schema: Any) -> str:
    with pytest.raises(ValueError) as caught:
        marks_of(schema)
    assert "x-mcp-header" in str(caught.value)
    return str(caught.value)


REGION = {"type": "string", "x-mcp-header": "Region"}


class TestMarksOf:
    def test_marks_are_found_at_any_depth(self) -> None:
        """Marks stand on properties of the root and of the objects in it, with the way to them (XH-1, XH-2)."""
        schema = schema_of(
            region=REGION,
            plain={"type": "string"},
            place=schema_of(
                zone={"type": "integer", "x-mcp-header": "Z-1"}, deep=schema_of(dry={**REGION, "x-mcp-header": "Dry"})
            ),
        )

        assert marks_of(schema) == (
            Mark("Region", ("region",), "string"),
            Mark("Z-1", ("place", "zone"), "integer"),
            Mark("Dry", ("place", "deep", "dry"), "string"),
        )

    @pytest.mark.parametrize(
        "schema", [{}, schema_of(), schema_of(a=True, b={"type": "string"}), True, {"properties": 5}]
    )
    def test_no_marks(self, schema: Any) -> None:
        """Most schemas have none."""
        assert marks_of(schema) == ()

    @pytest.mark.parametrize(
        "properties",
        [
            {"value": {"type": "string", "x-mcp-header": ""}},
            {"data": {"type": "object", "x-mcp-header": "Data"}},
            {"items": {"type": "array", "items": {"type": "string"}, "x-mcp-header": "Items"}},
            {"nil": {"type": "null", "x-mcp-header": "Nil"}},
            {"field1": REGION, "field2": REGION},
            {"field1": {**REGION, "x-mcp-header": "MyField"}, "field2": {**REGION, "x-mcp-header": "myfield"}},
            {"value": {"type": "string", "x-mcp-header": "My Region"}},
            {"value": {"type": "string", "x-mcp-header": "Region:Primary"}},
            {"value": {"type": "string", "x-mcp-header": "Région"}},
            {"value": {"type": "string", "x-mcp-header": "Region\t1"}},
        ],
        ids="empty object array null same-case other-case space colon non-ascii control".split(),
    )
    def test_the_ten_kinds_of_invalid_marks(self, properties: Json) -> None:
        """Each kind of mark that a client must refuse is refused, with its place and reason (XH-1, XH-3, T10)."""
        assert f"#/properties/{list(properties)[-1]}: " in refused_schema(schema_of(**properties))

    @pytest.mark.parametrize("name", [None, 5, ["a"], {}, True, "a\r\nX: y", "a\n", "a\x00", "(a)", "a/b", "ａ"])
    def test_names_that_are_no_token(self, name: Any) -> None:
        """A name is a text of token characters, at least one (XH-1, T10)."""
        assert refused_schema(schema_of(a={"type": "string", "x-mcp-header": name})).isprintable()

    @given(st.text(min_size=1))
    def test_a_name_is_a_token_or_refused(self, name: str) -> None:
        """Whatever the name, what passes is fit for the name of a header (T10)."""
        schema = schema_of(a={"type": "string", "x-mcp-header": name})
        if set(name) <= set(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~"):
            assert marks_of(schema)[0].header == f"Mcp-Param-{name}"
        else:
            refused_schema(schema)

    @pytest.mark.parametrize(
        "types",
        [
            *({"type": "number"}, {}, {"enum": ["a"]}, {"$ref": "#/$defs/A"}, {"type": ["string", "integer"]}),
            *({"type": ["null"]}, {"type": []}, {"type": {}}, {"type": [{}]}, {"anyOf": []}, {"anyOf": 5}),
            *({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"type": "string"}, {}]}),
            *({"anyOf": [{"type": "string"}, True]}, {"type": "object", "anyOf": [{"type": "string"}]}),
        ],
    )
    def test_types_that_no_header_can_have(self, types: Json) -> None:
        """A marked property has one type, and it is string, integer or boolean (XH-1)."""
        assert "string, integer or boolean" in refused_schema(schema_of(a={**types, "x-mcp-header": "A"}))

    @pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
    def test_null_beside_the_type(self, kind: str) -> None:
        """Null may be allowed too, by a list of types or an alternative: it has no header (XH-4)."""
        for types in ({"type": kind}, {"type": [kind, "null"]}, {"anyOf": [{"type": "null"}, {"type": kind}]}):
            assert marks_of(schema_of(a={**types, "x-mcp-header": "A"})) == (Mark("A", ("a",), kind),)

    @pytest.mark.parametrize(
        ("place", "schema"),
        [
            ("#", {"type": "object", "x-mcp-header": "Root"}),
            ("#/properties/a/items", schema_of(a={"items": REGION})),
            ("#/properties/a/items/properties/b", schema_of(a={"items": schema_of(b=REGION)})),
            ("#/properties/a/prefixItems/1", schema_of(a={"prefixItems": [{}, REGION]})),
            ("#/properties/a/anyOf/0", schema_of(a={"anyOf": [REGION, {"type": "null"}]})),
            *((f"#/{key}/0/properties/a", {key: [schema_of(a=REGION)]}) for key in ("anyOf", "oneOf", "allOf")),
            *((f"#/{key}/properties/a", {key: schema_of(a=REGION)}) for key in ("not", "if", "then", "else")),
            *(
                (f"#/{key}/a", {key: {"a": REGION}})
                for key in ("$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies")
            ),
            *(
                (f"#/{key}", {key: REGION})
                for key in ("additionalProperties", "unevaluatedProperties", "propertyNames", "contains", "x-vendor")
            ),
        ],
    )
    def test_marks_at_other_places(self, place: str, schema: Json) -> None:
        """A mark to which anything but `properties` leads makes the schema invalid (XH-2)."""
        assert refused_schema(schema).startswith(f"{place}: ")

    def test_names_and_values_are_no_marks(self) -> None:
        """A property or definition of that name is none, nor is a value that holds the word (XH-2)."""
        value = {"x-mcp-header": 5}
        schema = {
            **schema_of(
                **{"x-mcp-header": {"type": "string"}, "default": REGION}, a={"default": value, "const": value}
            ),
            "$defs": {"x-mcp-header": {"enum": [value], "examples": [value]}},
            "dependentRequired": {"x-mcp-header": ["a"]},
            "required": ["x-mcp-header"],
        }

        assert marks_of(schema) == (Mark("Region", ("default",), "string"),)

    @pytest.mark.parametrize("wrap", [lambda part: schema_of(a=part), lambda part: {"not": part}])
    def test_depth_is_no_danger(self, wrap: Any) -> None:
        """A schema nested deeper than any stack is looked through like every other (JS-3)."""
        schema: Any = {}
        for _ in range(20_000):
            schema = wrap(schema)

        assert marks_of(schema) == ()

    def test_a_hostile_place_is_shown_safely(self) -> None:
        """What a peer's schema calls its parts is escaped and cut in the reason."""
        message = refused_schema(schema_of(**{"\x1b[31m" + "a" * 9999: {"x-mcp-header": "A"}}))

        assert message.isprintable()
        assert len(message) < 500
