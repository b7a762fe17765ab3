"""Forms: which are allowed, in which revision, their defaults, and what content fits (ELC-2 to ELC-5)."""

import copy
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol import forms
from jackfield.protocol.forms import MAX_FIELDS, MAX_OPTIONS, check_form, filled, fit_form, problems
from jackfield.protocol.revisions import REVISIONS, Revision, find
from jackfield.protocol.schema import Schema
from jackfield.protocol.secret_fields import secret_field
from jackfield.protocol.types import FormSchema

OPTIONS = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]
FIVE: dict[str, dict[str, Any]] = {
    "one": {"type": "string", "enum": ["a", "b"], "default": "b"},
    "one with titles": {"type": "string", "oneOf": OPTIONS, "default": "b"},
    "several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["b"], "maxItems": 2},
    "several with titles": {"type": "array", "items": {"anyOf": OPTIONS}, "default": ["b"], "minItems": 1},
    "old titles": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"], "default": "b"},
}


def form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def revision(name: str) -> Revision:
    found = find(name)
    assert found is not None
    return found


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(["string", "number", "integer", "boolean", "array", "object", "a", "email", "date", ""])
ALMOST = st.dictionaries(
    st.sampled_from(
        "type title description default minLength maxLength minItems maxItems minimum maximum format enum enumNames"
        " oneOf items anyOf const pattern".split()
    ),
    JSON | WORDS | st.lists(WORDS, max_size=3) | st.integers(-2, 3),
    max_size=6,
)
NEAR_FORMS = st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("xyz"), ALMOST | JSON, max_size=3)},
    optional={"required": JSON | st.lists(st.sampled_from("xyz"), max_size=3)},
)


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    """A field that is allowed, its default among the values that fit."""
    kind = draw(st.sampled_from(["string", "number", "integer", "boolean", *FIVE]))
    if kind in FIVE:
        return copy.deepcopy(FIVE[kind])
    field: dict[str, Any] = {"type": kind}
    if kind == "string":
        low, high = sorted((draw(st.integers(0, 4)), draw(st.integers(0, 4))))
        field |= draw(
            st.sampled_from([{}, {"minLength": low}, {"maxLength": high}, {"minLength": low, "maxLength": high}])
        )
        values = st.text(min_size=low, max_size=high)
    elif kind == "boolean":
        values = st.booleans()
    else:
        low, high = sorted((draw(st.integers(-9, 9)), draw(st.integers(-9, 9))))
        field |= draw(st.sampled_from([{}, {"minimum": low}, {"maximum": high}, {"minimum": low, "maximum": high}]))
        values = st.integers(low, high) if kind == "integer" else st.floats(low, high)
    if draw(st.booleans()):
        field["default"] = draw(values)
    return field


@st.composite
def whole_forms(draw: st.DrawFn) -> dict[str, Any]:
    schema = form(**draw(st.dictionaries(st.sampled_from("abcdef"), fields(), max_size=4)))
    schema["required"] = [name for name in schema["properties"] if draw(st.booleans())]
    return schema


CONTENT = st.dictionaries(
    st.sampled_from("abcdefg"),
    st.sampled_from(["a", "b", "ab", ["a"], ["a", "b"], ["c"], [], True, 0, 3, 3.0, 2.5, -20, None]) | JSON,
    max_size=5,
)


# --- which forms are allowed -----------------------------------------------------------------------------------------


