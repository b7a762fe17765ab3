"""Transcripts of HTTP exchanges, played against the server they name: status, headers and body of each answer."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from jackfield import Server
from tests.asgi import Call
from tests.wire.transcripts import Values, values

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
GOES_ON = "... "


class Exchange(Struct):
    """What is sent and what must come back; `line` is where it begins in the file."""

    line: int
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: str
    status: int
    wanted: list[tuple[str, str]]
    answer: list[str]
    stream: str = ""
    """The name under which the answer goes on; empty where it must have ended."""


class More(Struct):
    """What comes on a stream that was left open; whether it ends with that, or the client hangs up on it."""

    line: int
    stream: str
    answer: list[str]
    ends: bool = False
    left: bool = False


class Shutdown(Struct):
    """The server ends."""

    line: int


class Transcript(Struct):
    server: str
    options: dict[str, Any]
    definitions: list[str]
    steps: list[Exchange | More | Shutdown]


def read(path: Path) -> Transcript:
    """A transcript: `server:` and `options:` of the application, `let:` for values with a name, `always:` headers that
    every request has, and what happens.

    A request is `> METHOD path`, its headers (`> -name` takes one of the usual ones off), `>` and a body; its answer
    `< status`, the headers that must be there (`< -name` must not), `<` and a body: JSON, `data:` lines of a stream, or
    plain text. `< ... name` as the last line of a stream leaves it open; more of it is `name< data:`, its end
    `name< .`, and `name> hang up` is the client's. `the server ends` is what it says.
    """
    transcript = Transcript("", {}, [], [])
    always: list[tuple[str, str]] = []
    parts: list[tuple[int, list[str], list[str]] | More | Shutdown] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        key, _, value = line.partition(": ")
        if key == "server":
            transcript.server = value
        elif key == "options":
            transcript.options = json.loads(value)
        elif key == "let":
            transcript.definitions.append(value)
        elif key == "always":
            always.append(_header(value))
        elif line == "the server ends":
            parts.append(Shutdown(number))
        elif line.startswith("> ") and re.match(r"> [A-Z]+ /", line):
            parts.append((number, [line[2:]], []))
        elif line.startswith(("<", ">")):
            last = parts[-1]
            assert isinstance(last, tuple), f"{path.name}:{number}: {line}"
            last[1 if line.startswith(">") else 2].append(line[2:])
        elif match := re.fullmatch(r"(\w+)([<>]) (.+)", line):
            if not (isinstance(parts[-1], More) and parts[-1].stream == match[1]):
                parts.append(More(number, match[1], []))
            _go_on(parts[-1], match[2], match[3], f"{path.name}:{number}: {line}")
        else:
            assert not line or line.startswith("#"), f"{path.name}:{number}: {line}"
    transcript.steps = [part if not isinstance(part, tuple) else _exchange(*part, always) for part in parts]
    return transcript


def _go_on(more: Any, side: str, what: str, place: str) -> None:
    """Take one more line of a stream that was left open."""
    assert not more.ends, place
    assert not more.left, place
    if side == ">":
        assert what == "hang up", place
        more.left = True
    elif what == ".":
        more.ends = True
    else:
        more.answer.append(what)


def _exchange(line: int, sent: list[str], got: list[str], always: list[tuple[str, str]]) -> Exchange:
    head, body = _split(sent)
    wanted, answer = _split(got)
    method, where = head[0].split(" ")
    taken = {name.lower().lstrip("-") for name, _ in map(_header, head[1:])}
    headers = [pair for pair in always if pair[0].lower() not in taken]
    headers += [pair for pair in map(_header, head[1:]) if not pair[0].startswith("-")]
    stream = answer.pop().removeprefix(GOES_ON) if answer and answer[-1].startswith(GOES_ON) else ""
    status = int(wanted[0])
    return Exchange(line, method, where, headers, "\n".join(body), status, [*map(_header, wanted[1:])], answer, stream)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(": ")
    return name, value


def _split(lines: list[str]) -> tuple[list[str], list[str]]:
    end = lines.index("") if "" in lines else len(lines)
    return lines[:end], lines[end + 1 :]


def fits(got: str, wanted: list[str], known: Values) -> bool:
    """Whether a body is what the transcript shows: JSON, the events of a stream, or text."""
    if wanted and wanted[0].startswith("data: "):
        events = [line for line in got.splitlines() if line.startswith("data:")]
        return len(events) == len(wanted) and all(
            known.agrees(json.loads(event[5:]), json.loads(line[6:]))
            for event, line in zip(events, wanted, strict=True)
        )
    text = "\n".join(wanted)
    if text.startswith("{"):
        return got.startswith("{") and known.agrees(json.loads(got), json.loads(text))
    return known.agrees(got.rstrip("\n"), text)


class Player:
    """Plays the steps of one transcript; keeps its streams that are open, each with all that it has shown so far."""

    def __init__(self, name: str, app: Any, known: Values) -> None:
        self._name = name
        self._app = app
        self._known = known
        self._streams: dict[str, tuple[Call, list[str]]] = {}

    async def play(self, step: Exchange | More) -> None:
        """Play one step."""
        if isinstance(step, More):
            call, shown = self._streams[step.stream]
            shown += step.answer
            await self._come(call, shown, step.ends)
            assert fits(call.body.decode(), shown, self._known), self._place(step, call, shown)
            if step.left:
                call.hang_up()
                await call.end()
            if step.left or step.ends:
                assert fits(call.body.decode(), shown, self._known), self._place(step, call, shown)
                del self._streams[step.stream]
            return
        headers = [(name, self._known.fill(value).encode().decode("latin-1")) for name, value in step.headers]
        body = self._known.fill(step.body).encode("utf-8", "surrogateescape")
        call = Call(self._app, step.method, step.path, headers=headers, body=body)
        await self._come(call, step.answer, not step.stream)
        place = self._place(step, call, step.answer)
        assert call.status == step.status, place
        for name, value in step.wanted:
            if name.startswith("-"):
                assert name[1:].lower() not in call.headers, place
            else:
                assert self._known.agrees(call.headers.get(name.lower()), value), f"{place}\nwanted {name}: {value}"
        assert fits(call.body.decode(), step.answer, self._known), place
        if step.stream:
            assert step.stream not in self._streams, place
            self._streams[step.stream] = call, list(step.answer)

    def over(self) -> None:
        """Check that nothing is open any more."""
        assert not self._streams, f"{self._name}: {', '.join(self._streams)} did not end"

    async def _come(self, call: Call, wanted: list[str], whole: bool) -> None:
        """Wait for a whole answer, or for as many events of it as are wanted."""
        if whole:
            await call.end()
        else:
            await call.told(len(wanted))

    def _place(self, step: Exchange | More, call: Call, wanted: list[str]) -> str:
        got = f"{call.status} {call.headers}\n{call.body.decode()}"
        return f"{self._name}:{step.line} got {got}\nwanted\n" + "\n".join(wanted)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_an_http_transcript_comes_out(path: Path) -> None:
    """Each request gets the status, headers and body that the transcript shows, in one piece or as things happen
    (HDR-3, FT-1, LH-1, LH-2, LH-8, LH-12, HTTP-1, HTTP-5, HTTP-7, MR-9, SUB-2, SUB-5).
    """
    transcript = read(path)
    module, _, attribute = transcript.server.partition(":")
    server: Server = getattr(importlib.import_module(module), attribute)
    app = server.http_app(**transcript.options)
    async with contextlib.AsyncExitStack() as life:
        await life.enter_async_context(app.lifespan(app))
        player = Player(path.name, app, values(transcript.definitions))
        for step in transcript.steps:
            if isinstance(step, Shutdown):
                app.closing()
            else:
                await player.play(step)
        player.over()
        await asyncio.sleep(0)


def test_there_are_transcripts() -> None:
    """The folder is not empty, so that the test above says something."""
    assert TRANSCRIPTS
