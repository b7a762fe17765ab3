"""Questions between our client and our server: one body, both eras, in memory and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import uvicorn
from msgspec import Struct

from jackfield import Client, Context, Server
from jackfield.client import retrying
from jackfield.client.era_http import legacy_urls
from jackfield.client.questions import ClientQuestion
from jackfield.protocol.errors import PeerError, Unanswered
from jackfield.protocol.types import TextContent
from jackfield.server.handlers import Resolve
from jackfield.server.questions import Elicit, ElicitationRequired, ElicitURL
from tests.client.handlers import says

MODES = ["modern", "2025-11-25", "2025-06-18"]
PAGE = "https://example.com/pay"


class Sure(Struct):
    sure: bool
    why: str = "because"


async def overwrite(name: str) -> Elicit[Sure]:
    return Elicit(f"Overwrite {name}?", Sure)


def asking() -> Server:
    """A server that asks for everything."""
    server, paid = Server("asking"), set[str]()

    @server.tool
    async def save(name: str, sure: Annotated[Sure, Resolve(overwrite)]) -> str:
        return f"{name} {sure.sure} {sure.why}"

    @server.tool
    def choose(ctx: Context) -> str:
        first = ctx.sync.elicit("First?", Sure)
        second = ctx.sync.elicit("Second?", Sure) if first.action == "accept" else None
        return f"{first.action} {None if second is None else second.action}"

    @server.tool
    async def think(ctx: Context) -> str:
        answer = await ctx.sample("Hi", max_tokens=9)
        assert isinstance(answer.content, TextContent)
        return answer.content.text

    @server.tool
    async def look(ctx: Context) -> str:
        return " ".join([root.uri for root in await ctx.list_roots()])

    @server.tool
    async def visit(ctx: Context) -> str:
        return (await ctx.elicit_url("Pay", PAGE)).action

    @server.tool
    async def pay(ctx: Context) -> str:
        if "e-1" not in paid:
            paid.add("e-1")
            raise ElicitationRequired(ElicitURL("Pay", PAGE, id="e-1"))
        return "paid"

    @server.prompt
    async def letter(name: str, sure: Annotated[Sure, Resolve(overwrite)]) -> str:
        return f"{name} {sure.why}"

    @server.resource("note://{name}")
    async def note(name: str, sure: Annotated[Sure, Resolve(overwrite)]) -> str:
        return f"{name} {sure.why}"

    return server


@contextlib.asynccontextmanager
async def over_http(server: Server) -> AsyncIterator[str]:
    """The URL of the server while it is served."""
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    legacy_urls.pop(url, None)
    serving = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="warning", lifespan="on"))
    task = asyncio.create_task(serving.serve([listening]))
    try:
        yield url
    finally:
        serving.should_exit = True
        await task


@contextlib.asynccontextmanager
async def joined(way: str, mode: str, **handlers: Any) -> AsyncIterator[Client]:
    """A client of such a server."""
    async with contextlib.AsyncExitStack() as stack:
        server = asking()
        target = server if way == "memory" else await stack.enter_async_context(over_http(server))
        yield await stack.enter_async_context(Client(target, mode=mode, **handlers))


EVERYWHERE = [pytest.mark.parametrize("way", ["memory", "http"]), pytest.mark.parametrize("mode", MODES)]


def everywhere(test: Any) -> Any:
    """Run a test in each era, each way."""
    for mark in EVERYWHERE:
        test = mark(test)
    return test


@everywhere
async def test_forms(way: str, mode: str) -> None:
    """Tools, prompts and resources ask alike in both eras, and get the person's words with the defaults (MR-11)."""
    seen: list[str] = []

    def elicit(question: ClientQuestion) -> Any:
        seen.append(f"{question.server}: {question.message}")
        return {"sure": True}

    async with joined(way, mode, elicit=elicit) as client:
        assert (await client.call_tool("save", {"name": "a"})).text == "a True because"
        assert (await client.get_prompt("letter", {"name": "b"})).messages[0].content == TextContent("b because")
        assert (await client.read_resource("note://c")).contents[0].text == "c because"
        assert (await client.call_tool("choose")).text == "accept accept"
    names = [f"asking: {text}" for text in ("Overwrite a?", "Overwrite b?", "Overwrite c?", "First?", "Second?")]
    assert seen == names


@everywhere
@pytest.mark.parametrize("outcome", [False, None, OSError("broken")])
async def test_no(way: str, mode: str, outcome: Any) -> None:
    """A no, and a handler that fails, never save anything."""
    async with joined(way, mode, elicit=says(outcome)) as client:
        result = await client.call_tool("save", {"name": "a"})
        assert (result.is_error, "True" in result.text) == (True, False)
        assert (await client.call_tool("choose")).text == f"{'decline' if outcome is False else 'cancel'} None"


@everywhere
async def test_models_and_roots(way: str, mode: str, tmp_path: Path) -> None:
    """A server hears what the client's model says, and which places it works in (SMP-3, ROOT-1)."""
    async with joined(way, mode, sample=says("Hello"), roots=[tmp_path]) as client:
        assert (await client.call_tool("think")).text == "Hello"
        assert (await client.call_tool("look")).text == tmp_path.as_uri()


@everywhere
async def test_model_that_is_not_asked(way: str, mode: str) -> None:
    """Where the user rejects a sample a modern call fails here, a legacy one at the server (SMP-4)."""
    async with joined(way, mode, sample=says(None)) as client:
        if mode == "modern":
            with pytest.raises(Unanswered, match="rejected"):
                await client.call_tool("think")
        else:
            assert (await client.call_tool("think")).is_error


@pytest.mark.parametrize("way", ["memory", "http"])
@pytest.mark.parametrize("mode", MODES[:2])
async def test_pages(way: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person is asked to visit a page, also where the server says so by its error of 2025-11-25 (ELC-7, ELC-8)."""
    monkeypatch.setattr(retrying, "FIRST_VISIT", 0)
    seen: list[str | None] = []

    def elicit_url(question: ClientQuestion) -> bool:
        seen.append(question.url)
        return True

    async with joined(way, mode, elicit_url=elicit_url) as client:
        assert (await client.call_tool("visit")).text == "accept"
        assert (await client.call_tool("pay")).text == "paid"
    assert seen == [PAGE, PAGE]


@everywhere
async def test_client_that_cannot_be_asked(way: str, mode: str) -> None:
    """Without handlers nothing is asked: the call fails, or the tool does, and says why (ERR-2)."""
    async with joined(way, mode) as client:
        if mode == "modern":
            with pytest.raises(PeerError) as caught:
                await client.call_tool("save", {"name": "a"})
            assert (caught.value.code, caught.value.data) == (
                -32021,
                {"requiredCapabilities": {"elicitation": {"form": {}}}},
            )
        else:
            assert (await client.call_tool("save", {"name": "a"})).is_error
