"""Frames: what is a message, what is not, and which error says so."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.errors import INVALID_REQUEST, PARSE_ERROR, FrameError
from jackfield.protocol.jsonrpc import (
    Answer,
    ErrorObject,
    Notification,
    OutNotification,
    OutRequest,
    Request,
    Response,
    decode,
    deeper_than,
    encode,
    read_head,
    refusal,
    repeats_key,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
IDS = st.one_of(st.integers(), TEXTS)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=4)


def fault_of(frame: bytes) -> FrameError:
    with pytest.raises(FrameError) as caught:
        decode(frame)
    return caught.value


def verdict(frame: bytes) -> int | None:
    """The code of the error that the frame gives, or None for a message."""
    try:
        decode(frame)
    except FrameError as error:
        return error.code
    return None


@given(IDS, TEXTS, OBJECTS)
def test_a_request_comes_back_as_it_was_encoded(id: int | str, method: str, params: dict[str, object]) -> None:
    """decode(encode(request)) gives the same id, of the same type, method and params (BASE-1, BASE-2)."""
    message = decode(encode(OutRequest(id, method, params)))
    assert isinstance(message, Request)
    assert (message.id, type(message.id), message.method) == (id, type(id), method)
    assert msgspec.json.decode(message.params) == params


@given(TEXTS, OBJECTS)
def test_a_notification_comes_back_as_it_was_encoded(method: str, params: dict[str, object]) -> None:
    """decode(encode(notification)) gives the same method and params, and no id (BASE-4)."""
    message = decode(encode(OutNotification(method, params)))
    assert isinstance(message, Notification)
    assert message.method == method
    assert msgspec.json.decode(message.params) == params


@given(IDS, JSON)
def test_an_answer_comes_back_as_it_was_encoded(id: int | str, result: object) -> None:
    """decode(encode(answer)) gives the same id and result."""
    message = decode(encode(Answer(id, result)))
    assert isinstance(message, Response)
    assert message.error is None
    assert message.result is not None
    assert (message.id, msgspec.json.decode(message.result)) == (id, result)


@given(st.one_of(st.none(), IDS), st.integers(-40000, 40000), TEXTS, JSON)
def test_an_error_comes_back_as_it_was_encoded(id: int | str | None, code: int, text: str, data: object) -> None:
    """decode(refusal(...)) gives the same error; without an id the member is left out, never null (BASE-3, BASE-7)."""
    frame = refusal(code, text, id, data)
    assert ("id" in json.loads(frame)) == (id is not None)
    assert decode(frame) == Response(id, None, ErrorObject(code, text, data))


@given(OBJECTS, st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]), st.randoms())
def test_spacing_and_order_of_members_do_not_matter(params: dict[str, object], separators, random) -> None:
    """A frame means the same however its JSON is spaced and ordered."""
    members = [("jsonrpc", "2.0"), ("id", 'a"b'), ("method", "x/y"), ("params", params), ("extra", {"id": [1]})]
    random.shuffle(members)
    message = decode(json.dumps(dict(members), separators=separators).encode())
    assert isinstance(message, Request)
    assert (message.id, message.method, msgspec.json.decode(message.params)) == ('a"b', "x/y", params)


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_decode_or_be_refused(frame: bytes) -> None:
    """Whatever the bytes, they are a message or a FrameError with one of two codes (T14)."""
    assert verdict(frame) in (None, PARSE_ERROR, INVALID_REQUEST)


@given(JSON)
def test_any_json_that_is_no_message_is_an_invalid_request(value: object) -> None:
    """Readable JSON is never a parse error."""
    assert verdict(json.dumps(value).encode()) in (None, INVALID_REQUEST)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"{not json}",
        b'{"jsonrpc":"2.0"',
        b"[1,",
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","method":"x"} trailing',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":Infinity}}',
        b'{"jsonrpc":"2.0","method":"x","params":{"a":01}}',
        b'{"jsonrpc":"2.0","method":"x\xff"}',
    ],
)
def test_what_is_no_json_is_a_parse_error_without_id(frame: bytes) -> None:
    """Unreadable bytes give -32700, with the id left out where there is none to read (BASE-3)."""
    error = fault_of(frame)
    assert (error.code, error.id) == (PARSE_ERROR, None)


@pytest.mark.parametrize(
    "inside",
    [
        b'"\xff"',
        rb'"\ud800"',
        rb'"\udc00"',
        rb'"\ud800\ud800"',
        rb'"a\\\ud83dx"',
        b"NaN",
        b"-Infinity",
        b"tru",
        b"[1,]",
    ],
)
def test_unreadable_params_are_a_parse_error_that_keeps_the_id(inside: bytes) -> None:
    """Bad UTF-8, half surrogates and broken values deep in the params give -32700 with the id (F4, T08)."""
    error = fault_of(b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":[%b]}}' % inside)
    expected = None if inside in (b"tru", b"[1,]") else 7  # no reader gets past these
    assert (error.code, error.id, error.reply) == (PARSE_ERROR, expected, False)


@pytest.mark.parametrize("inside", [rb'"\ud83d\ude00"', rb'"\\ud800"', rb'"\\\\ud800"', b'"\xf0\x9f\x98\x80"'])
def test_whole_surrogate_pairs_and_escaped_backslashes_pass(inside: bytes) -> None:
    """What only looks like half a surrogate pair is let through."""
    assert isinstance(decode(b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":%b}}' % inside), Request)


@pytest.mark.parametrize(
    ("frame", "id"),
    [
        (b"[]", None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', None),
        (b"42", None),
        (b"null", None),
        (b'"x"', None),
        (b"{}", None),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"x"}', None),
        (b'{"jsonrpc":"1.0","id":5,"method":"x"}', 5),
        (b'{"id":"five","method":"x"}', "five"),
        (b'{"jsonrpc":2.0,"id":5,"method":"x"}', 5),
        (b'{"jsonrpc":"2.0","id":5,"method":7}', 5),
        (b'{"jsonrpc":"2.0","id":5,"method":null}', 5),
        (b'{"jsonrpc":"2.0","result":{}}', None),
        (b'{"jsonrpc":"2.0","id":5}', 5),
        (b'{"jsonrpc":"2.0","id":5,"result":{},"error":{"code":1,"message":"x"}}', 5),
        (b'{"jsonrpc":"2.0","id":5,"error":{"code":"1","message":"x"}}', 5),
        (b'{"jsonrpc":"2.0","id":5,"error":"bad"}', 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"x","result":{}}', 5),
        (b'{"jsonrpc":"2.0","id":5,"method":"x","params":{},"error":{"code":1,"message":"x"}}', 5),
        (b'{"jsonrpc":"2.0","method":"x","result":{}}', None),
    ],
)
def test_json_that_is_no_legal_message_is_an_invalid_request(frame: bytes, id: int | str | None) -> None:
    """Arrays, null ids, other versions and wrong shapes give -32600, with a legal id (F30, F33, BASE-5)."""
    error = fault_of(frame)
    assert (error.code, error.id) == (INVALID_REQUEST, id)


@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":5,"id":6,"method":"x"}',
        b'{"jsonrpc":"2.0","id":5,"\\u0069d":6,"method":"x"}',
        b'{"jsonrpc":"2.0","id":5,"method":"x","method" : "y"}',
        b'{"jsonrpc":"2.0","id":5,"method":"x","params":{},"params":{}}',
        b'{"params":{"b":"c"},"jsonrpc":"2.0","id":5,"method":"x","params":{"b":"c"}}',
        b'{"jsonrpc":"2.0","jsonrpc":"2.0","id":"5","method":"x"}',
        b'{"jsonrpc":"2.0","method":"x","method":"y"}',
        b'{"jsonrpc":"2.0","id":5,"result":1,"result":2}',
        b'{"jsonrpc":"2.0","id":5,"method":"x","z":1,"z":2}',
    ],
)
def test_a_key_given_twice_in_the_envelope_is_an_invalid_request(frame: bytes) -> None:
    """Whatever its spelling or spacing, a key may stand in the envelope only once (T08)."""
    assert fault_of(frame).code == INVALID_REQUEST


def test_keys_inside_params_may_look_like_those_of_the_envelope() -> None:
    """Only the envelope's own keys are compared."""
    frame = b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"id":1,"method":{"id":2,"jsonrpc":"\\"id\\":1"}}}'
    assert isinstance(decode(frame), Request)


