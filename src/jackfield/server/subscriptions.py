"""Who hears of changes: the events, the bus that carries them, and those who listen, in both eras."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ProtocolError,
    RegistrationError,
)
from ..protocol.events import Event, Kind
from ..protocol.jsonrpc import Answer, encode
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.types import (
    AcknowledgedParams,
    ElicitationCompleteParams,
    ListenParams,
    NotificationMeta,
    Params,
    ResourceUpdatedParams,
    Result,
    ServerCapabilities,
    SubscribeParams,
    SubscriptionFilter,
)
from .events import Bus, Listener, LocalBus, MayHear, check_bus
from .peer import Peer

if TYPE_CHECKING:
    from .context import Context
    from .engine import Engine

log = logging.getLogger("jackfield")

_METHODS: Final = {
    "tools": "notifications/tools/list_changed",
    "prompts": "notifications/prompts/list_changed",
    "resources": "notifications/resources/list_changed",
    "resource": "notifications/resources/updated",
}
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_BATCH: Final = 256
"""Different events that may wait for the loop; with more of them whoever tells of one gives them out itself."""
_PAUSE: Final = 0.05
"""Seconds for which a listener that was just told something is told nothing: what comes meanwhile is told once."""
_MOST_VISITS: Final = 10_000
"""Pages that clients were sent to, of which it is known whom to tell that a visit is done."""
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
        for uri in uris:
            if len(uri) > LONGEST_URI or not is_uri(uri):
                raise ProtocolError(INVALID_PARAMS, f"this is no URI: {printable(uri, 200)}", {"uri": uri[:200]})
            watched[uri] = None
        most = self._limits.watched
        if len(watched) > most or sum(map(len, watched)) > most * _URI_SIZE:
            text = f"at most {most} resources, of {_URI_SIZE} characters each, can be watched here (limit `watched`)"
            raise ProtocolError(INVALID_PARAMS, text)
        self._set(watched)

    def unwatch(self, uri: str) -> None:
        """Do not watch this resource any more; what was not watched anyway is no error."""
        self._set({each: None for each in self.uris if each != uri})

    def _set(self, watched: dict[str, None]) -> None:
        below = tuple(uri if uri.endswith("/") else f"{uri}/" for uri in watched)
        with self._lock:
            self.uris, self._below = watched, below

    def wants(self, event: Event) -> bool:
        """Tell whether the event is one of those that the listener asked for (SUB-4, RSC-6)."""
        if event.kind != "resource":
            return event.kind in self.kinds
        return event.uri is not None and (event.uri in self.uris or event.uri.startswith(self._below))

    def note(self, event: Event) -> bool:
        """Keep an event until it can be told, under the lock; returns whether the listener wants it.

        Where already as many wait as can be watched, what lies below a watched resource counts as that one's change.
        """
        if not self.wants(event):
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


class _Stream(Subscription):
    """One `subscriptions/listen` of a modern client."""

    def __init__(self, who: Listener, kinds: Iterable[str], limits: Limits, lock: threading.RLock) -> None:
        super().__init__(who, kinds, limits, lock)
        self.news = asyncio.Event()
        self.wake = self.news.set


class _Session(Subscription):
    """The session of a legacy client; it does not keep its peer alive."""

    def __init__(
        self,
        who: Listener,
        kinds: Iterable[str],
        limits: Limits,
        lock: threading.RLock,
        peer: Peer,
        tell: Callable[[_Session, Peer], None],
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


class Subscriptions:
    """The listeners of one server, in both eras, and the methods that serve them.

    `publish` and `hear` are for any thread, all else for the loop. What waits is bounded everywhere: here by its
    number, at each listener by what it can watch. Who is told something is told nothing for a moment after it.
    """

    def __init__(self, engine: Engine, bus: Bus | None, may_hear: MayHear | None) -> None:
        """Raises RegistrationError for a bus or `may_hear` that is none."""
        if bus is not None:
            check_bus(bus)
        if may_hear is not None and not callable(may_hear):
            raise RegistrationError(f"may_hear={may_hear!r} cannot be called; it takes an Event and a Listener")
        self._engine = engine
        self._bus: Bus = LocalBus() if bus is None else bus
        self._may_hear = may_hear
        self._complained = False
        self._lock = threading.RLock()  # for a signal's handler may tell of something in the middle of this
        self._streams: dict[_Stream, None] = {}
        self._sessions: weakref.WeakKeyDictionary[Peer, _Session] = weakref.WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._visits: dict[str, weakref.ref[Peer]] = {}
        self._fresh: dict[Event, None] = {}
        """What was heard and not noted for the listeners yet."""
        self._woken: dict[_Stream | _Session, None] = {}
        self._scheduled = False
        self._live = False
        self._loop: asyncio.AbstractEventLoop
        self._deafen: Callable[[], None]

    # ---- the life of the server

    def open(self) -> None:
        """Hear from now on, on this loop. Raises what the bus raises."""
        self._loop = asyncio.get_running_loop()
        self._deafen = self._bus.subscribe(self.hear)
        self._live = True

    def close(self) -> None:
        """Hear nothing more; may be called twice."""
        if not self._live:
            return
        self._live = False
        try:
            self._deafen()
        except Exception:
            log.exception("the bus could not end a subscription")
        with self._lock:
            self._fresh.clear()
            self._woken.clear()
            self._scheduled = False
        self._streams.clear()
        self._sessions.clear()
        if not self._loop.is_closed():
            for task in self._tasks:
                task.cancel()
        self._tasks.clear()

    # ---- from the one who tells to the listeners

    def publish(self, kind: Kind, uri: str | None = None) -> None:
        """Tell that something changed; a bus that fails is logged."""
        event = Event(kind, uri)
        try:
            self._bus.publish(event)
        except Exception:
            log.exception("the bus could not publish %r", event)

    def changed(self, kind: Kind) -> None:
        """Tell that a list changed, if anybody can know it by now: not while the server is put together."""
        if self._live:
            self.publish(kind)

    def hear(self, event: Event) -> None:
        """Take an event from the bus."""
        with self._lock:
            if not self._live or event in self._fresh or not (self._streams or self._sessions):
                return
            self._fresh[event] = None
            if len(self._fresh) >= _BATCH:
                self._spread()
            if self._scheduled:
                return
            self._scheduled = True
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            log.debug("the server's loop is closed: %r reaches nobody", event)

    def _spread(self) -> None:
        """Note for the listeners what was heard, under the lock."""
        events, self._fresh = self._fresh, {}
        for each in (*self._streams, *self._sessions.values()):
            if isinstance(each, _Session) and each.reached() is None:
                continue
            if sum(map(each.note, events)):
                self._woken[each] = None

    def _wake(self) -> None:
        with self._lock:
            self._scheduled = False
            self._spread()
            woken, self._woken = self._woken, {}
        for each in woken:
            each.wake()

    # ---- pages that somebody was sent to

    def expect(self, id: str, peer: Peer) -> None:
        """Note whom to tell that the visit `id` is done; of very many visits the oldest are forgotten."""
        with self._lock:
            self._visits[id] = weakref.ref(peer)
            while len(self._visits) > _MOST_VISITS:
                del self._visits[next(iter(self._visits))]

    def visited(self, id: str) -> None:
        """Tell the session that was sent to the page with this id that all is done there; from any thread (ELC-8)."""
        with self._lock:
            known = self._visits.pop(id, None)
        peer = None if known is None else known()
        if peer is None or not self._live:
            log.debug("nobody waits (any more) for the visit %r", id)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._tell_visited, id, peer)

    def _tell_visited(self, id: str, peer: Peer) -> None:
        if peer.tell is not None and not (peer.closed is not None and peer.closed()):
            task = self._loop.create_task(_tell_of_visit(peer, id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _heard(self, event: Event, who: Listener) -> bool:
        """Ask the server's author whether `who` may know of the event; no answer is a no."""
        if self._may_hear is None:
            return True
        try:
            answer = self._may_hear(event, who)
            return bool(await answer if inspect.isawaitable(answer) else answer)
        except Exception:
            if not self._complained:
                self._complained = True
                log.exception("may_hear failed: %r is not told (this is said once)", event)
            return False

    # ---- modern clients

    async def listen(self, params: ListenParams, context: Context) -> Result:
        """`subscriptions/listen` (SUB-1 to SUB-7): tells of changes until the request is cancelled.

        The first thing it says is what it will tell of (SUB-2). Where the server ends first the request gets its result
        (SUB-5), as noted with the link. Raises ProtocolError.
        """
        link, id, peer, limits = context.link, context.request_id, context.peer, context.limits
        if not link.streams:
            raise ProtocolError(INVALID_REQUEST, "to listen, the client must accept text/event-stream")
        who = Listener(link.principal, peer.client, peer.speaks.name)
        if sum(each.who.principal == who.principal for each in self._streams) >= limits.listens:
            text = f"{limits.listens} subscriptions are open already; end one of them first (limit `listens`)"
            raise ProtocolError(INTERNAL_ERROR, text)
        offer, wanted = self._engine.capabilities, params.notifications
        asked = {
            "tools": wanted.tools_list_changed,
            "prompts": wanted.prompts_list_changed,
            "resources": wanted.resources_list_changed,
        }
        stream = _Stream(who, (kind for kind in _offered(offer) if asked[kind]), limits, self._lock)
        if offer.resources is not None:
            stream.watch(wanted.resource_subscriptions or ())
        result = Result(meta={_SUBSCRIPTION: id})
        peer.wire.stamp(result, self._engine.stamp)
        meta = Raw(msgspec.json.encode(NotificationMeta(subscription_id=id)))
        with self._lock:
            self._streams[stream] = None  # before the acknowledgement: what changes from then on is told
        link.at_end(id, encode(Answer(id, result)))
        try:
            if link.serving(id):  # else the input has ended, and so has this
                await link.notify(_ACKNOWLEDGED, AcknowledgedParams(_acknowledged(stream), meta=meta))
            while link.serving(id):
                await link.sent()
                await stream.news.wait()
                stream.news.clear()
                while (event := stream.next()) is not None:
                    if await self._heard(event, who) and link.serving(id):
                        await link.notify(_METHODS[event.kind], _told(event, meta))
                await asyncio.sleep(_PAUSE)
        finally:
            with self._lock:
                self._streams.pop(stream, None)
                self._woken.pop(stream, None)
            link.at_end(id, b"")
        return result

    # ---- legacy clients

    def join(self, peer: Peer, principal: str) -> None:
        """A session was told what the server offers: of that it hears, once it is ready."""
        who = Listener(principal, peer.client, peer.speaks.name)
        kinds = _offered(self._engine.capabilities)
        session = _Session(who, kinds, self._engine.limits, self._lock, peer, self._tell)
        with self._lock:
            self._sessions[peer] = session

    def begin(self, peer: Peer) -> None:
        """A session has said that it is initialized; from now on it is told of changes (LIFE-3)."""
        session = self._sessions.get(peer)
        if session is not None:
            session.ready = True

    async def subscribe(self, params: SubscribeParams, context: Context) -> Result:
        """`resources/subscribe` (RSC-6). Raises ProtocolError."""
        session = self._session(context)
        session.watch([params.uri])
        session.ready = True
        return Result()

    async def unsubscribe(self, params: SubscribeParams, context: Context) -> Result:
        """`resources/unsubscribe`; nothing of that resource is told after it. Raises ProtocolError."""
        self._session(context).unwatch(params.uri)
        return Result()

    def _session(self, context: Context) -> _Session:
        session = self._sessions.get(context.peer)
        if session is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"{context.method} needs a session, and this server keeps none")
        return session

    def _tell(self, session: _Session, peer: Peer) -> None:
        task = self._loop.create_task(self._telling(session, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _telling(self, session: _Session, peer: Peer) -> None:
        """Tell a session what waits, until nothing does; what is unwatched or cannot be told any more is dropped."""
        try:
            while session.waits:
                while (event := session.next()) is not None:
                    if await self._heard(event, session.who) and session.wants(event) and session.reached() is peer:
                        assert peer.tell is not None
                        await peer.tell(_METHODS[event.kind], _told(event))
                await asyncio.sleep(_PAUSE)
        except Exception:
            log.exception("a session could not be told of a change")
        finally:
            session.telling = False


async def _tell_of_visit(peer: Peer, id: str) -> None:
    assert peer.tell is not None
    await peer.tell("notifications/elicitation/complete", ElicitationCompleteParams(id))


def _offered(capabilities: ServerCapabilities) -> list[str]:
    """The lists whose changes the server has declared to tell of."""
    lists = {"tools": capabilities.tools, "prompts": capabilities.prompts, "resources": capabilities.resources}
    return [kind for kind, offer in lists.items() if offer is not None]


def _acknowledged(stream: _Stream) -> SubscriptionFilter:
    """What the stream tells of; `taskIds` belong to an extension that is not there."""
    told = dict.fromkeys(stream.kinds, True)
    return SubscriptionFilter(told.get("tools"), told.get("prompts"), told.get("resources"), list(stream.uris) or None)


def _told(event: Event, meta: Raw | UnsetType = UNSET) -> Params:
    """The params of the event's notification."""
    return Params(meta=meta) if event.uri is None else ResourceUpdatedParams(event.uri, meta=meta)
