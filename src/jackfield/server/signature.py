"""A function's parameters and return type, with every annotation evaluated."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from ..protocol.errors import RegistrationError

EMPTY: Any = inspect.Parameter.empty
"""Stands where there is no annotation or no default."""
FACTORIES: tuple[Any, ...] = (list, dict, set, tuple)
"""Default factories whose product can be shown in a schema: it is the same each time."""

_POSITIONAL_ONLY = inspect.Parameter.POSITIONAL_ONLY
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
_STARS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


class Parameter(Struct, frozen=True):
    """One parameter; `annotation` and `default` are EMPTY where the function gives none."""

    name: str
    annotation: Any
    default: Any
    positional_only: bool
    keyword_only: bool


def parameters_of(fn: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters that a caller of `fn` may fill, in order; string annotations stay strings (see `evaluated`).

    Functions, methods, `functools.partial`, `functools.wraps` wrappers and objects with `__call__` are taken. What a
    partial fixed by keyword is no parameter: what the server's author bound is not for a client to see or change.
    Raises RegistrationError for `*args` and `**kwargs`.
    """
    fixed = {name for part in _chain(fn) if isinstance(part, functools.partial) for name in part.keywords}
    found: list[Parameter] = []
    for item in _signature(fn).parameters.values():
        if item.name in fixed:
            continue
        if stars := _STARS.get(item.kind):
            raise RegistrationError(
                f"{name_of(fn)}: parameter '{stars}{item.name}' has no place in a schema; name each parameter, "
                "or take one list or dict"
            )
        if item.name.startswith("__"):
            raise RegistrationError(
                f"{name_of(fn)}: parameter {item.name!r}: rename it, without the leading underscores"
            )
        found.append(
            Parameter(
                item.name, item.annotation, item.default, item.kind is _POSITIONAL_ONLY, item.kind is _KEYWORD_ONLY
            )
        )
    return tuple(found)


def return_annotation(fn: Callable[..., Any]) -> Any:
    """The evaluated return annotation, or EMPTY. Raises RegistrationError where it cannot be evaluated."""
    return evaluated(fn, "return", _signature(fn).return_annotation)


def evaluated(fn: Callable[..., Any], name: str, annotation: Any) -> Any:
    """`annotation` of the parameter `name` ("return" for the return type), its strings replaced by what they name.

    Names are looked up in the function's module and in what it closes over. Raises RegistrationError, naming the
    parameter, for a name that is in neither: defined inside another function, or imported for type checkers alone.
    """
    if annotation is EMPTY:
        return EMPTY
    names: dict[str, Any] = {}
    local: dict[str, Any] = {}
    for part in _chain(fn):  # The innermost comes last and wins: the signature is its.
        names.update(getattr(part, "__globals__", {}))
        local.update({p.__name__: p for p in getattr(part, "__type_params__", ())})
        if inspect.isfunction(part):
            local.update(_closure(part))

    def probe() -> None: ...

    probe.__annotations__ = {name: annotation}
    try:
        return typing.get_type_hints(probe, names, local, include_extras=True)[name]
    except Exception as error:
        where = "the return annotation" if name == "return" else f"parameter {name!r}: the annotation"
        raise RegistrationError(
            f"{name_of(fn)}: {where} {annotation!r} cannot be evaluated ({error}); "
            "define or import the type at module level"
        ) from error


def name_of(fn: Callable[..., Any]) -> str:
    """What messages call this function."""
    names = (getattr(part, "__name__", "__call__") for part in _chain(fn))
    return next((name for name in names if name != "__call__"), type(fn).__name__)


def document_of(fn: Callable[..., Any]) -> str:
    """The cleaned docstring of the function that stands behind `fn`, or ""."""
    for part in _chain(fn):
        # The docstrings of functools.partial and of an object's class say nothing of the function; `_chain` reaches it.
        if callable(part) and hasattr(part, "__name__") and (text := inspect.getdoc(part)):
            return text
    return "" if inspect.isroutine(fn) or isinstance(fn, functools.partial) else inspect.getdoc(type(fn)) or ""


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except NameError as error:
        # From Python 3.14 on annotations are evaluated here, all at once.
        raise RegistrationError(
            f"{name_of(fn)}: an annotation cannot be evaluated ({error}); define or import the type at module level"
        ) from error
    except (TypeError, ValueError) as error:
        raise RegistrationError(
            f"{name_of(fn)}: its parameters cannot be read ({error}); wrap it in a function"
        ) from error


def _chain(fn: Any) -> Iterator[Any]:
    """`fn` and what stands behind it: the partial's function, the wrapped one, the method's function, `__call__`."""
    seen: set[int] = set()
    while fn is not None and id(fn) not in seen:
        seen.add(id(fn))
        yield fn
        if isinstance(fn, functools.partial):
            fn = typing.cast("functools.partial[Any]", fn).func
        elif hasattr(fn, "__wrapped__"):
            fn = fn.__wrapped__
        elif inspect.ismethod(fn):
            fn = fn.__func__
        elif not inspect.isroutine(fn) and not isinstance(fn, type):
            fn = getattr(fn.__class__, "__call__", None)  # noqa: B004
        else:
            return


def _closure(fn: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # The variable has no value yet.
            continue
    return found
