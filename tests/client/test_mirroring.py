"""Tests of the headers that repeat arguments: which tools are looked up, which are dropped, and what is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import PeerError
from tests.client.fakes import text_result
from tests.client.web import Post, fault, legacy_web, modern_web, running


def tool(name: str, mark: Any = None, kind: str = "string") -> dict[str, Any]:
    """A tool with one argument `where`, marked where that is given."""
    where = {"type": kind} if mark is None else {"type": kind, "x-mcp-header": mark}
    return {"name": name, "inputSchema": {"type": "object", "properties": {"where": where}}}


def listed(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"tools": list(tools), "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


async def test_a_marked_argument_is_repeated_in_a_header() -> None:
    """The tools are listed before the first call, once, and a marked argument goes in its header (XH-4, XH-8)."""
    web = modern_web(tools__list=listed(tool("go", "Where")), tools__call=text_result("gone"))
    async with running(web), Client(web.url) as client:
        await asyncio.gather(*[client.call_tool("go", {"where": f"{place} é"}) for place in range(5)])
    assert web.methods().count("tools/list") == 1
    sent = sorted(post.headers["mcp-param-where"] for post in web.posts("tools/call"))
    assert sent == sorted(f"=?base64?{text}?=" for text in ("MCDDqQ==", "MSDDqQ==", "MiDDqQ==", "MyDDqQ==", "NCDDqQ=="))


async def test_an_argument_that_is_absent_or_null_has_no_header() -> None:
    """Nothing is repeated of what is not there (XH-4)."""
    web = modern_web(tools__list=listed(tool("go", "Where")), tools__call=text_result("gone"))
    async with running(web), Client(web.url) as client:
        await client.call_tool("go")
        await client.call_tool("go", {"where": None})
    assert ["mcp-param-where" in post.headers for post in web.posts("tools/call")] == [False, False]


async def test_a_tool_that_is_not_listed_is_called_without() -> None:
    """A tool that the list does not have is called all the same, and asks for no second list (XH-8)."""
    web = modern_web(tools__list=listed(), tools__call=text_result("gone"))
    async with running(web), Client(web.url) as client:
        assert (await client.call_tool("secret", {"where": "x"})).text == "gone"
        assert (await client.call_tool("secret", {"where": "x"})).text == "gone"
    assert web.methods() == ["server/discover", "tools/list", "tools/call", "tools/call"]


@pytest.mark.parametrize("mark", ["", {}, [], None, 1, "a b", "a:b", "é", "a\r\nb", "a\x00b"])
async def test_a_tool_with_a_mark_that_cannot_be_is_left_out(mark: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It is dropped from the list with a warning that names it; the others stay (XH-3, TOOL-14, T10)."""
    bad = tool("bad", "x")
    bad["inputSchema"]["properties"]["where"]["x-mcp-header"] = mark
    web = modern_web(tools__list=listed(tool("good", "Where"), bad))
    async with running(web), Client(web.url) as client:
        assert [found.name for found in await client.list_tools()] == ["good"]
    assert "left out its tool bad" in caplog.text


async def test_marks_mean_nothing_off_modern_http() -> None:
    """A legacy server's tools are neither looked up nor left out for their marks (XH-3)."""
    web = legacy_web(tools__list={"tools": [tool("go", "a b")]}, tools__call=text_result("gone"))
    async with running(web), Client(web.url) as client:
        await client.call_tool("go", {"where": "x"})
        assert [found.name for found in await client.list_tools()] == ["go"]
    assert web.methods().count("tools/list") == 1


async def test_a_refused_header_makes_the_client_look_again() -> None:
    """The tool has changed: it is looked up anew, and called once more with what its new marks want (XH-6)."""
    tools = [tool("go", "Old")]

    def call(post: Post) -> Any:
        if "mcp-param-new" in post.headers:
            return text_result("gone")
        tools[:] = [tool("go", "New")]
        return fault(-32020, "Header Mcp-Param-New is missing", status=400)(post)

    web = modern_web(tools__list=lambda post: listed(*tools), tools__call=call)
    async with running(web), Client(web.url) as client:
        assert (await client.call_tool("go", {"where": "x"})).text == "gone"
    assert web.methods()[1:] == ["tools/list", "tools/call", "tools/list", "tools/call"]


async def test_a_header_that_is_refused_twice_is_an_error() -> None:
    """There is one new attempt, no more (XH-6)."""
    web = modern_web(tools__list=listed(tool("go", "Where")), tools__call=fault(-32020, "no", status=400))
    async with running(web), Client(web.url) as client:
        with pytest.raises(PeerError) as refused:
            await client.call_tool("go", {"where": "x"})
    assert refused.value.code == -32020
    assert web.methods().count("tools/call") == 2
