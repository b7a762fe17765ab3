"""Cutting bytes into lines and Server-Sent Events, and writing the latter."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jackfield.protocol.errors import LimitExceeded
from jackfield.protocol.framing import Event, EventReader, LineReader, TooLong, encode_comment, encode_event
from jackfield.protocol.limits import Limits

SEPARATORS = "\u2028\u2029\u0085\x0b\x0c\x1c"


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """`data` in pieces that end at these places (taken modulo its length)."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


def lines_of(pieces: Iterable[bytes], limit: int = 1000) -> list[bytes | TooLong]:
    reader = LineReader(limit)
    return [line for piece in pieces for line in reader.feed(piece)] + list(reader.finish())


def events_of(pieces: Iterable[bytes], limit: int = 1000) -> tuple[list[Event], str | None, int | None]:
    reader = EventReader(limit)
    events = [event for piece in pieces for event in reader.feed(piece)]
    reader.finish()
    return events, reader.last_id, reader.retry


def bytewise(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


# --- lines -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\n\r\na\n\n\r\n\nb\n", [b"a", b"b"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"a\rb\n", [b"a\rb"]),
        (b" \n", [b" "]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\nb\r", [b"a", b"b"]),
        (b"\r", []),
        (b"", []),
    ],
)
def test_lines_end_with_lf_or_crlf_and_blank_ones_are_skipped(data: bytes, lines: list[bytes]) -> None:
    """LF ends a line, one CR before it goes, blank lines are nothing, the last line needs no end (STDIO-1, F5)."""
    assert lines_of([data]) == lines
    assert lines_of(bytewise(data)) == lines
    assert lines_of([b"first\n", data]) == [b"first", *lines]


@pytest.mark.parametrize("separator", SEPARATORS)
def test_only_lf_ends_a_line(separator: str) -> None:
    """What Python or Unicode also call a line end stays inside the line, raw (STDIO-1, F23)."""
    line = f'{{"text":"a{separator}b"}}'.encode()

    assert lines_of([line + b"\n"]) == [line]
    assert lines_of([b"first\n", line + b"\n" + line + b"\n"]) == [b"first", line, line]


LINE_PIECES = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"a", b"{}", b"xxxx", b"x" * 30, b"\xef\xbb\xbf", "\u2028".encode()]
)


@given(st.lists(LINE_PIECES).map(b"".join), st.lists(st.integers(min_value=0)))
@example(b"\xef\xbb\xbfa\r\n\xef\xbb\xbfb\n", [1, 2, 3, 5])
@example(b"x" * 31 + b"\ny\n", [30, 31])
def test_the_same_lines_whatever_the_chunking(data: bytes, places: list[int]) -> None:
    """Where the reads were cut makes no difference, limits and byte order mark included (STDIO-1)."""
    whole = lines_of([data], limit=30)

    assert lines_of(cut(data, places), limit=30) == whole
    assert lines_of(bytewise(data), limit=30) == whole


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.dictionaries(st.text(), inner)))
def test_a_message_is_one_line(message: object) -> None:
    """Encoded JSON never holds a line end, so a message with an LF behind it is exactly one line (STDIO-1)."""
    encoded = msgspec.json.encode(message)

    assert b"\n" not in encoded
    assert b"\r" not in encoded
    assert lines_of([encoded + b"\n"], limit=10**6) == [encoded]


def test_a_byte_order_mark_is_dropped_once() -> None:
    """A byte order mark before the first line is dropped; elsewhere it is the line's own."""
    mark = b"\xef\xbb\xbf"

    assert lines_of([mark + b"a\n" + mark + b"b\n"]) == [b"a", mark + b"b"]
    assert lines_of([mark[:2], mark[2:], b"a\n"]) == [b"a"]
    assert lines_of([mark[:2]]) == [mark[:2]]


def test_a_line_that_is_too_long_is_reported_once_and_dropped() -> None:
    """A line over the limit gives one TooLong in its place; the lines around it are whole (T15)."""
    data = b"first\n" + b"x" * 11 + b"\nlast\n" + b"y" * 10 + b"\r\n"

    for pieces in ([data], bytewise(data), [data[:17], data[17:]]):
        assert lines_of(pieces, limit=10) == [b"first", TooLong(10, b"x" * 10), b"last", b"y" * 10]


def test_a_line_that_is_too_long_is_reported_before_it_ends() -> None:
    """The peer hears of it even if the line never ends, and the rest of it makes no second report (T15)."""
    reader = LineReader(10)

    assert [reader.feed(b"x" * 8), reader.feed(b"x" * 8), reader.feed(b"x" * 8)] == [[], [TooLong(10, b"x" * 10)], []]
    assert reader.finish() == []


