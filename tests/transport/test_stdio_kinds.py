"""The stdio server on every kind of standard input and output, on uvloop and on plain asyncio."""

from __future__ import annotations

import json
import os
import pty
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.transport.talk import SERVED, Talk, call, environment, text

LOOPS = ["uvloop", "asyncio"]
CALLS = [call(1, "add", a=1, b=2), call(2, "add_on_thread", a=3, b=4), call(3, "echo", text="x" * 3000)]
ANSWERS = {1: "3", 2: "7", 3: "x" * 3000}


def under_shell(redirections: str) -> list[str]:
    """The command that starts the server with these redirections."""
    return ["sh", "-c", f"exec {shlex.join([sys.executable, SERVED])} {redirections}"]


def check_end(talk: Talk, loop: str) -> None:
    """It ended as it should, and ran on that loop."""
    assert talk.wait() == 0, talk.stderr
    assert talk.stderr[-1] == "ended"
    assert any(line.endswith((f" {loop}", f" {loop}.unix_events")) for line in talk.stderr)


def check_answers(lines: bytes, ids: set[int]) -> None:
    """Exactly these requests were answered, rightly."""
    answers = {answer["id"]: text(answer) for answer in map(json.loads, lines.splitlines())}
    assert answers == {id: ANSWERS[id] for id in ids}


def of_pipe() -> tuple[int, Callable[[], None]]:
    theirs, ours = os.pipe()

    def feed() -> None:
        os.write(ours, b"".join(CALLS))
        os.close(ours)

    return theirs, feed


def of_socket() -> tuple[int, Callable[[], None]]:
    theirs, ours = socket.socketpair()

    def feed() -> None:
        ours.sendall(b"".join(CALLS))
        ours.close()

    return theirs.detach(), feed


def of_terminal() -> tuple[int, Callable[[], None]]:
    ours, theirs = pty.openpty()

    def feed() -> None:
        for line in CALLS:
            os.write(ours, line)
        os.write(ours, b"\x04")  # ctrl-D
        terminals.append(ours)

    return theirs, feed


terminals: list[int] = []
"""Kept open: a closed one would end the input in another way."""


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", [of_pipe, of_socket, of_terminal], ids=lambda kind: kind.__name__)
def test_input_that_can_be_polled(kind: Callable[[], tuple[int, Callable[[], None]]], loop: str) -> None:
    """All that came is answered, the end of input ends the server with 0, and the shared open file stays blocking."""
    theirs, feed = kind()
    with Talk(stdin=theirs, env={"SERVED_LOOP": loop}) as talk:
        feed()
        check_answers(talk.rest(), {1, 2, 3})
        check_end(talk, loop)
    assert os.get_blocking(theirs)
    os.close(theirs)
    for fd in terminals:
        os.close(fd)
    terminals.clear()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["file", "null", "closed"])
def test_input_that_cannot_be_polled(kind: str, loop: str, tmp_path: Path) -> None:
    """A regular file is served to its end; nothing at all or /dev/null ends the server at once, with 0."""
    file = tmp_path / "calls"
    file.write_bytes(b"".join(CALLS))
    source = {"file": f"< {file}", "null": "< /dev/null", "closed": "<&-"}[kind]
    with Talk(under_shell(source), env={"SERVED_LOOP": loop}) as talk:
        check_answers(talk.rest(), {1, 2, 3} if kind == "file" else set())
        check_end(talk, loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kind", ["socket", "terminal", "file"])
def test_output_of_every_kind(kind: str, loop: str, tmp_path: Path) -> None:
    """Answers arrive through a socket, a terminal and a regular file; the shared open file stays blocking."""
    path = tmp_path / "answers"
    if kind == "socket":
        ours, theirs = (end.detach() for end in socket.socketpair())
    elif kind == "terminal":
        ours, theirs = pty.openpty()
    else:
        theirs = os.open(path, os.O_WRONLY | os.O_CREAT)
        ours = os.open(path, os.O_RDONLY)
    with Talk(stdout=theirs, env={"SERVED_LOOP": loop}) as talk:
        talk.send(*CALLS)
        talk.close()
        check_end(talk, loop)
    assert os.get_blocking(theirs)
    if kind != "terminal":
        os.close(theirs)  # a terminal would forget what was not read
    got = b""
    while got.count(b"\n") < 3:
        part = os.read(ours, 65536)
        assert part
        got += part
    check_answers(got, {1, 2, 3})
    os.close(ours)
    if kind == "terminal":
        os.close(theirs)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("redirections", [">&-", "2>&-", "<&- >&- 2>&-", "> /dev/null", "> /dev/full"])
def test_output_that_goes_nowhere(redirections: str, loop: str) -> None:
    """With an output or standard error that is closed, empty or full the server still ends by itself, with 0."""
    if "full" in redirections and not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    with Talk(under_shell(redirections), env={"SERVED_LOOP": loop}) as talk:
        if not redirections.startswith("<"):
            talk.send(*CALLS)
        talk.close()
        assert talk.wait() == 0, talk.stderr


@pytest.mark.parametrize("loop", LOOPS)
def test_one_socket_for_everything(loop: str) -> None:
    """Input and output may be the same socket, as under a super-server; it stays blocking for the next program."""
    ours, theirs = socket.socketpair()
    with Talk(stdin=theirs.fileno(), stdout=theirs.fileno(), env={"SERVED_LOOP": loop}) as talk:
        ours.sendall(b"".join(CALLS))
        ours.shutdown(socket.SHUT_WR)
        check_end(talk, loop)
        assert theirs.getblocking()
        assert os.get_blocking(theirs.fileno())
    theirs.close()
    with ours.makefile("rb") as file:
        check_answers(file.read(), {1, 2, 3})
    ours.close()


def test_the_terminal_of_a_shell_stays_usable() -> None:
    """A terminal that a shell and the server share stays blocking, meanwhile and after the server's death."""
    ours, theirs = pty.openpty()
    os.set_blocking(theirs, True)
    process = subprocess.Popen([sys.executable, SERVED], stdin=theirs, stdout=theirs, stderr=theirs, env=environment())
    got = b""
    while b"began" not in got:
        got += os.read(ours, 1000)
    os.write(ours, CALLS[0])
    while b'"result"' not in got:
        got += os.read(ours, 1000)
    assert os.get_blocking(theirs)
    process.kill()
    process.wait()
    assert os.get_blocking(theirs)
    os.close(ours)
    os.close(theirs)
