"""Sealed texts: opened by those who have the key, for what they were sealed for, unchanged."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield import RegistrationError, Server
from jackfield.server.sealing import Sealer

ONE, TWO = b"1" * 32, "two" * 20


def sealed() -> tuple[Sealer, str]:
    """A sealer and a text of it."""
    sealer = Sealer([ONE])
    return sealer, sealer.seal(b"data", b"this request")


@given(st.binary(max_size=500), st.binary(max_size=100))
def test_what_was_sealed_opens_again(data: bytes, bound: bytes) -> None:
    """Any bytes come back as they were (MR-6)."""
    sealer = Sealer([ONE])
    assert sealer.open(sealer.seal(data, bound), bound) == data


def test_every_changed_character_is_refused() -> None:
    """Whatever character of the text is changed, to whatever else, it does not open (M01, MR-6)."""
    sealer, text = sealed()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place, was in enumerate(text):
        for other in alphabet:
            if other != was:
                with pytest.raises(ValueError):
                    sealer.open(text[:place] + other + text[place + 1 :], b"this request")


def test_every_flipped_bit_is_refused() -> None:
    """Whatever bit of the sealed bytes is flipped, they do not open (M01)."""
    sealer, text = sealed()
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    for place in range(len(raw)):
        for bit in range(8):
            flipped = raw[:place] + bytes([raw[place] ^ 1 << bit]) + raw[place + 1 :]
            with pytest.raises(ValueError):
                sealer.open(base64.urlsafe_b64encode(flipped).rstrip(b"=").decode(), b"this request")


@pytest.mark.parametrize("wrong", ["", "=", "A", "AA", "é", "\ud800", "A" * 30, "-TAMPERED", " " * 8, "\n"])
def test_what_was_never_sealed_is_refused(wrong: str) -> None:
    """Texts of any other kind, and a sealed one with anything around it, do not open (MR-6)."""
    sealer, text = sealed()
    for each in (wrong, text + wrong, wrong + text):
        if each != text:
            with pytest.raises(ValueError):
                sealer.open(each, b"this request")


@given(st.text(max_size=200))
def test_no_text_crashes_it(text: str) -> None:
    """Any text is either what was sealed or a ValueError."""
    with pytest.raises(ValueError):
        Sealer([ONE]).open(text, b"")


def test_it_opens_only_for_what_it_was_sealed_for() -> None:
    """The same text for something else does not open (MR-6)."""
    sealer, text = sealed()
    with pytest.raises(ValueError):
        sealer.open(text, b"that request")


def test_keys_can_be_rotated() -> None:
    """The first key seals, all of them open, and one that was taken out opens nothing any more (M01, MR-10)."""
    old, both, new = Sealer([ONE]), Sealer([TWO, ONE]), Sealer([TWO])
    before, after = old.seal(b"x", b""), both.seal(b"x", b"")
    assert both.open(before, b"") == both.open(after, b"") == new.open(after, b"") == b"x"
    for sealer, text in ((new, before), (old, after)):
        with pytest.raises(ValueError):
            sealer.open(text, b"")


@pytest.mark.parametrize("keys", ["x" * 40, b"x" * 40, ["short"], [ONE, b"short"], [7]])
def test_keys_that_are_none_are_refused(keys: object) -> None:
    """A single secret in place of a sequence, and a short one, are errors that name the option."""
    with pytest.raises(RegistrationError, match="state_keys"):
        Server("x", state_keys=keys)  # type: ignore[arg-type]