def test_a_line_without_end_takes_no_more_memory_than_the_limit() -> None:
    """128 MiB without an LF are never held (T15)."""
    limit, chunk = 2**20, b"x" * 65536
    reader = LineReader(limit)
    tracemalloc.start()
    found = [line for _ in range(2048) for line in reader.feed(chunk)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == [TooLong(limit, b"x" * 256)]
    assert peak < 3 * limit


def test_a_long_line_of_single_bytes_is_read_in_linear_time() -> None:
    """A mebibyte in one-byte reads comes whole; copying what was read before each time would never end (T15)."""
    reader = LineReader(2**20)
    for _ in range(2**20):
        assert not reader.feed(b"x")

    assert reader.feed(b"\n") == [b"x" * 2**20]


# --- events ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize(
    ("lines", "events"),
    [
        ([b"data: a", b""], [Event(b"a")]),
        ([b"data:a", b""], [Event(b"a")]),
        ([b"data:  a ", b""], [Event(b" a ")]),
        ([b"data: a", b"data", b"data: b", b""], [Event(b"a\n\nb")]),
        ([b"data", b""], [Event(b"")]),
        ([b": note", b":", b"data: a", b": note", b""], [Event(b"a")]),
        ([b"event: x", b"data: a", b"", b"data: b", b""], [Event(b"a", "x"), Event(b"b")]),
        ([b"event:", b"data: a", b""], [Event(b"a")]),
        ([b"event: x", b"", b"data: b", b""], [Event(b"b")]),
        ([b"id: 1", b"data: a", b"", b"data: b", b""], [Event(b"a", id="1"), Event(b"b")]),
        ([b"id", b"data: a", b""], [Event(b"a", id="")]),
        ([b"id: a\0b", b"data: a", b""], [Event(b"a")]),
        ([b"retry: 500", b"data: a", b""], [Event(b"a", retry=500)]),
        ([b"retry: 5s", b"retry: -1", b"retry: ", b"retry: " + b"9" * 5000, b"data: a", b""], [Event(b"a")]),
        ([b"retry: \xd9\xa3", b"data: a", b""], [Event(b"a")]),
        ([b"Data: a", b"datax: a", b" data: a", b"unknown", b""], []),
        ([b"data: a: b", b""], [Event(b"a: b")]),
        ([b"", b"", b"data: a", b"", b""], [Event(b"a")]),
        ([b"data: a"], []),
        ([b"data: a", b"data: b"], []),
    ],
)
def test_events_are_read_by_the_rules(lines: list[bytes], events: list[Event], end: bytes) -> None:
    """Fields, comments, defaults and unfinished events follow the WHATWG, with every line end (LH-13, F23)."""
    data = b"".join(line + end for line in lines)

    assert events_of([data], 10**4)[0] == events
    assert events_of(bytewise(data), 10**4)[0] == events


def test_an_event_without_data_sets_the_last_id_only() -> None:
    """An id without data makes no event, but is the id to resume from; an unfinished event's id is not (LH-13)."""
    reader = EventReader(1000)

    assert reader.feed(b"id: 7\nretry: 500\n\nid: 8\ndata: a\n") == []
    reader.finish()
    assert (reader.last_id, reader.retry) == ("7", 500)


def test_a_split_crlf_is_one_line_end() -> None:
    """A CR that ends a read and the LF that begins the next are one line end; a lone CR ends its line at once (F23)."""
    reader = EventReader(1000)

    assert reader.feed(b"data: a\r") == []
    assert reader.feed(b"\ndata: b\r") == []
    assert reader.feed(b"\n\r") == [Event(b"a\nb")]
    assert reader.feed(b"\ndata: c\r\r") == [Event(b"c")]


@pytest.mark.parametrize("separator", SEPARATORS)
def test_other_separators_do_not_end_a_line_of_an_event(separator: str) -> None:
    """U+2028, U+2029, U+0085 and their like stay in data, event and id, both ways (F23)."""
    data = f'{{"text":"a{separator}b"}}'.encode()
    encoded = encode_event(data, id=f"1{separator}2", event=f"x{separator}y")

    assert data in encoded
    assert events_of(bytewise(encoded))[0] == [Event(data, f"x{separator}y", f"1{separator}2")]


