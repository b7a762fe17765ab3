"""The strict judge: what the suite wrote, against what must be there and what is known to fail.

The suite itself is lenient: a server that answers nothing gets green scenarios, warnings and clients that die do not
count everywhere, and a scenario that was not run is not missed.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

GREEN = frozenset(("SUCCESS", "SKIPPED", "INFO"))
WIRE = "wire-schema-"
"""How the ids of checks begin that the suite adds to whatever was sent: no success of the scenario itself."""

_SUMMARY = re.compile(r"^[✓✗] (\S+): \d+ passed, \d+ failed", re.MULTILINE)
_LISTED = re.compile(r"^ +- (\S+)(?: \[(.*)\])?$")
_FOLDER = re.compile(r"^(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$")
_ENTRY = re.compile(r"^ +- ([^\s:#]+)(?::([^\s#]+))? +# (.+)$")


class Problem(NamedTuple):
    """One thing that is wrong with a scenario: the suite's check id, or our own word for it, and what happened."""

    check: str
    text: str


class Entry(NamedTuple):
    """One known failure: a scenario, or one check of it, and what it waits for."""

    scenario: str
    check: str | None
    reason: str

    @property
    def name(self) -> str:
        """The entry as its file has it."""
        return self.scenario if self.check is None else f"{self.scenario}:{self.check}"


class Verdict(NamedTuple):
    """A scenario of one leg: all its problems, those of them that nobody expected, and why the others were."""

    scenario: str
    problems: list[Problem]
    unexpected: list[Problem]
    reasons: list[str]

    @property
    def ok(self) -> bool:
        """Whether it passed."""
        return not self.problems


def problems_of(checks: Sequence[Mapping[str, Any]] | None) -> list[Problem]:
    """What is wrong with a scenario's checks: each that is not green, and having none that says anything."""
    if checks is None:
        return [Problem("missing", "the suite wrote no result: it threw, skipped the scenario or does not have it")]
    found = [
        Problem(check["id"], f"{check['status']}: {check.get('errorMessage') or check.get('description', '')}")
        for check in checks
        if check["status"] not in GREEN
    ]
    if not any(check["status"] == "SUCCESS" and not check["id"].startswith(WIRE) for check in checks):
        found.append(Problem("vacuous", "no check of its own succeeded"))
    return found


def judge(scenario: str, problems: Iterable[Problem], entries: Iterable[Entry]) -> Verdict:
    """Hold the problems of a scenario against the known failures; an entry that nothing fails for is a problem."""
    problems = list(problems)
    mine = [entry for entry in entries if entry.scenario == scenario]
    whole = any(entry.check is None for entry in mine)
    known = {entry.check for entry in mine}
    unexpected = [] if whole else [problem for problem in problems if problem.check not in known]
    failing = {problem.check for problem in problems}
    for entry in mine:
        if not (failing if entry.check is None else entry.check in failing):
            unexpected.append(Problem("stale", f"{entry.name} is expected to fail and passes; take it out of the file"))
    return Verdict(scenario, problems, unexpected, sorted({entry.reason for entry in mine}))


def unlisted(wanted: Collection[str], seen: Collection[str], total: int) -> list[str]:
    """What is wrong with which scenarios a leg has: too few or many in the suite's own list, or run but not listed."""
    wrong: list[str] = []
    if len(wanted) != total:
        wrong.append(f"the suite lists {len(wanted)} scenarios for this leg, {total} are pinned")
    if strangers := sorted(set(seen).difference(wanted)):
        wrong.append(f"run but not listed: {', '.join(strangers)}")
    return wrong


def summary_of(stdout: str) -> set[str]:
    """The scenarios that a suite run says it ran."""
    return set(_SUMMARY.findall(stdout))


def listing_of(stdout: str) -> dict[str, list[tuple[str, list[str]]]]:
    """The lines of `conformance list` by the first word of their heading, each a scenario and what stands after it."""
    found: dict[str, list[tuple[str, list[str]]]] = {}
    heading = ""
    for line in stdout.splitlines():
        match = _LISTED.match(line)
        if match:
            found.setdefault(heading, []).append((match[1], (match[2] or "").split(",")))
        elif line and not line.startswith(" "):
            heading = line.split(maxsplit=1)[0].lower()
    return found


def results_in(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The checks of each scenario that the suite wrote below `folder`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.rglob("checks.json")):
        match = _FOLDER.match(path.parent.relative_to(folder).as_posix())
        if match:
            found[match[1].removeprefix("server-")] = json.loads(path.read_text("utf-8"))
    return found


def read_expected(text: str) -> dict[str, list[Entry]]:
    """The known failures of a server and of a client, from a file in the suite's own form.

    Raises ValueError for a line that is none, does not say what it waits for, or stands there twice.
    """
    found: dict[str, list[Entry]] = {"server": [], "client": []}
    side = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        head = line.partition(":")[0]
        if head in found and line in (f"{head}:", f"{head}: []"):
            side = head
            continue
        match = _ENTRY.match(line)
        if match is None or not side:
            raise ValueError(f"line {number}: {line!r} is no `server:`, `client:` or `  - scenario[:check]  # reason`")
        entry = Entry(match[1], match[2], match[3].strip())
        if any(entry.scenario == other.scenario and None in (entry.check, other.check) for other in found[side]):
            raise ValueError(f"line {number}: {entry.scenario} is expected to fail already")
        if any(entry.name == other.name for other in found[side]):
            raise ValueError(f"line {number}: {entry.name} stands here twice")
        found[side].append(entry)
    return found
