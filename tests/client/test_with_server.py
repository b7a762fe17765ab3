"""Client and server of this project together, as a user's own tests would have them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import jackfield
from jackfield import Client, ConnectionClosed, Context, Server, Stdio, ToolError
from jackfield.protocol.revisions import REVISIONS

MODES = pytest.mark.parametrize("mode", ["auto", "modern", "legacy", *[revision.name for revision in REVISIONS]])


SOURCE = str(Path(jackfield.__file__).parent.parent)

WAITING = """
import asyncio, signal, sys
from jackfield import Server
server, signals = Server("waiting"), []
@server.tool
async def wait() -> str:
    print("waiting", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: signals.append(1))
    try:
        await asyncio.Event().wait()
    finally:
        print("stopped", file=sys.stderr, flush=True)
server.run()
print(f"ended: {len(signals)} signals", file=sys.stderr, flush=True)
"""
"""A server that tells what happens to its one tool, and how it ends."""


class Events(list[str]):
    """What happens in a server."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = asyncio.Event()


def small() -> tuple[Server, Events]:
    """A small server, and what happens in it."""
    events = Events()

    @asynccontextmanager
    async def lifespan(_: Server) -> AsyncIterator[str]:
        events.append("begin")
        yield "state"
        events.append("end")

    server = Server("small", version="1", instructions="Add things.", lifespan=lifespan, page_size=2)

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    async def work(ctx: Context, steps: int) -> str:
        """Work step by step."""
        for step in range(1, steps + 1):
            await ctx.report_progress(step, steps)
            await ctx.info(f"step {step}")
        return f"done in {ctx.state}"

    @server.tool
    async def fail() -> str:
        """Never succeed."""
        raise ToolError("as I said")

    @server.tool
    async def wait() -> str:
        """Wait for ever."""
        events.append("waiting")
        events.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("stopped")
        return ""

    @server.resource("note://{name}", mime_type="text/plain")
    async def note(name: str) -> str:
        """A note."""
        return f"note {name}"

    @server.prompt
    async def total(numbers: list[int]) -> str:
        """Ask for a total."""
        return f"The total is {sum(numbers)}"

    return server, events


@MODES
async def test_everything_in_every_revision(mode: str) -> None:
    """One server and one client talk in each revision, and the user sees no difference."""
    server, events = small()
    logs: list[Any] = []
    steps: list[Any] = []
    async with Client(server, mode=mode, on_log=lambda *values: logs.append(values)) as client:
        assert client.revision == {"auto": "2026-07-28", "modern": "2026-07-28", "legacy": "2025-11-25"}.get(mode, mode)
        assert client.server is not None
        assert client.server.name == "small"
        assert client.instructions == "Add things."
        assert [tool.name for tool in await client.list_tools()] == ["add", "work", "fail", "wait"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        result = await client.call_tool("work", {"steps": 2}, progress=lambda *values: steps.append(values[:2]))
        assert result.text == "done in state"
        result = await client.call_tool("fail")
        assert (result.is_error, result.text) == (True, "as I said")
        assert [template.uri_template for template in await client.list_resource_templates()] == ["note://{name}"]
        assert (await client.read_resource("note://x")).contents[0].text == "note x"
        assert (await client.get_prompt("total", {"numbers": [1, 2]})).messages[0].content.text == "The total is 3"
        await client.ping()
    assert steps == [(1, 2), (2, 2)]
    assert [data for _, _, data in logs] == ["step 1", "step 2"]
    assert events == ["begin", "end"]


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_giving_up_stops_the_tool(mode: str) -> None:
    """A caller who gives up stops the tool at the server (CAN-3, F39)."""
    server, events = small()
    async with Client(server, mode=mode) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await client.call_tool("wait")
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert events == ["begin", "waiting", "stopped", "end"]


async def test_closing_during_a_call() -> None:
    """Closing the client stops what runs for it, and the server's life ends before `close` returns (F12)."""
    server, events = small()
    client = Client(server)
    await client.connect()
    call = asyncio.create_task(client.call_tool("wait"))
    await events.waiting.wait()
    await client.close()
    assert events == ["begin", "waiting", "stopped", "end"]
    with pytest.raises(Exception, match="was closed"):
        await call


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_closing_a_process_during_a_call(mode: str, tmp_path: Path) -> None:
    """A server process with an async call under way stops it and ends by itself when the client closes (F12)."""
    file = tmp_path / "waiting.py"
    file.write_text(WAITING)
    said: list[str] = []
    begun = asyncio.Event()

    def hear(line: str) -> None:
        said.append(line)
        begun.set()

    client = Client(Stdio(sys.executable, file, env={"PYTHONPATH": SOURCE}, stderr=hear), mode=mode)
    await client.connect()
    call = asyncio.create_task(client.call_tool("wait"))
    await begun.wait()
    await client.close()
    assert said == ["waiting", "stopped", "ended: 0 signals"]
    with pytest.raises(ConnectionClosed, match="was closed"):
        await call


async def test_two_clients_of_one_server() -> None:
    """Clients of both eras share a server; its life ends with the last of them."""
    server, events = small()
    async with Client(server, mode="legacy") as one:
        async with Client(server, mode="modern") as other:
            assert one.revision != other.revision
        assert events == ["begin"]
        assert (await one.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert events == ["begin", "end"]
