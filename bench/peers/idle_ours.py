"""What idle legacy sessions of our HTTP app hold: `idle_ours.py BEFORE COUNT` prints the bytes of COUNT more."""

import asyncio
import gc
import json
import sys
import tracemalloc
from typing import Any

from server_ours import server

HEADERS = {
    "host": "127.0.0.1",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
CLIENT = {"name": "bench", "version": "1.0.0"}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}


async def post(app: Any, message: dict[str, Any], headers: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Send one message; the status and the headers of the answer."""
    body = json.dumps(message).encode()
    sent: list[dict[str, Any]] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return waiting.pop() if waiting else {"type": "http.disconnect"}

    async def send(event: dict[str, Any]) -> None:
        sent.append(event)

    head = {**HEADERS, "content-length": str(len(body)), **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in head.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    return sent[0]["status"], {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}


async def open_sessions(app: Any, count: int) -> None:
    """Begin so many sessions, as far as a client does before its first request."""
    for _ in range(count):
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}
        status, headers = await post(app, message, {})
        assert status == 200, status
        more = {"mcp-session-id": headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        status, _ = await post(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}, more)
        assert status == 202, status


async def main(before: int, count: int) -> None:
    """Fill, count, fill, count."""
    app = server.http_app()
    await open_sessions(app, before)
    tracemalloc.start()
    await open_sessions(app, 1)
    gc.collect()
    start, _ = tracemalloc.get_traced_memory()
    await open_sessions(app, count)
    gc.collect()
    end, _ = tracemalloc.get_traced_memory()
    print(json.dumps({"bytes": end - start}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
