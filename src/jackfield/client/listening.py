"""Listening to a server: what an application iterates over, and all who listen with one client."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec
from msgspec import Raw

from ..protocol.errors import ConnectionClosed, LimitExceeded
from ..protocol.events import Event
from ..protocol.jsonrpc import Id, Notification
from ..protocol.limits import Limits
from ..protocol.types import AcknowledgedParams, decoder
from ..transport.connection import Connection
from .conversation import Conversation, Stream, stream_id
from .events import Choice
from .session import Asking, Hello, Session, request_meta
from .subscription import Subscription, Watched
from .values import encode_value

if TYPE_CHECKING:
    from .incoming import Incoming
    from .keeper import Keeper

_ALL_LISTS = Choice(tools=True, prompts=True, resources=True)
_decode_acknowledged = decoder(AcknowledgedParams)


class Listening:
    """The changes that a server tells of, as they come: `client.listen` gives one of these.

        async with client.listen(uris=["notes://todo"]) as events:
            async for event in events:      # event.kind, event.uri

    Entering waits until the server has acknowledged (SUB-2), so what changes from then on is not missed. A plain
    `async for event in client.listen()` begins with its first step. An event says no more than that something is
    another now: of equal ones only one waits at a time, so whoever is slow hears late, but never of the past.

    When the stream or the connection is lost, or the server ends it, this listens again, at once and then after ever
    longer waits (0.5 s to 30 s), and gives one event for each thing that was acknowledged: what was missed is not told
    later (SUB-5, SUB-8). It ends with `aclose`, with the `async with`, when nothing refers to it any more, and with the
    client; the server is told. Whoever waits for the next event may be cancelled and wait again.

    Entering and iterating raise NotSupported where the server does not tell of any of it, PeerError where it refuses,
    LimitExceeded (`listens`), and, until it was acknowledged for the first time, all else that a call raises.

    Each one takes one of the places that the limit `asking` gives to requests under way, for as long as it lasts; it
    never waits for one, and never takes the last.
    """

    def __init__(self, start: Callable[[], Subscription]) -> None:
        self._start = start
        self._subscription: Subscription | None = None
        self._closed = False

    @property
    def acknowledged(self) -> Choice | None:
        """Of what was asked for, what the server last said that it tells of (SUB-2); None before it did."""
        return None if self._subscription is None else self._subscription.acknowledged

    def _begin(self) -> Subscription:
        if self._subscription is None:
            self._subscription = subscription = self._start()
            weakref.finalize(self, _drop, subscription).atexit = False
        return self._subscription

    async def __aenter__(self) -> Self:
        if self._closed:
            raise ConnectionClosed("this was closed; `client.listen(...)` gives another one")
        try:
            await self._begin().begun()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if self._closed:
            raise StopAsyncIteration
        try:
            return await self._begin().next()
        finally:
            del self  # or the traceback of a consumer that was cancelled would keep this alive, and with it the stream

    async def aclose(self) -> None:
        """End it, at the server too (SUB-5); may be called again and again."""
        self._closed = True
        if self._subscription is not None:
            await self._subscription.close()


def _drop(subscription: Subscription) -> None:
    """Stop what nobody reads any more; objects may be collected in any thread."""
    with contextlib.suppress(RuntimeError):  # the loop is closed
        subscription.loop.call_soon_threadsafe(subscription.stop)


class Listeners:
    """All who listen with one client: the `Listening`s, and `on_list_changed` on the modern wire."""

    def __init__(
        self,
        keeper: Keeper,
        incoming: Incoming,
        hello: Hello,
        limits: Limits,
        asking: Asking | None,
        forget: Callable[[str, str | None], None],
    ) -> None:
        """`forget` is told what may have changed unheard, before anybody who listens is."""
        self.keeper = keeper
        self.limits = limits
        self.forget = forget
        self._incoming = incoming
        self._hello = hello
        self._asking = asking
        self._active: dict[Subscription, None] = {}
        self._background: Subscription | None = None
        self._watched: Watched | None = None
        self._closed = False
        keeper.began = self._began
        incoming.listeners = self

    @property
    def closed(self) -> bool:
        """Whether the client was closed."""
        return self._closed

    @property
    def name(self) -> str:
        """The server's name, for messages."""
        return "the server" if self.keeper.session is None else self.keeper.session.connection.name

    def listen(self, choice: Choice) -> Listening:
        """What `client.listen` gives. Raises LimitExceeded for too many URIs (limit `watched`)."""
        choice = msgspec.structs.replace(choice, uris=tuple(dict.fromkeys(choice.uris))) if choice else _ALL_LISTS
        if len(choice.uris) > self.limits.watched:
            text = f"one listening hears of {self.limits.watched} resources at most (limit `watched`)"
            raise LimitExceeded(text, "watched")
        return Listening(lambda: self._start(choice))

    def _start(self, choice: Choice) -> Subscription:
        if len(self._active) >= self._most:
            text = f"{len(self._active)} subscriptions are open already (limits `listens`, `asking`)"
            raise LimitExceeded(text, "listens")
        return self._add(Subscription(self, choice))

    @property
    def _most(self) -> int:
        return min(self.limits.listens, self.limits.asking - 1)

    def _add(self, subscription: Subscription) -> Subscription:
        self._active[subscription] = None
        return subscription

    def gone(self, subscription: Subscription) -> None:
        """A subscription has ended."""
        self._active.pop(subscription, None)
        if self._background is subscription:
            self._background = None

    def _began(self, session: Session) -> None:
        """A session has begun: who listens does so there."""
        for subscription in self._active:
            subscription.moved()
        wanted = self._incoming.wants_changes and self._background is None and not self._closed
        if wanted and session.revision.modern and len(self._active) < self._most:
            self._background = self._add(Subscription(self, _ALL_LISTS, self._incoming.changed))

    # ---- what comes in

    def heard(self, notification: Notification, connection: Connection, kind: str, uri: str | None = None) -> bool:
        """Give news to whom they are for; whether they are of one stream, and so for nobody else (SUB-3).

        Without a stream only who listens to a legacy server hears them.
        """
        stream = self._stream(notification, connection)
        if isinstance(stream, Stream):
            stream.hear(kind, uri)
            return True
        for subscription in self._active:
            if subscription.watching is connection:
                subscription.hear_all(kind, uri)
        return stream is not None and (self._incoming.revision is None or self._incoming.revision.modern)

    def acknowledged(self, notification: Notification, connection: Connection) -> None:
        """Take the server's word on what a stream will tell of (SUB-2); what cannot be read is none."""
        stream = self._stream(notification, connection)
        if isinstance(stream, Stream) and not stream.acknowledged.done():
            with contextlib.suppress(msgspec.DecodeError):
                stream.acknowledged.set_result(_decode_acknowledged(notification.params).notifications)

    def _stream(self, notification: Notification, connection: Connection) -> Stream | Id | None:
        """The stream that a notification belongs to, its id where that has ended, None where it names none."""
        id = stream_id(notification)
        return connection.listens.get(id, id) if id is not None and isinstance(connection, Conversation) else id

    # ---- for the subscriptions

    def meta(self, session: Session) -> Raw:
        """The `_meta` of a request to listen: no log messages belong there (SUB-4)."""
        meta = request_meta(session.revision, self._hello)
        if self._asking is not None:
            meta.update(self._asking.members())
        return Raw(encode_value(meta))

    def watched(self, session: Session) -> Watched:
        """What a legacy session is subscribed to."""
        if self._watched is None or self._watched.session is not session:
            self._watched = Watched(session, self._asking, self.limits.grace)
        return self._watched

    async def close(self) -> None:
        """End all of them; whoever iterates comes to the end. The servers are told."""
        self._closed = True
        active = list(self._active)
        for subscription in active:
            subscription.stop()
        await asyncio.gather(*[subscription.close() for subscription in active])
