"""Arguments: the schema of a signature, decoding, mending, and the errors (F46, F48-F51, F53)."""

import dataclasses
import datetime
import enum
import uuid
from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta, Raw, Struct

from jackfield.protocol.errors import PARSE_ERROR, ProtocolError, RegistrationError, ToolError
from jackfield.server.arguments import Arguments, ArgumentsError, arguments_of


def built(fn: Any, *, strict: bool = False, skip: frozenset[str] = frozenset()) -> Arguments:
    return arguments_of(fn, skip=skip, strict=strict)


def taken(fn: Any, data: str, *, strict: bool = False) -> dict[str, Any]:
    """The arguments as the engine gets them: decoded, and repaired when that fails."""
    arguments = built(fn, strict=strict)
    try:
        got = arguments.decode(data.encode())
    except msgspec.DecodeError as error:
        got = arguments.repair(data.encode(), error)
    return msgspec.structs.asdict(got)


def refused(fn: Any, data: str, *, strict: bool = False) -> str:
    with pytest.raises(ArgumentsError) as caught:
        taken(fn, data, strict=strict)
    assert isinstance(caught.value, ToolError)
    assert caught.value.problems
    return str(caught.value)


def add(a: int, b: int = 2) -> int:
    """Add.

    Args:
        a: The first.
    """
    return a + b


class Color(enum.Enum):
    """What it looks like."""

    RED = "red"


@dataclasses.dataclass
class Item:
    """A thing."""

    name: str
    color: Color = Color.RED
    parts: list["Item"] = dataclasses.field(default_factory=list)


class TestSchema:
    def test_signature_becomes_a_schema(self):
        """Types, defaults, required names and docstring texts are all in the input schema (TOOL-3)."""
        assert built(add).schema == {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "description": "The first."},
                "b": {"type": "integer", "default": 2},
            },
            "required": ["a"],
        }

    def test_no_parameters(self):
        """A tool without parameters still lists properties (F53)."""
        assert built(lambda: 1).schema == {"type": "object", "properties": {}}

    def test_skipped_parameters_are_not_listed(self):
        """What the caller fills is neither in the schema nor among the names."""
        arguments = built(add, skip=frozenset({"a"}))
        assert list(arguments.schema["properties"]) == ["b"]
        assert arguments.names == ("b",)

    def test_nested_types_are_shared_and_nothing_dangles(self):
        """A type used often stands once under $defs, siblings of its $ref are kept, recursion too (F46)."""

        def fn(one: Annotated[Item, "the one"], many: list[Item], color: Color = Color.RED) -> None: ...

        schema = built(fn).schema
        properties = schema["properties"]
        assert properties["one"] == {"$ref": "#/$defs/Item", "description": "the one"}
        assert properties["color"] == {"$ref": "#/$defs/Color", "default": "red"}
        assert set(schema["$defs"]) == {"Item", "Color"}
        assert schema["$defs"]["Color"]["type"] == "string"
        jsonschema_rs.meta.validate(schema)
        assert jsonschema_rs.is_valid(schema, {"one": {"name": "a", "parts": [{"name": "b"}]}, "many": []})
        assert not jsonschema_rs.is_valid(schema, {"one": {"name": "a", "parts": [{"name": 1}]}, "many": []})

    def test_schema_is_the_same_each_time(self):
        """The same function gives the same bytes (TOOL-1)."""

        def fn(c: Color, i: Item, s: set[str], l: Literal["b", "a"]) -> None: ...  # noqa: E741

        assert msgspec.json.encode(built(fn).schema) == msgspec.json.encode(built(fn).schema)

    def test_texts_of_parameters(self):
        """A note in text, a Meta and the docstring describe a parameter; the annotation wins."""

        def fn(a: Annotated[int, "note"], b: Annotated[int, Meta(title="B", description="meta")], c: int) -> None:
            """Do.

            Args:
                a: doc
                c: doc
            """

        properties = built(fn).schema["properties"]
        assert properties["a"]["description"] == "note"
        assert (properties["b"]["title"], properties["b"]["description"]) == ("B", "meta")
        assert properties["c"]["description"] == "doc"

    def test_defaults_that_are_no_json_stay_out(self):
        """A sentinel or an infinity makes a parameter optional without standing in the schema (F51)."""
        sentinel = object()

        def fn(a: Any = sentinel, b: float = float("inf"), c: int | msgspec.UnsetType = msgspec.UNSET) -> None: ...

        assert built(fn).schema == {
            "type": "object",
            "properties": {"a": {}, "b": {"type": "number"}, "c": {"type": "integer"}},
        }
        assert taken(fn, "{}") == {"a": sentinel, "b": float("inf"), "c": msgspec.UNSET}

    def test_none_as_default_allows_null(self):
        """`x: int = None` takes null, which the listed default invites, and keeps its description."""

        def fn(x: Annotated[int, Meta(ge=1, description="d")] = None) -> None: ...  # noqa: RUF013

        assert built(fn).schema["properties"]["x"] == {
            "description": "d",
            "anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
            "default": None,
        }
        assert taken(fn, '{"x": null}') == taken(fn, "{}") == {"x": None}

    def test_limits_are_shown_and_enforced(self):
        """Numeric and length limits are in the schema and hold, on one member of a union too (F51)."""

        def fn(
            n: Annotated[int | None, Meta(ge=1, lt=5)], s: Annotated[str, Meta(max_length=2, pattern="^a")] = "a"
        ) -> None: ...

        properties = built(fn).schema["properties"]
        assert properties["n"]["anyOf"][0] == {"type": "integer", "minimum": 1, "exclusiveMaximum": 5}
        assert properties["s"] == {"type": "string", "maxLength": 2, "pattern": "^a", "default": "a"}
        assert taken(fn, '{"n": null}')["n"] is None
        assert "$.n" in refused(fn, '{"n": 5}')
        assert "$.s" in refused(fn, '{"n": 1, "s": "abc"}')

    def test_two_parameters_with_one_name_on_the_wire(self):
        """Names on the wire must differ."""

        def fn(a: int = 1, b: int = msgspec.field(default=2, name="a")) -> None: ...

        with pytest.raises(RegistrationError, match="fn: "):
            built(fn)

    def test_a_parameter_keeps_its_name(self):
        """A name such as `from_` is not changed."""

        def fn(from_: int, schema: str = "", copy: str = "") -> None: ...

        assert list(built(fn).schema["properties"]) == ["from_", "schema", "copy"]
        assert taken(fn, '{"from_": 1}') == {"from_": 1, "schema": "", "copy": ""}

    @pytest.mark.parametrize("annotation", [complex, list[complex], dict[tuple[int, int], str], type, "int"])
    def test_what_cannot_be_json_is_refused_by_name(self, annotation: Any):
        """A type that JSON cannot hold is an error at registration that names the parameter."""

        def fn(ok: int, bad: Any) -> None: ...

        fn.__annotations__["bad"] = Annotated[str, Meta(ge=1)] if annotation == "int" else annotation
        with pytest.raises(RegistrationError, match="fn: parameter 'bad'"):
            built(fn)


