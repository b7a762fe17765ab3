"""Raw HTTP for the tests of the runner: a served app, and connections that send what no client would."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from jackfield import Limits
from jackfield.transport.http.bind import Bind, Listener
from jackfield.transport.http.serve import serve
from tests.transport.http.serve_app import PlainApp

PATIENCE = 20.0
"""Seconds after which a test gives up."""


class Raw:
    """A connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        """Send bytes, without waiting for anybody to take them."""
        self._writer.write(data)

    async def post(self, path: str = "/mcp", body: bytes = b"", *headers: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request and read its answer."""
        self.send(post(path, body, *headers))
        return await self.answer()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read the head of an answer."""
        async with asyncio.timeout(PATIENCE):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = (line.split(": ", 1) for line in head[1:] if line)
        return int(head[0].split()[1]), {name.lower(): value for name, value in fields}

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Read an answer that says its length."""
        status, headers = await self.head()
        async with asyncio.timeout(PATIENCE):
            return status, headers, await self._reader.readexactly(int(headers["content-length"]))

    async def until(self, end: bytes) -> bytes:
        """Read until some bytes."""
        async with asyncio.timeout(PATIENCE):
            return await self._reader.readuntil(end)

    async def rest(self) -> bytes:
        """Read to the end, which comes in order."""
        async with asyncio.timeout(PATIENCE):
            return await self._reader.read()

    async def is_cut(self) -> bool:
        """Whether the connection ends without another byte, in order or not."""
        try:
            return await self.rest() == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def post(path: str = "/mcp", body: bytes = b"", *headers: bytes) -> bytes:
    """A request's bytes."""
    head = b"".join(header + b"\r\n" for header in headers)
    return b"POST %s HTTP/1.1\r\nhost: a\r\n%scontent-length: %d\r\n\r\n%s" % (path.encode(), head, len(body), body)


class Served:
    """An app that is being served in this loop."""

    def __init__(self, app: PlainApp, port: int, stop: asyncio.Event, task: asyncio.Task[None]) -> None:
        self.app = app
        self.port = port
        self.task = task
        self._stop = stop
        self._open: list[Raw] = []

    async def connect(self) -> Raw:
        """A new connection to it."""
        raw = Raw(*await asyncio.open_connection("127.0.0.1", self.port))
        self._open.append(raw)
        return raw

    def stop(self) -> None:
        """Ask it to end."""
        self._stop.set()

    async def ended(self) -> None:
        """Wait until it has."""
        async with asyncio.timeout(PATIENCE):
            await self.task

    def hang_up(self) -> None:
        """Close what was opened."""
        for raw in self._open:
            raw.close()


@contextlib.asynccontextmanager
async def served(app: PlainApp | None = None, **limits: Any) -> AsyncIterator[Served]:
    """Serve an app on a free port of this machine, with some limits."""
    app = app or PlainApp()
    listener = Listener(Bind(port=0))
    port = listener.sockets[0].getsockname()[1]
    stop, ready = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(serve(app, listener.sockets, Limits(**limits), stop, ready.set))
    run = Served(app, port, stop, task)
    try:
        async with asyncio.timeout(PATIENCE):
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait((waiting, task), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        yield run
        run.hang_up()
        run.stop()
        await run.ended()
    finally:
        run.hang_up()
        stop.set()
        task.cancel()
        await asyncio.wait((task,))
        listener.close()
