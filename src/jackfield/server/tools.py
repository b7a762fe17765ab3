"""Tools: a function, its schemas, and the way of a call from undecoded arguments to a result."""

from __future__ import annotations

import asyncio
import inspect
import logging
import warnings
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import astuple

from ..protocol.errors import CannotAsk, ProtocolError, RegistrationError, ToolError
from ..protocol.headers import Mark, marks_of
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.revisions import Revision, down_level
from ..protocol.types import CallToolParams, CallToolResult, TextContent, Tool
from ..protocol.wire import MODERN
from .arguments import ArgumentsError, arguments_of
from .content import ToolResult, content_blocks, to_blocks
from .context import Asked, Context, SaidNo
from .handlers import converted, invoke, is_async, supplied_to, supply
from .returns import BadOutput, returns_of, to_member
from .signature import EMPTY, name_of, parameters_of, return_annotation

if TYPE_CHECKING:
    from ..protocol.schema import Schema

log = logging.getLogger("jackfield")

_FAULTS = (msgspec.DecodeError, RecursionError)
_SAID_IN_FULL = (ToolResult, CallToolResult)


class ToolEntry:
    """One tool that can be called; built once, at registration."""

    marks: tuple[Mark, ...]
    """The parameters that clients repeat in headers."""

    def __init__(
        self,
        fn: Callable[..., Any],
        definition: Tool,
        *,
        strict: bool,
        input_schema: dict[str, Any] | None = None,
        limits: Limits = Limits(),
        replay: bool = True,
    ) -> None:
        """Make a tool of `fn`, whose signature gives what the `definition` leaves out.

        With `input_schema` the function takes all arguments as one dict, checked against that schema, which is listed
        unmodified (JS-4). Without `replay` the function is never run anew for the answer to a question. Schemas must be
        within `limits`, and what they mark for headers must be valid (XH-1, XH-2).
        Raises RegistrationError.
        """
        self.definition = definition
        self.name = definition.name
        self._fn = fn
        self._limits = limits
        self._replay = replay
        self._is_async = is_async(fn)
        self._supplied = supplied = supplied_to(fn)
        self._arguments: Any
        if input_schema is None:
            self._arguments = arguments_of(fn, skip=supplied.names, strict=strict, limits=limits)
        else:
            self._arguments = RawArguments(fn, input_schema, skip=supplied.names, strict=strict, limits=limits)
        definition.input_schema = self._arguments.schema
        self.marks = _marks(definition.input_schema, self.name)
        self._decode = self._arguments.decode
        self._plain = self._arguments.positional and not supplied.names
        self._returns = returns_of(fn)
        self._structured = definition.output_schema is None and self._returns.schema is not None
        self._output: Schema | None = None
        if definition.output_schema is None:
            definition.output_schema = self._returns.schema
        else:
            self._output = _compiled(definition.output_schema, f"{name_of(fn)}: output_schema", limits)
        self._declares = definition.output_schema is not None
        self._content_only = not self._declares and not any(
            return_annotation(fn) is kind for kind in (EMPTY, Any, object)
        )

    async def call(self, params: CallToolParams, context: Context) -> CallToolResult:
        """Call the tool. Faults of the arguments and of the tool itself come back as `isError` (TOOL-7).

        Raises ProtocolError where the tool does, and CancelledError when the request is cancelled.
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
            if self._structured and value.__class__ not in _SAID_IN_FULL:
                data = self._returns.structure(value)
                text = data[len(b'{"result":') : -1] if self._returns.wrapped else data
                result = CallToolResult([TextContent(text.decode())])
                revision = context.peer.revision
                if revision is None or revision.output_schema is not None:
                    result.structured_content = Raw(data)
                return result
            if value.__class__ is str and not self._declares:
                return CallToolResult([TextContent(value)])
            return await converted(self._full, value, context.peer.speaks, context=context)
        except (ProtocolError, KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            log.error("tool %s was cancelled from inside", self.name)
            return failure(f"Tool '{self.name}' failed")
        except BaseException as fault:  # SystemExit and groups too: one call's failure ends no server
            asked = _asked(fault, context)
            if asked is not None:
                raise asked from None
            return self._failed(fault)

    async def _call_bound(self, arguments: Any, context: Context) -> Any:
        if self._replay or context.peer.wire is not MODERN:
            return await self._call_now(arguments, context)
        from . import parking  # not at the top: few tools need it

        return await parking.run(context, lambda inner: self._call_now(arguments, inner))

    async def _call_now(self, arguments: Any, context: Context) -> Any:
        values: Any = astuple(arguments) if self._arguments.positional else ()
        named: Any = {}
        if not self._arguments.positional:
            values, named = self._arguments.values(arguments)
        values, named = await supply(self._supplied, values, named, context)
        return await invoke(self._fn, not self._is_async, values, named, context)

    def _full(self, value: Any, revision: Revision) -> CallToolResult:
        """The result of a value that its annotation says nothing of: content, a result in full, or any JSON value."""
        said = self._said(value)
        result = CallToolResult([], is_error=said.is_error, meta=said.meta)
        if said.content is not None:
            result.content = down_level(list(content_blocks(said.content)), revision)
        if said.structured_content is not UNSET:
            data = to_member(said.structured_content)
            if not said.is_error:
                self._check(data)
            if said.content is None:
                result.content = [TextContent(data.decode())]
            if revision.output_schema == "any" or (revision.output_schema and data.startswith(b"{")):
                result.structured_content = Raw(data)
        elif self._declares and not said.is_error:
            raise BadOutput("it has no structured content, but the tool declares an output schema")
        return result

    def _said(self, value: Any) -> ToolResult:
        if isinstance(value, ToolResult):
            return value
        if isinstance(value, CallToolResult):
            meta: Any = value.meta
            structured = value.structured_content if value.has_structured_content else UNSET
            return ToolResult(content=value.content, structured_content=structured, is_error=value.is_error, meta=meta)
        if not self._declares and (value is None or (self._content_only and value.__class__ is list and not value)):
            return ToolResult(content=[])
        blocks = to_blocks(value)
        if blocks is not None:
            return ToolResult(content=blocks)
        if isinstance(value, str) and not self._declares:
            return ToolResult(content=value)
        return ToolResult(structured_content=value)

    def _check(self, data: bytes) -> None:
        if not self._declares:
            return
        if self._output is None:
            self._output = _compiled(self.definition.output_schema or {}, self.name, self._limits)
        if problems := _problems(self._output, msgspec.json.decode(data)):
            raise BadOutput("; ".join(problems))

    def _failed(self, fault: BaseException) -> CallToolResult:
        """The model is told what was meant for it; of any other fault only that there was one: the log has the rest."""
        if isinstance(fault, ArgumentsError):
            log.info("tool %s was given arguments that do not fit: %s", self.name, printable(str(fault), 1000))
            return failure(f"Invalid arguments for tool '{self.name}': {fault}")
        said = tool_errors(fault)
        if said is not None:
            return failure(said)
        if isinstance(fault, BadOutput):
            log.error("tool %s: the result %s: %s", self.name, fault.told, fault)
            return failure(f"Tool '{self.name}' gave a result that {fault.told}")
        log.error("tool %s failed", self.name, exc_info=fault)
        return failure(f"Tool '{self.name}' failed")


class RawArguments:
    """The arguments of a tool that brings its own input schema: one dict, checked and handed over as it came."""

    positional = False

    def __init__(
        self, fn: Callable[..., Any], schema: dict[str, Any], *, skip: Set[str], strict: bool, limits: Limits
    ) -> None:
        """Check arguments by `schema`. Raises RegistrationError where that is for no object, or `fn` takes no dict."""
        where = name_of(fn)
        wanted = [item for item in parameters_of(fn) if item.name not in skip]
        if len(wanted) != 1 or wanted[0].keyword_only:
            raise RegistrationError(
                f"{where}: with input_schema a tool takes all its arguments as one dict; give it one parameter for them"
            )
        self._checker = _compiled(schema, f"{where}: input_schema", limits)
        if schema.get("type") != "object":
            raise RegistrationError(f'{where}: input_schema must have "type": "object" at its root (TOOL-3)')
        self.schema = schema
        self._lenient = not strict

    def decode(self, raw: bytes | Raw) -> dict[str, Any]:
        """Read and check the arguments. Raises msgspec.DecodeError for those that need `repair`."""
        value: Any = msgspec.json.decode(raw)
        if not isinstance(value, dict) or not self._checker.is_valid(value):  # pyright: ignore[reportUnknownArgumentType]
            raise msgspec.ValidationError("the arguments do not fit the input schema")
        return value  # pyright: ignore[reportUnknownVariableType]

    def repair(self, raw: bytes | Raw, fault: Exception) -> dict[str, Any]:
        """Read arguments that `decode` refused, JSON text opened where an object or array is wanted (F49).

        Raises ArgumentsError with every fault and its place, and ProtocolError (-32700) for what is no JSON.
        """
        from . import mending  # not at the top: most calls need no mending

        value = mending.read_arguments(raw, lenient=self._lenient)
        if not isinstance(value, dict):
            raise ArgumentsError(["$: arguments must be an object"])
        given: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
        if self._lenient:
            parts, defs = self.schema.get("properties", {}), self.schema.get("$defs", {})
            given = {name: mending.opened(part, parts.get(name, True), defs) for name, part in given.items()}
        given = msgspec.json.decode(mending.write(given))
        if problems := _problems(self._checker, given):
            raise ArgumentsError(problems)
        return given

    def values(self, arguments: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The call's values: the dict itself."""
        return [arguments], {}


