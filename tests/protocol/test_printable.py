"""Text from peers before it reaches a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Grüße, 世界 🌍", "Grüße, 世界 🌍"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth\u2028", "zero\\u200bwidth\\u2028"),
        ("\ud800", "\\ud800"),
        (b"caf\xc3\xa9 \xff", "café \\xff"),
        ("", ""),
    ],
)
def test_what_would_harm_is_escaped(text: str | bytes, shown: str) -> None:
    """Letters of any script stay; control, hidden and turning characters are written out (SEC-9)."""
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"), [("x" * 25, "xxxxxxxxxx… (15 more characters)"), (b"y" * 25, "yyyyyyyyyy… (15 more bytes)")]
)
def test_long_text_is_cut(text: str | bytes, shown: str) -> None:
    """What is cut off is counted."""
    assert printable(text, 10) == shown


@given(st.one_of(st.text(), st.binary()), st.integers(0, 50))
def test_always_one_printable_line(text: str | bytes, limit: int) -> None:
    """Whatever comes in, what goes out is one printable line that is not much longer than the limit (SEC-9)."""
    shown = printable(text, limit)
    assert shown.isprintable()
    assert len(shown) <= 10 * limit + 40
