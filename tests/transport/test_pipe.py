"""Lines over every kind of descriptor, on the loop and on threads: reading, writing, backpressure, and the end."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from jackfield.protocol.limits import Limits
from jackfield.transport import pipe
from jackfield.transport.pipe import LineInput, LineOutput

if os.name == "nt":
    pytest.skip("pipes, terminals and sockets of Unix", allow_module_level=True)

import pty
import tty

LOOPS: list[Any] = [asyncio.new_event_loop]
try:
    import uvloop
except ImportError:
    pass
else:
    LOOPS.append(uvloop.new_event_loop)

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=LOOPS, ids=lambda factory: factory.__module__.split(".")[0])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Runs a coroutine on a fresh loop of each kind; afterwards no descriptor and no thread may be left."""
    request.param().close()  # the first of a kind opens what it keeps
    before = _descriptors()

    def run_on(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(main, 20))

    yield run_on
    for thread in threading.enumerate():
        if thread.name.startswith("jackfield-"):
            thread.join(10)
            assert not thread.is_alive(), thread.name
    assert _descriptors() == before


def _descriptors() -> set[str]:
    folder = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
    return {fd for fd in os.listdir(folder) if int(fd) > 2 and os.path.exists(f"{folder}/{fd}")}


@pytest.fixture
def on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretends that nothing can be polled, as on Windows."""
    monkeypatch.setattr(pipe, "can_poll", lambda fd: False)


def pair(kind: str) -> tuple[int, int]:
    """A (reading, writing) pair of descriptors; on a terminal's slave side one reads what is written to the master."""
    if kind == "pipe":
        return os.pipe()
    if kind == "socket":
        one, other = socket.socketpair()
        return one.detach(), other.detach()
    master, slave = pty.openpty()
    tty.setraw(slave)
    return slave, master


class Ears:
    """What came from an input."""

    def __init__(self, fd: int, limit: int = 1000) -> None:
        if pipe.can_poll(fd):
            os.set_blocking(fd, False)
        self.lines: list[bytes] = []
        self.ends = 0
        self.changed = asyncio.Event()
        self.input = LineInput(fd, limit, self.hear, lambda line: self.hear(b"too long: %d" % line.limit), self.end)

    def hear(self, line: bytes) -> None:
        self.lines.append(line)
        self.changed.set()

    def end(self) -> None:
        self.ends += 1
        self.changed.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self.changed.clear()
            await self.changed.wait()


def output(fd: int, limits: Limits | None = None, source: LineInput | None = None) -> tuple[LineOutput, list[str]]:
    """An output, and the list that tells when its reader is gone."""
    if pipe.can_poll(fd):
        os.set_blocking(fd, False)
    gone: list[str] = []
    return LineOutput(fd, limits or Limits(), lambda: gone.append("gone"), source), gone


# ---- reading


@pytest.mark.parametrize("kind", ["pipe", "socket", "terminal"])
def test_lines_come_from_what_can_be_polled(run: Run, kind: str) -> None:
    """Lines in any chunks, CRLF and blank ones among them, then the end, once, with what had no LF (STDIO-1, F5)."""
    reading, writing = pair(kind)
    assert pipe.can_poll(reading)

    async def main() -> None:
        ears = Ears(reading)
        ears.input.start()
        for part in (b"on", b"e\n\n\r\ntwo\r\nth", b"ree\nfour"):
            os.write(writing, part)
            await asyncio.sleep(0)
        await ears.until(lambda: len(ears.lines) == 3)
        os.close(writing)
        await ears.until(lambda: ears.ends > 0)
        assert ears.lines == [b"one", b"two", b"three", b"four"]
        ears.input.close()
        assert ears.ends == 1

    run(main())


