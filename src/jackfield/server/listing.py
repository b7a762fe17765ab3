"""One list of definitions: adding, removing, pages with opaque cursors, each encoded once until something changes."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from ..protocol.errors import INVALID_PARAMS, ProtocolError, RegistrationError
from ..protocol.types import PaginatedResult


class Defined(Protocol):
    """What can be listed: something with a definition."""

    @property
    def definition(self) -> Any:
        """The struct that goes out."""
        ...


Entry = TypeVar("Entry", bound=Defined)

_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_KNOWN_PAGES = 256


class Listing(Generic[Entry]):
    """Named entries in order of registration, so that every list comes out the same (TOOL-1, PAG-3)."""

    def __init__(self, kind: str, changed: Callable[[], None]) -> None:
        self._kind = kind
        self.entries: dict[str, Entry] = {}
        """By name. To be changed with `add` and `remove` only."""
        self.offered = False
        """True for good once there was an entry: sessions that were told of this kind may go on asking for its list."""
        self._changed = changed
        self._marks: dict[str, int] = {}
        self._last = 0
        self._pages: dict[tuple[str, str | None], Raw] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def add(self, name: str, entry: Entry) -> None:
        """Add an entry at the end. Raises RegistrationError for a taken name and a definition that cannot be sent."""
        if name in self.entries:
            raise RegistrationError(
                f"{self._kind} {name!r} is registered already; remove it first or choose another name"
            )
        require_sound(entry.definition, f"{self._kind} {name!r}")
        self._last += 1
        self._marks[name] = self._last
        self.entries[name] = entry
        self.offered = True
        self.changed()

    def remove(self, name: str) -> None:
        """Take an entry out. Raises KeyError when there is none of that name."""
        if name not in self.entries:
            raise KeyError(f"no {self._kind} {name!r}")
        del self.entries[name], self._marks[name]
        self.changed()

    def changed(self) -> None:
        """Forget the encoded pages and tell the server."""
        self._pages.clear()
        self._changed()

    def page(self, cursor: str | None, size: int | None) -> tuple[list[Entry], str | None]:
        """The entries after `cursor` and the next cursor (None: there is no more).

        A cursor holds the running number of the last entry of the page before, so it survives additions and removals
        (PAG-3). Raises ProtocolError (-32602) for one that was never given out.
        """
        start = 0
        if cursor is not None:
            mark = _mark_in(cursor)
            if not _NUMBER.fullmatch(mark) or int(mark) > self._last:
                raise _invalid()
            start = sum(each <= int(mark) for each in self._marks.values())
        marked = zip(map(str, self._marks.values()), self.entries.values(), strict=True)
        return _cut(list(marked), start, size)

    def encoded(self, revision: str, cursor: str | None, make: Callable[[], PaginatedResult]) -> Raw:
        """The finished page for this revision, made and encoded when it is first asked for."""
        key = revision, cursor
        page = self._pages.get(key)
        if page is None:
            if len(self._pages) >= _KNOWN_PAGES:
                self._pages.clear()
            page = self._pages[key] = Raw(msgspec.json.encode(make()))
        return page


def page_of(items: list[tuple[str, Any]], cursor: str | None, size: int | None) -> tuple[list[Any], str | None]:
    """The values of named `items` that follow `cursor`, at most `size` of them, and the next cursor.

    For lists that are made anew each time: the cursor holds a name. Raises ProtocolError (-32602) where no item has it.
    """
    start = 0
    if cursor is not None:
        last = _mark_in(cursor)
        start = next((place for place, (name, _) in enumerate(items, 1) if name == last), 0)
        if start == 0:
            raise _invalid()
    return _cut(items, start, size)


def require_sound(definition: Struct, label: str) -> None:
    """Raise RegistrationError, naming the place, for a struct whose members have wrong types or are no JSON, and for an
    icon at an address that no host should open (ICO-1).
    """
    try:
        msgspec.json.decode(msgspec.json.encode(definition), type=definition.__class__)
    except (TypeError, ValueError, RecursionError) as fault:
        raise RegistrationError(f"{label} cannot be sent as written: {fault}") from fault
    icons = getattr(getattr(definition, "server_info", definition), "icons", None)
    if icons:
        from ..protocol.icons import check_icons  # not at the top: few definitions have any

        check_icons(icons, label)


def _cut(items: list[tuple[str, Any]], start: int, size: int | None) -> tuple[list[Any], str | None]:
    end = len(items) if size is None else start + size
    following = _cursor_of(items[end - 1][0]) if end < len(items) else None
    return [entry for _, entry in items[start:end]], following


def _cursor_of(mark: str) -> str:
    return base64.urlsafe_b64encode(mark.encode()).decode()


def _mark_in(cursor: str) -> str:
    """The mark in a cursor. Raises ProtocolError for what `_cursor_of` never makes, even if it can be read."""
    try:
        mark = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except ValueError:
        raise _invalid() from None
    if _cursor_of(mark) != cursor:
        raise _invalid()
    return mark


def _invalid() -> ProtocolError:
    return ProtocolError(INVALID_PARAMS, "the cursor is not valid (any more); list again from the beginning")
