"""Messages for a client's model: made from what an author gives, and checked before they go out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from ..protocol.types import (
    ModelPreferences,
    SamplingBlock,
    SamplingContent,
    SamplingMessage,
)
from .content import content_blocks

KINDS: Final = ("text", "image", "audio", "tool_use", "tool_result")
"""The kinds of block that a message of sampling may hold."""


def messages_of(given: Any) -> list[SamplingMessage]:
    """Messages from what `Sample` takes. Raises TypeError, and ValueError where there is none or an empty one."""
    parts: list[Any] = list(cast("Sequence[Any]", given)) if isinstance(given, list | tuple) else [given]
    found = [_message(part) for part in parts]
    if not found or not all(blocks_of(message) for message in found):
        raise ValueError("sampling takes at least one message, and each message some content")
    return found


def _message(given: Any) -> SamplingMessage:
    from .prompts import Message

    if isinstance(given, Message):
        return SamplingMessage(given.role, _block(given.content))
    if not isinstance(given, SamplingMessage):
        return SamplingMessage("user", _block(given))
    if given.role not in ("user", "assistant"):
        raise ValueError(f"a message is said by 'user' or 'assistant', not by {given.role!r}")
    content: Any = given.content
    if not isinstance(content, list | tuple):
        return SamplingMessage(given.role, _block(content), given.meta)
    blocks = [_block(part) for part in cast("Sequence[Any]", content)]
    return SamplingMessage(given.role, blocks[0] if len(blocks) == 1 else blocks, given.meta)


def _block(given: Any) -> SamplingContent:
    if isinstance(given, SamplingBlock):
        return given
    blocks = list(content_blocks(given))
    if len(blocks) != 1 or not isinstance(blocks[0], SamplingBlock):
        raise TypeError(
            f"{type(given).__name__} cannot be said to a model; give text, Image, Audio or a block of these"
        )
    return blocks[0]


def blocks_of(message: SamplingMessage) -> Sequence[SamplingContent]:
    """The content of a message as a list, however it was given."""
    return message.content if isinstance(message.content, list) else [message.content]


def check_preferences(given: ModelPreferences | None) -> None:
    """Raises ValueError for a priority outside 0 to 1 (SMP-3)."""
    for name in ("cost_priority", "speed_priority", "intelligence_priority"):
        value = getattr(given, name, None)
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"model_preferences: {name} is {value!r}; it must be from 0 to 1")
