"""The table of requirements agrees with the tests, and notices when it does not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from tests import requirements


def table(open_: list[str], **rows: dict[str, str]) -> dict[str, Any]:
    return {"open": open_, "requirements": {identity.replace("_", "-"): row for identity, row in rows.items()}}


def test_the_table_agrees_with_the_tests() -> None:
    """Every id in a test's docstring is known, and `open` holds exactly the MUSTs that no test names."""
    real = tomllib.loads(requirements.TABLE.read_text("utf-8"))
    assert requirements.problems(real, requirements.cited_in(requirements.TESTS)) == []


def test_every_row_is_complete() -> None:
    """Each requirement has an id of a known family, a strength and a few words, and at most what comes later."""
    for identity, row in tomllib.loads(requirements.TABLE.read_text("utf-8"))["requirements"].items():
        assert requirements.ID.fullmatch(identity), identity
        assert row["strength"] in "MSYN", identity
        assert {"strength", "about"} <= row.keys() <= {"strength", "about", "later"}, identity
        assert all(row.values()), identity


def test_ids_are_read_from_docstrings_of_tests_alone(tmp_path: Path) -> None:
    """Functions, coroutines and methods count where they are tests; comments, helpers and other files do not."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "test_a.py").write_text(
        '"""BASE-1."""\n'
        "# BASE-2\n"
        'def helper():\n    """BASE-3."""\n'
        'def test_a():\n    """Says so (BASE-4, ERA-V1)."""\n'
        'class TestB:\n    async def test_b(self):\n        """Says so (BASE-4; F12; XYZ-3)."""\n',
        "utf-8",
    )
    (tmp_path / "helper.py").write_text('def test_c():\n    """BASE-5."""\n', "utf-8")
    assert requirements.cited_in(tmp_path) == {
        "BASE-4": ["deep/test_a.py::test_a", "deep/test_a.py::test_b"],
        "ERA-V1": ["deep/test_a.py::test_a"],
    }


def test_an_unknown_id_is_a_problem() -> None:
    """A misspelt id is reported with the test that names it."""
    found = requirements.problems(table([]), {"BASE-99": ["test_a.py::test_a"]})
    assert found == ["BASE-99 is no requirement, but test_a.py::test_a names it"]


def test_a_must_without_a_test_is_listed_as_open() -> None:
    """A MUST without a test is a problem unless it is listed; what is weaker or comes later need not be."""
    rows = {"BASE_1": {"strength": "M"}, "BASE_2": {"strength": "S"}, "BASE_3": {"strength": "M", "later": "HTTP"}}
    (found,) = requirements.problems(table([], **rows), {})
    assert found.startswith("BASE-1 is a MUST that no test names")
    assert requirements.problems(table(["BASE-1"], **rows), {}) == []


def test_a_tested_must_leaves_the_open_list() -> None:
    """An open requirement that has a test, or does not exist, is a problem until it is taken from the list."""
    found = requirements.problems(table(["BASE-1", "BASE-9"], BASE_1={"strength": "M"}), {"BASE-1": ["a::b"]})
    assert [line.split()[0] for line in found] == ["BASE-1", "BASE-9"]


def test_the_open_list_is_rewritten_in_place() -> None:
    """Only the list changes, and writing it twice changes nothing more."""
    text = requirements.TABLE.read_text("utf-8")
    written = requirements.with_open(text, ["BASE-1", "BASE-2", "ERA-V1"])
    assert '\nopen = [\n    "BASE-1", "BASE-2",\n    "ERA-V1",\n]\n' in written
    assert requirements.with_open(written, ["BASE-1", "BASE-2", "ERA-V1"]) == written
    assert requirements.OPEN.sub("", written) == requirements.OPEN.sub("", text)
    assert tomllib.loads(requirements.with_open(written, []))["open"] == []
