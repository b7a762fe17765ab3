"""Annotations made ready for msgspec: what it cannot take stands behind a `Proxy` with its own schema and converter."""

from __future__ import annotations

import collections.abc
import datetime
import decimal
import enum
import sys
import types
import typing
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from ..protocol.errors import RegistrationError
from ..protocol.headers import MARK
from . import pydantic_bridge, records
from .encoding import json_value
from .records import Field
from .schemas import hoisted
from .signature import EMPTY

_NONE = type(None)
_TEXTS = ("title", "description", "examples", "extra_json_schema")
_SCALARS: set[Any] = {
    _NONE, bool, int, float, str, bytes, bytearray, Raw, UnsetType, decimal.Decimal, uuid.UUID,
    datetime.datetime, datetime.date, datetime.time, datetime.timedelta,
}  # fmt: skip
_SEQUENCES: set[Any] = {
    list, set, frozenset, tuple, collections.abc.Sequence, collections.abc.MutableSequence,
    collections.abc.Collection, collections.abc.Set, collections.abc.MutableSet,
}  # fmt: skip
_SETS: set[Any] = {set, frozenset, collections.abc.Set, collections.abc.MutableSet}
_STREAMS: set[Any] = {collections.abc.Iterable, collections.abc.Iterator}
_MAPPINGS: set[Any] = {dict, collections.abc.Mapping, collections.abc.MutableMapping}


Shape = Callable[[list[dict[str, Any]], dict[str, Any]], dict[str, Any]]


class Header(msgspec.Struct, frozen=True):
    """A note on a tool's parameter: clients repeat its value in the header Mcp-Param-`name` of an HTTP request (XH-4).

    As in `Annotated[str, Header("Region")]`: proxies route by it. On texts, integers and booleans, also in the fields
    of a parameter's class; never on secrets, for headers are logged (XH-7).
    """

    name: str

    def __get_pydantic_json_schema__(
        self, core_schema: Any, handler: Callable[[Any], dict[str, Any]]
    ) -> dict[str, Any]:
        """The mark of a field in a pydantic model, whose schemas pydantic makes."""
        return {**handler(core_schema), MARK: self.name}


class UnsupportedType(Exception):
    """An annotation that neither msgspec nor a Proxy can take; the text says which and why."""


