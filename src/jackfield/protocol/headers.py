"""What HTTP headers repeat of a modern request: its method, its name and marked arguments; made, read and verified."""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from .errors import HEADER_MISMATCH, ProtocolError
from .printable import printable

if TYPE_CHECKING:
    from .schema_bounds import Json, Place

NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The methods whose requests have a Mcp-Name header, and the parameter that it repeats (HDR-3)."""
MARK: Final = "x-mcp-header"
"""The keyword that marks a property in a tool's input schema: its value is repeated in a Mcp-Param-... header."""
KINDS: Final = ("string", "integer", "boolean")
"""The types that a marked property may have (XH-1)."""

_PARAM: Final = "Mcp-Param-"
_OPENING, _CLOSING = "=?base64?", "?="
_SPACE: Final = " \t"
# Each character fits one place only, so a match takes linear time.
PLAIN: Final = re.compile(r"(?!=\?base64\?(?:.*\?)?=\Z)(?:[!-~]+(?: +[!-~]+)*)?")
"""What stands in a header as it is."""
_LITERAL: Final = re.compile(r"[\t -~]*")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NUMBER: Final = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,3})?")
_LARGEST: Final = 2**53 - 1

_MAPS: Final = frozenset(("patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions"))
"""Keywords whose members are schemas, under names that are no keywords."""
_DATA: Final = frozenset(("const", "default", "enum", "examples", "dependentRequired"))
"""Keywords whose values are values, not schemas."""

_FAULTS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What JSON that cannot be read raises; in older msgspec the first is none of the second."""


class Mark(Struct, frozen=True):
    """A marked property: the name in its mark, the way to it from the root, and its type (one of `KINDS`)."""

    name: str
    path: tuple[str, ...]
    kind: str

    @property
    def header(self) -> str:
        """The name of its header."""
        return _PARAM + self.name


class _Params(Struct, gc=False):
    name: Any = UNSET
    uri: Any = UNSET
    arguments: Raw | UnsetType = UNSET


_params: Final = msgspec.json.Decoder(_Params).decode
_members: Final = msgspec.json.Decoder(dict[str, Raw] | None).decode
_value: Final = msgspec.json.Decoder().decode


# --- values ----------------------------------------------------------------------------------------------------------


def encode_value(value: str | int | bool) -> str:
    """A value as a header has it (ENC-1 to ENC-3): as it is, or wrapped where a header could not hold it like that.

    Raises ValueError for an integer beyond 2**53 - 1 (XH-1), and for a text that is no Unicode (half a surrogate pair).
    """
    text = _text(value)
    if text is None:
        raise ValueError(f"{value} is beyond 2**53 - 1, the largest integer that a header may have")
    if PLAIN.fullmatch(text):
        return text
    return _OPENING + binascii.b2a_base64(text.encode(), newline=False).decode() + _CLOSING


def decode_value(text: str) -> str:
    """The text that a header's value stands for, outer spaces and tabs aside (HDR-1, ENC-4).

    Raises ValueError for a wrapped value that is not base64 of UTF-8, and for one with a character that only a wrapped
    value can hold.
    """
    text = text.strip(_SPACE)
    if text.startswith(_OPENING) and text.endswith(_CLOSING, len(_OPENING)):
        try:
            return binascii.a2b_base64(text[len(_OPENING) : -len(_CLOSING)], strict_mode=True).decode()
        except ValueError as fault:
            raise ValueError(f"is not base64 of UTF-8: {fault}") from None
    if not _LITERAL.fullmatch(text):
        raise ValueError("has characters that must be wrapped in base64")
    return text


def _text(value: Any) -> str | None:
    """What a header says of a JSON value; None for one that no header can repeat."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and -_LARGEST <= value <= _LARGEST:
        return str(value)
    return None


# --- the client's side -----------------------------------------------------------------------------------------------


def mirrors(method: str, params: bytes, marks: tuple[Mark, ...] = ()) -> dict[str, str]:
    """The headers of a request with these encoded `params`: Mcp-Method, Mcp-Name and Mcp-Param-... (HDR-3, XH-4).

    `marks` are those of the tool that is called. An argument that is absent or null has no header; nor has one that no
    header can repeat (see `verify_marks`): what it is worth is for the server to say. Raises ValueError for a method
    that cannot stand in a header, and msgspec.DecodeError for `params` that are no JSON object.
    """
    if not PLAIN.fullmatch(method):
        raise ValueError(f"the method '{printable(method)}' cannot be sent over HTTP: it does not fit into a header")
    headers = {"Mcp-Method": method}
    if method not in NAMED:
        return headers
    given = _params(params)
    name: Any = given.name if NAMED[method] == "name" else given.uri
    if isinstance(name, str):
        headers["Mcp-Name"] = encode_value(name)
    if marks and given.arguments is not UNSET:
        for mark, value, fault in _marked(marks, given.arguments):
            if not fault and value is not None and (text := _text(value)) is not None:
                headers[mark.header] = encode_value(text)
    return headers


