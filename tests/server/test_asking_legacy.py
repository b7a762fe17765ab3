"""Asking a legacy client: a request of the server's own, and pages that have to come before the call."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from jackfield import Context, Limits, Server, Unanswered
from jackfield.server.questions import ElicitationRequired, ElicitURL
from tests.server.shop import NO, PAGE, URL, YES, shop
from tests.server.talk import LEGACY, MODERN, Refused, talking, text_of

# ---- a legacy client is asked at once


async def test_a_legacy_client_is_sent_a_request() -> None:
    """The handler runs once, and waits for the answer to a request of the server (STDIO-10, ELC-7)."""
    server, deeds = shop()
    async with talking(server, "2025-11-25", URL) as talk:
        call = talk.send("tools/call", {"name": "delete", "arguments": {"name": "a"}})
        question = await talk.asked()
        assert question["method"] == "elicitation/create"
        assert question["params"]["elicitationId"]
        talk.reply(question, YES)
        assert text_of(await talk.answer(call)) == "deleted"
        assert (deeds.runs, deeds.done) == (1, ["a"])


@pytest.mark.parametrize(
    ("result", "error", "text"),
    [
        ({"action": "maybe"}, {}, "does not fit"),
        ({}, {}, "does not fit"),
        (None, {"code": -32603, "message": "no window"}, "no window"),
        (None, {"code": -1, "message": "rejected"}, "rejected"),
    ],
)
async def test_a_legacy_client_that_gives_no_answer_is_no_yes(
    result: dict[str, Any] | None, error: dict[str, Any], text: str
) -> None:
    """A malformed answer and an error are the tool's failure, in words, and nothing is done (ELC-5)."""
    server, deeds = shop()
    async with talking(server, "2025-11-25", URL) as talk:
        call = talk.send("tools/call", {"name": "delete", "arguments": {"name": "a"}})
        talk.reply(await talk.asked(), result, **error)
        answer = await talk.answer(call)
        assert answer["isError"]
        assert text in text_of(answer)
        assert deeds.done == []


async def test_cancelling_a_legacy_call_withdraws_its_question() -> None:
    """The client is told that the question is off, and nothing is done (CAN-4)."""
    server, deeds = shop()
    async with talking(server, "2025-11-25", URL) as talk:
        call = talk.send("tools/call", {"name": "delete", "arguments": {"name": "a"}})
        question = await talk.asked()
        talk.cancel(call)
        await talk.settled()
        assert talk.heard[-1]["method"] == "notifications/cancelled"
        assert talk.heard[-1]["params"]["requestId"] == question["id"]
        talk.reply(question, YES)
        await talk.settled()
        assert deeds.done == []


