"""What the validator says about a plan: issues, gathered in a report, answered as a verdict."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta

from .contract import MAX_ERRORS


class Issue(TypedDict):
    """One thing that is wrong or worth knowing."""

    code: Annotated[str, Meta(description="A stable word for the kind of issue, such as overlap or category")]
    path: Annotated[str, Meta(description="The JSON path of the value in the plan, such as $.routine.blocks[3]")]
    message: Annotated[str, Meta(description="What is wrong and what mends it")]


class Verdict(TypedDict):
    """The judgement on one plan."""

    valid: Annotated[bool, Meta(description="True exactly when there are no errors")]
    errors: list[Issue]
    warnings: list[Issue]
    checks: Annotated[
        list[str], Meta(description="The checks that were made, in this order; json or size ends them early")
    ]


class Report:
    """Gathers the issues of one validation; of the errors it keeps the first `MAX_ERRORS`."""

    def __init__(self) -> None:
        self.errors: list[Issue] = []
        self.warnings: list[Issue] = []

    @property
    def is_full(self) -> bool:
        """Whether further errors would be dropped."""
        return len(self.errors) == MAX_ERRORS

    def error(self, code: str, path: str, message: str) -> None:
        """Add an error."""
        if not self.is_full:
            self.errors.append({"code": code, "path": path, "message": message})

    def warning(self, code: str, path: str, message: str) -> None:
        """Add a warning, which leaves the plan valid."""
        self.warnings.append({"code": code, "path": path, "message": message})

    def verdict(self, checks: tuple[str, ...]) -> Verdict:
        """Return the judgement after these checks."""
        return {
            "valid": not self.errors,
            "errors": self.errors,
            "warnings": self.warnings,
            "checks": list(checks),
        }
