"""How the official suite is called, and how the end of one client scenario is read."""

import sys

import pytest

from tests.conformance import official
from tests.conformance.official import Ran, Scenario


@pytest.mark.parametrize(
    ("tags", "wire"),
    [
        (["2025-06-18", "2025-11-25", "2026-07-28"], "2025-11-25"),
        (["2025-03-26"], "2025-03-26"),
        (["2026-07-28"], "2026-07-28"),
        (["extension"], "2026-07-28"),
    ],
)
def test_a_scenario_runs_at_its_newest_legacy_revision(tags, wire):
    """Left to itself a scenario runs at its newest legacy revision, and without one at the modern one."""
    assert official.own_wire(tags) == wire


@pytest.mark.parametrize(
    ("ran", "told"),
    [
        (Ran(None, "", ""), "the suite did not end in time"),
        (Ran(1, "", "\nClient exited with code 1\nClient timed out after 30000ms\n"), "the client did not end in time"),
        (
            Ran(1, "", "\nClient exited with code 3\n\nStdout:\nx\n\nStderr:\nTraceback\nKeyError: 'a'\n\nChecks:\n"),
            "the client exited 3 KeyError: 'a'",
        ),
        (Ran(1, "", "\nClient exited with code 1\nChecks:\n"), "the client exited 1"),
        (Ran(127, "", "no such file"), "the suite exited 127: no such file"),
    ],
)
def test_a_client_that_fails_or_hangs_is_told(ran, told):
    """A client's exit code and its time count, whatever its checks say."""
    assert [problem.text for problem in official.endings(ran)] == [told]


@pytest.mark.parametrize("ran", [Ran(0, "", "\nClient exited with code 1\n"), Ran(1, "", "Checks:\n")])
def test_an_end_that_the_scenario_allows_or_its_checks_explain_is_no_problem(ran):
    """A client may fail where the suite lets it; and an exit code of 1 for failed checks says nothing new."""
    assert official.endings(ran) == []


def test_a_process_that_hangs_is_killed():
    """What does not end in its time is killed, and has no exit code."""
    assert official.run([sys.executable, "-c", "while True: pass"], 0.2).code is None


def test_one_scenario_is_run_at_its_revision():
    """The options name the scenario and its revision, and leave the suite no reason to skip it."""
    options = official.single(Scenario("auth/dpop", "2026-07-28", False))
    assert options == ["--scenario", "auth/dpop", "--spec-version", "2026-07-28", "--force"]
