"""Docstrings taken apart, in the three usual styles."""

from typing import Any

from jackfield.server.docstrings import describe


def with_doc(text: str | None) -> Any:
    def fn() -> None: ...

    fn.__doc__ = text
    return fn


def test_google_style():
    """Google sections give the parameters' texts; the rest is the description."""
    fn = with_doc("""Add two numbers.

    Longer text: with a colon.

    Args:
        a: The first.
        b (int, optional): The second
            goes on here.
        *rest: Others.

    Returns:
        The sum.
    """)
    description, texts = describe(fn)
    assert description == "Add two numbers.\n\nLonger text: with a colon.\n\nReturns:\n    The sum."
    assert texts == {"a": "The first.", "b": "The second goes on here.", "rest": "Others."}


def test_numpy_style():
    """NumPy sections give the parameters' texts, also for two names in one line."""
    fn = with_doc("""Add.

    Parameters
    ----------
    a : int
        The first.
    b, c : int, optional
        The others.

    Returns
    -------
    int
        The sum.
    """)
    description, texts = describe(fn)
    assert description == "Add.\n\nReturns\n-------\nint\n    The sum."
    assert texts == {"a": "The first.", "b": "The others.", "c": "The others."}


def test_sphinx_style():
    """Sphinx fields give the parameters' texts; the types among them are dropped."""
    fn = with_doc("""Add.

    :param a: The first
        goes on.
    :type a: int
    :param int b: The second.
    :returns: The sum.
    """)
    description, texts = describe(fn)
    assert description == "Add.\n\n:returns: The sum."
    assert texts == {"a": "The first goes on.", "b": "The second."}


def test_prose_is_left_alone():
    """A heading without readable entries is no parameter section."""
    fn = with_doc("Plans.\n\nParameters:\n    all of them matter a lot")
    assert describe(fn) == ("Plans.\n\nParameters:\n    all of them matter a lot", {})


def test_no_docstring():
    """Without a docstring there is nothing."""
    assert describe(with_doc(None)) == ("", {})


def test_entry_without_text_is_no_text():
    """A parameter that is named without a text has no description."""
    assert describe(with_doc("X.\n\nArgs:\n    a:\n    b: B."))[1] == {"b": "B."}
