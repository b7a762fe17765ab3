"""The stdio server's side: taking over standard input and output, one conversation over them, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import stat
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct

from ..protocol.errors import ConnectionClosed
from ..protocol.limits import Limits
from .connection import Channel, Connection
from .pipe import LineInput, LineOutput

log = logging.getLogger("jackfield")

PARENT_WATCH = 2.0
"""Seconds between looks at whether the parent process still lives."""


class Descriptors(Struct, frozen=True):
    """Where the protocol is read and written, once it was taken away from everybody else."""

    input: int
    output: int


def take_over() -> Descriptors:
    """Keep standard input and output for the protocol alone (STDIO-2).

    From then on descriptor 0 is empty, and what anything, children included, writes to descriptor 1 goes to standard error.
    Text that is still buffered in `sys.stdout` goes there too.
    """
    for fd in (0, 1, 2):
        _fill(fd)
    taken_input, taken_output = os.dup(0), os.dup(1)  # neither is inherited by children (PEP 446)
    os.dup2(2, 1)
    if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] - None where it was closed
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    if os.name == "nt":
        import msvcrt

        for fd in (taken_input, taken_output):
            msvcrt.setmode(fd, os.O_BINARY)  # type: ignore[attr-defined,unused-ignore]
    return Descriptors(_private(taken_input, os.O_RDONLY), _private(taken_output, os.O_WRONLY))


def _fill(fd: int) -> None:
    """Put /dev/null where a standard descriptor is closed, so that no other file can take its number."""
    try:
        os.fstat(fd)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != fd:
            os.dup2(null, fd)
            os.close(null)


def _private(fd: int, mode: int) -> int:
    """Make `fd` non-blocking where it can be polled, without touching the open file that others share.

    A shell, a sibling or standard error may hold the same open file, and non-blocking mode belongs to the file: so it is opened
    anew where the system can do that. A socket cannot be opened anew; there nobody else is to be expected.
    """
    if os.name == "nt":
        return fd
    kind = os.fstat(fd).st_mode
    if stat.S_ISFIFO(kind) or os.isatty(fd):
        try:
            anew = os.open(f"/proc/self/fd/{fd}", mode | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError:
            os.set_blocking(fd, False)
            return fd
        os.close(fd)
        return anew
    if stat.S_ISSOCK(kind):
        os.set_blocking(fd, False)
    return fd


async def serve(make: Callable[[Channel], Connection], descriptors: Descriptors, limits: Limits) -> None:
    """Hold one conversation until its input ends, its reader is gone, a signal asks for the end, or the parent has died.

    After the end of input everything that was read is still answered, for at most `drain` seconds; when nobody reads any more,
    or a signal came, handlers are cancelled and have `grace` seconds.
    """
    loop = asyncio.get_running_loop()
    end: asyncio.Future[str] = loop.create_future()

    def finish(why: str) -> None:
        if not end.done():
            end.set_result(why)
        elif why != "input":
            hurry.set()

    hurry = asyncio.Event()

    def receive(line: bytes) -> None:
        connection.receive(line)

    source = LineInput(
        descriptors.input, limits.line, receive, lambda limit: connection.refuse_long(limit), lambda: finish("input")
    )
    output = LineOutput(descriptors.output, limits, lambda: finish("output"), source)
    connection = make(output)
    source.receive = connection.receive  # one step less for each line
    with _signals(loop, finish), _parent_watch(loop, finish):
        source.start()
        why = await end
        source.close()
        await _wind_up(why, connection, output, limits, hurry)


async def _wind_up(
    why: str, connection: Connection, output: LineOutput, limits: Limits, hurry: asyncio.Event
) -> None:
    closed = ConnectionClosed(f"{connection.name} is gone")
    if why == "input":
        connection.input_ended(closed)
        done = asyncio.ensure_future(_drained(connection, output))
        hurried = asyncio.ensure_future(hurry.wait())
        await asyncio.wait((done, hurried), timeout=limits.drain, return_when=asyncio.FIRST_COMPLETED)
        done.cancel()
        hurried.cancel()
    connection.lost(closed)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limits.grace):
            await _drained(connection, output)
    output.close()


async def _drained(connection: Connection, output: LineOutput) -> None:
    await connection.quiet()
    await output.flushed()


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, finish: Callable[[str], None]) -> Any:
    """End cleanly at SIGINT and SIGTERM; a second one of the same kind has its ordinary effect."""
    taken: list[int] = []

    def ask(number: int) -> None:
        loop.remove_signal_handler(number)
        taken.remove(number)
        finish("signal")

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows; not the main thread
            loop.add_signal_handler(number, ask, number)
            taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _parent_watch(loop: asyncio.AbstractEventLoop, finish: Callable[[str], None]) -> Any:
    """End when the parent process is gone, for where the input does not tell (L10): a pipe that others hold open too."""
    parent = os.getppid()
    if os.name == "nt" or parent <= 1:
        yield
        return
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal timer
        if os.getppid() != parent:
            log.warning("the parent process is gone; ending")
            finish("parent")
        else:
            timer = loop.call_later(PARENT_WATCH, look)

    timer = loop.call_later(PARENT_WATCH, look)
    try:
        yield
    finally:
        timer.cancel()


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` on a fresh event loop (uvloop where it is installed) and return when it is done.

    Tasks that are left over are cancelled and have a short time; threads are not waited for, so that a blocked one cannot keep
    the process alive.
    """
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
