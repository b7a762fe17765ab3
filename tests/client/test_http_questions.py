"""Questions over HTTP: retries with their headers, and answers that are requests of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.client.questions import ClientQuestion
from jackfield.protocol.errors import ConnectionClosed
from tests.client.fakes import asks, form, text_result
from tests.client.handlers import ELICIT, Waiter, says
from tests.client.web import Post, Reply, begin_stream, legacy_web, modern_web, pour, running

SURE = (ELICIT, form())
YES = {"action": "accept", "content": {"sure": True}}


async def test_retry_has_the_headers_of_the_request() -> None:
    """A retry mirrors the same name and arguments in its headers (MR-9, XH-4)."""
    tool = {
        "name": "save",
        "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
    }

    def work(post: Post) -> Any:
        return text_result("saved") if "inputResponses" in post.message["params"] else asks("s", q=SURE)

    web = modern_web(tools__list={"tools": [tool]}, tools__call=work)
    async with running(web), Client(web.url, elicit=says({"sure": True})) as client:
        assert (await client.call_tool("save", {"region": "west"})).text == "saved"
    first, second = web.posts("tools/call")
    for header in ("mcp-name", "mcp-method", "mcp-param-region", "mcp-protocol-version"):
        assert first.headers[header] == second.headers[header]
    assert first.headers["mcp-param-region"] == "west"
    assert second.message["params"]["inputResponses"] == {"q": YES}


async def test_answer_is_a_post_of_its_own() -> None:
    """A legacy server asks on the stream of the call; it is answered by a POST in the session, taken with 202."""
    answers: asyncio.Queue[Post] = asyncio.Queue()

    async def work(post: Post) -> None:
        await begin_stream(post, {"id": "q-1", "method": ELICIT, "params": form("Overwrite?")})
        answer = await answers.get()
        await pour(post, {"id": post.id, "result": text_result(str(answer.message["result"]["content"]["sure"]))})

    def take(post: Post) -> Any:
        answers.put_nowait(post)
        return Reply(202, kind="")

    seen: list[ClientQuestion] = []

    def elicit(question: ClientQuestion) -> Any:
        seen.append(question)
        return {"sure": True}

    web = legacy_web(tools__call=work)
    web.answers["an answer"] = take
    async with running(web), Client(web.url, elicit=elicit) as client:
        assert (await client.call_tool("save")).text == "True"
    answer = web.posts("an answer")[0]
    assert (answer.message["id"], answer.headers["mcp-session-id"]) == ("q-1", "s-1")
    assert (seen[0].server, seen[0].message) == ("fake", "Overwrite?")


async def test_question_that_is_withdrawn_on_the_stream() -> None:
    """A cancellation on the stream ends the question; no answer is sent (CAN-4)."""
    waiter = Waiter()

    async def work(post: Post) -> None:
        await begin_stream(post, {"id": "q-1", "method": ELICIT, "params": form()})
        await waiter.begun.wait()
        await pour(post, {"method": "notifications/cancelled", "params": {"requestId": "q-1"}})
        await waiter.cancelled.wait()
        await pour(post, {"id": post.id, "result": text_result("kept")})

    web = legacy_web(tools__call=work)
    async with running(web), Client(web.url, elicit=waiter) as client:
        assert (await client.call_tool("save")).text == "kept"
    assert web.posts("an answer") == []


@pytest.mark.parametrize("make", [modern_web, legacy_web])
async def test_server_that_is_gone_while_a_person_thinks(make: Any) -> None:
    """A server that ends while a question is open costs that call, as any lost connection does."""

    async def work(post: Post) -> Any:
        if make is modern_web:
            return asks("s", q=SURE)
        await begin_stream(post, {"id": "q-1", "method": ELICIT, "params": form()})
        return None

    web = make(tools__call=work)
    stopped = asyncio.Event()

    async def elicit(question: ClientQuestion) -> bool:
        await web.stop()
        stopped.set()
        return True

    async with running(web), Client(web.url, elicit=elicit) as client:
        with pytest.raises(ConnectionClosed):
            await client.call_tool("save")
        await stopped.wait()
