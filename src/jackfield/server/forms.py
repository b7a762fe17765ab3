"""Forms of Python types: the `requestedSchema` of a type, and the way from what was filled in to its value (ELC-2)."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import datetime, time
from enum import Enum
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import Meta, Struct

from ..protocol import forms
from ..protocol.errors import RegistrationError
from . import mending, pydantic_bridge, records
from .encoding import json_value
from .schemas import Json, rooted, schemas_of
from .signature import EMPTY
from .typeschema import TypeMap, unproxy

T = TypeVar("T")

SINGLE = "value"
"""The name of the field where the type is no class with fields."""

_NULL = {"type": "null"}
_REMARKS = ("examples", "deprecated", "readOnly")
"""What types say of themselves and a form has no place for."""


class Titles:
    """A note on choices, with the texts that a person sees for them: `Annotated[Literal["a", "b"], Titles({...})]`.

    The keys are the values, or the members of an Enum; a value without a title is its own.
    """

    __slots__ = ("pairs",)

    def __init__(self, titles: Mapping[Any, str]) -> None:
        """Raises RegistrationError where a value or a title is no text."""
        self.pairs = tuple((key.value if isinstance(key, Enum) else key, title) for key, title in titles.items())
        if not all(isinstance(text, str) for pair in self.pairs for text in pair):
            raise RegistrationError("Titles: the values and the titles of a form's choices are texts")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Titles) and self.pairs == other.pairs

    def __hash__(self) -> int:
        return hash(self.pairs)

    def __repr__(self) -> str:
        return f"Titles({dict(self.pairs)})"


class Format(Struct, frozen=True):
    """A note on a text of a form: `Annotated[str, Format("email")]`; also uri, date and date-time (ELC-2).

    Raises RegistrationError for a name that forms do not know.
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in forms.FORMATS:
            raise RegistrationError(f"Format({self.name!r}): a form knows {', '.join(forms.FORMATS)}")


