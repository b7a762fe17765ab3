"""Conversations with the planner, message by message, so that its tests can send what no client of ours would."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any

from jackfield.servers.planner.server import server
from jackfield.transport.connection import Channel
from tests.asgi import Call, legacy, modern, session

MODERN, LEGACY = "2026-07-28", "2025-11-25"
PREFIX = "io.modelcontextprotocol/"
FORM: dict[str, Any] = {"elicitation": {"form": {}}}
META = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": FORM}
HELLO = {"protocolVersion": LEGACY, "capabilities": FORM, "clientInfo": {"name": "test", "version": "1"}}
COMMAND = [sys.executable, "-m", "jackfield", "run", "planner"]


def environment() -> dict[str, str]:
    """What a planner that is a process of its own needs: our paths, and the store that was set for the test."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


class Wire:
    """A client's side that says in either era that it can be asked; one request at a time."""

    def __init__(self, era: str) -> None:
        self.modern = era == "modern"
        self.last = 0

    async def open(self) -> None:
        """Connect, in the legacy era with its handshake."""
        raise NotImplementedError

    async def request(self, params: dict[str, Any]) -> dict[str, Any]:
        """Call a tool, and give what comes first: the answer, or a question of the server."""
        raise NotImplementedError

    async def reply(self, question: dict[str, Any], **reply: Any) -> dict[str, Any]:
        """Answer a legacy question, and give the answer of the call that it belongs to."""
        raise NotImplementedError

    async def tell(self, message: dict[str, Any]) -> None:
        """Send what has no answer."""
        raise NotImplementedError

    async def vanish(self) -> None:
        """Be gone, in the middle of whatever happens, and wait until the planner has noticed."""
        raise NotImplementedError

    async def close(self) -> None:
        """End the conversation where it has not ended yet."""

    def numbered(self, params: dict[str, Any]) -> dict[str, Any]:
        """The next call of a tool."""
        self.last += 1
        if self.modern:
            params = {**params, "_meta": META}
        return {"jsonrpc": "2.0", "id": self.last, "method": "tools/call", "params": params}


class _Channelled(Wire):
    """What in-memory channels and pipes have in common: one way in, one way out."""

    async def write(self, message: dict[str, Any]) -> None:
        raise NotImplementedError

    async def read(self) -> dict[str, Any]:
        raise NotImplementedError

    async def hello(self) -> None:
        if not self.modern:
            await self.write({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
            assert (await self.next())["result"]["protocolVersion"] == LEGACY
            await self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def next(self) -> dict[str, Any]:
        """The next message that is no notification."""
        while "id" not in (message := await asyncio.wait_for(self.read(), 20)):
            assert message["method"] == "notifications/cancelled"
        return message

    async def request(self, params: dict[str, Any]) -> dict[str, Any]:
        await self.write(self.numbered(params))
        return await self.next()

    async def reply(self, question: dict[str, Any], **reply: Any) -> dict[str, Any]:
        await self.write({"jsonrpc": "2.0", "id": question["id"], **reply})
        return await self.next()

    async def tell(self, message: dict[str, Any]) -> None:
        await self.write(message)


class InMemory(_Channelled):
    """In this process; what stands where a connection would."""

    name = "test"
    farewell: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()
        await server.__mcp_connect__(self.on)  # type: ignore[arg-type]
        await self.hello()

    def on(self, channel: Channel) -> InMemory:
        self.channel = channel
        return self

    def receive(self, frame: bytes) -> None:
        self.frames.put_nowait(frame)

    def lost(self, reason: object) -> None:
        """The planner never hangs up first."""

    async def write(self, message: dict[str, Any]) -> None:
        self.channel.write(json.dumps(message).encode())

    async def read(self) -> dict[str, Any]:
        return json.loads(await self.frames.get())

    async def vanish(self) -> None:
        self.channel.close()
        assert self.farewell is not None
        await self.farewell

    async def close(self) -> None:
        if self.farewell is None or not self.farewell.done():
            await self.vanish()


class OverStdio(_Channelled):
    """A process of its own, through a pair of pipes."""

    async def open(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self.child = await asyncio.create_subprocess_exec(*COMMAND, env=environment(), stdin=pipe, stdout=pipe)
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.stdin, self.stdout = self.child.stdin, self.child.stdout
        await self.hello()

    async def write(self, message: dict[str, Any]) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")
        await self.stdin.drain()

    async def read(self) -> dict[str, Any]:
        return json.loads(await self.stdout.readline())

    async def vanish(self) -> None:
        self.stdin.close()
        while await self.stdout.read(2**16):
            pass
        assert await asyncio.wait_for(self.child.wait(), 20) == 0

    async def close(self) -> None:
        if self.child.returncode is None:
            await self.vanish()


class OverHttp(Wire):
    """An HTTP application, without sockets."""

    async def open(self) -> None:
        self.app = server.http_app()
        self.session = "" if self.modern else await session(self.app, FORM)
        self.call: Call | None = None

    async def request(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.modern:
            params = {**params, "_meta": {PREFIX + "clientCapabilities": FORM}}
            return (await modern(self.app, "tools/call", params).end()).json
        body = json.dumps(self.numbered(params)).encode()
        self.call = call = await legacy(self.app, body, self.session).came("jsonrpc")
        return call.json if call.headers["content-type"] == "application/json" else call.events[0]

    async def reply(self, question: dict[str, Any], **reply: Any) -> dict[str, Any]:
        await self.tell({"jsonrpc": "2.0", "id": question["id"], **reply})
        assert self.call is not None
        return (await self.call.end()).events[-1]

    async def tell(self, message: dict[str, Any]) -> None:
        await legacy(self.app, json.dumps(message).encode(), self.session).end()

    async def vanish(self) -> None:
        if self.call is not None:
            self.call.hang_up()
            await self.call.end()


PLACES: dict[str, type[Wire]] = {"memory": InMemory, "stdio": OverStdio, "http": OverHttp}


@contextlib.asynccontextmanager
async def wire(place: str, era: str) -> AsyncIterator[Wire]:
    """A conversation with the planner there, in that era."""
    conversation = PLACES[place](era)
    await conversation.open()
    try:
        yield conversation
    finally:
        await conversation.close()
