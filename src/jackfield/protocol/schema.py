"""JSON Schema: compiling a document that is within bounds, and what is wrong with a value, by JSON path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec import Struct

from .limits import Limits
from .schema_bounds import Graph, InvalidSchema, Json, Node, cut, map_of, members, patterns_of, pointer

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["MOST_PROBLEMS", "InvalidSchema", "Problem", "Schema"]

MOST_PROBLEMS: Final = 20
"""How many problems are reported for one value."""
MOST_LOOKS: Final = 2**27
"""What the engine may look at for one verdict: a few seconds. Else a small schema and value could take days (S03)."""
MOST_EXPLAINED: Final = 100_000
"""What the engine may look at where every problem is wanted: it makes an object for each, and for each alternative."""
MOST_COPIED: Final = 500_000
MOST_COPIED_BYTES: Final = 2**27
"""How much of the value all those objects may hold: each has a copy of what it found wrong, with all that is in it."""
MOST_EXPLAINED_CHAIN: Final = 256
"""How many schemas within one another are followed then; the engine's stack ends at about 600 on a small thread."""
MOST_STATES: Final = 2**31
"""The bytes of a value times the states of the patterns that may read them: some seconds at the very worst (S01)."""
PATTERN_SIZE: Final = 2**16
"""The largest compiled pattern, in bytes. What a pattern can cost for each character grows with it."""

_EXACT: Final = ("not", "if", "oneOf", "contains", "unevaluatedItems", "unevaluatedProperties")
"""Keywords that turn their schemas round or count them: without a pattern in those they would refuse what is right."""
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Path = list[str | int]


class Problem(Struct, frozen=True):
    """One thing wrong with a value: `path` is where, as in `$.routine.blocks[3]`, `message` what, for people."""

    path: str
    message: str


