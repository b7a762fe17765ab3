"""Parameters with a Resolve: in which order their functions run, and what a handler is given before it runs itself."""

from __future__ import annotations

import asyncio
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, get_args, get_origin

from msgspec import Struct

from ..protocol.errors import RegistrationError
from .context import Asked, Context, SaidNo
from .handlers import Resolve, context_parameter, holds_resolve, invoke, is_async
from .questions import AcceptedElicitation, CancelledElicitation, DeclinedElicitation, Elicit, Question
from .signature import EMPTY, Parameter, evaluated, name_of, parameters_of, return_annotation

_OUTCOMES: Final = (AcceptedElicitation, DeclinedElicitation, CancelledElicitation)
_SAID: Final = {"accept": "accepted", "decline": "declined", "cancel": "cancelled"}


class Use:
    """One parameter that takes what a step gives, bare (`takes` is None) or as one of these kinds of outcome."""

    __slots__ = ("step", "takes")

    def __init__(self, step: Step, takes: frozenset[type] | None) -> None:
        self.step = step
        self.takes = takes

    def give(self, value: Any) -> Any:
        """What the parameter is given. Raises ToolError for a no that it does not take."""
        if not isinstance(value, _OUTCOMES):
            return value if self.takes is None else AcceptedElicitation(value)
        outcome: Any = value  # pyright: ignore[reportUnknownVariableType]
        if self.takes is None and outcome.action == "accept":
            return outcome.data
        if self.takes is not None and type(outcome) in self.takes:
            return outcome
        raise SaidNo(f"The user {_SAID[outcome.action]} the question {self.step.key!r}.")


class Step:
    """One function of a Resolve: what it takes, and who takes what it gives."""

    def __init__(self, fn: Callable[..., Any], key: str) -> None:
        self.fn = fn
        self.key = key
        self.blocking = not is_async(fn)
        self.parameters = parameters_of(fn)
        context = context_parameter(fn)
        self.context = None if context is None else context.name
        self.inner: dict[str, Use] = {}
        self.uses: list[Use] = []

    async def run(self, arguments: Mapping[str, Any], found: Mapping[Step, Any], context: Context) -> Any:
        """Call the function; where it gives a question, ask it. Raises what either does."""
        values: list[Any] = []
        named: dict[str, Any] = {}
        for item in self.parameters:
            value = self._value(item, arguments, found, context)
            if item.keyword_only:
                named[item.name] = value
            else:
                values.append(value)
        given = await invoke(self.fn, self.blocking, values, named, context)
        if isinstance(given, Question):
            return await context.ask(given.keyed(self.key))
        return given

    def _value(self, item: Parameter, arguments: Mapping[str, Any], found: Mapping[Step, Any], context: Context) -> Any:
        if item.name == self.context:
            return context
        use = self.inner.get(item.name)
        if use is not None:
            return use.give(found[use.step])
        return arguments.get(item.name, item.default)


class Ended(Struct):
    """How a step ended: what it gave, or what it raised."""

    value: Any = None
    fault: BaseException | None = None


