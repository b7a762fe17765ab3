"""The output schemas of the tools that were listed, and whether what tools give fits them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol.errors import InvalidResult
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.types import CallToolResult, Tool

if TYPE_CHECKING:
    from ..protocol.schema import Schema


class Outputs:
    """What is known of the outputs of one server's tools."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._declared: dict[str, dict[str, Any]] = {}
        self._compiled: dict[str, Schema | str] = {}
        """The schemas that were needed so far; in place of one that cannot be checked, the reason."""

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
        """Raise InvalidResult, naming the tool, if what a success gave does not fit what the tool declared (F54).

        Also where what it declared cannot be checked, an external `$ref` say: that is never taken for a fit (JS-2).
        """
        if name not in self._declared or result.is_error:
            return
        if name not in self._compiled:
            self._compiled[name] = _compile(self._declared[name], self._limits)
        schema = self._compiled[name]
        if not result.has_structured_content:
            raise InvalidResult(f"tool {name!r} declares an output schema, but gave no structured content")
        if isinstance(schema, str):
            raise InvalidResult(f"tool {name!r} declares an output schema that cannot be checked: {schema}")
        problems = schema.errors(result.structured_content)
        if problems:
            text = "; ".join([f"{problem.path}: {problem.message}" for problem in problems])
            raise InvalidResult(
                f"tool {name!r} gave structured content that does not fit its schema: {printable(text, 1000)}"
            )


def _compile(declared: dict[str, Any], limits: Limits) -> Schema | str:
    from ..protocol.schema import InvalidSchema, Schema

    try:
        schema = Schema(declared, limits)
        schema.compile()
    except InvalidSchema as error:
        return printable(str(error), 1000)
    return schema
