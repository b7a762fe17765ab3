"""The rest of a coroutine whose first step was taken by hand: awaiting it takes the others, in the same context."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


def _call(step: Callable[[Any], Any], value: Any) -> Any:
    return step(value)


class Rest(Generic[T]):
    """Await it in the task that took the first step of `coroutine` in `context`, which gave `waits_for`.

    Without a context of its own it has that of the task.
    """

    __slots__ = ("_context", "_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, T], context: contextvars.Context | None, waits_for: Any) -> None:
        self._coroutine = coroutine
        self._context = context
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine, waits_for = self._coroutine, self._waits_for
        run = _call if self._context is None else self._context.run
        while True:
            try:
                value = yield waits_for
            except GeneratorExit:  # the task is thrown away, and so is what it was doing
                coroutine.close()
                raise
            except BaseException as fault:
                step, value = coroutine.throw, fault
            else:
                step = coroutine.send
            try:
                waits_for = run(step, value)
            except StopIteration as done:
                return done.value
