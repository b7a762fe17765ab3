"""Checking values against a JSON Schema, and the words for what is wrong with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.errors import RegistrationError
from jackfield.protocol.limits import Limits
from jackfield.protocol.schema import MOST_PROBLEMS, InvalidSchema, Problem, Schema

Json = dict[str, Any]


def said(schema: Json, value: Any) -> list[str]:
    return [f"{problem.path}: {problem.message}" for problem in Schema(schema).errors(value)]


def nested(times: int, around: str, leaf: str) -> Any:
    """The value of some JSON text nested in itself, where `around` has a % for what is inside."""
    before, after = around.split("%")
    return json.loads(before * times + leaf + after * times)


@pytest.mark.parametrize(
    ("schema", "value", "problems"),
    [
        ({"type": "string"}, 1, ["$: expected string, got integer"]),
        ({"type": ["string", "null"]}, [], ["$: expected null or string, got array"]),
        ({"type": "integer"}, 1.5, ["$: expected integer, got number"]),
        ({"type": "integer"}, True, ["$: expected integer, got boolean"]),
        ({"type": "object"}, None, ["$: expected object, got null"]),
        ({"required": ["a", "b"]}, {}, ['$: missing property "a"', '$: missing property "b"']),
        ({"enum": ["a", 1, None]}, "b", ['$: is not one of "a", 1, null']),
        ({"enum": list(range(20))}, "b", ["$: is not one of 0, 1, 2, 3, 4, 5, 6, 7 and 12 more"]),
        ({"const": {"a": 1}}, 1, ['$: is not {"a":1}']),
        ({"minimum": 3}, 1, ["$: is less than the minimum of 3"]),
        ({"multipleOf": 0.5}, 0.7, ["$: is not a multiple of 0.5"]),
        ({"maxLength": 3}, "x" * 10_000, ["$: is longer than 3 characters"]),
        ({"pattern": "^a"}, "b", ['$: does not match "^a"']),
        ({"minItems": 1}, [], ["$: has less than 1 item"]),
        ({"uniqueItems": True}, [1, 1.0], ["$: has non-unique elements"]),
        (
            {"contains": {"type": "integer"}},
            ["a"],
            ["$: has too few or too many of the items that `contains` asks for"],
        ),
        ({"not": {"type": "integer"}}, 1, ["$: fits a schema that it must not fit"]),
        ({"additionalProperties": False}, {"a": 1, "b c": 2}, ['$: unexpected properties "a", "b c"']),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"z": 1}, ['$: unexpected property "z"']),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"z": 1}, ['$: unexpected property "z"']),
        ({"properties": {"a": False}}, {"a": 1}, ["$.a: is not allowed"]),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, ['$: property name "ab": is longer than 1 character']),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, ['$: missing property "b"']),
        ({"if": {"type": "integer"}, "then": {"minimum": 3}}, 1, ["$: is less than the minimum of 3"]),
        (
            {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
            3,
            ["$: fits more than one of the alternatives, but may fit only one"],
        ),
        (
            {"prefixItems": [{}, {"type": "string"}], "items": False},
            [1, 2, 3],
            ["$[1]: expected string, got integer", "$[2]: is not allowed"],
        ),
    ],
)
def test_problems_say_what_is_wrong(schema: Json, value: Any, problems: list[str]) -> None:
    """Each keyword's problem is a short sentence with a JSON path, in words for a person or a model."""
    assert said(schema, value) == problems


