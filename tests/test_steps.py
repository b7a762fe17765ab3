"""How many Python frames one tools/call takes from the bytes read to the bytes written."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from jackfield import Server
from jackfield.transport import stdio

SOURCE = str(Path(sys.modules["jackfield"].__file__ or "").parent)
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def call(number: int, meta: dict[str, object] | None) -> bytes:
    params: dict[str, object] = {"name": "add", "arguments": {"a": number, "b": 2}}
    if meta is not None:
        params["_meta"] = meta
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}).encode() + b"\n"


INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"test","version":"1"}}}\n'
)


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_call_over_stdio_takes_at_most_twelve_steps(era: str) -> None:
    """From read to write an async tool on two ints costs at most 12 frames of ours, resumptions counted."""
    server = Server("steps")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    os.set_blocking(in_read, False)
    os.set_blocking(out_write, False)
    steps: list[str] = []

    def count(frame, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            steps.append(frame.f_code.co_qualname)

    answers: asyncio.Queue[bytes] = asyncio.Queue()
    asyncio.get_running_loop().add_reader(out_read, lambda: answers.put_nowait(os.read(out_read, 65536)))

    async def ask(message: bytes) -> bytes:
        os.write(in_write, message)
        return await answers.get()

    serving = asyncio.create_task(server._serve_stdio(stdio.Descriptors(in_read, out_write)))
    await ask(INITIALIZE if era == "legacy" else call(1, META))
    sys.setprofile(count)
    try:
        got = await ask(call(40, META if era == "modern" else None))
    finally:
        sys.setprofile(None)
    asyncio.get_running_loop().remove_reader(out_read)
    os.close(in_write)
    await serving
    os.close(out_read)
    assert json.loads(got)["result"]["content"][0]["text"] == "42"
    assert 5 < len(steps) <= 12, "\n".join(steps)


async def test_a_modern_call_over_http_takes_at_most_twelve_steps() -> None:
    """From the ASGI call to the answer handed over an async tool on two ints costs at most 12 frames of ours."""
    server = Server("steps")

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    body = call(40, META).strip()
    headers = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "add",
    }
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    steps: list[str] = []
    sent: list[dict[str, object]] = []

    def count(frame, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            steps.append(frame.f_code.co_qualname)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    app = server.http_app()
    async with app.lifespan(app):
        await app(scope, receive, send)
        sent.clear()
        sys.setprofile(count)
        try:
            await app(scope, receive, send)
        finally:
            sys.setprofile(None)
    assert json.loads(sent[1]["body"])["result"]["content"][0]["text"] == "42"
    assert 5 < len(steps) <= 12, "\n".join(steps)
