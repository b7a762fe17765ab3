"""Who hears of changes: the events, the bus that carries them, and those who listen, in both eras."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import weakref
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    ProtocolError,
    RegistrationError,
)
from ..protocol.events import Event, Kind
from ..protocol.jsonrpc import Answer, encode
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
from .events import STOPS, Bus, Listener, LocalBus, MayHear, check_bus, fault_of
from .listeners import Session, Stream, Subscription
from .peer import Peer
from .watching import Index

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
        self._complaints: set[str] = set()
        self._index = Index(engine.limits)
        self._lock = self._index.lock
        self._streams: set[Stream] = set()
        self._sessions: weakref.WeakKeyDictionary[Peer, Session] = weakref.WeakKeyDictionary()
        self._tasks: set[asyncio.Task[None]] = set()
        self._visits: dict[str, weakref.ref[Peer]] = {}
        self._fresh: dict[Event, None] = {}
        """What was heard and not noted for the listeners yet."""
        self._woken: dict[Subscription, None] = {}
        self._scheduled = False
        self._live = False
        self._loop: asyncio.AbstractEventLoop
        self._deafen: Callable[[], None]

    # ---- the life of the server

    def open(self) -> None:
        """Hear from now on, on this loop. Raises what the bus raises."""
        self._loop = asyncio.get_running_loop()
        self._index.soon = self._loop.call_soon_threadsafe
        self._deafen = self._bus.subscribe(self.hear)
        self._live = True

    def close(self) -> None:
        """Hear nothing more; may be called twice."""
        if not self._live:
            return
        self._live = False
        try:
            self._deafen()
        except STOPS:
            raise
        except BaseException:
            log.exception("the bus could not end a subscription")
        with self._lock:
            self._fresh.clear()
            self._woken.clear()
            self._scheduled = False
            self._index.clear()
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
        except STOPS:
            raise
        except BaseException:  # SystemExit too: a bus that fails ends neither a request nor the server
            log.exception("the bus could not publish %r", event)

    def changed(self, kind: Kind) -> None:
        """Tell that a list changed, if anybody can know it by now: not while the server is put together."""
        if self._live:
            self.publish(kind)

    def hear(self, event: Event) -> None:
        """Take an event from the bus; what is none is dropped, for what others put on the bus may be anything."""
        if not self._live or not self._index:
            return
        fault = fault_of(event)
        if fault is not None:
            self._complain("the bus passed on what is no event: %s", fault)
            return
        with self._lock:
            if not self._live or event in self._fresh:
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
        reachable: dict[Subscription, bool] = {}
        for event in events:
            for each in self._index.of(event):
                if each not in reachable:
                    reachable[each] = each.reachable()
                if not reachable[each]:
                    continue
                self._woken[each] = None
                if self._may_hear is None:
                    each.keep(event)
                elif not each.ask(event):
                    self._complain("more waits for may_hear than limit `watched`: %r is not told", event)

    def _wake(self) -> None:
        with self._lock:
            self._scheduled = False
            self._spread()
            woken, self._woken = self._woken, {}
        for each in woken:
            if self._may_hear is None:
                each.wake()
            elif each.sifter is None:
                each.sifter = self._spawn(self._sift(each, self._may_hear))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _complain(self, text: str, *values: object, fault: BaseException | None = None) -> None:
        """Log a failure that may come with each event, once."""
        if text not in self._complaints:
            self._complaints.add(text)
            log.error(text + " (this is said once)", *values, exc_info=fault)

    async def _sift(self, each: Subscription, may_hear: MayHear) -> None:
        """Ask which events a listener may hear, however slowly it reads: only those that it may are taken together."""
        try:
            while (event := each.next_unasked()) is not None:
                if await self._heard(may_hear, event, each.who):
                    with self._lock:
                        each.keep(event)
                    each.wake()
                await asyncio.sleep(0)  # there may be very many, and nothing in may_hear that waits
        finally:
            each.sifter = None

    async def _heard(self, may_hear: MayHear, event: Event, who: Listener) -> bool:
        """Ask the server's author whether `who` may know of the event; no answer is a no."""
        try:
            answer = may_hear(event, who)
            return bool(await answer if inspect.isawaitable(answer) else answer)
        except BaseException as fault:  # SystemExit too: the author's failure ends neither the server nor a stream
            task = asyncio.current_task()
            withdrawn = isinstance(fault, asyncio.CancelledError) and task is not None and not task.cancelling()
            if isinstance(fault, STOPS) and not withdrawn:
                raise
            self._complain("may_hear failed: %r is not told", event, fault=fault)
            return False

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
            self._spawn(_tell_of_visit(peer, id))

    # ---- modern clients

    async def listen(self, params: ListenParams, context: Context) -> Result:
        """`subscriptions/listen` (SUB-1 to SUB-7): tells of changes until the request is cancelled.

        The first thing it says is what it will tell of (SUB-2). Where the server ends first the request gets its result
        (SUB-5), as noted with the link. Raises ProtocolError.
        """
        link, id, peer = context.link, context.request_id, context.peer
        if not link.streams:
            raise ProtocolError(INVALID_REQUEST, "to listen, the client must accept text/event-stream")
        result = Result(meta={_SUBSCRIPTION: id})
        peer.wire.stamp(result, self._engine.stamp)
        meta = Raw(msgspec.json.encode(NotificationMeta(subscription_id=id)))
        stream = self._opened(params.notifications, context)
        told = _acknowledged(stream)
        # The stream may stay for days, and with it all that its request holds: no more of that than is needed.
        params.notifications, params.meta, context.raw = told, UNSET, b"{}"
        link.at_end(id, encode(Answer(id, result)))
        try:
            if link.serving(id):  # else the input has ended, and so has this
                await link.notify(_ACKNOWLEDGED, AcknowledgedParams(told, meta=meta))
            while link.serving(id):
                await link.sent()
                await stream.news.wait()
                stream.news.clear()
                while (event := stream.next()) is not None:
                    if link.serving(id):
                        await link.notify(_METHODS[event.kind], _told(event, meta))
                await asyncio.sleep(_PAUSE)
        finally:
            self._streams.discard(stream)
            if stream.sifter is not None:
                stream.sifter.cancel()
            with self._lock:
                self._index.leave(stream)
                self._woken.pop(stream, None)
            link.at_end(id, b"")
        return result

    def _opened(self, wanted: SubscriptionFilter, context: Context) -> Stream:
        """A stream that listens from now on: what changes before the acknowledgement is told too."""
        offer, size = self._engine.capabilities, len(context.raw)
        most = max(self._engine.limits.watched, 16) * _ENTRY
        if size > most:
            raise ProtocolError(INVALID_PARAMS, f"a request to listen may take {most} bytes (limit `watched`)")
        asked = {
            "tools": wanted.tools_list_changed,
            "prompts": wanted.prompts_list_changed,
            "resources": wanted.resources_list_changed,
        }
        who = Listener(context.link.principal, context.peer.client, context.peer.speaks.name)
        stream = Stream(who, (kind for kind in _offered(offer) if asked[kind]), self._index, size)
        self._index.join(stream, () if offer.resources is None else wanted.resource_subscriptions or ())
        self._streams.add(stream)
        return stream

    # ---- legacy clients

    def join(self, peer: Peer, principal: str) -> None:
        """A session was told what the server offers: of that it hears, once it is ready.

        A client that initializes its session again goes on watching what it watched.
        """
        who, kinds = Listener(principal, peer.client, peer.speaks.name), _offered(self._engine.capabilities)
        session = self._sessions.get(peer)
        if session is None:
            session = Session(who, kinds, self._index, peer, self._tell)
            self._index.join(session)
            self._sessions[peer] = session
        else:
            self._index.rejoin(session, who, kinds)

    def begin(self, peer: Peer) -> None:
        """A session has said that it is initialized; from now on it is told of changes (LIFE-3)."""
        session = self._sessions.get(peer)
        if session is not None:
            session.ready = True

    async def subscribe(self, params: SubscribeParams, context: Context) -> Result:
        """`resources/subscribe` (RSC-6). Raises ProtocolError."""
        session = self._session(context)
        self._index.watch(session, [params.uri])
        session.ready = True
        return Result()

    async def unsubscribe(self, params: SubscribeParams, context: Context) -> Result:
        """`resources/unsubscribe`; nothing of that resource is told after it. Raises ProtocolError."""
        self._index.unwatch(self._session(context), params.uri)
        return Result()

    def _session(self, context: Context) -> Session:
        session = self._sessions.get(context.peer)
        if session is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"{context.method} needs a session, and this server keeps none")
        return session

    def _tell(self, session: Session, peer: Peer) -> None:
        self._spawn(self._telling(session, peer))

    async def _telling(self, session: Session, peer: Peer) -> None:
        """Tell a session what waits, until nothing does; what is unwatched or cannot be told any more is dropped."""
        try:
            while session.waits:
                while (event := session.next()) is not None:
                    if session.wants(event) and session.reached() is peer:
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


def _acknowledged(stream: Stream) -> SubscriptionFilter:
    """What the stream tells of; `taskIds` belong to an extension that is not there."""
    told = dict.fromkeys(stream.kinds, True)
    return SubscriptionFilter(told.get("tools"), told.get("prompts"), told.get("resources"), list(stream.uris) or None)


def _told(event: Event, meta: Raw | UnsetType = UNSET) -> Params:
    """The params of the event's notification."""
    return Params(meta=meta) if event.uri is None else ResourceUpdatedParams(event.uri, meta=meta)
