"""Lines over file descriptors: reading and writing on the loop where they can be polled, on threads elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import stat
import threading
from collections.abc import Callable

from ..protocol.framing import LineReader, TooLong
from ..protocol.limits import Limits

CHUNK = 65536
MANY_LINES = 1024
"""More lines than any real messages would make of one CHUNK."""
BURST = 32
"""So many frames are sent together at most: the peer reads them while the next ones are made."""


def can_poll(fd: int) -> bool:
    """Tell whether the loop can watch `fd`: pipes, sockets and terminals, but not on Windows."""
    if os.name == "nt":
        return False
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


class LineInput:
    """Reads lines from a descriptor and hands each to `receive`; `overlong` is told of each that was too long to keep.

    `ended` is called once, when the input has ended and all lines were handed over. The descriptor belongs to this
    object; it must be non-blocking where it can be polled.
    """

    def __init__(
        self,
        fd: int,
        limit: int,
        receive: Callable[[bytes], None],
        overlong: Callable[[TooLong], None],
        ended: Callable[[], None],
    ) -> None:
        self.batch = 0
        """How many lines the last read brought."""
        self._fd = fd
        self._chunk = CHUNK // 16
        self._lines = LineReader(limit)
        self._limit = limit
        self.receive = receive
        self._overlong = overlong
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._polled = can_poll(fd)
        self._paused = False
        self._over = False
        self._more = threading.Semaphore(0)
        self._asked = False
        """A thread reads, or is about to; it is never asked for more than one read at a time."""

    def start(self) -> None:
        """Begin to read."""
        if self._polled:
            self._loop.add_reader(self._fd, self._readable)
        else:
            self._ask()
            threading.Thread(target=self._read_blocking, name="jackfield-input", daemon=True).start()

    def pause(self) -> None:
        """Read no more until `resume`; a thread's read under way is still handed over."""
        if not self._paused and not self._over:
            self._paused = True
            if self._polled:
                self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Go on after `pause`."""
        if self._paused and not self._over:
            self._paused = False
            if self._polled:
                self._loop.add_reader(self._fd, self._readable)
            else:
                self._ask()

    def close(self) -> None:
        """Stop reading and close the descriptor; `ended` is not called any more."""
        if not self._over:
            self._over = True
            if self._polled:
                self._loop.remove_reader(self._fd)
                os.close(self._fd)
            else:
                self._more.release()  # the thread closes what it alone may use

    def _readable(self, data: bytes | None = None) -> None:
        if data is None:
            try:
                data = os.read(self._fd, self._chunk)
            except BlockingIOError:
                return
            except OSError:
                data = b""  # a terminal that was closed, a connection that was reset
        if not data:
            self._finish()
            return
        lines = self._lines.feed(data)
        self.batch = len(lines)
        # Little at a time from a peer that sends very many lines, so that nothing else on the loop has to wait for it.
        self._chunk = CHUNK if len(lines) < MANY_LINES else CHUNK // 16
        for line in lines:
            if isinstance(line, bytes):
                self.receive(line)
            else:
                self._overlong(line)

    def _finish(self) -> None:
        for line in self._lines.finish():
            if isinstance(line, bytes):
                self.receive(line)
            else:
                self._overlong(line)
        if not self._over:
            self.close()
            self._ended()

    def _read_blocking(self) -> None:
        data = b"?"
        with contextlib.suppress(RuntimeError):  # the loop may be closed while this thread sits in read()
            while data:
                self._more.acquire()
                if self._over:
                    break
                try:
                    data = os.read(self._fd, CHUNK)
                except OSError:
                    data = b""
                self._loop.call_soon_threadsafe(self._from_thread, data)
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._more.release()

    def _from_thread(self, data: bytes) -> None:
        self._asked = False
        if not self._over:
            self._readable(data)
            if not self._paused:
                self._ask()


class LineOutput:
    """Writes lines to a descriptor: the `Channel` of a stdio connection.

    Frames written in one turn of the loop go out in one system call. `lost` is called once when the reader is gone.
    `source` (the other direction, where there is one) tells whether more requests are being read, and is paused while
    far too much waits to be sent. The descriptor is this object's; where it can be polled it must be non-blocking.
    """

    def __init__(self, fd: int, limits: Limits, lost: Callable[[], None], source: LineInput | None = None) -> None:
        self.full = False
        self.longest = limits.line
        self._fd = fd
        self._high = limits.outgoing
        self._stop_reading = 16 * limits.outgoing
        self._lost = lost
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._polled = can_poll(fd)
        self._frames: list[bytes] = []
        self._size = 0
        self._rest: memoryview | None = None
        self._scheduled = False
        self._watched = False
        self._gone = False
        self._waiters: list[asyncio.Future[None]] = []
        self._jobs: queue.SimpleQueue[bytes] | None = None

    def write(self, frame: bytes) -> None:
        """Take one frame to send."""
        if self._gone:
            return
        self._frames.append(frame)
        self._size += len(frame) + 1
        if self._scheduled:
            if self._size >= self._high:
                self._overfull()
            elif len(self._frames) == BURST and not self._watched:
                self._flush()
                self._scheduled = True  # the one that was scheduled is still to come
        elif self._source is not None and self._source.batch == 1:
            self._flush()  # a peer that waits for each answer: no reason to wait for more
        else:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _overfull(self) -> None:
        self.full = True
        if self._size >= self._stop_reading and self._source is not None:
            self._source.pause()

    def _flush(self) -> None:
        if self._gone:
            return
        data = self._rest
        if data is None:
            frames = self._frames
            if not frames:
                self._scheduled = False
                return
            data = frames[0] + b"\n" if len(frames) == 1 else b"\n".join(frames) + b"\n"
            frames.clear()
            if not self._polled:
                self._hand_over(data)
                return
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._scheduled = True
            self._loop.call_soon(self._break)  # not at once: a handler may be in the middle of its own answer
            return
        self._size -= sent
        if self._size == 0:
            if self._watched:
                self._rest = None
                self._watched = False
                self._loop.remove_writer(self._fd)
            self._scheduled = False
            if self._waiters or self.full:
                self._relieve()
            return
        # What is left goes out before anything is put together anew: copying it each time would take squared time.
        self._rest = memoryview(data)[sent:] if sent < len(data) else None
        self._scheduled = True
        if not self._watched:
            self._watched = True
            self._loop.add_writer(self._fd, self._flush)
        if self._size >= self._high:
            self._overfull()
        elif self.full:
            self._relieve()

    def _hand_over(self, data: bytes) -> None:
        """Let a thread write what the loop cannot watch (a regular file, any pipe on Windows)."""
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            thread = threading.Thread(target=self._write_blocking, args=(self._jobs,), name="jackfield-output")
            thread.daemon = True
            thread.start()
        self._scheduled = False
        self._jobs.put(data)
        if self._size >= self._high:
            self._overfull()

    def _write_blocking(self, jobs: queue.SimpleQueue[bytes]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop may be closed while this thread sits in write()
            while data := jobs.get():
                view = memoryview(data)
                try:
                    while view:
                        view = view[os.write(self._fd, view) :]
                except OSError:
                    self._loop.call_soon_threadsafe(self._break)
                    break
                self._loop.call_soon_threadsafe(self._written, len(data))
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def _written(self, size: int) -> None:
        self._size -= size
        if self._size == 0 or (self.full and self._size < self._high):
            self._relieve()

    def _relieve(self) -> None:
        self.full = False
        if self._source is not None:
            self._source.resume()
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def drained(self) -> None:
        """Return when the channel is no longer full, or is gone."""
        while self.full and not self._gone:
            await self._wait()

    async def flushed(self) -> None:
        """Return when everything has been handed to the system, or the reader is gone."""
        while self._size and not self._gone:
            await self._wait()

    def hung_up(self) -> bool:
        """Tell whether nobody can read any more what is written; False where the system does not tell."""
        if not self._polled or self._gone:
            return self._gone
        watch = select.poll()
        watch.register(self._fd, 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(waiter)
        await waiter

    def _break(self) -> None:
        if not self._gone:
            self.close()
            self._lost()

    def close(self) -> None:
        """Close the descriptor; what was not sent is lost."""
        if self._gone:
            return
        self._gone = True
        self._frames.clear()
        self._size = 0
        self.full = False
        if self._polled:
            self._loop.remove_writer(self._fd)
        if self._jobs is not None:
            self._jobs.put(b"")  # the thread that writes closes what it alone may use
        else:
            with contextlib.suppress(OSError):
                os.close(self._fd)
        self._wake()
