"""The runner as a process: its announcement, its end by signals, and several workers on one address."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transport.http import whole
from tests.transport.talk import PATIENCE, Talk

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and forks")

APP = str(Path(__file__).parent / "serve_app.py")
ANNOUNCED = re.compile(r"jackfield: serving plain at http://127\.0\.0\.1:(\d+)/mcp")


def started(*, limits: dict[str, Any] | None = None, env: dict[str, str] | None = None, **options: Any) -> Talk:
    """A process that runs the plain app."""
    return Talk([sys.executable, APP, json.dumps(options)], limits=limits, env=env)


def port_of(talk: Talk) -> int:
    """The port that a process has announced."""
    talk.until(lambda lines: any(ANNOUNCED.fullmatch(line) for line in lines))
    [found] = [match for line in talk.stderr if (match := ANNOUNCED.fullmatch(line))]
    return int(found[1])


def asked(port: int, path: str = "/mcp") -> http.client.HTTPConnection:
    """A connection that has sent a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("POST", path, b"")
    return connection


def pid_at(port: int) -> int:
    """The process that answers a request on a new connection."""
    with contextlib.closing(asked(port)) as connection:
        return json.load(connection.getresponse())["pid"]


def pids(talk: Talk) -> list[int]:
    """The processes that have begun to serve."""
    return [int(line.split()[1]) for line in list(talk.stderr) if line.startswith("pid ")]


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_in_order(number: signal.Signals, loop: str) -> None:
    """A signal ends an open stream, a request that takes for ever and the lifespan, and no word is said of it (F24)."""
    with started(limits={"grace": 0.05}, env={"SERVED_LOOP": loop}) as talk:
        port = port_of(talk)
        with contextlib.closing(asked(port, "/stream")) as stream, contextlib.closing(asked(port, "/wait")) as waiting:
            opened = stream.getresponse()
            talk.says("waiting")
            talk.process.send_signal(number)
            assert opened.read() == b"data: 1\n\n"
            assert waiting.getresponse().status == 503
            assert talk.wait() == 0
    ends = [line for line in talk.stderr if line not in ("called", "waiting", "streaming")]
    assert ends[:2] == ["began", f"pid {talk.process.pid}"]
    assert ends[3:] == ["closing", "cancelled", "ended"]


@contextlib.contextmanager
def idle_at(port: int) -> Iterator[Callable[[], None]]:
    """A connection that has had its answer; gives what waits until it is closed, as all idle ones are in the end."""
    with contextlib.closing(asked(port)) as connection:
        connection.getresponse().read()
        assert connection.sock is not None

        def closed() -> None:
            assert connection.sock.recv(1) == b""

        yield closed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once(number: signal.Signals) -> None:
    """Who asks twice does not wait for what is being answered."""
    with started(limits={"grace": 3600}) as talk, contextlib.closing(asked(port_of(talk), "/wait")):
        with idle_at(port_of(talk)) as until_closed:
            talk.says("waiting")
            talk.process.send_signal(number)
            until_closed()
            talk.process.send_signal(number)
            assert talk.wait() == -number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_whole_server_ends_in_order(number: signal.Signals, workers: int) -> None:
    """With a stream open and a tool of half a minute running a signal ends both with an answer, and the lifespan.

    The process is gone with code 0, and nothing is said of answers that are not complete (F24).
    """
    with whole.started({"grace": 0.05}, workers=workers) as talk:
        port = whole.port_of(talk)
        with whole.calling(port, "stream") as streaming, whole.calling(port, "slow") as slow:
            stream = streaming.getresponse()
            assert whole.event(stream)["params"]["message"] == "streaming"
            talk.says("slow")
            talk.process.send_signal(number)
            assert whole.event(stream)["id"] == 1
            assert stream.read() == b""
            answer = slow.getresponse()
            assert answer.status == 503
            assert json.loads(answer.read())["id"] == 1
        assert talk.wait() == 0
    assert [line for line in talk.stderr if "serving" not in line] == ["slow"] + ["ended"] * workers


def test_standard_output_is_nobodys() -> None:
    """Over HTTP nothing but the announcement is written by the runner, and standard output stays empty."""
    with started() as talk:
        port_of(talk)
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == 0
        assert talk.rest() == b""


