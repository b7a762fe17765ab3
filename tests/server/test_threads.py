"""`def` handlers run on threads: side by side, bounded, never joined."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import weakref

import pytest

from jackfield import Limits, Server
from jackfield.server.threads import Threads
from tests.server.talk import talking


async def test_two_blocking_tools_run_side_by_side_and_pings_are_answered() -> None:
    """Each of two `def` tools waits for the other, and a ping is answered meanwhile (F37)."""
    server = Server("threads")
    both = threading.Barrier(3)

    @server.tool
    def wait() -> str:
        both.wait(10)
        return threading.current_thread().name

    async with talking(server, "2025-11-25") as talk:
        calls = [talk.send("tools/call", {"name": "wait"}) for _ in range(2)]
        assert await talk.ask("ping") == {}
        await asyncio.to_thread(both.wait, 10)
        for call in calls:
            assert (await talk.answer(call))["content"][0]["text"] == "jackfield-handler"


async def test_blocking_resources_prompts_and_completions_leave_the_loop_free() -> None:
    """`def` handlers of every kind run on threads of their own (F37)."""
    server = Server("threads")
    all_four = threading.Barrier(5)

    def handler() -> str:
        all_four.wait(10)
        return threading.current_thread().name

    server.add_tool(handler, name="tool")
    server.add_resource("x://fixed", handler)
    server.add_resource("x://of/{name}", lambda name: handler())

    @server.prompt
    def prompt(a: str = "") -> str:
        return handler()

    @server.completion("prompt", "a")
    def complete(typed: str) -> list[str]:
        return [handler()]

    async with talking(server, "2025-11-25") as talk:
        asked = [
            talk.send("tools/call", {"name": "tool"}),
            talk.send("resources/read", {"uri": "x://fixed"}),
            talk.send("prompts/get", {"name": "prompt"}),
            talk.send(
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": "prompt"}, "argument": {"name": "a", "value": ""}},
            ),
        ]
        assert await talk.ask("ping") == {}
        await asyncio.to_thread(all_four.wait, 10)
        for id in asked:
            assert "jackfield-handler" in str(await talk.answer(id))


async def test_no_more_threads_than_the_limit_run_and_the_rest_wait() -> None:
    """With a limit of two, the third call starts when one of two has ended (limit `threads`)."""
    server = Server("threads", limits=Limits(threads=2))
    started = threading.Semaphore(0)
    go_on = threading.Semaphore(0)
    running = []

    @server.tool
    def block(number: int) -> None:
        running.append(number)
        started.release()
        go_on.acquire(timeout=10)

    async with talking(server) as talk:
        calls = [talk.send("tools/call", {"name": "block", "arguments": {"number": n}}) for n in range(3)]
        for _ in range(2):
            assert await asyncio.to_thread(started.acquire, timeout=10)
        await talk.settled()
        assert sorted(running) == [0, 1]
        go_on.release()
        assert await asyncio.to_thread(started.acquire, timeout=10)
        assert running[2] == 2
        go_on.release(2)
        for call in calls:
            await talk.answer(call)


async def test_sixty_four_threads_are_the_default() -> None:
    """Sixty-four blocking calls run at once without anybody asking for it."""
    threads = Threads(Limits().threads, 256)
    together = threading.Barrier(64)
    ends = await asyncio.gather(*[threads.run(together.wait, 10) for _ in range(64)])
    assert sorted(ends) == list(range(64))
    threads.close()


async def test_a_busy_thread_is_never_taken_for_an_idle_one() -> None:
    """Call after call, each blocked until the next one has started: none waits for a thread that is busy (F37)."""
    threads = Threads(64, 256)
    for _ in range(50):
        first, second = threading.Event(), threading.Event()

        def one(first: threading.Event = first, second: threading.Event = second) -> bool:
            first.set()
            return second.wait(10)

        running = asyncio.create_task(threads.run(one))
        await threads.run(first.wait, 10)
        await threads.run(second.set)
        assert await running
    threads.close()


async def test_short_calls_share_a_thread() -> None:
    """Calls that come one after the other need no second thread."""
    threads = Threads(64, 256)
    names = {await threads.run(threading.get_ident) for _ in range(50)}
    assert len(names) == 1
    threads.close()


async def test_a_call_that_was_cancelled_while_it_waited_is_not_made() -> None:
    """What nobody waits for any more is not begun (CAN-3)."""
    threads = Threads(1, 256)
    begun, go_on, made = threading.Event(), threading.Event(), []

    def block() -> None:
        begun.set()
        go_on.wait(10)

    busy = asyncio.create_task(threads.run(block))
    waiting = asyncio.create_task(threads.run(made.append, "made"))
    await asyncio.to_thread(begun.wait, 10)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    await busy
    await threads.run(int)
    assert made == []
    threads.close()


async def test_a_result_that_nobody_waits_for_is_dropped() -> None:
    """A call that is cancelled while it runs goes on, its result is dropped, and the thread serves the next."""
    threads = Threads(1, 256)
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        go_on.wait(10)
        ended.set()
        raise ValueError("nobody hears this")

    running = asyncio.create_task(threads.run(block))
    await asyncio.to_thread(begun.wait, 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    go_on.set()
    assert await threads.run(ended.wait, 10)
    threads.close()


async def test_context_variables_reach_the_thread() -> None:
    """A thread sees the caller's context variables, and what it sets stays with it (F28)."""
    variable = contextvars.ContextVar("variable", default="none")
    threads = Threads(1, 256)

    def swap(value: str) -> str:
        found = variable.get()
        variable.set(value)
        return found

    variable.set("caller's")
    assert await threads.run(swap, "thread's") == "caller's"
    assert await threads.run(swap, "again") == "caller's"
    assert variable.get() == "caller's"
    threads.close()


