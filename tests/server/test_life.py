"""The lifespan of a server: entered with the first conversation, left with the last, in a task of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from jackfield import Client, Context, RegistrationError, Server
from tests.server.talk import talking

Lifespan = Callable[[Server], AbstractAsyncContextManager[Any]]


def server_with(lifespan: Lifespan) -> Server:
    server = Server("life", lifespan=lifespan)

    @server.tool
    async def state(ctx: Context) -> str:
        return repr(ctx.state)

    return server


def recorded(log: list[str], state: Any = "state") -> Lifespan:
    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[Any]:
        log.append("start")
        try:
            yield state
        finally:
            await asyncio.sleep(0)
            log.append("end")

    return lifespan


async def test_what_the_lifespan_yields_is_the_state_of_each_request() -> None:
    """`ctx.state` is what the lifespan yielded, which is called with the server; it has ended when the client has
    closed.
    """
    log: list[str] = []
    seen: list[Server] = []

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[dict[str, int]]:
        seen.append(server)
        async with recorded(log)(server):
            yield {"connections": 3}

    server = server_with(lifespan)
    async with Client(server) as client:
        assert (await client.call_tool("state")).text == "{'connections': 3}"
        assert log == ["start"]
    assert log == ["start", "end"]
    assert seen == [server]


async def test_without_a_lifespan_there_is_no_state() -> None:
    """`ctx.state` is None where the server has no lifespan."""
    server = Server("life")

    @server.tool
    async def state(ctx: Context) -> str:
        return repr(ctx.state)

    async with Client(server) as client:
        assert (await client.call_tool("state")).text == "None"


@pytest.mark.parametrize("first", [0, 1])
async def test_several_conversations_share_one_life(first: int) -> None:
    """Two clients share one lifespan, whichever of them closes first; a third one later begins another (STATE-3,
    F12).
    """
    log: list[str] = []
    server = server_with(recorded(log))
    clients = [Client(server), Client(server)]
    await asyncio.gather(*[client.connect() for client in clients])
    assert log == ["start"]
    await clients[first].close()
    assert log == ["start"]
    assert (await clients[1 - first].call_tool("state")).text == "'state'"
    await clients[1 - first].close()
    assert log == ["start", "end"]
    async with Client(server) as client:
        assert (await client.call_tool("state")).text == "'state'"
    assert log == ["start", "end", "start", "end"]


async def test_conversations_may_end_in_another_task_than_they_began() -> None:
    """Opened in one task, closed in another, twice: the lifespan does not care (F12)."""
    log: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:  # both must be left in the task that entered them
            group.create_task(asyncio.sleep(0))
            async with recorded(log)(server):
                yield

    client = Client(server_with(lifespan))
    await asyncio.create_task(client.connect())
    await asyncio.create_task(client.close())
    await asyncio.create_task(client.close())
    assert log == ["start", "end"]


async def test_what_the_lifespan_raises_at_its_start_reaches_the_caller() -> None:
    """A failed start is told to everyone who waited for it, and the next one tries anew."""
    tries = []

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        tries.append(1)
        await asyncio.sleep(0)
        if len(tries) == 1:
            raise OSError("no database")
        yield "database"

    server = server_with(lifespan)

    async def use() -> str:
        async with talking(server) as talk:
            return (await talk.call("state"))["content"][0]["text"]

    found = await asyncio.gather(use(), use(), return_exceptions=True)
    assert [str(each) for each in found] == ["no database", "no database"]
    assert await asyncio.gather(use(), use()) == ["'database'", "'database'"]
    assert len(tries) == 2


async def test_what_the_lifespan_raises_at_its_end_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A failing end is logged with its traceback, not lost, and hurts no client; the next life is a new one."""

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        yield "state"
        raise OSError("the disk is full")

    server = server_with(lifespan)
    for _ in range(2):
        async with talking(server) as talk:
            assert (await talk.call("state"))["content"][0]["text"] == "'state'"
    found = [record for record in caplog.records if "lifespan" in record.message]
    assert len(found) == 2
    assert all(record.levelno == logging.ERROR and "the disk is full" in record.exc_text for record in found)


