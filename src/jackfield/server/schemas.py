"""JSON Schemas of a function's types: made by msgspec and by stand-ins, with one `$defs`, asked what they allow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from ..protocol.headers import MARK

if TYPE_CHECKING:
    from .typeschema import TypeMap

Json = dict[str, Any]

_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")
_TURNS = ("anyOf", "oneOf", "allOf")
_LISTS = (*_TURNS, "prefixItems")
_SINGLES = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
"""What a URI fragment, and so a `$ref`, cannot hold as it is: the brackets of generic models, for one."""
_PREFIX = "#/$defs/"
_KINDS = {
    str: "string",
    int: "integer",
    bool: "boolean",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}
ALL_KINDS = frozenset(_KINDS.values())


def schemas_of(types: TypeMap, taken: Iterable[Any]) -> tuple[list[Json], Json]:
    """The schemas of `taken` (types that `types` gave) and the `$defs` that they refer to.

    Raises TypeError for a type that has no schema.
    """
    asked = list(taken)
    proxies: list[Any] = list(types.proxies)
    numbers = {proxy: index for index, proxy in enumerate(proxies)}
    inner = [part for proxy in proxies for part in proxy.inner]
    # A stand-in leaves its number in the schema; `fill` puts its own schema there.
    made, found = msgspec.json.schema_components([*asked, *inner], schema_hook=lambda cls: {"$proxy": numbers[cls]})
    defs: Json = dict(found)
    rest = iter(made[len(asked) :])
    wanted: list[list[Json]] = [[next(rest) for _ in proxy.inner] for proxy in proxies]

    def fill(node: Json) -> Json:
        number: int | None = node.pop("$proxy", None)
        if number is None:
            return _tidied(node)
        inside = list(map(filled_in, wanted[number]))
        body: Json = proxies[number].shape(inside, defs)
        return _tidied({**body, **node})

    def filled_in(schema: Json) -> Json:
        return each(schema, fill)

    filled = list(map(filled_in, made[: len(asked)]))
    for name in list(found):
        defs[name] = filled_in(found[name])
    return filled, defs


def each(schema: Any, change: Callable[[Json], Json]) -> Any:
    """A copy of `schema` with `change` applied to it and to every schema inside, from the leaves up."""
    if not isinstance(schema, dict):
        return schema  # `true` and `false` are schemas too.
    node: Json = dict(schema)  # pyright: ignore[reportUnknownArgumentType]
    for key in _MAPS:
        if key in node:
            node[key] = {name: each(part, change) for name, part in node[key].items()}
    for key in _LISTS:
        if key in node:
            node[key] = [each(part, change) for part in node[key]]
    for key in _SINGLES:
        if key in node:
            node[key] = each(node[key], change)
    return change(node)


def hoisted(schema: Json, defs: Json, name: str = "") -> Json:
    """`schema`, its own `$defs` moved into `defs` under names that are free there.

    With a `name` the schema itself moves too and a `$ref` to it is returned, so that a type that is used fifty times is
    written once (F46).
    """
    own: Json = dict(schema)
    parts: Json = own.pop("$defs", {})
    if name and "$ref" not in own:
        while name in parts:
            name += "_"
        parts = {**parts, name: own}
        own = {"$ref": _PREFIX + name}
    names = {part: _free(_NO_NAME.sub("_", part), parts[part], defs) for part in parts}

    def renamed(node: Json) -> Json:
        if ref := node.get("$ref"):
            node["$ref"] = _PREFIX + names.get(_target(ref), _target(ref))
        if mapping := node.get("discriminator", {}).get("mapping"):
            targets = {tag: _PREFIX + names.get(_target(ref), _target(ref)) for tag, ref in mapping.items()}
            node["discriminator"] = {**node["discriminator"], "mapping": targets}
        return node

    for part, body in parts.items():
        defs[names[part]] = each(body, renamed)
    return each(own, renamed)


def rooted(schema: Json, defs: Json) -> Json:
    """`schema` as the root of a document: what it points at in place of a `$ref`, and only the `$defs` in use."""
    root = dict(schema)
    while ref := root.pop("$ref", None):
        root = {**defs[_target(ref)], **root}
    used: dict[str, None] = {}

    def note(node: Json) -> Json:
        if (ref := node.get("$ref")) and (name := _target(ref)) not in used:
            used[name] = None
            each(defs[name], note)
        return node

    each(root, note)
    if used:
        root["$defs"] = {name: defs[name] for name in defs if name in used}
    return root


def marked(schema: Any, defs: Json, seen: dict[str, Any]) -> Any:
    """`schema` with its marked properties where every client finds them: reached through `properties` alone (XH-2).

    What a `$ref` on the way points at is written out in its place. A marked property has its one type beside the mark:
    that null is taken too is not said, for most clients would drop the tool. A schema without marks is returned itself.
    `seen` is for the definitions that were looked at, and is empty at first.
    """
    if not isinstance(schema, dict):
        return schema
    node: Json = schema  # pyright: ignore[reportUnknownVariableType]
    if MARK in node:
        return _alone(node, defs)
    if (name := _target(node.get("$ref", ""))) in defs:
        if name not in seen:
            seen[name] = defs[name]  # what contains itself stays a reference there
            seen[name] = marked(defs[name], defs, seen)
        if seen[name] is defs[name]:
            return node
        return {**seen[name], **{key: value for key, value in node.items() if key != "$ref"}}
    parts: Json = node.get("properties", {})
    found = {key: marked(part, defs, seen) for key, part in parts.items()}
    changed = any(found[key] is not part for key, part in parts.items())
    return {**node, "properties": found} if changed else node


def _alone(node: Json, defs: Json) -> Json:
    """A marked property without null among its alternatives, and with what it refers to in place of the reference."""
    flat = dict(node)
    parts = [part for part in flat.get("anyOf", ()) if part != {"type": "null"}]
    if len(parts) == 1:
        del flat["anyOf"]
        flat = {**parts[0], **flat}
        if flat.get("default", True) is None:
            del flat["default"]
    while (name := _target(flat.get("$ref", ""))) in defs:
        del flat["$ref"]
        flat = {**defs[name], **flat}
    return flat


def kinds(schema: Any, defs: Json) -> frozenset[str]:
    """The JSON types of which a schema allows values: "integer" alone where a number must be whole."""
    if not isinstance(schema, dict):
        return ALL_KINDS if schema else frozenset()
    node: Json = schema  # pyright: ignore[reportUnknownVariableType]
    found = ALL_KINDS
    if "type" in node:
        found = frozenset([node["type"]] if isinstance(node["type"], str) else node["type"])
    elif "enum" in node:
        found = frozenset(_KINDS[type(value)] for value in node["enum"])
    elif "const" in node:
        found = frozenset([_KINDS[type(node["const"])]])
    if (name := _target(node.get("$ref", ""))) in defs:
        found &= kinds(defs[name], defs)
    for key in ("anyOf", "oneOf"):
        if key in node:
            found &= frozenset[str]().union(*(kinds(part, defs) for part in node[key]))
    for part in node.get("allOf", ()):
        found &= kinds(part, defs)
    return found


def branches(schemas: Iterable[Any], defs: Json) -> list[Json]:
    """The schemas that describe a value together or in turn: these, what they refer to, their alternatives."""
    found: dict[int, Json] = {}
    waiting = list(schemas)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in found:  # pyright: ignore[reportUnknownArgumentType]
            continue
        known: Json = node  # pyright: ignore[reportUnknownVariableType]
        found[id(known)] = known
        waiting += [defs.get(_target(known.get("$ref", ""))), *(part for key in _TURNS for part in known.get(key, ()))]
    return list(found.values())


def endless(schema: Any, defs: Json) -> bool:
    """Whether values may nest ever deeper: the schema contains itself, or leaves open what stands in a value."""
    entered: set[str] = set()

    def look(node: Any, around: tuple[str, ...]) -> bool:
        if not isinstance(node, dict):
            return node is True
        known: Json = node  # pyright: ignore[reportUnknownVariableType]
        if (name := _target(known.get("$ref", ""))) in defs:
            if name in around:
                return True
            if name not in entered:
                entered.add(name)
                if look(defs[name], (*around, name)):
                    return True
        parts = [part for key in _LISTS for part in known.get(key, ())]
        if not parts and not name:
            allowed = kinds(known, defs)
            if "array" in allowed and "items" not in known:
                return True
            if "object" in allowed and not known.keys() & {"properties", "additionalProperties"}:
                return True
        parts += [*known.get("properties", {}).values(), known.get("items"), known.get("additionalProperties")]
        return any(look(part, around) for part in parts)

    return look(schema, ())


def _target(ref: str) -> str:
    return ref.removeprefix(_PREFIX)


def _free(name: str, body: Json, defs: Json) -> str:
    candidate, number = name, 1
    while defs.get(candidate, body) != body:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _tidied(node: Json) -> Json:
    """An enumeration with its type beside it, which model APIs ask for; nested alternatives as one list."""
    if "enum" in node and "type" not in node and len(found := {_KINDS[type(value)] for value in node["enum"]}) == 1:
        node["type"] = found.pop()
    if "anyOf" in node:
        parts: list[Any] = node["anyOf"]
        flat: list[Any] = []
        for part in parts:
            nested: list[Any] = part["anyOf"] if part is not True and part.keys() == {"anyOf"} else [part]
            flat += [each for each in nested if each not in flat]
        if len(flat) == 1:
            del node["anyOf"]
            return {**flat[0], **node}
        node["anyOf"] = flat
    return node
