"""Arguments that arrive as texts: prompts and resource templates (PRM-1, PRM-2, F62)."""

import datetime
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from jackfield.protocol.errors import INVALID_PARAMS, ProtocolError, RegistrationError
from jackfield.protocol.types import PromptArgument
from jackfield.server.arguments import prompt_arguments_of, template_values


class Point(Struct):
    x: int


def values(fn: Any, **given: Any) -> tuple[list[Any], dict[str, Any]]:
    return prompt_arguments_of(fn, skip=set()).values(given)


def variables(fn: Any, **given: Any) -> list[Any]:
    return template_values(fn, list(given), skip=set()).values(given)[0]


def test_listing():
    """A prompt's arguments have name, title, description and whether they are required (PRM-1)."""

    def fn(topic: Annotated[str, Meta(title="Topic")], ctx: Any, tone: str = "calm") -> None:
        """Write.

        Args:
            tone: How it sounds.
        """

    assert prompt_arguments_of(fn, skip={"ctx"}).listed == [
        PromptArgument("topic", "Topic", None, True),
        PromptArgument("tone", None, "How it sounds.", False),
    ]


def test_texts_of_other_types_are_decoded():
    """What is no text is decoded from JSON; a date is read from its text (F62)."""

    def fn(
        many: list[int], n: int, b: bool, p: Point, d: datetime.date, c: Literal["a", 1], o: int | None, f: float
    ) -> None: ...

    got, named = values(fn, many="[1, 2.0]", n="5", b="true", p='{"x": 1.0}', d="2026-01-02", c="1", o="null", f="2")
    assert got == [[1, 2], 5, True, Point(1), datetime.date(2026, 1, 2), 1, None, 2.0]
    assert named == {}


@pytest.mark.parametrize("text", ["null", "5", "true", "[1]", '"q"', "", " x "])
def test_text_stays_text(text: str):
    """A parameter that takes text gets it letter for letter, also beside None and for Any (F62)."""

    def fn(s: str, o: str | None, e: str | list[int], a: Any) -> None: ...

    assert values(fn, s=text, o=text, e=text, a=text)[0] == [text] * 4


def test_left_out_arguments_take_their_defaults():
    """An optional argument that is left out has its default, a keyword-only one goes by name (F62)."""

    def fn(when: datetime.datetime | None = None, *, many: list[int] = [1]) -> None: ...  # noqa: B006

    assert values(fn) == ([None], {"many": [1]})
    assert values(fn, unknown="x", many="[2]") == ([None], {"many": [2]})


@pytest.mark.parametrize("text", ["x", "[1", "1.5", '["a"]', '"[1]"', "{}", "1e999"])
def test_failed_decode_names_the_argument(text: str):
    """A text that does not decode is -32602 with the argument's name (PRM-2, F62)."""

    def fn(numbers: list[int]) -> None: ...

    with pytest.raises(ProtocolError, match="Invalid argument 'numbers': ") as caught:
        values(fn, numbers=text)
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("text", ["1e1000000", "[1e400]", "1" * 5000, "[" * 65 + "]" * 65, "[" * 900 + "]" * 900])
def test_a_text_that_is_no_sane_json_names_the_argument(text: str):
    """Numbers out of range and absurd nesting are a fault of the argument, found without writing them out (T13)."""
    for kind in (int, list[int], dict[str, Any]):

        def fn(x: Any) -> None: ...

        fn.__annotations__["x"] = kind
        with pytest.raises(ProtocolError, match="Invalid argument 'x'") as caught:
            values(fn, x=text)
        assert caught.value.code == INVALID_PARAMS


def test_missing_arguments_are_named():
    """Required arguments that are missing are -32602 with their names (PRM-2)."""

    def fn(a: str, b: int, c: str = "") -> None: ...

    with pytest.raises(ProtocolError, match="Missing argument: a, b") as caught:
        values(fn)
    assert caught.value.code == INVALID_PARAMS


def test_template_values():
    """Variables of a URI become the parameters' types; texts stay untouched."""

    def fn(name: str, index: int, flag: bool, day: datetime.date, tags: list[int], words: list[str]) -> None: ...

    got = variables(fn, name="007", index="5", flag="true", day="2026-01-02", tags=["1", "2"], words=["1", "x"])
    assert got == ["007", 5, True, datetime.date(2026, 1, 2), [1, 2], ["1", "x"]]
    assert variables(fn, name="", index="1", flag="false", day="2026-01-02", tags="1", words="one")[4:] == [
        [1],
        ["one"],
    ]


@pytest.mark.parametrize("given", [{"index": "x"}, {"index": "1.5"}, {"index": ["1"]}, {"index": "007"}])
def test_template_value_that_does_not_fit(given: dict[str, Any]):
    """A variable that does not fit is -32602 with its name."""

    def fn(index: int) -> None: ...

    with pytest.raises(ProtocolError, match="Invalid variable 'index'") as caught:
        variables(fn, **given)
    assert caught.value.code == INVALID_PARAMS


def test_template_and_parameters_must_match():
    """A variable without a parameter, and a parameter that nothing fills, are errors at registration."""

    def fn(name: str, page: int = 1) -> None: ...

    assert template_values(fn, ["name"], skip=set()).values({"name": "a"})[0] == ["a", 1]
    with pytest.raises(RegistrationError, match="variable 'other' has no parameter"):
        template_values(fn, ["name", "other"], skip=set())
    with pytest.raises(RegistrationError, match="parameter 'name' is no variable"):
        template_values(fn, ["page"], skip=set())
    assert template_values(fn, ["page"], skip={"name"}).required == frozenset()
