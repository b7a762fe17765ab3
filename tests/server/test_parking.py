"""Calls that stay alive while a modern client is asked: they run once, whatever comes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from jackfield import Context, Limits, Server
from tests.server.talk import MODERN, Refused, Talk, progress_of, talking, text_of

PAGE = "https://example.com/agree"
URL = {"elicitation": {"url": {}}}
YES = {"question": {"action": "accept"}}


class Bank:
    """A server whose tool must not run twice, and what it did."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("bank", **options)
        self.began: list[str] = []
        self.ended: list[str] = []
        self.gone = asyncio.Event()

        @self.server.tool(replay=False)
        async def pay(to: str, ctx: Context) -> str:
            self.began.append(to)
            try:
                await ctx.report_progress(1)
                said = await ctx.elicit_url(f"Pay {to}?", PAGE)
                await ctx.report_progress(2)
                sure = await ctx.elicit_url("Sure?", PAGE)
            except asyncio.CancelledError:
                self.gone.set()
                raise
            self.ended.append(to)
            return f"{said.action} {sure.action}"


async def again(talk: Talk, before: dict[str, Any], answers: Any, to: str = "a", **meta: Any) -> Any:
    """Make the call again with answers."""
    params = {"name": "pay", "arguments": {"to": to}, "inputResponses": answers, "requestState": before["requestState"]}
    return await talk.ask("tools/call", params, **meta)


async def test_a_parked_call_runs_once() -> None:
    """The handler goes on where it asked, over as many rounds as it takes; it never begins anew (MR-11)."""
    bank = Bank()
    async with talking(bank.server, MODERN, URL) as talk:
        first = await talk.call("pay", {"to": "a"})
        assert list(first["inputRequests"]) == ["question"]
        second = await again(talk, first, YES)
        assert list(second["inputRequests"]) == ["question-2"]
        assert text_of(await again(talk, second, {"question-2": {"action": "decline"}})) == "accept decline"
        assert (bank.began, bank.ended) == (["a"], ["a"])


async def test_progress_goes_to_the_request_of_the_moment() -> None:
    """What a parked call reports goes to whoever asks for it now, and to nobody in between (PRG-2)."""
    bank = Bank()
    async with talking(bank.server, MODERN, URL) as talk:
        first = await talk.call("pay", {"to": "a"}, progressToken="one")
        await again(talk, first, YES, progressToken="two")
        assert [(each["progressToken"], each["progress"]) for each in progress_of(talk)] == [("one", 1), ("two", 2)]


async def test_a_state_goes_on_with_its_call_only_once() -> None:
    """The same state a second time is an error, never a second call (M01)."""
    bank = Bank()
    async with talking(bank.server, MODERN, URL) as talk:
        first = await talk.call("pay", {"to": "a"})
        await again(talk, first, YES)
        with pytest.raises(Refused, match="does not wait any more") as caught:
            await again(talk, first, YES)
        assert caught.value.code == -32602
        assert bank.began == ["a"]


async def test_a_lost_call_is_an_error_and_not_begun_anew() -> None:
    """A retry that comes to a process that does not have the call is refused, though it can read the state."""
    keys = ["k" * 32]
    bank, other = Bank(state_keys=keys), Bank(state_keys=keys)
    async with talking(bank.server, MODERN, URL) as talk:
        first = await talk.call("pay", {"to": "a"})
    async with talking(other.server, MODERN, URL) as talk:
        with pytest.raises(Refused, match="does not wait any more"):
            await again(talk, first, YES)
    assert other.began == []


async def test_a_bad_answer_costs_the_call_nothing() -> None:
    """After an answer that does not fit the same state may be sent with a good one (MR-7)."""
    bank = Bank()
    async with talking(bank.server, MODERN, URL) as talk:
        first = await talk.call("pay", {"to": "a"})
        with pytest.raises(Refused, match="inputResponses"):
            await again(talk, first, {"question": {"action": "maybe"}})
        assert list((await again(talk, first, YES))["inputRequests"]) == ["question-2"]
        assert bank.began == ["a"]


async def test_a_missing_answer_is_asked_for_again() -> None:
    """The call goes on waiting under a new state (MR-7)."""
    bank = Bank()
    async with talking(bank.server, MODERN, URL) as talk:
        second = await again(talk, await talk.call("pay", {"to": "a"}), {})
        assert list(second["inputRequests"]) == ["question"]
        assert list((await again(talk, second, YES))["inputRequests"]) == ["question-2"]


async def test_a_state_is_good_for_its_own_arguments_only() -> None:
    """Another call's state is refused, and the call it belongs to goes on waiting (MR-6)."""
    bank = Bank()
    async with talking(bank.server, MODERN, URL) as talk:
        first = await talk.call("pay", {"to": "a"})
        with pytest.raises(Refused, match="requestState"):
            await again(talk, first, YES, to="b")
        assert list((await again(talk, first, YES))["inputRequests"]) == ["question-2"]


