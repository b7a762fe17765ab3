"""Limits: each limits something, or is refused by name."""

import math

import msgspec
import pytest

from jackfield.protocol.errors import RegistrationError
from jackfield.protocol.limits import Limits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("running", 0),
        ("line", -1),
        ("line", 1.5),
        ("depth", True),
        ("request_timeout", None),
        ("grace", math.nan),
        ("start", math.inf),
        ("probe", "3"),
    ],
)
def test_a_limit_that_limits_nothing_is_refused(name: str, value: object) -> None:
    """Zero, negative, endless and other values give an error that names the limit."""
    with pytest.raises(RegistrationError, match=f"limit `{name}` is {value!r}"):
        Limits(**{name: value})
    with pytest.raises(RegistrationError, match=f"limit `{name}`"):
        msgspec.structs.replace(Limits(), **{name: value})


def test_whole_seconds_are_seconds() -> None:
    """A time may be given as an integer."""
    assert Limits(grace=1).grace == 1
