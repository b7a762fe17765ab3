"""What all kinds of handlers share: finding the context parameter, telling async from blocking, and calling either."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ..protocol.errors import RegistrationError
from .content import reads_files
from .context import Context
from .signature import EMPTY, Parameter, evaluated, name_of, parameters_of

if TYPE_CHECKING:
    from .resolving import Plan

T = TypeVar("T")


class ContextParameter(Struct, frozen=True):
    """Where a handler wants its Context: by `name`, at `place` among the positional parameters (None: keyword only)."""

    name: str
    place: int | None


class Resolve:
    """Marks a parameter that no client fills: `Annotated[T, Resolve(fn)]` has what `fn` gives, before the handler runs.

    `fn` may take the handler's arguments by name, a Context, and resolved parameters of its own. It returns the value,
    or a question (Elicit, ElicitURL, Sample, ListRoots), whose answer is the value. A no of the person ends the call
    with a ToolError; a parameter that is annotated with ElicitationResult[T] is given it instead.
    """

    __slots__ = ("fn",)

    def __init__(self, fn: Callable[..., Any]) -> None:
        """Raises RegistrationError for what cannot be called."""
        if not callable(fn):
            raise RegistrationError(f"Resolve({fn!r}): it takes a function, which is called for the value")
        self.fn = fn

    def __repr__(self) -> str:
        return f"Resolve({name_of(self.fn)})"


class Supplied(Struct, frozen=True):
    """The parameters of a handler that no client fills."""

    context: ContextParameter | None
    plan: Plan | None
    """How those with a Resolve get their values; None where there are none."""
    names: frozenset[str]


def supplied_to(fn: Callable[..., Any]) -> Supplied:
    """The parameters of `fn` that no client fills. Raises RegistrationError where one is wrong."""
    hints = _hints(fn)
    _check_misplaced(fn, hints)
    context = _context_among(fn, hints)
    names = {context.name} if context is not None else set[str]()
    if not any(holds_resolve(hint) for _, _, hint in hints):
        return Supplied(context, None, frozenset(names))
    from .resolving import Plan  # not at the top: most handlers ask nothing

    plan = Plan(fn)
    return Supplied(context, plan, frozenset(names.union(plan.names)))


def _check_misplaced(fn: Callable[..., Any], hints: list[tuple[int, Parameter, Any]]) -> None:
    """Raise RegistrationError for a Resolve that would ask nobody: as a default, or without its function."""
    annotated = {item.name: hint for _, item, hint in hints}
    for item in parameters_of(fn):
        bare = Resolve in typing.get_args(annotated.get(item.name)) or annotated.get(item.name) is Resolve
        if bare or isinstance(item.default, Resolve) or item.default is Resolve:
            raise RegistrationError(
                f"{name_of(fn)}: parameter {item.name!r}: a Resolve stands in the annotation, with its function: "
                f"{item.name}: Annotated[the type, Resolve(function)]"
            )


def context_parameter(fn: Callable[..., Any]) -> ContextParameter | None:
    """The parameter of `fn` that is annotated with Context, or None. Raises RegistrationError when there are two."""
    return _context_among(fn, _hints(fn))


def _hints(fn: Callable[..., Any]) -> list[tuple[int, Parameter, Any]]:
    """The parameters that have an annotation, each with its place and the annotation, evaluated."""
    if not callable(fn):
        raise RegistrationError(f"{fn!r} is no function; a handler must be called")
    return [
        (place, item, evaluated(fn, item.name, item.annotation))
        for place, item in enumerate(parameters_of(fn))
        if item.annotation is not EMPTY
    ]


def _context_among(fn: Callable[..., Any], hints: list[tuple[int, Parameter, Any]]) -> ContextParameter | None:
    found = [
        ContextParameter(item.name, None if item.keyword_only else place)
        for place, item, hint in hints
        if hint is Context or Context in typing.get_args(hint)
    ]
    if len(found) > 1:
        raise RegistrationError(f"{name_of(fn)}: only one parameter can be the Context")
    return found[0] if found else None


def holds_resolve(hint: Any) -> bool:
    """Whether a Resolve stands anywhere in an annotation, were it in a wrong place."""
    hint = getattr(hint, "__value__", hint)  # of a `type` statement
    if isinstance(hint, Resolve):
        return True
    return any(holds_resolve(part) for part in typing.get_args(hint))


def is_async(fn: Callable[..., Any]) -> bool:
    """Tell whether calling `fn` gives a coroutine. Raises RegistrationError for generators, which no handler can be."""
    call: Any = fn if inspect.isroutine(fn) or hasattr(fn, "func") else getattr(fn, "__call__", fn)  # noqa: B004
    if inspect.isasyncgenfunction(call) or inspect.isgeneratorfunction(call):
        raise RegistrationError(
            f"{name_of(fn)}: a handler cannot be a generator; return the whole result instead of yielding it"
        )
    return inspect.iscoroutinefunction(call)


async def invoke(
    fn: Callable[..., Any], blocking: bool, values: Sequence[Any], named: Mapping[str, Any], context: Context
) -> Any:
    """Call a handler: an async one on the loop, a blocking one on a thread."""
    value = await context.threads.run(_Call(fn, named), *values) if blocking else fn(*values, **named)
    return await value if inspect.isawaitable(value) else value


async def converted(convert: Callable[..., T], value: Any, *rest: Any, context: Context) -> T:
    """`convert(value, *rest)`, on a thread where that reads files: a slow disk must not freeze the server."""
    return await context.threads.run(convert, value, *rest) if reads_files(value) else convert(value, *rest)


class _Call(Struct, frozen=True):
    """A function with its keyword arguments, to be called by position."""

    fn: Callable[..., Any]
    named: Mapping[str, Any]

    def __call__(self, *values: Any) -> Any:
        return self.fn(*values, **self.named)


def with_context(
    parameter: ContextParameter | None, values: Sequence[Any], named: Mapping[str, Any], context: Context
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Put the context where the handler wants it."""
    if parameter is None:
        return values, named
    if parameter.place is None:
        return values, {**named, parameter.name: context}
    return (*values[: parameter.place], context, *values[parameter.place :]), named


async def supply(
    supplied: Supplied, values: Sequence[Any], named: Mapping[str, Any], context: Context
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """What a handler is called with: what the client gave by position and by name, and what is supplied to it."""
    if supplied.plan is not None:
        return await supplied.plan.fill(values, named, context)
    return with_context(supplied.context, values, named, context)
