"""What every interop test needs: the peers, which `make interop` (`python -m bench.peers`) sets up first."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator

import pytest

from bench import peers

SERVING = re.compile(r"http://\S+")


@pytest.fixture(scope="session", autouse=True)
def installed_peers() -> None:
    """Fail at once, with the command to run, where the peers are not installed as pinned."""
    if not peers.ready():
        pytest.fail("the peers are not installed; run `python -m bench.peers` (or `make interop`, which does)")


@pytest.fixture(scope="session")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of our planner over HTTP."""
    with served("planner", PLAN_STORE=str(tmp_path_factory.mktemp("plans"))) as url:
        yield url


@pytest.fixture(scope="session")
def asking() -> Iterator[str]:
    """The URL of our server that asks, over HTTP."""
    with served(peers.script("asking_ours.py")) as url:
        yield url


@contextlib.contextmanager
def served(target: str, **variables: str) -> Iterator[str]:
    """The URL of a server of ours over HTTP, at the port that it announces."""
    env = os.environ | {"PYTHONPATH": str(peers.ROOT / "src")} | variables
    command = [sys.executable, "-m", "jackfield", "run", target, "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr
        try:
            url = announced(child.stderr)
            drain = threading.Thread(target=child.stderr.read)  # so that it never waits to be read
            drain.start()
            yield url
            assert child.poll() is None, f"{target} ended"
        finally:
            child.terminate()
        drain.join()


def announced(lines: Iterable[str]) -> str:
    """The URL that a server of ours says it serves at."""
    said: list[str] = []
    for line in lines:
        said.append(line)
        if found := SERVING.search(line):
            return found[0]
    pytest.fail("the server does not serve over HTTP: " + "".join(said))
