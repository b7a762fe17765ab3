"""What a server asks in the middle of a request: elicitation, sampling, roots, and the answer that holds questions."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from msgspec import UNSET, Raw, UnsetType, field

from .base import Kept, Object, Params, Result, Role
from .content import SamplingContent
from .offers import Tool


class ElicitParams(Params):
    """`elicitation/create`: a form (`mode` absent or "form", with `requested_schema`) or a page (`url`) (ELC-1, ELC-7).

    `requested_schema` stays plain JSON Schema, so that nothing in it is lost; `FormSchema` reads it.
    `elicitation_id` belongs to the URL mode of 2025-11-25 alone.
    """

    message: str
    mode: Literal["form", "url"] | None = None
    requested_schema: dict[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None
    task: Raw | UnsetType = UNSET


class ElicitResult(Result):
    """The person's answer; `content` counts only where a form was accepted (ELC-5)."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


class ElicitationCompleteParams(Params):
    """`notifications/elicitation/complete`: what the URL was for is done (2025-11-25, ELC-8)."""

    elicitation_id: str


class ElicitationRequiredData(Object):
    """`data` of error -32042: the pages to visit before the call is tried again (2025-11-25, ELC-8)."""

    elicitations: list[ElicitParams]


class Option(Object):
    """One choice with a title for people (ELC-3)."""

    const: str
    title: str


class StringSchema(Object, tag_field="type", tag="string"):
    """A text field; with `enum` (older: and `enum_names`) or `one_of` the choice of one (ELC-2, ELC-3)."""

    title: str | None = None
    description: str | None = None
    default: str | None = None
    format: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    enum: list[str] | None = None
    enum_names: list[str] | None = None
    one_of: list[Option] | None = None


class NumberSchema(Object, tag_field="type", tag="number"):
    """A number field."""

    title: str | None = None
    description: str | None = None
    default: int | float | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None


class IntegerSchema(NumberSchema, tag="integer"):
    """A whole number field."""


class BooleanSchema(Object, tag_field="type", tag="boolean"):
    """A yes or no field."""

    title: str | None = None
    description: str | None = None
    default: bool | None = None


class Choices(Object):
    """What can be chosen where several may be: plain texts (`enum`) or ones with a title (`any_of`)."""

    type: str | None = None
    enum: list[str] | None = None
    any_of: list[Option] | None = None


class MultiSelectSchema(Object, tag_field="type", tag="array"):
    """The choice of several, from 2025-11-25 on (ELC-3)."""

    items: Choices
    title: str | None = None
    description: str | None = None
    default: list[str] | None = None
    min_items: int | None = None
    max_items: int | None = None


PrimitiveSchema = StringSchema | NumberSchema | IntegerSchema | BooleanSchema | MultiSelectSchema


class FormSchema(Object, tag_field="type", tag="object"):
    """The schema of a form: flat, each property of a primitive kind (ELC-2)."""

    properties: dict[str, PrimitiveSchema]
    required: list[str] | None = None
    schema: str | None = field(name="$schema", default=None)


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


class Root(Kept):
    """One place, a file URI; advice, no access control (ROOT-1)."""

    uri: str
    name: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListRootsResult(Result):
    """`roots/list`."""

    roots: list[Root]


class InputRequest(Object):
    """One question: a method that a legacy server would have sent as a request, and its params, undecoded (MR-2)."""

    method: str
    params: Raw | UnsetType = UNSET


class InputRequiredResult(Result):
    """The request needs answers first: at least one of the two members is there (MR-1)."""

    kind: ClassVar[str] = "input_required"

    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None
    """Opaque; goes back unchanged (MR-4)."""


InputResponses = dict[str, Raw]
"""The answers, by the question's key: each a CreateMessageResult, ElicitResult or ListRootsResult (MR-3)."""
