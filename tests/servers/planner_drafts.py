"""Drafts for the planner's tests, and how a path of an issue is followed into a plan."""

from __future__ import annotations

import json
import re
from typing import Any

from jackfield.servers.planner import example
from jackfield.servers.planner.validate import validate_plan
from jackfield.servers.planner.verdict import Verdict

_STEP = re.compile(r'\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


def goal_request(days: int = 2) -> dict[str, Any]:
    return {"requestId": "req-goal", "kind": "goal", "goal": "Read more", "timezone": "Asia/Tokyo", "days": days}


def goal_plan(days: int = 2) -> dict[str, Any]:
    return {
        **example.plan(),
        "requestId": "req-goal",
        "kind": "goal",
        "request": goal_request(days),
        "routine": None,
        "goal": {"days": [{"activities": [activity("Read"), activity("Walk", category="body")]} for _ in range(days)]},
    }


def activity(name: str, **changed: Any) -> dict[str, Any]:
    usual = {"title": f"{name} a little", "activity": name, "category": "learning", "minutes": 30}
    return {**usual, "guidance": "Begin slowly.", "doneWhen": "The time is over.", **changed}


def block(start: str, minutes: int, name: str, category: str = "craft") -> dict[str, Any]:
    return {"start": start, "durationMin": minutes, "activity": name, "category": category, "essential": False}


def judge(plan: Any, request: Any = None) -> Verdict:
    """The verdict on a plan, by default against the very request that it echoes."""
    return validate_plan(plan, plan["request"] if request is None else request)


def errors(verdict: Verdict) -> list[tuple[str, str]]:
    return [(issue["code"], issue["path"]) for issue in verdict["errors"]]


def steps(path: str) -> list[str | int]:
    """The members and indexes that a path names, in order."""
    assert path.startswith("$")
    found: list[str | int] = []
    position = 1
    while position < len(path):
        match = _STEP.match(path, position)
        assert match is not None, path
        name, index, quoted = match.groups()
        found.append(name if name is not None else int(index) if index is not None else json.loads(quoted))
        position = match.end()
    return found


def resolves(plan: Any, path: str) -> bool:
    """Whether the path names a place in the plan, or a member that an object in it lacks."""
    *most, last = ["$", *steps(path)]
    here: Any = {"$": plan}
    for step in most:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return False
    return isinstance(here, dict) or (isinstance(here, list) and isinstance(last, int) and last < len(here))
