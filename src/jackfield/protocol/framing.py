"""Where one message ends in a stream of bytes: lines for stdio, Server-Sent Events for HTTP."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from .errors import LimitExceeded

BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_CR: Final = 13
_LF: Final = 10
_HEAD: Final = 256
"""How much of a dropped line is kept: mostly enough to see which request it was, or answered."""
_RETRY_DIGITS: Final = 15
"""A longer `retry` is no time that anyone could wait; int() would refuse thousands of digits."""


class TooLong(Struct, frozen=True):
    """Stands in the place of a line that was longer than `limit` bytes and was dropped, but for its `head` (T15)."""

    limit: int
    head: bytes


class LineReader:
    """Cuts standard input into lines: only LF ends one, a CR before it is dropped, blank lines are skipped (STDIO-1).

    A byte order mark before the first line is dropped. A line over `limit` bytes (without its end) is not kept: a
    TooLong takes its place, at once, and reading goes on behind its LF. No more than that is ever held.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = min(limit, _HEAD)
        self._partial = bytearray()
        self._begun = False
        self._skipping = False
        self._clear = False
        """The next byte begins a line, and it is not the first one."""

    def feed(self, data: bytes) -> Sequence[bytes | TooLong]:
        """The lines that end in `data`, without their ends, in order."""
        # Nearly every read brings whole lines that need no care; all that is done for them happens in C. (To look for
        # two LFs in a row, before the split, would take longer than the split.)
        if self._clear and data[-1:] == b"\n" and b"\r" not in data and len(data) <= self._limit:
            lines = data.split(b"\n")
            del lines[-1]
            if b"" not in lines:
                return lines
        return self._feed(data)

    def finish(self) -> Sequence[bytes | TooLong]:
        """The last line, if the input ended without an LF."""
        line = bytes(self._partial.removesuffix(b"\r"))
        self._partial.clear()
        return [line] if line else []

    def _feed(self, data: bytes) -> list[bytes | TooLong]:
        partial = self._partial
        if not self._begun:
            partial += data
            if len(partial) < len(BOM) and BOM.startswith(partial):
                return []
            self._begun = True
            data = bytes(partial.removeprefix(BOM))
            partial.clear()
        lines: list[bytes | TooLong] = []
        *ended, rest = data.split(b"\n")
        for line in ended:
            if self._skipping:
                self._skipping = False
                continue
            if partial:
                partial += line
                line = bytes(partial)
                partial.clear()
            if line.endswith(b"\r"):
                line = line[:-1]
            if len(line) > self._limit:
                lines.append(TooLong(self._limit, line[: self._head]))
            elif line:
                lines.append(line)
        if not self._skipping:
            partial += rest
            # One byte more may be the CR that is no part of the line.
            if len(partial) > self._limit + partial.endswith(b"\r"):
                lines.append(TooLong(self._limit, bytes(partial[: self._head])))
                partial.clear()
                self._skipping = True
        self._clear = not partial and not self._skipping
        return lines


