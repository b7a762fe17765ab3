"""Questions of a legacy server over time: several at once, time limits, and who gives up first."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.client.questions import ClientQuestion
from jackfield.protocol.errors import RequestTimeout
from jackfield.protocol.limits import Limits
from tests.client.fakes import Fake, form, legacy, modern, text_result
from tests.client.handlers import ELICIT, Waiter

CANCEL = {"action": "cancel"}


# ---- several at a time


async def test_plain_handlers_take_turns() -> None:
    """Plain handlers run on threads, so that the conversation goes on while one blocks; two would read one terminal."""
    began, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    threads: list[str] = []

    def elicit(question: ClientQuestion) -> bool:
        threads.append(threading.current_thread().name)
        loop.call_soon_threadsafe(began.set)
        go.wait(10)
        return True

    server = legacy()
    async with Client(server, elicit=elicit) as client:
        asked = [asyncio.create_task(server.ask(ELICIT, form())) for _ in range(2)]
        await began.wait()
        await client.ping()
        assert len(threads) == 1
        go.set()
        answers = [(await each)["result"] for each in asked]
    assert len(threads) == 2
    assert answers == [{"action": "accept", "content": {}}] * 2
    assert threading.main_thread().name not in threads


async def test_too_many_at_once() -> None:
    """Of a legacy server so many questions are taken for each call; the next one is refused, by name (P12)."""
    release = asyncio.Event()
    shown: list[ClientQuestion] = []

    async def elicit(question: ClientQuestion) -> bool:
        shown.append(question)
        await release.wait()
        return False

    server = legacy()
    async with Client(server, elicit=elicit, limits=Limits(questions=3)) as client:
        asked = [asyncio.create_task(server.ask(ELICIT, form())) for _ in range(100)]
        await server.until(lambda: sum("error" in message for message in server.heard) == 97)
        assert len(shown) == 3
        release.set()
        answers = [await each for each in asked]
        assert "error" in await server.ask(ELICIT, form())
        await client.ping()
        assert (await server.ask(ELICIT, form()))["result"] == {"action": "decline"}
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert len(errors) == 97
    assert all(error["code"] == -32603 and "limit `questions`" in error["message"] for error in errors)


async def test_threads_that_nobody_waits_for_count() -> None:
    """A handler that blocks its thread beyond its time still counts: a server cannot make threads without end."""
    release = threading.Event()

    def block(question: ClientQuestion) -> None:
        release.wait()

    server = legacy()
    async with Client(server, elicit=block, limits=Limits(questions=1, question=0.01)) as client:
        assert (await server.ask(ELICIT, form()))["result"] == CANCEL
        await client.ping()
        assert (await server.ask(ELICIT, form()))["error"]["code"] == -32603
        release.set()
        while "error" in (answer := await server.ask(ELICIT, form())):
            await client.ping()
    assert answer["result"] == CANCEL


# ---- who gives up first


async def test_server_withdraws_its_question() -> None:
    """A question that the server cancels is not asked any longer, and not answered (CAN-4)."""
    waiter, server = Waiter(), legacy()
    async with Client(server, elicit=waiter) as client:
        server.say({"id": "q", "method": ELICIT, "params": form()})
        await waiter.begun.wait()
        server.notify("notifications/cancelled", {"requestId": "q"})
        await waiter.cancelled.wait()
        await client.ping()
    assert server.answer_to("q") is None


async def test_client_is_closed() -> None:
    """When the client is closed nobody is asked any longer."""
    waiter, server = Waiter(), legacy()
    async with Client(server, elicit=waiter):
        server.say({"id": "q", "method": ELICIT, "params": form()})
        await waiter.begun.wait()
    await waiter.cancelled.wait()
    assert server.answer_to("q") is None


async def test_time_of_a_call_stands_still() -> None:
    """While a question is open the time of our calls stands still, and goes on after it."""

    async def elicit(question: ClientQuestion) -> bool:
        await asyncio.sleep(0.15)
        return True

    async def ask_first(message: dict[str, Any]) -> None:
        await server.ask(ELICIT, form())
        server.say({"id": message["id"], "result": text_result("done")})

    running: list[asyncio.Task[None]] = []

    def work(message: dict[str, Any]) -> Any:
        if message["params"]["name"] == "asks":
            running.append(asyncio.create_task(ask_first(message)))
        return Fake.SILENT

    server = legacy(tools__call=work)
    async with Client(server, elicit=elicit) as client:
        assert (await client.call_tool("asks", timeout=0.05)).text == "done"
        with pytest.raises(RequestTimeout):
            await client.call_tool("silent", timeout=0.01)
    await asyncio.gather(*running)


async def test_modern_servers_never_ask_by_request(caplog: pytest.LogCaptureFixture) -> None:
    """A modern server's request is not answered, handlers or not (BASE-6)."""
    seen: list[ClientQuestion] = []
    server = modern()
    with caplog.at_level(logging.WARNING, "jackfield"):
        async with Client(server, elicit=seen.append) as client:
            server.say({"id": "q", "method": ELICIT, "params": form()})
            await client.ping()
    assert (seen, server.answer_to("q")) == ([], None)
