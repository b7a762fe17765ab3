"""Completion: values for one argument of a prompt or one variable of a resource template."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..protocol.errors import INVALID_PARAMS, ProtocolError, RegistrationError
from ..protocol.printable import printable
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
        """`fn` takes the text so far and, with a second parameter, the dict of the arguments that are filled in."""
        self._fn = fn
        self._blocking = not is_async(fn)
        self._context = context_parameter(fn)
        skip = None if self._context is None else self._context.name
        wanted = [item for item in parameters_of(fn) if item.name != skip]
        if not 1 <= len(wanted) <= 2 or any(item.keyword_only for item in wanted):
            raise RegistrationError(
                f"{name_of(fn)}: a completion takes the text so far, and may take the dict of the other arguments"
            )
        self._takes_others = len(wanted) == 2

    async def complete(self, typed: str, others: dict[str, str], context: Context) -> Completion:
        """The values for what was typed, at most a hundred."""
        given = (typed, others) if self._takes_others else (typed,)
        values, named = with_context(self._context, given, {}, context)
        found = await invoke(self._fn, self._blocking, values, named, context)
        if isinstance(found, Completion):
            return Completion(found.values[:MOST], found.total, found.has_more or len(found.values) > MOST)
        if isinstance(found, str):
            raise TypeError("a completion returns a list of texts, not one text")
        texts = [str(value) for value in found or ()]
        return Completion(texts[:MOST], len(texts), len(texts) > MOST)


class Completions:
    """The completers of one server, by reference and argument, and the method that serves them."""

    def __init__(self, prompts: Prompts, resources: Resources) -> None:
        self.offered = False
        """True for good once there was one, as in `Listing`."""
        self._completers: dict[tuple[str, str], Completer] = {}
        self._prompts = prompts
        self._resources = resources

    def add(self, reference: str, argument: str, fn: Callable[..., Any]) -> None:
        """Complete `argument` of the prompt or template `reference` with `fn`.

        Raises RegistrationError where either is not registered, or has a completion already.
        """
        known = self._arguments_of_prompt(reference)
        if known is None:
            known = self._variables_of(reference)
        if known is None:
            raise RegistrationError(f"no prompt or resource template {reference!r} to complete; register that first")
        if argument not in known:
            have = ", ".join(map(repr, known)) or "none"
            raise RegistrationError(f"{reference!r} has no argument {argument!r} to complete; it has {have}")
        if (reference, argument) in self._completers:
            raise RegistrationError(f"argument {argument!r} of {reference!r} has a completion already")
        self._completers[reference, argument] = Completer(fn)
        self.offered = True

    def remove(self, reference: str, argument: str) -> None:
        """Take a completion out. Raises KeyError when there is none."""
        if (reference, argument) not in self._completers:
            raise KeyError(f"no completion of {argument!r} of {reference!r}")
        del self._completers[reference, argument]

    async def complete(self, params: CompleteParams, context: Context) -> Result:
        """`completion/complete`. Raises ProtocolError (-32602) for an unknown reference or argument (CMP-3)."""
        reference, argument = params.ref, params.argument
        if isinstance(reference, PromptReference):
            name = reference.name
            known = self._arguments_of_prompt(name)
        else:
            name = reference.uri
            known = self._variables_of(name)
        if known is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt or resource template: {printable(name)}")
        if argument.name not in known:
            raise ProtocolError(INVALID_PARAMS, f"{name} has no argument {printable(argument.name)!r}")
        completer = self._completers.get((name, argument.name))
        if completer is None:
            return CompleteResult(Completion([], 0, False))
        others = (params.context.arguments if params.context else None) or {}
        return CompleteResult(await completer.complete(argument.value, others, context))

    def _arguments_of_prompt(self, name: str) -> list[str] | None:
        entry = self._prompts.prompts.entries.get(name)
        return None if entry is None else [argument.name for argument in entry.definition.arguments or ()]

    def _variables_of(self, uri: str) -> list[str] | None:
        entry = self._resources.templates.entries.get(uri)
        return None if entry is None else list(entry.template.names)
