"""Prompts: their arguments, lists, and the messages that they expand to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from ..protocol.errors import INVALID_PARAMS, ProtocolError
from ..protocol.printable import printable
from ..protocol.revisions import down_level
from ..protocol.types import (
    GetPromptParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedParams,
    Prompt,
    PromptMessage,
    Result,
    Role,
)
from ..protocol.wire import fit
from .content import content_blocks
from .context import Context
from .handlers import converted, invoke, is_async, supplied_to, supply
from .listing import Listing


class Message:
    """One message of a prompt: text, Image, Audio, File, ResourceLink or a content block, said by `role`."""

    __slots__ = ("content", "role")

    def __init__(self, content: Any, role: Role = "user") -> None:
        """Raises TypeError for what is no content or more than one block, ValueError for another role."""
        if role not in ("user", "assistant"):
            raise ValueError(f"a message is said by 'user' or 'assistant', not by {role!r}")
        blocks = list(content_blocks(content))
        if len(blocks) != 1:
            raise TypeError("a message holds exactly one block of content; make one message of each")
        self.content = blocks[0]
        self.role: Role = role

    def __repr__(self) -> str:
        return f"Message({self.content!r}, {self.role!r})"


class PromptEntry:
    """One prompt that can be expanded."""

    def __init__(self, fn: Callable[..., Any], definition: Prompt) -> None:
        """Serve what `fn` returns; its parameters are the prompt's arguments. Raises RegistrationError."""
        self.definition = definition
        self._fn = fn
        self._blocking = not is_async(fn)
        self._supplied = supplied_to(fn)
        from .arguments import prompt_arguments_of  # not at the top: many servers have no prompts

        self._arguments = prompt_arguments_of(fn, skip=self._supplied.names)
        definition.arguments = self._arguments.listed or None

    async def get(self, arguments: dict[str, str], context: Context) -> GetPromptResult:
        """Expand the prompt. Raises ProtocolError (-32602) where an argument is missing or does not fit (PRM-2)."""
        positional, keyword = self._arguments.values(arguments)
        values, named = await supply(self._supplied, positional, keyword, context)
        value = await invoke(self._fn, self._blocking, values, named, context)
        if isinstance(value, GetPromptResult):
            return GetPromptResult(list(value.messages), value.description, meta=value.meta)
        messages = await converted(_messages, value, context=context)
        return GetPromptResult(list(messages), self.definition.description)


class Prompts:
    """The prompts of one server, and the methods that serve them."""

    def __init__(self, changed: Callable[[], None], page_size: int | None, ttl_ms: int) -> None:
        self.prompts: Listing[PromptEntry] = Listing("prompt", changed)
        self._page_size = page_size
        self._ttl_ms = ttl_ms

    async def list(self, params: PaginatedParams, context: Context) -> Result:
        """`prompts/list`."""
        entries, cursor = self.prompts.page(params.cursor, self._page_size)
        listed = [fit(entry.definition, context.peer.speaks) for entry in entries]
        return ListPromptsResult(listed, next_cursor=cursor, ttl_ms=self._ttl_ms, cache_scope="public")

    async def get(self, params: GetPromptParams, context: Context) -> Result:
        """`prompts/get`. Raises ProtocolError (-32602) for an unknown prompt (PRM-2)."""
        entry = self.prompts.entries.get(params.name)
        if entry is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {printable(params.name)}")
        result = await entry.get(params.arguments or {}, context)
        said = result.messages
        blocks = down_level([message.content for message in said], context.peer.speaks)
        result.messages = [PromptMessage(each.role, block) for each, block in zip(said, blocks, strict=True)]
        return result


def _messages(value: Any) -> Iterable[PromptMessage]:
    if isinstance(value, PromptMessage):
        return [value]
    if isinstance(value, Message):
        return [PromptMessage(value.role, value.content)]
    if isinstance(value, list | tuple):
        return [message for item in cast("Sequence[Any]", value) for message in _messages(item)]
    return _messages(Message(value))
