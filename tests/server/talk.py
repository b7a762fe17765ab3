"""A client's side of one conversation in this process, message by message, so that tests see just what goes over the
wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from jackfield import Server
from jackfield.transport.connection import Channel

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
REVISIONS = (MODERN, *LEGACY)
PREFIX = "io.modelcontextprotocol/"
CLIENT = {"name": "test", "version": "1"}


class Refused(Exception):
    """A JSON-RPC error that the server answered with."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['message']} ({error['code']})")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")


class Talk:
    """Stands where a client's connection would; `heard` are the notifications that came, in order."""

    name = "test"
    farewell: asyncio.Task[None] | None = None

    def __init__(self, revision: str, capabilities: dict[str, Any] | None = None) -> None:
        self.revision = revision
        self.capabilities = capabilities or {}
        self.frames: list[dict[str, Any]] = []
        self.heard: list[dict[str, Any]] = []
        self._answers: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._channel: Channel
        self._last = 0

    def on(self, channel: Channel) -> Talk:
        """Talk through this channel."""
        self._channel = channel
        return self

    def receive(self, frame: bytes) -> None:
        """Take what the server sends."""
        message = json.loads(frame)
        self.frames.append(message)
        if "method" in message:
            self.heard.append(message)
            if "id" in message:
                self._asked.put_nowait(message)
        elif not self._answers[message["id"]].done():
            self._answers[message["id"]].set_result(message)

    def lost(self, reason: object) -> None:
        """The server never hangs up first."""

    def send(self, method: str, params: dict[str, Any] | None = None, *, id: Any = None, **meta: Any) -> Any:
        """Send a request without waiting and return its id. `meta` goes into `_meta`, `log_level` under its long
        name.
        """
        if id is None:
            self._last += 1
            id = self._last
        if "log_level" in meta:
            meta[PREFIX + "logLevel"] = meta.pop("log_level")
        if self.revision == MODERN:
            meta = {
                PREFIX + "protocolVersion": MODERN,
                PREFIX + "clientInfo": CLIENT,
                PREFIX + "clientCapabilities": self.capabilities,
            } | meta
        params = dict(params or {})
        if meta:
            params["_meta"] = meta
        self._answers[id] = asyncio.get_running_loop().create_future()
        self.write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    def write(self, message: dict[str, Any]) -> None:
        """Send any message."""
        self._channel.write(json.dumps(message, ensure_ascii=False).encode())

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def cancel(self, id: Any) -> None:
        """Cancel a request."""
        self.notify("notifications/cancelled", {"requestId": id})

    async def answer(self, id: Any) -> dict[str, Any]:
        """The result of the request `id`. Raises Refused where it is an error, TimeoutError when none comes."""
        message = await asyncio.wait_for(asyncio.shield(self._answers[id]), 10)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    async def ask(self, method: str, params: dict[str, Any] | None = None, *, id: Any = None, **meta: Any) -> Any:
        """Send a request and return its result."""
        return await self.answer(self.send(method, params, id=id, **meta))

    async def call(self, name: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
        """Call a tool."""
        params = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
        return await self.ask("tools/call", params, **meta)

    async def asked(self) -> dict[str, Any]:
        """The next request that the server sends."""
        return await asyncio.wait_for(self._asked.get(), 10)

    def reply(self, question: dict[str, Any], result: dict[str, Any] | None = None, **error: Any) -> None:
        """Answer a request of the server, with a result or an error."""
        body = {"result": result} if result is not None else {"error": error}
        self.write({"jsonrpc": "2.0", "id": question["id"], **body})

    async def settled(self) -> None:
        """Let everything that can run on the server run."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def close(self) -> None:
        """End the conversation and wait until the server has ended its part."""
        self._channel.close()
        assert self.farewell is not None
        await self.farewell


@contextlib.asynccontextmanager
async def talking(
    server: Server, revision: str = MODERN, capabilities: dict[str, Any] | None = None
) -> AsyncIterator[Talk]:
    """A conversation with `server`, in a legacy revision after its handshake."""
    talk = Talk(revision, capabilities)
    await server.__mcp_connect__(talk.on)  # type: ignore[arg-type]
    try:
        if revision != MODERN:
            hello = {"protocolVersion": revision, "capabilities": talk.capabilities, "clientInfo": CLIENT}
            assert (await talk.ask("initialize", hello))["protocolVersion"] == revision
            talk.notify("notifications/initialized", {})
        yield talk
    finally:
        await talk.close()


def text_of(result: dict[str, Any]) -> str:
    """The text of a result that is one block of text."""
    (block,) = result["content"]
    return block["text"]


def progress_of(talk: Talk) -> list[dict[str, Any]]:
    """The progress reports that came, in order."""
    return [each["params"] for each in talk.heard if each["method"] == "notifications/progress"]


def logs_of(talk: Talk) -> list[dict[str, Any]]:
    """The log messages that came, in order."""
    return [each["params"] for each in talk.heard if each["method"] == "notifications/message"]
