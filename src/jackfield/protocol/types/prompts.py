"""Prompts: their definitions and what they expand to."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType, field

from .base import Kept, Object, PaginatedResult, Params, Result
from .content import Icon, PromptMessage


class PromptArgument(Object):
    """One argument of a prompt; its value is always a text (PRM-2)."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool | None = None


class Prompt(Kept):
    """One prompt as a server lists it (PRM-1)."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListPromptsResult(PaginatedResult):
    """`prompts/list`."""

    prompts: list[Prompt]


class GetPromptParams(Params):
    """`prompts/get`; the answers to questions stay undecoded."""

    name: str
    arguments: dict[str, str] | None = None
    input_responses: Raw | UnsetType = UNSET
    request_state: str | None = None


class GetPromptResult(Result):
    """The messages that a prompt expands to (PRM-3)."""

    messages: list[PromptMessage]
    description: str | None = None
