"""What all kinds of handlers share: finding the context parameter, telling async from blocking, and calling either."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from ..protocol.errors import RegistrationError
from .content import reads_files
from .context import Context
from .signature import EMPTY, evaluated, name_of, parameters_of

T = TypeVar("T")


class ContextParameter(Struct, frozen=True):
    """Where a handler wants its Context: by `name`, at `place` among the positional parameters (None: keyword only)."""

    name: str
    place: int | None


def context_parameter(fn: Callable[..., Any]) -> ContextParameter | None:
    """The parameter of `fn` that is annotated with Context, or None. Raises RegistrationError when there are two."""
    if not callable(fn):
        raise RegistrationError(f"{fn!r} is no function; a handler must be called")
    found: list[ContextParameter] = []
    for place, parameter in enumerate(parameters_of(fn)):
        if parameter.annotation is EMPTY:
            continue
        hint = evaluated(fn, parameter.name, parameter.annotation)
        if hint is Context or Context in typing.get_args(hint):
            found.append(ContextParameter(parameter.name, None if parameter.keyword_only else place))
    if len(found) > 1:
        raise RegistrationError(f"{name_of(fn)}: only one parameter can be the Context")
    return found[0] if found else None


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
