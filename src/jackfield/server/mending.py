"""Arguments that did not decode: read again, and mended where a model's habits, not its meaning, are at fault."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw

from ..protocol.errors import PARSE_ERROR, ProtocolError
from ..protocol.jsonrpc import MAX_DEPTH, deeper_than
from .schemas import Json, branches, kinds

# Numbers with a fraction or an exponent stay Decimals, so that they go back to JSON digit for digit.
_read = msgspec.json.Decoder(float_hook=Decimal).decode
write = msgspec.json.Encoder(decimal_format="number").encode
"""The JSON of mended arguments."""

FAULTS = (msgspec.MsgspecError, ValueError)
"""What a value that does not decode raises; in older msgspec the first is none of the second."""
_MOST_DIGITS = 400
"""No double has more digits before its point; int() of a larger one would take time that its few letters never show."""
_PLACE = re.compile(r" - at `\$([^`]*)`")


def read(raw: bytes | Raw) -> Any:
    """The JSON as built-ins, its fractions as Decimals. Raises ProtocolError for what is no JSON."""
    try:
        return _in_range(raw)
    except (*FAULTS, RecursionError) as error:
        raise ProtocolError(PARSE_ERROR, f"Parse error: the arguments are no JSON: {error}") from None


def read_text(text: str) -> Any:
    """What `read` gives for a text of a peer, whose depth nothing has checked yet. Raises ProtocolError as `read`."""
    data = text.encode()
    if deeper_than(data, MAX_DEPTH):
        raise ProtocolError(PARSE_ERROR, f"Parse error: nested deeper than {MAX_DEPTH} levels")
    return read(data)


def read_arguments(raw: Any, *, lenient: bool) -> Any:
    """The arguments as `read` gives them; none and null count as no arguments (F50).

    With `lenient` an object that came as JSON text is that object (F49). Raises as `read` does.
    """
    value = read(raw) if isinstance(raw, (bytes, Raw)) else None
    if lenient and isinstance(value, str):
        value = _opened(value, frozenset(["object"]))
    return {} if value is None else value


def opened(value: Any, schema: Any, defs: Json) -> Any:
    """What a text is as JSON where the schema wants an object or array and allows no text; else `value` (F48, F49)."""
    if not isinstance(value, str):
        return value
    wanted = kinds(schema, defs)
    return value if "string" in wanted else _opened(value, wanted)


def whole_numbers(value: Any, schemas: list[Any], defs: Json) -> Any:
    """`value` with 1.0 and 1e2 as integers, at any depth, where a schema that describes it wants one.

    The schemas of one place are gone through together: alternatives within alternatives cost their number, not more.
    """
    if isinstance(value, Decimal):
        if value and value.adjusted() > _MOST_DIGITS:
            return value
        allowed = [kinds(schema, defs) for schema in schemas]
        wanted = any("integer" in each and "number" not in each for each in allowed)
        return int(value) if wanted and value == int(value) else value
    if not isinstance(value, (dict, list)):
        return value
    nodes = branches(schemas, defs)
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [whole_numbers(item, _items(nodes, index), defs) for index, item in enumerate(items)]
    entries: Json = value  # pyright: ignore[reportUnknownVariableType]
    return {name: whole_numbers(item, _properties(nodes, name), defs) for name, item in entries.items()}


def placed(error: Exception) -> str:
    """msgspec's message, the place first: `$.a[0]: Expected ...`.

    A message that went through a stand-in holds several places, the innermost first.
    """
    text = str(error)
    place = "".join(reversed(_PLACE.findall(text)))
    return f"${place}: {_PLACE.sub('', text)}"


def _in_range(data: bytes | Raw) -> Any:
    msgspec.json.decode(data)  # A number that is out of range shows itself only without the hook.
    return _read(data)


def _opened(text: str, wanted: frozenset[str]) -> Any:
    data = text.encode()
    if deeper_than(data, MAX_DEPTH):
        return text  # The check of the message's own depth did not see into its texts.
    try:
        value = _in_range(data)
    except FAULTS:
        return text  # Broken JSON, or a number that is none here, is told to the model as the text that it is.
    kind = {dict: "object", list: "array"}.get(value.__class__)
    return value if kind in wanted else text


def _items(nodes: list[Json], index: int) -> list[Any]:
    found: list[Any] = []
    for node in nodes:
        first: list[Any] = node.get("prefixItems", [])
        found.append(first[index] if index < len(first) else node.get("items"))
    return [schema for schema in found if isinstance(schema, dict)]


def _properties(nodes: list[Json], name: str) -> list[Any]:
    found = [node.get("properties", {}).get(name, node.get("additionalProperties")) for node in nodes]
    return [schema for schema in found if isinstance(schema, dict)]
