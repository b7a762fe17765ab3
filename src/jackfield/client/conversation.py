"""A client's side of a conversation: also the streams of `subscriptions/listen`, and how each of them ends."""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from ..protocol.errors import ConnectionClosed, FrameError, LimitExceeded
from ..protocol.jsonrpc import Id, Notification, OutNotification, OutRequest, encode
from ..protocol.limits import Limits
from ..protocol.types import CancelledParams, NotificationMeta, Object, SubscriptionFilter, decoder
from ..transport.asking import CANCELLED, Waiting
from ..transport.connection import Channel, Connection, Serve

LISTEN: Final = "subscriptions/listen"

Hear = Callable[[str, str | None], None]
"""Is told what changed: the kind of list, or "resource" and its URI."""

_decode_cancelled = decoder(CancelledParams)


class _Marked(Object):
    meta: NotificationMeta | None = msgspec.field(name="_meta", default=None)


_decode_marked = decoder(_Marked)


def stream_id(notification: Notification) -> Id | None:
    """The stream that a notification says it belongs to (SUB-3); None where it says nothing that can be read."""
    if b"subscriptionId" not in notification.params:
        return None
    try:
        meta = _decode_marked(notification.params).meta
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if meta is None else meta.subscription_id


class Stream:
    """One `subscriptions/listen` that was sent, until it ends."""

    def __init__(self, id: Id, waiting: Waiting, hear: Hear) -> None:
        self.id = id
        self.waiting = waiting
        self.hear = hear
        self.answer: asyncio.Future[Raw] = waiting.future
        """Done when the stream has ended: with the server's result (SUB-5), or with what went wrong."""
        self.acknowledged: asyncio.Future[SubscriptionFilter] = waiting.future.get_loop().create_future()
        """What the server said that it will tell of (SUB-2)."""


class Conversation(Connection):
    """As `Connection`; what the server tells on a stream is matched with it by `Incoming`."""

    def __init__(
        self,
        channel: Channel,
        *,
        serve: Serve,
        notice: Callable[[Notification], None],
        stray: Callable[[bytes, FrameError], None],
        limits: Limits,
        name: str,
    ) -> None:
        super().__init__(channel, serve=serve, notice=notice, stray=stray, limits=limits, name=name)
        self.listens: dict[Id, Stream] = {}
        """Those that have not ended, by the ids of their requests."""
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when nothing more comes from the server."""

    def listen(self, params: Any, hear: Hear) -> Stream:
        """Send `subscriptions/listen`. Whoever does so ends the stream with `end`, whatever came of it.

        It has no time: whoever waits for the acknowledgement decides for how long. It takes one of the places of the
        limit `asking`, but never waits for one: calls that take long must not keep a client from hearing. Raises
        ConnectionClosed, and LimitExceeded where it is longer than a message may be.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise ConnectionClosed(f"the connection to {self.name} was opened in another event loop")
        id = self.new_id()
        frame = encode(OutRequest(id, LISTEN, params))
        if len(frame) > self._channel.longest:
            text = f"{LISTEN} would take {len(frame)} bytes, more than one message may have (limit `line`)"
            raise LimitExceeded(text, "line")
        if self.closed is not None:
            raise copy.copy(self.closed)
        now = self._loop.time()
        self._waiting[id] = waiting = Waiting(LISTEN, self._loop.create_future(), math.inf, now, now, math.inf)
        stream = self.listens[id] = Stream(id, waiting, hear)
        self._channel.write(frame)
        return stream

    def end(self, stream: Stream) -> None:
        """End a stream; where the server has not done so, it is told, once (SUB-5). May be called again and again."""
        if self.listens.pop(stream.id, None) is None:
            return
        self._waiting.pop(stream.id, None)
        if stream.waiting.timer is not None:
            stream.waiting.timer.cancel()  # there is one after a question was open
        if self._places:
            self._next_place()
        if not stream.answer.cancel():
            stream.answer.exception()  # looked at, also where nobody waits for it any more
        elif self.closed is None:
            self._channel.write(encode(OutNotification(CANCELLED, {"requestId": stream.id})))

    def _hear(self, notification: Notification) -> None:
        if not self.listens or notification.method != CANCELLED:
            super()._hear(notification)
            return
        try:
            id = _decode_cancelled(notification.params).request_id
        except (msgspec.DecodeError, RecursionError):
            return  # CAN-3
        if id in self.listens:
            self.fail(id, ConnectionClosed(f"{self.name} ended the subscription"))  # SUB-6

    def input_ended(self, reason: ConnectionClosed) -> None:
        """As said there; who hears of changes without a stream is told as well."""
        super().input_ended(reason)
        if not self.ended.done():
            self.ended.set_result(None)
