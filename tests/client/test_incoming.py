"""What a server sends of its own accord, and who hears of it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.client.incoming import BACKLOG, Callbacks, Incoming
from jackfield.protocol.errors import FrameError
from tests.client.fakes import Fake, legacy, modern, text_result


def log_message(n: int, level: str = "info") -> dict[str, Any]:
    return {"method": "notifications/message", "params": {"level": level, "logger": "l", "data": n}}


@pytest.mark.parametrize("make", [modern, legacy])
async def test_log_messages(make: Any) -> None:
    """Log messages go to `on_log` with level, logger and data (LOG-1); a level that there is not goes nowhere."""
    heard: list[Any] = []
    server: Fake = make()
    async with Client(server, on_log=lambda *values: heard.append(values)):
        server.notify("notifications/message", {"level": "alert", "data": {"a": [1]}, "logger": "x"})
        server.notify("notifications/message", {"level": "debug", "data": None})
        server.notify("notifications/message", {"level": "loud", "data": 1})
        server.notify("notifications/message", {"level": "info"})
    assert heard == [("alert", "x", {"a": [1]}), ("debug", None, None)]


async def test_modern_server_is_asked_for_logs() -> None:
    """With `on_log` each modern request asks for messages from `info` on, which legacy servers send unasked (LOG-2)."""
    server = modern(tools__call=text_result(""))
    async with Client(server, on_log=print) as client:
        await client.call_tool("a")
    assert server.asked("tools/call")[0]["_meta"]["io.modelcontextprotocol/logLevel"] == "info"


async def test_lists_that_changed() -> None:
    """Changed lists are told by kind (TOOL-11)."""
    heard: list[str] = []
    server = legacy()
    async with Client(server, on_list_changed=heard.append):
        for kind in ("tools", "resources", "prompts"):
            server.notify(f"notifications/{kind}/list_changed")
    assert heard == ["tools", "resources", "prompts"]


async def test_all_other_notifications() -> None:
    """What no other callback took goes to `on_notification`, known or not; params that are no object go nowhere."""
    heard: list[Any] = []
    server = legacy()
    async with Client(server, on_notification=lambda *values: heard.append(values)) as client:
        server.notify("notifications/resources/updated", {"uri": "a:b"})
        server.notify("notifications/of/the/future", {"x": 1})
        server.notify("notifications/message", {"level": "info", "data": 1})
        server.notify("notifications/tools/list_changed")
        server.say(b'{"jsonrpc":"2.0","method":"x","params":[1]}')
        await client.ping()
    assert [method for method, _ in heard] == [
        "notifications/resources/updated",
        "notifications/of/the/future",
        "notifications/message",
        "notifications/tools/list_changed",
    ]
    assert heard[0][1] == {"uri": "a:b"}


async def test_without_callbacks() -> None:
    """Without callbacks every notification is ignored quietly (F34)."""
    server = legacy()
    async with Client(server) as client:
        for method in ("notifications/message", "notifications/tools/list_changed", "x", "notifications/cancelled"):
            server.notify(method, {"requestId": 99})
        await client.ping()
        assert client.strays == 0


NEWEST: list[Any] = [("info", "l", 9999), (999, None, None)]


@pytest.mark.parametrize("kind", ["plain", "async", "broken", "broken async"])
async def test_flood(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand log and a thousand progress notifications cost neither the result nor memory (F45)."""
    release, newest = asyncio.Event(), asyncio.Event()
    heard: list[Any] = []

    def listen(*values: Any) -> None:
        heard.append(values)
        if kind == "broken":
            raise ValueError

    async def listen_slowly(*values: Any) -> None:
        heard.append(values)
        if all(value in heard for value in NEWEST):
            newest.set()
        await release.wait()
        if kind == "broken async":
            raise ValueError

    def work(message: dict[str, Any]) -> Any:
        for n in range(10_000):
            server.say(log_message(n))
        token = message["params"]["_meta"]["progressToken"]
        for n in range(1000):
            server.notify("notifications/progress", {"progressToken": token, "progress": n})
        return text_result("done")

    callback = listen_slowly if "async" in kind else listen
    server = modern(tools__call=work)
    monkeypatch.setattr(logging.getLogger("jackfield"), "disabled", True)
    async with Client(server, on_log=callback) as client:
        assert (await client.call_tool("a", progress=callback)).text == "done"
        if "async" in kind:
            release.set()
            await newest.wait()  # the oldest are dropped, never these
            assert len(heard) <= 2 * (BACKLOG + 1)
        else:
            assert len(heard) == 11_000


async def test_flood_without_a_callback() -> None:
    """The same flood with nobody listening (F45)."""

    def work(message: dict[str, Any]) -> Any:
        for n in range(10_000):
            server.say(log_message(n))
        return text_result("done")

    server = modern(tools__call=work)
    async with Client(server) as client:
        assert (await client.call_tool("a")).text == "done"


async def test_handler_that_calls_the_server() -> None:
    """A handler of a changed list may ask for the list during a call: the reader never waits for it (F44)."""
    listed: list[str] = []
    done = asyncio.Event()

    async def changed(kind: str) -> None:
        listed.extend([tool.name for tool in await client.list_tools()])
        done.set()

    def work(message: dict[str, Any]) -> Any:
        server.notify("notifications/tools/list_changed")
        return Fake.SILENT

    server = legacy(tools__call=work, tools__list={"tools": [{"name": "new", "inputSchema": {"type": "object"}}]})
    async with Client(server, on_list_changed=changed) as client:
        call = asyncio.create_task(client.call_tool("a"))
        await done.wait()
        asked = next(message for message in server.heard if message["method"] == "tools/call")
        server.say({"id": asked["id"], "result": text_result("b")})
        assert (await call).text == "b"
    assert listed == ["new"]


