"""A request and two drafts that answer it, one valid and one broken: used by the demo, the tests and the benchmarks."""

from __future__ import annotations

from typing import Any

PLAN_ID = "req-2026-10-05-calm-weekday"


def request() -> dict[str, Any]:
    """A new copy of the request: a calm weekday around a job."""
    return {
        "requestId": PLAN_ID,
        "kind": "routine",
        "goal": "Calm weekdays around my job: some movement, regular meals and enough sleep.",
        "timezone": "Europe/Zurich",
        "startDate": "2026-10-05",
        "commitments": [
            {"label": "Work", "days": ["mon", "tue", "wed", "thu", "fri"], "start": "09:00", "end": "17:00"},
        ],
    }


def plan() -> dict[str, Any]:
    """A new copy of a draft that is valid, with one warning: its sleep runs past midnight."""
    return {
        "format": "daily-momentum-ai-plan",
        "contractVersion": 1,
        "requestId": PLAN_ID,
        "kind": "routine",
        "name": "Calm weekday",
        "tagline": "A walk first, a long night last.",
        "description": "The walk wakes you up, meals keep their hours, and the evening after dinner is free.",
        "request": request(),
        "routine": {
            "blocks": [
                _block("06:45", 30, "Walk", "body"),
                _block("07:15", 45, "Breakfast", "nourish"),
                _block("09:00", 480, "Work", "work"),
                _block("18:00", 60, "Dinner", "nourish"),
                _block("22:00", 480, "Sleep", "rest"),
            ]
        },
    }


def broken_plan() -> dict[str, Any]:
    """A new copy of the draft with two faults: breakfast lies on work, and the category of dinner does not exist."""
    draft = plan()
    blocks = draft["routine"]["blocks"]
    blocks[1]["start"] = "08:45"
    blocks[3]["category"] = "food"
    return draft


def _block(start: str, minutes: int, activity: str, category: str) -> dict[str, Any]:
    return {"start": start, "durationMin": minutes, "activity": activity, "category": category, "essential": True}
