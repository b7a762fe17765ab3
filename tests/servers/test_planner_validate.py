"""The validator: the walk, each code at its path, each limit at its edge."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from jackfield.servers.planner import example
from jackfield.servers.planner.contract import MAX_ERRORS
from jackfield.servers.planner.validate import CHECKS, validate_plan
from tests.servers.planner_drafts import activity, block, errors, goal_plan, goal_request, judge, resolves

Change = Callable[[dict[str, Any]], Any]


def test_the_valid_draft_has_one_warning():
    """The walk's plan is valid, and its sleep past midnight is a warning."""
    verdict = validate_plan(example.plan(), example.request())
    assert verdict["valid"] is True
    assert verdict["errors"] == []
    assert [(issue["code"], issue["path"]) for issue in verdict["warnings"]] == [("overnight", "$.routine.blocks[4]")]
    assert verdict["checks"] == list(CHECKS)
    assert CHECKS == ("json", "size", "envelope", "request", "fields", "day-shape", "commitments", "feasibility")


@pytest.mark.parametrize("form", [dict, json.dumps])
def test_the_broken_draft_has_exactly_three_errors(form: Callable[[Any], Any]):
    """The walk's broken plan, as an object or as text, gives an overlap, a category and a commitment."""
    verdict = validate_plan(form(example.broken_plan()), example.request())
    assert verdict["valid"] is False
    assert errors(verdict) == [
        ("overlap", "$.routine.blocks[2]"),
        ("category", "$.routine.blocks[3].category"),
        ("commitment", "$.routine.blocks[1]"),
    ]


def test_the_same_plan_gets_the_same_verdict_and_stays_as_it_was():
    """Validation is deterministic and changes neither plan nor request."""
    plan, request = example.broken_plan(), example.request()
    first = validate_plan(plan, request)
    assert validate_plan(plan, request) == first
    assert (plan, request) == (example.broken_plan(), example.request())


def test_a_goal_plan_is_valid():
    """A goal plan of the asked length has neither errors nor warnings, a day off included."""
    plan = goal_plan(3)
    plan["goal"]["days"][1]["activities"] = []
    verdict = judge(plan)
    assert (verdict["errors"], verdict["warnings"]) == ([], [])


def _put(*steps: str | int, value: Any) -> Change:
    def change(plan: dict[str, Any]) -> None:
        here: Any = plan
        for step in steps[:-1]:
            here = here[step]
        here[steps[-1]] = value

    return change


def _drop(*steps: str | int) -> Change:
    def change(plan: dict[str, Any]) -> None:
        here: Any = plan
        for step in steps[:-1]:
            here = here[step]
        del here[steps[-1]]

    return change


_FIRST = ("routine", "blocks", 0)
_LAST = ("routine", "blocks", 4)
_WEEKDAYS = ("routine", "weekdays")

