"""Questions over HTTP: on the stream of their own request in a legacy session, inside the answer in the modern era."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from jackfield import Context, Server
from tests.asgi import Call, legacy, message, modern, session, settled

PAGE = "https://example.com/agree"
URL = {"elicitation": {"url": {}}}
MODERN_URL = {"io.modelcontextprotocol/clientCapabilities": URL}


class Shop:
    """A server whose tool asks, and what it did."""

    def __init__(self, **options: Any) -> None:
        self.deeds: list[str] = []
        self.server = Server("shop", **options)

        @self.server.tool
        async def delete(name: str, ctx: Context) -> str:
            said = await ctx.elicit_url(f"Delete {name}?", PAGE)
            if said.action == "accept":
                self.deeds.append(name)
            return said.action


def delete(name: str, id: Any = 1) -> bytes:
    return message("tools/call", {"name": "delete", "arguments": {"name": name}}, id)


def reply(id: Any, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()


async def test_a_question_goes_on_the_stream_of_its_own_request() -> None:
    """Of two calls each one's question is on its own stream, and answers come by POSTs of their own (LH-2, LH-5)."""
    shop = Shop()
    app = shop.server.http_app()
    id = await session(app, URL)
    calls = {name: legacy(app, delete(name, number), id) for number, name in enumerate("ab", 1)}
    questions: dict[str, Any] = {}
    for name, call in calls.items():
        await call.came("elicitation/create")
        (questions[name],) = call.events
        assert questions[name]["params"]["message"] == f"Delete {name}?"
    assert questions["a"]["id"] != questions["b"]["id"]
    for name, action in (("b", "decline"), ("a", "accept")):
        answer = await legacy(app, reply(questions[name]["id"], {"action": action}), id).end()
        assert answer.status == 202
        await calls[name].end()
        assert calls[name].events[-1]["result"]["content"][0]["text"] == action
    assert shop.deeds == ["a"]


async def test_another_session_cannot_answer() -> None:
    """An answer counts only in the session that was asked (SEC-6, T05)."""
    shop = Shop()
    app = shop.server.http_app()
    id, other = await session(app, URL), await session(app, URL)
    call = await legacy(app, delete("a"), id).came("elicitation/create")
    question = call.events[0]["id"]
    await legacy(app, reply(question, {"action": "accept"}), other).end()
    await settled()
    assert shop.deeds == []
    await legacy(app, reply(question, {"action": "decline"}), id).end()
    assert (await call.end()).events[-1]["result"]["content"][0]["text"] == "decline"


async def test_a_client_that_hangs_up_on_a_question_gives_no_answer() -> None:
    """The handler is told at once that nobody can answer; nothing is done (ELC-5)."""
    server, outcome = Server("shop"), asyncio.get_running_loop().create_future()

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            return (await ctx.elicit_url("May I?", PAGE)).action
        except Exception as fault:
            outcome.set_result(str(fault))
            raise

    app = server.http_app()
    id = await session(app, URL)
    call = await legacy(app, message("tools/call", {"name": "ask", "arguments": {}}), id).came("elicitation/create")
    call.hang_up()
    assert "hung up" in await asyncio.wait_for(outcome, 10)
    await call.end()


async def test_cancelling_the_call_withdraws_its_question() -> None:
    """The notification that ends the call ends its stream, and a late answer does nothing (CAN-4)."""
    shop = Shop()
    app = shop.server.http_app()
    id = await session(app, URL)
    call = await legacy(app, delete("a"), id).came("elicitation/create")
    await legacy(app, message("notifications/cancelled", {"requestId": 1}, None), id).end()
    await call.end()
    await legacy(app, reply(call.events[0]["id"], {"action": "accept"}), id).end()
    await settled()
    assert shop.deeds == []


async def test_the_end_of_the_session_ends_its_questions() -> None:
    """DELETE cancels what waits for an answer (LH-9)."""
    shop = Shop()
    app = shop.server.http_app()
    id = await session(app, URL)
    call = await legacy(app, delete("a"), id).came("elicitation/create")
    headers = {"host": "127.0.0.1:8000", "mcp-session-id": id, "mcp-protocol-version": "2025-11-25"}
    assert (await Call(app, "DELETE", headers=headers).end()).status == 200
    await call.end()
    assert call.events[-1]["error"]["code"] == -32001
    assert shop.deeds == []


async def test_without_sessions_a_legacy_client_cannot_be_asked() -> None:
    """The tool fails in words that say why (LH-11)."""
    shop = Shop()
    app = shop.server.http_app(stateless=True)
    call = await legacy(app, delete("a")).end()
    result = call.json["result"]
    assert result["isError"]
    assert "cannot be asked" in result["content"][0]["text"]


async def test_a_modern_question_is_the_answer() -> None:
    """One POST holds the question, the next one the answer; with 200 and as plain JSON (MR-1, MR-9)."""
    shop = Shop()
    app = shop.server.http_app()
    params: dict[str, Any] = {"name": "delete", "arguments": {"name": "a"}, "_meta": MODERN_URL}
    first = await modern(app, "tools/call", params).end()
    assert first.status == 200
    result = first.json["result"]
    assert result["resultType"] == "input_required"
    params |= {"requestState": result["requestState"], "inputResponses": {"question": {"action": "accept"}}}
    second = await modern(app, "tools/call", params, id=2).end()
    assert second.json["result"]["content"][0]["text"] == "accept"
    assert shop.deeds == ["a"]


async def test_a_missing_capability_is_status_400() -> None:
    """-32021 goes with HTTP 400 (4.5, ERR-2)."""
    call = await modern(Shop().server.http_app(), "tools/call", {"name": "delete", "arguments": {"name": "a"}}).end()
    assert call.status == 400
    assert call.json["error"]["code"] == -32021
    assert call.json["error"]["data"] == {"requiredCapabilities": URL}


async def test_a_state_belongs_to_the_principal_that_it_was_given_to() -> None:
    """What was sealed for a request without a token is nothing to one with it (MR-6, SEC-6, M01)."""
    keys = ["k" * 32]
    shop, guarded = Shop(state_keys=keys), Shop(state_keys=keys)
    params: dict[str, Any] = {"name": "delete", "arguments": {"name": "a"}, "_meta": MODERN_URL}
    result = (await modern(shop.server.http_app(), "tools/call", params).end()).json["result"]
    params |= {"requestState": result["requestState"], "inputResponses": {"question": {"action": "accept"}}}
    app = guarded.server.http_app(token="s" * 32)
    call = await modern(app, "tools/call", params, authorization="Bearer " + "s" * 32).end()
    assert call.json["error"]["code"] == -32602
    assert guarded.deeds == []


@pytest.mark.parametrize("answer", [{"action": "accept"}, {"action": "decline"}])
async def test_the_stream_of_a_question_is_one_stream(answer: dict[str, Any]) -> None:
    """Question and answer come on the same stream, which ends with the answer (LH-2)."""
    shop = Shop()
    app = shop.server.http_app()
    id = await session(app, URL)
    call = await legacy(app, delete("a"), id).came("elicitation/create")
    assert call.headers["content-type"] == "text/event-stream"
    await legacy(app, reply(call.events[0]["id"], answer), id).end()
    await call.end()
    assert [each.get("id") for each in call.events] == [call.events[0]["id"], 1]
