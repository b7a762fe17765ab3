"""The work behind who listens: a subscription that is made again on one connection after another, in both eras."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import Raw

from ..protocol.errors import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    ConnectionClosed,
    HttpError,
    InvalidResult,
    NotSupported,
    PeerError,
    RequestTimeout,
    SessionExpired,
)
from ..protocol.events import Event
from ..protocol.methods import METHODS
from ..protocol.printable import printable
from ..protocol.types import ListenParams, SubscribeParams
from .conversation import LISTEN, Conversation
from .events import Choice, declared
from .session import Asking, Session
from .values import encode_value

if TYPE_CHECKING:
    from .listening import Listeners

log = logging.getLogger("jackfield")

FIRST_WAIT: Final = 0.5
"""Seconds before the second attempt to listen again, the first being made at once; each further one waits double."""
LONGEST_WAIT: Final = 30.0
LIVED: Final = 5.0
"""Seconds from which on a server counts as one that lets us listen: the waits begin anew."""
LONGEST_URI: Final = 8192
"""A longer URI below a resource that is listened to counts as that resource: a server must not fill our memory."""
_TOGETHER: Final = 16
"""Requests to a legacy server that are under way at once when many resources are subscribed to."""
_SUBSCRIBE: Final = METHODS["resources/subscribe"]
_UNSUBSCRIBE: Final = METHODS["resources/unsubscribe"]
_FINAL_CODES: Final = (METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST, MISSING_CAPABILITY)
_WHO_ARE_YOU: Final = (401, 403)
_FAULTS: Final = (ConnectionClosed, RequestTimeout, InvalidResult, HttpError, PeerError)
"""What may be otherwise the next time, except as `_may_pass` says."""

sleep = asyncio.sleep
"""How the time between two attempts is passed."""


class BackOff:
    """How long to wait before an attempt: not at all the first time, then ever longer, and not all equally long."""

    def __init__(self) -> None:
        self._tries = 0

    def lived(self, seconds: float) -> None:
        """What was tried went well for so long."""
        if seconds >= LIVED:
            self._tries = 0

    def next(self) -> float:
        """Seconds to wait now."""
        import random  # not at the top: most clients never need it

        tries, self._tries = self._tries, self._tries + 1
        wait = min(FIRST_WAIT * 2.0 ** min(tries - 1, 16), LONGEST_WAIT)
        return wait * random.uniform(0.75, 1.25) if tries else 0.0


class Watched:
    """The resources that one legacy session has subscribed to, for all who listen there (RSC-6)."""

    def __init__(self, session: Session, asking: Asking | None, grace: float) -> None:
        self.session = session
        self._asking = asking
        self._grace = grace
        self._users: dict[str, set[Subscription]] = {}
        self._lock = asyncio.Lock()

    async def add(self, uris: tuple[str, ...], user: Subscription) -> tuple[list[str], PeerError | None]:
        """Subscribe to what nobody has yet; returns what the server took, and how it refused the rest.

        Raises what `Session.request` raises, where that is no refusal of one resource.
        """
        taken, refusal = list(uris), None
        async with self._lock:
            fresh = [uri for uri in uris if not self._users.get(uri)]
            for uri in uris:  # before the server is asked, so that `drop` knows of it whenever this is cancelled
                self._users.setdefault(uri, set()).add(user)
            for start in range(0, len(fresh), _TOGETHER):
                some = fresh[start : start + _TOGETHER]
                for uri, outcome in zip(some, await self._ask(some), strict=True):
                    if isinstance(outcome, PeerError):
                        refusal = outcome
                        taken.remove(uri)
                        self._users.pop(uri, None)
                    elif isinstance(outcome, BaseException):
                        raise outcome
        return taken, refusal

    async def _ask(self, uris: list[str]) -> list[object]:
        asked = [self.session.request(_SUBSCRIBE, SubscribeParams(uri), self._asking) for uri in uris]
        return await asyncio.gather(*asked, return_exceptions=True)

    async def drop(self, user: Subscription) -> None:
        """Unsubscribe from what nobody wants any more; a server that does not answer is not waited for."""
        for users in self._users.values():
            users.discard(user)
        try:
            async with asyncio.timeout(self._grace), self._lock:
                for uri in [uri for uri, users in self._users.items() if not users]:
                    del self._users[uri]
                    await self.session.request(_UNSUBSCRIBE, SubscribeParams(uri), self._asking)
        except (*_FAULTS, NotSupported, TimeoutError) as error:
            why = printable(str(error) or type(error).__name__)
            log.debug("%s: could not unsubscribe: %s", self.session.connection.name, why)


class Subscription:
    """The work behind one `Listening`, or behind `on_list_changed`: listens, again and again, until it is stopped."""

    def __init__(self, hub: Listeners, asked: Choice, tell: Callable[[str], None] | None = None) -> None:
        """Begins at once. With `tell` the lists that the server declares go there, and no connection is made for it."""
        self.acknowledged: Choice | None = None
        self.watching: Conversation | None = None
        """The legacy conversation whose news are for this one too."""
        self.loop = asyncio.get_running_loop()
        self._hub = hub
        self._asked = asked
        self._tell = tell
        self._own = frozenset(asked.uris)
        self._below = tuple([uri.rstrip("/") + "/" for uri in asked.uris])
        self._pending: dict[Event, None] = {}
        self._session: Session | None = None
        self._since: float | None = None
        self._moved: asyncio.Future[None] = self.loop.create_future()
        self._news = asyncio.Event()
        self._begun = asyncio.Event()
        self._over = False
        self._fault: BaseException | None = None
        self._task = self.loop.create_task(self._work())
        self._task.add_done_callback(self._ended)

    # ---- for whoever listens

    def stop(self) -> None:
        """End it; the server is told. May be called again and again."""
        if not self._over:
            self._over = True
            self._pending.clear()
            self._task.cancel()

    async def close(self) -> None:
        """As `stop`; returns when that is done."""
        self.stop()
        await asyncio.wait([self._task])

    async def begun(self) -> None:
        """Return when the server has acknowledged; raises what keeps it from that."""
        await self._begun.wait()
        if self.acknowledged is None:
            self._raise()

    async def next(self) -> Event:
        """The event that has waited for longest. Raises StopAsyncIteration at the end, or once what led to it."""
        while not self._pending:
            if self._over:
                self._raise()
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        event = next(iter(self._pending))
        del self._pending[event]
        return event

    def _raise(self) -> None:
        fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._hub.gone(self)
        fault = None if task.cancelled() else task.exception()
        if fault is not None and self._tell is not None:
            log.warning("changes of lists are not heard of: %s", printable(str(fault), 500))
        elif not self._over:
            self._fault = fault
        self._over = True
        self._news.set()
        self._begun.set()

    # ---- what the server tells

    def hear(self, kind: str, uri: str | None) -> None:
        """Take news of a stream of this one; of the same news only one waits."""
        if uri is None:
            if self._asked.has(kind):
                self._push(Event(cast("Any", kind)))
        elif self._asked.uris:
            most = self._hub.limits.watched
            if uri in self._own or (len(self._pending) < most and len(uri) <= LONGEST_URI):
                self._push(Event("resource", uri))
                return
            over = [own for own, below in zip(self._asked.uris, self._below, strict=True) if uri.startswith(below)]
            for own in over or self._asked.uris:
                self._push(Event("resource", own))

    def hear_all(self, kind: str, uri: str | None) -> None:
        """Take news that are for all who listen to a legacy server; which of them asked for it only the URI tells."""
        if uri is None or uri in self._own or uri.startswith(self._below):
            self.hear(kind, uri)

    def _push(self, event: Event) -> None:
        if self._tell is not None:
            self._tell(event.kind)
        elif not self._over:
            self._pending[event] = None
            self._news.set()

    # ---- one connection after another

    def moved(self) -> None:
        """Another session has begun; the one before is not the server's any more."""
        if not self._moved.done():
            self._moved.set_result(None)

    async def _work(self) -> None:
        back_off, expired = BackOff(), False
        while True:
            self._session = None
            try:
                self._session = await self._find()
                self._moved = self.loop.create_future()
                await (self._stream(self._session) if self._session.revision.modern else self._watch(self._session))
                why = "the server ended it"
            except _FAULTS as error:
                why = printable(str(error), 500)
                if self._session is not None and isinstance(error, SessionExpired | HttpError | PeerError):
                    self._session.judge(error)
                again = isinstance(error, SessionExpired) and not expired  # it did not look at the request (F13)
                expired = expired or again
                lost = self.acknowledged is not None or self._tell is not None
                if self._since is None and not (_may_pass(error) and (lost or again)):
                    raise
            if self._since is not None:
                back_off.lived(self.loop.time() - self._since)
                self._since = None
            if self._session is not None and self._moved.done():
                continue  # another session has taken the place of this one's
            wait = back_off.next()
            log.info("%s: listening again in %.1f s: %s", self._hub.name, wait, why)
            await self._pause(wait)

    async def _find(self) -> Session:
        keeper = self._hub.keeper
        if self._tell is None:
            return await keeper.ready()
        while True:
            session = keeper.session
            usable = session is not None and not session.over and session.revision.modern
            if session is not None and usable and self._asked.common(declared(session.facts.capabilities)):
                return session
            self._moved = self.loop.create_future()
            await self._moved

    async def _pause(self, seconds: float) -> None:
        """Wait; where there was no session, not longer than until a call has begun one."""
        if self._session is not None:
            await sleep(seconds)
            return
        self._moved = self.loop.create_future()
        sleeping = asyncio.ensure_future(sleep(seconds))
        try:
            await asyncio.wait([sleeping, self._moved], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()

    async def _stream(self, session: Session) -> None:
        """Listen on a modern wire, until that ends or another session takes this one's place."""
        conversation, asked = _conversation_of(session), self._asked
        if self._tell is not None:
            asked = asked.common(declared(session.facts.capabilities))
        params = ListenParams(asked.wire(), meta=self._hub.meta(session))
        stream = conversation.listen(Raw(encode_value(params)), self.hear)
        acknowledged, answer = stream.acknowledged, stream.answer
        try:
            patience = self._hub.limits.request_timeout
            await asyncio.wait([acknowledged, answer], timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not acknowledged.done():
                self._refused(answer, conversation.name)
            self._acknowledge(asked, asked.common(acknowledged.result()), conversation.name)
            await asyncio.wait([answer, self._moved], return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                answer.result()
        finally:
            conversation.end(stream)

    def _refused(self, answer: asyncio.Future[Raw], name: str) -> None:
        """Raise what came in the place of an acknowledgement."""
        if not answer.done():
            raise RequestTimeout(f"{name} did not acknowledge {LISTEN} in time (limit `request_timeout`)")
        try:
            answer.result()
        except PeerError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            raise NotSupported(f"{name} does not have {LISTEN}: {error}") from error
        raise InvalidResult(f"{name} ended {LISTEN} before it said what it tells of (SUB-2)")

    async def _watch(self, session: Session) -> None:
        """Listen on a legacy wire, until that ends or another session takes this one's place."""
        conversation, asked, watched = _conversation_of(session), self._asked, self._hub.watched(session)
        self.watching = conversation
        try:
            taken, refusal = await watched.add(asked.uris, self)
            told = asked.common(declared(session.facts.capabilities, taken))
            if refusal is not None and not told:
                raise refusal
            self._acknowledge(asked, told, conversation.name)
            await asyncio.wait([conversation.ended, self._moved], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.watching = None
            if asked.uris and not session.over and not self._hub.closed:
                await watched.drop(self)

    def _acknowledge(self, asked: Choice, told: Choice, name: str) -> None:
        """Note what will be told; where it is not the first time, all of it may have changed: nothing is replayed."""
        if not told:
            raise NotSupported(f"{name} does not tell of any of the changes that were asked for (SUB-2)")
        before, self.acknowledged, self._since = self.acknowledged, told, self.loop.time()
        if missing := set(asked.events()) - set(told.events()):
            names = ", ".join(sorted([event.uri or event.kind for event in missing]))
            log.info("%s does not tell of changes of: %s", name, printable(names, 1000))
        self._begun.set()
        if before is not None:
            for event in told.events():
                self._hub.forget(event.kind, event.uri)
                self._push(event)


def _may_pass(error: Exception) -> bool:
    """Whether it may be otherwise the next time."""
    if isinstance(error, PeerError):
        return error.code not in _FINAL_CODES
    return not (isinstance(error, HttpError) and error.status in _WHO_ARE_YOU)


def _conversation_of(session: Session) -> Conversation:
    """What a client's connections all are."""
    assert isinstance(session.connection, Conversation)
    return session.connection
