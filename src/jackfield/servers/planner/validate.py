"""The validator: judges a drafted plan by the contract and by the request that it answers."""

from __future__ import annotations

from typing import Any

import msgspec

from .contract import CONTRACT_VERSION, FORMAT, KINDS, MINUTES_PER_DAY, PAYLOAD_BYTES, WEEKDAYS, id_problem
from .days import Block, Day, DayReader, Goal, Routine
from .request import Commitment, Request, read_request
from .values import Fault, as_integer, as_object, clock, find_fault, quote
from .verdict import Report, Verdict

CHECKS = ("json", "size", "envelope", "request", "fields", "day-shape", "commitments", "feasibility")
"""The checks, in the order in which they are made. `fields` and `day-shape` are one pass over the days."""


def validate_plan(plan: object, request: object) -> Verdict:
    """Judge `plan`, a decoded JSON object or its text, against `request`.

    Deterministic, stores nothing and raises nothing: whatever the two are, what is wrong is an issue with a path.
    A plan that is no JSON or too big is not read any further, and `checks` of the verdict ends there.
    """
    report = Report()
    document = _read(plan)
    if isinstance(document, Fault):
        report.error(*document)
        return report.verdict(CHECKS[: CHECKS.index(document.code) + 1])
    wanted, request_report = read_request(request, document.get("request"))
    _check_envelope(document, wanted, report)
    for issue in request_report.errors:
        report.error(**issue)
    _check_days(document, wanted, report)
    return report.verdict(CHECKS)


def _read(plan: object) -> dict[str, Any] | Fault:
    """Return the plan as an object, or why it is no JSON or too big."""
    decoded = _decode(plan) if type(plan) is str else plan
    fault = decoded if isinstance(decoded, Fault) else find_fault(decoded, PAYLOAD_BYTES)
    if fault is not None:
        return fault
    document = as_object(decoded)
    if document is None:
        return Fault("json", "$", "a plan must be a JSON object")
    size = len(plan.encode() if isinstance(plan, str) else msgspec.json.encode(document))
    if size > PAYLOAD_BYTES:
        return Fault("size", "$", f"{size} bytes are more than {PAYLOAD_BYTES}; say less")
    return document


