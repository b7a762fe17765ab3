"""The budgets that `--check` enforces, as data, and the judge."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from bench import clients, cold, servers
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
    """A budget, the number found (None: not measured, which never passes), its range over the rounds, pass or not."""

    budget: Budget
    found: float | None
    spread: tuple[float, float] | None
    unit: str
    holds: bool


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
            Budget("startup", cold.startup_name(era), 250, False),
        ]
    return [
        *found,
        Budget("import", cold.IMPORT_SERVER, 120, False),
        Budget("import", cold.IMPORT_SERVER_MODULES, 200, False),
        Budget("import", cold.IMPORT_FORBIDDEN, 0, False),
        Budget("import", cold.IMPORT_PROTOCOL_MODULES, 90, False),
        Budget("import", cold.IMPORT_PROTOCOL_ASYNCIO, 0, False),
    ]


def judge(measures: Iterable[Measure], wanted: Iterable[Budget]) -> list[Verdict]:
    """One verdict for each budget."""
    rows = {(measure.part, measure.name): measure for measure in measures}
    return [_judge(rows.get((budget.part, budget.measure)), budget) for budget in wanted]


def _judge(measure: Measure | None, budget: Budget) -> Verdict:
    if measure is None:
        return Verdict(budget, None, None, "", False)
    values = measure.ratios(budget.against) if budget.against else sorted(measure.samples.get(OURS, []))
    found = statistics.median(values) if values else None
    spread = (values[0], values[-1]) if values else None
    unit = f"x {budget.against}" if budget.against else measure.unit
    holds = found is not None and (found >= budget.bar if budget.least else found <= budget.bar)
    return Verdict(budget, found, spread, unit, holds)
