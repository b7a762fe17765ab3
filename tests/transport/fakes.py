"""What tests of connections need: a channel that keeps what was sent, handlers that wait, frames, turns of the loop."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from jackfield.protocol.jsonrpc import Answer, Id, Request, encode
from jackfield.protocol.limits import Limits
from jackfield.transport.connection import Connection

OPEN: list[Connection] = []
"""The connections that `served` made, for a fixture to end."""


class FakeChannel:
    """Keeps what is sent; full and empty again at a word."""

    def __init__(self) -> None:
        self.full = False
        self.longest = 2**24
        self.sent: list[dict[str, Any]] = []
        self._room = asyncio.Event()

    def write(self, frame: bytes) -> None:
        assert b"\n" not in frame
        self.sent.append(json.loads(frame))

    async def drained(self) -> None:
        while self.full:
            await self._room.wait()

    def close(self) -> None:
        self.empty()

    def fill(self) -> None:
        """The peer reads no more."""
        self.full = True
        self._room.clear()

    def empty(self) -> None:
        """The peer has read everything."""
        self.full = False
        self._room.set()

    def answers(self, id: Id | None = None) -> list[dict[str, Any]]:
        """The answers that were sent, to the request `id` or to all."""
        found = [message for message in self.sent if "method" not in message]
        if id is None:
            return found
        return [message for message in found if message.get("id") == id and type(message.get("id")) is type(id)]

    def codes(self) -> list[int]:
        """The codes of all errors that were sent."""
        return [message["error"]["code"] for message in self.answers() if "error" in message]

    def notices(self, method: str) -> list[Any]:
        """The params of the notifications of that method that were sent."""
        return [message["params"] for message in self.sent if message.get("method") == method]


class Desk:
    """Serves requests: `ping` at once, each other one when it is told to, and remembers what became of it."""

    def __init__(self) -> None:
        self.started: list[Id] = []
        self.cancelled: list[Id] = []
        self.stubborn: set[Id] = set()
        """Whose handlers ignore their first cancellation (not the second, which ends a test)."""
        self.open: dict[Id, asyncio.Future[bytes]] = {}

    async def serve(self, request: Request, connection: Connection) -> bytes:
        if request.method == "ping":
            return encode(Answer(request.id, {}))
        self.started.append(request.id)
        result = self.open[request.id] = asyncio.get_running_loop().create_future()
        while True:
            try:
                return await asyncio.shield(result)
            except asyncio.CancelledError:
                self.cancelled.append(request.id)
                if request.id not in self.stubborn or self.cancelled.count(request.id) > 1:
                    raise

    def finish(self, id: Id, result: Any = "done") -> None:
        """Let the handler of `id` return."""
        self.open.pop(id).set_result(encode(Answer(id, result)))

    def fail(self, id: Id, error: BaseException) -> None:
        """Let the handler of `id` raise."""
        self.open.pop(id).set_exception(error)


def served(limits: Limits | None = None) -> tuple[Connection, FakeChannel, Desk]:
    """A server's side of a conversation."""
    channel, desk = FakeChannel(), Desk()
    connection = Connection(channel, serve=desk.serve, limits=limits, name="client")
    OPEN.append(connection)
    return connection, channel, desk


def request(id: Any, method: str = "work", **params: Any) -> bytes:
    """A request's frame."""
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def notification(method: str, **params: Any) -> bytes:
    """A notification's frame."""
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def cancel(id: Any) -> bytes:
    """The frame that cancels `id`."""
    return notification("notifications/cancelled", requestId=id)


def answer(id: Any, result: Any = None) -> bytes:
    """An answer's frame."""
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()


def error(id: Any, code: int = -32000, message: str = "no") -> bytes:
    """An error's frame; without an id if that is None."""
    said: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
    if id is None:
        del said["id"]
    return json.dumps(said).encode()


async def settle() -> None:
    """Let everything happen that needs no time to pass."""
    for _ in range(20):
        await asyncio.sleep(0)