def test_a_byte_order_mark_before_the_first_event_is_dropped() -> None:
    """The stream may begin with a byte order mark, in one read or three (F23)."""
    data = b"\xef\xbb\xbfdata: a\n\n"

    assert events_of([data])[0] == [Event(b"a")]
    assert events_of(bytewise(data))[0] == [Event(b"a")]


def test_bad_utf8_is_left_to_the_reader_of_the_data() -> None:
    """Bytes that are no UTF-8 stay in data, and never raise in id, event or a field's name."""
    events, last_id, _ = events_of([b"\xff: x\nid: \xff\nevent: \xff\ndata: \xff\xfe\n\n"])

    assert events == [Event(b"\xff\xfe", "\ufffd", "\ufffd")]
    assert last_id == "\ufffd"


EVENT_PIECES = st.sampled_from(
    [
        b"\n",
        b"\r",
        b"\r\n",
        b"data: ",
        b"data",
        b"id: ",
        b"retry: 5",
        b"event: ",
        b":",
        b"a",
        b" ",
        b"\0",
        b"\xef\xbb\xbf",
    ]
)


@given(st.lists(EVENT_PIECES).map(b"".join), st.lists(st.integers(min_value=0)))
@example(b"\xef\xbb\xbfdata: a\r\n\r\n", [1, 2, 11, 13])
def test_the_same_events_whatever_the_chunking(data: bytes, places: list[int]) -> None:
    """Where the reads were cut makes no difference to events, last id and retry (LH-13, F23)."""
    whole = events_of([data])

    assert events_of(cut(data, places)) == whole
    assert events_of(bytewise(data)) == whole


LINE = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]))
EVENTS = st.builds(
    Event,
    data=st.binary().map(lambda data: data.replace(b"\r", b"")),
    event=LINE.filter(bool),
    id=st.none() | LINE,
    retry=st.none() | st.integers(0, 10**15 - 1),
)


@given(st.lists(EVENTS), st.lists(st.integers(min_value=0)))
def test_what_is_written_is_read(events: list[Event], places: list[int]) -> None:
    """An encoded event decodes to the same event, with comments between and in any chunking."""
    data = b"".join(
        encode_comment("hello\nthere") + encode_event(event.data, id=event.id, event=event.event, retry=event.retry)
        for event in events
    )

    assert events_of(cut(data, places), 10**6)[0] == events


def test_a_comment_holds_no_field_and_ends_no_event() -> None:
    """Whatever the text of a comment, a reader sees nothing of it (HTTP-5)."""
    text = "a\ndata: b\r\rdata: c\r\n"

    assert encode_comment("ping") == b": ping\n\n"
    assert events_of([encode_comment(text), encode_comment("")]) == ([], None, None)


@pytest.mark.parametrize(
    "fields", [{"id": "a\nb"}, {"id": "a\0"}, {"event": "a\rdata: b"}, {"retry": -1}, {"retry": 10**15}]
)
def test_a_field_that_would_break_the_event_is_refused(fields: dict[str, object]) -> None:
    """A line end in a field would begin another one, so it is a ValueError that says which field."""
    with pytest.raises(ValueError, match=next(iter(fields))):
        encode_event(b"", **fields)  # type: ignore[arg-type]


def test_an_event_that_is_too_large_is_an_error_that_names_the_limit() -> None:
    """Data in one line, in many, in a line without end, or an id: over the limit is LimitExceeded `event` (T11)."""
    for data in (
        b"data: " + b"x" * 100,
        b"data:\n" * 20,
        b": " + b"x" * 100,
        b"id: " + b"x" * 90 + b"\ndata: abcd\n\n",
    ):
        for pieces in ([data], bytewise(data)):
            with pytest.raises(LimitExceeded, match="limit `event`") as caught:
                events_of(pieces, limit=100)
            assert caught.value.limit == "event"


def test_events_before_one_that_is_too_large_are_not_lost() -> None:
    """What came whole in the same read is given first; from then on the reader only raises."""
    reader = EventReader(20)

    assert reader.feed(b"data: a\n\ndata: " + b"x" * 50) == [Event(b"a")]
    with pytest.raises(LimitExceeded):
        reader.feed(b"\n\n")
    with pytest.raises(LimitExceeded):
        reader.finish()


def test_comments_and_events_that_ended_do_not_count() -> None:
    """The limit is of one event, however many comments and events the stream has seen."""
    assert len(events_of([b": ten bytes\n" * 100, b"data: 1\n\n" * 100], limit=20)[0]) == 100


def test_the_limits_have_defaults() -> None:
    """A line and an event may have 16 MiB unless told otherwise."""
    assert (Limits().line, Limits().event) == (16 * 2**20, 16 * 2**20)
