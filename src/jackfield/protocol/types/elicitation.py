"""Elicitation: a server asks the client's person, by a form or by a URL."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Raw, UnsetType, field

from .base import Object, Params, Result


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
