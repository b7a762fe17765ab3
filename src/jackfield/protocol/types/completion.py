"""Completion: values for an argument while a person types it."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Object, Params, Result


class PromptReference(Object, tag_field="type", tag="ref/prompt"):
    """The prompt whose argument is completed."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    name: str
    title: str | None = None


class ResourceTemplateReference(Object, tag_field="type", tag="ref/resource"):
    """The resource template whose variable is completed; `uri` is the template."""

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    uri: str


class CompletionArgument(Object):
    """The argument that is being typed, and what stands there so far."""

    name: str
    value: str


class CompletionContext(Object):
    """The arguments that are filled in already, from 2025-06-18 on."""

    arguments: dict[str, str] | None = None


class CompleteParams(Params):
    """`completion/complete` (CMP-2)."""

    ref: PromptReference | ResourceTemplateReference
    argument: CompletionArgument
    context: CompletionContext | None = None


class Completion(Object):
    """At most a hundred values, best first (CMP-2)."""

    values: list[str]
    total: int | None = None
    has_more: bool | None = None


class CompleteResult(Result):
    """The values found."""

    completion: Completion
