"""The sessions of legacy clients (5.3): one conversation each, found by its id, ended when asked or idle."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, Final

import msgspec
from msgspec import Struct

from ...protocol.errors import INTERNAL_ERROR, INVALID_REQUEST, ConnectionClosed
from ...protocol.jsonrpc import Id, Notification, Refused, Request, Response, read_head
from ...protocol.types import CancelledParams, decoder
from ..asking import CANCELLED
from ..connection import Connection
from .guard import SERVER_ERROR, Denied
from .post import Exchange, closing, refused
from .service import Service

SESSION_NOT_FOUND: Final = -32001
"""The code that legacy clients know for it."""

_ENDED: Final = ConnectionClosed("the session has ended")
_GLANCE: Final = 512
_decode_cancelled = decoder(CancelledParams)


class _Head(Struct, gc=False):
    id: Id | None = None


class _Error(Struct, gc=False):
    code: int


class _Failure(Struct, gc=False):
    error: _Error


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_failure = msgspec.json.Decoder(_Failure).decode


class Session(Struct, eq=False):
    """One session: its conversation, and what brings each answer to the POST that asked for it.

    To its connection it is the channel; that is never full, for each answer has an exchange of its own that holds it.
    """

    id: str
    principal: str
    peer: Any
    service: Service
    connection: Connection | None = None
    exchanges: dict[Id, Exchange] = {}
    """The requests that were not answered yet."""
    posts: int = 0
    """How many POSTs, or streams, are open; while any is, the session is not idle."""
    since: float = 0.0
    """When it became idle, by the loop's clock."""
    full: bool = False
    longest: int = 2**62
    _taking: bool = False
    """True while the connection looks whether it takes a request at all."""

    async def post(self, request: Request, size: int, exchange: Exchange) -> None:
        """Serve a request and send its answer; it goes on where the client hangs up (LH-2)."""
        id = request.id
        if id in self.exchanges:
            await exchange.finish(refused(400, INVALID_REQUEST, "a request with this id is already under way", id))
            return
        exchange.answered = asyncio.get_running_loop().create_future()
        exchange.conversation = conversation = self._conversation()
        self.exchanges[id] = exchange
        self._taking = True
        try:
            conversation.take(request, size)
        finally:
            self._taking = False
        await exchange.finish(await exchange.wait(exchange.answered))

    def take(self, message: Notification | Response, size: int) -> None:
        """Hear a notification, or the answer to a request of ours."""
        self._conversation().take(message, size)
        if isinstance(message, Notification) and message.method == CANCELLED:
            try:
                cancelled = _decode_cancelled(message.params).request_id
            except (msgspec.DecodeError, RecursionError):
                return  # the connection has told of it
            if cancelled is not None and (exchange := self.exchanges.pop(cancelled, None)):
                exchange.stop()

    def end(self) -> None:
        """Cancel what runs; those who wait for an answer are told that the session is not there."""
        if self.connection is not None:
            self.connection.lost(_ENDED)
        for id, exchange in self.exchanges.items():
            exchange.stop(refused(404, SESSION_NOT_FOUND, "Session not found", id))
        self.exchanges.clear()

    def _conversation(self) -> Connection:
        if self.connection is None:
            self.connection = Connection(
                self, serve=self._serve, notice=self._notice, limits=self.service.limits, name="client"
            )
        return self.connection

    def _serve(self, request: Request, connection: Connection) -> Any:
        return self.service.serve(self.peer, request, self.exchanges[request.id])

    def _notice(self, notification: Notification) -> None:
        self.service.notice(self.peer, notification)

    # ---- the connection's channel

    def write(self, frame: bytes) -> None:
        """Give an answer to the exchange that waits for it."""
        id, _ = read_head(frame[:_GLANCE])
        if id is None:
            id = _decode_head(frame).id
        exchange = None if id is None else self.exchanges.pop(id, None)
        if exchange is None:
            return  # it was cancelled
        if self._taking:  # no answer, but a refusal to take it: it is under way already, or there are too many
            code = _decode_failure(frame).error.code
            frame = Refused(frame)
            frame.code = code
            frame.status = 503 if code == INTERNAL_ERROR else 400
        exchange.answer(frame)

    async def drained(self) -> None:
        """Return at once."""

    def close(self) -> None:
        """Nothing is to be given up but the exchanges, which `end` ends."""


class Sessions:
    """All sessions of one application; at most `sessions` of them, each idle for at most `session_idle` seconds."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._limits = service.limits
        self._all: dict[str, Session] = {}
        self._idle: dict[str, Session] = {}
        """Those without an open POST, the one that is idle for longest first."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed: list[Connection] = []

    def __len__(self) -> int:
        return len(self._all)

    def open(self, peer: Any, principal: str) -> Session:
        """A new session for a peer that was initialized. Raises Denied where there are too many with open POSTs."""
        if len(self._all) >= self._limits.sessions:
            if not self._idle:
                text = "server busy: all its sessions are in use (limit `sessions`)"
                raise Denied(503, text, INTERNAL_ERROR).with_header(b"retry-after", b"1")
            self.end(next(iter(self._idle.values())))
        session = Session(secrets.token_urlsafe(32), principal, peer, self._service)
        self._all[session.id] = session
        self._rest(session)
        return session

    def find(self, id: str | None, principal: str) -> Session:
        """The session that a request names; another principal's is as one that does not exist (T05). Raises Denied."""
        if id is None:
            raise Denied(400, "Bad Request: Mcp-Session-Id header is required", SERVER_ERROR)
        session = self._all.get(id)
        if session is None or session.principal != principal:
            raise Denied(404, "Session not found", SESSION_NOT_FOUND)
        return session

    def enter(self, session: Session) -> None:
        """Note that the session has one more open POST."""
        session.posts += 1
        self._idle.pop(session.id, None)

    def leave(self, session: Session) -> None:
        """Note that it has one less."""
        session.posts -= 1
        if not session.posts and session.id in self._all:
            self._rest(session)

    def end(self, session: Session) -> None:
        """End a session and everything of it."""
        self._all.pop(session.id, None)
        self._idle.pop(session.id, None)
        session.end()

    def close(self) -> None:
        """End all of them, as the server is ending."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for session in list(self._all.values()):
            for exchange in session.exchanges.values():
                exchange.stop(closing(exchange.id))
            self.end(session)
            if session.connection is not None:
                self._closed.append(session.connection)

    async def quiet(self) -> None:
        """Return when nothing runs any more of the sessions that `close` has ended."""
        while self._closed:
            await self._closed[-1].quiet()
            self._closed.pop()

    def _rest(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        session.since = loop.time()
        self._idle[session.id] = session
        if self._timer is None:
            self._timer = loop.call_later(self._limits.session_idle, self._sweep)

    def _sweep(self) -> None:
        """End what was idle for too long, and look again when the next one will have been."""
        loop, limit = asyncio.get_running_loop(), self._limits.session_idle
        self._timer = None
        for session in list(self._idle.values()):
            if session.since + limit > loop.time():
                self._timer = loop.call_at(session.since + limit, self._sweep)
                return
            self.end(session)