async def test_a_lifespan_that_breaks_down_does_not_end_the_conversations(caplog: pytest.LogCaptureFixture) -> None:
    """When a background task of the lifespan fails it is logged, and calls, those on threads too, are
    still answered.
    """
    break_down = asyncio.Event()

    async def background() -> None:
        await break_down.wait()
        raise OSError("lost the queue")

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        async with asyncio.TaskGroup() as group:
            group.create_task(background())
            yield "state"

    server = server_with(lifespan)
    server.add_tool(lambda: "still here", name="blocking")
    async with talking(server) as talk:
        await talk.call("state")
        break_down.set()
        await talk.settled()
        assert "lost the queue" in caplog.text
        assert (await talk.call("state"))["content"][0]["text"] == "'state'"
        assert (await talk.call("blocking"))["content"][0]["text"] == "still here"
    async with talking(server):
        pass


async def test_a_start_that_nobody_waits_for_any_more_is_cancelled() -> None:
    """A client that gives up while the lifespan starts does not wait for it, and leaves nothing of it running."""
    log: list[str] = []
    started = asyncio.Event()

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        try:
            log.append("start")
            started.set()
            await asyncio.Event().wait()
            yield
        finally:
            log.append("end")

    client = Client(server_with(lifespan))
    connecting = asyncio.create_task(client.connect())
    await started.wait()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert log == ["start", "end"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_one_of_two_who_wait_for_the_start_may_give_up() -> None:
    """The start goes on for the one who still waits."""
    go_on = asyncio.Event()

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[str]:
        await go_on.wait()
        yield "state"

    server = server_with(lifespan)
    impatient, patient = Client(server), Client(server)
    tasks = [asyncio.create_task(client.connect()) for client in (impatient, patient)]
    for _ in range(5):
        await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    go_on.set()
    await tasks[1]
    assert (await patient.call_tool("state")).text == "'state'"
    await patient.close()


async def test_a_conversation_that_begins_while_the_last_life_ends_waits_for_a_new_one() -> None:
    """Two lives never overlap."""
    log: list[str] = []
    end_begun, may_end = asyncio.Event(), asyncio.Event()

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        log.append("start")
        yield
        end_begun.set()
        await may_end.wait()
        log.append("end")

    server = server_with(lifespan)
    first = Client(server)
    await first.connect()
    closing = asyncio.create_task(first.close())
    await end_begun.wait()
    second = Client(server)
    opening = asyncio.create_task(second.connect())
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == ["start"]
    may_end.set()
    await asyncio.gather(closing, opening)
    assert log == ["start", "end", "start"]
    await second.close()


def test_two_loops_one_after_the_other() -> None:
    """A server serves on one event loop and then on another, threads included."""
    log: list[str] = []
    server = server_with(recorded(log))
    server.add_tool(lambda: "from a thread", name="blocking")

    async def use() -> str:
        async with Client(server) as client:
            await client.call_tool("state")
            return (await client.call_tool("blocking")).text

    assert [asyncio.run(use()) for _ in range(2)] == ["from a thread", "from a thread"]
    assert log == ["start", "end", "start", "end"]


def test_a_loop_that_was_closed_without_goodbye_is_forgotten() -> None:
    """A conversation that its loop did not outlive does not keep the server from a new life."""
    server = server_with(recorded([]))
    server.add_tool(lambda: "from a thread", name="blocking")
    left: list[Client] = []

    async def leave_open() -> None:
        left.append(Client(server))
        await left[0].connect()

    async def use() -> str:
        async with Client(server) as client:
            return (await client.call_tool("blocking")).text

    asyncio.run(leave_open())
    assert asyncio.run(use()) == "from a thread"


async def test_two_loops_at_once_are_refused() -> None:
    """While one loop uses a server, another is told so, instead of sharing its threads and state."""
    server = server_with(recorded([]))

    def elsewhere() -> None:
        async def use() -> None:
            async with talking(server):
                pass

        asyncio.run(use())

    async with talking(server) as talk:
        with pytest.raises(RuntimeError, match="another event loop"):
            await asyncio.to_thread(elsewhere)
        await talk.call("state")


async def test_a_conversation_that_cannot_be_joined_ends_the_life_that_it_began() -> None:
    """When the caller's side of a conversation fails the lifespan is left again."""
    log: list[str] = []

    def fail(channel: object) -> Any:
        raise OSError("no connection")

    with pytest.raises(OSError, match="no connection"):
        await server_with(recorded(log)).__mcp_connect__(fail)
    assert log == ["start", "end"]


def test_a_bare_generator_is_no_lifespan() -> None:
    """The decorator that everybody forgets is named in the error."""

    async def lifespan(server: Server) -> AsyncIterator[None]:
        yield

    with pytest.raises(RegistrationError, match=r"@contextlib\.asynccontextmanager above the lifespan lifespan"):
        Server("life", lifespan=lifespan)  # type: ignore[arg-type]
