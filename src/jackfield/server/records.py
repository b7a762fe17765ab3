"""Classes with fields, of every kind, seen alike: Struct, dataclass, TypedDict, NamedTuple, attrs, and plain ones."""

from __future__ import annotations

import inspect
import sys
import typing
from typing import Any

import msgspec
from msgspec import NODEFAULT, UNSET

from .signature import EMPTY, FACTORIES, evaluated


class Field(msgspec.Struct, frozen=True):
    """One field: its name in Python and on the wire. `default` is EMPTY where there is none that could be shown."""

    name: str
    wire: str
    annotation: Any
    required: bool
    default: Any = EMPTY


def is_native(cls: Any) -> bool:
    """True for the kinds of class that msgspec decodes and encodes by itself."""
    return (
        issubclass(cls, msgspec.Struct)
        or is_typeddict(cls)
        or is_namedtuple(cls)
        or hasattr(cls, "__dataclass_fields__")
        or hasattr(cls, "__attrs_attrs__")
    )


def is_typeddict(cls: Any) -> bool:
    """True for classes made with the TypedDict of `typing` or of `typing_extensions`."""
    return hasattr(cls, "__total__") and issubclass(cls, dict)


def is_namedtuple(cls: Any) -> bool:
    """True for classes made with NamedTuple or namedtuple."""
    return hasattr(cls, "_fields") and hasattr(cls, "_field_defaults") and issubclass(cls, tuple)


def is_array(cls: Any) -> bool:
    """True where an instance is a JSON array, not an object."""
    return is_namedtuple(cls) or (issubclass(cls, msgspec.Struct) and cls.__struct_config__.array_like)


def fields_of(cls: Any) -> tuple[Field, ...]:
    """The fields of a class in the order of their definition; none for a class without annotations.

    Raises what evaluating its annotations raises (RegistrationError, NameError).
    """
    if issubclass(cls, msgspec.Struct):
        return _struct_fields(cls)
    if is_typeddict(cls):
        return _typeddict_fields(cls)
    if is_namedtuple(cls):
        hints = _hints(cls)
        names: tuple[str, ...] = cls._fields
        defaults: dict[str, Any] = cls._field_defaults
        return tuple(_field(name, hints.get(name, Any), defaults.get(name, EMPTY)) for name in names)
    if hasattr(cls, "__dataclass_fields__"):
        return _dataclass_fields(cls)
    return _plain_fields(cls)


def build(cls: Any, values: dict[str, Any]) -> Any:
    """An instance of `cls` from its fields' values by Python name; fields left out take the class's own defaults."""
    if is_typeddict(cls):
        return values
    if "__init__" in _own(cls) or is_native(cls):
        return cls(**values)
    instance = cls()
    for name, value in values.items():
        setattr(instance, name, value)
    return instance


def attributes(value: Any, fields: tuple[Field, ...]) -> dict[str, Any]:
    """The fields of a plain object, by wire name. Raises TypeError where a required one is no attribute of it."""
    missing = [field.name for field in fields if field.required and not hasattr(value, field.name)]
    if missing:
        raise TypeError(f"{type(value).__name__} has no attribute {missing[0]!r}")
    return {field.wire: getattr(value, field.name) for field in fields if hasattr(value, field.name)}


def _own(cls: Any) -> set[str]:
    """The names that the class and its bases define, `object` aside."""
    bases: tuple[type, ...] = cls.__mro__
    return {name for base in bases if base is not object for name in vars(base)}


def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)


def _field(name: str, annotation: Any, default: Any) -> Field:
    if default is EMPTY:
        return Field(name, name, annotation, True)
    return Field(name, name, annotation, False, EMPTY if default is UNSET else default)


def _struct_fields(cls: Any) -> tuple[Field, ...]:
    hints = _hints(cls)
    found: list[Field] = []
    for item in msgspec.structs.fields(cls):
        default: Any = EMPTY if item.default is NODEFAULT or item.default is UNSET else item.default
        if item.default_factory in FACTORIES:
            default = item.default_factory()
        found.append(Field(item.name, item.encode_name, hints.get(item.name, item.type), item.required, default))
    return tuple(found)


def _dataclass_fields(cls: Any) -> tuple[Field, ...]:
    dataclasses = sys.modules["dataclasses"]
    hints = _hints(cls)
    found: list[Field] = []
    for item in dataclasses.fields(cls):
        if not item.init:
            continue
        if item.default_factory is not dataclasses.MISSING:
            shown: Any = item.default_factory() if item.default_factory in FACTORIES else EMPTY
            found.append(Field(item.name, item.name, hints[item.name], False, shown))
        else:
            default = EMPTY if item.default is dataclasses.MISSING else item.default
            found.append(_field(item.name, hints[item.name], default))
    return tuple(found)


def _typeddict_fields(cls: Any) -> tuple[Field, ...]:
    hints = _hints(cls)
    required: set[str] = set(cls.__required_keys__)
    found: list[Field] = []
    for name, hint in hints.items():
        needed = name in required
        while (origin := typing.get_origin(hint)) in (typing.Required, typing.NotRequired):
            # Under `from __future__ import annotations` __required_keys__ knows nothing of these.
            needed = origin is typing.Required
            hint = typing.get_args(hint)[0]
        found.append(Field(name, name, hint, needed))
    return tuple(found)


def _plain_fields(cls: Any) -> tuple[Field, ...]:
    """attrs and plain classes: the annotated parameters of `__init__`, else the class's own annotations."""
    init = _own(cls) & {"__init__"} and cls.__init__
    if not init or not inspect.isfunction(init):
        return tuple(_field(name, hint, getattr(cls, name, EMPTY)) for name, hint in _hints(cls).items())
    items = list(inspect.signature(init).parameters.values())[1:]
    if any(item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD, item.POSITIONAL_ONLY) for item in items):
        return ()
    if any(item.annotation is EMPTY for item in items):
        return ()
    return tuple(_field(item.name, evaluated(init, item.name, item.annotation), item.default) for item in items)