@pytest.mark.parametrize("kind", ["file", "null", "folder"])
def test_lines_come_from_what_cannot_be_polled(run: Run, kind: str, tmp_path: Path) -> None:
    """A regular file is read to its end, /dev/null ends at once, and so does what cannot be read at all."""
    file = tmp_path / "lines"
    lines = [b"%d" % number * 50 for number in range(5000)]
    file.write_bytes(b"\n".join(lines))
    path = {"file": file, "null": Path(os.devnull), "folder": tmp_path}[kind]
    fd = os.open(path, os.O_RDONLY)
    assert not pipe.can_poll(fd)

    async def main() -> None:
        ears = Ears(fd)
        ears.input.start()
        await ears.until(lambda: ears.ends > 0)
        assert ears.lines == (lines if kind == "file" else [])
        assert ears.ends == 1

    run(main())


def test_a_line_that_is_too_long_is_told_of(run: Run) -> None:
    """A line over the limit is dropped and reported while it still goes on; the next one is read (T15)."""
    reading, writing = pair("pipe")

    async def main() -> None:
        ears = Ears(reading, limit=100)
        ears.input.start()
        os.write(writing, b"x" * 100 + b"\n" + b"y" * 300)
        await ears.until(lambda: len(ears.lines) == 2)
        assert ears.lines == [b"x" * 100, b"too long: 100"]
        os.write(writing, b"y" * 300 + b"\nnext\n")
        await ears.until(lambda: len(ears.lines) == 3)
        assert ears.lines[2] == b"next"
        ears.input.close()

    run(main())
    os.close(writing)


def test_a_paused_input_is_not_read(run: Run) -> None:
    """Between `pause` and `resume` nothing is handed over and the pipe keeps what it holds."""
    reading, writing = pair("pipe")

    async def main() -> None:
        ears = Ears(reading)
        ears.input.start()
        ears.input.pause()
        ears.input.pause()
        os.write(writing, b"one\n")
        for _ in range(10):
            await asyncio.sleep(0)
        assert ears.lines == []
        ears.input.resume()
        ears.input.resume()
        await ears.until(lambda: ears.lines == [b"one"])
        ears.input.close()
        ears.input.resume()
        ears.input.pause()
        assert ears.ends == 0

    run(main())
    os.close(writing)


@pytest.mark.usefixtures("on_threads")
def test_a_thread_reads_no_further_than_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a thread's input is paused and resumed, at most one read is under way, and none while paused."""
    reading, writing = pair("pipe")
    reads: list[int] = []
    real = os.read

    def read(fd: int, size: int) -> bytes:
        reads.append(fd)
        return real(fd, size)

    async def main() -> None:
        ears = Ears(reading)
        monkeypatch.setattr(pipe.os, "read", read)
        ears.input.start()
        for _ in range(5):
            ears.input.pause()
            ears.input.resume()
        ears.input.pause()
        os.write(writing, b"one\n")
        await ears.until(lambda: len(ears.lines) == 1)
        os.write(writing, b"two\n")
        for _ in range(100):
            await asyncio.sleep(0)
        assert ears.lines == [b"one"]
        ears.input.resume()
        await ears.until(lambda: len(ears.lines) == 2)
        ears.input.pause()
        os.close(writing)
        ears.input.resume()
        await ears.until(lambda: ears.ends == 1)
        assert 3 <= len(reads) <= 4
        monkeypatch.undo()

    run(main())


def test_a_closed_input_says_nothing_more(run: Run) -> None:
    """`close` stops the reading, closes the descriptor and calls nothing; a second `close` does nothing."""
    reading, writing = pair("pipe")

    async def main() -> None:
        ears = Ears(reading)
        ears.input.start()
        ears.input.close()
        ears.input.close()
        with pytest.raises(BrokenPipeError):
            os.write(writing, b"one\n")
        assert (ears.lines, ears.ends) == ([], 0)

    run(main())
    os.close(writing)