@pytest.mark.parametrize("fault", [ValueError("x"), SystemExit(3), KeyError(), asyncio.CancelledError()])
async def test_what_a_call_raises_reaches_the_caller(fault: BaseException) -> None:
    """Any exception of the function is raised where the call was awaited, and the thread lives on."""
    threads = Threads(1, 256)

    def fail() -> None:
        raise fault

    with pytest.raises(type(fault)):
        await threads.run(fail)
    assert await threads.run(int, "7") == 7
    threads.close()


async def test_stop_iteration_becomes_a_runtime_error() -> None:
    """StopIteration, which no future can carry, is told as a RuntimeError."""
    threads = Threads(1, 256)
    with pytest.raises(RuntimeError, match="StopIteration"):
        await threads.run(next, iter(()))
    threads.close()


async def test_an_idle_thread_keeps_nothing_of_the_last_call() -> None:
    """Arguments, result and exception of a call can be freed while the thread waits for the next one."""

    class Large:
        pass

    threads = Threads(1, 256)
    large = Large()
    gone = weakref.ref(large)
    assert await threads.run(lambda each: each is not None, large)
    del large
    gc.collect()
    assert gone() is None
    threads.close()


async def test_after_the_end_nothing_is_taken() -> None:
    """Once the server has ended a call is refused, instead of waiting for a thread that never comes."""
    threads = Threads(1, 256)
    threads.close()
    with pytest.raises(RuntimeError, match="server has ended"):
        await threads.run(int)


async def test_threads_end_when_they_are_closed() -> None:
    """After `close` every thread has ended, as soon as its work is done."""
    threads = Threads(4, 256)
    found = []
    together = threading.Barrier(4)

    def remember() -> None:
        found.append(threading.current_thread())
        together.wait(10)

    await asyncio.gather(*[threads.run(remember) for _ in range(4)])
    threads.close()
    for thread in found:
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()


def test_a_loop_that_was_closed_meanwhile_is_no_trouble() -> None:
    """A thread that ends its work after the loop was closed drops the result and ends."""
    begun, go_on, found = threading.Event(), threading.Event(), []

    def block() -> None:
        found.append(threading.current_thread())
        begun.set()
        go_on.wait(10)

    async def main() -> None:
        threads = Threads(1, 256)
        task = asyncio.create_task(threads.run(block))
        await asyncio.to_thread(begun.wait, 10)
        task.cancel()
        threads.close()

    asyncio.run(main())
    go_on.set()
    found[0].join(10)
    assert not found[0].is_alive()


def test_a_blocked_thread_does_not_keep_the_process_alive() -> None:
    """The interpreter ends though a handler is blocked for ever."""
    code = (
        "import asyncio, threading\n"
        "from jackfield.server.threads import Threads\n"
        "async def main():\n"
        "    begun = threading.Event()\n"
        "    def block():\n"
        "        begun.set()\n"
        "        threading.Event().wait()\n"
        "    task = asyncio.create_task(Threads(1, 256).run(block))\n"
        "    while not begun.is_set():\n"
        "        await asyncio.sleep(0.001)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
        "print('ended')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "ended\n"