class Event(Struct, frozen=True):
    """One Server-Sent Event. `data` stays bytes: whoever decodes the JSON judges its UTF-8.

    `id` and `retry` (milliseconds) are None where this very event does not say them. Empty `data` is no message;
    servers send such an event to give an id (LH-13).
    """

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventReader:
    """Reads Server-Sent Events as the WHATWG describes them: LF, CR or CRLF ends a line, in any chunking (LH-13, F23).

    `last_id` and `retry` are what the stream has said last, whether or not an event carried data. One event, and one
    line of any kind, may have up to `limit` bytes.
    """

    def __init__(self, limit: int) -> None:
        self.last_id: str | None = None
        self.retry: int | None = None
        self._limit = limit
        self._partial = bytearray()
        self._begun = False
        self._after_cr = False
        self._fault: LimitExceeded | None = None
        self._new_event()

    def _new_event(self) -> None:
        self._data: list[bytes] = []
        self._event = ""
        self._id: str | None = None
        self._event_retry: int | None = None
        self._size = 0

    def feed(self, data: bytes) -> list[Event]:
        """The events that end in `data`, in order.

        Raises LimitExceeded, named `event`, when one event is larger than the limit; what came whole before it is
        returned first, and the error raised by the next call. The stream is then unusable.
        """
        if self._fault is not None:
            raise self._fault
        if not self._begun:
            self._partial += data
            if len(self._partial) < len(BOM) and BOM.startswith(self._partial):
                return []
            self._begun = True
            data = bytes(self._partial.removeprefix(BOM))
            self._partial.clear()
        events: list[Event] = []
        if data:
            try:
                self._read(data, events)
            except LimitExceeded as error:
                self._fault = error
                if not events:
                    raise
        return events

    def finish(self) -> None:
        """End of the stream: an event that no blank line ended is dropped. Raises what `feed` still had to raise."""
        self._partial.clear()
        self._new_event()
        if self._fault is not None:
            raise self._fault

    def _read(self, data: bytes, events: list[Event]) -> None:
        partial = self._partial
        start = 1 if self._after_cr and data[0] == _LF else 0  # the LF of a CRLF that was split
        self._after_cr = data[-1] == _CR
        lines = data[start:].splitlines()
        rest = b"" if data[-1] in b"\r\n" else lines.pop()
        for line in lines:
            if partial:
                partial += line
                line = bytes(partial)
                partial.clear()
            if line:
                self._field(line)
            else:
                self._dispatch(events)
        if rest:
            partial += rest
            self._check(len(partial))

    def _field(self, line: bytes) -> None:
        self._check(len(line))
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry":
            if value.isdigit() and len(value) <= _RETRY_DIGITS:
                self.retry = self._event_retry = int(value)
        else:
            return  # a comment or an unknown field: nothing of it is kept
        self._size += len(line) + 1

    def _check(self, length: int) -> None:
        if self._size + length > self._limit:
            raise LimitExceeded(f"the event is larger than {self._limit} bytes (limit `event`)", "event")

    def _dispatch(self, events: list[Event]) -> None:
        if self._id is not None:
            self.last_id = self._id
        if self._data:
            events.append(Event(b"\n".join(self._data), self._event or "message", self._id, self._event_retry))
        self._new_event()


def encode_event(data: bytes, *, id: str | None = None, event: str | None = None, retry: int | None = None) -> bytes:
    """The bytes of one event, blank line included, that EventReader reads back as the same event.

    Only CR, LF and CRLF end a line in it, so that U+2028, U+2029 and U+0085 stay as they are (F23); a CR in `data`
    comes back as LF. Raises ValueError for an `id` or `event` with a line end, an `id` with a NUL, or a `retry` that
    is negative or has over 15 digits.
    """
    lines: list[bytes] = []
    if id is not None:
        if "\0" in id:
            raise ValueError("an event's id cannot hold a NUL")
        lines.append(b"id: " + _one_line("id", id))
    if event:
        lines.append(b"event: " + _one_line("event", event))
    if retry is not None:
        if not 0 <= retry < 10**_RETRY_DIGITS:
            raise ValueError("retry is a number of milliseconds, not negative and of at most 15 digits")
        lines.append(b"retry: %d" % retry)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines.append(b"data: " + data.replace(b"\n", b"\ndata: "))
    return b"\n".join(lines) + b"\n\n"


def encode_comment(text: str) -> bytes:
    """The bytes of a comment, which every reader ignores; it keeps a silent stream open (HTTP-5)."""
    return b"".join(b": %b\n" % line.encode() for line in _LINE_END.split(text)) + b"\n"


def _one_line(name: str, text: str) -> bytes:
    if _LINE_END.search(text):
        raise ValueError(f"an event's {name} cannot hold a line end: {text!r}")
    return text.encode()
