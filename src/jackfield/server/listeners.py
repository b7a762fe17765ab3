"""Those who listen to a server: what each wants to hear, and what of that it was not told yet."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..protocol.errors import INVALID_PARAMS, ProtocolError
from ..protocol.events import Event
from ..protocol.limits import Limits
from ..protocol.printable import printable
from .events import Listener
from .peer import Peer

_URI_SIZE: Final = 256
"""Characters that the URIs of one listener may have on average, where it watches as many as it may."""


class Subscription:
    """What one listener wants to hear, and what of that it was not told yet.

    Events are noted under the hub's lock, from any thread; all else happens on the loop.
    """

    def __init__(self, who: Listener, kinds: Iterable[str], limits: Limits, lock: threading.RLock) -> None:
        self.who = who
        self.kinds = frozenset(kinds)
        self.uris: dict[str, None] = {}
        self._below: tuple[str, ...] = ()
        self._limits = limits
        self._lock = lock
        self._untold: dict[Event, None] = {}

    def watch(self, uris: Iterable[str]) -> None:
        """Watch these resources too. Raises ProtocolError for what is no URI, and for too many (limit `watched`).

        A resource need not exist: it may come, and what lies below a URI can be watched where that cannot be read.
        """
        from ..protocol.uri import LONGEST_URI, is_uri  # not at the top: many servers have no resources

        watched = dict(self.uris)
        uris = list(uris)
        if len(uris) > self._limits.watched:
            raise self._too_many()
        for uri in uris:
            if len(uri) > LONGEST_URI or not is_uri(uri):
                raise ProtocolError(INVALID_PARAMS, f"this is no URI: {printable(uri, 200)}", {"uri": uri[:200]})
            watched[uri] = None
        if len(watched) > self._limits.watched or sum(map(len, watched)) > self._limits.watched * _URI_SIZE:
            raise self._too_many()
        self._set(watched)

    def _too_many(self) -> ProtocolError:
        most = self._limits.watched
        text = f"at most {most} resources, of {_URI_SIZE} characters each, can be watched here (limit `watched`)"
        return ProtocolError(INVALID_PARAMS, text)

    def unwatch(self, uri: str) -> None:
        """Do not watch this resource any more; what was not watched anyway is no error."""
        self._set({each: None for each in self.uris if each != uri})

    def _set(self, watched: dict[str, None]) -> None:
        below = tuple(uri if uri.endswith("/") else f"{uri}/" for uri in watched)
        with self._lock:
            self.uris, self._below = watched, below

    def wants(self, event: Event, above: Sequence[str] | None = None) -> bool:
        """Tell whether the event is one of those that the listener asked for (SUB-4, RSC-6).

        `above` is what `above_of` gives for the event's URI, for whoever asks many listeners.
        """
        if event.kind != "resource":
            return event.kind in self.kinds
        if event.uri is None or not self.uris:
            return False
        return not self.uris.keys().isdisjoint(above_of(event.uri) if above is None else above)

    def note(self, event: Event, above: Sequence[str]) -> bool:
        """Keep an event until it can be told, under the lock; returns whether the listener wants it.

        Where already as many wait as can be watched, what lies below a watched resource counts as that one's change.
        """
        if not self.wants(event, above):
            return False
        uri = event.uri
        if uri is not None and uri not in self.uris and len(self._untold) >= self._limits.watched:
            event = Event("resource", next(x for x, y in zip(self.uris, self._below, strict=True) if uri.startswith(y)))
        self._untold[event] = None
        return True

    @property
    def waits(self) -> bool:
        """Whether something was not told yet."""
        return bool(self._untold)

    def next(self) -> Event | None:
        """Take the event that has waited for longest; None where there is none."""
        with self._lock:
            event = next(iter(self._untold), None)
            if event is not None:
                del self._untold[event]
        return event


class Stream(Subscription):
    """One `subscriptions/listen` of a modern client."""

    def __init__(self, who: Listener, kinds: Iterable[str], limits: Limits, lock: threading.RLock) -> None:
        super().__init__(who, kinds, limits, lock)
        self.news = asyncio.Event()
        self.wake = self.news.set
        self.held = 0
        """Bytes of its request, which lasts as long."""


class Session(Subscription):
    """The session of a legacy client; it does not keep its peer alive."""

    def __init__(
        self,
        who: Listener,
        kinds: Iterable[str],
        limits: Limits,
        lock: threading.RLock,
        peer: Peer,
        tell: Callable[[Session, Peer], None],
    ) -> None:
        super().__init__(who, kinds, limits, lock)
        self.ready = False
        """True once the client has said that it is initialized."""
        self.telling = False
        """True while a task tells what waits."""
        self._peer = weakref.ref(peer)
        self._tell = tell

    def reached(self) -> Peer | None:
        """The peer, where there is a way to tell it something now: what is missed is not told later."""
        peer = self._peer()
        if peer is None or not self.ready or peer.tell is None or (peer.closed is not None and peer.closed()):
            return None
        return peer

    def wake(self) -> None:
        """See to it that what waits is told."""
        peer = self.reached()
        if peer is not None and not self.telling:
            self.telling = True
            self._tell(self, peer)


def above_of(uri: str) -> list[str]:
    """What has to be watched for a change of `uri` to be told: itself, or what it lies below (RSC-6)."""
    found = [uri]
    place = uri.find("/")
    while place >= 0:
        found += (uri[:place], uri[: place + 1])
        place = uri.find("/", place + 1)
    return found
