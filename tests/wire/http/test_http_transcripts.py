"""Transcripts of HTTP exchanges, played against the server they name: status, headers and body of each answer."""

import asyncio
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jackfield import Server
from tests.wire.test_transcripts import agrees

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


class Exchange(NamedTuple):
    """What is sent and what must come back; `line` is where it begins in the file."""

    line: int
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: str
    status: int
    wanted: list[tuple[str, str]]
    answer: list[str]


class Transcript(NamedTuple):
    server: str
    options: dict[str, Any]
    exchanges: list[Exchange]


def read(path: Path) -> Transcript:
    """A transcript: `server:` and `options:` of the application, `always:` headers that every request has, exchanges.

    A request is `> METHOD path`, its headers (`> -name` takes one of the usual ones off), `>` and a body; its answer
    `< status`, the headers that must be there (`< -name` must not), `<` and a body: JSON, `data:` lines of a stream, or
    plain text.
    """
    server, options, always = "", {}, []
    exchanges: list[Exchange] = []
    parts: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        key, _, value = line.partition(": ")
        if key == "server":
            server = value
        elif key == "options":
            options = json.loads(value)
        elif key == "always":
            always.append(_header(value))
        elif line.startswith("> ") and re.match(r"> [A-Z]+ /", line):
            parts.append((number, [line[2:]], []))
        elif line.startswith(">"):
            parts[-1][1].append(line[2:])
        elif line.startswith("<"):
            parts[-1][2].append(line[2:])
        else:
            assert not line or line.startswith("#"), f"{path.name}:{number}: {line}"
    for number, sent, got in parts:
        head, body = _split(sent)
        wanted, answer = _split(got)
        method, where = head[0].split(" ")
        taken = {name.lower().lstrip("-") for name, _ in map(_header, head[1:])}
        headers = [pair for pair in always if pair[0].lower() not in taken]
        headers += [pair for pair in map(_header, head[1:]) if not pair[0].startswith("-")]
        status = int(wanted[0])
        exchanges.append(
            Exchange(number, method, where, headers, "\n".join(body), status, [*map(_header, wanted[1:])], answer)
        )
    return Transcript(server, options, exchanges)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(": ")
    return name, value


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    end = lines.index("") if "" in lines else len(lines)
    return lines[:end], lines[end + 1 :]


async def send(app: Any, exchange: Exchange, kept: dict[str, str]) -> tuple[int, dict[str, str], str]:
    """Play one request; `$name` stands for what an earlier answer's header was."""
    names = [(name.lower().encode(), kept.get(value, value).encode()) for name, value in exchange.headers]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": exchange.method,
        "scheme": "http",
        "path": exchange.path,
        "raw_path": exchange.path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": names,
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8000),
    }
    incoming: Iterator[dict[str, Any]] = iter(
        [{"type": "http.request", "body": exchange.body.encode("utf-8", "surrogateescape"), "more_body": False}]
    )
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        message = next(incoming, None)
        if message is None:
            await asyncio.Event().wait()  # the client stays
        assert message is not None
        return message

    async def take(message: dict[str, Any]) -> None:
        sent.append(message)

    await asyncio.wait_for(app(scope, receive, take), 10)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join([message.get("body", b"") for message in sent[1:]]).decode()


def fits(got: str, wanted: list[str]) -> bool:
    """Whether a body is what the transcript shows: JSON, the events of a stream, or text."""
    if wanted and wanted[0].startswith("data: "):
        events = [line for line in got.splitlines() if line.startswith("data:")]
        return len(events) == len(wanted) and all(
            agrees(json.loads(event[5:]), json.loads(line[6:])) for event, line in zip(events, wanted, strict=True)
        )
    text = "\n".join(wanted)
    if text.startswith("{"):
        return got.startswith("{") and agrees(json.loads(got), json.loads(text))
    return agrees(got.rstrip("\n"), text)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_an_http_transcript_comes_out(path: Path) -> None:
    """Each request gets the status, headers and body that the transcript shows (HDR-3, FT-1, LH-8, LH-12, HTTP-1)."""
    transcript = read(path)
    module, _, attribute = transcript.server.partition(":")
    server: Server = getattr(importlib.import_module(module), attribute)
    app = server.http_app(**transcript.options)
    kept: dict[str, str] = {}
    async with app.lifespan(app):
        for exchange in transcript.exchanges:
            status, headers, body = await send(app, exchange, kept)
            place = f"{path.name}:{exchange.line} {exchange.method} got {status} {headers}\n{body}"
            assert status == exchange.status, place
            for name, value in exchange.wanted:
                if name.startswith("-"):
                    assert name[1:].lower() not in headers, place
                elif value.startswith("$"):
                    kept[value] = headers[name.lower()]
                else:
                    assert agrees(headers.get(name.lower()), value), f"{place}\nwanted {name}: {value}"
            assert fits(body, exchange.answer), f"{place}\nwanted\n" + "\n".join(exchange.answer)


def test_there_are_transcripts() -> None:
    """The folder is not empty, so that the test above says something."""
    assert TRANSCRIPTS