@pytest.mark.parametrize(
    ("alternatives", "value", "problems"),
    [
        ([{"type": "string"}, {"type": "null"}], 1, ["$.v: expected string or null, got integer"]),
        (
            [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
            ["a", 1],
            ["$.v[1]: expected string, got integer"],
        ),
        (
            [{"type": "null"}, {"type": "object", "required": ["a", "b"]}],
            {},
            ['$.v: missing property "a"', '$.v: missing property "b"'],
        ),
        (
            [
                {"properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}},
                {"properties": {"kind": {"enum": ["b"]}, "n": {"type": "string"}}},
            ],
            {"kind": "b", "n": 1},
            ["$.v.n: expected string, got integer"],
        ),
        ([{"required": ["a"]}, {"required": ["b"]}], {}, ["$.v: fits none of the 2 alternatives"]),
        (
            [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "array"}],
            1,
            ["$.v: expected string or null, got integer"],
        ),
        ([{"type": "string"}, {"const": 7}], 1, ["$.v: fits none of the 2 alternatives"]),
    ],
)
@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_of_alternatives_the_one_that_was_meant_is_explained(
    keyword: str, alternatives: list[Json], value: Any, problems: list[str]
) -> None:
    """Where types or tags leave one alternative its own problems are given, where all want a type those types."""
    assert said({"properties": {"v": {keyword: alternatives}}}, {"v": value}) == problems


def test_paths_are_json_paths() -> None:
    """Members that are no plain names are quoted, items are numbered."""
    schema = {"additionalProperties": {"items": {"additionalProperties": {"type": "null"}}}}
    value = {"routine": [{}, {"blocks": 1}], "a b": [{"-": 1}], 'q"': [{"é": 1}], "x" * 100: [{"y" * 300: 1}]}

    assert [problem.path for problem in Schema(schema).errors(value)] == [
        '$["a b"][0]["-"]',
        '$["q\\""][0]["é"]',
        "$.routine[1].blocks",
        f"$.{'x' * 100}[0].{'y' * 199}…",
    ]


def test_problems_come_in_the_order_of_their_paths_and_not_all_of_them() -> None:
    """The order is the same every time, items by number, and a hopeless value gives no endless list."""
    found = Schema({"items": {"type": "string"}}).errors(list(range(100)))

    assert found == [Problem(f"$[{i}]", "expected string, got integer") for i in range(MOST_PROBLEMS)]


def test_a_message_never_echoes_a_huge_value() -> None:
    """What is wrong is said about the value, not with it."""
    huge = "x" * 10_000
    schema = {
        "properties": {name: {"const": huge} for name in ("a", "b")} | {huge: {"enum": [huge]}},
        "required": [huge + "y"],
        "propertyNames": {"maxLength": 20_000, "pattern": f"^{'[a-z]' * 150}"},
        "additionalProperties": False,
    }
    found = Schema(schema).errors({"a": huge, "b": {huge: huge}, huge: 1, huge + huge: 1})

    assert len(found) >= 5
    assert all(len(problem.path) < 250 and len(problem.message) <= 200 for problem in found)


@pytest.mark.parametrize(
    ("schema", "value", "fits"),
    [
        ({"type": "integer"}, 1.0, True),
        ({"type": "integer"}, 10**30, True),
        ({"type": "integer"}, -(10**400), True),
        ({"type": "integer"}, 1e300, True),
        ({"type": "integer", "maximum": 10**30}, 10**30 + 1, False),
        ({"enum": [10**30]}, 10**30 + 1, False),
        ({"multipleOf": 3}, 10**30, False),
        ({"const": 1}, 1.0, True),
        ({"const": 1}, True, False),
        ({"multipleOf": 0.01}, 19.99, True),
        ({"type": "number"}, float("nan"), False),
        ({"format": "email"}, "no address", True),
        ({"unknown": {"keyword": 1}}, 1, True),
        ({}, None, True),
    ],
)
def test_numbers_and_notes_are_what_the_standard_says(schema: Json, value: Any, fits: bool) -> None:
    """1.0 is an integer, integers of any size count exactly, formats and unknown keywords only note (JS-1)."""
    assert Schema(schema).is_valid(value) is fits
    assert (Schema(schema).errors(value) == []) is fits


def test_draft_07_is_checked_by_its_own_rules() -> None:
    """A list under `items`, and `$ref` without its siblings, mean in draft-07 what they meant there (JS-1)."""
    uri = "http://json-schema.org/draft-07/schema"
    pairs = {"$schema": f"{uri}#", "items": [{"type": "integer"}], "additionalItems": False}
    sibling = {
        "$schema": f"{uri}",
        "definitions": {"a": {}},
        "properties": {"v": {"$ref": "#/definitions/a", "type": "null"}},
    }

    assert said(pairs, ["a", 1]) == [
        "$: Additional items are not allowed (1 item)",
        "$[0]: expected integer, got string",
    ]
    assert Schema(sibling).is_valid({"v": 1})
    with pytest.raises(InvalidSchema, match=r"#/items: expected boolean or object, got array"):
        Schema({"items": [{"type": "integer"}]}).compile()


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({"type": "nope"}, "#/type: 'nope': fits none of the 2 alternatives"),
        ({"properties": {"a": {"minimum": "x"}}}, "#/properties/a/minimum: 'x': expected number, got string"),
        ({"properties": {"a": 7}}, "#/properties/a: 7: expected boolean or object, got integer"),
        ({"allOf": {}}, "#/allOf: expected array, got object"),
        ({"$ref": 7}, r"#/\$ref: 7: expected string, got integer"),
        ({"enum": {1, 2}}, "#: is no JSON: Unsupported type: 'set'"),
    ],
)
def test_what_is_no_schema_is_refused_when_it_is_compiled(schema: Json, fault: str) -> None:
    """A schema is checked against its dialect before it is used; the error names the place (JS-2)."""
    kept = Schema(schema)

    with pytest.raises(InvalidSchema, match=fault) as caught:
        kept.compile()
    assert isinstance(caught.value, RegistrationError)
    with pytest.raises(InvalidSchema):
        kept.is_valid(1)


