"""The judge of the conformance runs, on made-up outputs of the suite."""

import json

import pytest

from tests.conformance import judge
from tests.conformance.judge import Entry, Problem


def check(id: str, status: str = "SUCCESS", error: str | None = None) -> dict[str, str]:
    made = {"id": id, "name": id, "description": f"what {id} looks at", "status": status}
    return made if error is None else {**made, "errorMessage": error}


def names(problems: list[Problem]) -> list[str]:
    return [problem.check for problem in problems]


def test_a_success_of_its_own_and_nothing_worse_passes():
    """A scenario passes with one check of its own that succeeded, beside skipped and informing ones."""
    checks = [check("tools-list"), check("optional", "SKIPPED"), check("note", "INFO"), check("wire-schema-valid")]
    assert judge.problems_of(checks) == []


@pytest.mark.parametrize(
    "checks",
    [[], [check("wire-schema-valid")], [check("stub", "SKIPPED"), check("wire-schema-valid")], [check("x", "INFO")]],
)
def test_a_green_that_checked_nothing_fails(checks):
    """What the suite calls green without a success of the scenario's own is vacuous, and fails."""
    assert names(judge.problems_of(checks)) == ["vacuous"]


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "A_NEW_STATUS"])
def test_warnings_fail_as_failures_do(status):
    """A check that is not green fails the scenario, a warning too, and is told with the suite's words."""
    found = judge.problems_of([check("good"), check("bad", status, "it said 500")])
    assert found == [Problem("bad", f"{status}: it said 500")]


def test_a_failed_check_without_a_message_is_described():
    """A failure whose check has no error message is told by what the check looks at."""
    assert judge.problems_of([check("good"), check("bad", "FAILURE")])[0].text == "FAILURE: what bad looks at"


def test_a_scenario_without_a_result_is_missing():
    """A scenario that wrote no result (it threw, or was skipped) fails."""
    assert names(judge.problems_of(None)) == ["missing"]


def test_what_nobody_expected_is_unexpected():
    """Without an entry every problem of a scenario is unexpected."""
    verdict = judge.judge("ping", [Problem("ping", "FAILURE: no")], [Entry("other", None, "x")])
    assert not verdict.ok
    assert names(verdict.unexpected) == ["ping"]


def test_an_entry_for_a_scenario_covers_all_its_problems():
    """An entry without a check covers the whole scenario, and its reason is told."""
    problems = [Problem("a", ""), Problem("vacuous", "")]
    verdict = judge.judge("ping", problems, [Entry("ping", None, "questions")])
    assert not verdict.ok
    assert verdict.unexpected == []
    assert verdict.reasons == ["questions"]


def test_an_entry_for_a_check_covers_that_check_alone():
    """An entry with a check covers no other check of the scenario."""
    problems = [Problem("a", ""), Problem("b", "")]
    assert names(judge.judge("ping", problems, [Entry("ping", "a", "questions")]).unexpected) == ["b"]


@pytest.mark.parametrize(
    ("problems", "entry"),
    [([], Entry("ping", None, "x")), ([], Entry("ping", "a", "x")), ([Problem("b", "")], Entry("ping", "a", "x"))],
)
def test_an_entry_that_passes_is_stale(problems, entry):
    """An entry for what does not fail any more is unexpected, so that files of known failures only shrink."""
    assert "stale" in names(judge.judge("ping", problems, [entry]).unexpected)


def test_the_number_of_scenarios_is_pinned():
    """A leg that has another number of scenarios than is pinned, or ran one that is not listed, is told."""
    assert judge.unlisted(["a", "b"], ["a", "b"], 2) == []
    assert judge.unlisted(["a"], ["a"], 2) == ["the suite lists 1 scenarios for this leg, 2 are pinned"]
    assert judge.unlisted(["a", "b"], ["a", "c"], 2) == ["run but not listed: c"]


def test_the_summary_is_read_off_the_output():
    """The scenarios that ran are the lines of the suite's summary, passed or failed, whatever stands around them."""
    text = "=== Running scenario: d ===\nx ✓ c: 1 passed, 0 failed\n"
    text += "✓ a: 1 passed, 0 failed\n✗ auth/b: 0 passed, 2 failed, 1 warnings\n"
    text += "\nNot scored: 1 scenario(s) run.\n  ✗ e (pending)\nTotal: 1 passed, 2 failed\n"
    assert judge.summary_of(text) == {"a", "auth/b"}


def test_the_listing_is_read_by_its_headings():
    """Scenarios stand under the first word of their heading, with their tags; indented headings part nothing."""
    text = "Required for 2026-07-28 (2 scenarios):\n\nServer scenarios (test a server):\n  - ping\n\n"
    text += "Client scenarios (test a client):\n  - auth/x\n\n"
    text += "Run and reported, but never scored:\n  pending (1):\n    - y [server]\n    - z [2025-11-25,2026-07-28]\n"
    assert judge.listing_of(text) == {
        "server": [("ping", [""])],
        "client": [("auth/x", [""])],
        "run": [("y", ["server"]), ("z", ["2025-11-25", "2026-07-28"])],
    }


def test_results_are_found_by_the_names_of_their_folders(tmp_path):
    """Each scenario's checks are read from its own folder, where one name begins as another does or holds a slash."""
    for folder in ("server-ping", "server-ping-pong", "server-server-initialize", "auth/ping"):
        place = tmp_path / f"{folder}-2026-07-28T10-11-12-345Z"
        place.mkdir(parents=True)
        place.joinpath("checks.json").write_text(json.dumps([check(folder)]))
    (tmp_path / "server-empty-2026-07-28T10-11-12-345Z").mkdir()
    found = judge.results_in(tmp_path)
    assert {name: checks[0]["id"] for name, checks in found.items()} == {
        "ping": "server-ping",
        "ping-pong": "server-ping-pong",
        "server-initialize": "server-server-initialize",
        "auth/ping": "auth/ping",
    }


def test_known_failures_are_read_by_side():
    """A file of known failures has entries for a server and a client, each with a reason, and may have none."""
    text = "# a word\n\nserver:\n  - ping  # questions\n  - caching:ttl-ms  # time\nclient: []\n"
    assert judge.read_expected(text) == {
        "server": [Entry("ping", None, "questions"), Entry("caching", "ttl-ms", "time")],
        "client": [],
    }


@pytest.mark.parametrize(
    "text",
    [
        "server:\n  - ping\n",
        "server:\n  - ping #\n",
        "  - ping  # before any side\n",
        "servers:\n  - ping  # no such side\n",
        "server:\n  - ping: x  # a space after the colon\n",
        "server:\n  - ping  # once\n  - ping  # twice\n",
        "server:\n  - ping:a  # once\n  - ping:a  # twice\n",
        "server:\n  - ping:a  # a check\n  - ping  # and the whole\n",
    ],
)
def test_a_bad_line_of_known_failures_is_refused(text):
    """An entry without a reason, outside a side, or given twice is an error that names its line."""
    with pytest.raises(ValueError, match=r"^line \d: "):
        judge.read_expected(text)
