"""Rules that both sides hold a question to."""

from __future__ import annotations

import pytest

from jackfield.protocol.asked import check_page, check_tool_use
from jackfield.protocol.types import SamplingMessage, TextContent, ToolResultContent, ToolUseContent

TEXT = TextContent("Hi")


def call(id: str) -> ToolUseContent:
    return ToolUseContent(id=id, name="t", input={})


def gave(id: str) -> ToolResultContent:
    return ToolResultContent(tool_use_id=id, content=[])


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://xn--exmple-cua.com:8443/a?b=c%20d#e",
        "HTTPS://EXAMPLE.COM/",
        "http://localhost/",
        "http://127.0.0.1:80/a@b",
        "http://[::1]:80/",
        "http://127.9.9.9",
    ],
)
def test_pages_for_a_person(url: str) -> None:
    """A person may be sent to https pages, and to http ones on this machine (ELC-7, SEC-4)."""
    check_page(url)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "no URL"),
        ("example.com", "no URL"),
        ("https://ex\u0430mple.com", "escaped"),
        ("https://a b", "no URL"),
        ("https://a\n", "no URL"),
        ("https://[::1", "no URL"),
        ("https://a:port/", "no URL"),
        ("https://a:99999/", "no URL"),
        ("javascript:alert(1)", "not to javascript"),
        ("data:text/html,a", "not to data"),
        ("file:///etc/passwd", "not to file"),
        ("ftp://example.com", "not to ftp"),
        ("https:///path", "names no host"),
        ("https:example.com", "names no host"),
        ("https://user:secret@example.com", "user or password"),
        ("https://bank.com@evil.com", "user or password"),
        ("http://example.com", "use https"),
        ("http://localhost.evil.com", "use https"),
        ("http://127.0.0.1.evil.com", "use https"),
        ("http://127.0.0.256", "use https"),
        ("http://10.0.0.1", "use https"),
    ],
)
def test_pages_for_nobody(url: str, why: str) -> None:
    """All others are refused, with a reason that does not repeat a password (P13)."""
    with pytest.raises(ValueError, match=why) as caught:
        check_page(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [SamplingMessage("user", TEXT)],
        [SamplingMessage("assistant", [TEXT, call("1"), call("2")]), SamplingMessage("user", [gave("2"), gave("1")])],
        [
            SamplingMessage("user", [TEXT]),
            SamplingMessage("assistant", call("1")),
            SamplingMessage("user", gave("1")),
            SamplingMessage("assistant", call("1")),
            SamplingMessage("user", gave("1")),
            SamplingMessage("assistant", TEXT),
        ],
    ],
)
def test_calls_of_tools_that_are_answered(messages: list[SamplingMessage]) -> None:
    """Each call of a tool has its result in the very next message, which holds nothing else (SMP-2)."""
    check_tool_use(messages)


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([SamplingMessage("assistant", call("1"))], "'1' has no result"),
        ([SamplingMessage("user", gave("1"))], "'1' must have one result"),
        ([SamplingMessage("assistant", call("1")), SamplingMessage("user", TEXT)], "'1' must have one result"),
        ([SamplingMessage("assistant", call("1")), SamplingMessage("user", gave("2"))], "must have one result"),
        (
            [SamplingMessage("assistant", call("1")), SamplingMessage("user", [gave("1"), gave("1")])],
            r"messages\[1\]: the tool call '1' must have one result",
        ),
        ([SamplingMessage("assistant", call("1")), SamplingMessage("user", [gave("1"), TEXT])], "stand alone"),
        ([SamplingMessage("assistant", call("1")), SamplingMessage("assistant", gave("1"))], "stand alone"),
        ([SamplingMessage("user", call("1")), SamplingMessage("user", gave("1"))], "only the assistant"),
        ([SamplingMessage("assistant", [call("1"), call("1")]), SamplingMessage("user", gave("1"))], "same id"),
    ],
)
def test_calls_of_tools_that_are_not(messages: list[SamplingMessage], why: str) -> None:
    """Any other order is refused, by the message's place (SMP-2)."""
    with pytest.raises(ValueError, match=why):
        check_tool_use(messages)
