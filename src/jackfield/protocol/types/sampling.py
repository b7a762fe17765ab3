"""Sampling: a server borrows the client's model."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType, field

from .base import Object, Params, Result, Role
from .content import SamplingContent
from .tools import Tool


class SamplingMessage(Object):
    """One message for or from the model; a list of blocks from 2025-11-25 on (SMP-2, SMP-5)."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ModelHint(Object):
    """A part of a model's name; advisory (SMP-3)."""

    name: str | None = None


class ModelPreferences(Object):
    """What matters in the choice of the model, each from 0 to 1; hints in order of preference."""

    hints: list[ModelHint] | None = None
    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class ToolChoice(Object):
    """Whether the model may, must or must not call a tool; absent is `auto`."""

    mode: Literal["auto", "required", "none"] | None = None


class CreateMessageParams(Params):
    """`sampling/createMessage` (SMP-1)."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    model_preferences: ModelPreferences | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    metadata: dict[str, Any] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    task: Raw | UnsetType = UNSET


class CreateMessageResult(Result):
    """What the model said; `stop_reason` is open: endTurn, stopSequence, maxTokens, toolUse or another (SMP-3)."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    model: str
    stop_reason: str | None = None
