"""A stdio server in a process of its own and the lean loops that time calls to it."""

import contextlib
import gc
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from types import TracebackType
from typing import Self

from bench import load

CHUNK = 1 << 16
PATIENCE = 60.0


class ServerGone(Exception):
    """The server under test closed its output or did not answer in time; the text ends with its stderr."""


class Driver:
    """Starts a server, opens the conversation in one era, and times calls over the bare descriptors.

    `startup` is the time in seconds from the start of the process to its first answer.
    """

    def __init__(self, command: list[str], env: dict[str, str], era: str) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._era = era
        self._next = 1
        first, then = load.opening(era)
        begin = time.perf_counter()
        self._child = subprocess.Popen(
            command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0
        )
        assert self._child.stdin
        assert self._child.stdout
        self._in, self._out = self._child.stdin.fileno(), self._child.stdout.fileno()
        with self._deadline():
            _, answers = one_by_one(self._in, self._out, [first])
        self.startup = time.perf_counter() - begin
        if b'"result"' not in answers:
            raise ServerGone(f"{command} refused to open: {answers!r}")
        os.write(self._in, then)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._child.stdin
        assert self._child.stdout
        self._child.stdin.close()
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
        self._stderr.close()

    def seconds(self, tool: str, in_flight: int, count: int) -> float:
        """Time `count` calls with so many in flight; the answers are checked when the clock has stopped."""
        first, self._next = self._next, self._next + count
        messages = load.calls(self._era, tool, first, count)
        with self._deadline():
            took, answers = exchange(self._in, self._out, messages, in_flight)
        load.check(answers, first, count)
        return took

    def memory(self) -> tuple[float, float] | None:
        """Resident memory now and at its peak, in MB; None where the system has no /proc."""
        return resident(self._child.pid)

    @contextlib.contextmanager
    def _deadline(self) -> Generator[None, None, None]:
        """Kill a server that is silent for too long, so that the loops below can be plain blocking reads."""
        watch = threading.Timer(PATIENCE, self._child.kill)
        watch.daemon = True
        watch.start()
        try:
            yield
        except (ServerGone, BrokenPipeError) as error:
            self._stderr.seek(0)
            said = self._stderr.read().decode(errors="replace")[-2000:]
            raise ServerGone(
                f"{self._child.args} gave up or was silent for {PATIENCE:.0f} s: {error}\n{said}"
            ) from None
        finally:
            watch.cancel()


class Echo:
    """A process that writes back what it reads: what the pipes and the driver can do when a server costs nothing."""

    def __init__(self, command: list[str], era: str) -> None:
        self._era = era
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.communicate()

    def seconds(self, in_flight: int, count: int) -> float:
        """Time so many lines, the same that a server is given, there and back."""
        assert self._child.stdin
        assert self._child.stdout
        messages = load.calls(self._era, "add", 1, count)
        took, answers = exchange(self._child.stdin.fileno(), self._child.stdout.fileno(), messages, in_flight)
        if answers != b"".join(messages):
            raise load.WrongAnswer("the echo changed what it was sent")
        return took


def resident(pid: int) -> tuple[float, float] | None:
    """Resident memory of a process now and at its peak, in MB; None where the system has no /proc."""
    try:
        with open(f"/proc/{pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
    except FileNotFoundError:
        return None
    return int(fields["VmRSS"].split()[0]) / 1024, int(fields["VmHWM"].split()[0]) / 1024


def exchange(write_to: int, read_from: int, messages: list[bytes], in_flight: int) -> tuple[float, bytes]:
    """Send every message, read as many lines; returns the seconds and the lines. The collector is off meanwhile."""
    gc.collect()
    gc.disable()
    try:
        if in_flight == 1:
            return one_by_one(write_to, read_from, messages)
        return pipelined(write_to, read_from, messages, in_flight)
    finally:
        gc.enable()


def one_by_one(write_to: int, read_from: int, messages: list[bytes]) -> tuple[float, bytes]:
    """One message out, one line back, then the next."""
    write, read = os.write, os.read
    got: list[bytes] = []
    begin = time.perf_counter()
    for message in messages:
        write(write_to, message)
        while True:
            chunk = read(read_from, CHUNK)
            got.append(chunk)
            if chunk[-1:] == b"\n":
                break
            if not chunk:
                raise ServerGone("its output ended")
    return time.perf_counter() - begin, b"".join(got)


def pipelined(write_to: int, read_from: int, messages: list[bytes], in_flight: int) -> tuple[float, bytes]:
    """Keep so many messages in flight: as lines come back, as many messages go out in one write.

    Few enough bytes are under way that neither pipe fills, so a blocking write cannot lock both sides up.
    """
    write, read = os.write, os.read
    count = len(messages)
    ends = [0]
    for message in messages:
        ends.append(ends[-1] + len(message))
    data = memoryview(b"".join(messages))
    got: list[bytes] = []
    done = sent = 0
    begin = time.perf_counter()
    while done < count:
        upto = min(done + in_flight, count)
        if upto > sent:
            write(write_to, data[ends[sent] : ends[upto]])
            sent = upto
        chunk = read(read_from, CHUNK)
        if not chunk:
            raise ServerGone("its output ended")
        got.append(chunk)
        done += chunk.count(b"\n")
    return time.perf_counter() - begin, b"".join(got)