ROUTINE_FAULTS: list[tuple[Change, str, str]] = [
    (_put("format", value="plan"), "format", "$.format"),
    (_drop("format"), "format", "$.format"),
    (_put("contractVersion", value=2), "contractVersion", "$.contractVersion"),
    (_put("contractVersion", value=True), "contractVersion", "$.contractVersion"),
    (_put("contractVersion", value="1"), "contractVersion", "$.contractVersion"),
    (_put("kind", value="habit"), "kind", "$.kind"),
    (_put("kind", value=["routine"]), "kind", "$.kind"),
    (_drop("kind"), "kind", "$.kind"),
    (_put("requestId", value="req-other"), "requestId", "$.requestId"),
    (_drop("requestId"), "requestId", "$.requestId"),
    (_drop("request"), "request", "$.request"),
    (_put("request", "timezone", value="Europe/Paris"), "request", "$.request"),
    (_put("request", "extra", value=1), "request", "$.request"),
    (_drop("name"), "required", "$.name"),
    (_put("name", value=" \n"), "required", "$.name"),
    (_put("tagline", value=7), "required", "$.tagline"),
    (_put("description", value=None), "required", "$.description"),
    (_put("name", value="n" * 81), "length", "$.name"),
    (_put("tagline", value="t" * 121), "length", "$.tagline"),
    (_put("description", value="d" * 1001), "length", "$.description"),
    (_drop("routine"), "required", "$.routine"),
    (_put("routine", value=[]), "required", "$.routine"),
    (_drop("routine", "blocks"), "required", "$.routine.blocks"),
    (_put("routine", "blocks", value=[]), "required", "$.routine.blocks"),
    (_put("routine", "blocks", value={"0": 1}), "required", "$.routine.blocks"),
    (_put(*_FIRST, value="Walk"), "required", "$.routine.blocks[0]"),
    (_put(*_FIRST, "start", value="6:45"), "time", "$.routine.blocks[0].start"),
    (_put(*_FIRST, "start", value="24:00"), "time", "$.routine.blocks[0].start"),
    (_put(*_FIRST, "start", value="06:45\n"), "time", "$.routine.blocks[0].start"),
    (_put(*_FIRST, "start", value="٠٦:٤٥"), "time", "$.routine.blocks[0].start"),
    (_put(*_FIRST, "start", value=645), "time", "$.routine.blocks[0].start"),
    (_put(*_FIRST, "durationMin", value=0), "duration", "$.routine.blocks[0].durationMin"),
    (_put(*_FIRST, "durationMin", value=-5), "duration", "$.routine.blocks[0].durationMin"),
    (_put(*_FIRST, "durationMin", value=30.5), "duration", "$.routine.blocks[0].durationMin"),
    (_put(*_FIRST, "durationMin", value=True), "duration", "$.routine.blocks[0].durationMin"),
    (_put(*_FIRST, "durationMin", value="30"), "duration", "$.routine.blocks[0].durationMin"),
    (_put(*_FIRST, "durationMin", value=10**300), "duration", "$.routine.blocks[0].durationMin"),
    (_put(*_FIRST, "durationMin", value=1e300), "duration", "$.routine.blocks[0].durationMin"),
    (_drop(*_FIRST, "durationMin"), "duration", "$.routine.blocks[0].durationMin"),
    (_put(*_LAST, "durationMin", value=721), "duration", "$.routine.blocks[4].durationMin"),
    (_put(*_FIRST, "activity", value=""), "activity", "$.routine.blocks[0].activity"),
    (_put(*_FIRST, "activity", value="a" * 41), "activity", "$.routine.blocks[0].activity"),
    (_drop(*_FIRST, "activity"), "activity", "$.routine.blocks[0].activity"),
    (_put(*_FIRST, "category", value="Body"), "category", "$.routine.blocks[0].category"),
    (_put(*_FIRST, "category", value=["body"]), "category", "$.routine.blocks[0].category"),
    (_drop(*_FIRST, "category"), "category", "$.routine.blocks[0].category"),
    (_put(*_FIRST, "essential", value=1), "essential", "$.routine.blocks[0].essential"),
    (_drop(*_FIRST, "essential"), "essential", "$.routine.blocks[0].essential"),
    (_put(*_FIRST, "start", value="07:10"), "overlap", "$.routine.blocks[1]"),
    (_put(*_LAST, "category", value="mind"), "midnight", "$.routine.blocks[4]"),
    (_put(*_LAST, "start", value="23:01"), "feasibility", "$.routine.blocks[4]"),
    (_put(*_WEEKDAYS, value=[]), "weekday", "$.routine.weekdays"),
    (_put(*_WEEKDAYS, value={"monday": []}), "weekday", "$.routine.weekdays.monday"),
    (_put(*_WEEKDAYS, value={"ti r": []}), "weekday", '$.routine.weekdays["ti r"]'),
    (_put(*_WEEKDAYS, value={"sat": []}), "required", "$.routine.weekdays.sat"),
    (_put(*_WEEKDAYS, value={"sat": [1]}), "required", "$.routine.weekdays.sat[0]"),
    (_put(*_WEEKDAYS, value={"tue": [block("16:30", 60, "Read")]}), "commitment", "$.routine.weekdays.tue[0]"),
]


@pytest.mark.parametrize(("change", "code", "path"), ROUTINE_FAULTS)
def test_one_fault_of_a_routine_is_one_error_at_its_place(change: Change, code: str, path: str):
    """Each fault gives exactly its own code at exactly its own path, and a message."""
    plan = example.plan()
    change(plan)
    verdict = validate_plan(plan, example.request())
    assert errors(verdict) == [(code, path)]
    assert verdict["errors"][0]["message"]
    assert resolves(plan, path)


_ACTIVITY = ("goal", "days", 1, "activities", 0)