class Proxy(type):
    """The class of stand-ins. msgspec meets a stand-in as a custom type and hands its values to `unproxy`."""

    take: Callable[[Any], Any]
    """From the JSON value, decoded to built-ins, to the value that the function gets; raises ValueError."""
    inner: tuple[Any, ...]
    """Types whose schemas `shape` needs."""
    shape: Shape
    """From the schemas of `inner`, and the `$defs` to add to, to the schema."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return True  # msgspec asks whether what `take` returned is an instance; `take` has judged that already.


def unproxy(kind: Any, value: Any) -> Any:
    """The `dec_hook` of every decoder whose types went through a TypeMap."""
    try:
        return kind.take(value)
    except msgspec.ValidationError as error:
        # msgspec puts the place of the value behind a plain ValueError only.
        raise ValueError(str(error)) from None


def refusal(annotation: Any) -> str:
    """Why msgspec cannot decode the annotation; empty where it can."""
    try:
        msgspec.json.Decoder(annotation, dec_hook=unproxy)
    except (TypeError, ValueError, RuntimeError, NotImplementedError, AttributeError, NameError, KeyError) as error:
        return str(error) or type(error).__name__
    return ""


class TypeMap:
    """Rewrites the annotations of one function; `output` chooses the schemas of results over those of arguments.

    `floats` and `sets` say whether a value of the types taken so far can hold a float, or a set, `headers` whether
    there is a `Header` among their notes.
    """

    def __init__(self, *, output: bool = False) -> None:
        self.output = output
        self.floats = False
        self.sets = False
        self.headers = False
        self.proxies: dict[Proxy, str] = {}
        """The stand-ins in use, in the order in which they were met, each with the label of its annotation."""
        self.plain: dict[type, tuple[Field, ...]] = {}
        """The plain annotated classes among the types."""
        self._records: dict[type, Proxy] = {}
        self._adapters: dict[int, tuple[Any, Proxy]] = {}
        """By the identity of the annotation, which is kept with it: not every one has a hash."""
        self._met: set[Any] = set()
        self._label = ""

    def take_all(self, annotations: dict[str, Any]) -> dict[str, Any]:
        """Types for msgspec, by the same labels. Raises RegistrationError that begins with the label at fault."""
        while True:
            known = len(self._records)
            self.proxies.clear()
            self._met.clear()
            taken: dict[str, Any] = {}
            for self._label, annotation in annotations.items():
                try:
                    taken[self._label] = self._take(annotation)
                except (UnsupportedType, NameError, TypeError) as error:
                    raise RegistrationError(f"{self._label}: {error}") from error
            # A class that turned out to need a stand-in may have been met before that was known: once more.
            if len(self._records) == known:
                break
        inside = [(label, part) for proxy, label in self.proxies.items() for part in proxy.inner]
        for label, part in [*taken.items(), *inside]:
            if reason := refusal(part):
                raise RegistrationError(f"{label}: {reason}")
        return taken

    def _take(self, annotation: Any) -> Any:
        if annotation is Any or annotation is object or annotation is EMPTY or pydantic_bridge.is_any(annotation):
            self.floats = True
            return Any
        if pydantic_bridge.owns(annotation):
            return self._pydantic(annotation)
        origin = typing.get_origin(annotation)
        if origin is Annotated:
            return self._marked(annotation, self._annotated(annotation))
        if origin is Union or origin is types.UnionType:
            return self._union(annotation)
        if origin is Literal:
            return self._literal(annotation)
        if isinstance(annotation, typing.TypeVar):
            return self._type_variable(annotation)
        if supertype := getattr(annotation, "__supertype__", None):
            return self._take(supertype)
        if hasattr(origin or annotation, "__value__"):
            return self._alias(annotation, origin)
        base = origin or annotation
        if base in _STREAMS:
            return self._take(list[typing.get_args(annotation) or Any])
        if base in _SEQUENCES or base in _MAPPINGS:
            return self._container(annotation, base)
        if annotation is None:
            return self._take(_NONE)
        if isinstance(base, type):
            return self._class(annotation, base)
        raise UnsupportedType(f"{annotation!r} cannot be made of JSON")

    def _type_variable(self, annotation: typing.TypeVar) -> Any:
        bound = annotation.__bound__ or Any
        taken = self._take(bound)
        return annotation if _same(bound, taken) else taken

    def _alias(self, annotation: Any, origin: Any) -> Any:
        if annotation in self._met:
            raise UnsupportedType(f"the type alias {annotation} contains itself; write a class, or Any")
        self._met.add(annotation)
        value = origin.__value__[typing.get_args(annotation)] if origin else annotation.__value__
        taken = self._take(value)
        self._met.discard(annotation)
        return taken

    def _container(self, annotation: Any, base: Any) -> Any:
        args = typing.get_args(annotation)
        self.sets = self.sets or base in _SETS
        if not args:
            self.floats = True
            return annotation
        taken = tuple(arg if arg is ... else self._take(arg) for arg in args)
        if base in _MAPPINGS and _is_container(taken[0]):
            raise UnsupportedType(f"{annotation}: the keys of a JSON object are text")
        return annotation if all(map(_same, args, taken)) else base[taken]

    def _literal(self, annotation: Any) -> Any:
        values = typing.get_args(annotation)
        # Some versions of msgspec cannot list values of several types.
        plain = len(set(map(type, values))) == 1 and not refusal(annotation)
        return annotation if plain else self._choice(str(annotation), values)

    def _class(self, annotation: Any, cls: Any) -> Any:
        if cls in _SCALARS:
            self.floats = self.floats or cls is float or cls is Raw
            return annotation
        if issubclass(cls, enum.Enum):
            return annotation if not refusal(cls) else self._choice(cls.__name__, tuple(cls))
        if (pathlib := sys.modules.get("pathlib")) and issubclass(cls, pathlib.PurePath):
            return self._proxy(cls.__name__, _from_text(cls), (), lambda _, __: {"type": "string", "format": "path"})
        if records.is_native(cls) or records.fields_of(cls):
            return self._record(annotation, cls)
        raise UnsupportedType(f"{cls.__name__} cannot be made of JSON: it has no annotated fields")

    def _record(self, annotation: Any, cls: Any) -> Any:
        args = typing.get_args(annotation)
        # A stand-in knows one class, not the many that a generic one is.
        if args and (cls in self._records or not all(_same(arg, self._take(arg)) for arg in args)):
            raise UnsupportedType(f"{annotation}: write a class that is not generic, or fields that msgspec can take")
        if proxy := self._records.get(cls):
            if proxy not in self.proxies:
                self.proxies[proxy] = self._label
                self._define(proxy, cls, records.fields_of(cls))
            return proxy
        if cls in self._met:
            return annotation
        self._met.add(cls)
        fields = records.fields_of(cls)
        same = [_same(field.annotation, self._take(field.annotation)) for field in fields]
        if all(same) and records.is_native(cls) and all(map(_shown, fields)):
            return annotation
        self._records[cls] = Proxy(cls.__name__, (), {})
        return self._record(annotation, cls)

    def _define(self, proxy: Proxy, cls: Any, fields: tuple[Field, ...]) -> None:
        """Make a stand-in for a class decode: to a Struct of the same fields, then by the class's own constructor."""
        if not records.is_native(cls):
            self.plain[cls] = fields
            self.floats = True
        config = cls.__struct_config__ if issubclass(cls, msgspec.Struct) else None
        columns = [(f"f{index}", self._column(field), *_optional(field)) for index, field in enumerate(fields)]
        shadow = msgspec.defstruct(
            cls.__name__,
            columns,
            kw_only=not records.is_array(cls),
            array_like=records.is_array(cls),
            rename={f"f{index}": field.wire for index, field in enumerate(fields)},
            forbid_unknown_fields=config.forbid_unknown_fields if config else records.is_namedtuple(cls),
            tag=config.tag if config else None,
            tag_field=config.tag_field if config else None,
            namespace={"__doc__": _document(cls), "__qualname__": cls.__qualname__},
            module=cls.__module__,
        )
        names = [field.name for field in fields]

        def take(value: Any) -> Any:
            got = msgspec.structs.astuple(msgspec.convert(value, shadow, dec_hook=unproxy, str_keys=True))
            return records.build(cls, {name: item for name, item in zip(names, got, strict=True) if item is not UNSET})

        proxy.take, proxy.inner, proxy.shape = take, (shadow,), _first

    def _column(self, field: Field) -> Any:
        if field.required:
            return self._take(field.annotation)
        taken = self._take(widened(field.annotation, UnsetType))
        default = json_value(field.default)
        return taken if default is EMPTY else Annotated[taken, Meta(extra_json_schema={"default": default})]

    def _annotated(self, annotation: Any) -> Any:
        notes = [pydantic_bridge.metas_of(note) for note in annotation.__metadata__]
        if None in notes:
            return self._pydantic(annotation)
        metas = [meta for found in notes for meta in found or ()]
        taken = self._take(annotation.__origin__)
        metas_alone = all(isinstance(note, Meta) for note in annotation.__metadata__)
        if metas_alone and _same(annotation.__origin__, taken) and not refusal(annotation):
            return annotation
        try:
            bounded = _bounded(taken, metas)
        except UnsupportedType as error:
            if any(map(pydantic_bridge.is_field, annotation.__metadata__)):
                return self._pydantic(annotation)
            raise UnsupportedType(f"{annotation}: {error}") from error
        for meta in metas:
            texts = {name: text for name in _TEXTS if (text := getattr(meta, name)) is not None}
            bounded = Annotated[bounded, Meta(**texts)] if texts else bounded
        return bounded

    def _marked(self, annotation: Any, taken: Any) -> Any:
        """`taken` with the mark of the last `Header` in the annotation; results have no headers."""
        if Header in annotation.__metadata__:
            raise UnsupportedType('Header has a name: write Header("Region")')
        headers = [note for note in annotation.__metadata__ if isinstance(note, Header)]
        self.headers = self.headers or bool(headers)
        if not headers or self.output:
            return taken
        return Annotated[taken, Meta(extra_json_schema={MARK: headers[-1].name})]

    def _union(self, annotation: Any) -> Any:
        written = typing.get_args(annotation)
        taken = tuple(self._take(part) for part in written)
        whole = _joined(taken)
        if not refusal(whole):
            return annotation if all(map(_same, written, taken)) else whole
        absent = [part for part in taken if part is _NONE or part is UnsetType]
        pairs = [(part, wires(source)) for part, source in zip(taken, written, strict=True) if part not in absent]

        def take(value: Any) -> Any:
            return _closest(value, pairs, annotation)

        members = tuple(part for part, _ in pairs)
        proxy = self._proxy("Union", take, members, lambda schemas, _: {"anyOf": schemas})
        return _joined((proxy, *absent))

    def _choice(self, name: str, values: tuple[Any, ...]) -> Proxy:
        """A stand-in for an Enum or Literal whose values msgspec cannot mix: a value is found by its JSON."""
        self.floats = True
        try:
            table = {msgspec.json.encode(value): value for value in values}
        except TypeError as error:
            raise UnsupportedType(f"{name}: its values cannot be JSON: {error}") from error

        def take(value: Any) -> Any:
            if (found := table.get(msgspec.json.encode(value), EMPTY)) is EMPTY:
                raise ValueError(f"Invalid value {msgspec.json.encode(value).decode()}")
            return found

        listed = [msgspec.json.decode(key) for key in table]
        return self._proxy(name, take, (), lambda _, __: {"enum": listed})

    def _pydantic(self, annotation: Any) -> Proxy:
        self.floats = True
        known = self._adapters.get(id(annotation))
        if known is None:
            try:
                take, schema = pydantic_bridge.adapter(annotation, output=self.output)
            except Exception as error:  # pydantic has many, and runs code of the annotation's author.
                raise UnsupportedType(f"pydantic refuses it: {str(error).splitlines()[0]}") from error
            name = annotation.__name__ if isinstance(annotation, type) else ""
            proxy = self._proxy(name, take, (), lambda _, defs: hoisted(schema, defs, name))
            known = self._adapters[id(annotation)] = (annotation, proxy)
        self.proxies[known[1]] = self._label
        return known[1]

    def _proxy(self, name: str, take: Callable[[Any], Any], inner: tuple[Any, ...], shape: Shape) -> Proxy:
        proxy = Proxy(name, (), {"take": take, "inner": inner, "shape": shape})
        self.proxies[proxy] = self._label
        return proxy


