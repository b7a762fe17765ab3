"""The days of a plan: reads blocks and activities, and judges their fields and the shape of each day."""

from __future__ import annotations

from typing import Any, NamedTuple

from .contract import (
    ACTIVITIES_PER_DAY,
    BLOCKS_PER_DAY,
    CATEGORIES,
    DISTINCT_ACTIVITIES,
    MINUTES_PER_ACTIVITY,
    MINUTES_PER_DAY,
    PLAN_DAYS,
    TEXT_LIMITS,
    WEEKDAYS,
)
from .values import as_array, as_integer, as_minutes, as_object, clock, item, member, quote
from .verdict import Report


class Block(NamedTuple):
    """A block whose times could be read, in minutes after midnight. `activity` is "" where the name is no name."""

    path: str
    activity: str
    start: int
    end: int

    @property
    def title(self) -> str:
        """How messages name it."""
        return quote(self.activity) if self.activity else "this block"


class Day(NamedTuple):
    """One list of blocks. `night` is the last block if it may and does run past midnight."""

    path: str
    blocks: list[Block]
    night: Block | None


class Routine(NamedTuple):
    """The days of a routine: the usual one and those that replace it on a weekday."""

    usual: Day
    replaced: dict[str, Day]

    def on(self, weekday: str) -> Day:
        """The day that counts on this weekday."""
        return self.replaced.get(weekday, self.usual)

    def days(self) -> list[Day]:
        """Every list of blocks once, in the order of the plan."""
        return [self.usual, *self.replaced.values()]


class Goal(NamedTuple):
    """The days of a goal: how many there are, and the path and the minutes of those that were read."""

    number: int
    minutes: list[tuple[str, int]]


