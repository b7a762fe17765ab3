"""The runner of an HTTP app: it listens, serves until the process is asked to end, and ends what runs in order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import time
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from email.utils import formatdate
from typing import Any, Protocol

from ...protocol.limits import Limits
from ...protocol.printable import printable
from .. import stdio
from .bind import BACKLOG, Bind, Listener
from .bind import is_loopback as is_loopback
from .protocol import Connection, State, configure


class Runnable(Protocol):
    """An ASGI app that can be run here."""

    @property
    def path(self) -> str:
        """Its endpoint, for the announcement."""
        ...

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""

    def closing(self) -> None:
        """End every answer that is under way, streams in order, and begin no other: the server ends."""

    def lifespan(self, app: Any) -> AbstractAsyncContextManager[Any]:
        """What is open while the app is served."""
        ...


def run(
    app: Runnable,
    *,
    host: str,
    port: int,
    uds: str | None,
    workers: int,
    protected: bool,
    insecure: bool,
    limits: Limits,
    label: str,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve `app` until SIGINT or SIGTERM; returns when everything has ended.

    It listens on `uds` where given, else on `host` and `port` (0 takes a free one); what other machines can reach must
    be `protected` (every request needs a token or the like) or meant to be `insecure` (T03). With more than one worker
    as many processes serve, which this one starts and ends. `label` is the server's name; the address is announced on
    standard error and told to `ready`. Raises RegistrationError where it cannot listen or must not, what the lifespan
    raises, and RuntimeError where a worker could not start.
    """
    listener = Listener(
        Bind(host=host, port=port, uds=uds, workers=workers, protected=protected, insecure=insecure),
    )
    url = listener.url(app.path)

    def announce() -> None:
        _say(f"serving {printable(label)} at {url}")
        if ready is not None:
            ready(url)

    try:
        if workers == 1:
            stdio.run_loop(_until_asked(app, listener.sockets, limits, announce))
        else:
            from .workers import Workers

            def work(serving: Callable[[], None], parent: int) -> None:
                stdio.run_loop(_until_asked(app, listener.sockets, limits, serving, parent))

            # The steps of an end, and time for the lifespan.
            patience = 3 * limits.grace + limits.drain
            Workers(work, workers, patience, ready=announce, ending=listener.stop, say=_say).run()
    finally:
        listener.close()


def new_token() -> str:
    """Make a token for this run, which is told on standard error."""
    import secrets

    token = secrets.token_urlsafe(32)
    _say(f"the token of this run, for the header `Authorization: Bearer ...`: {token}")
    return token


def _say(text: str) -> None:
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] - there may be none
        sys.stderr.write(f"jackfield: {text}\n")
        sys.stderr.flush()


async def _until_asked(
    app: Runnable,
    sockets: Collection[socket.socket],
    limits: Limits,
    ready: Callable[[], None],
    parent: int | None = None,
) -> None:
    """Serve until a signal asks for the end, or `parent` is gone; a second signal of that kind has its usual effect."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    # Around the lifespan too, for a worker may get the terminal's signal and its parent's.
    with contextlib.ExitStack() as stack:
        stack.enter_context(stdio.signals(loop, stop.set))
        if parent is not None:
            stack.enter_context(stdio.parent_watch(loop, parent, stop.set))
        await serve(app, sockets, limits, stop, ready)


async def serve(
    app: Runnable,
    sockets: Collection[socket.socket],
    limits: Limits,
    stop: asyncio.Event,
    ready: Callable[[], None],
) -> None:
    """Serve `app` on listening sockets until `stop` is set; `ready` is called when connections are taken.

    Then idle connections are closed, and what is under way has `grace` seconds to be answered; what is left is ended by
    the app; what it leaves is cancelled; and what is still open then is cut. Each step has `grace` seconds (F24). The
    sockets are closed in any case. Raises what the lifespan raises.
    """
    loop = asyncio.get_running_loop()
    state = State(limits, _most_connections(limits))
    config = configure(app, state)
    async with app.lifespan(app):
        servers = [
            await loop.create_server(lambda: Connection(config, state, {}, loop), sock=sock, backlog=BACKLOG)
            for sock in sockets
        ]
        dates = loop.create_task(_keep_date(state))
        try:
            ready()
            await stop.wait()
        finally:
            for server in servers:
                server.close()
            await _end(app, state)
            dates.cancel()


async def _keep_date(state: State) -> None:
    """Write the Date header of the second that it is."""
    while True:
        state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        await asyncio.sleep(1 - time.time() % 1)


async def _end(app: Runnable, state: State) -> None:
    """End what is under way, each step harder than the one before."""
    grace = state.limits.grace
    for connection in list(state.connections):
        connection.shutdown()
    if await _emptied(state, grace):
        return
    app.closing()
    if await _emptied(state, grace):
        return
    state.ending = True
    for task in list(state.tasks):
        task.cancel()
    if await _emptied(state, grace):
        return
    for connection in list(state.connections):
        connection.transport.abort()


async def _emptied(state: State, seconds: float) -> bool:
    """Whether every request is answered and every connection gone within that time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while state.connections or state.tasks:
                state.changed.clear()
                if state.connections:
                    await state.changed.wait()
                else:
                    await asyncio.wait(set(state.tasks))
    return not (state.connections or state.tasks)


def _most_connections(limits: Limits) -> int:
    """How many connections there may be; handlers need descriptors, too, and a process has only so many."""
    if os.name != "posix":
        return limits.requests
    import resource

    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limits.requests if allowed == resource.RLIM_INFINITY else max(1, min(limits.requests, allowed * 3 // 4))