def named(method: str, params: bytes) -> str | None:
    """What Mcp-Name repeats of params that may not fit otherwise; None where there is no such text."""
    if method not in NAMED:
        return None
    try:
        given = _params(params)
    except _FAULTS:
        return None
    name: Any = given.name if NAMED[method] == "name" else given.uri
    return name if isinstance(name, str) else None


# --- the server's side -----------------------------------------------------------------------------------------------


def verify_request(headers: Mapping[str, str], revision_name: str, method: str, name: str | None) -> None:
    """Refuse a request whose headers do not say what its body says (HDR-1 to HDR-3).

    `headers` have lower-case names; a header that came more than once must be one value here, joined by commas.
    `revision_name` is the one in `_meta`, `name` the parameter that Mcp-Name repeats (see `NAMED`; None where the body
    has none). Raises ProtocolError (-32020) that names the header and both values.
    """
    if headers.get("mcp-protocol-version") != revision_name:
        verify_version(headers, revision_name)
    if headers.get("mcp-method") != method:
        _verify_verbatim(headers, "Mcp-Method", method, "`method`")
    if method in NAMED:
        found = headers.get("mcp-name")
        # What looks wrapped is judged by what it decodes to, even where it equals: a proxy may have decoded it.
        if found != name or (name is not None and not PLAIN.fullmatch(name)):
            _verify_value("Mcp-Name", found, name, f"`{NAMED[method]}`")


def verify_version(headers: Mapping[str, str], version: str) -> None:
    """The first part of `verify_request`, for a `version` of `_meta` that there need not be."""
    _verify_verbatim(headers, "MCP-Protocol-Version", version, "protocol version in `_meta`")


def verify_marks(headers: Mapping[str, str], marks: tuple[Mark, ...], arguments: bytes | Raw | UnsetType) -> None:
    """Refuse a call whose Mcp-Param-... headers do not say what its arguments say (HDR-2, XH-5).

    For modern requests over HTTP alone. An argument that is absent or null must have no header. A text, a boolean or a
    whole number must have one that says the same, numbers by their value; that holds for one of another type than its
    property declares too: the tool's own check tells the model of that. Nothing else can be repeated (XH-1): integers
    beyond 2**53 - 1, fractions, arrays and objects are refused, and so is a text or array on the way to a marked
    property, for it might be mended into an object that no header was compared with. Raises ProtocolError (-32020)
    that names the header and both values.
    """
    for mark, value, fault in _marked(marks, arguments):
        found = headers.get(mark.header.lower())
        place = f"`arguments.{'.'.join(mark.path)}`"
        if fault:
            _refuse(f"{_says(mark.header, found)}, {fault}")
        if value is None:
            _verify_value(mark.header, found, None, place)
            continue
        text = _text(value)
        if text is None:
            shown = printable(msgspec.json.encode(value))
            _refuse(f"{_says(mark.header, found)}, but {place} in the body is {shown}, which no header can repeat")
        if found != text or not PLAIN.fullmatch(text):
            _verify_value(mark.header, found, text, place, number=not isinstance(value, str | bool))


def _verify_verbatim(headers: Mapping[str, str], header: str, expected: str, place: str) -> None:
    found = headers.get(header.lower())
    if found is None or found.strip(_SPACE) != expected:
        _refuse(f"{_says(header, found)}, but the {place} in the body is '{printable(expected)}'")


def _verify_value(header: str, found: str | None, expected: str | None, place: str, *, number: bool = False) -> None:
    """Compare a header that may be wrapped, or the absence of one, with what the body says."""
    if found is None and expected is None:
        return
    fault = ""
    if found is not None and expected is not None:
        try:
            text = decode_value(found)
        except ValueError as error:
            fault = f", which {error}"
        else:
            if text == expected or (number and _equal(text, expected)):
                return
    said = "absent" if expected is None else f"'{printable(expected)}'"
    _refuse(f"{_says(header, found)}{fault}, but {place} in the body is {said}")


