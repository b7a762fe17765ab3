"""The strict run of the official conformance suite against our everything-server and our everything-client.

`python -m tests.conformance.run` exits 1 on whatever is not as `expected-failures.*.yml` says: a scenario that fails,
one that passes though it is expected to fail, one that is missing, a warning, a green that checked nothing.
"""

import argparse
import contextlib
import http.client
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.conformance import judge
from tests.conformance.install import HERE, ROOT
from tests.conformance.judge import Entry, Problem, Verdict
from tests.conformance.official import LEGACY, MODERN, Scenario, Suite, single

OUT = ROOT / "build" / "conformance"
AT_ONCE = 2
"""Client scenarios under way at the same time: they wait in real time, and more would make each other late."""
START, END = 20.0, 15.0
"""What the server may take to start and to end, in seconds."""
SOME = 2
"""How many checks are named of a scenario that is expected to fail."""


class Leg(NamedTuple):
    """One run: which side, which set of scenarios, at which revision (None: each its own), and how many there are."""

    side: str
    kind: str
    wire: str | None
    scored: int
    total: int

    @property
    def title(self) -> str:
        """Its name in the table."""
        return f"{self.side:6}  {self.kind:8}  {self.wire or 'own'}"


LEGS = (
    Leg("server", "required", LEGACY, 30, 33),
    Leg("server", "required", MODERN, 37, 50),
    Leg("server", "all", LEGACY, 0, 33),
    Leg("server", "all", MODERN, 0, 40),
    Leg("server", "all", None, 0, 65),
    Leg("client", "required", LEGACY, 18, 25),
    Leg("client", "required", MODERN, 32, 39),
    Leg("client", "rest", None, 0, 6),
)
"""What the pinned suite has. `rest` is what no revision requires."""


class Judged(NamedTuple):
    """What came out of a leg: a verdict for each scenario, what is wrong with the leg itself, and its seconds."""

    leg: Leg
    scenarios: list[Scenario]
    verdicts: list[Verdict]
    complaints: list[str]
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether all is as expected."""
        return not self.complaints and not any(verdict.unexpected for verdict in self.verdicts)


class Runner:
    """Runs legs with one suite, one set of known failures, and for server legs one server."""

    def __init__(self, suite: Suite, only: str | None) -> None:
        """With `only`, that scenario alone is run. Raises ValueError for a bad file of known failures."""
        self._suite = suite
        self._only = only
        self._expected = {wire: expected_failures(wire) for wire in (LEGACY, MODERN)}
        self._met: set[tuple[str, str, str]] = set()

    def run(self, leg: Leg, url: str) -> Judged:
        """Run one leg; `url` is where the server is."""
        begin = time.perf_counter()
        wanted = self._scenarios(leg)
        chosen = [scenario for scenario in wanted if self._only in (None, scenario.name)]
        self._met.update((leg.side, _file(scenario.wire), scenario.name) for scenario in wanted)
        out = OUT / "-".join(leg.title.split())
        names = [scenario.name for scenario in wanted]
        if leg.side == "client":
            complaints = judge.unlisted(names, names, leg.total)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                more = list(pool.map(lambda scenario: self._suite.client(scenario, out), chosen))
        else:
            seen, complaints, more = self._serve(leg, chosen, url, out)
            complaints += judge.unlisted(names, seen, leg.total)
        if (scored := sum(scenario.scored for scenario in wanted)) != leg.scored:
            complaints.append(f"the suite scores {scored} scenarios of this leg, {leg.scored} are pinned")
        results = judge.results_in(out)
        verdicts = [
            judge.judge(
                scenario.name,
                [*judge.problems_of(results.get(scenario.name)), *problems],
                self._entries(leg, scenario),
            )
            for scenario, problems in zip(chosen, more, strict=True)
        ]
        return Judged(leg, chosen, verdicts, complaints, time.perf_counter() - begin)

    def strangers(self, sides: list[str]) -> list[str]:
        """Known failures that no leg of these sides has a scenario for."""
        return [
            f"expected-failures.{wire}.yml: no {side} scenario {entry.scenario} is run"
            for wire, expected in self._expected.items()
            for side in sides
            for entry in expected[side]
            if (side, wire, entry.scenario) not in self._met
        ]

    def _scenarios(self, leg: Leg) -> list[Scenario]:
        if leg.kind == "required":
            return self._suite.required(leg.side, leg.wire or "")
        every = self._suite.all(leg.side, leg.wire)
        if leg.kind == "rest":
            required = [each.name for wire in (LEGACY, MODERN) for each in self._suite.required(leg.side, wire)]
            return [scenario for scenario in every if scenario.name not in required]
        return every

    def _serve(
        self, leg: Leg, chosen: list[Scenario], url: str, out: Path
    ) -> tuple[set[str], list[str], list[list[Problem]]]:
        """Run a server leg: which scenarios the suite says it ran, complaints, and problems for each scenario."""
        names = [scenario.name for scenario in chosen]
        if self._only is not None:
            ended = [self._suite.server(url, single(scenario), out).code for scenario in chosen]
            return set(names), [f"the suite exited {code}" for code in ended if code not in (0, 1)], [[]] * len(names)
        options = ["--requirements", leg.wire or ""] if leg.kind == "required" else ["--suite", "all"]
        if leg.kind == "all" and leg.wire:
            options += ["--spec-version", leg.wire]
        ran = self._suite.server(url, options, out)
        out.mkdir(parents=True, exist_ok=True)
        out.joinpath("stdout.txt").write_text(ran.out + ran.err, "utf-8")
        seen = judge.summary_of(ran.out)
        complaints = [] if ran.code in (0, 1) else [f"the suite exited {ran.code or 'not in time'}: {ran.err[-300:]}"]
        unseen = Problem("missing", "the suite's summary does not have it")
        return seen, complaints, [[] if name in seen else [unseen] for name in names]

    def _entries(self, leg: Leg, scenario: Scenario) -> list[Entry]:
        return self._expected[_file(scenario.wire)][leg.side]


def _file(wire: str) -> str:
    return MODERN if wire >= MODERN else LEGACY


def expected_failures(wire: str) -> dict[str, list[Entry]]:
    """The known failures at a revision. Raises ValueError for a bad file."""
    path = HERE / f"expected-failures.{wire}.yml"
    try:
        return judge.read_expected(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name}, {error}") from None


@contextlib.contextmanager
def served(log: Path, complaints: list[str]) -> Iterator[str]:
    """The URL of the everything-server on a free port; what goes wrong with it is added to `complaints`."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "tests.conformance.everything_server", "--port", str(port)]
    with log.open("wb") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as process:
        try:
            _await_answer(process, port, log)
            yield f"http://localhost:{port}/mcp"
            if process.poll() is not None:
                complaints.append(f"the server ended by itself with exit code {process.returncode}")
            process.terminate()
            process.wait(END)
        except subprocess.TimeoutExpired:
            complaints.append(f"the server did not end within {END:g} s of being told to")
        finally:
            process.kill()
    if "Traceback" in log.read_text("utf-8", "replace"):
        complaints.append(f"the server wrote a traceback, see {log.relative_to(ROOT)}")