GOAL_FAULTS: list[tuple[Change, str, str]] = [
    (_put("kind", value="routine"), "kind", "$.kind"),
    (_drop("goal"), "required", "$.goal"),
    (_put("goal", value="run"), "required", "$.goal"),
    (_put("goal", "days", value={}), "required", "$.goal.days"),
    (_put("goal", "days", value=[]), "required", "$.goal.days"),
    (_drop("goal", "days", 1), "days", "$.goal.days"),
    (_put("goal", "days", 1, value=[]), "required", "$.goal.days[1]"),
    (_drop("goal", "days", 1, "activities"), "required", "$.goal.days[1].activities"),
    (_put(*_ACTIVITY, value=None), "required", "$.goal.days[1].activities[0]"),
    (_drop(*_ACTIVITY, "title"), "required", "$.goal.days[1].activities[0].title"),
    (_put(*_ACTIVITY, "activity", value="a" * 41), "activity", "$.goal.days[1].activities[0].activity"),
    (_put(*_ACTIVITY, "category", value="food"), "category", "$.goal.days[1].activities[0].category"),
    (_put(*_ACTIVITY, "minutes", value=False), "duration", "$.goal.days[1].activities[0].minutes"),
    (_put(*_ACTIVITY, "minutes", value=721), "duration", "$.goal.days[1].activities[0].minutes"),
    (_put(*_ACTIVITY, "guidance", value="g" * 601), "length", "$.goal.days[1].activities[0].guidance"),
    (_drop(*_ACTIVITY, "guidance"), "required", "$.goal.days[1].activities[0].guidance"),
    (_put(*_ACTIVITY, "doneWhen", value=" "), "required", "$.goal.days[1].activities[0].doneWhen"),
    (
        _put(
            "goal", "days", 0, "activities", value=[activity("Read", minutes=720)] * 2 + [activity("Read", minutes=1)]
        ),
        "feasibility",
        "$.goal.days[0]",
    ),
]


@pytest.mark.parametrize(("change", "code", "path"), GOAL_FAULTS)
def test_one_fault_of_a_goal_is_reported_at_its_place(change: Change, code: str, path: str):
    """Each fault of a goal plan gives its own code at its own path."""
    plan = goal_plan()
    change(plan)
    found = errors(validate_plan(plan, goal_request()))
    # A plan that calls itself a routine also lacks the routine.
    assert found == [(code, path)] + ([("required", "$.routine")] if code == "kind" else [])
    assert resolves(plan, path)


def _routine_with(blocks: int) -> dict[str, Any]:
    plan = example.plan()
    plan["request"]["commitments"] = []
    plan["routine"]["blocks"] = [block(f"{i // 6:02d}:{i % 6}0", 10, "Walk") for i in range(blocks)]
    return plan


def _goal_with(days: int = 1, activities: int = 1, names: int = 1) -> dict[str, Any]:
    plan = goal_plan(days)
    listed = [activity(f"Activity {i % names}", minutes=1) for i in range(activities)]
    plan["goal"]["days"] = [{"activities": listed} for _ in range(days)]
    return plan


