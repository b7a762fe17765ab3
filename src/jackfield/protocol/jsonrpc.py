"""JSON-RPC 2.0 frames: bytes to Request, Notification or Response and back; everything else is refused."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from .errors import INVALID_REQUEST, PARSE_ERROR, FrameError

Id = int | str
MAX_DEPTH: Final = 64
NO_PARAMS: Final = b"{}"


class Request(Struct, gc=False):
    """A request as it came: `params` are still JSON (b"{}" where absent)."""

    id: Id
    method: str
    params: bytes = NO_PARAMS


class Notification(Struct, gc=False):
    """A notification as it came: `params` are still JSON (b"{}" where absent)."""

    method: str
    params: bytes = NO_PARAMS


class ErrorObject(Struct, gc=False, omit_defaults=True):
    """The `error` member of an answer (BASE-7). `data` is free-form; None when absent."""

    code: int
    message: str
    data: Any = None


class Response(Struct, gc=False):
    """An answer as it came: `result` is still the bytes; exactly one of `result` and `error` is set (BASE-2).

    `id` is None where the peer did not know which request it answers; legacy peers write null there.
    """

    id: Id | None
    result: Raw | None = None
    error: ErrorObject | None = None


Message = Request | Notification | Response


class _Envelope(Struct, gc=False):
    jsonrpc: str | UnsetType = UNSET
    id: Id | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Id(Struct, gc=False):
    id: Id | None | UnsetType = UNSET
    method: Raw | UnsetType = UNSET


class OutRequest(Struct, gc=False, tag_field="jsonrpc", tag="2.0"):
    """A request to send; `params` is anything msgspec encodes."""

    id: Id
    method: str
    params: Any


class OutNotification(Struct, gc=False, tag_field="jsonrpc", tag="2.0"):
    """A notification to send; `params` is anything msgspec encodes."""

    method: str
    params: Any


class Answer(Struct, gc=False, tag_field="jsonrpc", tag="2.0"):
    """A successful answer to send; `result` is anything msgspec encodes."""

    id: Id
    result: Any


class Refusal(Struct, gc=False, tag_field="jsonrpc", tag="2.0"):
    """An error answer to send; `id` is UNSET, and left out, where it is unknown (BASE-3)."""

    id: Id | UnsetType
    error: ErrorObject


encode: Final = msgspec.json.Encoder().encode
"""Encode any outgoing message to one line of UTF-8 JSON without an end (STDIO-1)."""

_decode: Final = msgspec.json.Decoder(_Envelope).decode
_decode_id: Final = msgspec.json.Decoder(_Id).decode
_decode_error: Final = msgspec.json.Decoder(ErrorObject).decode
_decode_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_HEAD: Final = re.compile(
    rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?P<method>"method"\s*:\s*"[^"\\]*"\s*,\s*)?'
    rb'"id"\s*:\s*(?P<id>-?[1-9][0-9]{0,18}|0|"[ !#-\[\]-~]*")\s*,\s*"(?P<next>method|params|result|error)"'
)
_NOT_BRACKETS: Final = bytes(b for b in range(256) if b not in b"{}[]")
_GLANCE: Final = 65536
_REQUEST_SIZE: Final = len('{"jsonrpc":"2.0","id":,"method":"","params":}')
_RESULT_SIZE: Final = len('{"jsonrpc":"2.0","id":,"result":}')
_TENS: Final = (0, *(10**digits for digits in range(1, 19)))
"""The least number of so many digits more than one."""
_STEP: Final = {0x7B: 1, 0x5B: 1, 0x7D: -1, 0x5D: -1}


class Refused(bytes):
    """An encoded error answer that knows its error `code`, and the HTTP `status` that goes with it (4.5)."""

    code: int
    status: int


def refusal(code: int, message: str, id: Id | None = None, data: Any = None) -> bytes:
    """Encode an error answer; without `id` the member is left out (BASE-3)."""
    return encode(Refusal(UNSET if id is None else id, ErrorObject(code, message, data)))


def decode(frame: bytes, max_depth: int = MAX_DEPTH) -> Message:
    """Read one frame in one pass; what is inside `params` and `result` stays bytes.

    Raises FrameError for everything that is no legal message: -32700 where it is no readable JSON (bad UTF-8 anywhere,
    lone surrogates, nesting beyond `max_depth`), else -32600 (arrays, other shapes, other versions, a null id on a
    request, a key given twice in the envelope). The error has the request's id where the envelope could be read.
    """
    # Each level takes a bracket at both ends, so a short frame cannot be too deep.
    if (
        len(frame) > 2 * max_depth
        # To look for a byte is quick, to count it is not, and most requests have no array.
        and frame.count(b"{") + (frame.count(b"[") if b"[" in frame else 0) > max_depth
        and deeper_than(frame, max_depth)
    ):
        raise _refuse(frame, PARSE_ERROR, f"nested deeper than {max_depth} levels (limit `depth`)")
    try:
        if not frame.isascii():
            frame.decode()  # msgspec lets bad UTF-8 pass in what it does not decode
        envelope = _decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(frame, error) from None
    method, id = envelope.method, envelope.id
    if envelope.jsonrpc != "2.0":
        raise _refuse(frame, INVALID_REQUEST, '`jsonrpc` must be "2.0"')
    if method is UNSET:
        return _response(frame, envelope)
    inner = envelope.params
    params = NO_PARAMS if inner is UNSET else bytes(inner)
    if id is UNSET:
        _look_closely(frame, envelope)
        return Notification(method, params)
    if id is None:
        raise FrameError(INVALID_REQUEST, "the id of a request must be a string or an integer, not null")
    # Where the number is just as long as what the other members leave of a frame, a key given twice has no room (T08).
    left = 0 if inner is UNSET else len(frame) - len(method) - len(params) - _REQUEST_SIZE
    if id.__class__ is str or not (0 < left < 19 and _TENS[left - 1] <= id < _TENS[left]):  # type: ignore[operator]
        head, marks = frame, 8
        if inner is not UNSET:
            head = frame[: -1 - len(params)] if frame.endswith(params, 0, -1) else frame.replace(params, b"", 1)
            marks = 10
        # It adds at least two quotation marks to those that the members read account for.
        if head.count(b'"') != marks + (4 if id.__class__ is str else 2):
            _look_closely(frame, envelope)
    return Request(id, method, params)


def _look_closely(frame: bytes, envelope: _Envelope) -> None:
    """Refuse a request or notification whose envelope has members that make it two things at once (T08)."""
    if repeats_key(frame):
        raise _refuse(frame, INVALID_REQUEST, "a key of the envelope is given twice")
    if envelope.result is not UNSET or envelope.error is not UNSET:
        raise _refuse(frame, INVALID_REQUEST, "a message has either `method`, or `result` or `error`")


def deeper_than(frame: bytes, depth: int) -> bool:
    """Tell whether arrays and objects are nested deeper than `depth`; brackets inside strings do not count."""
    if len(frame) > _GLANCE and deeper_than(frame[:_GLANCE], depth):
        return True  # what is absurdly deep is so from the beginning: no need to read millions of brackets
    text, _, _ = _STRINGS.sub(b"", frame).partition(b'"')  # a string that was cut off hides nothing
    brackets = text.translate(None, _NOT_BRACKETS)
    return any(map(depth.__lt__, accumulate(map(_STEP.__getitem__, brackets))))


def repeats_key(text: bytes | Raw) -> bool:
    """Tell whether the JSON object `text` names one of its own members twice, in whatever spelling."""
    text = bytes(text)
    members = _decode_members(text)
    marks = sum([bytes(value).count(b'"') for value in members.values()])
    if text.count(b'"') == marks + 2 * len(members):
        return False
    pairs: list[tuple[str, Any]] = []  # a key with an escaped quotation mark, or really a key given twice: look closely

    def keep(found: list[tuple[str, Any]]) -> None:
        pairs[:] = found  # the outermost object is the last one to be closed

    import json  # not at the top: it is needed for odd frames alone

    json.loads(text, object_pairs_hook=keep, parse_int=str)
    return len(pairs) != len(dict(pairs))


def check_members(text: bytes | Raw, place: str) -> None:
    """Raise FrameError (-32600) when the JSON object `text`, found at `place`, names a member twice (T08)."""
    if repeats_key(text):
        raise FrameError(INVALID_REQUEST, f"a key of `{place}` is given twice")


def read_head(head: bytes) -> tuple[Id | None, bool]:
    """The id of a message whose beginning alone was kept, None where it is not sure, and whether it was an answer."""
    found = _HEAD.match(head)
    if found is None:
        return None, False
    return msgspec.json.decode(found["id"]), found["next"] in (b"result", b"error")


def _response(frame: bytes, envelope: _Envelope) -> Response:
    id = None if envelope.id is UNSET else envelope.id
    result, error = envelope.result, envelope.error
    if error is UNSET and result is not UNSET:
        inner = bytes(result)
        left = len(frame) - len(inner) - _RESULT_SIZE
        if id.__class__ is not int or not (0 < left < 19 and _TENS[left - 1] <= id < _TENS[left]):  # type: ignore[operator]
            head = frame[: -1 - len(inner)] if frame.endswith(inner, 0, -1) else frame.replace(inner, b"", 1)
            if head.count(b'"') != (10 if id.__class__ is str else 8) and repeats_key(frame):
                raise _refuse(frame, INVALID_REQUEST, "a key of the envelope is given twice")
        if id is None:
            raise _refuse(frame, INVALID_REQUEST, "an answer with a result must have the id of its request")
        return Response(id, result)
    if error is UNSET:
        raise _refuse(frame, INVALID_REQUEST, "neither a request (`method`) nor an answer (`result` or `error`)")
    if repeats_key(frame):
        raise _refuse(frame, INVALID_REQUEST, "a key of the envelope is given twice")
    if result is not UNSET and bytes(result) != b"null":
        raise _refuse(frame, INVALID_REQUEST, "an answer has either `result` or `error`, not both")
    try:
        return Response(id, None, _decode_error(error))
    except (msgspec.DecodeError, RecursionError):
        raise _refuse(frame, INVALID_REQUEST, "`error` must have an integer `code` and a text `message`") from None


def _unreadable(frame: bytes, error: Exception) -> FrameError:
    """Judge what the fast decoder refused: no JSON at all (-32700), or JSON that is no message (-32600)."""
    if isinstance(error, UnicodeDecodeError):
        return _refuse(frame, PARSE_ERROR, f"not UTF-8: {error.reason} at byte {error.start}")
    try:
        msgspec.json.decode(frame)
    except (msgspec.DecodeError, RecursionError) as fault:
        return _refuse(frame, PARSE_ERROR, f"not JSON: {fault}")
    if frame.lstrip()[:1] == b"[":
        return _refuse(frame, INVALID_REQUEST, "a batch (array) is not accepted here; send one message at a time")
    return _refuse(frame, INVALID_REQUEST, f"not a JSON-RPC message: {error}")


def _refuse(frame: bytes, code: int, message: str) -> FrameError:
    """Make a FrameError with the id, where that can still be read."""
    if frame.lstrip()[:1] != b"{":
        return FrameError(code, message)
    try:
        found = _decode_id(frame)
        id, is_request = found.id, found.method is not UNSET
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        id, is_request = _look_for_id(frame)
    if not isinstance(id, int | str) or isinstance(id, bool) or not _encodes(id):
        return FrameError(code, message)
    return FrameError(code, message, id, reply=not is_request)


def _encodes(id: Id) -> bool:
    """Whether an id can be sent back: the lenient reader of `_look_for_id` lets half a surrogate pair through (F4)."""
    return isinstance(id, int) or not any("\ud800" <= character <= "\udfff" for character in id)


def _look_for_id(frame: bytes) -> tuple[object, bool]:
    """The id, and whether there is a method, in a frame that stops the strict decoder: half a surrogate, NaN, depth."""
    import json

    try:
        found: object = json.loads(frame, parse_int=_integer)
    except RecursionError:
        id, reply = read_head(frame)
        return id, not reply
    except ValueError:
        return None, False
    if not isinstance(found, dict):
        return None, False
    members = cast("dict[str, object]", found)
    return members.get("id"), "method" in members


def _integer(digits: str) -> int | None:
    return int(digits) if len(digits) < 4000 else None  # the interpreter refuses longer ones
