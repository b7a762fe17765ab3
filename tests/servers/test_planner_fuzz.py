"""The validator under arbitrary input: it always answers, its paths lead somewhere, and a second opinion agrees."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import example as given_example
from hypothesis import given, settings
from hypothesis import strategies as st

from jackfield.servers.planner import example
from jackfield.servers.planner.contract import MAX_ERRORS, WEEKDAYS
from jackfield.servers.planner.validate import CHECKS, validate_plan
from tests.servers.planner_drafts import block, goal_plan, goal_request, resolves

CODES = set(
    "json size format contractVersion kind required length requestId request limit time duration category activity "
    "essential overlap midnight commitment weekday days feasibility".split()
)

_numbers = st.one_of(
    st.integers(),
    st.sampled_from([0, -1, 1, 2**63, -(2**63) - 1, 10**30, 10**400, 10**4000]),
    st.floats(allow_nan=True, allow_infinity=True),
)
_words = st.sampled_from(
    ["", "06:45", "24:00", "2026", "rest", "mon", "routine", "goal", "daily-momentum-ai-plan", "\ud800", "x" * 1001]
)
_texts = st.one_of(st.text(max_size=20), _words)
_scalars = st.one_of(st.none(), st.booleans(), _numbers, _texts)
_names = st.one_of(_texts, st.sampled_from(sorted({*example.plan(), *example.request(), *goal_plan(), *WEEKDAYS})))
_json = st.recursive(
    _scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_names, inner, max_size=5), max_leaves=20
)
_anything = st.one_of(
    _json,
    st.binary(max_size=5),
    st.tuples(_json),
    st.sets(st.integers(), max_size=3),
    st.dictionaries(st.integers(), _json, max_size=2),
    st.builds(object),
)


def well_formed(verdict: Any, plan: Any) -> None:
    """What holds for every verdict on every plan."""
    assert set(verdict) == {"valid", "errors", "warnings", "checks"}
    assert verdict["valid"] is (verdict["errors"] == [])
    assert verdict["checks"] == list(CHECKS)[: len(verdict["checks"])]
    assert len(verdict["errors"]) <= MAX_ERRORS
    for issue in verdict["errors"] + verdict["warnings"]:
        assert set(issue) == {"code", "path", "message"}
        assert issue["message"]
        assert resolves(plan, issue["path"]), issue
    assert {issue["code"] for issue in verdict["errors"]} <= CODES
    assert {issue["code"] for issue in verdict["warnings"]} <= {"overnight"}
    json.dumps(verdict, ensure_ascii=False).encode()


def routine_plan() -> dict[str, Any]:
    plan = example.plan()
    plan["routine"]["weekdays"] = {"sat": [block("10:00", 60, "Hike"), block("23:00", 500, "Sleep", "rest")]}
    return plan


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, as the steps that lead to it."""
    found = [path]
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in steps:
        found += places(child, (*path, step))
    return found


@st.composite
def mutated(draw: st.DrawFn) -> tuple[Any, Any]:
    """A valid plan with one to four nodes dropped, replaced, doubled or exchanged, and its request."""
    plan, request = draw(st.sampled_from([(routine_plan, example.request), (goal_plan, goal_request)]))
    plan, request = plan(), request()
    for _ in range(draw(st.integers(1, 4))):
        *way, last = draw(st.sampled_from(places(plan)[1:]))
        owner = plan
        for step in way:
            owner = owner[step]
        change = draw(st.sampled_from(["drop", "replace", "double", "copy"]))
        if change == "drop":
            del owner[last]
        elif change == "replace":
            owner[last] = draw(_json)
        elif change == "double" and isinstance(owner, list):
            owner.insert(last, copy.deepcopy(owner[last]))
        else:
            other = plan
            for step in draw(st.sampled_from(places(plan))):
                other = other[step]
            owner[last] = copy.deepcopy(other)
        if not plan:
            break
    if draw(st.booleans()) and isinstance(plan.get("request"), dict):
        request = copy.deepcopy(plan["request"])
    return plan, request


@given(_anything, _anything)
def test_anything_gets_a_verdict(plan: Any, request: Any):
    """Whatever plan and request are, the verdict is well-formed and every path resolves."""
    well_formed(validate_plan(plan, request), plan)


