"""The ways to serve: over standard input and output, over HTTP, and to a client in the same process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..protocol.limits import Limits
from .engine import Engine
from .life import Life
from .peer import STRANGER, new_session

if TYPE_CHECKING:
    from ..transport.connection import Channel, Connection
    from ..transport.http.app import App
    from ..transport.stdio import Descriptors


class Serving:
    """What a server needs to be served by any transport."""

    name: str
    limits: Limits
    _engine: Engine
    _life: Life

    def run(
        self,
        transport: str = "stdio",
        *,
        descriptors: Descriptors | None = None,
        host: str = "127.0.0.1",
        port: int = 8000,
        uds: str | None = None,
        workers: int = 1,
        insecure: bool = False,
        token: str | bool | None = None,
        path: str = "/mcp",
        stateless: bool | None = None,
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] = (),
        cors: Sequence[str] = (),
        health: bool = False,
    ) -> None:
        """Serve until the client is gone ("stdio"), or until the process is asked to end ("http").

        On stdio standard output belongs to the protocol from then on: what is printed goes to standard error (STDIO-2).
        A launcher that took the descriptors over before it imported the server hands them in; all other options are for
        HTTP.

        Over HTTP it listens on `host` and `port` (0: any that is free) or on the unix socket `uds`, with `workers`
        processes (not on Windows). What other machines can reach needs a `token` (True makes one, which is printed on
        standard error), or `insecure=True` (T03). The other options are those of `http_app`; with several workers no
        sessions are kept unless `stateless` is False.

        Raises ValueError for a transport that is none, RegistrationError for bad options, and what the lifespan raises.
        """
        if transport not in ("stdio", "http", "streamable-http"):
            raise ValueError(f"transport {transport!r} is not served; there are 'stdio' and 'http'")
        if transport == "stdio":
            self._run_stdio(descriptors)
            return
        from ..transport.http import serve

        token = serve.new_token() if token is True else None if token is False else token
        app = self.http_app(
            path=path,
            stateless=workers > 1 if stateless is None else stateless,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            cors=cors,
            token=token,
            health=health,
            loopback=uds is None and serve.is_loopback(host),
        )
        serve.run(
            app,
            host=host,
            port=port,
            uds=uds,
            workers=workers,
            protected=token is not None,
            insecure=insecure,
            limits=self.limits,
            label=self.name,
        )

    def _run_stdio(self, descriptors: Descriptors | None) -> None:
        from ..transport import stdio

        stdio.run_loop(self._serve_stdio(descriptors or stdio.take_over()))

    async def _serve_stdio(self, descriptors: Descriptors) -> None:
        from ..transport import stdio

        await self._life.enter()
        try:
            await stdio.serve(self._connection, descriptors, self.limits)
        finally:
            await self._life.leave()

    async def __mcp_connect__(self, make: Callable[[Channel], Connection]) -> Connection:
        """Join `make`'s connection to a new conversation in this process; closing its channel ends that.

        This is what `Client(server)` asks for. Raises what the lifespan raises.
        """
        from ..transport.memory import connect  # not for a server of its own process

        await self._life.enter()
        try:
            return connect(make, self._connection, self._life.leave, self.limits.grace)[0]
        except BaseException:
            await self._life.leave()
            raise

    def _connection(self, channel: Channel) -> Connection:
        from ..transport.connection import Connection  # not at the top: registering needs none

        session, engine = new_session(), self._engine
        connection = Connection(
            channel,
            serve=functools.partial(engine.serve, session),
            notice=functools.partial(engine.notice, session),
            limits=self.limits,
            name="client",
        )
        session.tell = connection.notify
        session.closed = connection.over
        return connection

    def http_app(
        self,
        *,
        path: str = "/mcp",
        stateless: bool = False,
        allowed_hosts: Sequence[str] | None = None,
        allowed_origins: Sequence[str] = (),
        cors: Sequence[str] = (),
        token: str | None = None,
        health: bool = False,
        loopback: bool = False,
    ) -> App:
        """An ASGI application that serves both eras at `path`, to run with any ASGI server or to mount in another app.

        `stateless` keeps no sessions for legacy clients (LH-11): for several processes behind one address.
        `allowed_hosts` are the names that requests may be sent to (None: any, unless `loopback`, which takes this
        machine's own names alone); `allowed_origins` the web pages that may send them; `cors` those of them that may
        also read the answers, or "*". With `token` every request needs it as its bearer token. `health` answers
        GET /health.

        A mounted application starts with its first request; to run the lifespan with the outer one's, give that
        `lifespan=app.lifespan`. Raises RegistrationError for options that cannot be.
        """
        from ..transport.http.app import App
        from ..transport.http.service import Service

        engine = self._engine
        service = Service(
            label=self.name,
            limits=self.limits,
            eras=engine.eras,
            serve=engine.serve,
            notice=engine.notice,
            stranger=STRANGER,
            session=new_session,
            enter=self._life.enter,
            leave=self._life.leave,
        )
        return App(
            service,
            path=path,
            stateless=stateless,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
            cors=cors,
            token=token,
            health=health,
            loopback=loopback,
        )