@pytest.mark.usefixtures("on_threads")
def test_a_thread_that_reads_outlives_its_loop_without_a_word(run: Run) -> None:
    """A thread that sits in a read when the loop is closed ends silently as the read returns, its descriptor closed."""
    reading, writing = pair("pipe")
    faults: list[Any] = []
    hook, threading.excepthook = threading.excepthook, faults.append

    async def main() -> None:
        Ears(reading).input.start()

    try:
        run(main())
        os.write(writing, b"one\n")
        os.close(writing)
        for thread in threading.enumerate():
            if thread.name == "jackfield-input":
                thread.join(10)
    finally:
        threading.excepthook = hook
    assert faults == []


# ---- writing


@pytest.mark.parametrize("threads", [False, True], ids=["polled", "thread"])
@pytest.mark.parametrize("kind", ["pipe", "socket", "terminal"])
def test_everything_written_arrives_in_order(
    run: Run, kind: str, threads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more than a pipe holds goes out whole and in order, whatever the sizes; a writer waits while it is full."""
    if threads:
        monkeypatch.setattr(pipe, "can_poll", lambda fd: False)
    frames = [b"%d:" % number + b"x" * (number * 7919 % 40_000) for number in range(60)]
    there, here = pair(kind)
    reading, writing = (here, there) if kind == "terminal" else (there, here)

    async def main() -> None:
        channel, gone = output(writing, Limits(outgoing=50_000))
        waits = 0
        everything = asyncio.create_task(_count(reading, sum(map(len, frames)) + len(frames)))
        for frame in frames:
            channel.write(frame)
            if channel.full:
                waits += 1
                await channel.drained()
                assert not channel.full
            elif len(frame) % 2:
                await asyncio.sleep(0)
        assert waits > 5
        await channel.flushed()
        got = await everything
        assert got.split(b"\n") == [*frames, b""]
        channel.close()
        assert gone == []

    run(main())
    os.close(reading)


async def _count(fd: int, size: int) -> bytes:
    """The next `size` bytes from `fd`, read on a thread."""

    def read() -> bytes:
        got = bytearray()
        while len(got) < size:
            got += os.read(fd, 65536)
        return bytes(got)

    return await asyncio.to_thread(read)


def test_a_file_is_written_on_a_thread(run: Run, tmp_path: Path) -> None:
    """A regular file, which no loop can watch, gets every frame in order before `flushed` returns."""
    path = tmp_path / "out"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)

    async def main() -> None:
        channel, gone = output(fd, Limits(outgoing=1000))
        for number in range(500):
            channel.write(b"%d" % number)
            if channel.full:
                await channel.drained()
        await channel.flushed()
        assert path.read_bytes().split() == [b"%d" % number for number in range(500)]
        channel.close()
        channel.close()
        assert gone == []

    run(main())


def test_frames_of_one_turn_go_out_together(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames written in one turn of the loop take one system call; to a peer that waits for each, one goes at once."""
    reading, writing = pair("pipe")
    source_reading, source_writing = pair("pipe")
    writes: list[bytes] = []
    real = os.write

    def write(fd: int, data: bytes) -> int:
        writes.append(bytes(data))
        return real(fd, data)

    async def main() -> None:
        ears = Ears(source_reading)
        channel, _ = output(writing, source=ears.input)
        monkeypatch.setattr(pipe.os, "write", write)
        for frame in (b"1", b"2", b"3"):
            channel.write(frame)
        assert writes == []
        await channel.flushed()
        assert writes == [b"1\n2\n3\n"]
        ears.input.batch = 1
        channel.write(b"4")
        assert writes[1:] == [b"4\n"]
        monkeypatch.undo()
        channel.close()
        ears.input.close()

    run(main())
    os.close(reading)
    os.close(source_writing)


def test_what_is_left_of_a_write_is_not_copied_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large backlog goes out of one buffer piece by piece, or sending it would take squared time."""
    reading, writing = pair("pipe")
    buffers: list[object] = []
    real = os.write

    def write(fd: int, data: bytes | memoryview) -> int:
        buffers.append(data.obj if isinstance(data, memoryview) else data)
        return real(fd, data)

    async def main() -> None:
        channel, _ = output(writing)
        monkeypatch.setattr(pipe.os, "write", write)
        for _ in range(30):
            channel.write(b"x" * 99_999)
        everything = asyncio.create_task(_count(reading, 3_000_000))
        await asyncio.sleep(0)
        channel.write(b"y" * 999)
        await channel.flushed()
        await everything
        monkeypatch.undo()
        assert len(buffers) > 10
        assert len({id(buffer) for buffer in buffers}) == 2
        channel.close()

    run(main())
    os.close(reading)


@pytest.mark.parametrize("threads", [False, True], ids=["polled", "thread"])
def test_far_too_much_unsent_stops_the_reading(run: Run, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 16 times `outgoing` unsent bytes nothing more is read, until there is room again."""
    if threads:
        monkeypatch.setattr(pipe, "can_poll", lambda fd: False)
    reading, writing = pair("pipe")
    source_reading, source_writing = pair("pipe")

    async def main() -> None:
        ears = Ears(source_reading)
        ears.input.start()
        channel, _ = output(writing, Limits(outgoing=100_000), ears.input)
        for _ in range(18):
            channel.write(b"x" * 99_999)
        for _ in range(10):
            await asyncio.sleep(0)
        if threads:  # its read was under way already
            os.write(source_writing, b"before\n")
            await ears.until(lambda: len(ears.lines) == 1)
            ears.lines.clear()
        os.write(source_writing, b"one\n")
        for _ in range(10):
            await asyncio.sleep(0)
        assert ears.lines == []
        assert len(await _count(reading, 1_800_000)) == 1_800_000
        await ears.until(lambda: ears.lines == [b"one"])
        assert not channel.full
        channel.close()
        os.close(source_writing)
        await ears.until(lambda: ears.ends == 1)

    run(main())
    os.close(reading)


@pytest.mark.parametrize("kind", ["pipe", "socket", "terminal", "full"])
def test_a_reader_that_is_gone_is_told_once(run: Run, kind: str) -> None:
    """When writing fails `lost` is called, once and not within `write`; whoever waits goes on; the rest is dropped."""
    if kind == "full":
        if not os.path.exists("/dev/full"):
            pytest.skip("no /dev/full")
        reading, writing = None, os.open("/dev/full", os.O_WRONLY)
    else:
        there, here = pair(kind)
        reading, writing = (here, there) if kind == "terminal" else (there, here)

    async def main() -> None:
        channel, gone = output(writing, Limits(outgoing=10))
        if reading is not None:
            assert not channel.hung_up()
            os.close(reading)
            assert channel.hung_up()
        channel.write(b"x" * 50)
        channel.write(b"x" * 50)
        assert gone == []
        assert channel.full
        await asyncio.gather(channel.drained(), channel.flushed())
        await channel.drained()
        channel.write(b"x")
        assert gone == ["gone"]
        assert not channel.full
        assert channel.hung_up()
        channel.close()
        assert gone == ["gone"]

    run(main())


@pytest.mark.parametrize("threads", [False, True], ids=["polled", "thread"])
def test_a_closed_output_drops_what_waits(run: Run, threads: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """`close` with a reader that does not read returns at once, wakes who waits, and closes the descriptor in time."""
    if threads:
        monkeypatch.setattr(pipe, "can_poll", lambda fd: False)
    reading, writing = pair("pipe")

    async def main() -> None:
        channel, gone = output(writing, Limits(outgoing=10))
        for _ in range(3):
            channel.write(b"x" * 200_000)
            await asyncio.sleep(0)
        waiters = asyncio.gather(channel.drained(), channel.flushed())
        await asyncio.sleep(0)
        channel.close()
        await waiters
        channel.write(b"more")
        assert not channel.full
        assert gone == []
        with open(reading, "rb") as rest:  # which ends when the writing side is really closed
            assert set(await asyncio.to_thread(rest.read)) <= set(b"x\n")

    run(main())