def wires(annotation: Any) -> frozenset[str]:
    """The names that an object of this type has on the wire; none for what is no class with fields."""
    cls = typing.get_origin(annotation) or annotation
    if cls is Annotated:
        return wires(annotation.__origin__)
    if not isinstance(cls, type):
        return frozenset()
    if pydantic_bridge.owns(cls):
        return pydantic_bridge.names_of(cls)
    known = records.is_native(cls)
    return frozenset(field.wire for field in records.fields_of(cls)) if known else frozenset()


def _closest(value: Any, pairs: list[tuple[Any, frozenset[str]]], annotation: Any) -> Any:
    """`value` as the first type of a union that takes it; an object as the one that knows most of its fields."""
    best, most = EMPTY, -1
    for part, names in pairs:
        try:
            got = msgspec.convert(value, part, dec_hook=unproxy, str_keys=True)
        except (msgspec.MsgspecError, ValueError):
            continue  # It may be one of the others.
        if not isinstance(value, dict):
            return got
        if (known := len(names.intersection(value))) > most:  # pyright: ignore[reportUnknownArgumentType]
            best, most = got, known
    if best is EMPTY:
        raise ValueError(f"Expected a value of `{annotation}`")
    return best


def _bounded(taken: Any, metas: list[Meta]) -> Any:
    """`taken` with the limits of `metas`, each on the members of a union that can bear it.

    msgspec refuses a limit on `int | None`; people mean the integer.
    """
    union = typing.get_origin(taken) in (Union, types.UnionType)
    members = list(typing.get_args(taken)) if union else [taken]
    bounded = False
    for meta in metas:
        for limit in (*pydantic_bridge.LIMITS, "tz"):
            if (value := getattr(meta, limit)) is None:
                continue
            if isinstance(value, int) and abs(value) >= 2**63:
                raise UnsupportedType(f"{limit}={value} is beyond the 64 bits that a limit may have")
            alone: dict[str, Any] = {limit: value}
            bound = Meta(**alone)
            refused = [refusal(Annotated[_bare(member), bound]) for member in members]
            if all(refused):
                raise UnsupportedType(refused[0])
            members = [part if no else Annotated[part, bound] for part, no in zip(members, refused, strict=True)]
            bounded = True
    return _joined(members) if bounded else taken


