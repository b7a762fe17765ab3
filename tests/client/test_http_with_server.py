"""Our client and our server, joined by real HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest
import uvicorn

from jackfield.client.client import Client
from jackfield.client.era_http import legacy_urls
from jackfield.protocol.errors import ConnectionClosed, PeerError, RequestTimeout
from jackfield.server.context import Context
from jackfield.server.server import Server

MODES = ["auto", "2025-11-25", "2025-06-18", "2025-03-26"]


class Site:
    """A server with a few tools, served by uvicorn; `cancelled` is set when the tool `wait` is."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.port = 0
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def _make(self) -> Server:
        server = Server("site")

        @server.tool
        async def add(a: int, b: int) -> int:
            return a + b

        @server.tool
        async def report(ctx: Context) -> str:
            await ctx.report_progress(1, 2, "half")
            return "one\u2028two"

        @server.tool
        async def wait() -> str:
            self.waiting.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
            return "never"

        @server.tool
        async def agent(ctx: Context) -> str:
            return ctx.headers["user-agent"].partition("/")[0]

        return server

    async def start(self) -> None:
        """Serve, on the port of before where there was one."""
        listening = socket.socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", self.port))
        listening.listen()
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(self._make().http_app(), log_level="warning", lifespan="on")
        self._server = uvicorn.Server(config)
        self._task = asyncio.create_task(self._server.serve([listening]))

    async def stop(self) -> None:
        """End in good order."""
        assert self._server is not None
        assert self._task is not None
        self._server.should_exit = True
        await self._task


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    await site.start()
    legacy_urls.pop(site.url, None)
    yield site
    await site.stop()


@contextlib.asynccontextmanager
async def client_of(site: Site, mode: str = "auto") -> AsyncIterator[Client]:
    async with Client(site.url, mode=mode) as client:
        yield client


@pytest.mark.parametrize("mode", MODES)
async def test_calls_in_every_revision(site: Site, mode: str) -> None:
    """Calls, lists, progress, errors and odd characters pass, in each revision that HTTP has (HTTP-4, LH-1, F23)."""
    heard: list[tuple[float, float | None, str | None]] = []
    async with client_of(site, mode) as client:
        assert client.revision == ("2026-07-28" if mode == "auto" else mode)
        assert [tool.name for tool in await client.list_tools()] == ["add", "report", "wait", "agent"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert (await client.call_tool("report", progress=lambda *seen: heard.append(seen))).text == "one\u2028two"
        assert heard == [(1, 2, "half")]
        assert (await client.call_tool("add", {"a": "x"})).is_error
        with pytest.raises(PeerError):
            await client.call_tool("nothing")
        assert (await client.call_tool("agent")).text == "jackfield"
        await client.ping()


@pytest.mark.parametrize("mode", MODES[:2])
async def test_many_calls_at_once(site: Site, mode: str) -> None:
    """Each of many calls at once gets its own answer (T07)."""
    async with client_of(site, mode) as client:
        results = await asyncio.gather(*[client.call_tool("add", {"a": n, "b": 1}) for n in range(400)])
    assert [result.text for result in results] == [str(n + 1) for n in range(400)]


@pytest.mark.parametrize("mode", MODES[:2])
async def test_cancellation_reaches_the_tool(site: Site, mode: str) -> None:
    """A call that times out or is given up ends the tool at the server (HTTP-7, CAN-4)."""
    async with client_of(site, mode) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("wait", timeout=0.5)
        await site.cancelled.wait()
        site.cancelled.clear()
        site.waiting.clear()
        calling = asyncio.create_task(client.call_tool("wait"))
        await site.waiting.wait()
        calling.cancel()
        await site.cancelled.wait()
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        with pytest.raises(asyncio.CancelledError):
            await calling


@pytest.mark.parametrize("mode", MODES[:2])
async def test_closing_ends_what_runs(site: Site, mode: str) -> None:
    """Closing the client fails its calls and ends the tools that served them."""
    async with client_of(site, mode) as client:
        calling = asyncio.create_task(client.call_tool("wait"))
        await site.waiting.wait()
    with pytest.raises(ConnectionClosed, match="was closed"):
        await calling
    await site.cancelled.wait()


@pytest.mark.parametrize("mode", MODES[:2])
async def test_server_that_is_restarted(site: Site, mode: str) -> None:
    """The same client goes on with the server that takes the place of the old one; a legacy one anew (F13, R02)."""
    async with client_of(site, mode) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        await site.stop()
        with pytest.raises(ConnectionClosed):
            await client.call_tool("add", {"a": 1, "b": 2})
        await site.start()
        results = await asyncio.gather(*[client.call_tool("add", {"a": n, "b": 2}) for n in range(10)])
        assert [result.text for result in results] == [str(n + 2) for n in range(10)]