def _decode(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return Fault("json", "$", f"this text is not one JSON document and nothing else: {error}")
    except UnicodeEncodeError:
        return Fault("json", "$", "this text has half of a surrogate pair, which UTF-8 cannot hold")
    except RecursionError:
        return Fault("json", "$", "this text is nested too deeply")


def _check_envelope(plan: dict[str, Any], request: Request, report: Report) -> None:
    if plan.get("format") != FORMAT:
        report.error("format", "$.format", f"must be {quote(FORMAT)}")
    if as_integer(plan.get("contractVersion")) != CONTRACT_VERSION:
        report.error("contractVersion", "$.contractVersion", f"must be the number {CONTRACT_VERSION}")
    kind = plan.get("kind")
    if kind not in KINDS:
        report.error("kind", "$.kind", f"must be {' or '.join(KINDS)}")
    elif request.kind is not None and kind != request.kind:
        report.error("kind", "$.kind", f"the request asks for a {request.kind}")
    plan_id = plan.get("requestId")
    if not isinstance(plan_id, str) or plan_id != request.id:
        wanted = "the request's requestId" if request.id is None else quote(request.id)
        report.error("requestId", "$.requestId", f"must be {wanted}")
    elif problem := id_problem(plan_id):
        report.error("requestId", "$.requestId", f"cannot name a saved plan: {problem}")


def _check_days(plan: dict[str, Any], request: Request, report: Report) -> None:
    reader = DayReader(report)
    for name in ("name", "tagline", "description"):
        reader.text(plan, name, "$")
    kind = plan.get("kind") if plan.get("kind") in KINDS else request.kind
    if kind == "routine":
        routine = reader.routine(plan.get("routine"))
        if routine is not None:
            _check_commitments(routine, request.commitments, report)
            _check_routine_fits(routine, report)
    elif kind == "goal":
        goal = reader.goal(plan.get("goal"))
        if goal is not None:
            _check_goal_fits(goal, request.days, report)


def _check_commitments(routine: Routine, commitments: tuple[Commitment, ...], report: Report) -> None:
    """No block lies on a commitment on a weekday that counts it, the morning after a night's rest included."""
    taken: list[list[tuple[int, int, Commitment]]] = [[] for _ in WEEKDAYS]
    for commitment in commitments:
        for weekday in commitment.weekdays:
            for where, start, end in _split(weekday, commitment.start, commitment.end):
                taken[where].append((start, end, commitment))
    if not commitments:
        return
    for day in routine.days():
        weekdays = [index for index, name in enumerate(WEEKDAYS) if routine.on(name) is day]
        for block in day.blocks:
            if report.is_full:  # a request of some thousand commitments would keep this busy for seconds
                return
            for commitment in _hits(block, weekdays, taken):
                message = (
                    f"{block.title} ({clock(block.start)} to {clock(block.end)}) lies on the commitment "
                    f"{quote(commitment.label)} ({clock(commitment.start)} to {clock(commitment.end)} on "
                    f"{', '.join(WEEKDAYS[index] for index in commitment.weekdays)}); move or shorten it"
                )
                report.error("commitment", block.path, message)


def _hits(block: Block, weekdays: list[int], taken: list[list[tuple[int, int, Commitment]]]) -> list[Commitment]:
    """The commitments that the block lies on, each once."""
    hits: dict[Commitment, None] = {}
    for weekday in weekdays:
        for where, start, end in _split(weekday, block.start, block.end):
            for busy_start, busy_end, commitment in taken[where]:
                if start < busy_end and busy_start < end and block.activity != commitment.label:
                    hits[commitment] = None
    return list(hits)


def _split(weekday: int, start: int, end: int) -> list[tuple[int, int, int]]:
    """A span of time as its pieces (weekday, start, end), cut at midnight."""
    if end <= MINUTES_PER_DAY:
        return [(weekday, start, end)]
    return [(weekday, start, MINUTES_PER_DAY), ((weekday + 1) % len(WEEKDAYS), 0, end - MINUTES_PER_DAY)]


def _check_routine_fits(routine: Routine, report: Report) -> None:
    for day in routine.days():
        minutes = sum(block.end - block.start for block in day.blocks)
        if minutes > MINUTES_PER_DAY:
            report.error("feasibility", day.path, f"{minutes} minutes do not fit into one day of {MINUTES_PER_DAY}")
        if day.night is not None:
            _check_night(day, day.night, routine, report)


def _check_night(day: Day, night: Block, routine: Routine, report: Report) -> None:
    """The rest that runs past midnight must end before any day that can follow it begins."""
    for index, weekday in enumerate(WEEKDAYS):
        following = routine.on(WEEKDAYS[(index + 1) % len(WEEKDAYS)])
        if routine.on(weekday) is not day or not following.blocks:
            continue
        first = min(following.blocks, key=lambda block: block.start)
        until = night.end - MINUTES_PER_DAY
        if first.start < until:
            message = (
                f"{night.title} lasts until {clock(until)}, but the next day begins with {first.title} at "
                f"{clock(first.start)}; end one sooner or begin the other later"
            )
            report.error("feasibility", night.path, message)
            return


def _check_goal_fits(goal: Goal, wanted: int | None, report: Report) -> None:
    if wanted is not None and goal.number != wanted:
        report.error("days", "$.goal.days", f"the request asks for {wanted} days, not {goal.number}")
    for path, minutes in goal.minutes:
        if minutes > MINUTES_PER_DAY:
            report.error("feasibility", path, f"{minutes} minutes do not fit into one day of {MINUTES_PER_DAY}")
