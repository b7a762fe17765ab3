"""Processes that serve the same sockets: forked, watched, started anew when one dies, and ended together (POSIX)."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from ...protocol.errors import RegistrationError

AGAIN = 1.0
"""Seconds between two starts of a worker in the place of one that died."""

ASKED = (signal.SIGINT, signal.SIGTERM)


class Workers:
    """The parent of the processes that serve. It does nothing but watch them."""

    def __init__(
        self,
        work: Callable[[Callable[[], None], int], None],
        count: int,
        patience: float,
        *,
        ready: Callable[[], None],
        ending: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        """Prepare for `count` processes that run `work`, which is given what to call when it serves, and the parent.

        `ready` is called when all serve, `ending` when they are asked to end, which they have `patience`
        seconds for, `say` with lines for the operator.
        """
        self._work = work
        self._count = count
        self._patience = patience
        self._ready = ready
        self._ending = ending
        self._say = say
        self._children: set[int] = set()
        self._before: dict[int, Any] = {}
        self._wake: tuple[int, int]
        self._serving: tuple[int, int]
        self._waited_for = count
        self._announced = False
        self._started = 0.0
        self._end_at: float | None = None
        self._asked: set[int] = set()
        self._failed = ""

    def run(self) -> None:
        """Return when a signal has asked for the end and all have ended.

        A second signal of its kind kills them. Raises RuntimeError where one ends before all serve, and
        RegistrationError off the main thread, which alone hears of signals.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RegistrationError("workers are run by the main thread; call `run` there, or use workers=1")
        self._wake, self._serving = os.pipe(), os.pipe()
        for fd in (*self._wake, self._serving[0]):
            os.set_blocking(fd, False)
        try:
            self._before = {number: signal.signal(number, _wake_up) for number in (*ASKED, signal.SIGCHLD)}
            # A full pipe wakes as well as one more byte does.
            usual = signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
            try:
                for _ in range(self._count):
                    self._start()
                while self._children or self._end_at is None:
                    self._look()
            finally:
                self._kill()
                signal.set_wakeup_fd(usual)
                for number, handler in self._before.items():
                    signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        finally:
            for fd in (*self._wake, *self._serving):
                os.close(fd)
        if self._failed:
            raise RuntimeError(self._failed)

    def _look(self) -> None:
        """Wait for something to happen, and do what it asks for."""
        select.select((self._wake[0], self._serving[0]), (), (), self._timeout())
        for number in _read(self._wake[0]):
            if number in ASKED:
                self._end(number)
        self._waited_for -= len(_read(self._serving[0]))
        if self._waited_for <= 0 and not self._announced:
            self._announced = True
            self._ready()
        self._collect()
        now = time.monotonic()
        if self._end_at is None:
            if len(self._children) < self._count and now >= self._started + AGAIN:
                self._start()
        elif now >= self._end_at and self._children:
            self._say(f"workers did not end in time and are killed: {len(self._children)}")
            self._kill()

    def _timeout(self) -> float | None:
        if self._end_at is not None:
            until = self._end_at
        elif len(self._children) < self._count:
            until = self._started + AGAIN
        else:
            return None
        return max(0.0, until - time.monotonic())

    def _end(self, number: int) -> None:
        if number in self._asked:
            self._kill()
            return
        self._asked.add(number)
        if self._end_at is None:
            self._end_at = time.monotonic() + self._patience
            self._ending()  # else connections would wait for a process that takes none
            for pid in self._children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)

    def _kill(self) -> None:
        for pid in list(self._children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._children.discard(pid)

    def _collect(self) -> None:
        """Hear which ones have ended."""
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            self._children.discard(pid)
            if self._end_at is not None:
                continue
            code = os.waitstatus_to_exitcode(status)
            how = f"with code {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
            if self._announced:
                self._say(f"worker {pid} ended {how}; another takes its place")
            else:
                self._failed = f"a worker ended {how} before it served"
                self._end(signal.SIGTERM)

    def _start(self) -> None:
        self._started = time.monotonic()
        # A signal between the fork and the child's own handlers would be taken for one to this process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ASKED)
        try:
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                self._live(before, parent)
            self._children.add(pid)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _live(self, mask: set[Any], parent: int) -> NoReturn:
        """Be a worker; nothing that the parent still has to do may happen here."""
        code = 3
        try:
            signal.set_wakeup_fd(-1)
            for number, handler in self._before.items():
                signal.signal(number, handler if handler is not None else signal.SIG_DFL)
            for fd in (*self._wake, self._serving[0]):
                os.close(fd)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._work(lambda: _tell(self._serving[1]), parent)
            code = 0
        except KeyboardInterrupt:  # the second one; the first ends the worker cleanly
            code = 130
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(AttributeError, OSError, ValueError):  # None, gone or closed
                    stream.flush()
            os._exit(code)


def _wake_up(_: int, __: FrameType | None) -> None:
    """Nothing: the number comes through the pipe."""


def _tell(fd: int) -> None:
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(fd, b"1")


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 4096)
    except BlockingIOError:
        return b""