async def test_a_call_that_nobody_comes_back_to_is_cancelled() -> None:
    """After the limit `question` the handler is cancelled, and its state is refused (MR-8)."""
    bank = Bank(limits=Limits(question=0.01))
    async with talking(bank.server, MODERN, URL) as talk:
        first = await talk.call("pay", {"to": "a"})
        await asyncio.wait_for(bank.gone.wait(), 10)
        with pytest.raises(Refused, match="requestState"):
            await again(talk, first, YES)
        assert bank.ended == []


async def test_the_end_of_the_server_cancels_what_waits() -> None:
    """Nothing outlives the server."""
    bank = Bank()
    async with talking(bank.server, MODERN, URL) as talk:
        await talk.call("pay", {"to": "a"})
    await asyncio.wait_for(bank.gone.wait(), 10)
    assert bank.ended == []


async def test_too_many_calls_are_refused_before_they_begin() -> None:
    """The cap is on calls that are alive, and the error names the limit `parked`."""
    bank = Bank(limits=Limits(parked=2))
    async with talking(bank.server, MODERN, URL) as talk:
        first = await talk.call("pay", {"to": "a"})
        await talk.call("pay", {"to": "b"})
        with pytest.raises(Refused, match="limit `parked`"):
            await talk.call("pay", {"to": "c"})
        second = await again(talk, first, YES)
        await again(talk, second, {"question-2": {"action": "accept"}})
        await talk.call("pay", {"to": "d"})
        assert bank.began == ["a", "b", "d"]


async def test_cancelling_the_request_cancels_the_call() -> None:
    """While a request of it is under way the call can be cancelled as any other (CAN-3)."""
    server, gone, began = Server("bank"), asyncio.Event(), asyncio.Event()

    @server.tool(replay=False)
    async def wait(ctx: Context) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return ""

    async with talking(server, MODERN, URL) as talk:
        id = talk.send("tools/call", {"name": "wait", "arguments": {}})
        await began.wait()
        talk.cancel(id)
        await asyncio.wait_for(gone.wait(), 10)


async def test_a_call_that_goes_on_while_it_asks() -> None:
    """A handler that works on beside its question may be done when the client comes back."""
    server, go = Server("bank"), asyncio.Event()

    @server.tool(replay=False)
    async def race(ctx: Context) -> str:
        question = asyncio.create_task(ctx.elicit_url("Faster?", PAGE))
        await go.wait()
        question.cancel()
        return "done by itself"

    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("race", {})
        go.set()
        params = {"name": "race", "requestState": first["requestState"], "inputResponses": {}}
        assert text_of(await talk.ask("tools/call", params)) == "done by itself"


async def test_blocking_handlers_are_parked_too() -> None:
    """A `def` handler's thread waits, and runs once."""
    server, runs = Server("bank", limits=Limits(threads=1)), list[int]()

    @server.tool(replay=False)
    def pay(to: str, ctx: Context) -> str:
        runs.append(1)
        return ctx.sync.elicit_url("Pay?", PAGE).action

    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("pay", {"to": "a"})
        other = await talk.call("pay", {"to": "b"})
        assert text_of(await again(talk, first, YES)) == "accept"
        assert text_of(await again(talk, other, YES, to="b")) == "accept"
        assert len(runs) == 2


async def test_a_legacy_client_is_asked_as_ever() -> None:
    """Nothing is parked where the client can be asked at once."""
    bank = Bank()
    async with talking(bank.server, "2025-11-25", URL) as talk:
        call = talk.send("tools/call", {"name": "pay", "arguments": {"to": "a"}})
        for _ in range(2):
            talk.reply(await talk.asked(), {"action": "accept"})
        assert text_of(await talk.answer(call)) == "accept accept"
        assert bank.began == ["a"]


async def test_the_thread_of_a_call_that_nobody_comes_back_to_ends() -> None:
    """A blocking handler is unwound when its time is over, so that its thread is free again."""
    server, ended = Server("bank", limits=Limits(question=0.01)), threading.Event()

    @server.tool(replay=False)
    def pay(ctx: Context) -> str:
        try:
            return ctx.sync.elicit_url("Pay?", PAGE).action
        finally:
            ended.set()

    async with talking(server, MODERN, URL) as talk:
        await talk.call("pay", {})
        assert await asyncio.to_thread(ended.wait, 10)


async def test_calls_that_ended_while_nobody_asked_count_until_somebody_does() -> None:
    """A handler that gives up waiting is kept, with its outcome, under the same cap (limit `parked`)."""
    server, go = Server("bank", limits=Limits(parked=2)), asyncio.Event()

    @server.tool(replay=False)
    async def impatient(ctx: Context) -> str:
        question = asyncio.create_task(ctx.elicit_url("Pay?", PAGE))
        await go.wait()
        question.cancel()
        return "gave up"

    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("impatient", {})
        await talk.call("impatient", {})
        go.set()
        await talk.settled()
        with pytest.raises(Refused, match="limit `parked`"):
            await talk.call("impatient", {})
        go.clear()
        params = {"name": "impatient", "arguments": {}, "requestState": first["requestState"], "inputResponses": {}}
        assert text_of(await talk.ask("tools/call", params)) == "gave up"
        assert (await talk.call("impatient", {}))["resultType"] == "input_required"
