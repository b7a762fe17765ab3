"""What authors get wrong about questions is told at once, by name, with the fix."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from jackfield import Elicit, RegistrationError, Resolve, Server
from jackfield.protocol.revisions import REVISIONS


def sure() -> Elicit[bool]:
    return Elicit("Sure?", bool)


async def as_default(sure: bool = Resolve(sure)) -> str:  # type: ignore[assignment]
    return "done"


async def without_function(sure: Annotated[bool, Resolve]) -> str:
    return "done"


async def as_the_type(sure: Resolve) -> str:
    return "done"


async def class_as_default(sure: Any = Resolve) -> str:
    return "done"


@pytest.mark.parametrize("tool", [as_default, without_function, as_the_type, class_as_default])
def test_a_resolve_that_would_ask_nobody_is_refused(tool: Any) -> None:
    """As a default, or without its function, a Resolve would leave the consent to the model (P12)."""
    with pytest.raises(RegistrationError, match=r"parameter 'sure'.*Annotated\[the type, Resolve\(function\)\]"):
        Server("x").add_tool(tool)


@pytest.mark.parametrize("kind", [["a", "b"], ("a",), {"a"}, "Form", 7, None])
def test_a_form_of_what_is_no_type_is_refused(kind: Any) -> None:
    """A list of options, as other toolkits take it, gets an error that says what to write."""
    with pytest.raises(RegistrationError, match="a form is a type"):
        _ = Elicit("Which?", kind).form


@pytest.mark.parametrize("message", ["Please type your password", "Your API key?"])
def test_a_message_that_asks_for_a_secret_is_refused(message: str) -> None:
    """A form of one free text asks for what its message says; of several fields each says it itself (ELC-6)."""
    with pytest.raises(RegistrationError, match="asks for a secret"):
        Elicit(message, str).params(REVISIONS[0])
    Elicit(message, bool).params(REVISIONS[0])
    Elicit("Your name?", str).params(REVISIONS[0])
