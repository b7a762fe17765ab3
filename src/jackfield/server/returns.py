"""From a function's return annotation to an output schema, and from what it returned to JSON."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Union

import msgspec

from ..protocol.errors import RegistrationError
from ..protocol.jsonrpc import MAX_DEPTH, deeper_than
from ..protocol.types import CallToolResult
from .content import BLOCKS, Audio, File, Image, ToolResult
from .encoding import NO_CLASSES, Show, require_finite, show_by
from .schemas import Json, endless, kinds, rooted, schemas_of
from .signature import EMPTY, name_of, return_annotation
from .typeschema import TypeMap

_UNTYPED = (EMPTY, Any, object, None, type(None), str)
_CONTENT = (*BLOCKS, Image, Audio, File, ToolResult, CallToolResult)
_LISTS = (list, tuple)
_OBJECT = ord("{")
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")
_MOST_LEVELS = MAX_DEPTH - 2
"""How deep a value may be that goes into a message: that and its `result` or `params` are around it."""

_show = show_by(NO_CLASSES)
_encode = msgspec.json.Encoder(enc_hook=_show).encode


class BadOutput(ValueError):
    """A result that cannot be given to the client; `told` is what the model may know of it."""

    def __init__(self, fault: str, told: str = "does not fit its output schema") -> None:
        super().__init__(fault)
        self.told = told


def to_member(value: Any) -> bytes:
    """What `to_json` gives, for a value that is to be a member of a message. Raises BadOutput too: for its depth."""
    data = to_json(value)
    _require_shallow(data)
    return data


def to_json(value: Any) -> bytes:
    """The JSON of any value, in the forms that output schemas promise for each type.

    Raises TypeError, ValueError (NaN and infinity; UnicodeEncodeError for lone surrogates) or RecursionError for what
    is no JSON.
    """
    data = _encode(value)
    if data.find(b"null") >= 0:  # msgspec's word for NaN and infinity.
        require_finite(value, _show)
    return data


class Returns:
    """What one function returns; built once, at registration (see `returns_of`)."""

    schema: Json | None
    """The output schema, an object at its root; None where results are plain text, content, or of no stated type."""
    wrapped: bool
    """True where a result is no object and goes out as `{"result": value}`."""
    structure: Callable[[Any], bytes]
    """From a returned value to the JSON to show; raises as `to_member` does.

    The value's type is not checked again, but that there is one, and an object where the schema says so (F54).
    """

    def __init__(self, annotation: Any, label: str) -> None:
        self.schema = None
        self.wrapped = False
        self.structure = to_member
        if is_untyped(annotation):
            return
        types_ = TypeMap(output=True)
        (taken,) = types_.take_all({label: annotation}).values()
        try:
            (schema,), defs = schemas_of(types_, [taken])
        except TypeError as error:
            raise RegistrationError(f"{label}: {error}") from error
        self.schema = rooted(schema, defs)
        if self.schema.get("type") != "object":
            self.wrapped = True
            self.schema = rooted({"type": "object", "properties": {"result": schema}, "required": ["result"]}, defs)
        structure = _wrapped(types_, "null" in kinds(schema, defs)) if self.wrapped else _structure(types_)
        self.structure = _shallow(structure) if endless(schema, defs) else structure


def returns_of(fn: Callable[..., Any]) -> Returns:
    """What a tool's function returns, by its annotation.

    There is no output schema without an annotation, and for Any, None, str, content (Image, a block, a list of them)
    and ToolResult. An object (a Struct, dataclass, TypedDict, model, dict) is its own schema; anything else is wrapped.
    Raises RegistrationError for a type that cannot be JSON.
    """
    return Returns(return_annotation(fn), f"{name_of(fn)}: the return annotation")


def is_untyped(annotation: Any) -> bool:
    """True for annotations that promise no structured content: text, content, nothing, or anything."""
    if any(annotation is kind for kind in (*_UNTYPED, *_CONTENT)):
        return True
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return is_untyped(annotation.__origin__)
    if origin is Union or origin is types.UnionType:
        return all(map(is_untyped, args)) or any(map(_is_content, args))
    if supertype := getattr(annotation, "__supertype__", None):
        return is_untyped(supertype)
    return origin in _LISTS and any(map(_is_content, args))


def _is_content(annotation: Any) -> bool:
    """True where content can be in a value of this type, so that no schema could describe it."""
    if isinstance(annotation, type):
        return annotation in _CONTENT
    return any(map(_is_content, typing.get_args(annotation)))


def _structure(types_: TypeMap) -> Callable[[Any], bytes]:
    """The way of values whose schema is for objects."""
    show, encode, floats = _encoding(types_)

    def structure(value: Any) -> bytes:
        data = encode(value)
        if data[0] != _OBJECT:
            raise BadOutput(f"{type(value).__name__} is no object, which the return annotation promises")
        if floats and data.find(b"null") >= 0:
            require_finite(value, show)
        return data

    return structure


def _wrapped(types_: TypeMap, nullable: bool) -> Callable[[Any], bytes]:
    """The way of all other values, into `{"result": value}`."""
    show, encode, floats = _encoding(types_)

    def structure_wrapped(value: Any) -> bytes:
        if value is None and not nullable:
            raise BadOutput("None came back, which the return annotation does not allow")
        data = encode({"result": value})
        if floats and data.find(b"null") >= 0:
            require_finite(value, show)
        return data

    return structure_wrapped


def _encoding(types_: TypeMap) -> tuple[Show, Callable[[Any], bytes], bool]:
    show = show_by(types_.plain)
    # The order of a set changes from process to process.
    encode = msgspec.json.Encoder(enc_hook=show, order="deterministic" if types_.sets else None).encode
    return show, encode, types_.floats


def _shallow(structure: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    def shallow(value: Any) -> bytes:
        data = structure(value)
        _require_shallow(data)
        return data

    return shallow


def _require_shallow(data: bytes) -> None:
    """Raises BadOutput for a value that makes its message deeper than peers take it (F57, T13)."""
    if data.count(b"[") + data.count(b"{") <= _MOST_LEVELS:
        return
    if b"\\" not in data:
        # Every second part is a text. Of what is left each round takes the innermost level: the usual few cost little.
        left = b"".join(data.split(b'"')[::2]).translate(_SQUARE, _NOT_BRACKETS)
        for _ in range(_MOST_LEVELS):
            left = left.replace(b"[]", b"")
            if not left:
                return
    if deeper_than(data, _MOST_LEVELS):
        raise BadOutput(f"it is nested deeper than {_MOST_LEVELS} levels", "is nested too deeply")
