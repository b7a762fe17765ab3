"""Those who listen to a server: what each wants to hear, and what of that it was not told yet."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Iterable
from typing import ClassVar

from ..protocol.events import Event
from .events import Listener
from .peer import Peer
from .watching import Index


class Subscription:
    """What one listener wants to hear, and what of that it was not told yet.

    Events are noted under the index's lock, from any thread; all else happens on the loop.
    """

    listens: ClassVar[int] = 0
    """What it counts for limit `listens`."""

    def __init__(self, who: Listener, kinds: Iterable[str], index: Index, weight: int = 0) -> None:
        self.who = who
        self.kinds = frozenset(kinds)
        self.uris: dict[str, None] = {}
        self.weight = weight
        """Bytes of the request that stays open for it."""
        self.sifter: asyncio.Task[None] | None = None
        """Asks which of its events it may hear, as long as there are any."""
        self._index = index
        self._unasked: dict[Event, None] = {}
        self._untold: dict[Event, None] = {}

    def wants(self, event: Event) -> bool:
        """Tell whether the event is one of those that the listener asked for (SUB-4, RSC-6)."""
        return event.kind in self.kinds if event.uri is None else self._watched(event.uri) is not None

    def over(self) -> bool:
        """Whether it can never be told anything more."""
        return False

    def reachable(self) -> bool:
        """Whether it can be told something now."""
        return True

    def wake(self) -> None:
        """See to it that what waits is told."""
        raise NotImplementedError

    def ask(self, event: Event) -> bool:
        """Keep an event until it is known whether it may be heard; False where too many wait for that already.

        Only what lies below a watched resource can be too many. It cannot count as that one's change, as in `keep`:
        the listener might learn from it of what it must not know of.
        """
        if len(self._unasked) >= self._index.limits.watched and event.uri is not None and event.uri not in self.uris:
            return event in self._unasked
        self._unasked[event] = None
        return True

    def keep(self, event: Event) -> None:
        """Keep an event that may be heard until it is told.

        Where already as many wait as can be watched, what lies below a watched resource counts as that one's change.
        """
        uri = event.uri
        if uri is not None and uri not in self.uris and len(self._untold) >= self._index.limits.watched:
            watched = self._watched(uri)
            if watched is None:
                return  # not any more
            event = Event("resource", watched)
        self._untold[event] = None

    def _watched(self, uri: str) -> str | None:
        """The URI it watches that `uri` is, or lies below."""
        return next((each for each in self._index.above(uri) if each in self.uris), None)

    @property
    def waits(self) -> bool:
        """Whether something was not told yet."""
        return bool(self._untold)

    def next_unasked(self) -> Event | None:
        """Take the event that has waited for longest to be asked about; None where there is none."""
        return self._take(self._unasked)

    def next(self) -> Event | None:
        """Take the event that has waited for longest to be told; None where there is none."""
        return self._take(self._untold)

    def _take(self, events: dict[Event, None]) -> Event | None:
        with self._index.lock:
            event = next(iter(events), None)
            if event is not None:
                del events[event]
        return event


class Stream(Subscription):
    """One `subscriptions/listen` of a modern client."""

    listens = 1

    def __init__(self, who: Listener, kinds: Iterable[str], index: Index, weight: int) -> None:
        super().__init__(who, kinds, index, weight)
        self.news = asyncio.Event()

    def wake(self) -> None:
        """See to it that what waits is told."""
        self.news.set()


class Session(Subscription):
    """The session of a legacy client; it does not keep its peer alive."""

    def __init__(
        self, who: Listener, kinds: Iterable[str], index: Index, peer: Peer, tell: Callable[[Session, Peer], None]
    ) -> None:
        super().__init__(who, kinds, index)
        self.ready = False
        """True once the client has said that it is initialized."""
        self.telling = False
        """True while a task tells what waits."""
        self._peer = weakref.ref(peer, lambda _: index.forget(self))
        self._tell = tell

    def over(self) -> bool:
        """Whether it can never be told anything more."""
        peer = self._peer()
        return peer is None or (peer.closed is not None and peer.closed())

    def reachable(self) -> bool:
        """Whether it can be told something now."""
        return self.reached() is not None

    def reached(self) -> Peer | None:
        """The peer, where there is a way to tell it something now: what is missed is not told later."""
        peer = self._peer()
        return None if peer is None or not self.ready or peer.tell is None or self.over() else peer

    def wake(self) -> None:
        """See to it that what waits is told."""
        peer = self.reached()
        if peer is not None and not self.telling:
            self.telling = True
            self._tell(self, peer)