@given(st.lists(st.tuples(TEXTS, JSON), min_size=1, max_size=6), st.booleans())
def test_repeats_key_tells_exactly_when_a_member_is_named_twice(
    members: list[tuple[str, object]], spaced: bool
) -> None:
    """Counting quotation marks agrees with comparing the keys, for every object."""
    gap = " " if spaced else ""
    body = ("," + gap).join(f"{json.dumps(key)}{gap}:{gap}{json.dumps(value)}" for key, value in members)
    assert repeats_key(b"{%b}" % body.encode()) == (len({key for key, _ in members}) != len(members))


@pytest.mark.parametrize(("levels", "refused"), [(63, False), (64, True)])
def test_depth_is_counted_exactly(levels: int, refused: bool) -> None:
    """The envelope and 63 levels inside it pass, one level more is refused with the id (T13)."""
    frame = b'{"jsonrpc":"2.0","id":5,"method":"x","params":' + b"[" * levels + b"]" * levels + b"}"
    if refused:
        error = fault_of(frame)
        assert (error.code, error.id) == (PARSE_ERROR, 5)
        assert "`depth`" in error.message
    else:
        assert isinstance(decode(frame), Request)


def test_many_brackets_side_by_side_or_in_strings_are_not_deep() -> None:
    """Width is no depth, and brackets in strings are text."""
    frame = encode(OutRequest(1, "x", {"wide": [[]] * 500, "text": "[" * 500 + '"\\'}))
    assert isinstance(decode(frame), Request)


