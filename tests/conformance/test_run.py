"""The runner of the conformance legs, with a suite that is made up."""

import json

import pytest

from tests.conformance import run
from tests.conformance.judge import Entry, Problem
from tests.conformance.official import LEGACY, MODERN, Ran, Scenario

GOOD = [{"id": "own", "status": "SUCCESS"}]
BAD = [{"id": "own", "status": "FAILURE", "errorMessage": "no"}]


class MadeUp:
    """A suite that lists scenarios, and writes the checks that it was given for each."""

    def __init__(self, scored, unscored=(), checks=(), code=0, endings=()):
        self.names = {True: scored, False: unscored}
        self.checks = dict(checks)
        self.code = code
        self.endings = dict(endings)
        self.calls = []

    def required(self, side, revision):
        return [Scenario(name, revision, scored) for scored in (True, False) for name in self.names[scored]]

    def all(self, side, revision):
        return [Scenario(name, revision or MODERN, False) for names in self.names.values() for name in names]

    def server(self, url, options, out):
        self.calls.append(options)
        for name, checks in self.checks.items():
            self.write(out / f"server-{name}-2026-07-28T10-11-12-345Z", checks)
        summary = "".join(f"✓ {name}: 1 passed, 0 failed\n" for name in self.checks)
        return Ran(self.code, summary, "why")

    def client(self, scenario, out):
        self.calls.append(scenario.name)
        if scenario.name in self.checks:
            self.write(out / f"{scenario.name}-2026-07-28T10-11-12-345Z", self.checks[scenario.name])
        return self.endings.get(scenario.name, [])

    def write(self, folder, checks):
        folder.mkdir(parents=True)
        folder.joinpath("checks.json").write_text(json.dumps(checks))


@pytest.fixture
def runner_of(tmp_path, monkeypatch):
    """Makes a runner of a made-up suite with some known failures, all of the server at 2026-07-28."""

    def make(suite, known=(), only=None):
        monkeypatch.setattr(run, "OUT", tmp_path)
        monkeypatch.setattr(
            run, "expected_failures", lambda wire: {"server": list(known) if wire == MODERN else [], "client": []}
        )
        return run.Runner(suite, only)

    return make


def required(side, scored, total):
    return run.Leg(side, "required", MODERN, scored, total)


def test_a_leg_that_passes_is_sound(runner_of):
    """A leg whose scenarios all pass, as many as are pinned, is sound, and is counted by what is scored."""
    suite = MadeUp(["a"], ["b"], {"a": GOOD, "b": GOOD})
    judged = runner_of(suite).run(required("server", 1, 2), "url")
    assert judged.sound
    assert suite.calls == [["--requirements", MODERN]]
    assert run.table([judged]).splitlines()[1].split()[3:] == ["1/1", "2/2", "0", "0"]


def test_a_scenario_that_was_not_run_fails_the_leg(runner_of):
    """A listed scenario that the suite's summary and results do not have is missing, not passed."""
    judged = runner_of(MadeUp(["a", "b"], checks={"a": GOOD})).run(required("server", 2, 2), "url")
    assert not judged.sound
    assert [problem.check for problem in judged.verdicts[1].unexpected] == ["missing", "missing"]


def test_other_numbers_than_are_pinned_fail_the_leg(runner_of):
    """A new release of the suite with other scenarios, or other scored ones, is noticed."""
    judged = runner_of(MadeUp(["a"], ["b"], {"a": GOOD, "b": GOOD})).run(required("server", 2, 3), "url")
    assert judged.complaints == [
        "the suite lists 2 scenarios for this leg, 3 are pinned",
        "the suite scores 1 scenarios of this leg, 2 are pinned",
    ]
    assert not judged.sound


def test_a_suite_that_breaks_down_fails_the_leg(runner_of):
    """Only 0 and 1 are exit codes of a suite that did its work."""
    judged = runner_of(MadeUp(["a"], checks={"a": GOOD}, code=7)).run(required("server", 1, 1), "url")
    assert judged.complaints == ["the suite exited 7: why"]


def test_a_known_failure_is_counted_and_a_stale_one_fails(runner_of):
    """What is expected to fail does not count as passed, and what passes though expected to fail is unexpected."""
    suite = MadeUp(["a", "b"], checks={"a": BAD, "b": GOOD}, code=1)
    known = [Entry("a", None, "questions"), Entry("b", None, "questions")]
    judged = runner_of(suite, known).run(required("server", 2, 2), "url")
    assert [[problem.check for problem in verdict.unexpected] for verdict in judged.verdicts] == [[], ["stale"]]
    assert run.table([judged]).splitlines()[1].split()[3:] == ["1/2", "1/2", "1", "1"]


def test_a_known_failure_of_no_scenario_is_told(runner_of):
    """An entry that names a scenario which no leg has is told, since nothing could ever make it stale."""
    runner = runner_of(MadeUp(["a"], checks={"a": GOOD}), [Entry("gone", None, "x")])
    runner.run(required("server", 1, 1), "url")
    assert runner.strangers(["server"]) == [f"expected-failures.{MODERN}.yml: no server scenario gone is run"]
    assert runner.strangers(["client"]) == []


def test_client_scenarios_are_run_one_by_one(runner_of):
    """A client leg runs each scenario by itself, and how the client ended counts beside the checks."""
    suite = MadeUp(["a", "b"], checks={"a": GOOD, "b": GOOD}, endings={"b": [Problem("exit", "the client exited 1")]})
    judged = runner_of(suite).run(required("client", 2, 2), "")
    assert sorted(suite.calls) == ["a", "b"]
    assert [[problem.check for problem in verdict.unexpected] for verdict in judged.verdicts] == [[], ["exit"]]


def test_one_scenario_alone(runner_of):
    """With a scenario's name only that one is run and judged, in the legs that have it."""
    suite = MadeUp(["a", "b"], checks={"b": GOOD})
    judged = runner_of(suite, only="b").run(required("server", 2, 2), "url")
    assert suite.calls == [["--scenario", "b", "--spec-version", MODERN, "--force"]]
    assert [verdict.scenario for verdict in judged.verdicts] == ["b"]
    assert judged.sound


def test_the_files_of_this_repository_can_be_read():
    """Both files of known failures have the form that the runner reads."""
    for wire in (LEGACY, MODERN):
        assert set(run.expected_failures(wire)) == {"server", "client"}