def test_limits_are_kept_before_anything_is_compiled() -> None:
    """Size, depth, number, multiplying references and those out of it are refused at once (JS-2, JS-3, S03)."""
    doubled = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(24)}

    for document, limits in (
        ({"title": "xx"}, Limits(schema_size=10)),
        ({"items": {"items": {}}}, Limits(schema_depth=1)),
        ({"items": {}}, Limits(schema_nodes=1)),
        ({"$ref": "#/$defs/a0", "$defs": {**doubled, "a24": {}}}, Limits()),
        ({"$ref": "http://127.0.0.1:9/schema.json"}, Limits()),
    ):
        with pytest.raises(InvalidSchema):
            Schema(document, limits)


def test_the_document_is_left_as_it_came() -> None:
    """What was listed stays what was listed, whatever is left out for the check (JS-4)."""
    document = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "x-own": 1,
        "pattern": "(?=a)",
        "items": {"pattern": "(?!a)"},
    }
    before = json.loads(json.dumps(document))
    schema = Schema(document)
    schema.compile()

    assert schema.document is document
    assert document == before


def test_the_engine_is_loaded_at_the_first_check_only() -> None:
    """A server that never has to check anything does not pay for the engine."""
    code = (
        "import sys; from jackfield.protocol.schema import Schema; schema = Schema({'pattern': 'a'});"
        "assert not any('jsonschema_rs' in name for name in sys.modules); assert schema.is_valid('a');"
        "assert 'jsonschema_rs' in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=60,
    )


# --- patterns --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|aa)+$", "(x+x+)+y", "(.*a){30}", "([a-z]+)*[A-Z]"])
def test_a_pattern_takes_linear_time(pattern: str) -> None:
    """Nested quantifiers that stop a backtracking engine for years are an answer at once (S01, JS-3)."""
    schema = Schema({"pattern": pattern})

    assert schema.unchecked == ()
    for text in ("a" * 30 + "!", "x" * 30, "a" * 100_000 + "!"):
        assert not schema.is_valid(text) or pattern == "(.*a){30}"


@pytest.mark.parametrize("pattern", ["^(?!x)a", "(?<=a)b", r"(a)\1", "[ab]{1,9999}[ab]{9999}c"])
def test_a_pattern_that_cannot_run_in_linear_time_is_left_unchecked_and_listed(pattern: str) -> None:
    """Look-around, back references and giants are left out, by place; everything else is still checked (S01)."""
    schema = Schema({"properties": {"a/b": {"type": "string", "pattern": pattern}, "c": {"pattern": "^c"}}})

    assert schema.unchecked == ("#/properties/a~1b/pattern",)
    assert schema.errors({"a/b": "whatever", "c": "d"}) == [Problem("$.c", 'does not match "^c"')]
    assert schema.errors({"a/b": 1}) == [Problem('$["a/b"]', "expected string, got integer")]


BAD = {"pattern": "(?!x)"}