def widened(annotation: Any, other: Any) -> Any:
    """The annotation with another type allowed; its notes, which describe the whole of it, stay outside."""
    if typing.get_origin(annotation) is Annotated:
        return Annotated[(widened(annotation.__origin__, other), *annotation.__metadata__)]
    return _joined((annotation, other))


def _joined(members: Sequence[Any]) -> Any:
    """The union of types. Before Python 3.12 a note that has no hash, such as one with examples, cannot be in it."""
    try:
        return Union[tuple(members)]  # noqa: UP007 - `|` fails on some stand-ins
    except TypeError:
        return Union[tuple(map(_hashable, members))]  # noqa: UP007


def _hashable(annotation: Any) -> Any:
    if typing.get_origin(annotation) is not Annotated:
        return annotation
    notes: list[Any] = []
    for note in annotation.__metadata__:
        try:
            hash(note)
        except TypeError:
            continue
        notes.append(note)
    return Annotated[(annotation.__origin__, *notes)] if notes else annotation.__origin__


def _bare(annotation: Any) -> Any:
    """The type without its arguments and notes: all that counts for whether it can bear a limit."""
    while typing.get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    return typing.get_origin(annotation) or annotation


def _is_container(annotation: Any) -> bool:
    bare = _bare(annotation)
    return bare in _SEQUENCES or bare in _MAPPINGS or (isinstance(bare, type) and records.is_native(bare))


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and one == other)


def _optional(field: Field) -> tuple[Any, ...]:
    return () if field.required else (UNSET,)


def _shown(field: Field) -> bool:
    """False where a default would break the schema that msgspec makes of the class."""
    return field.default is EMPTY or json_value(field.default) is not EMPTY


def _first(schemas: list[dict[str, Any]], _: dict[str, Any]) -> dict[str, Any]:
    return schemas[0]


def _document(cls: Any) -> str:
    text: str = cls.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{cls.__name__}(") else text


def _from_text(cls: Any) -> Callable[[Any], Any]:
    def take(value: Any) -> Any:
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{type(value).__name__}`")
        return cls(value)

    return take
