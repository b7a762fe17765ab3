"""Reading signatures: every kind of callable, string annotations, and clear refusals."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import pytest

from jackfield.protocol.errors import RegistrationError
from jackfield.server.signature import EMPTY, document_of, evaluated, name_of, parameters_of, return_annotation


class Item:
    """A type of this module."""


def plain(a: int, /, b: list[Item], *, c: str = "c") -> Item:
    """Says what it does."""
    return Item()


def hints(fn: Any) -> dict[str, Any]:
    return {each.name: evaluated(fn, each.name, each.annotation) for each in parameters_of(fn)}


def test_string_annotations_become_types():
    """Annotations under `from __future__ import annotations` are evaluated in the function's module."""
    assert hints(plain) == {"a": int, "b": list[Item], "c": str}
    assert return_annotation(plain) is Item


def test_kinds_and_defaults():
    """Positional-only, keyword-only and defaults are told apart."""
    first, second, third = parameters_of(plain)
    assert (first.positional_only, second.positional_only, third.keyword_only) == (True, False, True)
    assert (first.default, third.default) == (EMPTY, "c")


def test_methods_and_callable_objects():
    """A bound method and an object with `__call__` have no `self`."""

    class Counter:
        def add(self, item: Item) -> int:
            return 1

        def __call__(self, item: Item) -> int:
            """Called."""
            return 1

    counter = Counter()
    assert hints(counter.add) == hints(counter) == {"item": Item}
    assert (name_of(counter.add), name_of(counter)) == ("add", "Counter")
    assert document_of(counter) == "Called."


def test_partial_hides_what_it_fixed():
    """What a partial bound, by position or keyword, is no parameter, so that no client sees or changes it."""

    def connect(host: str, key: str, port: int = 1) -> str:
        """Connects."""
        return host

    bound = functools.partial(connect, "h", key="secret")
    assert hints(bound) == {"port": int}
    assert (name_of(bound), document_of(bound)) == ("connect", "Connects.")


def test_wrappers_show_what_they_wrap():
    """A functools.wraps wrapper has the signature of the wrapped function."""

    @functools.wraps(plain)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **kwargs)

    assert hints(wrapper) == hints(plain)


def test_closure_names_are_found():
    """A local type that the function itself uses can be named in its annotations."""

    class Local:
        pass

    def make(item: list[Local]) -> Local:
        return Local()

    assert hints(make) == {"item": list[Local]}


def test_local_type_that_nothing_holds_is_refused():
    """A type that cannot be found gives an error that names function, parameter and fix."""

    def make() -> Any:
        class Hidden:
            pass

        def use(item: Hidden) -> None: ...

        return use

    fn = make()
    with pytest.raises(RegistrationError, match=r"use: parameter 'item': the annotation 'Hidden'.*module level"):
        hints(fn)


def test_unknown_return_annotation_is_refused():
    """A return annotation that cannot be evaluated is named as such."""

    def use() -> Missing: ...  # noqa: F821

    with pytest.raises(RegistrationError, match=r"use: the return annotation 'Missing'"):
        return_annotation(use)


@pytest.mark.parametrize(("fn", "said"), [(lambda *rest: 1, r"'\*rest'"), (lambda **more: 1, r"'\*\*more'")])
def test_stars_are_refused(fn: Any, said: str):
    """`*args` and `**kwargs` have no schema; the error says what to write."""
    with pytest.raises(RegistrationError, match=said + ".*take one list or dict"):
        parameters_of(fn)


def test_notes_are_kept():
    """Annotated keeps its notes, whose strings stay text."""

    def use(a: Annotated[Item, "text"]) -> None: ...

    assert hints(use)["a"].__metadata__ == ("text",)


def test_no_annotation_is_empty():
    """A parameter or return without an annotation is EMPTY."""
    fn = lambda a: a  # noqa: E731
    assert (hints(fn), return_annotation(fn)) == ({"a": EMPTY}, EMPTY)


def test_builtin_without_signature_is_refused():
    """What has no readable signature gives a clear error."""
    with pytest.raises(RegistrationError, match="wrap it in a function"):
        parameters_of(dict.pop)
