"""A server in this process whose every word is scripted, for what no decent server does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from jackfield.protocol.errors import ConnectionClosed
from jackfield.transport.connection import Channel, Connection

INFO = {"name": "fake", "version": "1"}
EVERYTHING = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}}
DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": EVERYTHING,
    "instructions": "Be kind.",
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
}
INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": EVERYTHING,
    "serverInfo": INFO,
    "instructions": "Be kind.",
}


class Fault(Exception):
    """Answer with this JSON-RPC error."""

    def __init__(self, code: int, message: str = "no", data: Any = None) -> None:
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Fake:
    """Answers each method with what `answers` has for it.

    That is a result, a `Fault` (-32601 where there is nothing), SILENT, EXIT, raw bytes to say instead, or a function
    that is given the message and returns one of these. `heard` holds every message that came, over all connections;
    `say` sends whatever it is given.
    """

    SILENT = object()
    EXIT = object()
    name = "fake"
    full = False
    longest = 2**24

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.heard: list[dict[str, Any]] = []
        self.starts = 0
        self.ends = 0
        self.asks = 0
        self._open = False
        self.connection: Connection | None = None
        self._waiting: list[tuple[Callable[[], bool], asyncio.Event]] = []

    async def __mcp_connect__(self, make: Callable[[Channel], Connection]) -> Connection:
        self.starts += 1
        self._open = True
        self.connection = make(self)
        return self.connection

    # ---- the channel that the client writes to

    def write(self, frame: bytes) -> None:
        message = msgspec.json.decode(frame) if frame else {}
        self.heard.append(message)
        for reached, event in self._waiting:
            if reached():
                event.set()
        if "id" in message and "method" in message:
            asyncio.get_running_loop().call_soon(self._answer, self.connection, message)

    async def drained(self) -> None:
        pass

    def close(self) -> None:
        self.ends += self._open
        self._open = False

    # ---- the server's side

    def _answer(self, connection: Connection, message: dict[str, Any]) -> None:
        if connection.closed is not None:
            return
        answer = self.answers.get(message["method"], Fault(-32601, "method not found"))
        if callable(answer):
            answer = answer(message)
        if answer is self.SILENT:
            return
        if answer is self.EXIT:
            connection.lost(ConnectionClosed("fake ended with exit code 1", exit_code=1))
        elif isinstance(answer, bytes):
            connection.receive(answer)
        elif isinstance(answer, Fault):
            self.say({"id": message["id"], "error": answer.error}, connection)
        else:
            self.say({"id": message["id"], "result": answer}, connection)

    def say(self, message: dict[str, Any] | bytes, connection: Connection | None = None) -> None:
        """Send a message, or a line that need not be one."""
        target = connection or self.connection
        assert target is not None
        target.receive(message if isinstance(message, bytes) else msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.say({"method": method, "params": params or {}})

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """Send a request, as a legacy server does, and return the client's answer: its `result` or `error`."""
        self.asks += 1
        id = f"ask-{self.asks}"
        self.say({"id": id, "method": method, "params": params or {}})
        await self.until(lambda: bool(self.heard) and self.answer_to(id) is not None)
        answer = self.answer_to(id)
        assert answer is not None
        return answer

    def answer_to(self, id: str) -> dict[str, Any] | None:
        """The client's answer to the request with that id; None while there is none."""
        return next((message for message in self.heard if message.get("id") == id and "method" not in message), None)

    def methods(self) -> list[str]:
        """The methods that came, in order."""
        return [message["method"] for message in self.heard if "method" in message]

    def asked(self, method: str) -> list[dict[str, Any]]:
        """The params of each message of that method."""
        return [message.get("params", {}) for message in self.heard if message.get("method") == method]

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait for the message that makes `reached` true."""
        if not reached():
            event = asyncio.Event()
            entry = (reached, event)
            self._waiting.append(entry)
            with contextlib.suppress(ValueError):
                await event.wait()
                self._waiting.remove(entry)


def modern(**answers: Any) -> Fake:
    """A modern server; `tools_call=...` is its answer to tools/call."""
    return Fake({"server/discover": DISCOVERED} | {key.replace("__", "/"): value for key, value in answers.items()})


def legacy(**answers: Any) -> Fake:
    """A legacy server, which knows nothing of `server/discover`."""
    methods = {key.replace("__", "/"): value for key, value in answers.items()}
    return Fake({"initialize": INITIALIZED, "ping": {}} | methods)


def text_result(text: str, **more: Any) -> dict[str, Any]:
    """The result of a tool that says something, for both eras."""
    return {"content": [{"type": "text", "text": text}], "resultType": "complete"} | more


def form(message: str = "Sure?", required: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    """The params of `elicitation/create` for a form; without fields it has one, the yes or no `sure`."""
    schema = {"type": "object", "properties": fields or {"sure": {"type": "boolean"}}, "required": required or []}
    return {"message": message, "requestedSchema": schema}


def page(url: str = "https://example.com/pay", **more: Any) -> dict[str, Any]:
    """The params of `elicitation/create` for a page to visit."""
    return {"mode": "url", "message": "Pay", "url": url, **more}


def sample(text: str = "Hi", **more: Any) -> dict[str, Any]:
    """The params of `sampling/createMessage`."""
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 9, **more}


def asks(state: str | None = None, **questions: tuple[str, Any]) -> dict[str, Any]:
    """The answer to a modern request that needs answers first; each question is a method and its params or None."""
    requests = {
        key: {"method": method} | ({} if params is None else {"params": params})
        for key, (method, params) in questions.items()
    }
    result: dict[str, Any] = {"resultType": "input_required"}
    return (
        result | ({"inputRequests": requests} if requests else {}) | ({} if state is None else {"requestState": state})
    )
