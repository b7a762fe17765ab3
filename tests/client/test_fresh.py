"""Tests of answers that the client keeps while they are fresh, against a server of this process."""

from __future__ import annotations

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import ConnectionClosed, PeerError
from jackfield.protocol.types import ReadResourceResult, ResourceContents
from jackfield.server.server import Server
from tests.client import fakes


def counting(seen: list[str], **options: float) -> Server:
    """A server that notes which method it is asked for."""

    async def note(params, ctx, following):
        seen.append(ctx.method)
        return await following(params, ctx)

    server = Server("counting", middleware=[note], **options)
    server.add_tool(lambda: "", name="tool")

    @server.resource("note://{name}")
    def read(name: str) -> ReadResourceResult:
        contents = ResourceContents(f"note://{name}", "text/plain", text=f"{name} {len(seen)}")
        return ReadResourceResult([contents], ttl_ms=60_000)

    return server


async def test_a_fresh_list_is_not_asked_for_again() -> None:
    """Within the time that the server gives its lists they are asked for once; each caller has its own (CCH-2)."""
    seen: list[str] = []
    async with Client(counting(seen, list_ttl=60)) as client:
        first = await client.list_tools()
        first[0].name = "changed"
        assert [tool.name for tool in await client.list_tools()] == ["tool"]
    assert seen.count("tools/list") == 1


async def test_a_list_without_a_time_is_asked_for_each_time() -> None:
    """Without a word of the server nothing is kept (CCH-3)."""
    seen: list[str] = []
    async with Client(counting(seen)) as client:
        await client.list_tools()
        await client.list_tools()
    assert seen.count("tools/list") == 2


@pytest.mark.parametrize("options", [{"cache": False}, {"mode": "legacy"}])
async def test_nothing_is_kept_where_that_is_not_wanted_or_not_known(options: dict) -> None:
    """Neither with cache=False, nor in a revision that has no such times (CCH-1)."""
    seen: list[str] = []
    async with Client(counting(seen, list_ttl=60), **options) as client:
        await client.list_tools()
        await client.list_tools()
    assert seen.count("tools/list") == 2


async def test_resources_are_kept_by_their_uri() -> None:
    """A read is kept for its own URI alone, progress and `_meta` make no difference (CCH-2)."""
    seen: list[str] = []
    async with Client(counting(seen)) as client:
        one = await client.read_resource("note://a")
        again = await client.read_resource("note://a", meta={"example.com/x": 1}, progress=lambda *_: None)
        other = await client.read_resource("note://b")
    assert one.contents[0].text == again.contents[0].text
    assert other.contents[0].text is not None
    assert other.contents[0].text.startswith("b ")
    assert seen.count("resources/read") == 2


async def test_news_end_what_was_kept() -> None:
    """A list that changed, or a resource that was updated, is asked for anew, whatever its time (CCH-5)."""
    kept = {"ttlMs": 60_000, "cacheScope": "public", "resultType": "complete"}
    fake = fakes.modern(tools__list={"tools": [], **kept}, resources__read={"contents": [], **kept})
    async with Client(fake) as client:
        for _ in range(2):
            await client.list_tools()
            await client.read_resource("note://a")
        assert fake.methods()[1:] == ["tools/list", "resources/read"]
        fake.notify("notifications/tools/list_changed")
        fake.notify("notifications/resources/updated", {"uri": "note://a"})
        await client.list_tools()
        await client.read_resource("note://a")
    assert fake.methods()[1:] == ["tools/list", "resources/read"] * 2


async def test_a_bad_cursor_ends_all_pages() -> None:
    """A cursor that the server refuses means that the list was cut anew: no page of before is kept (CCH-6)."""
    first = {"tools": [], "ttlMs": 60_000, "resultType": "complete", "nextCursor": "2"}
    gone = fakes.Fault(-32602, "the cursor is not valid")
    fake = fakes.modern(tools__list=lambda message: gone if message["params"].get("cursor") else first)
    async with Client(fake) as client:
        await client.list_tools_page()
        with pytest.raises(PeerError):
            await client.list_tools_page("2")
        await client.list_tools_page()
    assert fake.methods().count("tools/list") == 3


async def test_a_closed_client_answers_nothing_from_memory() -> None:
    """What was kept is of no use once the connection is over."""
    client = Client(counting([], list_ttl=60))
    async with client:
        await client.list_tools()
    with pytest.raises(ConnectionClosed):
        await client.list_tools()