@pytest.mark.parametrize(
    ("schema", "value", "unchecked"),
    [
        (
            {"patternProperties": {"(?!x)": {"type": "null"}, "^y": {}}, "additionalProperties": False},
            {"z": 1},
            ("#/patternProperties/(?!x)",),
        ),
        ({"not": BAD}, "a", ("#/not", "#/not/pattern")),
        ({"not": {"not": BAD}}, "a", ("#/not", "#/not/not", "#/not/not/pattern")),
        ({"oneOf": [BAD, {"type": "string"}]}, "x", ("#/oneOf", "#/oneOf/0/pattern")),
        ({"if": BAD, "then": False, "else": {}}, "x", ("#/if", "#/if/pattern")),
        ({"contains": BAD, "maxContains": 1}, ["x", "a"], ("#/contains", "#/contains/pattern")),
        (
            {"anyOf": [{"properties": {"a": BAD}}], "unevaluatedProperties": False},
            {"b": 1},
            ("#/unevaluatedProperties", "#/anyOf/0/properties/a/pattern"),
        ),
        ({"$defs": {"a": BAD}, "not": {"$ref": "#/$defs/a"}}, "a", ("#/not", "#/$defs/a/pattern")),
        ({"allOf": [{"propertyNames": BAD}]}, {"a": 1}, ("#/allOf/0/propertyNames/pattern",)),
    ],
)
def test_what_is_left_unchecked_refuses_nothing(schema: Json, value: Any, unchecked: tuple[str, ...]) -> None:
    """A keyword that would turn round or count a schema without its pattern is left out with it, and listed (S01)."""
    kept = Schema(schema)

    assert set(kept.unchecked) == set(unchecked)
    assert kept.errors(value) == []


def test_text_that_only_looks_like_a_pattern_is_no_pattern() -> None:
    """A property named `pattern`, and examples that hold one, are left alone."""
    schema = Schema(
        {"properties": {"pattern": {"type": "string"}}, "default": {"pattern": "(?!x)"}, "items": {"pattern": "(?!y)"}}
    )

    assert schema.unchecked == ("#/items/pattern",)
    assert schema.errors({"pattern": 1}) == [Problem("$.pattern", "expected string, got integer")]


def test_a_text_that_is_too_long_for_the_patterns_is_refused() -> None:
    """Bytes times states are bounded, so that a large text and many patterns cannot stop the process (S01)."""
    heavy = {"allOf": [{"pattern": f"[ab]*a[ab]{{500}}{i}"} for i in range(20)]}

    assert said(heavy, "ab" * 200_000) == ["$: is too long to be checked against the patterns of this schema"]
    assert Schema({"properties": {"a": {"pattern": "^[a-z]{1,64}$"}}}).is_valid({"a": "x", "blob": "y" * 5_000_000})


# --- values that cost ------------------------------------------------------------------------------------------------

AGAIN = {"$ref": "#/$defs/e"}


