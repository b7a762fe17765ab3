"""The stdio server's side: taking over standard input and output, one conversation over them, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from msgspec import Struct, field

from ..protocol.errors import ConnectionClosed
from ..protocol.limits import Limits
from .connection import Channel, Connection
from .group import end_orphans
from .pipe import LineInput, LineOutput, can_poll

log = logging.getLogger("jackfield")

PARENT_WATCH = 2.0
"""Seconds between looks at whether the parent process still lives."""

HANG_UP_WATCH = 0.25
"""Seconds between looks at whether anybody still reads, once the input has ended."""


class Descriptors(Struct, frozen=True):
    """Where the protocol is read and written, once it was taken away from everybody else."""

    input: int
    output: int
    parent: int = field(default_factory=os.getppid)
    """Who had started this process then; looked at early, for it may be gone before the lifespan has begun."""


def take_over() -> Descriptors:
    """Keep standard input and output for the protocol alone (STDIO-2).

    From then on descriptor 0 is empty, and what anything, children included, writes to descriptor 1 goes to standard
    error. Text that is still buffered in `sys.stdout` goes there too; what is printed later goes there line by line,
    and what its encoding does not have is escaped.
    """
    for fd in (0, 1, 2):
        _fill(fd)
    taken_input, taken_output = os.dup(0), os.dup(1)  # neither is inherited by children (PEP 446)
    os.dup2(2, 1)
    text: object = sys.stdout  # None where it was closed
    if isinstance(text, io.TextIOWrapper):
        with contextlib.suppress(OSError, ValueError):
            text.reconfigure(errors="backslashreplace", line_buffering=True)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    if os.name == "nt":
        import msvcrt

        for fd in (taken_input, taken_output):
            msvcrt.setmode(fd, os.O_BINARY)  # type: ignore[attr-defined,unused-ignore]
    return Descriptors(taken_input, taken_output)


def _fill(fd: int) -> None:
    """Put /dev/null where a standard descriptor is closed, so that no other file can take its number."""
    try:
        os.fstat(fd)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != fd:
            os.dup2(null, fd)
            os.close(null)


@contextlib.contextmanager
def _unblocked(fd: int, mode: int) -> Generator[int]:
    """Give `fd` back, or a descriptor in its place, non-blocking where it can be polled.

    That mode belongs to the open file, which a shell, a sibling or standard error may hold too: so it is opened anew.
    Where the system cannot do that (a socket say), the mode is set back in the end.
    """
    if not can_poll(fd):
        yield fd
        return
    try:
        path = f"/proc/self/fd/{fd}" if sys.platform == "linux" else os.ttyname(fd)
        anew = os.open(path, mode | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        double = os.dup(fd)
        before = os.get_blocking(fd)
        os.set_blocking(fd, False)
        try:
            yield fd
        finally:
            os.set_blocking(double, before)
            os.close(double)
        return
    os.close(fd)
    yield anew


async def serve(make: Callable[[Channel], Connection], descriptors: Descriptors, limits: Limits) -> None:
    """Hold one conversation until its input ends, its reader is gone, a signal asks for it, or the parent has died.

    After the end of input everything that was read is still answered, for at most `drain` seconds; when nobody reads
    any more, or a signal came, handlers are cancelled and have `grace` seconds. The descriptors are closed in any case.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    hurry: asyncio.Future[None] = loop.create_future()

    def receive(line: bytes) -> None:
        connection.receive(line)

    with (
        _unblocked(descriptors.input, os.O_RDONLY) as reading,
        _unblocked(descriptors.output, os.O_WRONLY) as writing,
        signals(loop, lambda: _mark(hurry)),
        parent_watch(loop, descriptors.parent, lambda: _mark(hurry)),
    ):
        source = LineInput(
            reading,
            limits.line,
            receive,
            lambda line: connection.refuse_long(line),
            lambda: _mark(ended),
        )
        output = LineOutput(writing, limits, lambda: _mark(hurry), source)
        connection = make(output)
        source.receive = connection.receive  # a step less for each line
        closed = ConnectionClosed(f"{connection.name} is gone")
        try:
            source.start()
            await asyncio.wait((ended, hurry), return_when=asyncio.FIRST_COMPLETED)
            source.close()
            connection.input_ended(closed)
            await _answer_all(connection, output, hurry, limits.drain)
            connection.lost(closed)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.grace):
                    await _drained(connection, output)
        finally:
            source.close()
            connection.lost(closed)
            output.close()


def _mark(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _answer_all(connection: Connection, output: LineOutput, hurry: asyncio.Future[None], limit: float) -> None:
    """Return when all that was read is answered and sent, in `limit` seconds, or when nobody waits for it any more."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit
    done = loop.create_task(_drained(connection, output))
    while not (done.done() or hurry.done() or output.hung_up()) and (left := end - loop.time()) > 0:
        await asyncio.wait((done, hurry), timeout=min(left, HANG_UP_WATCH), return_when=asyncio.FIRST_COMPLETED)
    done.cancel()


async def _drained(connection: Connection, output: LineOutput) -> None:
    await connection.quiet()
    await output.flushed()


@contextlib.contextmanager
def signals(loop: asyncio.AbstractEventLoop, finish: Callable[[], None]) -> Generator[None]:
    """End cleanly at SIGINT and SIGTERM; a second one of the same kind has its ordinary effect.

    They are not left to the loop, which could not take the second one while a handler blocks it.
    """
    before: dict[int, Any] = {}
    process = os.getpid()

    def ask(number: int, _: object) -> None:
        signal.signal(number, before.pop(number) or signal.SIG_DFL)
        if os.getpid() == process:
            loop.call_soon_threadsafe(finish)
        else:  # a fork of this process, which has no conversation to end
            signal.raise_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        usual = signal.getsignal(number)
        if usual is not signal.SIG_IGN:  # as for a job in the background, which the terminal's SIGINT is not for
            before[number] = usual
            with contextlib.suppress(ValueError):  # not the main thread
                signal.signal(number, ask)
    try:
        yield
    finally:
        for number, usual in list(before.items()):
            with contextlib.suppress(ValueError):
                signal.signal(number, usual or signal.SIG_DFL)


@contextlib.contextmanager
def parent_watch(loop: asyncio.AbstractEventLoop, parent: int, finish: Callable[[], None]) -> Generator[None]:
    """End when the parent process is gone, for where the input does not tell (L10): others may hold the pipe open."""
    if os.name == "nt" or parent <= 1:
        yield
        return
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        if os.getppid() != parent:
            log.warning("the parent process is gone; ending")
            finish()
        else:
            timer = loop.call_later(PARENT_WATCH, look)

    timer = loop.call_later(PARENT_WATCH, look)
    try:
        yield
    finally:
        timer.cancel()


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` on a fresh event loop (uvloop where it is installed) and return when it is done.

    Tasks that are left over are cancelled and have a short time; threads are not waited for, so that a blocked one
    cannot keep the process alive. If the parent is gone by then, so is soon what tools have left behind (L10). Raises
    RuntimeError where a loop runs already.
    """
    if asyncio.events._get_running_loop() is not None:  # pyright: ignore[reportPrivateUsage] - the one that raises nothing
        main.close()
        raise RuntimeError("`run` starts an event loop of its own; call it outside of `async` code")
    parent = os.getppid()
    try:
        import uvloop

        loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    except ImportError:
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(main)
    finally:
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=1))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            end_orphans(parent)