class Plan:
    """How the resolved parameters of one handler get their values; built once, at registration."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        """Raises RegistrationError, naming the parameter, for a Resolve in a wrong place or with a default, functions
        that need each other, a parameter that nothing fills, and a form that the protocol does not allow (ELC-2).
        """
        context = context_parameter(fn)
        self._context = None if context is None else context.name
        parameters = parameters_of(fn)
        self._positional = [item.name for item in parameters if not item.keyword_only]
        self._keywords = [item.name for item in parameters if item.keyword_only]
        resolved = resolved_parameters(fn)
        self.names = frozenset(resolved)
        """The resolved parameters."""
        supplied = self.names.union({self._context} - {None})
        self._given = [name for name in self._positional if name not in supplied]
        self._steps: list[Step] = []
        known = {item.name for item in parameters if item.name not in supplied}
        builder = _Builder(self._steps, known, name_of(fn))
        self._uses = {name: builder.use(fn, name, kind, resolve, "") for name, (kind, resolve) in resolved.items()}

    async def fill(
        self, values: Sequence[Any], named: Mapping[str, Any], context: Context
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """What the handler is called with, from the arguments that the client gave. Raises as `values` does."""
        given = {**dict(zip(self._given, values, strict=True)), **named}
        given.update(await self.values(given, context))
        if self._context is not None:
            given[self._context] = context
        return [given[name] for name in self._positional], {name: given[name] for name in self._keywords}

    async def values(self, arguments: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """The value of each resolved parameter. All that can be asked at once is asked at once.

        Raises ToolError where the person says no to what has to be a yes, what a function raises, and Asked where the
        handler must run again with the answers.
        """
        found: dict[Step, Any] = {}
        if len(self._steps) == 1:
            step = self._steps[0]
            found[step] = await step.run(arguments, found, context)
        else:
            await self._run_all(arguments, found, context)
        return {name: use.give(found[use.step]) for name, use in self._uses.items()}

    async def _run_all(self, arguments: Mapping[str, Any], found: dict[Step, Any], context: Context) -> None:
        """Run each step as soon as those are done that it takes from; the first real fault ends all."""
        waiting = list(self._steps)
        running: dict[asyncio.Task[Ended], Step] = {}
        asked: Asked | None = None
        try:
            while True:
                ready = [step for step in waiting if all(use.step in found for use in step.inner.values())]
                waiting = [step for step in waiting if step not in ready]
                running.update(
                    {asyncio.ensure_future(_ended(step.run(arguments, found, context))): step for step in ready}
                )
                if not running:
                    break
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in running if task in done]:
                    step, ended = running.pop(task), task.result()
                    if isinstance(ended.fault, Asked):
                        asked = ended.fault  # the others go on: what they ask travels in the same round
                        continue
                    if ended.fault is not None:
                        raise ended.fault
                    found[step] = ended.value
                    for use in step.uses:
                        use.give(ended.value)  # a no ends the call now, and not when all else is answered
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        if asked is not None:
            raise asked


async def _ended(running: typing.Coroutine[Any, Any, Any]) -> Ended:
    """Any outcome but a cancellation as a value: a task that raises SystemExit would end the server."""
    try:
        return Ended(await running)
    except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as fault:
        return Ended(fault=fault)


def resolved_parameters(fn: Callable[..., Any]) -> dict[str, tuple[Any, Resolve]]:
    """The parameters of `fn` with a Resolve, each with its type. Raises RegistrationError."""
    found: dict[str, tuple[Any, Resolve]] = {}
    for item in parameters_of(fn):
        hint = evaluated(fn, item.name, item.annotation)
        if hint is EMPTY or not holds_resolve(hint):
            continue
        where = f"{name_of(fn)}: parameter {item.name!r}"
        hint = getattr(hint, "__value__", hint)  # of a `type` statement
        notes: tuple[Any, ...] = hint.__metadata__ if get_origin(hint) is Annotated else ()
        marks = [note for note in notes if isinstance(note, Resolve)]
        if len(marks) != 1 or holds_resolve(get_args(hint)[0]):
            raise RegistrationError(f"{where}: write Annotated[the whole type, Resolve(function)], with one Resolve")
        if item.default is not EMPTY:
            raise RegistrationError(f"{where} has a Resolve, so it takes no default; take it away")
        found[item.name] = get_args(hint)[0], marks[0]
    return found


class _Builder:
    """Makes the steps of one plan, each after those that it takes from."""

    def __init__(self, steps: list[Step], known: set[str], handler: str) -> None:
        self._steps = steps
        self._known = known
        """The arguments of the handler."""
        self._handler = handler
        self._built: dict[Any, Step | None] = {}
        """By function; None while the steps are made that it takes from."""

    def use(self, owner: Callable[..., Any], name: str, kind: Any, resolve: Resolve, prefix: str) -> Use:
        """What the parameter `name` of `owner` takes, and the step that gives it."""
        where = f"{name_of(owner)}: parameter {name!r}"
        fn = resolve.fn
        if (mark := _identity(fn)) not in self._built:
            self._built[mark] = None
            self._built[mark] = self._step(fn, prefix + name, where)
        step = self._built[mark]
        if step is None:
            raise RegistrationError(f"{where}: {name_of(fn)} needs what comes of itself; take one Resolve away")
        use = Use(step, _outcomes(kind, where))
        step.uses.append(use)
        return use

    def _step(self, fn: Callable[..., Any], key: str, where: str) -> Step:
        step = Step(fn, key)
        _check_forms(return_annotation(fn), where)
        for name, (kind, resolve) in resolved_parameters(fn).items():
            step.inner[name] = self.use(fn, name, kind, resolve, f"{key}.")
        for item in step.parameters:
            if item.name == step.context or item.name in step.inner or item.name in self._known:
                continue
            if item.default is EMPTY:
                raise RegistrationError(
                    f"{name_of(fn)}: nothing fills its parameter {item.name!r}; {self._handler} has no argument of "
                    "that name"
                )
        self._steps.append(step)
        return step


def _identity(fn: Any) -> Any:
    """What is the same for one function, however it was reached: a bound method is made anew each time."""
    return (id(fn.__self__), id(fn.__func__)) if inspect.ismethod(fn) else id(fn)


def _outcomes(kind: Any, where: str) -> frozenset[type] | None:
    """The kinds of outcome that a parameter of this type takes; None where it takes the bare value."""
    parts = get_args(kind) if get_origin(kind) in (typing.Union, types.UnionType) else (kind,)
    found = [get_origin(part) or part for part in parts]
    taken = [part for part in found if part in _OUTCOMES]
    if not taken:
        return None
    if len(taken) != len(found) or AcceptedElicitation not in taken:
        raise RegistrationError(f"{where}: give it a type, or ElicitationResult[the type] for a no to reach it")
    return frozenset(taken)


def _check_forms(hint: Any, where: str) -> None:
    """Raises RegistrationError for an `Elicit[T]` in a return annotation whose form is none that is allowed."""
    if get_origin(hint) is not Elicit:
        for part in get_args(hint):
            _check_forms(part, where)
        return
    from .forms import form_of  # not at the top: the function may ask for something else

    (kind,) = get_args(hint)
    if isinstance(kind, typing.TypeVar):
        return
    try:
        form_of(kind)
    except RegistrationError as fault:
        raise RegistrationError(f"{where}: {fault}") from fault
