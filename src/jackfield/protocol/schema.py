"""JSON Schema (interim)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Problem(Struct, frozen=True):
    """One fault and its place."""

    path: str
    message: str


class Schema:
    """A schema, compiled when it is first used."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._validator: Any = None

    def errors(self, value: Any) -> list[Problem]:
        """The faults of `value`."""
        if self._validator is None:
            import jsonschema_rs

            self._validator = jsonschema_rs.validator_for(self.document, offline=True)
        found: list[Problem] = []
        for error in self._validator.iter_errors(value):
            path = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
            found.append(Problem(path, str(error.message)))
        return found

    def is_valid(self, value: Any) -> bool:
        """Whether there is none."""
        return not self.errors(value)