async def test_handlers_run_one_after_another() -> None:
    """The calls of one async callback never overlap, in whatever turn they came, and keep their order (F44)."""
    running = 0
    heard: list[int] = []
    done = asyncio.Event()

    async def listen(level: str, logger: str | None, data: int) -> None:
        nonlocal running
        running += 1
        assert running == 1
        for _ in range(data % 4):
            await asyncio.sleep(0)
        running -= 1
        heard.append(data)
        if data == 19:
            done.set()

    server = legacy()
    async with Client(server, on_log=listen) as client:
        for n in range(20):
            server.say(log_message(n))
            if n % 3 == 0:
                await client.ping()
        await done.wait()
    assert heard == list(range(20))


LIST_CHANGED = ("notifications/tools/list_changed", {})
UPDATED = ("notifications/resources/updated", {"uri": "a:b"})


@pytest.mark.parametrize(
    ("method", "params", "option"),
    [(*LIST_CHANGED, "on_list_changed"), (*LIST_CHANGED, "on_notification"), (*UPDATED, "on_notification")],
)
async def test_the_same_news_waits_once(method: str, params: dict[str, Any], option: str) -> None:
    """200 notices that a list or a resource changed call a slow callback at most twice: then, and once more (R05)."""
    begun, release, again = asyncio.Event(), asyncio.Event(), asyncio.Event()
    calls: list[Any] = []

    async def changed(*values: Any) -> None:
        calls.append(values)
        (again if release.is_set() else begun).set()
        await release.wait()

    server = legacy()
    async with Client(server, **{option: changed}) as client:
        for n in range(200):
            server.notify(method, params)
            if n == 100:
                await begun.wait()
        assert len(calls) == 1
        release.set()
        await again.wait()
        await client.ping()
        assert len(calls) == 2
        again.clear()
        server.notify(method, params)  # news again: nothing waits any more
        await again.wait()
        assert len(calls) == 3


async def test_different_news_wait_side_by_side() -> None:
    """News of one list or resource does not stand for another's (R05)."""
    release, done = asyncio.Event(), asyncio.Event()
    heard: list[Any] = []

    async def changed(*values: Any) -> None:
        await release.wait()
        heard.append(values[-1])
        if len(heard) == 5:
            done.set()

    server = legacy()
    async with Client(server, on_list_changed=changed, on_notification=changed):
        for _ in range(2):
            for kind in ("tools", "resources", "prompts"):
                server.notify(f"notifications/{kind}/list_changed")
            for uri in ("a:b", "a:c"):
                server.notify("notifications/resources/updated", {"uri": uri})
        release.set()
        await done.wait()
    assert len(heard) == 5
    assert [each for each in heard if isinstance(each, str)] == ["tools", "resources", "prompts"]
    assert [each for each in heard if isinstance(each, dict)] == [{"uri": "a:b"}, {"uri": "a:c"}]


async def test_handler_that_closes_the_client() -> None:
    """A handler may close its own client; what waited in its queue is dropped."""
    closed = asyncio.Event()

    async def changed(kind: str) -> None:
        await client.close()
        await asyncio.sleep(0)  # where a cancellation would strike
        closed.set()

    server = legacy()
    client = Client(server, on_list_changed=changed)
    await client.connect()
    server.notify("notifications/tools/list_changed")
    server.notify("notifications/prompts/list_changed")
    await closed.wait()
    assert server.ends == 1


async def test_close_stops_a_handler() -> None:
    """A handler that runs when the client is closed is cancelled."""
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def changed(kind: str) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    server = legacy()
    async with Client(server, on_list_changed=changed):
        server.notify("notifications/tools/list_changed")
        await begun.wait()
        assert not stopped.is_set()
    await stopped.wait()
    assert server.ends == 1


async def test_legacy_servers_requests() -> None:
    """A legacy server's ping is answered, with its own id; what was not declared is -32601 (LIFE-6, F34)."""
    server = legacy()
    async with Client(server):
        for id, method in ((0, "ping"), ("s", "ping"), (5, "sampling/createMessage"), (6, "roots/list"), (7, "x\x1b")):
            server.say({"id": id, "method": method, "params": {}})
        await server.until(lambda: len([m for m in server.heard if "method" not in m]) == 5)
    answers = {message["id"]: message for message in server.heard if "method" not in message}
    assert answers[0]["result"] == answers["s"]["result"] == {}
    assert [answers[id]["error"]["code"] for id in (5, 6, 7)] == [-32601] * 3


async def test_modern_servers_requests(caplog: pytest.LogCaptureFixture) -> None:
    """On the modern wire a client never answers: a request is reported and dropped (STDIO-3, BASE-6)."""
    server = modern(tools__call=text_result("hi"))
    async with Client(server) as client:
        for id in range(3):
            server.say({"id": id, "method": "ping"})
        await asyncio.sleep(0)
        await client.call_tool("a")
    assert all("method" in message for message in server.heard)
    assert "fake sent a request (ping)" in caplog.text


def test_a_flood_of_stray_lines_does_not_fill_the_logs(caplog: pytest.LogCaptureFixture) -> None:
    """After a hundred reports lines that are no messages are only counted, which is said once (F7, O02)."""
    incoming = Incoming(Callbacks(None, None, None), lambda kind, uri: None)
    for _ in range(1000):
        incoming.stray("noisy", b"y", FrameError(-32700, "not JSON"))
    assert incoming.strays == 1000
    assert len(caplog.records) == 101
    assert "no more of them are reported" in caplog.records[-1].getMessage()