class DayReader:
    """Reads the days of one plan and reports what is wrong with them, in the order of the plan.

    Fields and shape are judged together, block by block, so that the errors of one block stand side by side.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.activities: set[str] = set()

    def routine(self, value: object) -> Routine | None:
        """Read the plan's member `routine`; None if there is nothing to judge further."""
        path = "$.routine"
        routine = as_object(value)
        if routine is None:
            self.report.error("required", path, "a routine plan needs an object with blocks")
            return None
        usual = self._day(routine.get("blocks"), member(path, "blocks"))
        replaced = self._weekdays(routine.get("weekdays"), member(path, "weekdays"))
        self._count_activities(path)
        return Routine(usual, replaced)

    def goal(self, value: object) -> Goal | None:
        """Read the plan's member `goal`; None if there is nothing to judge further."""
        path = "$.goal"
        goal = as_object(value)
        if goal is None:
            self.report.error("required", path, "a goal plan needs an object with days")
            return None
        path = member(path, "days")
        days = as_array(goal.get("days"))
        if not days:
            self.report.error("required", path, "needs at least one day")
            return None
        if len(days) > PLAN_DAYS:
            self.report.error("limit", path, f"{len(days)} days are more than {PLAN_DAYS}")
        minutes = [self._goal_day(day, item(path, index)) for index, day in enumerate(days[:PLAN_DAYS])]
        self._count_activities("$.goal")
        return Goal(len(days), minutes)

    def _weekdays(self, value: object, path: str) -> dict[str, Day]:
        weekdays = {} if value is None else as_object(value)
        if weekdays is None:
            self.report.error("weekday", path, "must be an object whose keys are weekdays, or be left out")
            return {}
        for name in weekdays:
            if name not in WEEKDAYS:
                self.report.error("weekday", member(path, name), f"is no weekday; use {', '.join(WEEKDAYS)}")
        return {name: self._day(weekdays[name], member(path, name)) for name in WEEKDAYS if name in weekdays}

    def _day(self, value: object, path: str) -> Day:
        entries = as_array(value)
        if not entries:
            self.report.error("required", path, "needs at least one block")
            return Day(path, [], None)
        if len(entries) > BLOCKS_PER_DAY:
            self.report.error("limit", path, f"{len(entries)} blocks are more than {BLOCKS_PER_DAY} on one day")
        blocks: list[Block] = []
        longest: Block | None = None
        night: Block | None = None
        for index, entry in enumerate(entries[:BLOCKS_PER_DAY]):
            block, is_rest = self._block(entry, item(path, index))
            if block is None:
                continue
            if longest is not None and block.start < longest.end:
                self._overlap(block, longest)
            if block.end > MINUTES_PER_DAY and self._may_pass_midnight(block, is_rest and index == len(entries) - 1):
                night = block
            if longest is None or block.end > longest.end:
                longest = block
            blocks.append(block)
        return Day(path, blocks, night)

    def _overlap(self, block: Block, earlier: Block) -> None:
        message = (
            f"{block.title} starts at {clock(block.start)}, before {earlier.title} ends at {clock(earlier.end)}; "
            "move or shorten one of them, and keep the blocks in the order of their starts"
        )
        self.report.error("overlap", block.path, message)

    def _may_pass_midnight(self, block: Block, is_last_rest: bool) -> bool:
        if is_last_rest:
            until = clock(block.end)
            self.report.warning(
                "overnight", block.path, f"{block.title} runs past midnight, until {until} on the next day"
            )
        else:
            message = f"{block.title} must end by midnight; only rest at the end of the day may run on"
            self.report.error("midnight", block.path, message)
        return is_last_rest

    def _block(self, value: object, path: str) -> tuple[Block | None, bool]:
        """Judge the fields of a block; return it if it has times, and whether it is rest."""
        block = as_object(value)
        if block is None:
            message = "must be an object with start, durationMin, activity, category and essential"
            self.report.error("required", path, message)
            return None, False
        start = as_minutes(block.get("start"))
        if start is None:
            self.report.error("time", member(path, "start"), "must be a time HH:MM from 00:00 to 23:59")
        duration = self._minutes(block, "durationMin", path)
        category = self._category(block, path)
        activity = self._activity(block, path)
        if not isinstance(block.get("essential"), bool):
            self.report.error("essential", member(path, "essential"), "must be true or false")
        if start is None or duration is None:
            return None, False
        return Block(path, activity, start, start + duration), category == "rest"

    def _goal_day(self, value: object, path: str) -> tuple[str, int]:
        """Judge one day of a goal; return its path and the minutes of its activities."""
        day = as_object(value)
        entries = as_array(day.get("activities")) if day is not None else None
        if entries is None:
            where = path if day is None else member(path, "activities")
            self.report.error("required", where, "a day needs an array `activities`; it is empty on a day off")
            return path, 0
        path_of_all = member(path, "activities")
        if len(entries) > ACTIVITIES_PER_DAY:
            self.report.error(
                "limit", path_of_all, f"{len(entries)} activities are more than {ACTIVITIES_PER_DAY} on one day"
            )
        judged = entries[:ACTIVITIES_PER_DAY]
        return path, sum(self._goal_activity(entry, item(path_of_all, index)) for index, entry in enumerate(judged))

    def _goal_activity(self, value: object, path: str) -> int:
        activity = as_object(value)
        if activity is None:
            message = "must be an object with title, activity, category, minutes, guidance and doneWhen"
            self.report.error("required", path, message)
            return 0
        self.text(activity, "title", path)
        self._activity(activity, path)
        self._category(activity, path)
        minutes = self._minutes(activity, "minutes", path)
        self.text(activity, "guidance", path)
        self.text(activity, "doneWhen", path)
        return minutes or 0

    def text(self, owner: dict[str, Any], name: str, path: str) -> None:
        """Judge a member that must be a text, and no longer than the contract allows."""
        value, limit = owner.get(name), TEXT_LIMITS.get(name)
        if not isinstance(value, str) or not value.strip():
            self.report.error("required", member(path, name), f"{name} must be a text that is not blank")
        elif limit is not None and len(value) > limit:
            message = f"{name} has {len(value)} characters; at most {limit} are allowed"
            self.report.error("length", member(path, name), message)

    def _activity(self, owner: dict[str, Any], path: str) -> str:
        value, limit = owner.get("activity"), TEXT_LIMITS["activity"]
        if isinstance(value, str) and value.strip() and len(value) <= limit:
            self.activities.add(value)
            return value
        self.report.error("activity", member(path, "activity"), f"must be a name of 1 to {limit} characters")
        return ""

    def _category(self, owner: dict[str, Any], path: str) -> str | None:
        value = owner.get("category")
        if isinstance(value, str) and value in CATEGORIES:
            return value
        self.report.error("category", member(path, "category"), f"must be one of {', '.join(CATEGORIES)}")
        return None

    def _minutes(self, owner: dict[str, Any], name: str, path: str) -> int | None:
        minutes = as_integer(owner.get(name))
        if minutes is not None and 1 <= minutes <= MINUTES_PER_ACTIVITY:
            return minutes
        message = f"must be a whole number of minutes from 1 to {MINUTES_PER_ACTIVITY}"
        self.report.error("duration", member(path, name), message)
        return None

    def _count_activities(self, path: str) -> None:
        if len(self.activities) > DISTINCT_ACTIVITIES:
            message = f"{len(self.activities)} different activities are more than {DISTINCT_ACTIVITIES}; reuse names"
            self.report.error("limit", path, message)
