"""The store: one JSON file for each saved plan, in one directory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from .contract import id_problem


class PlanStore:
    """Saved plans in `directory`, which is made at the first save.

    Plans appear whole or not at all, whatever dies in the middle, and any number of processes may share a directory.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    @classmethod
    def from_environment(cls) -> PlanStore:
        """The store that `PLAN_STORE` names, else `./plans`."""
        return cls(os.environ.get("PLAN_STORE") or "plans")

    def save(self, plan_id: str, plan: dict[str, Any], *, overwrite: bool = False) -> bool:
        """Write a plan; return False, and write nothing, if that id is saved already and `overwrite` was not said.

        Raises ValueError if the id cannot name a file, OSError if the disk refuses.
        """
        target = self._file(plan_id)
        if not overwrite and target.exists():
            return False
        self.directory.mkdir(parents=True, exist_ok=True)
        # The name has no .json at its end: what a crash leaves behind is never taken for a plan.
        draft = self.directory / f".{plan_id}.{os.urandom(8).hex()}.tmp"
        try:
            _write(draft, msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")
            if overwrite:
                os.replace(draft, target)
            elif not _move_new(draft, target):
                return False
        finally:
            draft.unlink(missing_ok=True)
        _sync_directory(self.directory)
        return True

    def read(self, plan_id: str) -> str | None:
        """Return the JSON text of a saved plan, or None if that id is unknown. Raises OSError if the disk refuses."""
        if id_problem(plan_id) is not None:
            return None
        try:
            return self._file(plan_id).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def ids(self) -> list[str]:
        """Return the ids of all saved plans, sorted. Raises OSError if the disk refuses."""
        if not self.directory.is_dir():
            return []
        names = (path.stem for path in self.directory.iterdir() if path.suffix == ".json")
        return sorted(name for name in names if id_problem(name) is None)

    def _file(self, plan_id: str) -> Path:
        problem = id_problem(plan_id)
        if problem is not None:
            raise ValueError(f"{plan_id!r} cannot name a saved plan: {problem}")
        return self.directory / f"{plan_id}.json"


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _move_new(draft: Path, target: Path) -> bool:
    """Put the draft in its place unless something stands there; return whether it did."""
    try:
        os.link(draft, target)  # os.replace would overwrite what another process saved a moment ago
    except FileExistsError:
        return False
    except OSError:  # a file system without links: the look and the move are two steps here
        if target.exists():
            return False
        os.replace(draft, target)
    return True


def _sync_directory(directory: Path) -> None:
    """Make the new name itself survive a loss of power; Windows has no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
