"""Debian's nginx in front of two server processes: calls are spread over them, and streams pass unbuffered."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.transport.http.whole import called, calling, event, port_of, started
from tests.transport.talk import PATIENCE, environment

NGINX = shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")))

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

CONFIG = """
daemon off;
pid {folder}/pid;
error_log stderr notice;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream servers {{
        server 127.0.0.1:{first};
        server 127.0.0.1:{second};
        keepalive 8;
    }}
    server {{
        listen 127.0.0.1:{port};
        location /mcp {{
            proxy_pass http://servers;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
        }}
    }}
}}
"""


class Site(NamedTuple):
    """Where nginx listens, and the servers behind it."""

    port: int
    behind: tuple[int, int]
    pids: set[str]


@contextlib.contextmanager
def fronted(folder: Path, first: int, second: int) -> Iterator[int]:
    """Run nginx on a free port in front of two others."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "nginx.conf"
    config.write_text(CONFIG.format(folder=folder, first=first, second=second, port=port))
    command = [str(NGINX), "-p", str(folder), "-c", str(config), "-e", "stderr"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            seen = []
            for line in process.stderr:  # it listens when it has told of its workers
                seen.append(line)
                if b"start worker process " in line:
                    break
            else:
                pytest.fail(f"nginx did not start: {seen}")
            yield port
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Two servers behind nginx."""
    with started() as one, started() as other:
        first, second = port_of(one), port_of(other)
        with fronted(tmp_path, first, second) as port:
            yield Site(port, (first, second), {str(one.process.pid), str(other.process.pid)})


def test_calls_are_spread(site: Site) -> None:
    """Modern calls need no session: each goes to the server whose turn it is (HTTP-1)."""
    answers = [called(site.port, "where") for _ in range(8)]
    assert set(answers) == site.pids
    assert sorted(map(answers.count, site.pids)) == [4, 4]


def test_a_stream_passes_unbuffered(site: Site) -> None:
    """The first event arrives while its tool still runs: that goes on only when the test has seen it."""
    with calling(site.port, "stream") as connection:
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert event(answer)["params"]["message"] == "streaming"
        for port in site.behind:  # the tool runs in one of them
            assert called(port, "let_go") == "done"
        assert event(answer)["result"]["content"][0]["text"] == "done"
        assert answer.read() == b""


def test_workers_behind_one_address(tmp_path: Path) -> None:
    """Two addresses may be the same server with several workers: every call is answered by one of them."""
    with started(workers=2) as talk:
        port = port_of(talk)
        with fronted(tmp_path, port, port) as front:
            answers = {called(front, "where") for _ in range(8)}
        assert str(talk.process.pid) not in answers
        assert 1 <= len(answers) <= 2
