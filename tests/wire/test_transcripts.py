"""Transcripts of real exchanges, played against the server they name: in memory and through a pair of pipes."""

import asyncio
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from jackfield import Server

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))


def read(path: Path) -> tuple[str, list[tuple[str, list[str]]]]:
    """The server's name, and each line sent with the lines that must answer it."""
    server, exchanges = "", []
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("server: "):
            server = line.removeprefix("server: ")
        elif line.startswith("> "):
            exchanges.append((line[2:], []))
        elif line.startswith("< "):
            exchanges[-1][1].append(line[2:])
        else:
            assert not line or line.startswith("#"), f"{path.name}: {line}"
    return server, exchanges


def agrees(got: object, wanted: object) -> bool:
    """Whether JSON values are equal; `<*>` in a wanted text stands for any text."""
    if isinstance(wanted, str) and "<*>" in wanted and isinstance(got, str):
        return re.fullmatch(".*".join(map(re.escape, wanted.split("<*>"))), got, re.DOTALL) is not None
    if isinstance(wanted, dict) and isinstance(got, dict):
        return wanted.keys() == got.keys() and all(agrees(got[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(got, list):
        return len(wanted) == len(got) and all(map(agrees, got, wanted))
    return type(got) is type(wanted) and got == wanted


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
    """Each line sent is answered by just the lines that the transcript shows, in memory (LIFE-2, META-8, BASE-2)."""
    name, exchanges = read(path)
    module, _, attribute = name.partition(":")
    server: Server = getattr(importlib.import_module(module), attribute)
    recorder, channels = Recorder(), []

    def make(channel):
        channels.append(channel)
        return recorder

    await server.__mcp_connect__(make)
    for sent, answers in exchanges:
        channels[0].write(sent.encode())
        for wanted in answers:
            got = json.loads(await asyncio.wait_for(recorder.frames.get(), 5))
            assert agrees(got, json.loads(wanted)), f"{sent}\n  got    {json.dumps(got)}\n  wanted {wanted}"
    await asyncio.sleep(0)
    assert recorder.frames.empty()
    channels[0].close()
    assert recorder.farewell is not None
    await recorder.farewell


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_comes_out_over_stdio(path: Path) -> None:
    """The same through a pair of pipes; the end of input ends the server with exit code 0 (STDIO-1, STDIO-6)."""
    name, exchanges = read(path)
    command = [sys.executable, "-m", "jackfield", "run", name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for sent, answers in exchanges:
            process.stdin.write(sent.encode() + b"\n")
            process.stdin.flush()
            for wanted in answers:
                got = json.loads(process.stdout.readline())
                assert agrees(got, json.loads(wanted)), f"{sent}\n  got    {json.dumps(got)}\n  wanted {wanted}"
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(10) == 0
