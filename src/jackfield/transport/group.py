"""Process groups: who is left in one, and how a server ends what its tools have left in its own."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

MERCY: Final = 0.5
"""Seconds between the request to end and the kill."""

ORPHANED: Final = 0.2
"""Seconds in which a parent that is being killed is gone for its children too; its pipes close a little before."""


def living(group: int) -> Iterator[int]:
    """The processes of a group that are not dead: in many containers nobody collects what lost its parent."""
    if sys.platform == "linux":
        for name in os.listdir("/proc"):
            if name.isdecimal():
                with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                    state, _, its_group = file.read().rpartition(b")")[2].split()[:3]
                    if int(its_group) == group and state not in b"ZX":
                        yield int(name)
    elif os.name == "posix":
        import subprocess

        with subprocess.Popen(["ps", "-Ao", "pid=,pgid=,stat="], stdout=subprocess.PIPE, text=True) as ps:
            for line in ps.communicate()[0].splitlines():
                pid, its_group, state = line.split()[:3]
                if int(its_group) == group and int(pid) != ps.pid and state[0] != "Z":
                    yield int(pid)


def end_orphans(parent: int) -> None:
    """End what is left of this process's group, if it leads a session of its own and its `parent` is gone (L10).

    A client that was killed cannot do this, and nobody else will. While the parent lives it is the parent's business.
    """
    if os.name != "posix" or parent <= 1 or os.getsid(0) != os.getpid():
        return
    if not _others() or not _within(ORPHANED, lambda: os.getppid() != parent):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _others():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        if _within(MERCY, lambda: not _others()):
            return


def _others() -> list[int]:
    return [pid for pid in living(os.getpid()) if pid != os.getpid()]


def _within(seconds: float, reached: Callable[[], bool]) -> bool:
    """Whether that comes true in this time."""
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() >= end:
            return False
        time.sleep(0.01)
    return True
