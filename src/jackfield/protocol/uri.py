"""URI templates of RFC 6570: expanding them, finding their values in a URI, and a guard for values that name files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, cast

from msgspec import Struct

from .errors import INVALID_PARAMS, ProtocolError, RegistrationError

Value = str | int | float | bool | Sequence[str] | Mapping[str, str] | None
"""What a variable may have when a template is expanded; None is a variable without a value."""

LONGEST_TEMPLATE: Final = 8192
MOST_VARIABLES: Final = 64
LONGEST_URI: Final = 2**17
"""Finding values takes time in proportion to the URI's length and the number of variables; these keep both small."""

_UNRESERVED: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_RESERVED: Final = frozenset(b":/?#[]@!$&'()*+,;=")
_ENCODED: Final = [chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in range(256)]
_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_NAME: Final = re.compile(r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*")
_LITERAL_FAULT: Final = re.compile(r"[\x00-\x20\"<>\\^`|}\x7f]|%(?![0-9A-Fa-f]{2})")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")


class _Operator(Struct, frozen=True):
    """One row of the RFC's table: what stands first and between, and whether names and reserved letters are written."""

    first: str
    between: str
    named: bool = False
    empty: str = ""
    reserved: bool = False


_OPERATORS: Final = {
    "": _Operator("", ","),
    "+": _Operator("", ",", reserved=True),
    "#": _Operator("#", ",", reserved=True),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", named=True),
    "?": _Operator("?", "&", named=True, empty="="),
    "&": _Operator("&", "&", named=True, empty="="),
}
_QUERY: Final = ("?", "&")


class _Variable(Struct, frozen=True):
    name: str
    explode: bool = False
    prefix: int | None = None


class _Expression(Struct, frozen=True):
    operator: _Operator
    variables: list[_Variable]


class _Run(Struct, frozen=True):
    """One stretch of a URI that gives values: `first`, then at least `least` characters, up to what `stop` finds."""

    variables: list[_Variable]
    operator: _Operator
    first: str
    least: int
    stop: re.Pattern[str] | None
    optional: bool


class Template:
    """A URI template of RFC 6570, all four levels (RSC-4).

    `names` are its variables in the order of their first use, `paths` those of them that stand elsewhere than in a
    `{?query}` or `{&query}`. Raises RegistrationError, with the place, for text that is no template.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = list(_parse(text))
        variables = [each for part in self._parts if isinstance(part, _Expression) for each in part.variables]
        self.names: tuple[str, ...] = tuple(dict.fromkeys(each.name for each in variables))
        paths = [part for part in self._parts if isinstance(part, _Expression) and part.operator.first not in _QUERY]
        self.paths = frozenset(each.name for part in paths for each in part.variables)
        if len(variables) > MOST_VARIABLES:
            _refuse(text, f"it has {len(variables)} variables, over {MOST_VARIABLES}")
        self._steps = list(_steps(self._parts))
        self._keeps_fragment = "#" in _delimiters(self._parts)

    def __repr__(self) -> str:
        return f"Template({self.text!r})"

    def expand(self, values: Mapping[str, Value]) -> str:
        """The URI with these values; a variable without one, or with None, is left out.

        Raises TypeError for a value that no URI can hold, or a list where the template wants a prefix of a text.
        """
        return "".join(part if isinstance(part, str) else _expand(part, values) for part in self._parts)

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """The values in `uri`, decoded once, or None if it is no URI of this template (RSC-4, F58).

        A variable with `*` gives a list, any other one a text; what the URI does not say is not in the dict. `+` and
        `{/list*}` may span slashes, a plain variable never does, and each takes as much as it can. Query variables come
        in any order, and keys that the template does not name are passed over. A fragment belongs to no value, unless
        the template has one. "+" stays "+".

        Raises ProtocolError (INVALID_PARAMS) where the template matches, but an escape is broken or is no UTF-8, or a
        single value is given twice; and for a URI that is longer than LONGEST_URI.
        """
        if not self._keeps_fragment:
            uri = uri.partition("#")[0]
        if len(uri) <= LONGEST_URI:
            uri = _normal(uri)
        if len(uri) > LONGEST_URI:
            raise ProtocolError(INVALID_PARAMS, f"the URI is longer than {LONGEST_URI} characters")
        runs = _walk(self._steps, uri)
        if runs is None:
            return None
        values: dict[str, str | list[str]] = {}
        prefixes: list[tuple[_Variable, str]] = []
        for variable, value in runs:
            if isinstance(value, str) and variable.prefix is not None:
                prefixes.append((variable, value))
            elif values.setdefault(variable.name, value) != value:
                return None  # a variable that stands twice has one value
        for variable, value in prefixes:
            if (
                len(value) > (variable.prefix or 0)
                or values.setdefault(variable.name, value)[: variable.prefix] != value
            ):
                return None
        return values


def is_uri(text: str) -> bool:
    """Whether `text` is a URI with a scheme, in the letters of RFC 3986: outside ASCII all must be escaped (RSC-5)."""
    return _URI.fullmatch(text) is not None


def guard_segments(value: str) -> str:
    """Return `value`, a relative path of decoded segments, or raise ProtocolError (INVALID_PARAMS) (RSC-4).

    Refused is all that could leave the folder it is put under, on any system: a `..` segment (with blanks or more dots
    too, which Windows takes away), a path from the root, a drive letter, a backslash, and NUL. It is for the value as
    Template.match gave it (decoded once). A handler that opens the file must still resolve links before it trusts what
    it finds there::

        path = (root / name).resolve()
        if not path.is_relative_to(root): ...
    """
    if "\0" in value:
        fault = "a NUL"
    elif "\\" in value:
        fault = "a backslash"
    elif value.startswith("/"):
        fault = "a path from the root"
    elif value[1:2] == ":" and value[0].isascii() and value[0].isalpha():
        fault = "a drive letter"
    elif any(".." in segment and not segment.strip(" .") for segment in value.split("/")):
        fault = "a '..' segment"
    else:
        return value
    raise ProtocolError(INVALID_PARAMS, f"the path holds {fault}, which is not allowed")


# --- reading a template ----------------------------------------------------------------------------------------------


def _refuse(text: str, fault: str) -> NoReturn:
    shown = text if len(text) <= 200 else text[:200] + "..."
    raise RegistrationError(f"URI template {shown!r}: {fault}")


def _parse(text: str) -> Iterator[str | _Expression]:
    if len(text) > LONGEST_TEMPLATE:
        _refuse(text, f"it is longer than {LONGEST_TEMPLATE} characters")
    place = 0
    while place < len(text):
        begin = text.find("{", place)
        literal = text[place:] if begin < 0 else text[place:begin]
        if fault := _LITERAL_FAULT.search(literal):
            _refuse(text, f"{fault.group()!r} at {place + fault.start()} cannot stand outside of an expression")
        if literal:
            yield _normal(_encode(literal, reserved=True))
        if begin < 0:
            return
        end = text.find("}", begin)
        if end < 0:
            _refuse(text, f"the expression at {begin} has no end")
        yield _expression(text, begin, end)
        place = end + 1


def _expression(text: str, begin: int, end: int) -> _Expression:
    body = text[begin + 1 : end]
    sign = body[:1] if body[:1] in "+#./;?&" else ""
    variables: list[_Variable] = []
    for spec in body[len(sign) :].split(","):
        name, colon, digits = spec.partition(":")
        explode = not colon and name.endswith("*")
        name = name.removesuffix("*") if explode else name
        if not _NAME.fullmatch(name):
            _refuse(text, f"{spec!r} in the expression at {begin} is no variable")
        if colon and not (digits.isascii() and digits.isdigit() and 0 < int(digits[:5]) < 10_000):
            _refuse(text, f"{spec!r} in the expression at {begin} needs a length from 1 to 9999 after the colon")
        variables.append(_Variable(name, explode, int(digits) if colon else None))
    return _Expression(_OPERATORS[sign], variables)


# --- expanding -------------------------------------------------------------------------------------------------------


def _expand(expression: _Expression, values: Mapping[str, Value]) -> str:
    operator = expression.operator
    pieces: list[str] = []
    for variable in expression.variables:
        value = values.get(variable.name)
        if value is not None:
            pieces.extend(_pieces(variable, operator, value))
    return operator.first + operator.between.join(pieces) if pieces else ""


def _pieces(variable: _Variable, operator: _Operator, value: Any) -> Iterator[str]:
    """What one variable adds between the separators: nothing for an empty list, several pieces for an exploded one."""
    if isinstance(value, str | int | float):
        text = _text(variable, value)
        yield _named(operator, variable.name, _encode(text[: variable.prefix], reserved=operator.reserved))
        return
    if variable.prefix is not None:
        raise TypeError(f"{variable.name!r} must be a text: the template takes its first {variable.prefix} characters")
    pairs: list[list[str]]
    if isinstance(value, Mapping):
        members = cast("Mapping[Any, Any]", value).items()
        pairs = [[_text(variable, key), _text(variable, item)] for key, item in members if item is not None]
    elif isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        pairs = [[_text(variable, item)] for item in items if item is not None]
    else:
        raise TypeError(f"{variable.name!r} must be a text, a list or a dict of texts, not {type(value).__name__}")
    encoded = [[_encode(text, reserved=operator.reserved) for text in pair] for pair in pairs]
    if variable.explode:
        for pair in encoded:
            if len(pair) == 2:
                yield _named(operator, *pair) if operator.named else "=".join(pair)
            else:
                yield _named(operator, variable.name, pair[0])
    elif encoded:
        yield _named(operator, variable.name, ",".join(text for pair in encoded for text in pair))


def _text(variable: _Variable, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"{variable.name!r} holds {type(value).__name__}, which is no text")


def _named(operator: _Operator, name: str, value: str) -> str:
    if not operator.named:
        return value
    return f"{name}={value}" if value else name + operator.empty


def _encode(text: str, *, reserved: bool) -> str:
    """Escape what a URI cannot hold; with `reserved`, its delimiters and the escapes that are there already stay."""
    if not reserved:
        return "".join([_ENCODED[byte] for byte in text.encode()])
    pieces = [
        "".join([chr(byte) if byte in _RESERVED else _ENCODED[byte] for byte in piece.encode()])
        for piece in _ESCAPE.split(text)
    ]
    escapes = _ESCAPE.findall(text)
    return pieces[0] + "".join([escape + piece for escape, piece in zip(escapes, pieces[1:], strict=True)])


# --- matching --------------------------------------------------------------------------------------------------------


def _delimiters(parts: list[str | _Expression]) -> str:
    """The text of the template without its variables."""
    return "".join(part if isinstance(part, str) else part.operator.first for part in parts)


def _steps(parts: list[str | _Expression]) -> Iterator[str | _Run]:
    """The literals and runs that a URI of this template consists of, in order."""
    query = False
    for place, part in enumerate(parts):
        if isinstance(part, str):
            query = query or "?" in part
            yield part
            continue
        operator, variables = part.operator, part.variables
        first = operator.first
        if operator.named:
            query = query or first == "?"
            yield _Run(variables, operator, first, 0, _stop("#" if query and first != ";" else "/?#"), True)
        elif first == "/":
            # Each unexploded one is a segment of its own, so that together they span no more slashes than they may.
            for each in variables:
                yield _Run([each], operator, "/", 1, _stop("?#" if each.explode else "/?#"), True)
        elif operator.reserved:
            later = _delimiters(parts[place + 1 :])
            stops = "".join(mark for mark in "?#&" if mark in later and (query or mark != "&"))
            yield _Run(variables, operator, first, 1, _stop(stops), first == "#")
        else:
            yield _Run(variables, operator, first, 1, _stop("/?#&" if query else "/?#"), first == ".")


def _stop(characters: str) -> re.Pattern[str] | None:
    return re.compile(f"[{characters}]") if characters else None


def _normal(uri: str) -> str:
    """`uri` with every character outside ASCII escaped, and with escapes in capitals."""
    if not uri.isascii():
        try:
            uri = "".join([chr(byte) if byte < 128 else _ENCODED[byte] for byte in uri.encode()])
        except UnicodeEncodeError:
            raise ProtocolError(INVALID_PARAMS, "the URI holds half of a surrogate pair") from None
    return _ESCAPE.sub(lambda escape: escape.group().upper(), uri) if "%" in uri else uri


def _walk(steps: list[str | _Run], uri: str) -> list[tuple[_Variable, str | list[str]]] | None:
    """The values of `uri`, or None. Each step takes the most that leaves the rest able to match.

    First, from the last step to the first one, at which places of the URI the steps from there on fit the rest of it;
    then, forward, what each step takes. No step looks at a place twice, so the time is linear in the URI (S05).
    """
    if not steps:
        return [] if uri == "" else None
    first, last = steps[0], steps[-1]
    if (isinstance(first, str) and not uri.startswith(first)) or (isinstance(last, str) and not uri.endswith(last)):
        return None
    size = len(uri)
    fits = bytearray(size + 1)
    fits[size] = 1
    after = [fits]
    for step in reversed(steps):
        fits = _literal_fits(step, uri, fits) if isinstance(step, str) else _run_fits(step, uri, fits)
        after.append(fits)
    after.reverse()
    if not after[0][0]:
        return None
    values: list[tuple[_Variable, str | list[str]]] = []
    place = 0
    for step, fits in zip(steps, after[1:], strict=True):
        if isinstance(step, str):
            place += len(step)
        elif uri.startswith(step.first, place):
            start = place + len(step.first)
            stop = step.stop and step.stop.search(uri, start)
            end = fits.rfind(1, start + step.least, (stop.start() if stop else size) + 1)
            if end >= 0:
                values.extend(_values(step, uri[start:end]))
                place = end
    return values


def _literal_fits(literal: str, uri: str, after: bytearray) -> bytearray:
    fits = bytearray(len(after))
    place = uri.find(literal)
    while place >= 0:
        fits[place] = after[place + len(literal)]
        place = uri.find(literal, place + 1)
    return fits


def _run_fits(run: _Run, uri: str, after: bytearray) -> bytearray:
    """Where this run can begin: in each stretch without a stop, before the last place where what comes after it can."""
    body = bytearray(len(after))
    stops = [stop.start() for stop in run.stop.finditer(uri)] if run.stop else []
    begin = 0
    for end in [*stops, len(uri)]:
        last = after.rfind(1, begin, end + 1)
        if last >= 0:
            stretch = last + 1 - run.least - begin
            body[begin : begin + stretch] = b"\1" * stretch
        begin = end + 1
    fits = bytearray(after) if run.optional else bytearray(len(after))
    if not run.first:
        return body  # only runs that are not optional begin with nothing
    place = uri.find(run.first)
    while place >= 0:
        if body[place + 1]:
            fits[place] = 1
        place = uri.find(run.first, place + 1)
    return fits


def _values(run: _Run, text: str) -> Iterator[tuple[_Variable, str | list[str]]]:
    if run.operator.named:
        given: dict[str, list[str]] = {}
        for pair in text.split(run.operator.between):
            name, _, value = pair.partition("=")
            given.setdefault(name, []).append(value)
        for variable in run.variables:
            found = given.get(variable.name)
            if found is None:
                continue
            if variable.explode:
                yield variable, [_decode(variable.name, each) for each in found]
            elif len(found) == 1:
                yield variable, _decode(variable.name, found[0])
            else:
                raise ProtocolError(INVALID_PARAMS, f"the URI gives {variable.name!r} {len(found)} times")
        return
    # The last variable takes what is left over.
    for variable, piece in zip(run.variables, text.split(run.operator.between, len(run.variables) - 1), strict=False):
        if variable.explode:
            yield variable, [_decode(variable.name, each) for each in piece.split(run.operator.between)]
        else:
            yield variable, _decode(variable.name, piece)


def _decode(name: str, text: str) -> str:
    if "%" not in text:
        return text
    if broken := _BROKEN_ESCAPE.search(text):
        shown = text[broken.start() : broken.start() + 3]
        raise ProtocolError(INVALID_PARAMS, f"the value of {name!r} in the URI has a broken escape: {shown!r}")
    head, *rest = text.split("%")
    try:
        return (head.encode() + b"".join([bytes.fromhex(part[:2]) + part[2:].encode() for part in rest])).decode()
    except UnicodeDecodeError:
        raise ProtocolError(INVALID_PARAMS, f"the escapes in the value of {name!r} in the URI are no UTF-8") from None