@given(st.one_of(st.text(), _json.map(lambda value: json.dumps(value))), _json)
@given_example("{" * 100_000, {})
@given_example("[" * 70 + "]" * 70, {})
@given_example("\ufeff{}", {})
def test_any_text_gets_a_verdict(text: str, request: Any):
    """Whatever the text is, the verdict is well-formed and every path resolves in the decoded plan."""
    verdict = validate_plan(text, request)
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError):
        plan = None
    well_formed(verdict, plan)


@settings(max_examples=400)
@given(mutated())
def test_a_mutated_plan_gets_a_verdict(pair: tuple[Any, Any]):
    """A valid plan with some nodes dropped, replaced, doubled or copied elsewhere never breaks the validator."""
    plan, request = pair
    well_formed(validate_plan(plan, request), plan)


@given(mutated())
def test_text_and_object_are_judged_alike(pair: tuple[Any, Any]):
    """A plan and its text get the same verdict, unless it is the text itself that cannot be written."""
    plan, request = pair
    verdict = validate_plan(plan, request)
    if verdict["checks"] != ["json"]:
        assert validate_plan(json.dumps(plan), request) == verdict


_times = st.integers(0, 47)  # half hours
_lengths = st.integers(1, 24)
_blocks = st.lists(st.tuples(_times, _lengths, st.sampled_from("ABC"), st.booleans()), min_size=1, max_size=4)
_commitments = st.lists(
    st.tuples(st.sampled_from("ABC"), st.sets(st.integers(0, 6), min_size=1), _times, _lengths), max_size=2
)


def _hhmm(half_hours: int) -> str:
    return f"{half_hours // 2 % 24:02d}:{half_hours % 2 * 30:02d}"


def _drafted(blocks: list[tuple[int, int, str, bool]]) -> list[dict[str, Any]]:
    ordered = sorted(blocks)
    return [block(_hhmm(at), 30 * length, name, "rest" if rest else "craft") for at, length, name, rest in ordered]


def second_opinion(days: list[list[tuple[int, int, str, bool]]], commitments: list[Any]) -> set[str]:
    """The codes for a week, found by colouring its 336 half hours."""
    codes: set[str] = set()
    busy: dict[int, set[str]] = {}
    for label, weekdays, at, length in commitments:
        for weekday in weekdays:
            for slot in range(at, at + length):
                busy.setdefault((weekday * 48 + slot) % 336, set()).add(label)
    for weekday, unordered in enumerate(days):
        blocks = sorted(unordered)
        slots = [slot for at, length, _, _ in blocks for slot in range(at, at + length)]
        codes |= {"overlap"} if len(slots) > len(set(slots)) else set()
        codes |= {"feasibility"} if len(slots) > 48 else set()
        for index, (at, length, name, rest) in enumerate(blocks):
            is_night = index == len(blocks) - 1 and rest
            if at + length > 48:
                codes.add("overnight" if is_night else "midnight")
                tomorrow = {slot + 48 for a, n, _, _ in days[(weekday + 1) % 7] for slot in range(a, a + n)}
                codes |= {"feasibility"} if is_night and tomorrow & set(range(at, at + length)) else set()
            for slot in range(at, at + length):
                codes |= {"commitment"} if busy.get((weekday * 48 + slot) % 336, set()) - {name} else set()
    return codes


@settings(max_examples=300)
@given(_blocks, st.dictionaries(st.sampled_from(WEEKDAYS), _blocks, max_size=3), _commitments)
def test_a_second_opinion_agrees(usual: Any, replaced: Any, commitments: Any):
    """For random weeks the codes are those that a count of every half hour finds."""
    plan = example.plan()
    plan["routine"] = {"blocks": _drafted(usual), "weekdays": {day: _drafted(each) for day, each in replaced.items()}}
    plan["request"]["commitments"] = [
        {
            "label": label,
            "days": [WEEKDAYS[index] for index in weekdays],
            "start": _hhmm(at),
            "end": "24:00" if at + length == 48 else _hhmm(at + length),
        }
        for label, weekdays, at, length in commitments
    ]
    verdict = validate_plan(plan, plan["request"])
    well_formed(verdict, plan)
    found = {issue["code"] for issue in verdict["errors"] + verdict["warnings"]}
    days = [replaced.get(name, usual) for name in WEEKDAYS]
    expected = second_opinion(days, commitments)
    if len(replaced) == 7:
        expected |= second_opinion([usual] * 7, [])
    assert found == expected
