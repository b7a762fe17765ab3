"""The stdio client's other side: a server as a child process, from its start to the last process of its group."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from typing import Final, cast

from ..protocol.errors import ConnectionClosed, RegistrationError
from ..protocol.framing import TooLong
from ..protocol.limits import Limits
from ..protocol.printable import printable
from .connection import Channel, Connection
from .group import living
from .pipe import LineInput, LineOutput, can_poll

log = logging.getLogger("jackfield")

LAST_WORDS: Final = 0.5
"""Seconds that the exit status may come after the end of the output, or the rest of the output after the exit.

Also how long a server that is to be closed has to read what was written to it before.
"""

_PASSED_ON: Final = (
    ("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE")
    + ("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE")
    if os.name == "nt"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)

_NO_CONSOLE: Final[int] = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(
    subprocess, "CREATE_NO_WINDOW", 0
)


class Stdio:
    """A server to start as a child process that talks over its standard input and output.

    The child sees the few variables that every program needs and those in `env`, nothing else of this process
    (STDIO-8); the command is looked up on the child's PATH. `stderr` is called with each line that the child writes to
    its standard error.
    """

    def __init__(
        self,
        command: str | PathLike[str],
        *args: str | PathLike[str],
        env: Mapping[str, str] | None = None,
        cwd: str | PathLike[str] | None = None,
        stderr: Callable[[str], object] | None = None,
    ) -> None:
        """Describe the server; nothing is started yet. Raises RegistrationError where a part is no text."""
        self.command = _text(command, "the command")
        self.args = tuple([_text(arg, f"argument {place}") for place, arg in enumerate(args, 1)])
        self.env = {_text(key, "a key of env"): _text(value, f"env[{key!r}]") for key, value in (env or {}).items()}
        self.cwd = None if cwd is None else _text(cwd, "cwd")
        self.stderr = stderr

    def __repr__(self) -> str:
        """The command and the names of its variables; values may be secrets."""
        parts = [repr(part) for part in (self.command, *self.args)]
        parts += [f"env={sorted(self.env)}"] if self.env else []
        parts += [f"cwd={self.cwd!r}"] if self.cwd is not None else []
        return f"Stdio({', '.join(parts)})"

    @property
    def label(self) -> str:
        """A short name for messages: the command, with the file that it runs; other arguments may be secrets."""
        parts = [self.command, *[arg for arg in self.args[:1] if not arg.startswith("-")]]
        return printable(" ".join([os.path.basename(part) or part for part in parts]), 80)

    def environment(self) -> dict[str, str]:
        """The variables that the child will see."""
        own = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        # A value that begins so is a shell function, which old shells run.
        return {key: value for key, value in own.items() if not value.startswith("()")} | self.env


def _text(value: object, place: str) -> str:
    if isinstance(value, PathLike):
        value = fspath(cast("PathLike[str]", value))
    if not isinstance(value, str) or "\0" in value:
        raise RegistrationError(f"Stdio: {place} must be text without null characters, not {type(value).__name__}")
    return value


class _Output(LineInput):
    """A child's standard output. It is never paused: that could stop the very server whose reading we wait for."""

    def pause(self) -> None:
        """Go on."""


class _Tail:
    """What the child wrote to its standard error: always read, the end of it kept (F9)."""

    def __init__(self, fd: int, limit: int, callback: Callable[[str], object] | None) -> None:
        self.heard = False
        self._lines: deque[str] = deque()
        self._size = 0
        self._limit = limit
        self._callback = callback
        self._input = LineInput(fd, limit, self._take, self._take_long, self._end)
        self._input.start()

    def _take(self, line: bytes) -> None:
        self.heard = True
        text = line.decode("utf-8", "backslashreplace")
        self._lines.append(text)
        self._size += len(text) + 1
        while self._size > self._limit:
            self._size -= len(self._lines.popleft()) + 1
        if self._callback is not None:
            try:
                self._callback(text)
            except Exception:
                log.exception("the stderr callback failed")

    def _take_long(self, line: TooLong) -> None:
        self._take(b"(a line longer than %d bytes was left out: limit `stderr`)" % line.limit)

    def _end(self) -> None:
        """Nothing to do: the lines stay."""

    def text(self) -> str:
        """The last lines."""
        return "\n".join(self._lines)

    def close(self) -> None:
        """Read no more."""
        self._input.close()


