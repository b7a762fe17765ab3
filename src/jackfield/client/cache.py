"""Answers that are still fresh: what a modern server said may be kept, for as long as it said (12)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from ..protocol.types import CacheableResult

READ: Final = "resources/read"
_LISTS: Final = {
    "tools": ("tools/list",),
    "prompts": ("prompts/list",),
    "resources": ("resources/list", "resources/templates/list"),
}


class _Kept(Struct, frozen=True):
    raw: bytes
    until: float


class Cache:
    """The fresh answers of one client, under the method and what in its params decides the answer: a cursor or a URI.

    One client has one set of credentials, so what is private stays private here, and public answers are not shared
    either (CCH-2). Whoever finds an answer reads it anew: nobody can change another one's.
    """

    def __init__(self, clock: Callable[[], float], size: int) -> None:
        """Keep at most `size` bytes; `clock` gives seconds."""
        self.turn = 0
        """How often something was forgotten: an answer that was on its way at that time may be of before."""
        self._clock = clock
        self._size = self._room = size
        self._kept: OrderedDict[tuple[str, str | None], _Kept] = OrderedDict()

    def find(self, method: str, key: str | None) -> bytes | None:
        """The answer to `method` for `key`, None where none is fresh."""
        kept = self._kept.get((method, key))
        if kept is None:
            return None
        if kept.until <= self._clock():
            self._drop((method, key))
            return None
        self._kept.move_to_end((method, key))
        return kept.raw

    def keep(self, method: str, key: str | None, result: CacheableResult, turn: int) -> None:
        """Keep an answer that was asked for at `turn`, for as long as it says (CCH-1); absent or negative is 0 (CCH-3).

        The least used make room for it.
        """
        self._drop((method, key))
        raw, ttl = result.raw, result.ttl_ms
        if turn != self.turn or ttl is None or ttl <= 0 or not raw or len(raw) > self._size:
            return
        while self._room < len(raw):
            self._drop(next(iter(self._kept)))
        self._kept[method, key] = _Kept(raw, self._clock() + ttl / 1000)
        self._room -= len(raw)

    def changed(self, kind: str) -> None:
        """Forget the lists of "tools", "prompts" or "resources", which are others now (CCH-5)."""
        self._forget(lambda method, _: method in _LISTS[kind])

    def pages(self, method: str) -> None:
        """Forget every page of a list, one of whose cursors is not good any more (CCH-6)."""
        self._forget(lambda kept, _: kept == method)

    def updated(self, uri: str) -> None:
        """Forget the resource at `uri` and what is below it: both may be told by one update (CCH-5)."""
        below = uri.rstrip("/") + "/"
        self._forget(lambda method, key: method == READ and key is not None and (key == uri or key.startswith(below)))

    def clear(self) -> None:
        """Forget everything."""
        self._forget(lambda _, __: True)

    def _forget(self, which: Callable[[str, str | None], bool]) -> None:
        self.turn += 1
        for place in [place for place in self._kept if which(*place)]:
            self._drop(place)

    def _drop(self, place: tuple[str, str | None]) -> None:
        if kept := self._kept.pop(place, None):
            self._room += len(kept.raw)
