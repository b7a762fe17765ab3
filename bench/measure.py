"""What a measurement is: samples of several subjects taken round by round, and the figures drawn from them."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

OURS = "ours"
FIRST_BATCH = 64
MOST_CALLS = 100_000


class Skipped(Exception):
    """A part cannot be measured on this machine; the text says why."""


@dataclass
class Measure:
    """One row of the results: a unit and, for each subject, one sample per round."""

    name: str
    part: str
    unit: str
    samples: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, subject: str, value: float) -> None:
        """Append one sample of a subject."""
        self.samples.setdefault(subject, []).append(value)

    def median(self, subject: str) -> float | None:
        """The middle sample of a subject, None when it was not measured."""
        values = self.samples.get(subject)
        return statistics.median(values) if values else None

    def ratios(self, subject: str) -> list[float]:
        """Ours over the subject, round by round, in order of size; empty when one of them was not measured."""
        pairs = zip(self.samples.get(OURS, []), self.samples.get(subject, []), strict=False)
        return sorted(ours / other for ours, other in pairs)

    def ratio(self, subject: str) -> float | None:
        """The median of the rounds' ratios: noise that lasts longer than a round hits both sides and cancels out."""
        values = self.ratios(subject)
        return statistics.median(values) if values else None


@dataclass(frozen=True)
class Effort:
    """How long to measure: rounds of samples, each of about so many seconds."""

    rounds: int
    seconds: float


FULL = Effort(rounds=11, seconds=0.15)
QUICK = Effort(rounds=2, seconds=0.08)

Timer = Callable[[int], float]
"""Makes so many calls, returns the seconds they took, raises when an answer was wrong."""
Rate = Callable[[], float]
"""Makes some calls, returns how many a second, raises when an answer was wrong."""


def calibrate(timer: Timer, seconds: float) -> int:
    """How many calls take about so many seconds. The growing batches it tries warm the subject up as well."""
    count = FIRST_BATCH
    while (took := timer(count)) < seconds / 2 and count < MOST_CALLS:
        count = min(count * 4, MOST_CALLS)
    return max(FIRST_BATCH, min(MOST_CALLS, round(count * seconds / took)))


def take_turns(measure: Measure, timers: dict[str, Timer], effort: Effort) -> None:
    """Fill a measure with calls/s. The subjects take turns, each round from another start, so that noise hits all."""
    counts = {subject: calibrate(timer, effort.seconds) for subject, timer in timers.items()}
    rates: dict[str, Rate] = {subject: partial(_rate, timer, counts[subject]) for subject, timer in timers.items()}
    take_rounds(measure, rates, effort.rounds)


def take_rounds(measure: Measure, rates: dict[str, Rate], rounds: int) -> None:
    """Fill a measure with one sample of each subject a round, each round from another start."""
    order = list(rates)
    for _ in range(rounds):
        for subject in order:
            measure.add(subject, rates[subject]())
        order.append(order.pop(0))


def _rate(timer: Timer, count: int) -> float:
    return count / timer(count)
