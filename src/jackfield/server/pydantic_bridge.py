"""The bridge to pydantic, used only where the user's own code has imported it; and the meaning of `Annotated` notes.

pydantic is found through `sys.modules`, never imported: a server without it pays nothing, and needs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Meta

from .signature import EMPTY

LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
"""Constraints that a Meta can hold and that annotated_types knows by the same names."""

Take = Callable[[Any], Any]


class Default(msgspec.Struct, frozen=True):
    """What a `Field(...)` or `field(...)` says of a parameter beside its type; EMPTY where it says nothing."""

    value: Any = EMPTY
    factory: Any = EMPTY
    wire: str | None = None


def is_field(value: Any) -> bool:
    """True for what `pydantic.Field(...)` returns."""
    fields = sys.modules.get("pydantic.fields")  # pydantic itself imports that when it is first needed
    return fields is not None and isinstance(value, fields.FieldInfo)


def default_of(field: Any) -> Default:
    """The default, factory and name that a pydantic `Field(...)` gives."""
    alias = field.validation_alias if isinstance(field.validation_alias, str) else field.alias
    if field.default_factory is not None:
        return Default(factory=field.default_factory, wire=alias)
    return Default(value=EMPTY if field.is_required() else field.default, wire=alias)


def is_any(annotation: Any) -> bool:
    """True for `pydantic.JsonValue`, which any JSON value is."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and annotation is pydantic.JsonValue


def owns(annotation: Any) -> bool:
    """True for a class that only pydantic can make: a model, a pydantic dataclass, `HttpUrl` and its like."""
    return (
        "pydantic" in sys.modules
        and isinstance(annotation, type)
        and (hasattr(annotation, "__get_pydantic_core_schema__") or "__pydantic_validator__" in vars(annotation))
    )


def metas_of(note: Any) -> list[Meta] | None:
    """One note of an `Annotated` as Metas; None where only pydantic itself can honour it.

    A text is a description. Notes that mean nothing here are no Metas at all.
    """
    if isinstance(note, Meta):
        return [note]
    if isinstance(note, str):
        return [Meta(description=note)]
    if is_field(note):
        return _field_metas(note)
    kind: Any = note.__class__
    package: str = kind.__module__.split(".")[0]
    if package == "annotated_types":
        found = _limits(note)
        # What has no limits of these names (Predicate, Unit) has no place in a schema.
        return [Meta(**found)] if found else []
    if kind.__name__ == "Doc" and package in ("typing", "typing_extensions"):
        return [Meta(description=note.documentation)]
    return None if package.startswith("pydantic") else []


def adapter(annotation: Any, *, output: bool) -> tuple[Take, dict[str, Any]]:
    """How pydantic makes `annotation` of a JSON value, and its schema with its own `$defs`.

    Values are judged strictly, as JSON: "5" is no integer, but a text is a date where the schema says so. The converter
    raises ValueError; building it raises what pydantic raises for a type that it cannot take.
    """
    pydantic = sys.modules["pydantic"]
    made = pydantic.TypeAdapter(annotation)
    schema = made.json_schema(by_alias=True, mode="serialization" if output else "validation")

    def take(value: Any) -> Any:
        try:
            return made.validate_json(msgspec.json.encode(value), strict=True)
        except pydantic.ValidationError as error:
            raise ValueError(_reasons(error.errors(include_url=False, include_input=False))) from None

    return take, schema


def names_of(cls: Any) -> frozenset[str]:
    """The names that the fields of a pydantic class have on the wire."""
    fields: dict[str, Any] = getattr(cls, "__pydantic_fields__", {})
    return frozenset(default_of(field).wire or name for name, field in fields.items())


def dumped(value: Any) -> Any:
    """A pydantic value as JSON built-ins, by its serialisers and aliases; NotImplemented for anything else."""
    kind: Any = value.__class__
    core = sys.modules.get("pydantic_core")
    if core is None or not (hasattr(kind, "__get_pydantic_core_schema__") or hasattr(kind, "__pydantic_serializer__")):
        return NotImplemented
    return core.to_jsonable_python(value, by_alias=True)


def _reasons(errors: Iterable[dict[str, Any]]) -> str:
    """pydantic's errors in one line, each with its place; one alone in msgspec's form, which adds the place outside."""
    said = [
        (error["msg"], "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"]))
        for error in errors
    ]
    if len(said) == 1:
        return f"{said[0][0]} - at `${said[0][1]}`"
    return "; ".join(f"{place.removeprefix('.')}: {message}" if place else message for message, place in said)


def _field_metas(field: Any) -> list[Meta] | None:
    if field.discriminator is not None or callable(field.json_schema_extra):
        return None
    found: list[Meta] = []
    for note in field.metadata:
        limits = _limits(note)
        # A strict flag, a union mode, a number of digits: what is no plain limit is pydantic's to judge.
        if (
            not limits
            or getattr(note, "__dict__", {}).keys() - set(LIMITS)
            or not isinstance(limits.get("pattern", ""), str)
        ):
            return None
        found.append(Meta(**limits))
    texts = {"title": field.title, "description": field.description, "examples": field.examples}
    extra = {"extra_json_schema": field.json_schema_extra or None}
    return [*found, Meta(**{name: value for name, value in {**texts, **extra}.items() if value is not None})]


def _limits(note: Any) -> dict[str, Any]:
    return {name: value for name in LIMITS if (value := getattr(note, name, None)) is not None}