class Form(Generic[T]):
    """A form for a value of one type (see `form_of`)."""

    __slots__ = ("_make", "schema")

    def __init__(self, label: str, schema: Json, make: Callable[[Json], T]) -> None:
        self.schema = schema
        """The `requestedSchema`, in the words of the newest revision (see `protocol.forms.fit_form`)."""
        self._make = make
        if (name := forms.secret_field(schema)) is not None:
            raise RegistrationError(
                f"{label}: field {name!r} asks for a secret, and a form must not (ELC-6); "
                "have the person enter it on a page of yours, with ElicitURL"
            )
        try:
            forms.check_form(schema, None)
        except ValueError as error:
            raise RegistrationError(f"{label}: {error}") from None

    def read(self, content: Json) -> T:
        """The value that was filled in; a field that may be absent may be None as well (ELC-5).

        Raises ValueError with every place that does not fit the form, or what the type itself objects to.
        """
        if not isinstance(content, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError("$: expected object")
        known: Json = self.schema["properties"]
        required: list[str] = self.schema.get("required", [])
        given = {
            name: value for name, value in content.items() if name in known and (value is not None or name in required)
        }
        if found := forms.problems(self.schema, given):
            raise ValueError("; ".join(found))
        for name, value in given.items():
            if known[name]["type"] == "integer":
                given[name] = int(cast("float", value))  # 3.0 is an integer too.
        return self._make(given)


class _Slot(Struct):
    """A field before it is one of a form: `name` is Python's, `wire` the form's."""

    name: str
    wire: str
    schema: Json
    required: bool
    parts: tuple[Any, ...]
    """What its annotation is made of (see `_parts`)."""
    kind: Any = None
    default: Any = EMPTY
    nullable: bool = False


def form_of(kind: Any) -> Form[Any]:
    """The form for a value of a type, the same one each time; a dict is the `requestedSchema` itself (ELC-2, ELC-3).

    A class with fields (dataclass, Struct, TypedDict, NamedTuple, pydantic model, plain class) has those; any other
    type is one field, `value`. Fields are `str`, `int`, `float`, `bool`, `date`, `datetime`, an Enum or Literal of
    texts, and a list or set of those for a choice of several; where None is allowed, the field may stay empty. Raises
    RegistrationError, naming the field, for what no form can hold and for one that asks for a secret (ELC-6).
    """
    if isinstance(kind, dict):
        return _of_schema(cast("Json", kind))
    if kind is None or isinstance(kind, list | tuple | set | str | int | float):
        raise RegistrationError(
            f"a form is a type, such as a dataclass, bool or Literal['a', 'b'], or a schema in a dict; not {kind!r}"
        )
    try:
        hash(kind)
    except TypeError:  # A note in it has no hash.
        return _built(kind)
    return _kept(kind, repr(kind))


def _of_schema(schema: Json) -> Form[Json]:
    form = Form("form", schema, lambda given: forms.filled(form.schema, given))
    form.schema = deepcopy(schema)  # after the check: it may contain itself
    return form


def _built(kind: Any) -> Form[Any]:
    cls: Any = typing.get_origin(kind) or kind
    label: str = kind.__name__ if isinstance(kind, type) else str(kind)
    if isinstance(cls, type) and not pydantic_bridge.owns(cls) and not issubclass(cls, Enum):
        try:
            fields = records.fields_of(cls)
        except (NameError, TypeError) as error:
            raise RegistrationError(f"{label}: its fields cannot be read: {error}") from error
        if fields or records.is_native(cls):
            return _of_class(label, cls, fields)
    return _of_type(label, kind)


@functools.lru_cache(maxsize=256)
def _kept(kind: Any, _: str) -> Form[Any]:
    """By its text too: `Literal["a", "b"]` equals `Literal["b", "a"]`, and the order of options must not be chance."""
    return _built(kind)


def _of_class(label: str, cls: Any, fields: Iterable[records.Field]) -> Form[Any]:
    types = TypeMap()
    known = {f"{label}: field {field.wire!r}": field for field in fields}
    taken = types.take_all({place: field.annotation for place, field in known.items()})
    schemas, defs = _schemas(label, types, taken.values())
    slots = [
        _Slot(field.name, field.wire, schema, field.required, tuple(_parts(field.annotation)), kind, field.default)
        for field, kind, schema in zip(known.values(), taken.values(), schemas, strict=True)
    ]
    schema = _form(label, slots, defs)

    def make(given: Json) -> Any:
        values: Json = {}
        for slot in slots:
            if slot.wire in given:
                values[slot.name] = _value(slot.wire, given[slot.wire], slot.kind)
            elif slot.required:
                values[slot.name] = None
        try:
            return records.build(cls, values)
        except (ValueError, TypeError) as error:
            raise ValueError(f"$: {error}") from None

    return Form(label, schema, make)


def _of_type(label: str, kind: Any) -> Form[Any]:
    """The form of a pydantic class with fields, or of a single value."""
    types = TypeMap()
    (taken,) = types.take_all({label: kind}).values()
    (schema,), defs = _schemas(label, types, [taken])
    root = rooted(schema, defs)
    if not pydantic_bridge.owns(kind) or root.get("type") != "object" or "properties" not in root:
        slot = _Slot(SINGLE, SINGLE, schema, True, tuple(_parts(kind)))
        whole = _form(label, [slot], defs)
        return Form(label, whole, lambda given: _value(SINGLE, given[SINGLE], taken) if given else None)
    made_of = {
        pydantic_bridge.default_of(field).wire or name: (*_parts(field.annotation), *field.metadata)
        for name, field in kind.__pydantic_fields__.items()
    }
    required = root.get("required", [])
    slots = [
        _Slot(name, name, part, name in required, made_of.get(name, ())) for name, part in root["properties"].items()
    ]
    form = _form(label, slots, defs)
    empty: Json = {slot.wire: None for slot in slots if slot.required and slot.nullable}
    return Form(label, form, lambda given: _value("", {**empty, **given}, taken))


def _schemas(label: str, types: TypeMap, taken: Iterable[Any]) -> tuple[list[Json], Json]:
    try:
        return schemas_of(types, taken)
    except TypeError as error:
        raise RegistrationError(f"{label}: {error}") from error


def _value(name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, dec_hook=unproxy, str_keys=True)
    except mending.FAULTS as fault:
        place = f"$.{name}" if name else "$"
        raise ValueError(place + mending.placed(fault).removeprefix("$")) from None


def _parts(annotation: Any) -> Iterator[Any]:
    """What an annotation is made of: classes, Literals and notes, the outermost note last."""
    inner = getattr(annotation, "__supertype__", None) or getattr(annotation, "__value__", None)
    arguments = () if typing.get_origin(annotation) is Literal else typing.get_args(annotation)
    for part in (inner,) if inner is not None else arguments:
        yield from _parts(part)
    if inner is None and not arguments:
        yield annotation


# --- from the schema of a type to that of a form ---------------------------------------------------------------------


def _form(label: str, slots: list[_Slot], defs: Json) -> Json:
    properties: Json = {}
    for slot in slots:
        try:
            properties[slot.wire] = _field(slot, defs)
        except ValueError as error:
            raise RegistrationError(f"{label}: field {slot.wire!r}: {error}") from None
    schema: Json = {"type": "object", "properties": properties}
    if required := [slot.wire for slot in slots if slot.required and not slot.nullable]:
        schema["required"] = required
    return schema


def _field(slot: _Slot, defs: Json) -> Json:
    node, slot.nullable = _flat(slot.schema, defs)
    if slot.default is not EMPTY and (default := json_value(slot.default)) is not EMPTY:
        node["default"] = default
    if node.get("default", EMPTY) is None:
        del node["default"]
    options = node
    if node.get("type") == "array" and isinstance(node.get("items"), dict):
        options = _flat(node["items"], defs)[0]
        node["items"] = options = {key: options[key] for key in options if key not in ("title", "description")}
        if node.pop("uniqueItems", False) and isinstance(node.get("default"), list):
            node["default"] = sorted(node["default"], key=str)  # The order of a set is another in each process.
    if "enum" in options:
        options["enum"] = _ordered(options["enum"], slot.parts)
    for part in slot.parts:
        if part is datetime:
            node["format"] = "date-time"  # msgspec takes those without a zone as well, so its schema does not say.
        elif part is time:
            raise ValueError("a form has no time of day; take a datetime or a str")
        elif isinstance(part, Meta) and part.tz is False:
            raise ValueError("a time in a form has a zone; take tz=False away")
        elif isinstance(part, Format):
            node["format"] = part.name
        elif isinstance(part, Titles):
            _entitle(node, part)
    return node


def _ordered(values: list[Any], parts: Iterable[Any]) -> list[Any]:
    """The options as the author wrote them: people read a list from its top, and msgspec sorts it."""
    written: list[Any] = []
    for part in parts:
        if typing.get_origin(part) is Literal:
            written += typing.get_args(part)
        elif isinstance(part, type) and issubclass(part, Enum):
            written += [member.value for member in part]
    found = list(dict.fromkeys(value for value in written if isinstance(value, str) and value in values))
    return found if len(found) == len(values) else values


def _flat(schema: Json, defs: Json) -> tuple[Json, bool]:
    """A schema with nothing to look up and no null, in the words that forms have; and whether null was allowed."""
    node: Json = {key: value for key, value in schema.items() if key not in _REMARKS}
    if (name := node.get("$ref", "").removeprefix("#/$defs/")) in defs:
        del node["$ref"]
        # What a class is called is no title for a field of it.
        whole = {key: value for key, value in defs[name].items() if key != "title"}
        return _flat({**whole, **node}, defs)
    if "anyOf" in node:
        parts: list[Json] = [part for part in node["anyOf"] if part != _NULL]
        nullable = len(parts) < len(node["anyOf"])
        if len(parts) == 1:
            del node["anyOf"]
            return _flat({**parts[0], **node}, defs)[0], nullable
        return node, nullable
    if "const" in node:
        node["enum"] = [node.pop("const")]
    nullable = None in node.get("enum", ())
    if nullable:
        node["enum"] = [value for value in node["enum"] if value is not None]
    if "enum" in node and all(isinstance(value, str) for value in node["enum"]):
        node["type"] = "string"
    if node.get("type") == "integer":
        # Between whole numbers there is nothing to leave out.
        for exclusive, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            if isinstance(node.get(exclusive), int):
                node[inclusive] = node.pop(exclusive) + step
    return node, nullable


def _entitle(node: Json, note: Titles) -> None:
    place = node["items"] if node.get("type") == "array" else node
    values: list[str] = place.get("enum", [])
    titles = dict(note.pairs)
    if unknown := [key for key in titles if key not in values]:
        raise ValueError(f"Titles has one for {unknown[0]!r}, which is no choice of it")
    options = [{"const": value, "title": titles.get(value, value)} for value in values]
    if place is node:
        del node["enum"]
        node["oneOf"] = options
    else:
        node["items"] = {"anyOf": options}
