"""The keys of `_meta` and the names of extensions: their grammar and what is reserved, and the trace of a request."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import Raw, Struct

from .errors import RegistrationError
from .types import LOG_LEVELS

Settings = dict[str, Any]
"""What one side says of an extension that it speaks; mostly nothing."""

_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_PREFIX = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_WHOLE_NAME = re.compile(_NAME)
_NAMES = re.compile(rf"{_NAME}(?:/{_NAME})*")
"""Stricter is the grammar, which has one slash; but keys with more are in use, and clients know them."""
_RESERVED = ("mcp", "modelcontextprotocol")
_LOG_LEVEL = "io.modelcontextprotocol/logLevel"

# ---- keys


def key_fault(key: object, extensions: Collection[str] = ()) -> str | None:
    """What is wrong with a key of `_meta` that an author wrote, with the fix; None where nothing is (META-6).

    Keys with a prefix that the protocol keeps to itself are wrong, but for those of the `extensions` that this side
    speaks: `io.modelcontextprotocol/skills` has itself, and all that begins with `io.modelcontextprotocol.skills/`.
    """
    if not isinstance(key, str) or not key:
        return f"the key {key!r} of `_meta` is no name; write one such as 'example.com/colour' (META-6)"
    prefix, slash, name = _cut(key)
    if (slash and not _PREFIX.fullmatch(prefix)) or (name and not _NAMES.fullmatch(name)):
        return (
            f"the key {key!r} of `_meta` is outside the grammar: a prefix of labels with dots between them and a "
            "slash, if any, then a name of A-Z a-z 0-9 - _ . that begins and ends with a letter or digit (META-6)"
        )
    if _reserved(prefix) and not any(key == own or key.startswith(f"{own.replace('/', '.')}/") for own in extensions):
        return (
            f"the key {key!r} of `_meta` has a prefix that the protocol keeps to itself; use one of your own, such as "
            "'example.com/', or declare the extension that the key belongs to (META-6)"
        )
    return None


def _cut(key: str) -> tuple[str, str, str]:
    prefix, slash, name = key.partition("/")
    return (prefix, slash, name) if slash else ("", "", key)


def _reserved(prefix: str) -> bool:
    labels = prefix.lower().split(".")
    return len(labels) > 1 and labels[1] in _RESERVED


def check_meta(meta: object, label: str, extensions: Collection[str] = ()) -> None:
    """Check the keys of the `_meta` of a definition, called `label`. Raises RegistrationError, which names the key."""
    if not isinstance(meta, Mapping):
        return  # which is told where the definition is looked at as a whole
    for key in cast("Mapping[object, object]", meta):
        if fault := key_fault(key, extensions):
            raise RegistrationError(f"{label}: {fault}")


def check_call_meta(meta: Mapping[str, Any], extensions: Collection[str] = ()) -> None:
    """Check what a caller puts into the `_meta` of a request: keys, and the values of those that have a format.

    Of the protocol's own keys a caller may set the log level and the trace (META-2). Raises ValueError, which names the
    key.
    """
    for key, value in meta.items():
        if key == _LOG_LEVEL:
            if value not in LOG_LEVELS:
                raise ValueError(f"meta: {value!r} is no log level; use one of {', '.join(LOG_LEVELS)}")
        elif key in _READERS:
            if _READERS[key](value) is None:
                raise ValueError(f"meta: {key!r} has the value {value!r}, which is none in its W3C format (TRC-1)")
        elif key == "progressToken":
            raise ValueError("meta: 'progressToken' is set by the client itself; to hear of progress write progress=")
        elif fault := key_fault(key, extensions):
            raise ValueError(f"meta: {fault}")


# ---- extensions


def is_extension(id: object) -> bool:
    """Whether this is the name of an extension: a key of `_meta` that has both a prefix and a name (CAP-4)."""
    if not isinstance(id, str):
        return False
    prefix, _, name = _cut(id)
    return _PREFIX.fullmatch(prefix) is not None and _WHOLE_NAME.fullmatch(name) is not None


def check_extensions(extensions: object) -> dict[str, Settings]:
    """The extensions that one side is told to speak, by their names; none but those are ever declared (CAP-4).

    Raises RegistrationError for what is no name and for settings that are no JSON object.
    """
    if not isinstance(extensions, Mapping):
        raise RegistrationError("extensions is a dict of names and settings, as in {'com.example/colours': {}}")
    found: dict[str, Settings] = {}
    for id, settings in cast("Mapping[object, object]", extensions).items():
        if not is_extension(id):
            raise RegistrationError(
                f"the extension {id!r} has no name of the form 'prefix/name', as in 'com.example/colours' (CAP-4)"
            )
        try:
            found[str(id)] = msgspec.json.decode(msgspec.json.encode(settings), type=Settings)
        except (TypeError, ValueError, RecursionError) as fault:
            raise RegistrationError(f"the settings of the extension {id!r} are no JSON object: {fault}") from None
    return found


def negotiated(own: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> dict[str, Settings]:
    """The extensions that both sides declared, with the other side's settings, which must be an object to count."""
    if not own or not theirs:
        return {}
    return {id: settings for id in own if isinstance(settings := theirs.get(id), dict)}


