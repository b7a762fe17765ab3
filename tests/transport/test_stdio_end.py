"""How the stdio server ends: the end of input, a reader that is gone, signals, and a parent that was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

from jackfield.protocol.limits import Limits
from jackfield.transport import stdio
from jackfield.transport.connection import Connection
from tests.transport.fakes import Desk, request, settle
from tests.transport.talk import SERVED, Talk, call, text

if os.name == "nt":
    pytest.skip("signals and parents of Unix", allow_module_level=True)

LOOPS = ["uvloop", "asyncio"]
STUCK = ["wait", "block", "ignore_cancellation"]
SHORT = {"drain": 0.1, "grace": 0.1}
LONG = {"drain": 600, "grace": 0.1}
"""Who waits for the drain with these does not end in the time of a test."""


def test_the_end_of_input_answers_everything_that_was_read() -> None:
    """300 calls, on the loop and on threads, the input closed behind them: 300 answers, clean-up, exit 0 (STDIO-6)."""
    with Talk() as talk:
        talk.send(*[call(id, "add" if id % 2 else "add_on_thread", a=id, b=1) for id in range(300)])
        talk.send(call(300, "add", a=300, b=1)[:-1])  # the last line needs no end
        talk.close()
        answers = talk.answers(301)
        assert {id: int(text(answer)) for id, answer in answers.items()} == {id: id + 1 for id in range(301)}
        assert talk.rest() == b""
        assert talk.wait() == 0
        assert talk.stderr[-1] == "ended"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("tool", STUCK)
def test_a_stuck_call_does_not_hold_up_the_end(tool: str, loop: str) -> None:
    """After the drain and the grace time the server cleans up and exits 0, whatever a call still does (STDIO-6)."""
    with Talk(limits=SHORT, env={"SERVED_LOOP": loop}) as talk:
        talk.send(call(1, tool), call(2, "add", a=1, b=1))
        talk.says("waiting")
        talk.close()
        assert text(talk.read()) == "2"
        assert talk.rest() == b""
        assert talk.wait() == 0
        assert talk.stderr[-1] == "ended"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reader_that_is_gone_is_not_waited_for(loop: str) -> None:
    """Where both ends hung up, calls under way are given up at once and not after the drain time (L10)."""
    with Talk(limits=LONG, env={"SERVED_LOOP": loop}) as talk:
        talk.send(call(1, "wait"), call(2, "block"))
        talk.says("waiting", 2)
        assert talk.process.stdout is not None
        talk.process.stdout.close()
        talk.close()
        assert talk.wait() == 0
        assert talk.stderr[-1] == "ended"


def test_an_answer_that_nobody_reads_ends_the_server() -> None:
    """When writing finds nobody there the server ends, though its input is still open."""
    with Talk(limits=LONG) as talk:
        talk.send(call(1, "wait"))
        talk.says("waiting")
        assert talk.process.stdout is not None
        talk.process.stdout.close()
        talk.send(call(2, "add", a=1, b=1))
        assert talk.wait() == 0
        assert talk.stderr[-1] == "ended"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_that_is_reset_ends_the_server(loop: str) -> None:
    """A socket that its other side closed with answers unread cannot even be read; that is the end of input."""
    ours, theirs = socket.socketpair()
    with Talk(stdin=theirs.fileno(), stdout=theirs.fileno(), limits=LONG, env={"SERVED_LOOP": loop}) as talk:
        theirs.close()
        ours.sendall(call(1, "wait") + call(2, "add", a=1, b=1))
        ours.recv(1, socket.MSG_PEEK)
        ours.close()
        assert talk.wait() == 0
        assert talk.stderr[-1] == "ended"


def test_a_reader_that_reads_nothing_holds_up_no_end() -> None:
    """More unread answers than a pipe holds: the end comes after the drain and the grace time."""
    with Talk(limits=SHORT) as talk:
        talk.send(*[call(id, "big", size=100_000) for id in range(20)])
        talk.close()
        assert talk.wait() == 0
        assert talk.stderr[-1] == "ended"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_cleanly(number: signal.Signals, loop: str) -> None:
    """SIGINT and SIGTERM cancel what runs, run the clean-up and exit with 0, the input still open (R16)."""
    with Talk(limits=LONG, env={"SERVED_LOOP": loop}) as talk:
        talk.send(*[call(id, tool) for id, tool in enumerate(STUCK)])
        talk.says("waiting", 3)
        talk.process.send_signal(number)
        talk.says("cancelled")
        assert talk.wait() == 0
        assert talk.stderr[-1] == "ended"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_drain_ends_it(number: signal.Signals) -> None:
    """Who still answers after the end of input can be told to hurry."""
    with Talk(limits=LONG) as talk:
        talk.send(call(1, "wait"))
        talk.says("waiting")
        talk.close()
        talk.process.send_signal(number)
        assert talk.wait() == 0
        assert talk.stderr[-1] == "ended"


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("tool", "sign"), [("ignore_cancellation", "cancelled"), ("block_loop", "taken")])
def test_a_second_interrupt_kills(tool: str, sign: str, loop: str) -> None:
    """While the first SIGINT waits, for a stubborn handler or a blocked loop even, the second has its usual effect."""
    with Talk(limits={"grace": 600}, env={"SERVED_LOOP": loop}) as talk:
        talk.send(call(1, tool))
        talk.says("waiting")
        talk.process.send_signal(signal.SIGINT)
        talk.says(sign)
        talk.process.send_signal(signal.SIGINT)
        assert talk.wait() == -signal.SIGINT
        assert "KeyboardInterrupt" in talk.stderr


def test_a_second_termination_kills() -> None:
    """SIGTERM has its usual effect the second time, too."""
    with Talk(limits={"grace": 600}) as talk:
        talk.send(call(1, "ignore_cancellation"))
        talk.says("waiting")
        talk.process.send_signal(signal.SIGTERM)
        talk.says("cancelled")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == -signal.SIGTERM


def test_an_ignored_interrupt_stays_ignored() -> None:
    """A server started in the background, with SIGINT ignored, is not ended by a Ctrl-C that is not for it."""
    with Talk(["sh", "-c", f"trap '' INT; exec {sys.executable} {SERVED}"]) as talk:
        assert text(talk.ask(call(1, "add", a=1, b=1))) == "2"
        talk.process.send_signal(signal.SIGINT)
        for id in range(10):
            assert text(talk.ask(call(id, "add", a=2, b=2))) == "4"
        talk.close()
        assert talk.wait() == 0


@pytest.mark.parametrize("loop", LOOPS)
def test_a_fork_of_the_server_is_ended_by_its_own_signals(loop: str) -> None:
    """SIGTERM ends a forked child of a tool at once, and the server does not take it for its own."""
    with Talk(env={"SERVED_LOOP": loop}) as talk:
        assert text(talk.ask(call(1, "fork"))) == str(signal.SIGTERM.value)
        assert text(talk.ask(call(2, "add", a=1, b=1))) == "2"
        talk.close()
        assert talk.wait() == 0


# ---- in this process


async def test_a_serve_that_is_cancelled_leaves_nothing_behind() -> None:
    """Cancelling `serve` cancels the handlers, closes the descriptors and gives the signals back (R14)."""
    usual = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    in_reading, in_writing = os.pipe()
    out_reading, out_writing = os.pipe()
    desk = Desk()
    serving = asyncio.create_task(
        stdio.serve(
            lambda channel: Connection(channel, serve=desk.serve), stdio.Descriptors(in_reading, out_writing), Limits()
        )
    )
    os.write(in_writing, request(1) + b"\n")
    await settle()
    assert desk.started == [1]
    assert signal.getsignal(signal.SIGINT) is not usual[0]
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await settle()
    assert desk.cancelled == [1]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == usual
    with pytest.raises(BrokenPipeError):
        os.write(in_writing, b"\n")
    assert os.read(out_reading, 1) == b""
    for fd in (in_writing, out_reading):
        os.close(fd)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_loop_is_run_to_its_end() -> None:
    """`run_loop` returns or raises with its coroutine; tasks that are left are cancelled and waited for."""
    ended: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
            ended.append("cancelled")

    async def main(fault: Exception | None) -> None:
        tasks.append(asyncio.create_task(linger()))
        await asyncio.sleep(0)
        if fault is not None:
            raise fault

    tasks: list[asyncio.Task[None]] = []
    stdio.run_loop(main(None))
    with pytest.raises(RuntimeError, match="burst"):
        stdio.run_loop(main(RuntimeError("burst")))
    assert ended == ["cancelled"] * 2


async def test_a_loop_inside_a_loop_is_refused() -> None:
    """`run_loop` from async code raises, says what to do, and leaves no coroutine behind."""
    with pytest.raises(RuntimeError, match="call it outside of `async` code"):
        stdio.run_loop(settle())


# ---- a parent that is killed (F1)

WRAPPER = """
import subprocess, sys
server = subprocess.Popen([sys.executable, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for line in sys.stdin.buffer:
    server.stdin.write(line)
    server.stdin.flush()
"""
"""A client that holds both pipes of its server."""


@pytest.mark.parametrize("holds_pipes", [True, False])
def test_no_server_outlives_its_killed_parent(holds_pipes: bool, tmp_path: Path) -> None:
    """Idle, waiting on the loop, blocked on a thread: a server whose parent is killed cleans up and goes (F1, R16).

    If the parent held the pipes the server sees them close; if somebody else does, it sees that its parent has changed.
    """
    wrapper = tmp_path / "wrapper.py"
    wrapper.write_text(WRAPPER)
    if holds_pipes:
        command = [sys.executable, str(wrapper), SERVED]
    else:
        command = ["sh", "-c", f"{sys.executable} {SERVED}; true"]  # a shell that stays
    talks = [Talk(command, limits=LONG) for _ in range(3)]
    try:
        for talk, tool in zip(talks, (None, "wait", "block"), strict=True):
            if tool is not None:
                talk.send(call(1, tool))
        for talk, tool in zip(talks, (None, "wait", "block"), strict=True):
            talk.until(lambda lines: any(line.startswith("began") for line in lines))
            if tool is not None:
                talk.says("waiting")
        for talk in talks:
            talk.process.kill()
        for talk in talks:
            talk.silent()
            assert talk.stderr[-1] == "ended"
    finally:
        for talk in talks:
            talk.__exit__()