class TestCheckForm:
    @pytest.mark.parametrize(
        "field",
        [
            {
                "type": "string",
                "title": "Name",
                "description": "Yours.",
                "minLength": 0,
                "maxLength": 9,
                "default": "x",
            },
            *({"type": "string", "format": name} for name in forms.FORMATS),
            {"type": "number", "minimum": -1.5, "maximum": 1e9, "default": 0},
            {"type": "integer", "minimum": 1, "maximum": 1, "default": 1.0},
            {"type": "boolean", "default": False},
            *FIVE.values(),
        ],
    )
    def test_every_kind_of_field(self, field: dict[str, Any]) -> None:
        """All primitive kinds, formats and the five shapes of a choice, each with a default (ELC-3, ELC-4)."""
        schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **form(x=field), "required": ["x"]}
        check_form(schema, None)
        check_form(schema, REVISIONS[0])
        check_form(schema, revision("2025-11-25"))
        assert "x" in msgspec.convert(schema, FormSchema).properties

    @pytest.mark.parametrize(
        ("field", "fault"),
        [
            ({"type": "string", "pattern": "a+"}, "a string has no `pattern` in a form"),
            ({"type": "string", "format": "uuid"}, "`format` is one of email, uri, date, date-time"),
            ({"type": "string", "format": None}, "`format` is one of"),
            ({"type": "string", "minimum": 1}, "a string has no `minimum`"),
            ({"type": "string", "minLength": 3, "maxLength": 2}, "nothing could be entered"),
            ({"type": "string", "minLength": -1}, "`minLength` is a whole number"),
            ({"type": "string", "minLength": True}, "`minLength` is a whole number"),
            ({"type": "string", "maxLength": 10**5000}, "`maxLength` is a whole number"),
            ({"type": "string", "maxLength": None}, "`maxLength` is a whole number"),
            ({"type": "string", "title": 1}, "`title` is a text"),
            ({"type": "string", "description": None}, "`description` is a text"),
            ({"type": "string", "minLength": 2, "default": "x"}, "the default does not fit: must have 2 characters"),
            ({"type": "string", "format": "email", "default": "x"}, "the default does not fit: is no email"),
            ({"type": "string", "default": None}, "the default does not fit: expected string, got null"),
            ({"type": "number", "exclusiveMinimum": 1}, "a number has no `exclusiveMinimum` in a form"),
            ({"type": "number", "multipleOf": 2}, "a number has no `multipleOf`"),
            ({"type": "number", "minimum": 2, "maximum": 1}, "between `minimum` and `maximum`"),
            ({"type": "integer", "minimum": 1.1, "maximum": 1.9}, "between `minimum` and `maximum`"),
            ({"type": "number", "minimum": math.nan}, "`minimum` is a number"),
            ({"type": "number", "maximum": 10**400}, "`maximum` is a number"),
            ({"type": "number", "maximum": True}, "`maximum` is a number"),
            ({"type": "integer", "default": 1.5}, "expected integer"),
            ({"type": "integer", "enum": [1]}, "the options of a form are texts"),
            ({"type": "boolean", "enum": [True]}, "the options of a form are texts"),
            ({"type": "boolean", "default": 1}, "expected boolean, got integer"),
            ({"enum": ["a"]}, "the options of a form are texts, with `type` string"),
            ({"type": "string", "enum": []}, "one option or more"),
            ({"type": "string", "enum": ["a", "a"]}, "each of them once"),
            ({"type": "string", "enum": ["a", 1]}, "those in `enum` are not"),
            ({"type": "string", "enum": "ab"}, "those in `enum` are not"),
            ({"type": "string", "enum": ["a"], "minLength": 1}, "a choice has no `minLength`"),
            ({"type": "string", "enum": ["a", "b"], "enumNames": ["A"]}, "1 titles for 2 options"),
            ({"type": "string", "enum": ["a"], "default": "b"}, 'must be one of "a"'),
            ({"type": "string", "oneOf": "ab"}, "`oneOf` is a list"),
            ({"type": "string", "oneOf": [{"const": "a"}]}, "a `const` and a `title`"),
            ({"type": "string", "oneOf": [{"const": 1, "title": "x"}]}, "those in `oneOf` are not"),
            ({"type": "string", "oneOf": OPTIONS, "enum": ["a"]}, "a choice with titles has no `enum`"),
            ({"type": "array", "items": {"type": "string"}}, "an array is a choice of several"),
            ({"type": "array"}, "has its options in `items`"),
            ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "minItems": 2}, "there are 1 options"),
            ({"type": "array", "items": {"anyOf": OPTIONS}, "default": "a"}, "expected array, got string"),
            ({"type": "array", "items": {"anyOf": OPTIONS}, "uniqueItems": True}, "has no `uniqueItems`"),
            ({"type": "object", "properties": {}}, "a form is flat"),
            ({"type": ["string", "null"]}, "each field of one kind"),
            ({"type": "null"}, "each field of one kind"),
            ({"$ref": "#/$defs/A"}, "each field of one kind"),
            ("string", "described by an object"),
        ],
    )
    def test_what_no_form_may_say(self, field: Any, fault: str) -> None:
        """What the protocol has no place for is refused, and the field named with what to change (ELC-2, ELC-3)."""
        with pytest.raises(ValueError, match=r"^field 'trip': ") as caught:
            check_form(form(trip=field), None)
        assert fault in str(caught.value)

    @pytest.mark.parametrize(
        ("schema", "fault"),
        [
            ({"type": "array"}, '"type": "object"'),
            ("object", '"type": "object"'),
            ({"type": "object"}, "its fields in `properties`"),
            ({**form(), "additionalProperties": False}, "no `additionalProperties`"),
            ({**form(), "$defs": {}}, r"no `\$defs`"),
            ({**form(), "required": ["x"]}, "`required` names 'x'"),
            ({**form(), "required": [["x"]]}, "`required` names"),
            ({**form(), "required": "x"}, "`required` is a list"),
            ({"type": "object", "properties": {"": {"type": "string"}}}, "not empty"),
            ({"type": "object", "properties": {1: {"type": "string"}}}, "name is a text"),
        ],
    )
    def test_what_is_no_form(self, schema: Any, fault: str) -> None:
        """A form is one flat object of fields with names (ELC-2)."""
        with pytest.raises(ValueError, match=fault):
            check_form(schema, None)

    def test_bounds_of_a_form(self) -> None:
        """No form has more fields, and no field more options, than a person can look at."""
        names = [f"f{number}" for number in range(MAX_FIELDS + 1)]
        options = [f"o{number}" for number in range(MAX_OPTIONS + 1)]
        check_form(form(**{name: {"type": "string", "enum": options[1:]} for name in names[1:]}), None)
        with pytest.raises(ValueError, match="100 fields at most, and this one 101"):
            check_form(form(**{name: {"type": "boolean"} for name in names}), None)
        with pytest.raises(ValueError, match="1000 options at most, and this one 1001"):
            check_form(form(x={"type": "string", "enum": options}), None)

    @pytest.mark.parametrize(
        ("field", "fault"),
        [
            ({"type": "string", "default": "a"}, "a `default` on booleans only"),
            ({"type": "string", "oneOf": OPTIONS}, "no `oneOf`"),
            ({"type": "array", "items": {"anyOf": OPTIONS}}, "no choice of several"),
        ],
    )
    def test_older_revisions_know_less(self, field: dict[str, Any], fault: str) -> None:
        """2025-06-18 has no titled options, no choice of several, and defaults on booleans alone (ELC-3, ELC-4)."""
        with pytest.raises(ValueError, match=f"field 'x': protocol revision 2025-06-18 has {fault}"):
            check_form(form(x=field), revision("2025-06-18"))

    def test_revisions_without_forms(self) -> None:
        """Before 2025-06-18 there were no forms at all (ELC-1)."""
        with pytest.raises(ValueError, match="2025-03-26 has no forms"):
            check_form(form(), revision("2025-03-26"))


