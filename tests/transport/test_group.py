"""What a server's tools have left in its process group, once its client was killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from jackfield.transport import group
from tests.transport.talk import call, environment, text

if os.name == "nt":
    pytest.skip("process groups", allow_module_level=True)

SERVER = """
import os, subprocess, sys
from jackfield import Server
server = Server("spawning")
@server.tool
def spawn(command: list[str]) -> str:
    return f"{os.getpid()} {subprocess.Popen(command).pid}"
server.run()
"""

CLIENT = """
import asyncio, sys
from jackfield import Client, Stdio
async def main():
    client = Client(Stdio(sys.executable, sys.argv[1], env={"PYTHONPATH": sys.argv[2]}), mode=sys.argv[3])
    await client.connect()
    print((await client.call_tool("spawn", {"command": sys.argv[4:]})).text, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""

ENV = environment()
SOURCE = ENV["PYTHONPATH"]
SLEEPER = ["sleep", "600"]
STUBBORN = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """The files of a server and of a client that is to be killed."""
    server, client = tmp_path / "server.py", tmp_path / "client.py"
    server.write_text(SERVER)
    client.write_text(CLIENT)
    return str(server), str(client)


def lives(pid: int) -> bool:
    """Whether that process lives; the dead whom nobody collects do not."""
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip()[:1] not in ("", "Z")


@pytest.mark.parametrize("mode", ["modern", "legacy"])
@pytest.mark.parametrize("left", [SLEEPER, STUBBORN], ids=["willing", "stubborn"])
def test_nothing_outlives_a_client_that_was_killed(files: tuple[str, str], mode: str, left: list[str]) -> None:
    """What a tool started ends with its server when the client was killed, at SIGTERM or without asking (L10)."""
    server, client = files
    process = subprocess.Popen([sys.executable, client, server, SOURCE, mode, *left], stdout=subprocess.PIPE, env=ENV)
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2
    process.kill()
    process.communicate()
    while any(lives(pid) for pid in pids):
        pass  # each look takes a process of its own


@pytest.mark.parametrize("leads", [True, False])
def test_what_is_left_is_the_business_of_a_living_parent(files: tuple[str, str], leads: bool) -> None:
    """A server whose parent lives ends without a look at its group, whether it leads one or not (L10)."""
    with subprocess.Popen(
        [sys.executable, files[0]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENV,
        start_new_session=leads,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(call(1, "spawn", command=SLEEPER))
        server.stdin.flush()
        sleeper = int(text(json.loads(server.stdout.readline())).split()[1])
        try:
            server.stdin.close()
            assert server.wait() == 0
            assert lives(sleeper)
        finally:
            os.kill(sleeper, signal.SIGKILL)


@pytest.mark.parametrize("platform", [sys.platform, "other"])
def test_who_lives_in_a_group(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The living of a group are found on every Unix, without the dead that nobody has collected."""
    monkeypatch.setattr(group, "sys", types.SimpleNamespace(platform=platform))
    leader = subprocess.Popen(["sh", "-c", "sleep 600 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True)
    assert leader.stdout is not None
    leader.stdout.readline()
    assert leader.pid in list(group.living(leader.pid))
    assert len(list(group.living(leader.pid))) == 2
    os.killpg(leader.pid, signal.SIGKILL)
    leader.communicate()  # to its end: both have closed it
    while list(group.living(leader.pid)):
        pass