class Schema:
    """A JSON Schema within bounds, compiled when it is first used.

    2020-12, or draft-07 where `$schema` says so; other dialects are refused (JS-1). Within `limits` (`schema_size`,
    `schema_depth`, `schema_nodes`), and with no reference out of it: nothing is ever fetched, and references are
    counted without expanding them (JS-2, JS-3). Patterns run on an engine whose time is linear (S01). `format` is a
    note, not a check. Raises InvalidSchema, which names the place.
    """

    def __init__(self, document: Json, limits: Limits = Limits()) -> None:
        self.document = document
        self._graph: Graph | None = Graph(document, limits)
        self._cost = self._graph.cost()
        self._depth = limits.depth
        self._validator: jsonschema_rs.Validator
        self._unchecked: tuple[str, ...]

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The places that are not checked, as JSON pointers: patterns that the linear engine cannot run (look-around,
        back references, far too large ones), and keywords that would judge wrongly without such a pattern.
        """
        self.compile()
        return self._unchecked

    def compile(self) -> jsonschema_rs.Validator:
        """Compile now, not at the first use. Raises InvalidSchema for what is no JSON Schema of its dialect (JS-2)."""
        if self._graph is not None:
            self._validator, self._unchecked = _compiled(self.document, self._graph)
            self._graph = None  # what was learned from it are the costs
        return self._validator

    def is_valid(self, value: Any) -> bool:
        """Whether `value`, decoded JSON, fits; 1.0 is an integer. What would cost too much to check does not fit."""
        validator = self.compile()
        try:
            return self._weigh(value) is None and validator.is_valid(value)
        except ValueError:
            return False

    def errors(self, value: Any) -> list[Problem]:
        """What is wrong with `value`, decoded JSON: at most MOST_PROBLEMS, in the order of their paths; [] if it fits.

        A value that is no JSON, or that costs too much to check, is one problem at `$`, and so is a value of which only
        the verdict can be had at a sane cost (many thousands of nodes, or deep in recursive alternatives).
        """
        validator = self.compile()
        fault = self._weigh(value)
        if fault is None:
            try:
                return [] if validator.is_valid(value) else self._explain(validator, value)
            except ValueError as error:
                fault = f"is no JSON value: {error}"
        return [Problem("$", cut(fault))]

    def _weigh(self, value: Any) -> str | None:
        """Why `value` cannot be checked, or None. Nearly always its encoded form shows that it can, without a walk."""
        try:
            body = msgspec.json.encode(value)
        except RecursionError:
            return f"is nested deeper than {self._depth} levels"
        except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
            return f"is no JSON value: {error}"
        containers = body.count(b"[") + body.count(b"{")
        if containers > self._depth and len(_levels(value)) > self._depth + 1:
            return f"is nested deeper than {self._depth} levels"
        cost = self._cost
        nodes = containers + body.count(b",") + 1  # or fewer: commas in texts count too
        looks, states = nodes * cost.looks_at_most, len(body) * cost.states_at_most
        if looks > MOST_LOOKS or states > MOST_STATES or not cost.remembered:
            levels = _levels(value)
            forgetful = _total(levels, cost.looks), len(body) * max(_at_depths(cost.states, len(levels)))
            looks = min(sum(levels) * cost.looks_at_most, forgetful[0]) if cost.remembered else forgetful[0]
            states = min(states, forgetful[1]) if cost.remembered else forgetful[1]
        if looks > MOST_LOOKS:
            return "is too large to be checked against this schema"
        if states > MOST_STATES:
            return "is too long to be checked against the patterns of this schema"
        return None

    def _explain(self, validator: jsonschema_rs.Validator, value: Any) -> list[Problem]:
        levels, cost = _levels(value), self._cost
        looks = _total(levels, cost.looks)
        # A value is copied for each fault of its own and of all that it is in.
        around = list(accumulate(_at_depths(cost.faults, len(levels))))
        names = max(levels) if cost.names else 1
        faults: Iterable[jsonschema_rs.ValidationError]
        if (
            looks <= MOST_EXPLAINED
            and len(levels) * cost.chain <= MOST_EXPLAINED_CHAIN
            and _total(levels, around) * names <= MOST_COPIED
            and len(msgspec.json.encode(value)) * around[-1] * names <= MOST_COPIED_BYTES
        ):
            faults = validator.iter_errors(value)
        elif looks <= MOST_LOOKS and not cost.alternatives:
            faults = _first_error(validator, value)
        else:
            return [Problem("$", "does not fit the schema; it is too large or too nested to say where")]
        found = {(tuple((isinstance(step, str), step) for step in path), text) for path, text in _all(faults, value)}
        ordered = sorted(found)[:MOST_PROBLEMS]
        return [Problem(_json_path([step for _, step in path]), cut(text)) for path, text in ordered]


# --- the engine ------------------------------------------------------------------------------------------------------


def _compiled(document: Json, graph: Graph) -> tuple[jsonschema_rs.Validator, tuple[str, ...]]:
    """The validator, and the places that it leaves unchecked."""
    # The dialect is settled; the engine does not know all the ways to write it.
    document = {key: value for key, value in document.items() if key != "$schema"}
    try:
        return _engine(document, graph.dialect), ()
    except ValueError as error:
        patterns = {pattern for node in graph.nodes for pattern in patterns_of(node.schema)}
        bad = {pattern for pattern in patterns if not _is_linear(pattern)}
        if not bad:
            raise _refused(error, document) from None
    document, unchecked = _without(bad, graph.nodes, document)
    try:
        return _engine(document, graph.dialect), unchecked
    except ValueError as error:
        raise _refused(error, document) from None


def _engine(document: Json, dialect: str) -> jsonschema_rs.Validator:
    import jsonschema_rs

    make = jsonschema_rs.Draft7Validator if dialect == "draft-07" else jsonschema_rs.Draft202012Validator
    return make(
        document,
        offline=True,
        validate_formats=False,
        mask="it",  # stands for the value in messages, which could be huge
        pattern_options=jsonschema_rs.RegexOptions(size_limit=PATTERN_SIZE),
    )


def _is_linear(pattern: str) -> bool:
    try:
        _engine({"pattern": pattern}, "2020-12")
    except ValueError:
        return False
    return True


def _refused(error: ValueError, document: Json) -> InvalidSchema:
    import jsonschema_rs

    if not isinstance(error, jsonschema_rs.ValidationError):
        return InvalidSchema("#", f"is no JSON: {error}")
    place = None
    for step in error.instance_path:
        place = (place, str(step))
    value = _at(document, error)
    shown = "" if isinstance(value, dict | list) else f"{cut(repr(value))}: "
    return InvalidSchema(pointer(place), f"{shown}{next(_all([error], document))[1]}")


def _first_error(validator: jsonschema_rs.Validator, value: Any) -> list[jsonschema_rs.ValidationError]:
    import jsonschema_rs

    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        return [error]
    return []


def _levels(value: Any) -> list[int]:
    """How many values there are at each depth, the value itself first."""
    sizes: list[int] = []
    level = [value]
    while level:
        sizes.append(len(level))
        level = members(level)
    return sizes


def _at_depths(by_depth: list[int], depths: int) -> list[int]:
    return (by_depth + by_depth[-1:] * depths)[:depths]


def _total(levels: list[int], by_depth: list[int]) -> int:
    return sum(size * each for size, each in zip(levels, _at_depths(by_depth, len(levels)), strict=True))


def _without(bad: set[str], nodes: list[Node], document: Json) -> tuple[Json, tuple[str, ...]]:
    """A copy of the document without the patterns in `bad`, and the places of all that it leaves unchecked.

    What is then refused would be refused with them too: where a keyword turns round or counts what lets more pass now,
    the keyword goes as well.
    """
    users: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for _, _, child in node.links:
            users.setdefault(child, []).append(number)
    looser: set[int] = set()
    todo = [number for number, node in enumerate(nodes) if bad.intersection(patterns_of(node.schema))]
    while todo:
        number = todo.pop()
        if number not in looser:
            looser.add(number)
            todo += users.get(number, [])
    dropped: dict[int, set[str]] = {}
    places: list[str] = []
    for number in sorted(looser):
        node = nodes[number]
        drop = {keyword for _, keyword, child in node.links if keyword in _EXACT and child in looser}
        drop |= {keyword for keyword in _EXACT if keyword.startswith("unevaluated") and keyword in node.schema}
        if node.schema.get("pattern") in bad:
            drop.add("pattern")
        places += [pointer((node.place, keyword)) for keyword in sorted(drop)]
        named = map_of(node.schema, "patternProperties")
        places += [pointer(((node.place, "patternProperties"), pattern)) for pattern in named if pattern in bad]
        dropped[id(node.schema)] = drop | ({"then", "else"} if "if" in drop else set())
    root = dropped.get(id(nodes[0].schema), set())
    dropped[id(document)] = root
    return _copy(document, dropped, bad), tuple(places)


def _copy(value: Any, dropped: dict[int, set[str]], bad: set[str]) -> Any:
    if isinstance(value, list):
        return [_copy(each, dropped, bad) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    content = cast("Json", value)
    drop = dropped.get(id(content))
    if drop is None:
        return {key: _copy(each, dropped, bad) for key, each in content.items()}
    copied = {key: _copy(each, dropped, bad) for key, each in content.items() if key not in drop}
    named = map_of(copied, "patternProperties")
    if bad & named.keys():
        # Whatever name the pattern could have meant is let pass, and is no additional one.
        copied["patternProperties"] = {"": True, **{key: each for key, each in named.items() if key not in bad}}
    return copied


# --- messages --------------------------------------------------------------------------------------------------------


def _all(faults: Iterable[jsonschema_rs.ValidationError], value: Any) -> Iterator[tuple[Path, str]]:
    """Where each fault is and what it says; alternatives give the faults of the one that was meant, if it is clear."""
    for fault in faults:
        path, kind = fault.instance_path, type(fault.kind).__name__
        if kind in ("AnyOf", "OneOfNotValid"):
            yield from _alternatives(fault, value)
        else:
            say = _MESSAGES.get(kind)
            yield path, fault.message.removeprefix("it ") if say is None else say(fault, _at(value, fault))


def _alternatives(fault: Any, value: Any) -> Iterator[tuple[Path, str]]:
    path: Path = fault.instance_path
    tried: list[list[jsonschema_rs.ValidationError]] = fault.kind.context
    types: list[str] = []
    meant: list[list[jsonschema_rs.ValidationError]] = []
    for faults in tried:
        kinds = [(type(each.kind).__name__, len(each.instance_path) - len(path)) for each in faults]
        if kinds == [("Type", 0)]:
            types += cast("Any", faults[0].kind).types
        if not any(kind == ("Type", 0) or (kind[0] in ("Constant", "Enum") and kind[1] <= 1) for kind in kinds):
            meant.append(faults)
    if len(meant) == 1:
        yield from _all(meant[0], value)
    elif len(types) >= len(tried):
        yield path, _wrong_type(list(dict.fromkeys(types)), _at(value, fault))
    else:
        yield path, f"fits none of the {len(tried)} alternatives"


def _wrong_type(types: list[str], value: Any) -> str:
    *most, last = types
    wanted = f"{', '.join(most)} or {last}" if most else last
    return f"expected {wanted}, got {_type_of(value)}"


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object"}
    return names.get(value.__class__, "array")


def _at(value: Any, fault: Any) -> Any:
    """The value that is wrong, without asking the engine for its copy where the path leads there."""
    try:
        for step in fault.instance_path:
            value = value[step]
    except (LookupError, TypeError):
        return fault.instance  # the engine leaves empty names out of a path
    return value


def _json_path(path: Path) -> str:
    text = "$"
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            text += f".{cut(step)}"
        else:
            text += f"[{_shown(step)}]"
    return text


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:59]}…"


def _listed(values: list[Any]) -> str:
    shown = ", ".join(_shown(each) for each in values[:8])
    return shown if len(values) <= 8 else f"{shown} and {len(values) - 8} more"


def _unexpected(names: list[str]) -> str:
    return f"unexpected {'property' if len(names) == 1 else 'properties'} {_listed(names)}"


def _not_allowed(fault: Any, value: Any) -> str:
    # Where no property at all is allowed, the engine does not say which ones there are.
    if fault.schema_path[-1:] == ["additionalProperties"] and isinstance(value, dict):
        return _unexpected(list(cast("Json", value)))
    return "is not allowed"


_MESSAGES: Final[dict[str, Callable[[Any, Any], str]]] = {
    "Type": lambda fault, value: _wrong_type(fault.kind.types, value),
    "Required": lambda fault, _value: f"missing property {_shown(fault.kind.property)}",
    "AdditionalProperties": lambda fault, _value: _unexpected(fault.kind.unexpected),
    "UnevaluatedProperties": lambda fault, _value: _unexpected(fault.kind.unexpected),
    "FalseSchema": _not_allowed,
    "Enum": lambda fault, _value: f"is not one of {_listed(fault.kind.options)}",
    "Constant": lambda fault, _value: f"is not {_shown(fault.kind.expected_value)}",
    "OneOfMultipleValid": lambda _fault, _value: "fits more than one of the alternatives, but may fit only one",
    "Not": lambda _fault, _value: "fits a schema that it must not fit",
    "Contains": lambda _fault, _value: "has too few or too many of the items that `contains` asks for",
    "PropertyNames": lambda fault, _value: (
        f"property name {_shown(fault.kind.error.instance)}: {fault.kind.error.message.removeprefix('it ')}"
    ),
}
