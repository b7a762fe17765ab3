"""Requests that are served one after the other in one task are as apart from each other as in tasks of their own."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable

import pytest

from jackfield.protocol.jsonrpc import Answer, Request, encode
from jackfield.transport.connection import Connection
from jackfield.transport.rest import Rest
from tests.transport.fakes import FakeChannel, cancel, request, settle

mark: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


def serving(handlers: dict[str, Callable[[], Awaitable[object]]]) -> tuple[Connection, FakeChannel]:
    """A side that answers each method with what its handler gives."""

    async def serve(asked: Request, connection: Connection) -> bytes:
        return encode(Answer(asked.id, await handlers[asked.method]()))

    channel = FakeChannel()
    return Connection(channel, serve=serve), channel


def results(channel: FakeChannel) -> dict[object, object]:
    return {message["id"]: message.get("result", message.get("error")) for message in channel.sent}


async def test_what_one_request_sets_no_other_sees() -> None:
    """A context variable set by one handler is not there for the next of the same read."""

    async def sets() -> str:
        mark.set("mine")
        return mark.get()

    async def looks() -> str:
        return mark.get()

    connection, channel = serving({"sets": sets, "looks": looks})
    for id, method in enumerate(("sets", "looks", "sets", "looks")):
        connection.receive(request(id, method))
    await settle()
    assert results(channel) == {0: "mine", 1: "none", 2: "mine", 3: "none"}


async def test_a_handler_keeps_its_context_and_task_where_it_waits() -> None:
    """What was set before a wait is there after it and can be reset; the task is the same; a deadline works."""

    async def waits() -> list[object]:
        task, token = asyncio.current_task(), mark.set("before")
        await asyncio.sleep(0)
        after = mark.get()
        mark.reset(token)
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return [after, mark.get(), asyncio.current_task() is task]
        return []

    connection, channel = serving({"waits": waits})
    for id in range(3):
        connection.receive(request(id, "waits"))
    await connection.quiet()
    assert results(channel) == {id: ["before", "none", True] for id in range(3)}


async def test_one_that_waits_holds_up_no_other() -> None:
    """Requests behind one that waits are served meanwhile, whether they wait too or not."""
    gate = asyncio.Event()

    async def waits() -> str:
        await gate.wait()
        return "waited"

    async def quick() -> str:
        return "quick"

    connection, channel = serving({"waits": waits, "quick": quick})
    for id, method in enumerate(("waits", "quick", "waits", "waits", "quick")):
        connection.receive(request(id, method))
    await settle()
    assert results(channel) == {1: "quick", 4: "quick"}
    gate.set()
    await settle()
    assert results(channel) == {0: "waited", 1: "quick", 2: "waited", 3: "waited", 4: "quick"}


async def test_a_handler_that_cancels_its_own_task_hits_no_other() -> None:
    """A cancellation that a handler leaves behind in its task is not thrown into the next request."""

    async def cancels() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    async def waits() -> str:
        await asyncio.sleep(0)
        return "waited"

    connection, channel = serving({"cancels": cancels, "waits": waits})
    for id, method in enumerate(("cancels", "waits", "cancels", "waits")):
        connection.receive(request(id, method))
    await settle()
    assert results(channel) == {0: "done", 1: "waited", 2: "done", 3: "waited"}


async def test_a_request_cancelled_before_it_began_is_never_served() -> None:
    """Its handler does not run, nothing is sent, its place is free, and its id may be used again at once (CAN-3)."""
    ran: list[int] = []

    async def runs() -> str:
        ran.append(1)
        return "ran"

    connection, channel = serving({"runs": runs})
    connection.receive(request(1, "runs"))
    connection.receive(cancel(1))
    connection.receive(request(1, "runs"))
    await settle()
    assert ran == [1]
    assert results(channel) == {1: "ran"}
    await connection.quiet()


async def test_an_exit_of_a_generator_is_a_failure_like_others() -> None:
    """GeneratorExit out of a handler is answered, and the next request is served."""

    async def leaves() -> str:
        raise GeneratorExit

    async def quick() -> str:
        return "quick"

    connection, channel = serving({"leaves": leaves, "quick": quick})
    connection.receive(request(1, "leaves"))
    connection.receive(request(2, "quick"))
    await settle()
    assert results(channel)[1]["code"] == -32603  # type: ignore[index]
    assert results(channel)[2] == "quick"


async def test_the_rest_of_a_coroutine_is_closed_with_its_task() -> None:
    """When the awaiting coroutine is thrown away its inner one is closed too, and runs its `finally`."""
    ended: list[str] = []

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("inner")

    coroutine, context = inner(), contextvars.copy_context()
    waits_for = context.run(coroutine.send, None)

    async def outer() -> None:
        await Rest(coroutine, context, waits_for)

    thrown_away = outer()
    assert thrown_away.send(None) is waits_for
    thrown_away.close()
    assert ended == ["inner"]
    with pytest.raises(RuntimeError):
        coroutine.send(None)
