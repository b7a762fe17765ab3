"""From a function's signature to an input schema, and from a client's arguments to the values of one call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_origin

import msgspec
from msgspec import NODEFAULT, Raw

from ..protocol.errors import INVALID_PARAMS, ProtocolError, RegistrationError, ToolError
from ..protocol.limits import Limits
from ..protocol.types import PromptArgument
from .encoding import json_value
from .pydantic_bridge import Default, default_of, is_field, owns
from .records import is_native
from .schemas import Json, marked, rooted, schemas_of
from .signature import EMPTY, FACTORIES, Parameter, evaluated, name_of, parameters_of
from .typeschema import TypeMap, unproxy, widened

if TYPE_CHECKING:
    from ..protocol.schema import Schema

_SHAPES = ((list, "array"), (str, "string"), (bool, "boolean"))
_DATA = (list, dict, set, bytearray, tuple)
_Positional = list[Any]
_Keyword = dict[str, Any]


class ArgumentsError(ToolError):
    """Arguments that do not fit; its text is all `problems`, each of which begins with the place, as in `$.a`."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class Arguments:
    """The arguments of one function; built once, at registration (see `arguments_of`)."""

    schema: Json
    """The input schema: an object at its root, `properties` always there (TOOL-3, F53)."""
    names: tuple[str, ...]
    """The parameters' names, in order; also the attributes of what `decode` returns."""
    decode: Callable[[bytes | Raw], Any]
    """From the JSON of the arguments to a Struct. Raises msgspec.DecodeError or RecursionError; see `repair`."""
    positional: bool
    """True where `fn(*astuple(arguments))` is the call: nothing has to be passed by keyword."""

    def __init__(
        self, fn: Callable[..., Any], *, skip: AbstractSet[str], strict: bool, limits: Limits = Limits()
    ) -> None:
        self.parameters = tuple(item for item in parameters_of(fn) if item.name not in skip)
        self.names = tuple(item.name for item in self.parameters)
        self.positional = not any(item.keyword_only for item in self.parameters)
        self._strict = strict
        self._limits = limits
        slots = [_slot(fn, item) for item in self.parameters]
        defaults = [default for _, default in slots]
        types = TypeMap()
        labels = [f"{name_of(fn)}: parameter {name!r}" for name in self.names]
        taken = types.take_all(dict(zip(labels, (annotation for annotation, _ in slots), strict=True)))
        self.types = dict(zip(self.names, taken.values(), strict=True))
        self.headers = types.headers
        self.wires = {name: default.wire or name for name, default in zip(self.names, defaults, strict=True)}
        """The name of each parameter on the wire; a `Field(alias=...)` changes it."""
        columns = zip(self.names, self.types.values(), map(_struct_default, defaults), strict=True)
        try:
            self.struct = msgspec.defstruct(
                "Arguments",
                [(name, kind, *default) for name, kind, default in columns],
                kw_only=True,
                gc=False,
                rename=self.wires,
            )
        except (TypeError, ValueError) as error:  # Two parameters with one name on the wire.
            raise RegistrationError(f"{name_of(fn)}: {error}") from error
        self.decode = msgspec.json.Decoder(self.struct, dec_hook=unproxy).decode
        root, defs = self._root(fn, types, defaults)
        self._whole = rooted(root, defs)  # null in marked properties too: what is taken, not what is listed
        self.schema = rooted(marked(root, defs, {}), defs)
        self._checker: Schema | None = None

    def values(self, arguments: Any) -> tuple[_Positional, _Keyword]:
        """What to pass by position and what by keyword, from what `decode` or `repair` returned."""
        positional: _Positional = []
        keyword: _Keyword = {}
        for item, value in zip(self.parameters, msgspec.structs.astuple(arguments), strict=True):
            if item.keyword_only:
                keyword[item.name] = value
            else:
                positional.append(value)
        return positional, keyword

    def repair(self, raw: Any, error: Exception) -> Any:
        """Decode arguments that `decode` refused with `error`, mended; the slow path.

        None and null count as empty (F50). An integral float is an integer. Unless strict, JSON text is decoded where
        the schema of a parameter wants an object or array and allows no text (F49); nothing else is changed (F48).
        Raises ArgumentsError with every fault and its place, and ProtocolError (-32700) for what is no JSON.
        """
        from . import mending  # not at the top: most calls need no mending

        defs: Json = self.schema.get("$defs", {})
        properties: Json = self.schema["properties"]
        arguments = mending.read_arguments(raw, lenient=not self._strict)
        if not isinstance(arguments, dict):
            kind = next((name for kind, name in _SHAPES if isinstance(arguments, kind)), "number")
            raise ArgumentsError([f"$: arguments must be an object, got {kind}"])
        given: Json = arguments  # pyright: ignore[reportUnknownVariableType]
        if not self._strict:
            given = {name: mending.opened(value, properties.get(name, True), defs) for name, value in given.items()}
        data = mending.write(mending.whole_numbers(given, [self.schema], defs))
        try:
            return self.decode(data)
        except mending.FAULTS as fault:
            error = fault
        raise ArgumentsError(self._problems(data) or [mending.placed(error)]) from None

    def _problems(self, data: bytes) -> list[str]:
        """Every fault that the schema finds: msgspec tells only its first."""
        from ..protocol.schema import InvalidSchema, Schema

        try:
            if self._checker is None:
                self._checker = Schema(self._whole, self._limits)
            found = self._checker.errors(msgspec.json.decode(data))
        except InvalidSchema:
            return []  # Types so large that the schema is over a limit: what msgspec said stands alone.
        problems = [f"{problem.path}: {problem.message}" for problem in found]
        return problems + self._formats(data, problems)

    def _formats(self, data: bytes, problems: list[str]) -> list[str]:
        """The faults that no schema finds, such as a date that is none, in parameters of which none was told yet."""
        from . import mending

        given = msgspec.json.decode(data, type=dict[str, Raw])
        faults: list[str] = []
        for name, wire in self.wires.items():
            place = f"$.{wire}"
            if wire in given and not any(problem.startswith(place) for problem in problems):
                try:
                    msgspec.json.decode(given[wire], type=self.types[name], dec_hook=unproxy)
                except mending.FAULTS as fault:
                    faults.append(place + mending.placed(fault).removeprefix("$"))
        return faults

    def _root(self, fn: Callable[..., Any], types: TypeMap, defaults: list[Default]) -> tuple[Json, Json]:
        try:
            schemas, defs = schemas_of(types, self.types.values())
        except TypeError as error:
            raise RegistrationError(f"{name_of(fn)}: {error}") from error
        from .docstrings import describe  # not at the top: serving needs none

        texts = describe(fn)[1]
        properties: Json = {}
        for name, schema, default in zip(self.names, schemas, defaults, strict=True):
            if "description" not in schema and name in texts:
                schema["description"] = texts[name]
            shown: Any = default.factory() if default.factory in FACTORIES else default.value
            if shown is not EMPTY and (value := json_value(shown)) is not EMPTY:
                schema["default"] = value
            properties[self.wires[name]] = schema
        required = [
            self.wires[name] for name, default in zip(self.names, defaults, strict=True) if not _struct_default(default)
        ]
        root: Json = {"type": "object", "properties": properties}
        if required:
            root["required"] = required
        return root, defs