# ---- the trace

_LONGEST: Final = 8192
"""Characters of a trace state or a baggage that are read; longer ones count as none."""
_MOST_STATES, _MOST_ITEMS = 32, 64

_PARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_STATE = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_VALUE = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_ITEM = re.compile(rf"{_TOKEN}[ \t]*=[ \t]*{_VALUE}[ \t]*(?:;[ \t]*{_TOKEN}[ \t]*(?:=[ \t]*{_VALUE}[ \t]*)?)*")


class Trace(Struct, frozen=True):
    """Where a request belongs in a distributed trace, in the W3C's words (TRC-1); each part is None where it is absent.

    All of it is the peer's own word. `baggage` may hold anything that somebody else wished to be carried along: it is
    bounded and well formed, but not to be trusted, and not to be handed on to others unread.
    """

    traceparent: str | None = None
    tracestate: str | None = None
    baggage: str | None = None

    @property
    def trace_id(self) -> str | None:
        """The 32 hex digits that all steps of the trace share."""
        return self.traceparent and self.traceparent[3:35]

    @property
    def parent_id(self) -> str | None:
        """The 16 hex digits of the step that sent the request."""
        return self.traceparent and self.traceparent[36:52]

    @property
    def sampled(self) -> bool:
        """Whether that step is recorded."""
        return self.traceparent is not None and bool(int(self.traceparent[53:55], 16) & 1)

    @property
    def carrier(self) -> dict[str, str]:
        """What may go on to others: `traceparent` and `tracestate`, as OpenTelemetry's propagators take them."""
        members = {"traceparent": self.traceparent, "tracestate": self.tracestate}
        return {key: value for key, value in members.items() if value is not None}


def _parent(value: object) -> str | None:
    match = _PARENT.fullmatch(value) if isinstance(value, str) and len(value) <= _LONGEST else None
    if match is None:
        return None
    version, trace, step, _, more = match.groups()
    if version == "ff" or (version == "00" and more is not None) or not trace.strip("0") or not step.strip("0"):
        return None
    return match.group()


def _state(value: object) -> str | None:
    members = _members(value, _MOST_STATES, gaps=True)
    if members is None or not all(map(_STATE.fullmatch, members)):
        return None
    keys = {member.partition("=")[0] for member in members}
    return str(value) if len(keys) == len(members) else None


def _baggage(value: object) -> str | None:
    members = _members(value, _MOST_ITEMS, gaps=False)
    return None if members is None or not all(map(_ITEM.fullmatch, members)) else str(value)


def _members(value: object, most: int, *, gaps: bool) -> list[str] | None:
    """The members of a list with commas, empty ones left out where `gaps` may be; None for none, and for too many."""
    if not isinstance(value, str) or len(value) > _LONGEST:
        return None
    members = [part.strip(" \t") for part in value.split(",")]
    if gaps:
        members = [member for member in members if member]
    return members if 0 < len(members) <= most else None


_READERS: Final = {"traceparent": _parent, "tracestate": _state, "baggage": _baggage}


def trace_of(values: Mapping[str, object]) -> Trace | None:
    """The trace among these values, None where there is none.

    What is not in its W3C format, or beyond a bound, counts as absent and is never a fault (TRC-1); a trace state
    without a trace says nothing.
    """
    found = {key: read(values.get(key)) for key, read in _READERS.items()}
    if found["traceparent"] is None:
        found["tracestate"] = None
    return Trace(**found) if any(found.values()) else None


class _TraceMeta(Struct):
    traceparent: Any = None
    tracestate: Any = None
    baggage: Any = None


_decode = msgspec.json.Decoder(_TraceMeta).decode


def read_trace(meta: bytes | Raw) -> Trace | None:
    """The trace in the bytes of a `_meta`; see `trace_of`."""
    try:
        found = _decode(meta)
    except (msgspec.DecodeError, RecursionError):
        return None
    return trace_of(msgspec.structs.asdict(found))
