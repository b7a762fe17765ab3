"""Client and server of this project together: changes are heard in both eras, wherever they can be told."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import uvicorn

import jackfield
from jackfield.client.client import Client
from jackfield.client.era_http import legacy_urls
from jackfield.client.events import Choice
from jackfield.client.listening import Listening
from jackfield.protocol.events import Event
from jackfield.protocol.revisions import REVISIONS
from jackfield.server.server import Server
from jackfield.transport.process import Stdio
from tests.client.listens import PROMPTS, TOOLS, no_waits, take

MODES = pytest.mark.parametrize("mode", ["auto", *[revision.name for revision in REVISIONS]])
NOTE = Event("resource", "note://a")


def noting() -> Server:
    """A server with a little of everything; its tool `change` tells of the note `a`."""
    server = Server("noting")

    @server.resource("note://{name}")
    def note(name: str) -> str:
        return name

    @server.prompt
    def ask() -> str:
        return "?"

    @server.tool
    async def change() -> str:
        server.notify_resource_updated("note://a")
        return "changed"

    return server


@contextlib.asynccontextmanager
async def served(server: Server) -> AsyncIterator[str]:
    """The server over HTTP; its URL."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    web = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="warning", lifespan="on"))
    task = asyncio.create_task(web.serve([listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    legacy_urls.pop(url, None)
    try:
        yield url
    finally:
        web.should_exit = True
        await task


async def check(server: Server, events: Listening) -> None:
    """Whether all that the server tells is heard."""
    assert events.acknowledged == Choice(tools=True, prompts=True, resources=True, uris=("note://a",))
    server.notify_resource_updated("note://b")
    server.notify_resource_updated("note://a/x")
    server.add_tool(lambda: "", name="other")
    server.notify_prompts_changed()
    assert await take(events, 3) == [Event("resource", "note://a/x"), TOOLS, PROMPTS]


@MODES
async def test_in_memory(mode: str) -> None:
    """In one process, in every revision (SUB-1 to SUB-4, RSC-6, TOOL-11)."""
    server = noting()
    async with Client(server, mode=mode) as client:
        async with client.listen(tools=True, prompts=True, resources=True, uris=["note://a"]) as events:
            await check(server, events)


async def test_over_http() -> None:
    """Over HTTP, on the modern wire (SUB-1 to SUB-4)."""
    server = noting()
    async with served(server) as url, Client(url) as client:
        async with client.listen(tools=True, prompts=True, resources=True, uris=["note://a"]) as events:
            await check(server, events)


NOTING = """
import os, signal
from jackfield import Server
server = Server("noting")
@server.resource("note://{name}")
def note(name: str) -> str:
    return name
@server.tool
async def change(times: int) -> str:
    for _ in range(times):
        server.notify_resource_updated("note://a")
    return "changed"
@server.tool
async def pid() -> str:
    return str(os.getpid())
@server.tool
async def leave() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
server.run()
"""


def process() -> Stdio:
    source = str(Path(jackfield.__file__).parent.parent)
    return Stdio(sys.executable, "-c", NOTING, env={"PYTHONPATH": source})


@MODES
async def test_over_a_pipe(mode: str) -> None:
    """Over stdio, in every revision; what is told while calls go on comes to those who listen (STDIO-5)."""
    async with Client(process(), mode=mode) as client, client.listen(uris=["note://a"]) as events:
        for times in (1, 200, 1):
            assert (await client.call_tool("change", {"times": times})).text == "changed"
            assert await take(events, 1) == [NOTE]


@MODES
async def test_a_burst(mode: str) -> None:
    """200 changes at once are heard twice at most: then, and once more (R05)."""
    server = noting()
    heard = 0
    async with Client(server, mode=mode) as client, client.listen(prompts=True, uris=["note://a"]) as events:
        for _ in range(200):
            server.notify_resource_updated("note://a")
            await asyncio.sleep(0)
        server.notify_prompts_changed()
        while await anext(events) == NOTE:
            heard += 1
    assert 1 <= heard <= 2


@MODES
async def test_what_changed_is_asked_for_anew(mode: str) -> None:
    """Whoever asks again after an event is given what is there now, whatever was kept (CCH-5)."""
    server = noting()
    async with Client(server, mode=mode) as client, client.listen(tools=True) as events:
        assert [tool.name for tool in await client.list_tools()] == ["change"]
        server.add_tool(lambda: "", name="other")
        assert await take(events, 1) == [TOOLS]
        assert [tool.name for tool in await client.list_tools()] == ["change", "other"]


@MODES
async def test_on_list_changed(mode: str) -> None:
    """The callback is told in every revision, once for each change (F80, TOOL-11)."""
    server = noting()
    heard: asyncio.Queue[str] = asyncio.Queue()
    async with Client(server, mode=mode, on_list_changed=heard.put_nowait) as client:
        await client.list_tools()
        server.add_tool(lambda: "", name="other")
        assert await heard.get() == "tools"
        async with client.listen() as events:
            server.notify_prompts_changed()
            assert await take(events, 1) == [PROMPTS]
        assert await heard.get() == "prompts"
        assert heard.empty()


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_server_that_ends(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is ended is started again for those who listen; they hear that all may have changed (SUB-8)."""
    waits = no_waits(monkeypatch)
    async with Client(process(), mode=mode) as client, client.listen(uris=["note://a"]) as events:
        first = (await client.call_tool("pid")).text
        ending = asyncio.ensure_future(client.call_tool("leave"))
        assert await take(events, 1) == [NOTE]
        await asyncio.wait([ending])
        _ = ending.exception()  # whether the answer was still sent says nothing here
        assert (await client.call_tool("pid")).text != first
        await client.call_tool("change", {"times": 1})
        assert await take(events, 1) == [NOTE]
    assert waits[0] == 0.0