def arguments_of(
    fn: Callable[..., Any], *, skip: AbstractSet[str], strict: bool, limits: Limits = Limits()
) -> Arguments:
    """The arguments of a tool's function, without the parameters in `skip`, which the caller fills.

    A parameter without an annotation takes any JSON value. Every fault of a call is told where the schema is within
    `limits`, else the first. Raises RegistrationError, naming the parameter, for `*args`, `**kwargs`, an annotation
    that cannot be evaluated, and a type that cannot be made of JSON.
    """
    return Arguments(fn, skip=skip, strict=strict, limits=limits)


class TextArguments:
    """Arguments that arrive as texts: those of prompts and the variables of resource templates (PRM-1, F62)."""

    def __init__(self, fn: Callable[..., Any], skip: AbstractSet[str], what: str) -> None:
        self._arguments = Arguments(fn, skip=skip, strict=True)
        if self._arguments.headers:
            raise RegistrationError(f"{name_of(fn)}: a Header is for parameters of tools; take it away here")
        self._names = {wire: name for name, wire in self._arguments.wires.items()}
        self._what = what
        self.required = frozenset(self._arguments.schema.get("required", ()))
        self.listed = [self._listed(wire) for wire in self._names]
        """The arguments as `prompts/list` shows them."""

    def values(self, given: Mapping[str, Any]) -> tuple[_Positional, _Keyword]:
        """What to pass by position and what by keyword; names that the function does not know are left out.

        A text goes in letter for letter where the parameter takes text, else it is decoded as JSON. Raises
        ProtocolError (-32602) that names the argument for one that is missing or does not fit.
        """
        if missing := [wire for wire in self._names if wire in self.required and wire not in given]:
            raise ProtocolError(INVALID_PARAMS, f"Missing {self._what}: {', '.join(missing)}")
        found = {name: self._value(wire, given[wire]) for wire, name in self._names.items() if wire in given}
        return self._arguments.values(self._arguments.struct(**found))

    def _value(self, wire: str, value: Any) -> Any:
        from . import mending

        kind = self._arguments.types[self._names[wire]]
        fault = ""
        for candidate in self._candidates(wire, value):
            try:
                return msgspec.convert(candidate, kind, dec_hook=unproxy, str_keys=True)
            except mending.FAULTS as error:
                fault = fault or mending.placed(error)
        raise ProtocolError(INVALID_PARAMS, f"Invalid {self._what} {wire!r}: {fault.removeprefix('$: ')}")

    def _candidates(self, wire: str, value: Any) -> Iterable[Any]:
        """What a text may stand for, the most literal first."""
        yield value
        yield from _json_values(value, *self._schema_of(wire))

    def _schema_of(self, wire: str) -> tuple[Any, Json]:
        root = self._arguments.schema
        return root["properties"][wire], root.get("$defs", {})

    def _listed(self, wire: str) -> PromptArgument:
        schema = self._schema_of(wire)[0]
        return PromptArgument(wire, schema.get("title"), schema.get("description"), wire in self.required)


