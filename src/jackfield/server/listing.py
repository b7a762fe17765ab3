"""One list of definitions: adding, removing, pages with opaque cursors, and each page encoded once until something changes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw

from ..protocol.errors import INVALID_PARAMS, ProtocolError, RegistrationError
from ..protocol.types import PaginatedResult


class Defined(Protocol):
    """What can be listed: something with a definition."""

    @property
    def definition(self) -> Any:
        """The struct that goes out."""
        ...


Entry = TypeVar("Entry", bound=Defined)


class Listing(Generic[Entry]):
    """Named entries in order of registration, so that every list comes out the same (TOOL-1, PAG-3)."""

    def __init__(self, kind: str, changed: Callable[[], None]) -> None:
        self._kind = kind
        self.entries: dict[str, Entry] = {}
        """By name. To be changed with `add` and `remove` only."""
        self.offered = False
        """True for good once there was an entry: sessions that were told of this kind may go on asking for its list."""
        self._changed = changed
        self._pages: dict[tuple[str, str | None], Raw] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def add(self, name: str, entry: Entry) -> None:
        """Add an entry at the end. Raises RegistrationError when the name is taken, or the definition could not be sent."""
        if name in self.entries:
            raise RegistrationError(
                f"{self._kind} {name!r} is registered already; remove it first or choose another name"
            )
        require_sound(entry.definition, f"{self._kind} {name!r}")
        self.entries[name] = entry
        self.offered = True
        self.changed()

    def remove(self, name: str) -> None:
        """Take an entry out. Raises KeyError when there is none of that name."""
        if name not in self.entries:
            raise KeyError(f"no {self._kind} {name!r}")
        del self.entries[name]
        self.changed()

    def changed(self) -> None:
        """Forget the encoded pages and tell the server."""
        self._pages.clear()
        self._changed()

    def page(self, cursor: str | None, size: int | None) -> tuple[list[Entry], str | None]:
        """The entries after `cursor` and the next cursor (None: there is no more).

        A cursor is the encoded name of the last entry of the page before, so it survives additions (PAG-3). Raises
        ProtocolError (-32602) for any other one, and for one whose entry was removed.
        """
        return page_of(list(self.entries.items()), cursor, size)

    def encoded(self, revision: str, cursor: str | None, make: Callable[[], PaginatedResult]) -> Raw:
        """The finished page for this revision, made and encoded when it is first asked for."""
        key = revision, cursor
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = Raw(msgspec.json.encode(make()))
        return page


def page_of(items: list[tuple[str, Any]], cursor: str | None, size: int | None) -> tuple[list[Any], str | None]:
    """The values of named `items` that follow `cursor`, at most `size` of them, and the next cursor; see `Listing.page`."""
    start = 0
    if cursor is not None:
        last = _name_in(cursor)
        start = next((place for place, (name, _) in enumerate(items, 1) if name == last), 0)
        if start == 0:
            raise ProtocolError(INVALID_PARAMS, "the cursor is not valid (any more); list again from the beginning")
    end = len(items) if size is None else start + size
    more = end < len(items)
    return [entry for _, entry in items[start:end]], _cursor_of(items[end - 1][0]) if more else None


def require_sound(definition: Any, label: str) -> None:
    """Raise RegistrationError, naming the place, for a struct whose members have other types than it says, or are no JSON."""
    try:
        msgspec.json.decode(msgspec.json.encode(definition), type=type(definition))
    except (TypeError, ValueError, RecursionError) as fault:
        raise RegistrationError(f"{label} cannot be sent as written: {fault}") from fault


def _cursor_of(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _name_in(cursor: str) -> str | None:
    """The name in a cursor; None for text that `_cursor_of` never made, whatever a lenient decoder may see in it."""
    try:
        name = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        return None
    return name if _cursor_of(name) == cursor else None
