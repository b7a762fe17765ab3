"""Samples, ratios and the turns that subjects take."""

import pytest

from bench.measure import FIRST_BATCH, MOST_CALLS, Effort, Measure, calibrate, take_turns


def test_ratio_is_the_median_of_the_rounds_ratios() -> None:
    """A ratio is taken round by round, so a slow round of both sides does not move it."""
    measure = Measure("m", "stdio", "calls/s", {"ours": [100.0, 10.0, 90.0], "official": [10.0, 1.0, 30.0]})
    assert measure.ratios("official") == [3.0, 10.0, 10.0]
    assert measure.ratio("official") == 10.0
    assert measure.median("ours") == 90.0


def test_what_was_not_measured_has_no_figure() -> None:
    """A subject without samples gives None, not nought."""
    measure = Measure("m", "stdio", "calls/s", {"ours": [1.0]})
    assert measure.ratio("official") is None
    assert measure.median("official") is None


@pytest.mark.parametrize("rate", [10.0, 1_000.0, 140_000.0])
def test_calibrate_finds_the_calls_that_take_the_wanted_time(rate: float) -> None:
    """A slow subject gets few calls and a fast one many, within the bounds."""
    count = calibrate(lambda calls: calls / rate, 0.3)
    assert count == max(FIRST_BATCH, round(rate * 0.3))


def test_calibrate_stops_at_the_most_calls() -> None:
    """A subject that costs nothing does not grow the batches for ever."""
    asked: list[int] = []

    def timer(calls: int) -> float:
        asked.append(calls)
        return 1e-9

    assert calibrate(timer, 0.3) == MOST_CALLS
    assert asked[-1] == MOST_CALLS


def test_take_turns_interleaves_and_rotates() -> None:
    """Each round measures every subject once, each round starting with another one."""
    turns: list[str] = []

    def timer(name: str, rate: float):
        def seconds(calls: int) -> float:
            turns.append(name)
            return calls / rate

        return seconds

    measure = Measure("m", "stdio", "calls/s")
    take_turns(measure, {"ours": timer("ours", 100.0), "official": timer("official", 10.0)}, Effort(2, 0.3))
    assert turns[-4:] == ["ours", "official", "official", "ours"]
    assert measure.samples == {"ours": pytest.approx([100.0, 100.0]), "official": pytest.approx([10.0, 10.0])}
