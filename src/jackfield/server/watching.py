"""Who watches what: how an event finds its listeners, and how much those of one principal may watch."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, ProtocolError
from ..protocol.events import Event
from ..protocol.limits import Limits
from ..protocol.printable import printable

if TYPE_CHECKING:
    from .events import Listener
    from .listeners import Subscription

_URI_SIZE: Final = 256
"""Characters that the URIs of one listener may have on average, where it watches as many as it may."""
_LISTENERS: Final = 16
"""How often one principal may use up what a single listener may watch (limit `watched`)."""
_SIZE: Final = 16 * 2**20
"""Characters of all that the listeners of one principal hold: their URIs, and the requests that stay open."""


class Account(Struct):
    """What all listeners of one principal hold together."""

    listens: int = 0
    uris: int = 0
    size: int = 0


class Index:
    """All listeners of a server, found by what they want to hear: an event that nobody wants costs next to nothing."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.lock = threading.RLock()  # for a signal's handler may tell of something in the middle of this
        self.soon: Callable[[Callable[[], None]], object] | None = None
        """Has something done by the server's loop, from any thread."""
        self._gone: deque[Subscription] = deque()
        """Listeners that do not exist any more."""
        self._listeners: dict[Subscription, None] = {}
        self._lists: dict[str, dict[Subscription, None]] = {}
        self._watchers: dict[str, dict[Subscription, None]] = {}
        self._lengths: dict[int, int] = {}
        """How many watched URIs there are of each length."""
        self._accounts: dict[str, Account] = {}

    def __bool__(self) -> bool:
        return bool(self._listeners)

    # ---- from an event to its listeners, under the lock

    def of(self, event: Event) -> Collection[Subscription]:
        """Those who want the event."""
        if event.uri is None:
            return self._lists.get(event.kind, ())
        found = [self._watchers[uri] for uri in self.above(event.uri)]
        return found[0] if len(found) == 1 else dict.fromkeys([each for some in found for each in some])

    def above(self, uri: str) -> list[str]:
        """The watched URIs that `uri` is, or lies below (RSC-6).

        Only as much is looked up as is watched: prefixes of lengths that no watched URI has are not even made.
        """
        watchers, lengths = self._watchers, self._lengths
        found = {uri: None} if uri in watchers else {}
        place = uri.find("/")
        while place >= 0:
            for end in (place, place + 1):
                if end in lengths and end < len(uri) and uri[:end] in watchers:
                    found[uri[:end]] = None
            place = uri.find("/", place + 1)
        return list(found)

    # ---- who listens, and to what

    def join(self, one: Subscription, uris: Collection[str] = ()) -> None:
        """From now on `one` listens, to its kinds and these URIs. Raises as `watch`, and for limit `listens`."""
        new = self._checked(one, uris)
        with self.lock:
            self._charge(one, one.listens, new, one.weight)
            self._listeners[one] = None
            for kind in one.kinds:
                self._lists.setdefault(kind, {})[one] = None
            self._add(one, new)

    def leave(self, one: Subscription) -> None:
        """From now on `one` does not listen any more; may be called twice."""
        with self.lock:
            if one not in self._listeners:
                return
            del self._listeners[one]
            for uri in list(one.uris):
                self._remove(one, uri)
            for kind in one.kinds:
                self._lists[kind].pop(one, None)
            self._give_back(one, one.listens, 0, one.weight)

    def rejoin(self, one: Subscription, who: Listener, kinds: Iterable[str]) -> None:
        """`one` said anew who it is, and was offered these kinds; what it watches stays. Raises as `join`."""
        with self.lock:
            uris = list(one.uris)
            self.leave(one)
            one.who, one.kinds = who, frozenset(kinds)
            self.join(one, uris)

    def forget(self, one: Subscription) -> None:
        """`one` does not exist any more; may be called from anywhere, by the garbage collector too."""
        self._gone.append(one)
        if self.soon is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.soon(self.tidy)

    def tidy(self) -> None:
        """Let those leave who do not exist any more."""
        while self._gone:
            self.leave(self._gone.popleft())

    def clear(self) -> None:
        """Nobody listens any more."""
        with self.lock:
            for one in list(self._listeners):
                self.leave(one)
            self._gone.clear()

    def watch(self, one: Subscription, uris: Collection[str]) -> None:
        """Let `one` watch these resources too.

        A resource need not exist: it may come, and what lies below a URI can be watched where that cannot be read.
        Raises ProtocolError for what is no URI, and where it or all of its principal watch too much (limit `watched`).
        """
        new = self._checked(one, uris)
        with self.lock:
            if one in self._listeners:  # else it has ended meanwhile
                self._charge(one, 0, new, 0)
                self._add(one, new)

    def unwatch(self, one: Subscription, uri: str) -> None:
        """Do not let `one` watch this resource any more; what was not watched anyway is no error."""
        with self.lock:
            if uri in one.uris:
                self._remove(one, uri)

    def _checked(self, one: Subscription, uris: Collection[str]) -> dict[str, None]:
        """Those of the URIs that `one` does not watch yet."""
        from ..protocol.uri import LONGEST_URI, is_uri  # not at the top: many servers have no resources

        most = self.limits.watched
        if len(uris) > most:  # however often it names one and the same
            raise _too_much(most)
        new: dict[str, None] = {}
        for uri in uris:
            if len(uri) > LONGEST_URI or not is_uri(uri):
                raise ProtocolError(INVALID_PARAMS, f"this is no URI: {printable(uri, 200)}", {"uri": uri[:200]})
            if uri not in one.uris:
                new[uri] = None
        if len(one.uris) + len(new) > most or _size(one.uris) + _size(new) > most * _URI_SIZE:
            raise _too_much(most)
        return new

    def _add(self, one: Subscription, new: dict[str, None]) -> None:
        one.uris.update(new)
        for uri in new:
            if uri not in self._watchers:
                self._watchers[uri] = {}
                self._lengths[len(uri)] = self._lengths.get(len(uri), 0) + 1
            self._watchers[uri][one] = None

    def _remove(self, one: Subscription, uri: str) -> None:
        del one.uris[uri]
        self._give_back(one, 0, 1, len(uri))
        watchers = self._watchers[uri]
        del watchers[one]
        if not watchers:
            del self._watchers[uri]
            self._lengths[len(uri)] -= 1
            if not self._lengths[len(uri)]:
                del self._lengths[len(uri)]

    # ---- what a principal may hold

    def _charge(self, one: Subscription, listens: int, new: dict[str, None], weight: int) -> None:
        """Put this on its principal's account. Raises ProtocolError where that is too much."""
        self.tidy()
        fault = self._excess(one, listens, new, weight)
        if fault is not None:
            # Sessions that are over, but not forgotten yet, must take no place.
            for each in [each for each in self._listeners if each is not one and each.over()]:
                self.leave(each)
            fault = self._excess(one, listens, new, weight)
        if fault is not None:
            raise ProtocolError(INTERNAL_ERROR, fault)
        account = self._accounts.setdefault(one.who.principal, Account())
        account.listens += listens
        account.uris += len(new)
        account.size += _size(new) + weight

    def _excess(self, one: Subscription, listens: int, new: dict[str, None], weight: int) -> str | None:
        """Say what would be too much on the account."""
        account, limits = self._accounts.get(one.who.principal, Account()), self.limits
        if account.listens + listens > limits.listens:
            return f"{limits.listens} subscriptions are open already; end one of them first (limit `listens`)"
        most = _LISTENERS * limits.watched
        if account.uris + len(new) <= most and account.size + _size(new) + weight <= _SIZE:
            return None
        return (
            f"together, all that you listen with can watch {most} resources ({_LISTENERS} times limit `watched`), of "
            f"{_SIZE} bytes with the requests that are open; end a subscription first"
        )

    def _give_back(self, one: Subscription, listens: int, uris: int, size: int) -> None:
        account = self._accounts.setdefault(one.who.principal, Account())
        account.listens -= listens
        account.uris -= uris
        account.size -= size
        if account == Account():
            del self._accounts[one.who.principal]


def _size(uris: Collection[str]) -> int:
    return sum(map(len, uris))


def _too_much(most: int) -> ProtocolError:
    text = f"at most {most} resources, of {_URI_SIZE} characters each, can be watched here (limit `watched`)"
    return ProtocolError(INVALID_PARAMS, text)
