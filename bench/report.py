"""Turns measures and verdicts into text: tables for the terminal and for bench/RESULTS.md."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import cast

from bench.budgets import Verdict
from bench.measure import OURS, Measure

SUBJECTS = {
    OURS: "jackfield",
    "official": "official",
    "fastmcp": "FastMCP",
    "typescript": "TypeScript",
    "echo": "bare echo",
    "bare": "bare uvicorn",
}
PARTS = {
    "stdio": "stdio servers (calls/s)",
    "pinned": "stdio servers, pinned to cores (calls/s)",
    "memory": "memory of those servers (MB)",
    "inmemory": "in memory (calls/s)",
    "client": "stdio clients (calls/s)",
    "http": "HTTP servers (calls/s)",
    "idle": "idle sessions of those servers (KiB a session)",
    "httpclient": "HTTP clients (calls/s)",
    "startup": "start-up (ms)",
    "import": "imports (ms; modules)",
}
NOTE = """\
Each cell is the median of the rounds. `x official` is the median of the rounds' ratios of jackfield to the official
Python SDK, and so on; for times, memory and modules less than 1 is better. The subjects of a row took turns in one run.
Every answer to a timed call was checked after the clock had stopped; under wrk, which is slowed down by looking, every
answer of a first run, then one before and one after each timed run, whose answers must be as large and no errors. The
bare echo writes back what it reads: its row with 64 in flight is the most that the load generator itself can drive; the
bare uvicorn answers `{}` to everything. Where the processes are not pinned to cores, a sequential figure depends on
where the system happens to run them. A budget that cannot be measured on a machine is neither held nor missed, and the
table says why. All samples are in results.json."""


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with padded columns, the first row its head; all but the first column are flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| "
        + " | ".join(cell.rjust(width) if at else cell.ljust(width) for at, (cell, width) in enumerate(pairs))
        + " |"
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    lines.insert(
        1,
        "| " + " | ".join("-" * width if not at else "-" * (width - 1) + ":" for at, width in enumerate(widths)) + " |",
    )
    return "\n".join(lines)


def number(value: float | None) -> str:
    """A figure with as many digits as it deserves; a dash when there is none."""
    if value is None:
        return "-"
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def measures_table(measures: Sequence[Measure]) -> str:
    """One part's rows; a column for each subject that has a sample, then the ratios to every other one."""
    subjects = [name for name in SUBJECTS if any(name in measure.samples for measure in measures)]
    others = [name for name in subjects if name != OURS]
    rows = [["", *(SUBJECTS[name] for name in subjects), *(f"x {SUBJECTS[name]}" for name in others)]]
    for measure in measures:
        cells = [number(measure.median(name)) for name in subjects]
        rows.append([measure.name, *cells, *(number(measure.ratio(name)) for name in others)])
    return table(rows)


def verdicts_table(verdicts: Iterable[Verdict]) -> str:
    """Each budget with its number, the range over the rounds, and pass, FAIL or skipped."""
    rows = [["budget", "wanted", "found", "rounds", ""]]
    for verdict in verdicts:
        budget = verdict.budget
        wanted = f"{'>=' if budget.least else '<='} {number(budget.bar)} {verdict.unit}".strip()
        found = number(verdict.found)
        if verdict.found is None:
            found = f"not measured: {verdict.skipped}" if verdict.skipped else "not measured"
        state = "pass" if verdict.holds else "FAIL" if verdict.missed else "skipped"
        spread = f"{number(verdict.spread[0])}..{number(verdict.spread[1])}" if verdict.spread else "-"
        rows.append([f"{budget.part}: {budget.measure}", wanted, found, spread, state])
    return table(rows)


def body(measures: Sequence[Measure], verdicts: Sequence[Verdict]) -> str:
    """All tables, under headings."""
    blocks: list[str] = []
    for part, title in PARTS.items():
        if rows := [measure for measure in measures if measure.part == part]:
            blocks += [f"## {title}", measures_table(rows)]
    held = sum(verdict.holds for verdict in verdicts)
    skipped = sum(not verdict.holds and not verdict.missed for verdict in verdicts)
    said = f"{held} of {len(verdicts)} budgets hold" + (f"; {skipped} could not be measured here." if skipped else ".")
    blocks += ["## Budgets", verdicts_table(verdicts), said]
    return "\n\n".join(blocks)


def page(measures: Sequence[Measure], verdicts: Sequence[Verdict], facts: dict[str, object]) -> str:
    """The whole of RESULTS.md."""
    lines: list[str] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {version}" for key, version in cast("dict[str, str]", value).items())
        lines.append(f"- {name}: {value}")
    head = [
        "# Benchmark results",
        "Written by `python -m bench`; nothing here is typed by hand.",
        "\n".join(lines),
        NOTE,
    ]
    return "\n\n".join([*head, body(measures, verdicts)]) + "\n"


def raw(measures: Sequence[Measure], facts: dict[str, object], skipped: dict[str, str]) -> str:
    """The whole of results.json: the facts, the parts left out, and every sample, one measure a line."""
    rows = ",\n".join(json.dumps(asdict(measure)) for measure in measures)
    return f'{{"facts": {json.dumps(facts)},\n"skipped": {json.dumps(skipped)},\n"measures": [\n{rows}\n]}}\n'
