"""What is known of a JSON Schema before it is compiled: that it is small, closed, and what a value can cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast

import msgspec
from msgspec import Struct

from .errors import RegistrationError
from .limits import Limits

Json = dict[str, Any]
Place = tuple["Place", str] | None
"""A JSON pointer, innermost token last; None is the root."""

_DIALECTS: Final = {
    "//json-schema.org/draft/2020-12/schema": "2020-12",
    "//json-schema.org/draft-07/schema": "draft-07",
}
# Keyword -> what its schemas judge (the value itself, "each" of its members, "some" one of them, or nothing by
# themselves), and how they are written (one, a list or a map; "items" was a list in draft-07).
_KEYWORDS: Final = {
    **dict.fromkeys(("not", "if", "then", "else"), ("same", "one")),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), ("same", "list")),
    **dict.fromkeys(("dependentSchemas", "dependencies"), ("same", "map")),
    **dict.fromkeys(("contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"), ("each", "one")),
    "patternProperties": ("each", "map"),
    **dict.fromkeys(("items", "additionalItems", "additionalProperties"), ("some", "one")),
    "prefixItems": ("some", "list"),
    "properties": ("some", "map"),
    **dict.fromkeys(("$defs", "definitions"), ("none", "map")),
}
_NOT_LISTS: Final = (("same", "one"), ("each", "one"), ("some", "one"), ("none", "map"))
_ASSERTIONS: Final = frozenset(
    (
        *("type", "enum", "const", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "contains", "maxProperties"),
        *("minProperties", "anyOf", "oneOf", "not", "propertyNames", "additionalProperties", "additionalItems"),
        *("unevaluatedProperties", "unevaluatedItems", "dependencies"),
    )
)
"""Keywords that can find one thing wrong with a value each."""
_UNEVALUATED: Final = 3
"""How often the engine looks at the schemas beside an `unevaluated...`, anew for each one within (measured)."""
_DEEPEST_VALUE: Final = 64
_SATURATED: Final = 2**62
_MOST_STATES: Final = 1000
"""No pattern that may be compiled has more states."""
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\\[])*\]")  # stops at another bracket: a class is looked through once
_COUNTED: Final = re.compile(r"(\)?)\{(\d{1,6})(?:,(\d{0,6}))?\}")


class InvalidSchema(RegistrationError):
    """A schema that is refused: no JSON Schema, of another dialect, over a limit, or with a reference out of it.

    `place` is the JSON pointer of the fault, `limit` the name in `Limits` of the limit that was passed, or None.
    """

    def __init__(self, place: str, fault: str, limit: str | None = None) -> None:
        super().__init__(f"JSON Schema at {place}: {fault}")
        self.place = place
        self.limit = limit


class Node(Struct):
    """One subschema: `links` are the schemas in it, as (what they judge, keyword, number of the node)."""

    schema: Json
    place: Place
    base: str
    links: list[tuple[str, str, int]]


class Cost(Struct, frozen=True):
    """What checking a value can cost at most.

    The lists say it by the depth in the value, each last number for all that is deeper too: `looks` is how much schemas
    have to look at in one value (each counts one, and the length of its lists), `faults` how many things they can find
    wrong, `states` how many states of patterns may look at one character. They hold where no result is remembered.

    The engine remembers what a recursive reference gave for a value, unless an `unevaluated...` is there too: if it
    does (`remembered`), `looks_at_most` and `states_at_most` hold at any depth. `chain` is how many schemas within one
    another may judge one value, `names` whether each name of an object can be a fault of that object, `alternatives`
    whether there are any, each of which can have faults of its own.
    """

    looks: list[int]
    faults: list[int]
    states: list[int]
    remembered: bool
    looks_at_most: int
    states_at_most: int
    chain: int
    names: bool
    alternatives: bool


class Graph:
    """The subschemas of a document and their references to one another, within the limits (JS-2, JS-3).

    Nothing is fetched and nothing expanded: the work is in proportion to the document. Raises InvalidSchema.
    """

    def __init__(self, document: Any, limits: Limits) -> None:
        if not isinstance(document, dict):
            raise InvalidSchema("#", f"must be an object, not {type(document).__name__}")
        document = cast("Json", document)
        _measure(document, limits)
        self.dialect = _dialect(document.get("$schema"), "#")
        self._limits = limits
        self._numbers: dict[int, int] = {}
        self.nodes: list[Node] = []
        self._resources: dict[str, Json] = {"": document}
        self._anchors: dict[tuple[str, str], Json] = {}
        self._dynamic: dict[str, list[Json]] = {}
        self._add(document, None, "")
        for number, node in enumerate(self.nodes):  # grows while references lead to schemas in places of their own
            for keyword in ("$ref", "$dynamicRef"):
                if keyword in node.schema:
                    for target in self._targets(node, keyword):
                        self.nodes[number].links.append(("same", keyword, target))

    # --- building ----------------------------------------------------------------------------------------------------

    def _add(self, schema: Any, place: Place, base: str) -> int | None:
        """Take in a schema and all that stand in it; its number, or None for a boolean (or what is none)."""
        if not isinstance(schema, dict):
            return None
        known = self._numbers.get(id(cast("Json", schema)))
        if known is not None:
            return known
        first = self._enter(cast("Json", schema), place, base)
        todo = [first]
        while todo:
            node = self.nodes[todo.pop()]
            for judges, keyword, tokens, child in _children(node.schema):
                known = self._numbers.get(id(child))
                if known is None:
                    below: Place = node.place
                    for token in tokens:
                        below = (below, token)
                    known = self._enter(child, below, node.base)
                    todo.append(known)
                node.links.append((judges, keyword, known))
        return first

    def _enter(self, schema: Json, place: Place, base: str) -> int:
        number = self._numbers[id(schema)] = len(self.nodes)
        if number >= self._limits.schema_nodes:
            fault = f"there are more than {self._limits.schema_nodes} subschemas (limit `schema_nodes`)"
            raise InvalidSchema("#", fault, "schema_nodes")
        if number and "$schema" in schema and _dialect(schema["$schema"], pointer(place)) != self.dialect:
            fault = f"`$schema` is of another dialect than the root, which is {self.dialect}"
            raise InvalidSchema(pointer(place), fault)
        self.nodes.append(Node(schema, place, self._name(schema, place, base), []))
        return number

    def _name(self, schema: Json, place: Place, base: str) -> str:
        """Note what names this schema has, and return the base of the references in it."""
        identity = schema.get("$id")
        if isinstance(identity, str) and not identity.startswith("#"):
            if place is not None and self.dialect == "draft-07" and "$ref" in schema:
                # Whether such an `$id` counts is read in two ways, and with it where the references lead.
                raise InvalidSchema(pointer(place), "draft-07 has no `$id` beside `$ref`")
            base = _join(base, identity.removesuffix("#"))
            if self._resources.setdefault(base, schema) is not schema:
                raise InvalidSchema(pointer(place), f"`$id` {_short(identity)} is given twice")
        for keyword in ("$anchor", "$dynamicAnchor", "$id"):
            name = schema.get(keyword)
            if isinstance(name, str) and (keyword != "$id" or name.startswith("#")):
                if self._anchors.setdefault((base, name.removeprefix("#")), schema) is not schema:
                    raise InvalidSchema(pointer(place), f"`{keyword}` {_short(name)} is given twice")
                if keyword == "$dynamicAnchor":
                    self._dynamic.setdefault(name, []).append(schema)
        return base

    def _targets(self, node: Node, keyword: str) -> Iterator[int]:
        reference = node.schema[keyword]
        if not isinstance(reference, str):
            return  # the engine refuses it with the whole schema
        target, place, base = self._find(node, keyword, reference)
        found = [target]
        if keyword == "$dynamicRef":
            # Which one it will be depends on the way to it, so it counts as all of them.
            found += self._dynamic.get(reference.partition("#")[2], [])
        for each in found:
            if not isinstance(each, dict | bool):
                raise InvalidSchema(pointer(node.place), f"`{keyword}` to {_short(reference)}: there is no schema")
            number = self._add(each, place, base)
            if number is not None:
                yield number

    def _find(self, node: Node, keyword: str, reference: str) -> tuple[Any, Place, str]:
        """What a reference leads to, within this document only (S02)."""
        uri, _, fragment = reference.partition("#")
        base = _join(node.base, uri) if uri else node.base
        resource = self._resources.get(base)
        if resource is None:
            fault = (
                f"`{keyword}` to {_short(reference)} leads out of the schema and nothing is fetched; put it in `$defs`"
            )
            raise InvalidSchema(pointer(node.place), fault)
        target: Any = resource
        number = self._numbers.get(id(resource), 0)
        place = self.nodes[number].place
        fragment = _unescape(fragment)
        if fragment and not fragment.startswith("/"):
            target = self._anchors.get((base, fragment))
        elif fragment:
            for token in fragment[1:].split("/"):
                token = token.replace("~1", "/").replace("~0", "~")
                place = (place, token)
                target = _member(target, token)
        if target is None:
            raise InvalidSchema(
                pointer(node.place), f"`{keyword}` to {_short(reference)}: there is nothing at that place"
            )
        return target, place, base

    # --- what it costs -----------------------------------------------------------------------------------------------

    def cost(self) -> Cost:
        """What values can cost. Raises InvalidSchema where one value alone would cost too much (S03)."""
        same = [[child for judges, _, child in node.links if judges == "same"] for node in self.nodes]
        every = [[child for judges, _, child in node.links if judges != "none"] for node in self.nodes]
        used, back = _postorder([0], every)
        inside, circular = _postorder(used, same)
        for number, _ in circular:
            raise InvalidSchema(pointer(self.nodes[number].place), "refers to itself without going into the value")
        chain = [1] * len(self.nodes)
        times = [1] * len(self.nodes)
        for number in inside:
            schema = self.nodes[number].schema
            chain[number] = 1 + max((chain[child] for child in same[number]), default=0)
            times[number] = min(1 + _again(schema) * sum(times[child] for child in same[number]), _SATURATED)
            if chain[number] > self._limits.schema_depth:
                fault = f"more than {self._limits.schema_depth} schemas within one another judge one value"
                raise InvalidSchema(
                    pointer(self.nodes[number].place), f"{fault} (limit `schema_depth`)", "schema_depth"
                )
            if times[number] > self._limits.schema_nodes:
                fault = f"its references multiply: one value would be checked {times[number]} times, over"
                fault = f"{fault} {self._limits.schema_nodes} (limit `schema_nodes`)"
                raise InvalidSchema(pointer(self.nodes[number].place), fault, "schema_nodes")
        used_schemas = [self.nodes[number].schema for number in used]
        widths = [_width(node.schema) for node in self.nodes]
        faults = [_faults(node.schema) for node in self.nodes]
        states = [sum(map(_states, patterns_of(node.schema))) for node in self.nodes]
        return Cost(
            looks=self._growth(inside, widths),
            faults=self._growth(inside, faults),
            states=self._growth(inside, states) if any(states) else [0],
            remembered=not back or all(_again(schema) == 1 for schema in used_schemas),
            looks_at_most=self._remembered(used, back, widths),
            states_at_most=self._remembered(used, back, states) if any(states) else 0,
            chain=max(chain[number] for number in used),
            names=any("propertyNames" in schema for schema in used_schemas),
            alternatives=any("anyOf" in schema or "oneOf" in schema for schema in used_schemas),
        )

    def _growth(self, inside: list[int], weights: list[int]) -> list[int]:
        """What the schemas that may judge a value weigh together, by its depth; the last one holds for all deeper."""
        now = weights[:]
        for number in inside:
            now[number] = min(now[number] + self._sums(number, now, now)[0], _SATURATED)
        growth = [now[0]]
        above: list[int] = []
        for _ in range(_DEEPEST_VALUE):
            before, above, now = above, now, [0] * len(now)
            for number in inside:
                now[number] = min(sum(self._sums(number, now, above)), _SATURATED)
            if now in (above, before):  # nothing new comes, or only objects and arrays in turn
                growth.append(max(now[0], above[0] if now == before else 0))
                break
            growth.append(now[0])
        return growth

    def _sums(self, number: int, same: list[int], below: list[int]) -> tuple[int, int, int]:
        own = each = some = 0
        for judges, _, child in self.nodes[number].links:
            if judges == "same":
                own += same[child]
            elif judges == "each":
                each += below[child]
            elif judges == "some":
                some = max(some, below[child])
        return own * _again(self.nodes[number].schema), each, some

    def _remembered(self, used: list[int], back: set[tuple[int, int]], weights: list[int]) -> int:
        """The most that the schemas which may judge one value weigh together.

        The engine remembers what a recursive reference gave for a value, so each target counts once for every depth it
        reaches, without what its own recursive references do.
        """
        profiles: dict[int, list[int]] = {}
        for number in used:
            profile = [weights[number]]
            some: list[int] = []
            for judges, _, child in self.nodes[number].links:
                if judges == "none" or (number, child) in back:
                    continue
                theirs = profiles[child]
                if judges == "same":
                    again = _again(self.nodes[number].schema)
                    _merge(profile, [again * each for each in theirs], lambda a, b: a + b)
                elif judges == "each":
                    _merge(profile, [0, *theirs], lambda a, b: a + b)
                else:
                    _merge(some, [0, *theirs], max)
            _merge(profile, some, lambda a, b: a + b)
            profiles[number] = [min(each, _SATURATED) for each in profile[: _DEEPEST_VALUE + 1]]
        return sum(sum(profiles[target]) for target in {0, *(target for _, target in back)})


def pointer(place: Place) -> str:
    """The JSON pointer of a place, as a URI fragment, cut to what a message can hold."""
    tokens: list[str] = []
    while place is not None:
        place, token = place
        tokens.append(token.replace("~", "~0").replace("/", "~1"))
    return cut("/".join(["#", *reversed(tokens)]))


def cut(text: str) -> str:
    """`text`, cut to what a message can hold."""
    return text if len(text) <= 200 else text[:199] + "…"


def _short(reference: str) -> str:
    return cut(repr(reference))


def _measure(document: Json, limits: Limits) -> None:
    """Refuse a document that is too deep or too large; shared parts count every time, so nothing can unfold later."""
    level: list[Any] = [document]
    depth = values = 0
    while level:
        values += len(level)
        if depth > limits.schema_depth:
            fault = f"is nested deeper than {limits.schema_depth} levels (limit `schema_depth`)"
            raise InvalidSchema("#", fault, "schema_depth")
        if values > limits.schema_size:
            break
        level = members(level)
        depth += 1
    try:
        size = values if level else len(msgspec.json.encode(document))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidSchema("#", f"is no JSON: {error}") from None
    if size > limits.schema_size:
        fault = f"is larger than {limits.schema_size} bytes (limit `schema_size`)"
        raise InvalidSchema("#", fault, "schema_size")


def members(level: list[Any]) -> list[Any]:
    """The members of all arrays and objects in `level`: the next level of a value."""
    below: list[Any] = []
    for each in level:
        if isinstance(each, dict):
            below.extend(cast("Json", each).values())
        elif isinstance(each, list | tuple):
            below.extend(cast("list[Any]", each))
    return below


def _dialect(uri: Any, place: str) -> str:
    if uri is None:
        return "2020-12"
    known = _DIALECTS.get(uri.removesuffix("#").partition(":")[2]) if isinstance(uri, str) else None
    if known is None:
        raise InvalidSchema(
            place, f"`$schema` {_short(str(uri))} is not supported: use 2020-12 (the default) or draft-07"
        )
    return known


def _children(schema: Json) -> Iterator[tuple[str, str, tuple[str, ...], Json]]:
    """The schemas directly within one: what they judge, their keyword, the way to them. The engine refuses the rest."""
    for keyword, value in schema.items():
        judges, form = _KEYWORDS.get(keyword, ("", ""))
        if not judges:
            continue
        found: Iterable[tuple[tuple[str, ...], Any]]
        if form == "map":
            found = [((keyword, name), child) for name, child in map_of(schema, keyword).items()]
        elif isinstance(value, list):
            found = [((keyword, str(place)), child) for place, child in enumerate(cast("list[Any]", value))]
        else:
            found = [((keyword,), value)]
        for tokens, child in found:
            if isinstance(child, dict):
                yield judges, keyword, tokens, cast("Json", child)


def map_of(schema: Json, keyword: str) -> Json:
    """The object that a keyword has, or an empty one."""
    value = schema.get(keyword)
    return cast("Json", value) if isinstance(value, dict) else {}


def _width(schema: Json) -> int:
    """How much the engine may have to look at for this schema alone."""
    return 1 + sum(
        len(cast("list[Any]", each))
        for keyword, each in schema.items()
        if isinstance(each, list | dict) and _KEYWORDS.get(keyword) not in _NOT_LISTS
    )


def _faults(schema: Json) -> int:
    """How many things can be wrong with one value by this schema alone."""
    lists = [schema.get("required"), *map_of(schema, "dependentRequired").values()]
    named = sum(len(cast("list[Any]", each)) for each in lists if isinstance(each, list))
    return 1 + len(_ASSERTIONS & schema.keys()) + named


def patterns_of(schema: Json) -> Iterator[str]:
    """The regular expressions of one schema itself."""
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        yield pattern
    yield from map_of(schema, "patternProperties")


def _states(pattern: str) -> int:
    """About how many states a pattern has: its length, times the counts of groups, plus those of letters."""
    text = _CLASS.sub("c", pattern)
    states = len(_COUNTED.sub("", text))
    for group, least, most in _COUNTED.findall(text):
        count = int(most or least)
        states = states * (count + 1) if group else states + count
    return min(states, _MOST_STATES)


def _member(target: Any, token: str) -> Any:
    if isinstance(target, dict):
        return cast("Json", target).get(token)
    if isinstance(target, list) and token.isascii() and token.isdigit() and str(int(token[:9])) == token:
        items = cast("list[Any]", target)
        return items[int(token)] if int(token) < len(items) else None
    return None


def _join(base: str, uri: str) -> str:
    from urllib.parse import urljoin  # only where a schema has an `$id`

    try:
        return urljoin(base, uri)
    except ValueError:
        return uri


def _unescape(fragment: str) -> str:
    if "%" not in fragment:
        return fragment
    from urllib.parse import unquote

    return unquote(fragment)


def _again(schema: Json) -> int:
    return _UNEVALUATED if "unevaluatedProperties" in schema or "unevaluatedItems" in schema else 1


def _merge(into: list[int], more: list[int], how: Callable[[int, int], int]) -> None:
    into.extend([0] * (len(more) - len(into)))
    for depth, each in enumerate(more):
        into[depth] = how(into[depth], each)


def _postorder(roots: Iterable[int], links: list[list[int]]) -> tuple[list[int], set[tuple[int, int]]]:
    """What can be reached from `roots`, each after what it links to, and the links that close a circle."""
    order: list[int] = []
    back: set[tuple[int, int]] = set()
    state: dict[int, bool] = {}  # False while what it links to is looked at
    for root in roots:
        if root in state:
            continue
        state[root] = False
        path = [(root, iter(links[root]))]
        while path:
            number, rest = path[-1]
            for child in rest:
                if child not in state:
                    state[child] = False
                    path.append((child, iter(links[child])))
                    break
                if not state[child]:
                    back.add((number, child))
            else:
                path.pop()
                state[number] = True
                order.append(number)
    return order, back