class TestFitForm:
    def test_newer_revisions_take_it_as_it_is(self) -> None:
        """Where titled choices exist the form is sent as the author wrote it (ELC-3)."""
        schema = form(x=FIVE["one with titles"])
        assert fit_form(schema, REVISIONS[0]) is schema
        with pytest.raises(ValueError, match="field 'x'"):
            fit_form(form(x={}), REVISIONS[0])

    def test_titles_and_defaults_for_an_older_one(self) -> None:
        """On 2025-06-18 titles become `enumNames`, and only the defaults of booleans stay (ELC-3, ELC-4)."""
        schema = form(one=FIVE["one with titles"], yes={"type": "boolean", "default": True}, n={"type": "integer"})
        schema |= {"$schema": "x", "title": "Form", "required": ["one"]}
        before = copy.deepcopy(schema)
        fitted = fit_form(schema, revision("2025-06-18"))
        assert fitted == {
            **form(
                one={"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
                yes={"type": "boolean", "default": True},
                n={"type": "integer"},
            ),
            "required": ["one"],
        }
        assert schema == before

    def test_what_cannot_be_said_there(self) -> None:
        """A choice of several has no older words: the form is refused, not changed in meaning (ELC-3)."""
        with pytest.raises(ValueError, match="field 'x': protocol revision 2025-06-18 has no choice of several"):
            fit_form(form(x=FIVE["several"]), revision("2025-06-18"))
        with pytest.raises(ValueError, match="2025-03-26 has no forms"):
            fit_form(form(x={"type": "string"}), revision("2025-03-26"))

    @given(whole_forms())
    def test_the_older_words_mean_the_same(self, schema: dict[str, Any]) -> None:
        """What fits the older wording fits the form itself, and the other way round (ELC-3)."""
        try:
            fitted = fit_form(schema, revision("2025-06-18"))
        except ValueError:
            assert any(field["type"] == "array" for field in schema["properties"].values())
            return
        check_form(fitted, revision("2025-06-18"))
        content = filled(schema, dict.fromkeys(schema["required"], "a"))
        assert problems(fitted, content) == problems(schema, content)


# --- content ---------------------------------------------------------------------------------------------------------


class TestFilled:
    def test_missing_fields_get_their_default(self) -> None:
        """A yes without content comes out with every default; what was entered stays (ELC-4)."""
        schema = form(
            name={"type": "string", "default": "x"}, n={"type": "integer", "default": 3}, free={"type": "string"}
        )
        assert filled(schema, {}) == {"name": "x", "n": 3}
        assert filled(schema, {"name": "", "n": 0, "other": True}) == {"name": "", "n": 0, "other": True}

    def test_emptied_fields_stay_empty(self) -> None:
        """None is a field that the person emptied: it is left out, without its default; a needed one is told later."""
        schema = {**form(a={"type": "string", "default": "x"}, b={"type": "string"}), "required": ["b"]}
        assert filled(schema, {"a": None, "b": None}) == {"b": None}
        assert problems(schema, {"b": None}) == ["$.b: expected string, got null"]

    def test_nothing_is_shared(self) -> None:
        """Who changes the content does not change the form."""
        schema = form(x=copy.deepcopy(FIVE["several"]))
        content: dict[str, Any] = {}
        filled(schema, content)["x"].append("a")
        assert schema == form(x=FIVE["several"])
        assert content == {}

    @given(whole_forms())
    def test_defaults_fit(self, schema: dict[str, Any]) -> None:
        """All that can be wrong with a form's defaults alone is that a needed field has none (ELC-4, ELC-5)."""
        bare = [name for name in schema["required"] if "default" not in schema["properties"][name]]
        assert problems(schema, filled(schema, {})) == [f"$.{name}: a value is required" for name in bare]


class TestProblems:
    @pytest.mark.parametrize(
        ("field", "good", "bad"),
        [
            ({"type": "string"}, ["", "x" * 10_000], [1, None, True, ["x"], {}]),
            ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü", "😀😀"], ["a", "abcd", ""]),
            ({"type": "integer"}, [0, -3, 3.0, 10**30], [3.5, True, "3", None, math.inf, math.nan, 10**400]),
            ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 3, 3.0], [0, 4, 1e300]),
            ({"type": "number"}, [0, 1.5, -1e308, 10**30], [True, "1", math.inf, -math.inf, math.nan, 10**400]),
            ({"type": "number", "minimum": 0.5}, [0.5, 1], [0.4, 0]),
            ({"type": "boolean"}, [True, False], [1, 0, "true", None]),
            *((FIVE[name], ["a", "b"], ["c", "A", "", 1, ["a"], None]) for name in FIVE if "several" not in name),
            (FIVE["several"], [[], ["a"], ["b", "a"]], ["a", ["c"], ["a", "a"], [1], [["a"]], None, {}]),
            (FIVE["several with titles"], [["a"], ["a", "b"]], [[], ["A"]]),
            ({**FIVE["several"], "maxItems": 1}, [[], ["b"]], [["a", "b"]]),
        ],
    )
    def test_what_fits_and_what_does_not(self, field: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
        """Types, bounds, options and numbers of options are kept; a boolean is no number, 3.0 is an integer (ELC-5)."""
        for value in good:
            assert problems(form(x=field), {"x": value}) == []
        for value in bad:
            (problem,) = problems(form(x=field), {"x": value})
            assert problem.startswith("$.x: ")

    @pytest.mark.parametrize(
        ("name", "good", "bad"),
        [
            (
                "email",
                ["a@b.de", "a.b+c@example.co.uk", "x@localhost"],
                [
                    "",
                    "a",
                    "@b",
                    "a@",
                    "a@b@c",
                    "a b@c.de",
                    ".a@b.de",
                    "a..b@c.de",
                    "a@-b.de",
                    "a@b..de",
                    "a@b\n",
                    "ä@b.de",
                ]
                + ["a" * 65 + "@b.de", "a@" + "b." * 200 + "de"],
            ),
            (
                "uri",
                ["https://example.com/a?b#c", "urn:isbn:1"],
                ["", "example.com", "/a", "https://a b", "http://ä.de"],
            ),
            ("date", ["2026-02-28", "0001-01-01"], ["", "2026-02-30", "2026-2-3", "20260203", "2026-02-03T00:00:00Z"]),
            (
                "date-time",
                ["2026-07-28T09:30:00Z", "2026-07-28t09:30:00.123456789+02:00"],
                [
                    "2026-07-28",
                    "2026-07-28T09:30:00",
                    "2026-07-28 09:30:00Z",
                    "2026-07-28T09:30Z",
                    "2026-13-01T00:00:00Z",
                ]
                + [
                    "2026-07-28T09:30:00+0200",
                    "2026-07-28T24:00:00Z",
                    "2026-07-28T09:30:00Z\n",
                    "２026-07-28T09:30:00Z",
                ],
            ),
        ],
    )
    def test_formats(self, name: str, good: list[str], bad: list[str]) -> None:
        """The four formats are checked, and the fault says how one looks (ELC-2, ELC-5)."""
        schema = form(x={"type": "string", "format": name})
        assert [text for text in good if problems(schema, {"x": text})] == []
        assert [text for text in bad if not problems(schema, {"x": text})] == []
        assert problems(schema, {"x": "?"})[0].startswith(f"$.x: is no {name}")

    def test_required_and_unknown_fields(self) -> None:
        """A needed field must be there, others may be absent, and what the form does not have is ignored (ELC-5)."""
        schema = {**form(a={"type": "string"}, b={"type": "boolean"}), "required": ["a"]}
        assert problems(schema, {"a": "x", "else": {"deep": []}}) == []
        assert problems(schema, {"b": 1}) == ["$.a: a value is required", "$.b: expected boolean, got integer"]

    def test_places(self) -> None:
        """Each problem begins with its place, whatever the field is called, and stays one short line."""
        names = {"odd name": "$", 'q"': "$", "a\nb": "$", "x" * 500: "$", "plain": "$.plain: "}
        schema = form(**{name: {"type": "string"} for name in names})
        for (_, place), problem in zip(names.items(), problems(schema, dict.fromkeys(names, 1)), strict=True):
            assert problem.startswith(place)
            assert problem.isprintable()
            assert len(problem) < 160

    def test_long_lists_of_options(self) -> None:
        """A fault names the first options and how many more there are, printable even where a peer wrote them."""
        schema = form(x={"type": "string", "enum": [f"o{number}\x1b" for number in range(20)]})
        (problem,) = problems(schema, {"x": "?"})
        assert problem.endswith("and 12 more")
        assert problem.isprintable()

    @pytest.mark.parametrize("content", [None, [], "x", 1, True])
    def test_content_that_is_no_object(self, content: Any) -> None:
        """Content is an object of the fields' values (ELC-5)."""
        assert len(problems(form(), content)) == 1

    @given(whole_forms(), CONTENT)
    def test_what_a_schema_engine_says_too(self, schema: dict[str, Any], content: dict[str, Any]) -> None:
        """The form's meaning is that of its JSON Schema; only the same option twice is refused beyond it (ELC-5)."""
        found = problems(schema, content)
        twice = any("once at most" in problem for problem in found)
        if any(isinstance(value, float) and not math.isfinite(value) for value in content.values()):
            return
        assert twice or bool(found) == bool(Schema(schema).errors(content))


class TestAnything:
    @given(JSON | NEAR_FORMS, JSON)
    def test_no_json_breaks_it(self, schema: Any, content: Any) -> None:
        """Whatever a peer sends as form or content, the answer is a judgement or a ValueError, never a crash."""
        secret_field(schema)
        if isinstance(schema, dict) and isinstance(content, dict):
            filled(schema, content)
        try:
            check_form(schema, None)
        except ValueError:
            for act in (lambda: problems(schema, content), lambda: fit_form(schema, revision("2025-06-18"))):
                with pytest.raises(ValueError):
                    act()
            return
        assert isinstance(problems(schema, content), list)
        assert "properties" in fit_form(schema, REVISIONS[0])
        assert msgspec.convert(schema, FormSchema).properties.keys() == schema["properties"].keys()