class Child:
    """A running server and the connection to it.

    When the process ends or closes its output, `connection` is lost within a second, with the exit code and the last
    lines of standard error (F11); then, or when `close` is called, all of its process group is ended (F3, STDIO-6).
    """

    def __init__(
        self, stdio: Stdio, process: subprocess.Popen[bytes], limits: Limits, fds: tuple[int, int, int]
    ) -> None:
        loop = asyncio.get_running_loop()
        self.label = stdio.label
        self.started = loop.time()
        self._process = process
        self._nobody = False
        self._limits = limits
        self._writing, reading, listening = fds
        self._tail = _Tail(listening, limits.stderr, stdio.stderr)
        self._closing: asyncio.Future[None] = loop.create_future()
        self._broken: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._exited: asyncio.Future[int] = loop.create_future()
        self._input = _Output(reading, limits.line, _nowhere, self._take_long, lambda: _mark(self._ended))
        self._output = LineOutput(self._writing, limits, lambda: _mark(self._broken), self._input)
        threading.Thread(target=self._reap, args=(loop,), name="jackfield-reaper", daemon=True).start()

    def begin(self, make: Callable[[Channel], Connection]) -> None:
        """Make the connection, and watch over the process from now on."""
        self.connection = make(self._output)
        self._input.receive = self.connection.receive
        self._input.start()
        self._life = asyncio.get_running_loop().create_task(self._live())

    def _take_long(self, line: TooLong) -> None:
        self.connection.refuse_long(line)

    def _reap(self, loop: asyncio.AbstractEventLoop) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop may be closed already
            loop.call_soon_threadsafe(self._exited.set_result, code)

    async def awake(self) -> None:
        """Return when the process shows that it runs: it wrote something, or (on Linux) read what was sent to it."""
        await self._output.flushed()
        while True:
            if self._input.batch or self._tail.heard or self._life.done() or self._has_read():
                return
            await asyncio.sleep(0.02)

    def _has_read(self) -> bool:
        if sys.platform != "linux" or self._broken.done() or self.connection.closed is not None:
            return False
        import fcntl
        import termios

        return not any(fcntl.ioctl(self._writing, termios.FIONREAD, bytes(4)))

    async def close(self) -> None:
        """End the process and all of its group; return when nothing is left. Any task may call it, again and again."""
        self.connection.leave(ConnectionClosed(f"the connection to {self.label} was closed"))
        _mark(self._closing)
        await asyncio.shield(self._life)

    # ---- the one task that sees the child to its end

    async def _live(self) -> None:
        signs = [self._closing, self._broken, self._ended, self._exited]
        try:
            await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            if not self._closing.done():
                await asyncio.wait([self._exited, self._ended], timeout=LAST_WORDS)
                self.connection.lost(self._reason())
            elif not self._exited.done():
                await self._say_the_rest()
            await self._end()
        finally:
            self._signal("KILL")  # whatever ended this task, a loop that is torn down say
            self._output.close()
            self._input.close()
            self._tail.close()
            _living.discard(self)

    async def _say_the_rest(self) -> None:
        """Let what was written reach the server, so that it stops what it does before its input ends (F12)."""
        said = asyncio.get_running_loop().create_task(self._output.flushed())
        try:
            await asyncio.wait([said, self._exited], timeout=LAST_WORDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            said.cancel()

    def _reason(self) -> ConnectionClosed:
        code = self._exited.result() if self._exited.done() else None
        stderr = self._tail.text()
        if code is None:
            text = f"{self.label} closed its standard {'output' if self._ended.done() else 'input'}"
        elif code < 0:
            text = f"{self.label} was ended by {_signal_name(-code)}"
        else:
            text = f"{self.label} ended with exit code {code}"
        last = [printable(line) for line in stderr.splitlines()[-8:] if line.strip()]
        if last:
            text = "\n  ".join([f"{text}; the last lines of its standard error:", *last])
        return ConnectionClosed(text, exit_code=code, stderr=stderr)

    async def _end(self) -> None:
        self._output.close()
        for step in ("TERM", "KILL", ""):
            if await self._gone():
                return
            if step:
                self._signal(step)
        log.warning("%s (process %d) could not be ended", self.label, self._process.pid)

    async def _gone(self) -> bool:
        """Whether all of the process group ended within the grace time."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._limits.grace
        await asyncio.wait([self._exited], timeout=self._limits.grace)
        pause = 0.001
        while not self._exited.done() or (self._signal("") and not (pause > 0.03 and self._all_dead())):
            if loop.time() >= end:
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.2)
        return True

    def _all_dead(self) -> bool:
        """Whether all that is left of the group are the dead (looked for only where that is cheap)."""
        return sys.platform == "linux" and not any(True for _ in living(self._process.pid))

    def _signal(self, name: str) -> bool:
        """Send TERM or KILL (or nothing, to see who is there) to the group. False when none of it is left."""
        if self._nobody:
            return False  # the number may belong to another group by now
        if os.name == "nt":
            return _signal_windows(self._process, name)
        number = signal.Signals[f"SIG{name}"] if name else 0
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):  # the latter is macOS's word for a group of the dead
            self._nobody = True
        return not self._nobody

    def kill(self) -> None:
        """End the group at once: the interpreter is about to exit."""
        self._signal("KILL")


def _mark(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _nowhere(_: bytes) -> None:
    """Nothing is read before there is a connection, so nothing comes here."""


def _signal_name(number: int) -> str:
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:
        return f"signal {number}"


def _signal_windows(process: subprocess.Popen[bytes], name: str) -> bool:
    """Windows has no groups of this kind: look at the process alone, end it with all that it started."""
    if process.poll() is not None:
        return False
    if name:
        with contextlib.suppress(OSError):
            subprocess.run(
                ["taskkill", "/T", "/F", "/PID", str(process.pid)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
    return True


_living: set[Child] = set()


@atexit.register
def _kill_living() -> None:
    for child in _living:
        child.kill()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_living.clear)  # a fork must not end its parent's children


def start(stdio: Stdio, make: Callable[[Channel], Connection], limits: Limits) -> Child:
    """Start the server and connect to it; `make` makes the connection over the channel that it is given.

    Must run on the loop. Raises ConnectionClosed, naming the command and the PATH, when it cannot be started (F75).
    """
    env = stdio.environment()
    command = [_find(stdio, env), *stdio.args]
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    ours_err, theirs_err = os.pipe()
    ours, theirs = (ours_out, ours_in, ours_err), (theirs_in, theirs_out, theirs_err)
    try:
        process = subprocess.Popen(
            command,
            stdin=theirs_in,
            stdout=theirs_out,
            stderr=theirs_err,
            env=env,
            cwd=stdio.cwd,
            start_new_session=True,
            creationflags=_NO_CONSOLE,
        )
    except (OSError, ValueError) as error:
        for fd in ours:
            os.close(fd)
        raise ConnectionClosed(_cannot(stdio, env, str(error))) from error
    finally:
        for fd in theirs:
            os.close(fd)
    for fd in ours:
        if can_poll(fd):
            os.set_blocking(fd, False)
    child = Child(stdio, process, limits, ours)
    _living.add(child)
    child.begin(make)
    return child


def _find(stdio: Stdio, env: Mapping[str, str]) -> str:
    if stdio.cwd is not None and not os.path.isdir(stdio.cwd):
        raise ConnectionClosed(_cannot(stdio, env, f"there is no directory {stdio.cwd!r} (cwd)"))
    if os.path.dirname(stdio.command):
        found = shutil.which(os.path.join(stdio.cwd or "", stdio.command))
    else:
        found = shutil.which(stdio.command, path=env.get("PATH", os.defpath))
    if found is None:
        raise ConnectionClosed(_cannot(stdio, env, "no such program, or it may not be executed"))
    return os.path.abspath(found)


def _cannot(stdio: Stdio, env: Mapping[str, str], why: str) -> str:
    return f"cannot start {stdio.command!r}: {why} (PATH of the child: {env.get('PATH', os.defpath)!r})"