def _equal(text: str, integer: str) -> bool:
    """Whether a header's number is that integer: 42.0 is 42 (HDR-2)."""
    from decimal import Decimal  # most clients write integers as we do

    return bool(_NUMBER.fullmatch(text)) and Decimal(text) == Decimal(integer)


def _says(header: str, found: str | None) -> str:
    return f"Header {header} is missing" if found is None else f"Header {header} says '{printable(found)}'"


def _refuse(text: str) -> NoReturn:
    raise ProtocolError(HEADER_MISMATCH, text)


def _marked(marks: tuple[Mark, ...], arguments: bytes | Raw | UnsetType) -> Iterator[tuple[Mark, Any, str]]:
    """Each mark with the value of its argument (None where absent or null), and what keeps that from being read."""
    if not marks:
        return
    fault, given = "", cast("dict[str, Raw] | None", None)
    try:
        given = None if arguments is UNSET else _members(arguments)
    except _FAULTS:
        fault = "but `arguments` in the body is no object"
    for mark in marks:
        if fault:
            yield mark, None, fault
            continue
        value: Any = None
        members = given
        try:
            for name in mark.path[:-1]:
                members = _members(members[name]) if members and name in members else None
            if members and mark.path[-1] in members:
                value = _value(members[mark.path[-1]])
        except _FAULTS as error:
            yield mark, None, f"but `arguments.{'.'.join(mark.path)}` in the body cannot be read: {error}"
        else:
            yield mark, value, ""


# --- marks -----------------------------------------------------------------------------------------------------------


def marks_of(schema: Any) -> tuple[Mark, ...]:
    """The marked properties of an input schema (XH-1, XH-2).

    A mark must be a token, unique whatever its case, on a property that `properties` alone lead to from the root, and
    whose type is string, integer or boolean; null may be allowed beside it, in a list of types or as an alternative.
    Raises ValueError with the place and the reason. Takes time in proportion to the schema, of any depth.
    """
    found: dict[str, Mark] = {}
    todo: list[tuple[Any, Place, bool]] = [(schema, None, True)]
    for value, place, reachable in todo:  # grows while there are schemas within
        if isinstance(value, list):
            members = enumerate(cast("list[Any]", value))
            todo.extend((member, (place, str(index)), False) for index, member in members)
        if not isinstance(value, dict):
            continue
        node = cast("Json", value)
        if MARK in node:
            mark = _mark(node, place, reachable and place is not None)
            if found.setdefault(mark.name.lower(), mark) is not mark:
                raise _wrong(place, f"'{mark.name}' is taken; the case of letters makes no difference")
        for keyword, part in node.items():
            if keyword == "properties" or keyword in _MAPS:
                here = (place, keyword)
                if isinstance(part, dict):
                    inside = cast("Json", part).items()
                    todo.extend((each, (here, name), reachable and keyword == "properties") for name, each in inside)
            elif keyword not in _DATA and isinstance(part, dict | list):
                todo.append((cast("Any", part), (place, keyword), False))
    return tuple(found.values())


def _mark(node: Json, place: Place, reachable: bool) -> Mark:
    name = node[MARK]
    if not reachable:
        raise _wrong(
            place, "must be on a property that `properties` alone lead to from the root: no `$ref`, `items`, `anyOf`"
        )
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        shown = f"'{printable(name)}'" if isinstance(name, str) else type(name).__name__
        raise _wrong(place, f"must be letters, digits and !#$%&'*+-.^_`|~ alone, at least one, not {shown}")
    types = [kind for kind in _types(node) if kind != "null"]
    if len(types) != 1 or types[0] not in KINDS:
        raise _wrong(place, f"must be on a property whose `type` is {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    path: list[str] = []
    way = place
    while way is not None:
        way, token = way
        path.append(token)
    return Mark(name, tuple(path[-2::-2]), types[0])


def _types(node: Json) -> list[Any]:
    """The types that a property may have, as it says itself: by `type`, else by the `type` of each alternative."""
    kind = node.get("type")
    if kind is None:
        alternatives = node.get("anyOf")
        parts = cast("list[Any]", alternatives) if isinstance(alternatives, list) else []
        return [cast("Json", part).get("type") if isinstance(part, dict) else None for part in parts]
    return cast("list[Any]", kind) if isinstance(kind, list) else [kind]


def _wrong(place: Place, reason: str) -> ValueError:
    from .schema_bounds import pointer  # not at the top: few marks are wrong

    return ValueError(f"{printable(pointer(place))}: `{MARK}` {reason}")
