"""The judge of the budgets."""

import pytest

from bench.__main__ import ALSO_GIVES, PARTS
from bench.budgets import Budget, budgets, judge
from bench.measure import Measure

RATIO = Budget("stdio", "m", 40, True, "official")
VALUE = Budget("startup", "s", 250, False)


@pytest.mark.parametrize(("ours", "holds"), [(400.0, True), (399.0, False)])
def test_ratio_budget_passes_from_its_bar_on(ours: float, holds: bool) -> None:
    """A ratio at the bar passes, one under it fails."""
    (verdict,) = judge([Measure("m", "stdio", "calls/s", {"ours": [ours], "official": [10.0]})], [RATIO])
    assert verdict.holds is holds
    assert verdict.found == ours / 10


@pytest.mark.parametrize(("ours", "holds"), [([100.0, 250.0, 900.0], True), ([100.0, 250.1, 251.0], False)])
def test_value_budget_judges_the_median(ours: list[float], holds: bool) -> None:
    """A value at most at the bar passes; the middle round is judged and the range is kept."""
    (verdict,) = judge([Measure("s", "startup", "ms", {"ours": ours})], [VALUE])
    assert verdict.holds is holds
    assert verdict.spread == (ours[0], ours[-1])


@pytest.mark.parametrize(
    "measures",
    [
        [],
        [Measure("m", "stdio", "calls/s", {"ours": [400.0]})],
        [Measure("m", "pinned", "calls/s", {"ours": [400.0], "official": [1.0]})],
    ],
    ids=["no row", "no peer", "another part's row"],
)
def test_a_budget_that_was_not_measured_fails(measures: list[Measure]) -> None:
    """Nothing passes by not being measured."""
    (verdict,) = judge(measures, [RATIO])
    assert verdict.found is None
    assert not verdict.holds
    assert verdict.missed


def test_a_budget_of_a_part_that_was_skipped_is_neither_held_nor_missed() -> None:
    """Where a part cannot be measured its budgets say why; those of other parts are judged as ever."""
    ours, other = judge([], [RATIO, VALUE], {"stdio": "no tool"})
    assert not ours.holds
    assert not ours.missed
    assert ours.skipped == "no tool"
    assert other.missed


def test_every_budget_belongs_to_a_part_that_can_be_run() -> None:
    """No budget hangs on a part that the command line does not know."""
    assert {ALSO_GIVES.get(budget.part, budget.part) for budget in budgets()} == set(PARTS)
