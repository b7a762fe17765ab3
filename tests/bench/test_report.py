"""The tables of the report."""

import json

import pytest

from bench import report
from bench.budgets import Budget, Verdict
from bench.measure import Measure


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (140123.4, "140,123"), (99.96, "100.0"), (12.34, "12.3"), (0.604, "0.60"), (3.0, "3"), (0.0, "0")],
)
def test_number_keeps_the_digits_that_count(value: float | None, text: str) -> None:
    """A figure is written with about three digits, a missing one as a dash."""
    assert report.number(value) == text


def test_measures_table_has_a_column_for_each_subject_and_ratio() -> None:
    """A row shows medians and ratios; a subject that the row lacks is a dash."""
    both = Measure("both", "stdio", "calls/s", {"ours": [200.0], "official": [10.0]})
    alone = Measure("alone", "stdio", "calls/s", {"ours": [7.0]})
    assert report.measures_table([both, alone]).splitlines() == [
        "|       | jackfield | official | x official |",
        "| ----- | --------: | -------: | ---------: |",
        "| both  |       200 |       10 |         20 |",
        "| alone |         7 |        - |          - |",
    ]


def test_verdicts_table_says_pass_fail_and_not_measured() -> None:
    """Each budget shows the bar, what was found and how it was judged."""
    ratio = Budget("stdio", "m", 40, True, "official")
    value = Budget("startup", "s", 250, False)
    verdicts = [
        Verdict(ratio, 41.0, (39.0, 44.0), "x official", True),
        Verdict(value, 300.0, (290.0, 310.0), "ms", False),
        Verdict(value, None, None, "", False),
        Verdict(ratio, None, None, "x official", False, "no tool"),
    ]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report.verdicts_table(verdicts).splitlines()]
    assert rows[2:] == [
        ["stdio: m", ">= 40 x official", "41", "39..44", "pass"],
        ["startup: s", "<= 250 ms", "300", "290..310", "FAIL"],
        ["startup: s", "<= 250", "not measured", "-", "FAIL"],
        ["stdio: m", ">= 40 x official", "not measured: no tool", "-", "skipped"],
    ]


def test_page_lists_the_facts_and_counts_the_budgets() -> None:
    """RESULTS.md opens with where and with what the run was made and ends with the count of budgets that hold."""
    measure = Measure("m", "stdio", "calls/s", {"ours": [200.0]})
    verdict = Verdict(Budget("stdio", "m", 100, True), 200.0, (200.0, 200.0), "calls/s", True)
    text = report.page([measure], [verdict], {"commit": "abc", "peers": {"mcp": "2.3.0", "node": "v24"}})
    assert "- commit: abc\n- peers: mcp 2.3.0, node v24\n" in text
    assert text.endswith("1 of 1 budgets hold.\n")


def test_page_counts_what_could_not_be_measured_apart() -> None:
    """A budget of a part that was skipped is no pass; the count says how many there are."""
    held = Verdict(Budget("stdio", "m", 100, True), 200.0, (200.0, 200.0), "calls/s", True)
    skipped = Verdict(Budget("http", "m", 100, True), None, None, "", False, "no tool")
    assert report.page([], [held, skipped], {}).endswith("1 of 2 budgets hold; 1 could not be measured here.\n")


def test_raw_results_keep_every_sample() -> None:
    """results.json is JSON that holds the facts, the parts left out and all samples."""
    measure = Measure("m", "stdio", "calls/s", {"ours": [200.25, 1.5]})
    assert json.loads(report.raw([measure], {"commit": "abc"}, {"http": "no tool"})) == {
        "facts": {"commit": "abc"},
        "skipped": {"http": "no tool"},
        "measures": [{"name": "m", "part": "stdio", "unit": "calls/s", "samples": {"ours": [200.25, 1.5]}}],
    }
