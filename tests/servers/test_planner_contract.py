"""The contract: what it states, and which ids it allows."""

from __future__ import annotations

import json

import pytest

from jackfield.servers.planner.contract import CATEGORIES, contract, id_problem


def test_states_the_format_and_the_limits():
    """The contract names its format, version, kinds, weekdays and every limit with its number."""
    stated = contract()
    assert (stated["format"], stated["contractVersion"]) == ("daily-momentum-ai-plan", 1)
    assert stated["kinds"] == ["routine", "goal"]
    assert stated["weekdays"] == ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
    assert stated["limits"] == {
        "payloadBytes": 262144,
        "planDays": 90,
        "blocksPerDay": 40,
        "activitiesPerDay": 24,
        "distinctActivities": 40,
        "minutesPerActivity": 720,
        "minutesPerDay": 1440,
        "name": 80,
        "tagline": 120,
        "description": 1000,
        "activity": 40,
        "guidance": 600,
    }


def test_states_nine_categories_and_eight_rules():
    """The contract explains each of the nine categories and has eight rules."""
    stated = contract()
    ids = [category["id"] for category in stated["categories"]]
    assert ids == ["mind", "body", "work", "rest", "social", "service", "learning", "craft", "nourish"]
    assert all(category["means"] == CATEGORIES[category["id"]] for category in stated["categories"])
    assert len(stated["rules"]) == 8


def test_shows_every_member_that_the_validator_asks_for():
    """A model that sees only the contract can name every member of a plan and of a request."""
    stated = contract()
    assert set(stated["plan"]["routine"]["blocks"][0]) == {"start", "durationMin", "activity", "category", "essential"}
    activity = stated["plan"]["goal"]["days"][0]["activities"][0]
    assert set(activity) == {"title", "activity", "category", "minutes", "guidance", "doneWhen"}
    assert set(stated["request"]["commitments"][0]) == {"label", "days", "start", "end"}
    assert json.loads(json.dumps(stated)) == stated


@pytest.mark.parametrize("plan_id", ["req-2026-10-05-calm-weekday", "a", "7", "A.b_c-d", "x" * 100, "console", "com"])
def test_plain_ids_are_allowed(plan_id: str):
    """Letters, digits, dots, underscores and hyphens make an id."""
    assert id_problem(plan_id) is None


@pytest.mark.parametrize(
    "plan_id",
    [
        "",
        ".",
        "..",
        "../x",
        "a/b",
        "a\\b",
        "/etc",
        "C:x",
        ".hidden",
        "a.",
        "a b",
        "a\n",
        "a\0",
        "é",
        "a\u0301",
        "x" * 101,
    ]
    + ["con", "NUL", "Aux.b", "com1", "LPT9.json", "\ud800"],
)
def test_other_ids_are_refused(plan_id: str):
    """What could leave the directory, be another file elsewhere or need escaping in a URI is no id."""
    assert id_problem(plan_id) is not None