class TestCalls:
    def test_positional_call(self):
        """Without keyword-only parameters the decoded values are the call, in order."""
        arguments = built(add)
        assert arguments.positional
        assert add(*msgspec.structs.astuple(arguments.decode(b'{"a": 40}'))) == 42

    def test_keyword_only(self):
        """Keyword-only parameters are passed by name."""

        def fn(a: int, /, b: int, *, c: int = 3) -> None: ...

        arguments = built(fn)
        assert not arguments.positional
        assert arguments.values(arguments.decode(b'{"b": 2, "a": 1}')) == ([1, 2], {"c": 3})

    def test_raw_is_decoded_as_bytes_are(self):
        """The arguments may come as the undecoded part of a message."""
        assert msgspec.structs.astuple(built(add).decode(Raw(b'{"a": 1}'))) == (1, 2)

    def test_mutable_defaults_are_fresh_for_each_call(self):
        """What one call does to a default or a factory's value is not seen by the next (F51)."""

        def fn(
            a: list[int] = [1],  # noqa: B006
            b: list[int] = msgspec.field(default_factory=list),
            c: dict[str, int] = dataclasses.field(default_factory=dict),
            d: Item = Item("x"),
        ) -> None: ...

        arguments = built(fn)
        assert "required" not in arguments.schema
        assert arguments.schema["properties"]["b"]["default"] == []
        first, second = arguments.decode(b"{}"), arguments.decode(b"{}")
        first.a.append(2), first.b.append(3), first.c.update(x=1)  # type: ignore[func-returns-value]
        first.d.parts.append(Item("y"))
        assert msgspec.structs.astuple(second) == ([1], [], {}, Item("x"))

    @pytest.mark.parametrize("number", [2**53 + 1, 2**63, 10**30, -(10**30)])
    def test_integers_keep_every_digit(self, number: int):
        """Integers of any size arrive exactly, typed or not (F51)."""

        def fn(n: int, a: Any) -> None: ...

        assert taken(fn, f'{{"n": {number}, "a": [{number}]}}') == {"n": number, "a": [number]}

    def test_unknown_arguments_are_ignored(self):
        """Arguments that the function does not know do no harm."""
        assert taken(add, '{"a": 1, "z": [1]}') == {"a": 1, "b": 2}


