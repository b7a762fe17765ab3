"""An HTTP server in a process of its own, checked calls to it, and timed runs of wrk against it."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from types import TracebackType
from typing import Any, Self

from bench import load, peers, targets
from bench.driver import resident
from bench.measure import Skipped

CONNECTIONS = 16
PATIENCE = 30.0
SECONDS = 1
"""The shortest that wrk can run for."""
NUMBER = 40_000_000
"""What the timed calls add to: the sum is nowhere else in an answer."""
SAME_SIZE = 0.05
"""How far the mean size of the answers in a timed run may be from that of answers that were all looked at."""


class ServerFailed(Exception):
    """A server under test did not start, or ended; the text ends with what it said."""


def wrk() -> str:
    """The path of wrk. Raises Skipped where there is none."""
    if found := shutil.which("wrk"):
        return found
    raise Skipped("wrk is absent (Debian's package of that name has it)")


class Site:
    """A server under test at a free port of this machine, from its start to its end.

    `command` is given the port as its last argument, and as PORT in its environment.
    """

    def __init__(self, command: list[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._child = subprocess.Popen(
            [*command, str(self.port)],
            env=targets.environment() | {"PORT": str(self.port)},
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
        )
        self._wait_until_open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.terminate()
        try:
            self._child.wait(5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._stderr.close()

    def memory(self) -> float | None:
        """Resident memory now, in MB; None where the system has no /proc."""
        found = resident(self._child.pid)
        return found and found[0]

    def _wait_until_open(self) -> None:
        until = time.monotonic() + PATIENCE
        while self._child.poll() is None and time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        said = self.said()
        self.__exit__(None, None, None)
        raise ServerFailed(f"{self._child.args} does not listen on port {self.port}\n{said}")

    def said(self) -> str:
        """The end of what the server wrote to its standard output and error."""
        self._stderr.seek(0)
        text = self._stderr.read().decode(errors="replace")[-2000:]
        self._stderr.seek(0, os.SEEK_END)
        return text


class Calls:
    """Calls of one tool of a site by wrk, all with the same arguments. An answer is looked at where that costs no time.

    In a first run, which warms the server up, that is every answer; later it is one before and one after each run, and
    the number of bytes tells that the others are like those. `checked` is False for a site that has no tools.
    """

    def __init__(self, site: Site, era: str, tool: str, session: str | None = None, checked: bool = True) -> None:
        self._site, self._era, self._tool, self._checked = site, era, tool, checked
        self._headers = load.http_headers(era, tool, session)
        self._next = 1
        self._size = self._mean_size(self._run(looks=checked))

    def rate(self) -> float:
        """Calls per second of one run. Raises WrongAnswer."""
        self._check()
        run = self._run()
        self._check()
        if abs(self._mean_size(run) / self._size - 1) > SAME_SIZE:
            raise load.WrongAnswer(f"{self._site.url}: {run}: a right answer has {self._size:.0f} bytes")
        return run["requests"] / run["microseconds"] * 1e6

    def _check(self) -> None:
        if not self._checked:
            return
        number, self._next = self._next, self._next + 1
        (body,) = load.calls(self._era, self._tool, number, 1)
        with Talk(self._site.port) as talk:
            load.check(talk.post(body, self._headers), number, 1)

    def _run(self, looks: bool = False) -> dict[str, Any]:
        (body,) = load.calls(self._era, self._tool, NUMBER, 1)
        headers = [part for pair in self._headers.items() for part in ("-H", ": ".join(pair))]
        command = [wrk(), "-t1", f"-c{CONNECTIONS}", f"-d{SECONDS}s", "-s", peers.script("call.lua"), *headers]
        command += [self._site.url, "--", body.decode().rstrip(), *([str(NUMBER + 2)] if looks else [])]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
        run = json.loads(done.stdout.splitlines()[-1])
        if run["failed"] or run["wrong"] or not run["requests"]:
            raise load.WrongAnswer(f"{self._site.url}: {run}\n{self._site.said()}")
        return run

    @staticmethod
    def _mean_size(run: dict[str, Any]) -> float:
        return run["bytes"] / run["requests"]


class Talk:
    """One connection to an HTTP server."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def open_session(self) -> str:
        """Begin a legacy session and return its id."""
        first, then = load.opening("legacy")
        headers = load.http_headers("legacy", "", None)
        response = self._send(first, headers)
        session = response.headers.get("Mcp-Session-Id")
        answer = load.line_of(response.read(), response.headers.get_content_type())
        if response.status != 200 or session is None or b'"result"' not in answer:
            raise load.WrongAnswer(f"no session was opened: HTTP {response.status}: {answer[:300]!r}")
        self._send(then, headers | {"Mcp-Session-Id": session}).read()
        return session

    def post(self, body: bytes, headers: dict[str, str]) -> bytes:
        """Send a request; its answer as a line of JSON. Raises WrongAnswer when the status is not 200."""
        response = self._send(body, headers)
        answer = response.read()
        if response.status != 200:
            raise load.WrongAnswer(f"HTTP {response.status}: {answer[:300]!r}")
        return load.line_of(answer, response.headers.get_content_type())

    def _send(self, body: bytes, headers: dict[str, str]) -> http.client.HTTPResponse:
        self._connection.request("POST", "/mcp", body.rstrip(), headers)
        return self._connection.getresponse()
