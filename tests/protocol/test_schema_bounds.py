"""What a JSON Schema may be before it is compiled: its limits, dialect, references, and what a value can cost it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.errors import RegistrationError
from jackfield.protocol.limits import Limits
from jackfield.protocol.schema_bounds import Cost, Graph, InvalidSchema, pointer

Json = dict[str, Any]


def cost(document: Json, limits: Limits | None = None) -> Cost:
    return Graph(document, limits or Limits()).cost()


def refusal(document: Any, limits: Limits | None = None) -> InvalidSchema:
    with pytest.raises(InvalidSchema) as caught:
        cost(document, limits)
    return caught.value


def chain_of(times: int, link: Any, end: Json) -> Json:
    """A schema of `times` definitions, each made from the reference to the next one, down to `end`."""
    steps = {f"a{i}": link({"$ref": f"#/$defs/a{i + 1}"}) for i in range(times)}
    return {"$ref": "#/$defs/a0", "$defs": {**steps, f"a{times}": end}}


def test_the_limits_have_defaults() -> None:
    """64 KiB, 56 levels and 10,000 subschemas unless told otherwise (JS-3)."""
    limits = Limits()

    assert (limits.schema_size, limits.schema_depth, limits.schema_nodes) == (65536, 56, 10_000)


@pytest.mark.parametrize(
    ("document", "limits", "name"),
    [
        ({"description": "x" * 70_000}, Limits(), "schema_size"),
        ({"enum": [[0] * 300] * 300}, Limits(), "schema_size"),
        ({"description": "x" * 90}, Limits(schema_size=100), "schema_size"),
        (json.loads('{"items":' * 65 + "{}" + "}" * 65), Limits(), "schema_depth"),
        ({"default": [[[]]]}, Limits(schema_depth=2), "schema_depth"),
        ({"prefixItems": [{} for _ in range(10_001)]}, Limits(), "schema_nodes"),
        ({"properties": {"a": {}, "b": {}, "c": {}}}, Limits(schema_nodes=3), "schema_nodes"),
    ],
)
def test_what_is_over_a_limit_is_refused_by_name(document: Json, limits: Limits, name: str) -> None:
    """A schema that is too large, too deep or has too many subschemas is refused before it is compiled (JS-3, S04)."""
    refused = refusal(document, limits)

    assert refused.limit == name
    assert f"(limit `{name}`)" in str(refused)
    assert isinstance(refused, RegistrationError)


def test_a_document_in_a_circle_is_refused() -> None:
    """A document that holds itself is too deep, not an endless loop."""
    document: Json = {"properties": {}}
    document["properties"]["again"] = document

    assert refusal(document).limit == "schema_depth"


def test_shared_parts_count_each_time() -> None:
    """A document whose parts are shared in memory is as large as its JSON, and refused without writing that."""
    part: Json = {}
    for _ in range(50):
        part = {"allOf": [part, part]}

    assert refusal(part).limit in ("schema_size", "schema_depth")


@pytest.mark.parametrize("document", [[], "x", None, True, {"a": object()}, {"a": "\ud800"}])
def test_what_is_no_json_object_is_refused(document: Any) -> None:
    """A schema must be a JSON object."""
    assert refusal(document).place == "#"


@pytest.mark.parametrize(
    ("uri", "dialect"),
    [
        (None, "2020-12"),
        ("https://json-schema.org/draft/2020-12/schema", "2020-12"),
        ("https://json-schema.org/draft/2020-12/schema#", "2020-12"),
        ("http://json-schema.org/draft-07/schema#", "draft-07"),
        ("https://json-schema.org/draft-07/schema", "draft-07"),
    ],
)
def test_the_dialect_is_2020_12_unless_the_schema_says_draft_07(uri: str | None, dialect: str) -> None:
    """Without `$schema` a schema is 2020-12 (JS-1)."""
    document = {} if uri is None else {"$schema": uri}

    assert Graph(document, Limits()).dialect == dialect


@pytest.mark.parametrize(
    "uri",
    [
        "http://json-schema.org/draft-04/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://example.com/my",
        "",
        7,
    ],
)
def test_another_dialect_is_refused_not_ignored(uri: Any) -> None:
    """A dialect that we do not have is an error that says which ones there are (JS-1)."""
    assert "use 2020-12 (the default) or draft-07" in str(refusal({"$schema": uri}))
    assert refusal({"properties": {"a": {"$schema": uri}}}).place == "#/properties/a"
    assert "another dialect" in str(refusal({"$defs": {"a": {"$schema": "http://json-schema.org/draft-07/schema"}}}))


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/x.json",
        "https://example.com/s#/$defs/a",
        "file:///etc/passwd",
        "other.json",
        "//host/x",
        "urn:x:y",
    ],
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("base", [{}, {"$id": "https://example.com/here/"}])
def test_a_reference_out_of_the_document_is_refused(base: Json, keyword: str, reference: str) -> None:
    """Nothing is ever fetched, whatever `$id` stands above; the error names the place and the reference (JS-2, S02)."""
    refused = refusal({**base, "properties": {"a": {"items": {keyword: reference}}}})

    assert refused.place == "#/properties/a/items"
    assert reference in str(refused)
    assert "nothing is fetched" in str(refused)


def test_a_reference_to_a_dialect_is_one_out_of_the_document() -> None:
    """The engine knows the schemas of the dialects, but nobody has counted what checking against them costs (S02)."""
    assert "nothing is fetched" in str(refusal({"$ref": "https://json-schema.org/draft/2020-12/schema"}))


@pytest.mark.parametrize(
    "document",
    [
        {"$defs": {"a": {}}, "$ref": "#/$defs/a"},
        {"$defs": {"a/b~c d": {}}, "$ref": "#/$defs/a~1b~0c%20d"},
        {"allOf": [{}, {"$ref": "#/allOf/0"}]},
        {"x-own": {"list": [1, {"type": "integer"}]}, "$ref": "#/x-own/list/1"},
        {"$defs": {"a": {"$anchor": "here"}}, "$ref": "#here"},
        {"$defs": {"a": {"$dynamicAnchor": "here"}}, "$dynamicRef": "#here"},
        {"$defs": {"a": {"$id": "#here"}}, "$ref": "#here", "$schema": "http://json-schema.org/draft-07/schema#"},
        {"$id": "https://example.com/s", "$defs": {"a": {}}, "$ref": "https://example.com/s#/$defs/a"},
        {"$id": "https://example.com/s", "$defs": {"a": {"$id": "b", "$anchor": "c"}}, "$ref": "b#c"},
        {"$id": "https://example.com/s", "$defs": {"a": {"$id": "b"}}, "$ref": "https://example.com/b"},
        {"$defs": {"a": {"$id": "urn:x:y", "$defs": {"b": {}}, "$ref": "#/$defs/b"}}, "$ref": "urn:x:y"},
        {"properties": {"child": {"$ref": "#"}}},
        {"properties": {"child": {"$ref": ""}}},
        {"$defs": {"a": True}, "$ref": "#/$defs/a"},
    ],
)
def test_references_within_the_document_are_followed(document: Json) -> None:
    """Pointers, anchors, `$id` and recursion work as long as they stay in the document (JS-2)."""
    assert cost(document).looks[0] >= 1


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"$ref": "#/$defs/a"}, "there is nothing at that place"),
        ({"$ref": "#nowhere"}, "there is nothing at that place"),
        ({"$ref": "#/allOf/1", "allOf": [True]}, "there is nothing"),
        ({"$ref": "#/allOf/00", "allOf": [True]}, "there is nothing"),
        ({"$ref": "#/allOf/x", "allOf": [True]}, "there is nothing"),
        ({"$ref": "#/title/0", "title": "x"}, "there is nothing"),
        ({"$ref": "#/title", "title": "x"}, "there is no schema"),
        ({"$defs": {"a": {"$id": "x:y"}, "b": {"$id": "x:y"}}}, "'x:y' is given twice"),
        ({"$defs": {"a": {"$anchor": "x"}, "b": {"$dynamicAnchor": "x"}}}, "'x' is given twice"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema", "items": {"$id": "x:y", "$ref": "#/definitions/a"}},
            "no `$id` beside `$ref`",
        ),
    ],
)
def test_a_reference_to_nothing_or_to_two_things_is_refused(document: Json, fault: str) -> None:
    """What leads nowhere is not a schema that lets everything pass, and nobody guesses which one was meant (JS-2)."""
    assert fault in str(refusal(document))


@pytest.mark.parametrize(
    "document",
    [
        {"$ref": "#"},
        {"$ref": ""},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"not": {"$ref": "#/anyOf/0"}}]},
        {"$dynamicAnchor": "a", "$dynamicRef": "#a"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"if": {"$ref": "#/$defs/a"}}}, "items": {"$ref": "#/$defs/a"}},
    ],
)
def test_a_circle_that_never_goes_into_the_value_is_refused(document: Json) -> None:
    """Such a schema has no meaning and would never come to an end (S03)."""
    assert "refers to itself" in str(refusal(document))


@pytest.mark.parametrize("times", [24, 27, 60])
def test_references_that_multiply_are_refused_without_expanding_them(times: int) -> None:
    """2^24 and more references for one value are counted, not made, and refused by name (JS-3, S03)."""
    refused = refusal(chain_of(times, lambda ref: {"allOf": [ref, ref]}, {"type": "integer"}))

    assert refused.limit == "schema_nodes"
    assert "references multiply" in str(refused)


def test_a_chain_that_is_too_long_for_the_stack_is_refused() -> None:
    """The engine would run out of stack somewhere, and take the process with it (S03)."""
    assert refusal(chain_of(200, lambda ref: {"anyOf": [ref]}, {})).limit == "schema_depth"
    assert cost(chain_of(200, lambda ref: {"items": ref}, {})).chain == 2


def test_references_that_multiply_over_the_members_cost_nothing() -> None:
    """Definitions that are used in many places are ordinary: each value is still judged once."""
    document = chain_of(24, lambda ref: {"properties": {"x": ref, "y": ref}}, {"type": "integer"})

    assert max(cost(document).looks) == 4


def test_looks_count_what_judges_a_value_at_each_depth() -> None:
    """Alternatives that go into the same members multiply with every level, others do not (S03)."""
    again = {"$ref": "#"}
    tree = {"anyOf": [{"properties": {"l": again, "r": again}}, {"type": "null"}]}
    fork = {"anyOf": [{"properties": {"x": again}}, {"properties": {"x": again}}]}

    assert cost(tree).looks == [7, 8, 8]
    assert cost(fork).looks[:4] == [7, 16, 32, 64]
    assert len(cost(fork).looks) > 50
    assert cost(fork).looks_at_most < 50
    assert cost({"properties": {"a": {"items": {}}}, "required": ["a"]}).looks[:4] == [3, 1, 1, 0]
    assert cost({"items": {"additionalProperties": again}}).looks == [1, 1, 2, 2]


def test_faults_count_what_can_be_wrong_with_a_value() -> None:
    """Each missing property is a fault of its own; names can be one each."""
    found = cost({"type": "object", "required": ["a", "b"], "properties": {"a": {"minimum": 1, "maximum": 2}}})

    assert found.faults[:2] == [4, 3]
    assert not found.names
    assert cost({"items": {"propertyNames": {}}}).names


def test_only_where_nothing_is_unevaluated_are_results_remembered() -> None:
    """Beside `unevaluated...` the engine judges everything anew, so that recursion is counted in full."""
    again = {"$ref": "#"}

    assert cost({"items": again}).remembered
    assert cost({"items": {}, "unevaluatedItems": False}).remembered
    assert not cost({"anyOf": [{"items": again}], "unevaluatedItems": False}).remembered


def test_states_are_those_of_the_patterns_that_may_read_the_same_text() -> None:
    """Patterns of different properties do not add up, those of one value do; none has more than can be compiled."""
    word, counted = {"pattern": "^[a-z]+$"}, {"pattern": "^[a-z0-9-]{1,64}$"}

    assert cost({"properties": {"a": word, "b": word}}).states[:3] == [0, 4, 0]
    assert cost({"allOf": [word, word]}).states_at_most == 8
    assert cost(counted).states_at_most == 67
    assert cost({"pattern": "((a{9}){9}){9}"}).states_at_most > 700
    assert cost({"pattern": "(a{999}){999}"}).states_at_most == 1000
    assert cost({"patternProperties": {"^x": {}}}).states_at_most == 2


@pytest.mark.parametrize("unit", ["[", "[a", "(", "{1", "\\", "[^]", "a{1,2}"])
def test_a_pattern_is_sized_in_linear_time(unit: str) -> None:
    """Sizing a pattern of 30,000 characters is no attack itself (S01)."""
    assert cost({"pattern": (unit * 30_000)[:30_000]}).states_at_most == 1000


def test_places_are_json_pointers() -> None:
    """Tokens are escaped as pointers want it, and a huge place is cut."""
    assert pointer(None) == "#"
    assert pointer(((None, "properties"), "a/b~c")) == "#/properties/a~1b~0c"
    assert len(pointer((None, "x" * 1000))) == 200


REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/$defs/c/items", "#/nowhere", "x:y"])
SCHEMAS = st.recursive(
    st.sampled_from([True, False, {}, {"type": "integer"}, 7, None]) | st.builds(lambda ref: {"$ref": ref}, REFERENCES),
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["not", "items", "additionalProperties", "contains", "if", "$ref"]), inner, max_size=3
        )
        | st.dictionaries(st.sampled_from(["allOf", "anyOf", "prefixItems", "properties"]), st.lists(inner, max_size=3))
        | st.dictionaries(
            st.sampled_from(["properties", "$defs"]), st.dictionaries(st.sampled_from("abc"), inner), max_size=2
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from("abc"), SCHEMAS), SCHEMAS)
def test_every_document_is_counted_or_refused(definitions: Json, root: Any) -> None:
    """Whatever the references, a document has a cost within the limits or is an InvalidSchema (JS-3)."""
    document = {"allOf": [root], "$defs": definitions}
    limits = Limits(schema_nodes=100, schema_depth=20)
    try:
        found = cost(document, limits)
    except InvalidSchema as refused:
        assert refused.place.startswith("#")  # noqa: PT017
    else:
        assert 1 <= found.chain <= 20
        assert found.looks[0] >= 1
        assert found.faults[0] >= 1
        assert found.looks_at_most >= found.looks[0]