class TestText:
    TEXTS = ("12345", "1e5", "true", "null", '{"a":1}', "[1]", '"quoted"', "")

    @pytest.mark.parametrize("text", TEXTS)
    @pytest.mark.parametrize("strict", [True, False])
    def test_texts_are_delivered_letter_for_letter(self, text: str, strict: bool):
        """A parameter that takes text gets just the text, beside None or a list too, also in a mended call (F48)."""

        def fn(s: str, o: str | None, either: str | list[int], whatever: Any, n: int = 1) -> None: ...

        given = {"s": text, "o": text, "either": text, "whatever": text, "n": 1}
        assert taken(fn, msgspec.json.encode(given).decode(), strict=strict) == given
        mended = msgspec.json.encode(given).decode().replace('"n":1}', '"n":1.0}')
        assert taken(fn, mended, strict=strict) == given

    @pytest.mark.parametrize("text", ["5", "true", "null", "1.0"])
    def test_texts_are_no_scalars(self, text: str):
        """A text is never turned into a number, a boolean or null (F48)."""

        def fn(n: int = 1, b: bool = True, f: float = 1.0, o: int | None = None) -> None: ...

        for name in "nbfo":
            assert f"$.{name}" in refused(fn, msgspec.json.encode({name: text}).decode())

    def test_objects_and_arrays_from_text(self):
        """JSON text is decoded where the schema wants an object or array and allows no text (F49)."""

        def fn(l: list[int], d: dict[str, Any], i: Item, o: list[str] | None) -> None: ...  # noqa: E741

        given = {"l": "[1, 2.0]", "d": '{"a": [1]}', "i": '{"name": "x"}', "o": '["a"]'}
        data = msgspec.json.encode(given).decode()
        assert taken(fn, data) == {"l": [1, 2], "d": {"a": [1]}, "i": Item("x"), "o": ["a"]}
        said = refused(fn, data, strict=True)
        assert all(f"$.{name}" in said for name in given)

    def test_whole_arguments_from_text(self):
        """The arguments as a whole may be JSON text, unless strict (F49)."""
        assert taken(add, '"{\\"a\\": 1}"') == {"a": 1, "b": 2}
        assert "must be an object, got string" in refused(add, '"{\\"a\\": 1}"', strict=True)
        assert "must be an object, got string" in refused(add, '"[1]"')

    @pytest.mark.parametrize("text", ["[1,", "{}", "null", "5", "x", "[" * 3000])
    def test_broken_or_other_text_names_the_parameter(self, text: str):
        """Text that is not the JSON of what is wanted gives an error with the parameter's name (F49)."""

        def fn(l: list[int]) -> None: ...  # noqa: E741

        assert refused(fn, msgspec.json.encode({"l": text}).decode()).startswith("$.l: ")

    def test_text_that_is_nested_too_deeply(self):
        """Text whose JSON is nested deeper than a message may be is not decoded."""

        def fn(l: list[Any]) -> None: ...  # noqa: E741

        assert refused(fn, msgspec.json.encode({"l": "[" * 65 + "]" * 65}).decode()).startswith("$.l: ")
        assert taken(fn, msgspec.json.encode({"l": "[" * 64 + "]" * 64}).decode())

    def test_text_inside_values_is_not_opened(self):
        """Only a parameter itself is opened, not what lies deeper."""

        def fn(l: list[list[int]]) -> None: ...  # noqa: E741

        assert "$.l[0]" in refused(fn, '{"l": ["[1]"]}')


