"""The output schemas of the tools that were listed, and whether what tools give fits them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from ..protocol.errors import InvalidResult
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.types import CallToolResult, Tool

if TYPE_CHECKING:
    from ..protocol.schema import Schema

log = logging.getLogger("jackfield")


class Outputs:
    """What is known of the outputs of one server's tools."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._declared: dict[str, dict[str, Any]] = {}
        self._compiled: dict[str, Schema | None] = {}

    def learn(self, tools: list[Tool]) -> None:
        """Take what these tools declare, in place of what they declared before."""
        for tool in tools:
            self._compiled.pop(tool.name, None)
            if tool.output_schema is None:
                self._declared.pop(tool.name, None)
            else:
                self._declared[tool.name] = tool.output_schema

    def forget(self) -> None:
        """Know nothing any more."""
        self._declared.clear()
        self._compiled.clear()

    def check(self, name: str, result: CallToolResult) -> None:
        """Raise InvalidResult, naming the tool, if what a success gave does not fit what the tool declared (F54)."""
        if name not in self._declared or result.is_error:
            return
        if name not in self._compiled:
            self._compiled[name] = _compile(name, self._declared[name], self._limits)
        schema = self._compiled[name]
        if schema is None:
            return
        if result.structured_content is UNSET:
            raise InvalidResult(f"tool {name!r} declares an output schema, but gave no structured content")
        problems = schema.errors(result.structured_content)
        if problems:
            text = "; ".join([f"{problem.path}: {problem.message}" for problem in problems])
            raise InvalidResult(
                f"tool {name!r} gave structured content that does not fit its schema: {printable(text, 1000)}"
            )


def _compile(name: str, declared: dict[str, Any], limits: Limits) -> Schema | None:
    from ..protocol.schema import InvalidSchema, Schema

    try:
        schema = Schema(declared, limits)
        schema.compile()
    except InvalidSchema as error:
        log.warning("tool %r: its output is not checked: %s", name, printable(str(error)))
        return None
    return schema
