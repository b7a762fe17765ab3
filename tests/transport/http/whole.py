"""Raw calls to a whole server process over HTTP, as a client of 2026-07-28 makes them."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.transport.talk import META, PATIENCE, Talk

SERVER = str(Path(__file__).parent / "serve_server.py")
ANNOUNCED = re.compile(r"jackfield: serving whole at http://127\.0\.0\.1:(\d+)/mcp")


def started(limits: dict[str, Any] | None = None, **options: Any) -> Talk:
    """A process that serves."""
    return Talk([sys.executable, SERVER, json.dumps(options)], limits=limits)


def port_of(talk: Talk) -> int:
    """The port that a process has announced."""
    talk.until(lambda lines: any(ANNOUNCED.fullmatch(line) for line in lines))
    [found] = [match for line in talk.stderr if (match := ANNOUNCED.fullmatch(line))]
    return int(found[1])


@contextlib.contextmanager
def calling(port: int, tool: str) -> Iterator[http.client.HTTPConnection]:
    """A connection that has sent a call."""
    params = {"name": tool, "arguments": {}, "_meta": {**META, "progressToken": 7}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("POST", "/mcp", body, headers)
        yield connection


def called(port: int, tool: str) -> str:
    """The text of a tool's answer, which comes as JSON."""
    with calling(port, tool) as connection:
        answer = connection.getresponse()
        assert answer.status == 200
        return json.loads(answer.read())["result"]["content"][0]["text"]


def event(answer: http.client.HTTPResponse) -> dict[str, Any]:
    """The next message of a stream."""
    while line := answer.readline():
        if line.startswith(b"data: "):
            assert answer.readline() == b"\n"
            return json.loads(line[6:])
    raise AssertionError("the stream has ended")
