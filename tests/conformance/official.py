"""Calls of the official suite: what it lists, one run against our server, and one scenario against our client."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.conformance import install, judge
from tests.conformance.judge import Problem

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SCENARIO_TIME = 30
"""What the suite gives one scenario, in seconds."""
LEG_TIME = 240
"""What a whole run against the server may take before it is killed, in seconds."""


class Scenario(NamedTuple):
    """One scenario of a leg: the revision that it runs at, and whether that revision's conformance hangs on it."""

    name: str
    wire: str
    scored: bool


class Ran(NamedTuple):
    """How a process ended: its exit code (None: killed after its time) and what it wrote."""

    code: int | None
    out: str
    err: str


class Suite:
    """The installed suite."""

    def __init__(self) -> None:
        """Install it where it is not. Raises RuntimeError when that fails."""
        self._command = install.command()

    def required(self, side: str, revision: str) -> list[Scenario]:
        """What a revision requires of a side, and what the suite runs along with it unscored."""
        listing = self._list("--requirements", revision)
        scored = [Scenario(name, revision, True) for name, _ in listing[side]]
        return scored + [Scenario(name, revision, False) for name, tags in listing["run"] if tags == [side]]

    def all(self, side: str, revision: str | None) -> list[Scenario]:
        """Every scenario that a revision has for a side; without a revision all there are, each at its own."""
        if revision is not None:
            listing = self._list(f"--{side}", "--spec-version", revision)
            return [Scenario(name, revision, False) for name, _ in listing[side]]
        return [Scenario(name, own_wire(tags), False) for name, tags in self._list(f"--{side}")[side]]

    def _list(self, *options: str) -> dict[str, list[tuple[str, list[str]]]]:
        ran = run([*self._command, "list", *options], SCENARIO_TIME)
        if ran.code:
            raise RuntimeError(f"conformance list {' '.join(options)} exited {ran.code}\n{ran.err}")
        return judge.listing_of(ran.out)

    def server(self, url: str, options: Sequence[str], out: Path) -> Ran:
        """Run scenarios against the server at `url`; their checks go below `out`."""
        return run([*self._command, "server", "--url", url, *options, "-o", str(out)], LEG_TIME)

    def client(self, scenario: Scenario, out: Path) -> list[Problem]:
        """Run one scenario against our client, and tell what is wrong with how that ended; checks go below `out`."""
        python = Path(sys.executable)
        # The suite cuts the command at spaces and hands it to a shell, so a path may not stand in it.
        client = f"{python.name} -m tests.conformance.everything_client"
        options = ["--command", client, "--timeout", str(SCENARIO_TIME * 1000), *single(scenario), "-o", str(out)]
        environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
        ran = run([*self._command, "client", *options], SCENARIO_TIME + 30, environment)
        return endings(ran)


def single(scenario: Scenario) -> list[str]:
    """The options that run one scenario at its revision, whether or not the suite thinks that it applies there."""
    return ["--scenario", scenario.name, "--spec-version", scenario.wire, "--force"]


def own_wire(tags: Sequence[str]) -> str:
    """The revision that a scenario is run at by default: its newest legacy one, else the modern one."""
    return max((tag for tag in tags if tag[:2] == "20" and tag < MODERN), default=MODERN)


def endings(ran: Ran) -> list[Problem]:
    """What is wrong with how the run of one client scenario ended, apart from its checks."""
    if ran.code is None:
        return [Problem("exit", "the suite did not end in time")]
    if ran.code == 0:
        return []  # also where the client failed and the scenario says that it may
    if "Client timed out" in ran.err:
        return [Problem("exit", "the client did not end in time")]
    match = re.search(r"Client exited with code (-?\d+)(?:.*?Stderr:\n(.*?)(?:\n\n|$))?", ran.err, re.DOTALL)
    if match:
        last = (match[2] or "").strip().splitlines()[-1:]
        return [Problem("exit", " ".join([f"the client exited {match[1]}", *last]))]
    return [] if ran.code == 1 else [Problem("exit", f"the suite exited {ran.code}: {ran.err[-300:]}")]


def run(command: Sequence[str], seconds: float, environment: dict[str, str] | None = None) -> Ran:
    """Run a command from the root of the repository, and kill it with all that it started after `seconds`."""
    process = subprocess.Popen(
        command,
        cwd=install.ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
        return Ran(process.returncode, out, err)
    except subprocess.TimeoutExpired:
        if os.name == "nt":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return Ran(None, out, err)
