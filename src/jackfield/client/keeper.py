"""The one live session of a client: begun once, kept, and begun anew when it was lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from ..protocol.errors import CallError, ConnectionClosed, FrameError, PeerError, SessionExpired
from ..protocol.jsonrpc import Notification
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.types import LogLevel
from ..transport.connection import Channel, Connection
from ..transport.http.target import Http
from .conversation import Conversation
from .era import Greeting, Plan, agree
from .era_http import HttpGreeting
from .incoming import Incoming
from .link import Link, Target, label_of, open_link
from .session import Hello, Session

if TYPE_CHECKING:
    from ..transport.http.client import Endpoint, Marks

log = logging.getLogger("jackfield")

T = TypeVar("T")


class Keeper:
    """Keeps a session to one target. All who need one while there is none wait for the same attempt."""

    def __init__(
        self,
        target: Target,
        mode: str,
        hello: Hello,
        limits: Limits,
        incoming: Incoming,
        *,
        wants_logs: bool,
        renewed: Callable[[], None],
    ) -> None:
        """`renewed` is called before each session: what was known of the server may not be so any more."""
        self.session: Session | None = None
        self.level: LogLevel | None = None
        """What log messages every new session is asked for."""
        self.began: Callable[[Session], None] | None = None
        """Where set, told of each new session, before anybody can use it."""
        self.marks: Marks = {}
        """The arguments that are mirrored in headers, by the name of the tool (XH-4)."""
        self._target = target
        self._limits = limits
        self._incoming = incoming
        self._wants_logs = wants_logs
        self._renewed = renewed
        self._plan = Plan(target, mode, hello, limits, self._reach)
        self._endpoint: Endpoint | None = None
        self._begun = False
        self._closed = False
        self._opening: asyncio.Task[Session] | None = None
        self._waiters = 0
        self._lock = asyncio.Lock()

    async def begin(self) -> None:
        """Connect, unless that is so already. Where it fails nothing is left running, and it may be tried again."""
        await self.ready(first=True)
        self._begun = True

    async def close(self) -> None:
        """End the session for good; calls under way fail with ConnectionClosed."""
        self._closed = True
        opening = self._opening
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
        self._incoming.close()
        if self.session is not None:
            await self.session.link.close()
        if self._endpoint is not None:
            await self._endpoint.close()

    def known(self) -> Session:
        """The newest session, be it lost. Raises ConnectionClosed where there never was one."""
        if self.session is None:
            raise ConnectionClosed("not connected: use `async with Client(...) as client`, or `await client.connect()`")
        return self.session

    async def ready(self, first: bool = False) -> Session:
        """The live session; where there is none, one is begun."""
        if self._closed:
            raise ConnectionClosed("this client was closed")
        if not self._begun and not first:
            raise ConnectionClosed("not connected: use `async with Client(...) as client`, or `await client.connect()`")
        if self.session is not None and not self.session.over:
            return self.session
        if self._opening is None:
            self._waiters = 0
            self._opening = asyncio.create_task(self._open())
        opening = self._opening
        self._waiters += 1
        try:
            await asyncio.wait([opening])
        finally:
            if self._opening is opening:
                self._waiters -= 1
                if opening.done():
                    self._opening = None
                elif not self._waiters:
                    self._opening = None
                    opening.cancel()
                    await asyncio.wait([opening])  # a caller who gave up must find nothing left (F3)
                    _ = opening.cancelled() or opening.exception()  # looked at: nobody else will
        if opening.cancelled():
            raise ConnectionClosed("this client was closed")
        return opening.result()

    async def attempt(self, work: Callable[[Session], Awaitable[T]]) -> T:
        """Do some work in the live session; once more in a new one if the server has forgotten the session (F13)."""
        session = self.session
        if session is None or session.over:
            session = await self.ready()
        try:
            return await work(session)
        except SessionExpired:
            return await work(await self.ready())

    # ---- how a session is begun

    async def _open(self) -> Session:
        async with self._lock:
            old = self.session
            if old is not None and old.connection.closed is not None:
                await old.link.close()  # never two processes of one server (F3)
            self._incoming.revision = None
            self._renewed()
            greeting = HttpGreeting if isinstance(self._target, Http) else Greeting
            session = await agree(greeting(self._plan))
            self.session = session
            self._incoming.revision = session.revision
            if session.facts.server is not None:
                session.connection.name = printable(session.facts.server.name, 80)
            if self.began is not None:
                self.began(session)
            try:
                await self._restore_level(session)
            except BaseException:
                await session.link.close()
                raise
            return session

    async def _restore_level(self, session: Session) -> None:
        """Say to a new connection what was asked for; a modern server sends `on_log` nothing unless it is asked."""
        level = self.level or ("info" if self._wants_logs and session.revision.modern else None)
        if level is None or session.facts.capabilities.logging is None:
            return
        try:
            await session.set_log_level(level)
        except (PeerError, CallError) as error:
            log.warning("%s: the log level could not be set: %s", session.connection.name, printable(str(error)))

    async def _reach(self) -> Link:
        if not isinstance(self._target, Http):
            return await open_link(self._target, self._make, self._limits)
        if self._endpoint is None:
            from ..transport.http.client import Endpoint  # not at the top: it takes long, and not every client needs it

            self._endpoint = Endpoint(self._target, self._limits, self.marks)
        return await self._endpoint.connect(self._make)

    def _make(self, channel: Channel) -> Connection:
        incoming = self._incoming

        def stray(frame: bytes, error: FrameError) -> None:
            incoming.stray(connection.name, frame, error)

        def hear(notification: Notification) -> None:
            incoming.hear(notification, connection)

        connection = Conversation(
            channel,
            serve=incoming.serve,
            notice=hear,
            stray=stray,
            limits=self._limits,
            name=label_of(self._target),
        )
        return connection