class TestRepair:
    @pytest.mark.parametrize("raw", [b"null", b" null ", None, msgspec.UNSET])
    def test_missing_arguments_are_empty(self, raw: Any):
        """No arguments, and null, count as an empty object (F50)."""

        def fn(a: int = 1) -> None: ...

        assert built(fn).repair(raw, ValueError()).a == 1

    @pytest.mark.parametrize(
        ("data", "kind"), [("[1]", "array"), ("5", "number"), ("true", "boolean"), ("1.5", "number")]
    )
    def test_other_shapes_are_refused(self, data: str, kind: str):
        """Arguments that are no object never reach the function (F50)."""
        assert refused(add, data) == f"$: arguments must be an object, got {kind}"

    def test_every_fault_is_named(self):
        """One error names each argument that is missing or wrong, with its path (F50)."""

        def fn(a: int, b: str, c: list[int], d: int, e: int, f: int, g: int, h: int) -> None: ...

        said = refused(fn, '{"a": "x", "b": [1], "c": [1, "y"], "d": 1, "e": 1, "f": 1, "g": 1}')
        for path in ("$.a", "$.b", "$.c[1]", '"h"'):
            assert path in said
        assert "$.d" not in said

    @pytest.mark.parametrize(
        ("text", "number"), [("1.0", 1), ("1e2", 100), ("-0.0", 0), ("1e30", 10**30), ("1e23", 10**23)]
    )
    def test_whole_floats_are_integers(self, text: str, number: int):
        """An integral float is an integer at any depth, digit for digit; elsewhere it stays what it is."""

        class Point(Struct):
            x: int

        def fn(n: int, l: list[int | None], p: dict[str, Point], f: float, a: Any) -> None: ...  # noqa: E741

        data = f'{{"n": {text}, "l": [{text}, null], "p": {{"k": {{"x": {text}}}}}, "f": {text}, "a": {text}}}'
        got = taken(fn, data)
        assert (got["n"], got["l"], got["p"]["k"].x) == (number, [number, None], number)
        assert type(got["n"]) is int
        assert (type(got["f"]), type(got["a"])) == (float, float)

    def test_fractions_are_no_integers(self):
        """1.5 is no integer."""
        assert "$.a" in refused(add, '{"a": 1.5}')

    @pytest.mark.parametrize("data", ['{"a": 1e999}', '{"a": "\\ud800"}', '{"a": ', '{"a": "\xff"}'])
    def test_what_is_no_json_is_a_parse_error(self, data: str):
        """Arguments that cannot be read at all are a JSON-RPC parse error."""
        raw = data.encode("latin-1")
        with pytest.raises(ProtocolError) as caught:
            built(add).repair(raw, ValueError())
        assert caught.value.code == PARSE_ERROR

    def test_faults_beyond_the_schema_are_told(self):
        """Where the schema finds nothing, what the type itself said is the error: it is never empty."""

        @dataclasses.dataclass
        class Even:
            n: int

            def __post_init__(self) -> None:
                if self.n % 2:
                    raise ValueError("n must be even")

        def fn(e: list[Even]) -> None: ...

        assert refused(fn, '{"e": [{"n": 2}, {"n": 3}]}') == "$.e[1]: n must be even"

    def test_schema_over_a_limit(self):
        """Where the schema is too large to be checked, the error is what decoding said."""

        deep: Any = int
        for _ in range(100):
            deep = list[deep]

        def fn(v: Any) -> None: ...

        fn.__annotations__["v"] = deep
        assert refused(fn, '{"v": [1]}') == "$.v[0]: Expected `array`, got `int`"

    def test_mending_alternatives_costs_their_number(self):
        """Deep values under recursive alternatives are mended in linear time."""

        class Leaf(Struct, tag=True):
            value: int

        class Pair(Struct, tag=True):
            left: "Leaf | Pair"
            right: "Leaf | Pair"

        Pair.__annotations__ = {"left": Leaf | Pair, "right": Leaf | Pair}

        def fn(tree: Leaf | Pair) -> None: ...

        leaf = '{"type": "Leaf", "value": 1.0}'
        tree = leaf
        for _ in range(60):
            tree = f'{{"type": "Pair", "left": {tree}, "right": {leaf}}}'
        assert taken(fn, f'{{"tree": {tree}}}')["tree"].right.value == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "x", "y"]), inner, max_size=3),
    max_leaves=6,
)


class Pair(Struct):
    x: int
    y: str | None = None


class TestAgreement:
    @given(value=JSON)
    @settings(max_examples=150, deadline=None)
    @pytest.mark.parametrize(
        "annotation",
        [
            int, float, bool, str, None, int | None, str | list[int], list[str], dict[str, int], Pair,
            list[Pair | None], Literal["a", 1, None], tuple[int, str], Annotated[int, Meta(ge=0, le=10)],
            dict[str, Any], Item,
        ],
    )  # fmt: skip
    def test_schema_and_decode_agree(self, annotation: Any, value: Any):
        """A value is taken, mended at most, exactly when the listed schema allows it (TOOL-3)."""

        def fn(v: Any) -> None: ...

        fn.__annotations__["v"] = annotation
        data = msgspec.json.encode({"v": value}).decode()
        allowed = jsonschema_rs.is_valid(built(fn, strict=True).schema, {"v": value})
        if allowed:
            taken(fn, data, strict=True)
        else:
            refused(fn, data, strict=True)


def test_faults_that_no_schema_finds_are_told_together() -> None:
    """A date and a UUID that are none are told beside the faults of the schema, all in one round (F50)."""

    def many(a: int, b: datetime.date, c: uuid.UUID, e: list[int]) -> None: ...

    made = arguments_of(many, skip=set(), strict=False)
    with pytest.raises(ArgumentsError) as caught:
        made.repair(b'{"a":"x","b":"never","c":"none","e":["y"]}', ValueError())
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["$.a", "$.e[0]", "$.b", "$.c"]
