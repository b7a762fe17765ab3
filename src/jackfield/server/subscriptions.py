"""Who hears of changes: the events, the bus that carries them, and those who listen, in both eras."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

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
from .listeners import Session, Stream, above_of
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
_PER_PRINCIPAL: Final = 16
"""How many times `watched` all listeners of one principal may watch together."""
_MOST_HELD: Final = 16 * 2**20
"""Bytes that the requests of all open subscriptions of one principal may take together."""
_ENTRY: Final = 300
"""Bytes that a request to listen may take for each resource that it may name."""
_BATCH: Final = 256
"""Different events that may wait for the loop; with more of them whoever tells of one gives them out itself."""
_PAUSE: Final = 0.05
"""Seconds for which a listener that was just told something is told nothing: what comes meanwhile is told once."""
_MOST_VISITS: Final = 10_000
"""Pages that clients were sent to, of which it is known whom to tell that a visit is done."""


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
        self._streams: dict[Stream, None] = {}
        self._sessions: weakref.WeakKeyDictionary[Peer, Session] = weakref.WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._visits: dict[str, weakref.ref[Peer]] = {}
        self._fresh: dict[Event, None] = {}
        """What was heard and not noted for the listeners yet."""
        self._woken: dict[Stream | Session, None] = {}
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
        """Take an event from the bus; what is none is logged, for it may come from elsewhere."""
        if not _sound(event):
            log.error("the bus gave what is no Event of ours: %s", printable(repr(event), 200))
            return
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
        fresh = [(event, () if event.uri is None else above_of(event.uri)) for event in self._fresh]
        self._fresh = {}
        for each in (*self._streams, *self._sessions.values()):
            if isinstance(each, Session) and each.reached() is None:
                continue
            if sum([each.note(event, above) for event, above in fresh]):
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
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:  # SystemExit too: it ends neither the stream nor the server
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
        held = len(context.raw)
        if held > max(limits.watched, 16) * _ENTRY:
            text = f"a request to listen may take {max(limits.watched, 16) * _ENTRY} bytes (limit `watched`)"
            raise ProtocolError(INVALID_PARAMS, text)
        self._check_room(who.principal, held)
        offer, wanted = self._engine.capabilities, params.notifications
        asked = {
            "tools": wanted.tools_list_changed,
            "prompts": wanted.prompts_list_changed,
            "resources": wanted.resources_list_changed,
        }
        stream = Stream(who, (kind for kind in _offered(offer) if asked[kind]), limits, self._lock)
        if offer.resources is not None:
            stream.watch(wanted.resource_subscriptions or ())
        stream.held = held
        self._check_watched(who.principal, len(stream.uris))
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

    def _check_room(self, principal: str, more: int) -> None:
        """Raise ProtocolError where a principal has too many subscriptions open, or all together are too large."""
        limits, own = self._engine.limits, [each for each in self._streams if each.who.principal == principal]
        if len(own) >= limits.listens:
            text = f"{limits.listens} subscriptions are open already; end one of them first (limit `listens`)"
            raise ProtocolError(INTERNAL_ERROR, text)
        if sum([each.held for each in own]) + more > _MOST_HELD:
            text = f"the open subscriptions take {_MOST_HELD} bytes already; end one of them first (limit `watched`)"
            raise ProtocolError(INTERNAL_ERROR, text)

    def _check_watched(self, principal: str, more: int) -> None:
        """Raise ProtocolError where all listeners of a principal together would watch too much."""
        most = self._engine.limits.watched * _PER_PRINCIPAL
        everybody = (*self._streams, *self._sessions.values())
        if more and sum([len(each.uris) for each in everybody if each.who.principal == principal]) + more > most:
            text = f"{most} resources are watched already in all subscriptions together; end one (limit `watched`)"
            raise ProtocolError(INTERNAL_ERROR, text)

    # ---- legacy clients

    def join(self, peer: Peer, principal: str) -> None:
        """A session was told what the server offers: of that it hears, once it is ready."""
        who = Listener(principal, peer.client, peer.speaks.name)
        kinds = _offered(self._engine.capabilities)
        known = self._sessions.get(peer)
        if known is not None:  # it says again who it is; what it watches stays
            known.who, known.kinds = who, frozenset(kinds)
            return
        session = Session(who, kinds, self._engine.limits, self._lock, peer, self._tell)
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
        if params.uri not in session.uris:
            self._check_watched(session.who.principal, 1)
        session.watch([params.uri])
        session.ready = True
        return Result()

    async def unsubscribe(self, params: SubscribeParams, context: Context) -> Result:
        """`resources/unsubscribe`; nothing of that resource is told after it. Raises ProtocolError."""
        self._session(context).unwatch(params.uri)
        return Result()

    def _session(self, context: Context) -> Session:
        session = self._sessions.get(context.peer)
        if session is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"{context.method} needs a session, and this server keeps none")
        return session

    def _tell(self, session: Session, peer: Peer) -> None:
        task = self._loop.create_task(self._telling(session, peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _telling(self, session: Session, peer: Peer) -> None:
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


def _sound(event: Any) -> bool:
    from ..protocol.uri import LONGEST_URI, is_uri  # not at the top: many servers have no resources

    if not isinstance(event, Event) or event.kind not in _METHODS:
        return False
    uri: Any = event.uri
    if event.kind != "resource":
        return uri is None
    return isinstance(uri, str) and len(uri) <= LONGEST_URI and is_uri(uri)


async def _tell_of_visit(peer: Peer, id: str) -> None:
    assert peer.tell is not None
    await peer.tell("notifications/elicitation/complete", ElicitationCompleteParams(id))


def _offered(capabilities: ServerCapabilities) -> list[str]:
    """The lists whose changes the server has declared to tell of."""
    lists = {"tools": capabilities.tools, "prompts": capabilities.prompts, "resources": capabilities.resources}
    return [kind for kind, offer in lists.items() if offer is not None]


def _acknowledged(stream: Stream) -> SubscriptionFilter:
    """What the stream tells of; `taskIds` belong to an extension that is not there."""
    told = dict.fromkeys(stream.kinds, True)
    return SubscriptionFilter(told.get("tools"), told.get("prompts"), told.get("resources"), list(stream.uris) or None)


def _told(event: Event, meta: Raw | UnsetType = UNSET) -> Params:
    """The params of the event's notification."""
    return Params(meta=meta) if event.uri is None else ResourceUpdatedParams(event.uri, meta=meta)
