"""The request that a plan answers: is it echoed, and what of it binds the plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from .contract import KINDS, PAYLOAD_BYTES, PLAN_DAYS, WEEKDAYS
from .values import as_array, as_integer, as_minutes, as_object, find_fault, item, member, same
from .verdict import Report

_PATH = "$.request"


class Commitment(NamedTuple):
    """A fixed appointment. Times are minutes after midnight; an `end` beyond 1440 lies on the next day."""

    label: str
    start: int
    end: int
    weekdays: tuple[int, ...]


class Request(NamedTuple):
    """What binds the plan; None or empty where the request does not say it in a form that can be read."""

    id: str | None = None
    kind: str | None = None
    days: int | None = None
    commitments: tuple[Commitment, ...] = ()


def read_request(given: object, echoed: object) -> tuple[Request, Report]:
    """Read the request, and report where the plan's copy of it differs and what of it cannot be read.

    A path points into the copy in the plan; it is `$.request` itself where the copy is not the same.
    """
    report = Report()
    request = as_object(given)
    fault = find_fault(given, PAYLOAD_BYTES)
    if request is None:
        report.error("request", _PATH, "the request given with the plan must be an object")
        return Request(), report
    if fault is not None or len(msgspec.json.encode(request)) > PAYLOAD_BYTES:
        why = fault.message if fault else f"more than {PAYLOAD_BYTES} bytes; say less"
        report.error("request", _PATH, f"the request given with the plan cannot be read: {why}")
        return Request(), report
    is_echoed = same(request, echoed)
    if not is_echoed:
        report.error("request", _PATH, "must be the whole request, unchanged")
    return _Reader(report, is_echoed).read(request), report


class _Reader:
    """Reads the members that bind a plan."""

    def __init__(self, report: Report, is_echoed: bool) -> None:
        self.report = report
        self.is_echoed = is_echoed

    def fault(self, path: str, message: str) -> None:
        place = path if self.is_echoed else _PATH
        self.report.error("request", place, f"the request cannot be read: {path.removeprefix('$.')} {message}")

    def read(self, request: dict[str, Any]) -> Request:
        id, kind, days = request.get("requestId"), request.get("kind"), request.get("days")
        if not isinstance(id, str):
            self.fault(member(_PATH, "requestId"), "must be a text")
        if kind not in KINDS:
            self.fault(member(_PATH, "kind"), "must be routine or goal")
        whole = as_integer(days)
        if kind == "goal" and days is not None and (whole is None or not 1 <= whole <= PLAN_DAYS):
            self.fault(member(_PATH, "days"), f"must be a whole number from 1 to {PLAN_DAYS}")
            whole = None
        return Request(
            id=id if isinstance(id, str) else None,
            kind=kind if kind in KINDS else None,
            days=whole if kind == "goal" else None,
            commitments=self.read_commitments(request.get("commitments")),
        )

    def read_commitments(self, value: object) -> tuple[Commitment, ...]:
        path = member(_PATH, "commitments")
        entries = [] if value is None else as_array(value)
        if entries is None:
            self.fault(path, "must be an array")
            return ()
        read = (self.read_commitment(entry, item(path, index)) for index, entry in enumerate(entries))
        return tuple(commitment for commitment in read if commitment is not None)

    def read_commitment(self, value: object, path: str) -> Commitment | None:
        entry = as_object(value)
        if entry is None:
            self.fault(path, "must be an object with label, start and end")
            return None
        label = entry.get("label")
        start, end = (
            as_minutes(entry.get("start")),
            1440 if entry.get("end") == "24:00" else as_minutes(entry.get("end")),
        )
        weekdays = self.read_weekdays(entry.get("days"), member(path, "days"))
        if not isinstance(label, str) or not label.strip():
            self.fault(member(path, "label"), "must be a text")
        if start is None:
            self.fault(member(path, "start"), "must be a time HH:MM")
        if end is None:
            self.fault(member(path, "end"), "must be a time HH:MM or 24:00")
        if start is not None and start == end:
            self.fault(member(path, "end"), "must differ from start")
            return None
        if not isinstance(label, str) or start is None or end is None or weekdays is None:
            return None
        return Commitment(label, start, end if end > start else end + 1440, weekdays)

    def read_weekdays(self, value: object, path: str) -> tuple[int, ...] | None:
        if value is None:
            return tuple(range(len(WEEKDAYS)))
        names = as_array(value)
        if not names or any(name not in WEEKDAYS for name in names):
            self.fault(path, "must name weekdays from mon to sun, or be left out for every day")
            return None
        return tuple(index for index, name in enumerate(WEEKDAYS) if name in names)