async def test_a_question_has_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the limit `question` the handler is told that nobody answered, and the client that it is off."""
    server = Server("slow", limits=Limits(question=5))

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            await ctx.elicit_url("May I?", PAGE)
        except Unanswered as fault:
            return str(fault)
        return "asked"

    async with talking(server, "2025-11-25", URL) as talk:
        loop = asyncio.get_running_loop()
        call = talk.send("tools/call", {"name": "ask", "arguments": {}})
        await talk.asked()
        now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now + 6)
        assert "limit `question`" in text_of(await talk.answer(call))
        assert talk.heard[-1]["method"] == "notifications/cancelled"


async def test_a_thread_that_waits_for_a_person_does_not_count() -> None:
    """With one thread in all, other `def` tools go on while one of them asks (limit `threads`)."""
    server = Server("one", limits=Limits(threads=1))

    @server.tool
    def ask(ctx: Context) -> str:
        return ctx.sync.elicit_url("May I?", PAGE).action

    @server.tool
    def work() -> str:
        return "worked"

    async with talking(server, "2025-11-25", URL) as talk:
        calls = [talk.send("tools/call", {"name": "ask", "arguments": {}}) for _ in range(3)]
        questions = [await talk.asked() for _ in calls]
        assert text_of(await talk.call("work", {})) == "worked"
        for question in questions:
            talk.reply(question, YES)
        assert [text_of(await talk.answer(call)) for call in calls] == ["accept"] * 3
        assert text_of(await talk.call("work", {})) == "worked"


async def test_nothing_can_be_asked_once_the_request_was_answered() -> None:
    """A task that outlives its request is told so."""
    server, outcome = Server("late"), asyncio.get_running_loop().create_future()
    answered = asyncio.Event()

    @server.tool
    async def leave(ctx: Context) -> str:
        async def later() -> None:
            await answered.wait()
            try:
                await ctx.elicit_url("May I?", PAGE)
            except Unanswered as fault:
                outcome.set_result(str(fault))

        server.later = asyncio.create_task(later())  # type: ignore[attr-defined]
        return "left"

    async with talking(server, "2025-11-25", URL) as talk:
        assert text_of(await talk.call("leave", {})) == "left"
        answered.set()
        assert "answered already" in await outcome


# ---- pages that have to come first


def gated() -> Server:
    """A server whose tool needs a page to be visited first."""
    server = Server("gated")

    @server.tool
    async def enter() -> str:
        raise ElicitationRequired(ElicitURL("Sign in.", PAGE, id="visit-1"))

    return server


async def test_2025_11_25_has_an_error_for_pages_that_come_first() -> None:
    """The error -32042 lists them (ELC-8)."""
    async with talking(gated(), "2025-11-25", URL) as talk:
        with pytest.raises(Refused) as caught:
            await talk.call("enter", {})
        assert caught.value.code == -32042
        page = {"mode": "url", "message": "Sign in.", "url": PAGE, "elicitationId": "visit-1"}
        assert caught.value.data == {"elicitations": [page]}


async def test_a_modern_client_is_asked_to_visit_the_pages_and_comes_back_until_it_is_done() -> None:
    """-32042 is never sent: the page is a question; after the yes only the state comes, and the client is to wait for a
    while (ELC-8, MR-5).
    """
    async with talking(gated(), MODERN, URL) as talk:
        first = await talk.call("enter", {})
        assert first["inputRequests"]["question"]["params"]["url"] == PAGE
        params = {"name": "enter", "requestState": first["requestState"], "inputResponses": {"question": YES}}
        second = await talk.ask("tools/call", params)
        assert second["resultType"] == "input_required"
        assert "inputRequests" not in second
        params["inputResponses"] = {"question": NO}
        assert (await talk.ask("tools/call", params))["isError"]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_legacy_client_that_opens_no_pages_gets_the_tools_failure(revision: str) -> None:
    """Without the capability, or in a revision without pages, there is no -32042 (ELC-1, ELC-8)."""
    async with talking(gated(), revision, {"elicitation": {}}) as talk:
        assert (await talk.call("enter", {}))["isError"]


async def test_the_end_of_a_visit_is_told_where_the_revision_has_a_word_for_it() -> None:
    """notifications/elicitation/complete is of 2025-11-25 alone (ELC-8)."""
    server = Server("done")

    @server.tool
    async def done(ctx: Context) -> str:
        await ctx.elicitation_complete("visit-1")
        return "told"

    for revision in (MODERN, *LEGACY):
        async with talking(server, revision) as talk:
            await talk.call("done", {})
            told = [each["params"] for each in talk.heard if each["method"] == "notifications/elicitation/complete"]
            assert told == ([{"elicitationId": "visit-1"}] if revision == "2025-11-25" else [])


async def test_a_late_yes_to_a_cancelled_call_does_nothing() -> None:
    """A blocking handler whose call was cancelled is never told yes: its thread is unwound, as a task would be."""
    server, done = Server("slow"), list[str]()
    ended = threading.Event()

    @server.tool
    def delete(ctx: Context) -> str:
        try:
            said = ctx.sync.elicit_url("May I?", PAGE)
            done.append(said.action)
        except Exception as fault:
            done.append(repr(fault))
        finally:
            ended.set()
        return "done"

    async with talking(server, "2025-11-25", URL) as talk:
        call = talk.send("tools/call", {"name": "delete", "arguments": {}})
        question = await talk.asked()
        talk.cancel(call)
        talk.reply(question, YES)
        await asyncio.to_thread(ended.wait, 10)
        assert done == []


async def test_a_page_can_say_later_that_the_visit_is_done() -> None:
    """After the call has ended the session that was sent to the page hears of it, once, and nobody else (ELC-8)."""
    server = gated()
    async with talking(server, "2025-11-25", URL) as talk, talking(server, "2025-11-25", URL) as other:
        with pytest.raises(Refused):
            await talk.call("enter", {})
        await asyncio.to_thread(server.notify_elicitation_complete, "visit-1")
        server.notify_elicitation_complete("visit-1")
        server.notify_elicitation_complete("unknown")
        await talk.ask("ping")
        await talk.settled()
        assert [each["params"] for each in talk.heard] == [{"elicitationId": "visit-1"}]
        assert other.heard == []
