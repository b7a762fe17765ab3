"""A client's side of one HTTP exchange with an ASGI application, without sockets, so that tests see what goes over the
wire.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
USUAL = {
    "host": "127.0.0.1:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}


class Call:
    """One request, sent as soon as it is made. `body` may be given in pieces; the client stays until it hangs up."""

    def __init__(
        self,
        app: Any,
        method: str = "POST",
        path: str = "/mcp",
        *,
        headers: Any = (),
        body: bytes | Sequence[bytes] = b"",
        root_path: str = "",
    ) -> None:
        pairs = headers.items() if isinstance(headers, dict) else headers
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "root_path": root_path,
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs],
        }
        self.pieces = [body] if isinstance(body, bytes) else list(body)
        self.taken = 0
        """How many pieces of the body the application has read."""
        self.messages: list[Any] = []
        self._left = asyncio.Event()
        self._reads = asyncio.Event()
        self._reads.set()
        self._came = asyncio.Event()
        self.task = asyncio.get_running_loop().create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self.taken < len(self.pieces):
            self.taken += 1
            piece, more = self.pieces[self.taken - 1], self.taken < len(self.pieces)
            return {"type": "http.request", "body": piece, "more_body": more}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        await self._reads.wait()
        assert not self.ended, "sent after the end"
        assert (message["type"] == "http.response.start") == (not self.messages), "head and body in their order"
        self.messages.append(message)
        self._came.set()

    def hang_up(self) -> None:
        """Close the connection."""
        self._left.set()

    def stall(self) -> None:
        """Read nothing until `read` is called."""
        self._reads.clear()

    def read(self) -> None:
        """Read again."""
        self._reads.set()

    @property
    def ended(self) -> bool:
        """Whether the answer has come to its proper end."""
        return len(self.messages) > 1 and not self.messages[-1].get("more_body", False)

    @property
    def status(self) -> int:
        """The answer's status."""
        return self.messages[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        """The answer's headers, with lower-case names."""
        return {name.decode().lower(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        """What has come of the answer's body."""
        return b"".join(message.get("body", b"") for message in self.messages[1:])

    @property
    def json(self) -> Any:
        """The body as JSON."""
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The messages that came on the stream so far."""
        assert self.headers["content-type"] == "text/event-stream"
        lines = self.body.decode().split("\n")
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]

    async def came(self, wanted: str = "") -> Call:
        """Wait until something with `wanted` in it has come (or anything at all, the head included)."""
        async with asyncio.timeout(10):
            while not self.messages or wanted.encode() not in self.body:
                self._came.clear()
                await self._came.wait()
        return self

    async def told(self, count: int) -> Call:
        """Wait until so many messages have come on the stream."""
        async with asyncio.timeout(10):
            while not self.messages or len(self.events) < count:
                self._came.clear()
                await self._came.wait()
        return self

    async def end(self) -> Call:
        """Wait until the application has done with the request."""
        async with asyncio.timeout(10):
            await asyncio.wait([self.task])
        await self.task
        return self


def message(method: str, params: Any = None, id: Any = 1) -> bytes:
    """A request, or with None as its id a notification."""
    made: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method, "params": {} if params is None else params}
    if id is None:
        del made["id"]
    return json.dumps(made).encode()


def meta(**more: Any) -> dict[str, Any]:
    """What a modern request says about itself."""
    return {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}} | more


def modern(app: Any, method: str, params: dict[str, Any] | None = None, *, id: Any = 1, **headers: str | None) -> Call:
    """Send a modern request. Headers by name, `_` for `-`; None leaves a usual one out."""
    params = dict(params or {})
    given = params.pop("_meta", {})
    name = params.get("name") or params.get("uri")
    usual = USUAL | {"mcp-protocol-version": MODERN, "mcp-method": method}
    if name is not None:
        usual["mcp-name"] = name
    body = message(method, params | {"_meta": meta(**given)}, id)
    return Call(app, headers=changed(usual, headers), body=body)


def tool(app: Any, name: str, arguments: Any = None, *, id: Any = 1, token: Any = None, **headers: str | None) -> Call:
    """Call a tool as a modern client; with `token` it asks for progress."""
    params: dict[str, Any] = {"name": name, "arguments": arguments or {}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return modern(app, "tools/call", params, id=id, **headers)


def legacy(app: Any, body: bytes, session: str | None = None, **headers: str | None) -> Call:
    """Send a message as a client of 2025-11-25."""
    usual = USUAL | {"mcp-protocol-version": "2025-11-25"}
    if session is not None:
        usual["mcp-session-id"] = session
    return Call(app, headers=changed(usual, headers), body=body)


def changed(usual: dict[str, str], headers: dict[str, str | None]) -> dict[str, str]:
    """Headers with others in their place."""
    usual = usual | {name.replace("_", "-"): value for name, value in headers.items()}  # type: ignore[operator]
    return {name: value for name, value in usual.items() if value is not None}


HELLO = message(
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    0,
)


async def session(app: Any, capabilities: dict[str, Any] | None = None, **headers: str | None) -> str:
    """The id of a new session, after its handshake."""
    hello = HELLO
    if capabilities is not None:
        params = json.loads(HELLO)["params"] | {"capabilities": capabilities}
        hello = message("initialize", params, 0)
    call = await Call(app, headers=changed(USUAL, headers), body=hello).end()
    id = call.headers["mcp-session-id"]
    done = await legacy(app, message("notifications/initialized", id=None), id, **headers).end()
    assert done.status == 202
    return id


async def settled() -> None:
    """Let everything that can run, run."""
    for _ in range(20):
        await asyncio.sleep(0)