def _compiled(schema: dict[str, Any], label: str, limits: Limits) -> Schema:
    """A schema, checked now and not at its first use (JS-2). Raises RegistrationError that begins with `label`."""
    from ..protocol.schema import Schema  # few tools need it

    try:
        found = Schema(schema, limits)
        found.compile()
    except RegistrationError as fault:
        raise RegistrationError(f"{label}: {fault}") from fault
    for place in found.unchecked:
        text = f"{label}: {place} is not checked: its pattern is none, or has no form that takes linear time"
        warnings.warn(text, stacklevel=2)
    return found


def _marks(schema: dict[str, Any], tool: str) -> tuple[Mark, ...]:
    try:
        return marks_of(schema)
    except ValueError as fault:
        raise RegistrationError(f"tool {tool!r}: input schema at {fault}") from None


def _problems(schema: Schema, value: Any) -> list[str]:
    return [f"{problem.path}: {problem.message}" for problem in schema.errors(value)]


def tool_errors(fault: BaseException) -> str | None:
    """What the ToolErrors say that `fault` consists of; None where it is, or holds, anything else."""
    if isinstance(fault, ToolError):
        return str(fault)
    if isinstance(fault, BaseExceptionGroup):
        said = [tool_errors(part) for part in fault.exceptions]  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType]
        return None if None in said else "\n".join(text for text in said if text is not None)
    return None


def _asked(fault: BaseException, context: Context) -> BaseException | None:
    """What goes to the client instead of a failure of the tool: that it cannot be asked, or what is open."""
    sole: BaseException | None = fault
    while isinstance(sole, BaseExceptionGroup):  # of a task group, mostly
        inside = cast("Sequence[BaseException]", sole.exceptions)  # pyright: ignore[reportUnknownMemberType]
        sole = inside[0] if len(inside) == 1 else None
    if isinstance(sole, CannotAsk) and context.peer.wire is MODERN:
        return sole
    if isinstance(fault, SaidNo) and context.round is not None:
        context.round.open.clear()  # the call ends here
    if isinstance(fault, Asked) or (context.round is not None and context.round.unfinished):
        return Asked()
    return None


def failure(text: str) -> CallToolResult:
    """A result that tells the model of a failure."""
    return CallToolResult([TextContent(text)], is_error=True)