def _await_answer(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return when something answers; raises RuntimeError with what the server wrote when nothing does."""
    end = time.monotonic() + START
    while time.monotonic() < end and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/mcp")
            connection.getresponse()
            return
        except OSError:
            time.sleep(0.05)
        finally:
            connection.close()
    raise RuntimeError(f"the everything-server did not start:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def show(judged: Judged, verbose: bool) -> None:
    """Print what is not green in a leg; with `verbose` what is green as well, and every problem."""
    print(f"\n{judged.leg.title}  ({judged.seconds:.0f} s)")
    for verdict in judged.verdicts:
        if verdict.unexpected:
            print(f"  FAILED    {verdict.scenario}")
            for problem in verdict.unexpected:
                print(f"            {problem.check}: {problem.text}")
        elif not verdict.ok:
            checks = sorted({problem.check for problem in verdict.problems})
            some = ", ".join(checks[:SOME]) + (f" and {len(checks) - SOME} more" if len(checks) > SOME else "")
            print(f"  expected  {verdict.scenario}: {some}  # {'; '.join(verdict.reasons)}")
            for problem in verdict.problems if verbose else ():
                print(f"            {problem.check}: {problem.text}")
        elif verbose:
            print(f"  ok        {verdict.scenario}")
    for complaint in judged.complaints:
        print(f"  FAILED    {complaint}")


def table(results: list[Judged]) -> str:
    """Scenarios that passed of those there are, for each leg."""
    lines = [f"{'leg':28}  {'scored':>7}  {'all':>7}  {'expected to fail':>16}  {'unexpected':>10}"]
    for leg, scenarios, verdicts, complaints, _ in results:
        scored = [verdict.ok for verdict, scenario in zip(verdicts, scenarios, strict=True) if scenario.scored]
        unexpected = sum(bool(verdict.unexpected) for verdict in verdicts) + len(complaints)
        known = sum(not verdict.ok and not verdict.unexpected for verdict in verdicts)
        part = f"{sum(scored)}/{len(scored)}" if scored else "-"
        every = f"{sum(verdict.ok for verdict in verdicts)}/{len(verdicts)}"
        lines.append(f"{leg.title:28}  {part:>7}  {every:>7}  {known:>16}  {unexpected:>10}")
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """What the caller asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__)
    parser.add_argument("--only", choices=("server", "client"), help="run the legs of this side")
    parser.add_argument("--scenario", metavar="NAME", help="run this scenario, in each leg that has it")
    parser.add_argument("--verbose", action="store_true", help="show what is green, and every problem in full")
    return parser.parse_args()


def main() -> int:
    """Run, print, and tell with 1 that something is not as expected. Raises RuntimeError where it cannot run."""
    asked = arguments()
    runner = Runner(Suite(), asked.scenario)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    sides = [asked.only] if asked.only else ["server", "client"]
    complaints: list[str] = []
    results: list[Judged] = []
    with served(OUT / "server.log", complaints) if "server" in sides else contextlib.nullcontext("") as url:
        for leg in LEGS:
            if leg.side in sides:
                judged = runner.run(leg, url)
                if judged.scenarios or judged.complaints:
                    results.append(judged)
                    show(judged, asked.verbose)
    complaints += runner.strangers(sides)
    if asked.scenario and not results:
        complaints.append(f"no leg has a scenario {asked.scenario}")
    print(f"\n{table(results)}")
    for complaint in complaints:
        print(f"FAILED    {complaint}")
    return int(bool(complaints) or not all(judged.sound for judged in results))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, ValueError) as failure:
        sys.exit(f"conformance: {failure}")