def test_a_unix_socket_is_served(tmp_path: Path) -> None:
    """Requests on a Unix domain socket are answered, and its file is gone in the end."""
    path = os.path.relpath(tmp_path / "s")  # short enough for every system
    with started(uds=path) as talk:
        talk.says(f"jackfield: serving plain at unix:{path} (path /mcp)")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(path)
            client.sendall(b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == 0
    assert not os.path.exists(path)


def test_what_the_lifespan_raises_ends_the_process() -> None:
    """A lifespan that fails is raised out of `run`, and nothing was announced."""
    with started(env={"FAILS": "no database"}) as talk:
        assert talk.wait() == 1
    assert talk.stderr[-1] == "OSError: no database"
    assert not any("serving" in line for line in talk.stderr)


# ---- workers


def test_workers_share_an_address() -> None:
    """Each of several processes answers on the one address, which is announced once."""
    with started(workers=2) as talk:
        port = port_of(talk)
        talk.until(lambda _: len(pids(talk)) == 2)
        first, second = pids(talk)
        for stopped, answers in ((first, second), (second, first)):
            os.kill(stopped, signal.SIGSTOP)
            assert pid_at(port) == answers
            os.kill(stopped, signal.SIGCONT)
        assert talk.process.pid not in (first, second)
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == 0
    assert talk.stderr.count("ended") == 2
    assert sum("serving" in line for line in talk.stderr) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_end_in_order(number: signal.Signals) -> None:
    """A signal to the parent alone ends the streams and requests of its workers in order (F24)."""
    with started(workers=2, limits={"grace": 0.05}) as talk:
        port = port_of(talk)
        with contextlib.ExitStack() as stack:
            paths = ["/stream"] * 4 + ["/wait"]
            *streams, waiting = [stack.enter_context(contextlib.closing(asked(port, path))) for path in paths]
            opened = [stream.getresponse() for stream in streams]
            talk.says("waiting")
            talk.until(lambda _: len(pids(talk)) == 2)
            talk.process.send_signal(number)
            assert [answer.read() for answer in opened] == [b"data: 1\n\n"] * 4
            assert waiting.getresponse().status == 503
            assert talk.wait() == 0
    assert talk.stderr.count("ended") == 2


def test_the_signal_of_a_terminal_ends_workers_in_order() -> None:
    """SIGINT to the parent and to each worker, as a terminal sends it, is one request to end, not two."""
    with started(workers=2, limits={"grace": 0.05}) as talk:
        port_of(talk)
        talk.until(lambda _: len(pids(talk)) == 2)
        for pid in (*pids(talk), talk.process.pid):
            os.kill(pid, signal.SIGINT)
        assert talk.wait() == 0
    assert talk.stderr.count("ended") == 2


def test_a_worker_that_dies_is_replaced() -> None:
    """In the place of a worker that was killed another one serves, and a line says so."""
    with started(workers=2) as talk:
        port_of(talk)
        talk.until(lambda _: len(pids(talk)) == 2)
        victim, other = pids(talk)
        os.kill(victim, signal.SIGKILL)
        talk.says(f"jackfield: worker {victim} ended by SIGKILL; another takes its place")
        talk.until(lambda _: len(pids(talk)) == 3)
        os.kill(other, signal.SIGTERM)
        talk.says(f"jackfield: worker {other} ended with code 0; another takes its place")
        talk.until(lambda _: len(pids(talk)) == 4)
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == 0
    assert talk.stderr.count("ended") == 3


def test_workers_whose_parent_was_killed_end() -> None:
    """Nothing is left of a parent that was killed: the workers end by themselves, in order."""
    with started(workers=2) as talk:
        port_of(talk)
        talk.until(lambda _: len(pids(talk)) == 2)
        talk.process.kill()
        talk.silent()
    assert talk.stderr.count("ended") == 2


def test_a_second_signal_kills_workers() -> None:
    """Who asks twice leaves no worker behind, whatever it does."""
    with started(workers=2, limits={"grace": 3600}) as talk, contextlib.closing(asked(port_of(talk), "/wait")):
        with idle_at(port_of(talk)) as until_closed:
            talk.says("waiting")
            talk.process.send_signal(signal.SIGTERM)
            until_closed()
            talk.process.send_signal(signal.SIGTERM)
            talk.silent()
            assert talk.wait() == 0


def test_workers_that_do_not_end_are_killed() -> None:
    """A worker whose loop is blocked is killed when its time is over, with a line that says so."""
    limits = {"grace": 0.05, "drain": 0.05}
    with started(workers=2, limits=limits) as talk, contextlib.closing(asked(port_of(talk), "/block")):
        talk.says("blocked")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == 0
        talk.says("jackfield: workers did not end in time and are killed: 1")


def test_workers_that_cannot_start_end_the_run() -> None:
    """Where no worker gets to serve, nothing is tried again and again: the run fails with what the lifespan raised."""
    with started(workers=2, env={"FAILS": "no database"}) as talk:
        assert talk.wait() == 1
        talk.silent()
    assert "OSError: no database" in talk.stderr
    assert talk.stderr[-1] == "RuntimeError: a worker ended with code 3 before it served"
