"""The validator's input: what is JSON, what it may weigh, and what of a request can be read."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from jackfield.servers.planner import example
from jackfield.servers.planner.validate import CHECKS, validate_plan
from tests.servers.planner_drafts import errors, goal_plan, judge, resolves


@pytest.mark.parametrize(
    "form", [lambda plan: plan, lambda plan: json.dumps(plan, ensure_ascii=False, separators=(",", ":"))]
)
def test_size_is_counted_in_bytes(form: Callable[[Any], Any]):
    """A plan of 262144 bytes of UTF-8 passes, one more byte does not, however few characters it has."""
    plan = example.plan()
    plan["notes"] = ""
    rest = 262_144 - len(json.dumps(plan, ensure_ascii=False, separators=(",", ":")).encode())
    plan["notes"] = "é" * (rest // 2) + "e" * (rest % 2)
    assert errors(judge_of(form, plan)) == []
    plan["notes"] += "e"
    verdict = judge_of(form, plan)
    assert errors(verdict) == [("size", "$")]
    assert verdict["checks"] == ["json", "size"]


def judge_of(form: Callable[[Any], Any], plan: dict[str, Any]) -> Any:
    return validate_plan(form(plan), plan["request"])


def test_the_bytes_of_a_text_count_as_sent():
    """White space in a plan's text counts toward its size."""
    assert errors(validate_plan(json.dumps(example.plan()) + " " * 262_144, example.request())) == [("size", "$")]


@pytest.mark.parametrize(
    ("plan", "path"),
    [
        ("", "$"),
        ("{", "$"),
        ("```json\n{}\n```", "$"),
        ("{} {}", "$"),
        ("[1]", "$"),
        ('"{}"', "$"),
        ("null", "$"),
        ('{"a":NaN}', "$"),
        ('{"a":1e999}', "$"),
        ('{"a":"\\ud800"}', "$"),
        ('{"a":"\ud800"}', "$"),
        ("[" * 100_000, "$"),
        ('{"a":' * 100_000, "$"),
        ('{"a":' + "9" * 5000 + "}", "$"),
        ('{"a":' + "9" * 400 + "}", "$.a"),
        ('{"a":' + "[" * 64 + "0" + "]" * 64 + "}", "$.a" + "[0]" * 63),
        (None, "$"),
        (True, "$"),
        (7, "$"),
        ([], "$"),
        (b"{}", "$"),
        (object(), "$"),
        ({"a": float("nan")}, "$.a"),
        ({"a": [0, float("-inf")]}, "$.a[1]"),
        ({"a": 10**5000}, "$.a"),
        ({"a": {1, 2}}, "$.a"),
        ({"a": (1,)}, "$.a"),
        ({"a": {1: 2}}, "$.a"),
        ({"a": {"\udfff": 2}}, "$.a"),
        ({'a "b"': [{"c d": "\ud800"}]}, '$["a \\"b\\""][0]["c d"]'),
    ],
)
def test_what_is_no_json_ends_the_validation(plan: Any, path: str):
    """A text that is not one JSON object, or a value that JSON cannot hold, is a json error and nothing else."""
    verdict = validate_plan(plan, example.request())
    assert errors(verdict) == [("json", path)]
    assert verdict["checks"] == ["json"]
    json.dumps(verdict, ensure_ascii=False).encode()


def test_a_cyclic_or_shared_value_ends():
    """Values that no JSON text can produce, cyclic or exponentially shared, are refused without following them all."""
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    assert errors(validate_plan({"a": cyclic}, {}))[0][0] == "json"
    shared: list[Any] = []
    for _ in range(60):
        shared = [shared, shared]
    assert errors(validate_plan({"a": shared}, {})) == [("size", "$")]
    assert errors(validate_plan({"a": ["x" * 100_000] * 100_000}, {})) == [("size", "$")]


@pytest.mark.parametrize("request_", [None, [], "text", 7, {"a": float("nan")}, {1: 2}, {"a": "x" * 262_144}])
def test_a_request_that_cannot_be_read_is_an_error(request_: Any):
    """A request that is no object, no JSON or too big makes every plan invalid, at `$.request`."""
    verdict = validate_plan(example.plan(), request_)
    assert ("request", "$.request") in errors(verdict)
    assert verdict["checks"] == list(CHECKS)


@pytest.mark.parametrize(
    ("member", "value", "place"),
    [
        ("requestId", 7, "requestId"),
        ("kind", "habit", "kind"),
        ("commitments", {}, "commitments"),
        ("commitments", [7], "commitments[0]"),
        ("commitments", [{"label": " ", "start": "09:00", "end": "10:00"}], "commitments[0].label"),
        ("commitments", [{"label": "Work", "start": "9:00", "end": "10:00"}], "commitments[0].start"),
        ("commitments", [{"label": "Work", "start": "09:00", "end": "25:00"}], "commitments[0].end"),
        ("commitments", [{"label": "Work", "start": "09:00", "end": "09:00"}], "commitments[0].end"),
        ("commitments", [{"label": "Work", "start": "09:00"}], "commitments[0].end"),
        ("commitments", [{"label": "Work", "start": "09:00", "end": "10:00", "days": []}], "commitments[0].days"),
        ("commitments", [{"label": "Work", "start": "09:00", "end": "10:00", "days": ["Mon"]}], "commitments[0].days"),
        ("commitments", [{"label": "Work", "start": "09:00", "end": "10:00", "days": "mon"}], "commitments[0].days"),
        ("commitments", [{"label": "Work", "start": "09:00", "end": "10:00", "days": [[]]}], "commitments[0].days"),
    ],
)
def test_a_fault_in_the_request_has_a_path_in_its_copy(member: str, value: Any, place: str):
    """What of the request cannot be read is a `request` error where the plan echoes it."""
    plan = example.plan()
    plan["request"][member] = value
    found = errors(judge(plan))
    assert ("request", f"$.request.{place}") in found
    assert all(resolves(plan, path) for _, path in found)


@pytest.mark.parametrize("days", [0, 91, True, 2.5, "2", [], 10**40])
def test_the_days_of_a_request_are_a_whole_number(days: Any):
    """A goal's request asks for 1 to 90 days; anything else is an error of the request."""
    plan = goal_plan()
    plan["request"]["days"] = days
    assert errors(judge(plan)) == [("request", "$.request.days")]


def test_the_echo_is_compared_as_json():
    """In the echo the order of members does not matter and 1.0 is 1, but true is not 1 and a list keeps its order."""
    request = {**example.request(), "version": 1, "wishes": ["a", "b"]}

    def found(**changed: Any) -> list[tuple[str, str]]:
        echo = dict(reversed({**copy.deepcopy(request), **changed}.items()))
        return errors(validate_plan({**example.plan(), "request": echo}, request))

    assert found() == []
    assert found(version=1.0) == []
    different = [{"version": True}, {"wishes": ["b", "a"]}, {"wishes": ["a"]}, {"wishes": {"0": "a", "1": "b"}}]
    for changed in different:
        assert found(**changed) == [("request", "$.request")], changed


def test_a_whole_float_is_an_integer():
    """1.0 and 30.0 are whole numbers, as JSON Schema has it."""
    plan = example.plan()
    plan["contractVersion"] = 1.0
    plan["routine"]["blocks"][0]["durationMin"] = 30.0
    assert errors(judge(plan)) == []
