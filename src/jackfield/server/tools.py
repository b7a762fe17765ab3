"""Tools: a function, its schemas, and the way of a call from undecoded arguments to a result."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import astuple

from ..protocol.errors import ProtocolError, ToolError
from ..protocol.schema import Schema
from ..protocol.types import CallToolParams, CallToolResult, TextContent, Tool
from .arguments import ArgumentsError, arguments_of
from .content import ToolResult, content_blocks, to_blocks
from .context import Context
from .handlers import context_parameter, invoke, is_async, with_context
from .returns import returns_of, to_json

log = logging.getLogger("jackfield")

_FAULTS = (msgspec.DecodeError, RecursionError)


class ToolEntry:
    """One tool that can be called; built once, at registration."""

    def __init__(
        self, fn: Callable[..., Any], definition: Tool, *, strict: bool, input_schema: dict[str, Any] | None = None
    ) -> None:
        """Make a tool of `fn`, whose signature gives what the `definition` leaves out.

        With `input_schema` the function takes all arguments as one dict, checked against that schema, which is listed as it is.
        Raises RegistrationError.
        """
        self.definition = definition
        self.name = definition.name
        self._fn = fn
        self._is_async = is_async(fn)
        self._context = context_parameter(fn)
        skip = set() if self._context is None else {self._context.name}
        self._arguments = (
            arguments_of(fn, skip=skip, strict=strict) if input_schema is None else RawArguments(input_schema, strict)
        )
        self._decode = self._arguments.decode
        self._plain = self._arguments.positional and self._context is None
        self._returns = returns_of(fn)
        definition.input_schema = self._arguments.schema
        self._structured = definition.output_schema is None and self._returns.schema is not None
        if definition.output_schema is None:
            definition.output_schema = self._returns.schema
        self._output = None if definition.output_schema is None else Schema(definition.output_schema)

    async def call(self, params: CallToolParams, context: Context) -> CallToolResult:
        """Call the tool. Faults of the arguments and of the tool itself come back as `isError` (TOOL-7).

        Raises ProtocolError where the tool does, and CancelledError.
        """
        raw = b"{}" if params.arguments is UNSET else params.arguments
        try:
            try:
                arguments = self._decode(raw)
            except _FAULTS as fault:
                arguments = self._arguments.repair(raw, fault)
            if not self._plain:
                value = await self._call_bound(arguments, context)
            elif self._is_async:
                value = await self._fn(*astuple(arguments))
            else:
                value = await context.threads.run(self._fn, *astuple(arguments))
                if inspect.isawaitable(value):
                    value = await value
            if self._structured and value.__class__ is not ToolResult:
                data = self._returns.structure(value)
                text = data[len(b'{"result":') : -1] if self._returns.wrapped else data
                result = CallToolResult([TextContent(text.decode())])
                revision = context.peer.revision
                if revision is None or revision.output_schema is not None:
                    result.structured_content = Raw(data)
                return result
            if value.__class__ is str and self._output is None:
                return CallToolResult([TextContent(value)])
            return self._untyped(value, context)
        except ProtocolError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            log.error("tool %s was cancelled from inside", self.name)
            return failure(f"Tool '{self.name}' failed")
        except (Exception, SystemExit) as fault:
            return self._failed(fault)

    async def _call_bound(self, arguments: Any, context: Context) -> Any:
        values: Any = astuple(arguments) if self._arguments.positional else ()
        named: Any = {}
        if not self._arguments.positional:
            values, named = self._arguments.values(arguments)
        values, named = with_context(self._context, values, named, context)
        return await invoke(self._fn, not self._is_async, values, named, context)

    def _untyped(self, value: Any, context: Context) -> CallToolResult:
        """The result of a value that its annotation says nothing of: content, a ToolResult, or any JSON value."""
        if value is None and self._output is None:
            return CallToolResult([])
        if not isinstance(value, ToolResult):
            blocks = to_blocks(value)
            if blocks is not None:
                value = ToolResult(content=blocks)
            elif isinstance(value, str) and self._output is None:
                value = ToolResult(content=value)
            else:
                value = ToolResult(structured_content=value)
        structured = value.structured_content
        result = CallToolResult(list(content_blocks(value.content)), is_error=value.is_error, meta=value.meta)
        if structured is not UNSET:
            data = to_json(structured)
            self._check_output(msgspec.json.decode(data), value)
            if value.content is None:
                result.content = [TextContent(data.decode())]
            revision = context.peer.revision
            if revision is None or revision.output_schema == "any" or data.startswith(b"{") and revision.output_schema:
                result.structured_content = Raw(data)
        elif self._output is not None and not value.is_error:
            raise _BadOutput("it has no structured content, but the tool declares an output schema")
        return result

    def _check_output(self, structured: Any, result: ToolResult) -> None:
        if self._output is None or result.is_error:
            return
        problems = self._output.errors(structured)
        if problems:
            raise _BadOutput("; ".join(f"{problem.path}: {problem.message}" for problem in problems))

    def _failed(self, fault: BaseException) -> CallToolResult:
        """The model is told what was meant for it; of any other fault only that there was one (the rest is for the log)."""
        if isinstance(fault, ArgumentsError):
            return failure(f"Invalid arguments for tool '{self.name}': {fault}")
        said = tool_errors(fault)
        if said is not None:
            return failure(said)
        if isinstance(fault, _BadOutput):
            log.error("tool %s: the result does not fit its output schema: %s", self.name, fault)
            return failure(f"Tool '{self.name}' gave a result that does not fit its output schema")
        log.error("tool %s failed", self.name, exc_info=fault)
        return failure(f"Tool '{self.name}' failed")


class _BadOutput(Exception):
    """A result that does not fit the schema that its tool declares."""


class RawArguments:
    """The arguments of a tool that brings its own input schema: one dict, checked and handed over as it came."""

    positional = False

    def __init__(self, schema: dict[str, Any], strict: bool) -> None:
        self.schema = schema
        self._strict = strict
        self._checker = Schema(schema)

    def decode(self, raw: bytes | Raw) -> dict[str, Any]:
        """Read and check the arguments. Raises ArgumentsError or msgspec.DecodeError."""
        return self._checked(msgspec.json.decode(raw))

    def repair(self, raw: bytes | Raw, fault: Exception) -> dict[str, Any]:
        """Raise the error for arguments that are no JSON."""
        raise ArgumentsError([str(fault)])

    def values(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The call's values: the dict itself."""
        return [arguments], {}

    def _checked(self, value: Any) -> dict[str, Any]:
        if value is None:
            value = {}
        problems = self._checker.errors(value)
        if problems or not isinstance(value, dict):
            raise ArgumentsError(
                [f"{problem.path}: {problem.message}" for problem in problems] or ["must be an object"]
            )
        return value  # pyright: ignore[reportUnknownVariableType]


def tool_errors(fault: BaseException) -> str | None:
    """What the ToolErrors say that `fault` consists of; None where it is, or holds, anything else."""
    if isinstance(fault, ToolError):
        return str(fault)
    if isinstance(fault, BaseExceptionGroup):
        said = [tool_errors(part) for part in fault.exceptions]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType]
        return None if None in said else "\n".join(text for text in said if text is not None)
    return None


def failure(text: str) -> CallToolResult:
    """A result that tells the model of a failure."""
    return CallToolResult([TextContent(text)], is_error=True)
