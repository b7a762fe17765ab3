"""Reading arguments again, and the few things that are mended."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from jackfield.protocol.errors import PARSE_ERROR, ProtocolError
from jackfield.server.mending import opened, placed, read, read_arguments, whole_numbers, write


def test_numbers_survive_digit_for_digit():
    """Fractions that are not mended go back to JSON with every digit."""
    data = b'{"a":0.12345678901234567890123,"b":1.10,"c":1000000000000000000000000000000}'
    assert write(read(data)) == data


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a":1e999}', b'"\\ud800"', b"NaN", b"[" * 5000, b"1" * 5000])
def test_no_json(raw: bytes):
    """What cannot be read is a parse error."""
    with pytest.raises(ProtocolError) as caught:
        read(raw)
    assert caught.value.code == PARSE_ERROR


@pytest.mark.parametrize(
    ("raw", "lenient", "expected"),
    [
        (None, True, {}),
        (msgspec.Raw(b"null"), False, {}),
        (b'"{}"', True, {}),
        (b'"{}"', False, "{}"),
        (b'"[]"', True, "[]"),
        (b"[]", True, []),
    ],
)
def test_whole_arguments(raw: Any, lenient: bool, expected: Any):
    """Null is empty; an object may be text when lenient; other shapes stay to be refused (F49, F50)."""
    assert read_arguments(raw, lenient=lenient) == expected


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ("[1]", {"type": "array"}, [1]),
        ("[1]", {"type": "object"}, "[1]"),
        ("{}", {"type": ["object", "null"]}, {}),
        ("null", {"type": ["object", "null"]}, "null"),
        ("[1]", {"type": ["array", "string"]}, "[1]"),
        ("[1]", {}, "[1]"),
        ("5", {"type": "integer"}, "5"),
        ([1], {"type": "object"}, [1]),
    ],
)
def test_opened(value: Any, schema: Any, expected: Any):
    """Text becomes an object or array only where the schema wants just that and allows no text (F48, F49)."""
    assert opened(value, schema, {}) == expected


@pytest.mark.parametrize(
    "number", ["1e309", "1e400", "-1e5000", "1e1000000", "1e999999999999", "1" * 4301, "1" * 100_000]
)
def test_text_with_a_number_out_of_range_stays_text(number: str):
    """A number that no double holds, or of more digits than can be read, is not opened out of JSON text (F49, T13)."""
    for text, kind in ((f"[{number}]", "array"), (f'{{"a":[{number}]}}', "object")):
        assert opened(text, {"type": kind}, {}) == text
    assert read_arguments(f'"[{number}]"'.encode(), lenient=True) == f"[{number}]"


def test_a_huge_exponent_is_never_written_out():
    """A Decimal of a million digits stays one; zero is zero whatever its exponent (F49, T13)."""
    huge = Decimal("1e1000000")
    assert whole_numbers(huge, [{"type": "integer"}], {}) is huge
    assert whole_numbers(Decimal("0e999999999"), [{"type": "integer"}], {}) == 0
    assert whole_numbers(Decimal("1e300"), [{"type": "integer"}], {}) == 10**300


def test_whole_numbers():
    """Only an integral number where an integer alone is wanted changes."""
    schema = {
        "properties": {"i": {"type": "integer"}, "n": {"type": "number"}, "u": {"type": ["integer", "number"]}},
        "additionalProperties": {"type": "array", "prefixItems": [{"type": "number"}], "items": {"type": "integer"}},
    }
    given = {name: Decimal("2.0") for name in "inu"} | {"rest": [Decimal("2.0"), Decimal("2.0"), Decimal("2.5")]}
    got = whole_numbers(given, [schema], {})
    assert got == given
    assert [type(got[name]) for name in "inu"] == [int, Decimal, Decimal]
    assert [type(item) for item in got["rest"]] == [Decimal, int, Decimal]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Expected `int`", "$: Expected `int`"),
        ("Expected `int` - at `$.a[0]`", "$.a[0]: Expected `int`"),
        ("bad - at `$.x` - at `$.p[0]`", "$.p[0].x: bad"),
    ],
)
def test_placed(text: str, said: str):
    """A message begins with its place, put together from the inside out."""
    assert placed(ValueError(text)) == said
