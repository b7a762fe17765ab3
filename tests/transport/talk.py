"""Talking to a server process over its descriptors, as a test of the transport does: raw lines, no client."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jackfield

SERVED = str(Path(__file__).parent / "served.py")
PATIENCE = 20.0
"""Seconds after which a test gives up: no bar, only the end of waiting for what will not come."""

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that imports the jackfield of this test run."""
    own = {**os.environ, "PYTHONPATH": str(Path(jackfield.__file__).parent.parent)}
    own.pop("PYTHONUNBUFFERED", None)
    return own | more


def message(id: Any, method: str, **params: Any) -> bytes:
    """A modern request's line."""
    said = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": META}}
    return json.dumps(said).encode() + b"\n"


def call(id: Any, tool: str, **arguments: Any) -> bytes:
    """A modern `tools/call`'s line."""
    return message(id, "tools/call", name=tool, arguments=arguments)


def text(answer: dict[str, Any]) -> str:
    """The text of a tool's answer."""
    assert answer["result"].get("isError") is not True, answer
    return answer["result"]["content"][0]["text"]


class Talk:
    """A running server process; what it writes to standard error is collected line by line."""

    def __init__(
        self,
        command: Sequence[str] = (sys.executable, SERVED),
        *,
        stdin: int = subprocess.PIPE,
        stdout: int = subprocess.PIPE,
        limits: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            list(command),
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment(SERVED_LIMITS=json.dumps(limits or {}), **(env or {})),
            cwd=cwd,
            bufsize=0,
        )
        self.stderr: list[str] = []
        self._heard = threading.Condition()
        self._deaf = False
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._rest = b""

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self._listener.join(PATIENCE)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as pipe:
            for line in iter(pipe.readline, b""):
                with self._heard:
                    self.stderr.append(line.decode("utf-8", "backslashreplace").rstrip("\n"))
                    self._heard.notify_all()
        with self._heard:
            self._deaf = True
            self._heard.notify_all()

    def until(self, reached: Callable[[list[str]], bool]) -> None:
        """Wait for something on standard error."""
        with self._heard:
            self._heard.wait_for(lambda: reached(self.stderr) or self._deaf, PATIENCE)
            assert reached(self.stderr), self.stderr

    def says(self, line: str, times: int = 1) -> None:
        """Wait until that line stood on standard error that often."""
        self.until(lambda lines: lines.count(line) >= times)

    def silent(self) -> None:
        """Wait until nobody can write to its standard error any more: the process and all it started are gone."""
        with self._heard:
            assert self._heard.wait_for(lambda: self._deaf, PATIENCE), self.stderr

    def send(self, *lines: bytes) -> None:
        """Write lines to its standard input."""
        assert self.process.stdin is not None
        data = memoryview(b"".join(lines))
        while data:
            data = data[self.process.stdin.write(data) or 0 :]

    def close(self) -> None:
        """End its input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def read(self) -> dict[str, Any]:
        """The next message from its standard output."""
        assert self.process.stdout is not None
        fd, end = self.process.stdout.fileno(), time.monotonic() + PATIENCE
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            assert select.select([fd], [], [], max(0, end - time.monotonic()))[0], f"no answer; {self.stderr}"
            parts.append(os.read(fd, 1 << 20))
            assert parts[-1], f"the output ended; {self.stderr}"
        line, self._rest = b"".join(parts).split(b"\n", 1)
        return json.loads(line)

    def answers(self, count: int) -> dict[Any, dict[str, Any]]:
        """The next `count` messages, by id."""
        messages = [self.read() for _ in range(count)]
        found = {message.get("id"): message for message in messages}
        assert len(found) == count, messages
        return found

    def ask(self, line: bytes) -> dict[str, Any]:
        """Send a line and read the next message."""
        self.send(line)
        return self.read()

    def rest(self) -> bytes:
        """Everything that is left of its output, to the end."""
        assert self.process.stdout is not None
        return self._rest + self.process.stdout.read()

    def wait(self) -> int:
        """Its exit code."""
        code = self.process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        return code

    def peak(self) -> int:
        """The most memory that it has had, in MiB (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) // 1024
