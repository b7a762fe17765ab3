"""Schemas joined under one `$defs`, and asked what they allow."""

from typing import Any

import pytest

from jackfield.server.schemas import ALL_KINDS, branches, each, endless, hoisted, kinds, rooted

DEFS = {
    "Item": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Item"}}},
    "Name": {"type": "string"},
    "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"type": "null"}]},
}


@pytest.mark.parametrize(
    ("schema", "allowed"),
    [
        (True, ALL_KINDS),
        (False, set()),
        ({}, ALL_KINDS),
        ({"description": "x"}, ALL_KINDS),
        ({"type": "integer"}, {"integer"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"enum": ["a", 1, None, True, 1.5, [], {}]}, ALL_KINDS),
        ({"const": 1}, {"integer"}),
        ({"$ref": "#/$defs/Item", "description": "x"}, {"object"}),
        ({"anyOf": [{"$ref": "#/$defs/Name"}, {"type": "null"}]}, {"string", "null"}),
        ({"oneOf": [{"type": "array"}, {"type": "object"}]}, {"array", "object"}),
        ({"allOf": [{"type": ["array", "null"]}, {"type": ["object", "null"]}]}, {"null"}),
    ],
)
def test_kinds(schema: Any, allowed: set[str]):
    """The JSON types that a schema allows are found through references and alternatives."""
    assert kinds(schema, DEFS) == allowed


def test_branches_end():
    """Schemas that refer to themselves are gone through once."""
    assert len(branches([{"$ref": "#/$defs/Loop"}], DEFS)) == 4


def test_root_reference_is_inlined_and_only_used_definitions_stay():
    """A root has no `$ref`; what nothing refers to is dropped, what recursion needs stays (F46)."""
    assert rooted({"$ref": "#/$defs/Item", "description": "x"}, DEFS) == {
        **DEFS["Item"], "description": "x", "$defs": {"Item": DEFS["Item"]},
    }  # fmt: skip
    assert rooted({"$ref": "#/$defs/Name"}, DEFS) == {"type": "string"}


def test_hoisting_renames_what_clashes():
    """Definitions move under free names, and every reference to them follows (F46)."""
    defs: dict[str, Any] = {"Part": {"type": "string"}}
    schema = {
        "type": "array",
        "items": {
            "oneOf": [{"$ref": "#/$defs/Part"}],
            "discriminator": {"propertyName": "k", "mapping": {"p": "#/$defs/Part"}},
        },
        "$defs": {"Part": {"type": "object", "properties": {"again": {"$ref": "#/$defs/Part"}}}},
    }
    assert hoisted(schema, defs, "Whole") == {"$ref": "#/$defs/Whole"}
    assert defs["Part"] == {"type": "string"}
    assert defs["Part_2"]["properties"]["again"] == {"$ref": "#/$defs/Part_2"}
    assert defs["Whole"]["items"]["oneOf"] == [{"$ref": "#/$defs/Part_2"}]
    assert defs["Whole"]["items"]["discriminator"]["mapping"] == {"p": "#/$defs/Part_2"}


def test_hoisting_the_same_twice_adds_nothing():
    """A definition that is there already is used again (F46)."""
    defs: dict[str, Any] = {}
    schema = {"type": "object", "properties": {}}
    assert hoisted(schema, defs, "One") == hoisted(schema, defs, "One")
    assert list(defs) == ["One"]


def test_properties_may_have_the_names_of_keywords():
    """A property called `enum` or `default` is a property, and values are never taken for schemas."""
    seen: list[dict[str, Any]] = []
    schema = {
        "type": "object",
        "properties": {"enum": {"type": "string"}, "items": {"type": "integer"}},
        "default": {"properties": {"x": {"type": "null"}}},
    }

    def note(node: dict[str, Any]) -> dict[str, Any]:
        seen.append(node)
        return node

    assert each(schema, note) == schema
    assert [node.get("type") for node in seen] == ["string", "integer", "object"]


@pytest.mark.parametrize(
    ("schema", "deep"),
    [
        (True, True),
        (False, False),
        ({}, True),
        ({"type": "array"}, True),
        ({"type": "object"}, True),
        ({"type": "object", "additionalProperties": True}, True),
        ({"type": "object", "additionalProperties": False}, False),
        ({"type": "object", "properties": {}}, False),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}}, False),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}, True),
        ({"type": "array", "prefixItems": [{"type": "null"}, {"type": "object"}], "items": False}, True),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Name"}]}, False),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/Item"}]}, True),
        ({"type": "array", "items": {"$ref": "#/$defs/Item"}}, True),
    ],
)
def test_endless(schema: Any, deep: bool):
    """Values can nest without end where a schema contains itself or leaves something open (F57)."""
    assert endless(schema, DEFS) is deep


def test_endless_looks_at_each_definition_once():
    """Definitions that use one another twice each cost their number, not their ways (T13)."""
    defs: dict[str, Any] = {"D0": {"type": "null"}}
    for number in range(200):
        ref = {"$ref": f"#/$defs/D{number}"}
        defs[f"D{number + 1}"] = {"type": "object", "properties": {"a": ref, "b": ref}}
    assert not endless({"$ref": "#/$defs/D200"}, defs)
