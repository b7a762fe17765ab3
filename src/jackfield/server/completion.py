"""Completion: values for one argument of a prompt or one variable of a resource template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..protocol.errors import INVALID_PARAMS, ProtocolError, RegistrationError
from ..protocol.types import CompleteParams, CompleteResult, Completion, PromptReference, Result
from .context import Context
from .handlers import context_parameter, invoke, is_async, with_context
from .prompts import Prompts
from .resources import Resources
from .signature import name_of, parameters_of

MOST = 100
"""How many values one answer may hold (CMP-2)."""


class Completer:
    """A handler that completes one argument."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        """`fn` takes what was typed so far, and, with a second parameter, the dict of the arguments that are filled in."""
        self._fn = fn
        self._blocking = not is_async(fn)
        self._context = context_parameter(fn)
        wanted = [each.name for each in parameters_of(fn) if self._context is None or each.name != self._context.name]
        if not 1 <= len(wanted) <= 2:
            raise RegistrationError(
                f"{name_of(fn)}: a completion takes the text so far, and may take the other arguments"
            )
        self._takes_others = len(wanted) == 2

    async def complete(self, typed: str, others: dict[str, str], context: Context) -> Completion:
        """The values for what was typed, at most a hundred."""
        given = (typed, others) if self._takes_others else (typed,)
        values, named = with_context(self._context, given, {}, context)
        found = await invoke(self._fn, self._blocking, values, named, context)
        if isinstance(found, Completion):
            return found
        texts: Sequence[str] = [str(value) for value in found or ()]
        return Completion(list(texts[:MOST]), len(texts), len(texts) > MOST)


class Completions:
    """The completers of one server, by reference and argument, and the method that serves them."""

    def __init__(self, prompts: Prompts, resources: Resources) -> None:
        self._completers: dict[tuple[str, str], Completer] = {}
        self._prompts = prompts
        self._resources = resources

    def __len__(self) -> int:
        return len(self._completers)

    def add(self, reference: str, argument: str, fn: Callable[..., Any]) -> None:
        """Complete `argument` of the prompt or template `reference` with `fn`. Raises RegistrationError when that is done already."""
        if (reference, argument) in self._completers:
            raise RegistrationError(f"argument {argument!r} of {reference!r} has a completion already")
        self._completers[reference, argument] = Completer(fn)

    async def complete(self, params: CompleteParams, context: Context) -> Result:
        """`completion/complete`. Raises ProtocolError (-32602) for an unknown reference or argument (CMP-3)."""
        reference, argument = params.ref, params.argument
        if isinstance(reference, PromptReference):
            name, entry = reference.name, self._prompts.prompts.entries.get(reference.name)
            known = None if entry is None else [each.name for each in entry.definition.arguments or ()]
        else:
            name, template = reference.uri, self._resources.templates.entries.get(reference.uri)
            known = None if template is None else list(template.template.names)
        if known is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt or resource template: {name}")
        if argument.name not in known:
            raise ProtocolError(INVALID_PARAMS, f"{name} has no argument {argument.name!r}")
        completer = self._completers.get((name, argument.name))
        if completer is None:
            return CompleteResult(Completion([], 0, False))
        others = (params.context.arguments if params.context else None) or {}
        return CompleteResult(await completer.complete(argument.value, others, context))
