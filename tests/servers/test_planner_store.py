"""The store: what is saved is whole, stays in its directory and is not lost."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from jackfield.servers.planner.store import PlanStore

PLAN = {"name": "Ruhe – calm", "requestId": "a"}


def test_a_saved_plan_can_be_read(tmp_path: Path):
    """What was saved comes back as the same JSON, and the directory is made when it is needed."""
    store = PlanStore(tmp_path / "new" / "plans")
    assert store.save("a", PLAN) is True
    text = store.read("a")
    assert text is not None
    assert json.loads(text) == PLAN
    assert (tmp_path / "new" / "plans" / "a.json").read_text(encoding="utf-8") == text


def test_reading_makes_nothing(tmp_path: Path):
    """Looking into a store that does not exist yet finds nothing and leaves nothing behind."""
    store = PlanStore(tmp_path / "plans")
    assert store.read("a") is None
    assert store.ids() == []
    assert not store.directory.exists()


def test_a_saved_plan_is_kept(tmp_path: Path):
    """A second save under the same id is refused and changes nothing, unless overwriting was said."""
    store = PlanStore(tmp_path)
    store.save("a", PLAN)
    assert store.save("a", {"name": "other"}) is False
    assert json.loads(store.read("a") or "") == PLAN
    assert store.save("a", {"name": "other"}, overwrite=True) is True
    assert json.loads(store.read("a") or "") == {"name": "other"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_overwriting_nothing_saves(tmp_path: Path):
    """Overwriting is allowed where there is nothing yet."""
    assert PlanStore(tmp_path).save("a", PLAN, overwrite=True) is True


@pytest.mark.parametrize("plan_id", ["../a", "..", "", "a/b", "a\\b", "con", ".a", "a\0", "x" * 101])
def test_a_bad_id_touches_no_file(tmp_path: Path, plan_id: str):
    """An id that is no plain file name cannot be saved, and reading it finds nothing."""
    store = PlanStore(tmp_path / "plans")
    with pytest.raises(ValueError, match="cannot name a saved plan"):
        store.save(plan_id, PLAN)
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    assert store.read(plan_id) is None
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_ids_are_sorted_and_only_of_plans(tmp_path: Path):
    """Files that are no plans of this store are not listed."""
    store = PlanStore(tmp_path)
    for plan_id in ["b", "a.c", "A"]:
        if not (tmp_path / f"{plan_id}.json").exists():
            store.save(plan_id, PLAN)
    for name in [".b.0011.tmp", "notes.txt", "con.json", "a b.json"]:
        (tmp_path / name).touch()
    assert store.ids() == sorted(["b", "a.c", "A"])


def test_a_failed_write_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A disk that fails in the middle of a write costs neither the old plan nor leaves half of the new one."""
    store = PlanStore(tmp_path)
    store.save("a", PLAN)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        store.save("a", {"name": "other"}, overwrite=True)
    with pytest.raises(OSError, match="No space"):
        store.save("b", PLAN)
    monkeypatch.undo()
    assert json.loads(store.read("a") or "") == PLAN
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_of_many_writers_one_saves(tmp_path: Path):
    """Of several that save a new id at the same moment exactly one does, and its plan is the one that is kept."""
    start = threading.Barrier(8)
    won: list[int] = []

    def write(number: int) -> None:
        start.wait()
        if PlanStore(tmp_path).save("a", {"number": number}):
            won.append(number)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len(won) == 1
    assert json.loads(PlanStore(tmp_path).read("a") or "") == {"number": won[0]}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_plan_that_appears_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A plan that another process saves between the look and the move is not overwritten."""
    monkeypatch.setattr(Path, "exists", lambda path: False)
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    assert PlanStore(tmp_path).save("a", PLAN) is False
    assert (tmp_path / "a.json").read_text(encoding="utf-8") == "{}"


def test_a_file_system_without_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where files cannot be linked a plan is saved all the same, and a saved one is kept."""

    def refused(source: object, target: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    store = PlanStore(tmp_path)
    assert store.save("a", PLAN) is True
    assert store.save("a", PLAN) is False
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_the_environment_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """PLAN_STORE is the directory; unset or empty it is ./plans."""
    monkeypatch.setenv("PLAN_STORE", str(tmp_path))
    assert PlanStore.from_environment().directory == tmp_path
    monkeypatch.setenv("PLAN_STORE", "")
    assert PlanStore.from_environment().directory == Path("plans")
    monkeypatch.delenv("PLAN_STORE")
    assert PlanStore.from_environment().directory == Path("plans")