def _spread(names: int) -> dict[str, Any]:
    plan = _goal_with(days=2)
    plan["goal"]["days"] = [
        {"activities": [activity(f"A{i}", minutes=1) for i in range(names) if i // 24 == day]} for day in range(2)
    ]
    return plan


def _text(name: str, length: int) -> dict[str, Any]:
    return {**example.plan(), name: "ü" * length}


def _guidance(length: int) -> dict[str, Any]:
    plan = goal_plan()
    plan["goal"]["days"][0]["activities"][0]["guidance"] = "x" * length
    return plan


def _named(length: int) -> dict[str, Any]:
    plan = example.plan()
    plan["routine"]["blocks"][0]["activity"] = "x" * length
    return plan


def _minutes(minutes: int) -> dict[str, Any]:
    plan = goal_plan()
    plan["goal"]["days"][0]["activities"] = [activity("Read", minutes=minutes)]
    return plan


def _goal_day(minutes: int) -> dict[str, Any]:
    plan = goal_plan()
    plan["goal"]["days"][0]["activities"] = [activity("Read", minutes=part) for part in (480, 480, minutes - 960)]
    return plan


LIMITS: list[tuple[Callable[[int], dict[str, Any]], int, tuple[str, str]]] = [
    (lambda n: _text("name", n), 80, ("length", "$.name")),
    (lambda n: _text("tagline", n), 120, ("length", "$.tagline")),
    (lambda n: _text("description", n), 1000, ("length", "$.description")),
    (_guidance, 600, ("length", "$.goal.days[0].activities[0].guidance")),
    (_named, 40, ("activity", "$.routine.blocks[0].activity")),
    (_routine_with, 40, ("limit", "$.routine.blocks")),
    (lambda n: _goal_with(activities=n), 24, ("limit", "$.goal.days[0].activities")),
    (_spread, 40, ("limit", "$.goal")),
    (_minutes, 720, ("duration", "$.goal.days[0].activities[0].minutes")),
    (_goal_day, 1440, ("feasibility", "$.goal.days[0]")),
]


@pytest.mark.parametrize(("make", "limit", "error"), LIMITS)
def test_each_limit_holds_at_its_edge(make: Callable[[int], dict[str, Any]], limit: int, error: tuple[str, str]):
    """A plan at a limit is valid, and one more is an error."""
    assert errors(judge(make(limit))) == []
    assert errors(judge(make(limit + 1))) == [error]


def test_a_goal_has_at_most_ninety_days():
    """Ninety days are valid; of a longer plan the number of days is the error, whatever the request asks."""
    assert errors(judge(_goal_with(days=90))) == []
    plan = _goal_with(days=91)
    del plan["request"]["days"]
    assert errors(judge(plan)) == [("limit", "$.goal.days")]
    plan = _goal_with(days=91)
    assert errors(judge(plan)) == [("request", "$.request.days"), ("limit", "$.goal.days")]


def test_a_routine_has_at_most_forty_activities_in_all_its_days():
    """Different activities are counted over the usual day and the weekdays together."""
    plan = _routine_with(40)
    for index, each in enumerate(plan["routine"]["blocks"]):
        each["activity"] = f"A{index}"
    plan["routine"]["weekdays"] = {"sun": [block("08:00", 30, "A0")]}
    assert errors(judge(plan)) == []
    plan["routine"]["weekdays"]["sun"][0]["activity"] = "A40"
    assert errors(judge(plan)) == [("limit", "$.routine")]


def test_a_day_of_a_routine_has_1440_minutes():
    """A routine's day that needs more minutes than a day has is not feasible."""
    plan = _routine_with(1)
    plan["routine"]["blocks"] = [
        block("00:00", 720, "Dig"),
        block("12:00", 690, "Dig"),
        block("23:30", 31, "Sleep", "rest"),
    ]
    found = errors(judge(plan))
    assert found == [("feasibility", "$.routine.blocks"), ("feasibility", "$.routine.blocks[2]")]


def test_an_id_that_cannot_be_saved_is_an_error():
    """A valid plan can always be saved, so an id that is no plain file name is an error already here."""
    plan = example.plan()
    plan["requestId"] = plan["request"]["requestId"] = "../escape"
    assert errors(judge(plan)) == [("requestId", "$.requestId")]


def test_a_commitment_counts_only_on_its_weekdays():
    """A block over a commitment is fine on weekdays that do not have it, or where another list replaces the block."""
    plan = example.plan()
    plan["request"]["commitments"] = [{"label": "Choir", "days": ["sat"], "start": "18:30", "end": "20:00"}]
    assert errors(judge(plan)) == [("commitment", "$.routine.blocks[3]")]
    plan["routine"]["weekdays"] = {"sat": [block("18:30", 90, "Choir", "social")]}
    assert errors(judge(plan)) == []
    plan["request"]["commitments"][0]["days"] = ["sat", "sun"]
    assert errors(judge(plan)) == [("commitment", "$.routine.blocks[3]")]


def test_a_commitment_without_days_counts_every_day():
    """A commitment that names no weekdays holds on all of them."""
    plan = example.plan()
    plan["request"]["commitments"] = [{"label": "Choir", "start": "18:30", "end": "24:00"}]
    found = [("commitment", "$.routine.blocks[3]"), ("commitment", "$.routine.blocks[4]")]
    assert errors(judge(plan)) == found


def test_a_commitment_may_pass_midnight():
    """A night shift holds on the morning after its weekday too."""
    plan = example.plan()
    plan["request"]["commitments"] = [{"label": "Guard", "days": ["sun"], "start": "23:00", "end": "07:00"}]
    plan["routine"]["weekdays"] = {"sun": [block("23:00", 480, "Guard", "rest")]}
    found = errors(judge(plan))
    # Monday begins with the walk at 06:45, and Sunday's last block lasts until 07:00.
    assert found == [("commitment", "$.routine.blocks[0]"), ("feasibility", "$.routine.weekdays.sun[0]")]


def test_sleep_must_not_reach_into_the_next_commitment():
    """The part of a night's rest after midnight is judged on the next weekday."""
    plan = example.plan()
    plan["request"]["commitments"] = [{"label": "Swim", "days": ["mon"], "start": "05:30", "end": "06:15"}]
    assert errors(judge(plan)) == [("commitment", "$.routine.blocks[4]")]


def test_sleep_must_end_before_the_next_day_begins():
    """A weekday whose first block begins before the sleep of the day before ends is not feasible."""
    plan = example.plan()
    plan["routine"]["weekdays"] = {"sat": [block("05:30", 60, "Hike", "body")]}
    assert errors(judge(plan)) == [("feasibility", "$.routine.blocks[4]")]


def test_only_the_last_block_may_pass_midnight():
    """Rest past midnight in the middle of the list is a midnight error."""
    plan = example.plan()
    plan["routine"]["blocks"].append(block("23:00", 10, "Read", "learning"))
    assert errors(judge(plan)) == [("midnight", "$.routine.blocks[4]"), ("overlap", "$.routine.blocks[5]")]


def test_a_block_may_end_at_midnight():
    """24:00 is still today: neither an error nor a warning."""
    plan = example.plan()
    plan["routine"]["blocks"][4]["durationMin"] = 120
    verdict = judge(plan)
    assert (verdict["errors"], verdict["warnings"]) == ([], [])


def test_the_order_of_starts_matters():
    """A block that starts before an earlier one in the list overlaps, even where the times leave room."""
    plan = example.plan()
    blocks = plan["routine"]["blocks"]
    blocks[0], blocks[1] = blocks[1], blocks[0]
    assert errors(judge(plan)) == [("overlap", "$.routine.blocks[1]")]


def test_overlap_looks_further_back_than_one_block():
    """A block that lies in the middle of a long one is seen although a short one stands between them."""
    plan = _routine_with(1)
    plan["routine"]["blocks"] = [block("08:00", 300, "Dig"), block("09:00", 5, "Tea"), block("10:00", 5, "Tea")]
    assert errors(judge(plan)) == [("overlap", "$.routine.blocks[1]"), ("overlap", "$.routine.blocks[2]")]


def test_every_weekday_is_judged_in_their_order():
    """Faults in several lists come in the order of the week, each with its own path."""
    plan = example.plan()
    bad = block("25:00", 10, "Tea")
    plan["routine"]["weekdays"] = {"tue": [bad], "mon": [block("08:00", 10, "Tea"), bad]}
    assert errors(judge(plan)) == [
        ("time", "$.routine.weekdays.mon[1].start"),
        ("time", "$.routine.weekdays.tue[0].start"),
    ]


def test_the_first_hundred_errors_are_reported():
    """A hopeless plan gives the first hundred errors, not thousands."""
    plan = _goal_with(days=90, activities=24)
    for day in plan["goal"]["days"]:
        day["activities"] = [{} for _ in day["activities"]]
    verdict = judge(plan)
    assert len(verdict["errors"]) == MAX_ERRORS == 100
    assert errors(verdict)[0] == ("required", "$.goal.days[0].activities[0].title")


def test_thousands_of_commitments_are_not_looked_at_beyond_the_last_error():
    """A request as big as a plan may be cannot keep the validator busy."""
    plan = _routine_with(40)
    plan["request"]["commitments"] = [{"label": f"C{i}", "start": "00:00", "end": "24:00"} for i in range(4000)]
    verdict = judge(plan)
    assert errors(verdict) == [("commitment", "$.routine.blocks[0]")] * MAX_ERRORS


def test_messages_cut_what_they_quote():
    """A text of the person or the model is quoted on one line and cut, so that no message grows without bound."""
    plan = example.plan()
    plan["request"]["commitments"][0]["label"] = "Work\n" + "w" * 10_000
    (only,) = judge(plan)["errors"]
    assert only["code"] == "commitment"
    assert len(only["message"]) < 300
    assert "\n" not in only["message"]
