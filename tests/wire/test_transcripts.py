"""Transcripts of real exchanges, played against the server they name: in memory and through a pair of pipes."""

import asyncio
import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from jackfield import Server
from tests import requirements
from tests.wire.transcripts import Values, values

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
END = "(the end of the input)"


class Transcript(NamedTuple):
    server: str
    definitions: list[str]
    exchanges: list[tuple[str, list[str]]]


def read(path: Path) -> Transcript:
    """The server's name, the values that have a name from the start, and each line sent with the lines that must come
    before the next one is. `> (the end of the input)` is the last thing that a client on stdio does.
    """
    transcript = Transcript("", [], [])
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("server: "):
            transcript = transcript._replace(server=line.removeprefix("server: "))
        elif line.startswith("let: "):
            transcript.definitions.append(line.removeprefix("let: "))
        elif line.startswith("> "):
            transcript.exchanges.append((line[2:], []))
        elif line.startswith("< "):
            transcript.exchanges[-1][1].append(line[2:])
        else:
            assert not line or line.startswith("#"), f"{path.name}: {line}"
    return transcript


def check(known: Values, sent: str, got: bytes, wanted: str) -> None:
    """Compare what came after `sent` with the line of the transcript."""
    assert known.agrees(json.loads(got), json.loads(wanted)), f"{sent}\n  got    {got.decode()}\n  wanted {wanted}"


class Recorder:
    """Stands where a client's connection would: keeps the frames that the server sends."""

    name = "recorder"
    farewell: asyncio.Task[None] | None = None

    def __init__(self) -> None:
        self.frames: asyncio.Queue[bytes] = asyncio.Queue()

    def receive(self, frame: bytes) -> None:
        self.frames.put_nowait(frame)

    def lost(self, reason: object) -> None:
        """The server never hangs up first."""


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
async def test_a_transcript_comes_out_in_memory(path: Path) -> None:
    """Each line sent is followed by just the lines that the transcript shows, in memory: answers, and what the server
    asks and tells (LIFE-2, META-8, BASE-2, BASE-6, STDIO-10, MR-1, MR-6, ELC-8, SUB-3, META-7).

    There the end of the input is the end of everything: what comes after it is for the transcript's other test.
    """
    name, definitions, exchanges = read(path)
    known = values(definitions)
    module, _, attribute = name.partition(":")
    server: Server = getattr(importlib.import_module(module), attribute)
    recorder, channels = Recorder(), []

    def make(channel):
        channels.append(channel)
        return recorder

    await server.__mcp_connect__(make)
    for sent, answers in exchanges:
        if sent == END:
            break
        channels[0].write(known.fill(sent).encode())
        for wanted in answers:
            check(known, sent, await asyncio.wait_for(recorder.frames.get(), 5), wanted)
    await asyncio.sleep(0)
    assert recorder.frames.empty()
    channels[0].close()
    assert recorder.farewell is not None
    await recorder.farewell


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_comes_out_over_stdio(path: Path) -> None:
    """The same through a pair of pipes; the end of input ends the server with exit code 0 (STDIO-1, STDIO-6)."""
    name, definitions, exchanges = read(path)
    known = values(definitions)
    command = [sys.executable, "-m", "jackfield", "run", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for sent, answers in exchanges:
            if sent == END:
                process.stdin.close()
            else:
                process.stdin.write(known.fill(sent).encode() + b"\n")
                process.stdin.flush()
            for wanted in answers:
                check(known, sent, process.stdout.readline(), wanted)
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(10) == 0


def test_reasons_name_requirements_that_there_are() -> None:
    """Each id in a comment of a transcript, over HTTP too, is one of the table's."""
    known = tomllib.loads(requirements.TABLE.read_text("utf-8"))["requirements"].keys()
    named: set[str] = set()
    for path in Path(__file__).parent.rglob("*.txt"):
        reasons = [line for line in path.read_text("utf-8").splitlines() if line.startswith("#")]
        found = set(requirements.ID.findall("\n".join(reasons)))
        assert found <= known, f"{path.name}: {found - known}"
        named |= found
    assert {"MR-6", "SUB-3", "ELC-8", "LH-1"} <= named


def test_a_name_stands_for_one_value() -> None:
    """What a name stood for first it stands for from then on, in its own JSON type, and so it is sent."""
    known = values(['meta = {"a":1}'])
    assert known.agrees({"id": 1, "text": "a b", "meta": {"a": 1}}, {"id": "$id", "text": "a<*>", "meta": "$meta"})
    assert known.agrees([1], ["$id"])
    assert not known.agrees(["1"], ["$id"])
    assert not known.agrees([{"a": 2}], ["$meta"])
    assert known.agrees({"state": 'x"y'}, {"state": "$state"})
    line = '{"id":"$id","_meta":"$meta","requestState":"$state-TAMPERED"}'
    assert json.loads(known.fill(line)) == {"id": 1, "_meta": {"a": 1}, "requestState": 'x"y-TAMPERED'}
    with pytest.raises(KeyError):
        known.fill('{"id":"$never"}')
