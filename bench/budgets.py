"""The budgets that `--check` enforces, as data, and the judge."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bench import clients, cold, http, servers
from bench.load import ERAS, IN_FLIGHT
from bench.measure import OURS, Measure


@dataclass(frozen=True)
class Budget:
    """A bar, at least or at most, for our ratio to a subject in one measure, or for our own median there."""

    part: str
    measure: str
    bar: float
    least: bool
    against: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A budget, the number found (None: not measured), its range over the rounds, and whether it holds.

    One that was not measured does not hold. It is missed as well, unless its part was `skipped`, which says why: what
    a machine cannot measure is nobody's fault, yet no pass.
    """

    budget: Budget
    found: float | None
    spread: tuple[float, float] | None
    unit: str
    holds: bool
    skipped: str = ""

    @property
    def missed(self) -> bool:
        """Whether it was measured, or should have been, and does not hold."""
        return not self.holds and not self.skipped


def budgets() -> list[Budget]:
    """Every budget of the parts that exist."""
    found: list[Budget] = []
    for era in ERAS:
        many = servers.throughput(era, "async", IN_FLIGHT)
        found += [
            Budget("stdio", many, 40, True, "official"),
            Budget("stdio", many, 3, True, "typescript"),
            Budget("stdio", servers.throughput(era, "def", IN_FLIGHT), 10, True, "official"),
            Budget("memory", servers.memory_name(era), 45, False),
            Budget("pinned", servers.pinned_name(era, servers.ONE_CORE), 15, True, "official"),
            Budget("pinned", servers.pinned_name(era, servers.TWO_CORES), 0.6, True, servers.ECHO),
            Budget("inmemory", clients.in_memory_name(era, IN_FLIGHT), 5, True, "official"),
            Budget("client", clients.client_name(era, IN_FLIGHT), 5, True, "official"),
            Budget("httpclient", http.client_row(era, IN_FLIGHT), 5, True, "official"),
            Budget("startup", cold.startup_name(era), 250, False),
        ]
    modern = http.row("modern", "async")
    return [
        *found,
        Budget("http", modern, 10, True, "official"),
        Budget("http", modern, 5, True, "typescript"),
        Budget("http", modern, 0.6, True, http.BARE),
        Budget("idle", http.IDLE, 10, False),
        Budget("import", cold.IMPORT_SERVER, 120, False),
        Budget("import", cold.IMPORT_SERVER_MODULES, 200, False),
        Budget("import", cold.IMPORT_FORBIDDEN, 0, False),
        Budget("import", cold.IMPORT_PROTOCOL_MODULES, 90, False),
        Budget("import", cold.IMPORT_PROTOCOL_ASYNCIO, 0, False),
    ]


def judge(
    measures: Iterable[Measure], wanted: Iterable[Budget], skipped: Mapping[str, str] | None = None
) -> list[Verdict]:
    """One verdict for each budget; `skipped` are the parts that could not be measured here, and why."""
    rows = {(measure.part, measure.name): measure for measure in measures}
    why = skipped or {}
    return [_judge(rows.get((budget.part, budget.measure)), budget, why.get(budget.part, "")) for budget in wanted]


def _judge(measure: Measure | None, budget: Budget, skipped: str) -> Verdict:
    if measure is None:
        return Verdict(budget, None, None, f"x {budget.against}" if budget.against else "", False, skipped)
    values = measure.ratios(budget.against) if budget.against else sorted(measure.samples.get(OURS, []))
    found = statistics.median(values) if values else None
    spread = (values[0], values[-1]) if values else None
    unit = f"x {budget.against}" if budget.against else measure.unit
    holds = found is not None and (found >= budget.bar if budget.least else found <= budget.bar)
    return Verdict(budget, found, spread, unit, holds)
