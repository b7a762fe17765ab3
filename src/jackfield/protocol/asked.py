"""What either side checks of a question: the page that a person is sent to, and the order of a talk with a model."""

from __future__ import annotations

from collections.abc import Sequence

from .printable import printable
from .types import SamplingMessage, ToolResultContent, ToolUseContent
from .uri import is_uri


def check_page(url: str) -> None:
    """Raise ValueError unless a person may be sent to this URL: https, or http on this machine, without credentials
    (ELC-7, SEC-4).
    """
    from urllib.parse import urlsplit  # not at the top: few are ever sent to a page

    shown = printable(url)
    if not is_uri(url):
        raise ValueError(f"{shown!r} is no URL; letters outside ASCII must be escaped")
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port
    except ValueError as fault:
        raise ValueError(f"{shown!r} is no URL: {fault}") from None
    if parts.scheme not in ("https", "http"):
        raise ValueError(f"{shown!r}: a person can be sent to an https page only, not to {printable(parts.scheme)}:")
    if not host:
        raise ValueError(f"{shown!r} names no host")
    if "@" in parts.netloc:
        raise ValueError("the URL has a user or password in it, which the client would see; take it out")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError(f"{shown!r}: http is for pages on this machine; use https")


def check_tool_use(messages: Sequence[SamplingMessage]) -> None:
    """Raise ValueError, naming the message, unless each call of a tool is answered by the very next one (SMP-2)."""
    open_calls: set[str] = set()
    for place, message in enumerate(messages):
        where = f"messages[{place}]"
        blocks = message.content if isinstance(message.content, list) else [message.content]
        answers = [block.tool_use_id for block in blocks if isinstance(block, ToolResultContent)]
        if answers and (message.role != "user" or len(answers) != len(blocks)):
            raise ValueError(f"{where}: results of tools stand alone in a message of the user")
        if set(answers) != open_calls or len(set(answers)) != len(answers):
            wrong = printable(min(open_calls.symmetric_difference(answers), default=answers[0] if answers else ""))
            raise ValueError(f"{where}: the tool call {wrong!r} must have one result, in the message right after it")
        calls = [block.id for block in blocks if isinstance(block, ToolUseContent)]
        if calls and message.role != "assistant":
            raise ValueError(f"{where}: only the assistant calls tools")
        open_calls = set(calls)
        if len(open_calls) != len(calls):
            raise ValueError(f"{where}: two tool calls have the same id")
    if open_calls:
        wrong = printable(min(open_calls))
        raise ValueError(f"the tool call {wrong!r} has no result; it must stand in the message right after it")


def _is_loopback(host: str) -> bool:
    if host in ("localhost", "::1"):
        return True
    parts = host.split(".")
    return parts[0] == "127" and len(parts) == 4 and all(part.isdigit() and int(part[:4]) < 256 for part in parts)