@pytest.mark.parametrize("levels", [1_000, 100_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"[":'])
def test_absurd_depth_is_refused_in_place_of_a_crash(levels: int, opening: bytes) -> None:
    """Depth far beyond what any parser can recurse into is an ordinary parse error, with the id (T13)."""
    error = fault_of(b'{"jsonrpc":"2.0","id":5,"result":' + opening * levels)
    assert (error.code, error.id, error.reply) == (PARSE_ERROR, 5, True)


@pytest.mark.parametrize("id", [rb'"x\ud800"', rb'"\udfff"'])
def test_an_id_that_cannot_be_sent_back_is_left_out(id: bytes) -> None:
    """Half a surrogate pair in the id itself is a parse error whose answer can be encoded (F4, T14)."""
    error = fault_of(b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % id)
    assert (error.code, error.id) == (PARSE_ERROR, None)
    assert refusal(error.code, error.message, error.id)


def test_brackets_in_a_string_that_is_cut_off_are_not_counted() -> None:
    """The glance at the beginning of a long frame may end inside a string; what stands there is text."""
    frame = encode(OutRequest(1, "x", {"list": [[]] * 40, "text": "[" * 100_000}))
    assert isinstance(decode(frame), Request)


@given(st.integers(0, 80), st.integers(0, 80))
def test_deeper_than_agrees_with_nesting(levels: int, depth: int) -> None:
    """The scan counts arrays and objects alike."""
    text = b'[{"a":' * levels + b"1" + b"}]" * levels
    assert deeper_than(text, depth) == (2 * levels > depth)


@pytest.mark.parametrize("id", [0, -1, 10**30, "0", "", "x" * 10_000, "\u2028"])
def test_ids_keep_their_type_and_value(id: int | str) -> None:
    """Zero, negative, huge and odd ids come back exactly (BASE-2)."""
    message = decode(encode(OutRequest(id, "ping", {})))
    assert isinstance(message, Request)
    assert message.id == id
    assert type(message.id) is type(id)


def test_an_error_with_a_null_id_is_read() -> None:
    """Legacy peers write null where they do not know the id (BASE-3, F31)."""
    message = decode(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}')
    assert message == Response(None, None, ErrorObject(-32700, "Parse error"))


def test_a_broken_answer_is_told_from_a_broken_request() -> None:
    """The id of an unreadable answer is known, so that the request it belongs to can fail."""
    error = fault_of(b'{"jsonrpc":"2.0","id":3,"result":{"text":"\xff"}}')
    assert (error.id, error.reply) == (3, True)


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b'{"jsonrpc":"2.0","id":7,"result":{"text":"aaa', (7, True)),
        (b'{"jsonrpc": "2.0", "id": "a-7", "error": {', ("a-7", True)),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":8,', (7, False)),
        (b'{"jsonrpc":"2.0","method":"tools/call","id":0,"params":{', (0, False)),
        (b'{"result":{"id":7,"result":"aaa', (None, False)),
        (b'{"jsonrpc":"2.0","method":"x","params":{"id":7,"result":', (None, False)),
        (b'{"jsonrpc":"2.0","id":1.5,"result":', (None, False)),
        (b'{"jsonrpc":"2.0","id":null,"error":', (None, False)),
        (b"", (None, False)),
    ],
)
def test_the_id_of_a_dropped_message_is_read_from_its_head(head: bytes, found: tuple[int | str | None, bool]) -> None:
    """Where the envelope's id stands at the beginning it is known; what only looks like it is not taken for it."""
    assert read_head(head) == found


@given(JSON)
def test_an_encoded_message_is_one_line(value: object) -> None:
    """No encoded message holds a raw line end (STDIO-1)."""
    frame = encode(OutRequest("a\nb", "x", {"value": value, "text": "a\r\nb\u2028"}))
    assert b"\n" not in frame
    assert b"\r" not in frame