class TemplateValues(TextArguments):
    """The variables of a resource template: texts, and lists of texts where a variable is exploded."""

    def _candidates(self, wire: str, value: Any) -> Iterable[Any]:
        texts: list[str] = value
        if isinstance(value, str):
            yield from super()._candidates(wire, value)
            texts = [value]
        yield texts
        schema, defs = self._schema_of(wire)
        yield [next(iter(_json_values(text, schema.get("items"), defs)), text) for text in texts]


def prompt_arguments_of(fn: Callable[..., Any], *, skip: AbstractSet[str]) -> TextArguments:
    """The arguments of a prompt's function, without the parameters in `skip`; raises as `arguments_of` does."""
    return TextArguments(fn, skip, "argument")


def template_values(fn: Callable[..., Any], names: Iterable[str], *, skip: AbstractSet[str]) -> TemplateValues:
    """The variables `names` of a URI template as the arguments of `fn`, without the parameters in `skip`.

    Raises RegistrationError where a variable has no parameter, a parameter that needs a value has no variable, and as
    `arguments_of` does.
    """
    found = TemplateValues(fn, skip, "variable")
    variables = set(names)
    if unknown := variables - {item.name for item in found.listed}:
        raise RegistrationError(
            f"{name_of(fn)}: the template's variable {min(unknown)!r} has no parameter of that name"
        )
    if unfilled := found.required - variables:
        raise RegistrationError(
            f"{name_of(fn)}: parameter {min(unfilled)!r} is no variable of the template; give it a default"
        )
    return found


def _slot(fn: Callable[..., Any], item: Parameter) -> tuple[Any, Default]:
    """A parameter's annotation, all that its default says of its type moved there, and the default."""
    annotation: Any = evaluated(fn, item.name, item.annotation)
    if annotation is EMPTY:
        annotation = Any
    notes: list[Any] = list(annotation.__metadata__) if get_origin(annotation) is Annotated else []
    if is_field(item.default):
        annotation = Annotated[annotation, item.default]
        notes.append(item.default)
    default = Default()
    for said in [*map(default_of, filter(is_field, notes)), _said(item.default)]:
        # The later word counts, and says nothing where it is silent.
        spoken = said if said.value is not EMPTY or said.factory is not EMPTY else default
        default = Default(spoken.value, spoken.factory, said.wire or default.wire)
    if default.value is None and annotation is not Any and annotation is not object:
        annotation = widened(annotation, None)  # A model that sees `default: null` sends null.
    return annotation, default


def _said(default: Any) -> Default:
    """A parameter's default in Python: a plain value, or what the `field(...)` of msgspec or dataclasses says."""
    if is_field(default):
        return Default()  # `_slot` has it among the notes.
    if isinstance(default, type(msgspec.field())):
        value, factory = (EMPTY if part is NODEFAULT else part for part in (default.default, default.default_factory))
        return Default(value, factory, default.name)
    dataclasses = sys.modules.get("dataclasses")
    if dataclasses is not None and isinstance(default, dataclasses.Field):
        found: Any = default  # pyright: ignore[reportUnknownVariableType]
        value, factory = (
            EMPTY if part is dataclasses.MISSING else part for part in (found.default, found.default_factory)
        )
        return Default(value, factory)
    return Default(default)


def _struct_default(default: Default) -> tuple[Any, ...]:
    """A default as the third part of a Struct's field; () where the parameter is required.

    Data that can be changed is copied for each call, so that no call sees what another left in it (F51); anything else,
    such as an object that only marks absence, stays the one that it is.
    """
    if default.factory is not EMPTY:
        return (msgspec.field(default_factory=default.factory),)
    if default.value is EMPTY:
        return ()
    kind = default.value.__class__
    if kind in _DATA or is_native(kind) or owns(kind):
        from copy import deepcopy

        return (msgspec.field(default_factory=partial(deepcopy, default.value)),)
    return (default.value,)


def _json_values(text: str, schema: Any, defs: Json) -> Iterable[Any]:
    """What a text is as JSON; nothing where it is none, or is a text in quotes: texts are taken letter for letter."""
    from . import mending

    try:
        value = mending.read_text(text)
    except ProtocolError:
        return
    if not isinstance(value, str):
        yield msgspec.json.decode(mending.write(mending.whole_numbers(value, [schema], defs)))