def either(*branches: Json) -> Json:
    return {"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [{"type": "integer"}, *branches]}}}


TWICE = either(
    {"type": "object", "properties": {"x": AGAIN}}, {"type": "object", "properties": {"x": AGAIN}, "required": ["x"]}
)


def test_deep_alternatives_are_judged_and_explained_as_far_as_is_sane() -> None:
    """A value 60 levels deep in alternatives that double at each is judged; what is wrong is said if possible (S03)."""
    schema = Schema(TWICE)

    assert schema.is_valid(nested(60, '{"x":%}', "1"))
    assert said(TWICE, nested(2, '{"x":%}', '"a"')) == ["$: fits none of the 3 alternatives"]
    assert said(TWICE, nested(60, '{"x":%}', '"a"')) == [
        "$: does not fit the schema; it is too large or too nested to say where"
    ]


def test_a_schema_that_forgets_is_counted_in_full() -> None:
    """Recursion beside `unevaluated...` doubles the work at each level: a deep value is refused untried (S03)."""
    branch = {"anyOf": [{"items": AGAIN}, {"items": AGAIN}], "unevaluatedItems": AGAIN}
    schema = Schema(either(branch, branch))

    assert schema.is_valid(nested(3, "[%]", "1"))
    assert schema.errors(nested(60, "[%]", "1")) == [Problem("$", "is too large to be checked against this schema")]


def test_a_dense_recursive_schema_takes_a_large_value() -> None:
    """Forty definitions that all refer to one another are no reason to refuse ten thousand values."""
    definitions = {
        f"d{i}": {
            "type": "object",
            "properties": {f"p{k}": {"$ref": f"#/$defs/d{(i * 7 + k) % 40}"} for k in range(35)},
        }
        for i in range(40)
    }
    value = {f"p{i}": {f"p{k}": {} for k in range(35)} for i in range(35)}

    assert Schema({"$ref": "#/$defs/d0", "$defs": definitions}).is_valid({f"p{i}": value for i in range(10)})


@pytest.mark.parametrize(
    ("schema", "first"),
    [
        ({"items": {"type": "string"}}, "$[0]: expected string, got integer"),
        ({"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "$: does not fit the schema; it is too large"),
        ({"additionalProperties": False, "type": "object", "required": [f"k{i}" for i in range(3000)]}, "$"),
        ({"type": "object", "propertyNames": {"maxLength": 0}}, "$"),
    ],
)
def test_a_huge_wrong_value_gives_one_problem(schema: Json, first: str) -> None:
    """Hundreds of thousands of faults, each with a copy of the value, are not collected: one says enough (S03)."""
    value = {f"{i}": {} for i in range(20_000)} if schema.get("type") == "object" else [1] * 300_000
    found = said(schema, value)

    assert len(found) == 1
    assert found[0].startswith(first)


@pytest.mark.parametrize("schema", [{"items": {"$ref": "#"}}, {}, {"type": "string"}, TWICE])
@pytest.mark.parametrize("times", [65, 500, 100_000])
def test_a_value_that_is_too_deep_is_refused(schema: Json, times: int) -> None:
    """Depth is looked at before the engine, whose stack would end with the process (S03)."""
    value: Any = 1
    for _ in range(times):
        value = [value]

    assert said(schema, value) == ["$: is nested deeper than 64 levels"]
    assert not Schema(schema).is_valid(value)
    assert Schema({}, Limits(depth=2)).errors([[[1]]]) == [Problem("$", "is nested deeper than 2 levels")]
    assert Schema({}, Limits(depth=2)).errors([[1], [2], [3], {}]) == []


@pytest.mark.parametrize("value", ["\ud800", {1: 2}, {1, 2}, b"x", object(), {"a": ["\ud800"]}])
def test_what_is_no_json_is_a_problem_not_a_crash(value: Any) -> None:
    """A value that JSON cannot hold does not fit, and says so."""
    schema = Schema(
        {
            "anyOf": [
                {"type": ["object", "array"], "additionalProperties": {"items": {"pattern": "a"}}},
                {"pattern": "a"},
            ]
        }
    )

    assert [problem.message[:16] for problem in schema.errors(value)] == ["is no JSON value"]
    assert not schema.is_valid(value)


def test_an_integer_that_python_cannot_write_is_a_problem() -> None:
    """Thousands of digits are more than Python writes as text, so that they are no JSON either."""
    assert said({"type": "integer"}, 10**5000)[0].startswith("$: is no JSON value")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | st.sampled_from("ab"), inner, max_size=4)
    ),
    max_leaves=10,
)
KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "object", "array", "null", ["null", "boolean"]]),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "minimum": st.integers(-5, 5),
        "minLength": st.integers(0, 3),
        "pattern": st.sampled_from(["^a", "[0-9]+", "(?!a)"]),
        "required": st.lists(st.sampled_from("abc"), unique=True, max_size=2),
        "uniqueItems": st.booleans(),
        "$ref": st.sampled_from(["#/$defs/d", "#/$defs/e"]),
    },
)
SCHEMAS = st.recursive(
    st.booleans() | KEYWORDS,
    lambda inner: (
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("ab"), inner, min_size=1)})
        | st.builds(
            lambda name, schema: {name: schema},
            st.sampled_from(["items", "not", "additionalProperties", "contains"]),
            inner,
        )
        | st.builds(
            lambda name, list_: {name: list_},
            st.sampled_from(["anyOf", "oneOf", "allOf"]),
            st.lists(inner, min_size=1, max_size=3),
        )
    ),
    max_leaves=5,
)


@given(SCHEMAS, SCHEMAS, SCHEMAS, VALUES)
def test_errors_and_verdict_agree(root: Any, d: Any, e: Any, value: Any) -> None:
    """A value fits exactly if nothing is wrong with it, and every problem points into the value."""
    try:
        schema = Schema({"allOf": [root], "$defs": {"d": d, "e": e}})
    except InvalidSchema as refused:
        assert "refers to itself" in str(refused)  # noqa: PT017
        return
    found = schema.errors(value)

    assert schema.is_valid(value) is (found == [])
    assert found == schema.errors(msgspec.json.decode(msgspec.json.encode(value)))
    assert len(found) <= MOST_PROBLEMS
    assert all(problem.path.startswith("$") and problem.message for problem in found)
