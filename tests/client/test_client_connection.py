"""The client's connection: begun once, lost, begun anew, and closed in any order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import ConnectionClosed, PeerError
from jackfield.protocol.limits import Limits
from jackfield.transport.process import Stdio
from tests.client.fakes import INITIALIZED, Fake, Fault, legacy, modern, text_result

SERVER = """
import json, os, sys
INFO = {"name": "real", "version": "1"}
FACTS = {"capabilities": {"tools": {}}, "resultType": "complete", "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}
def answer(message, result):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "server/discover":
        BEFORE
        answer(message, {"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private"} | FACTS)
    elif message["method"] == "tools/call":
        tool = message["params"]["name"]
        if tool == "die":
            print("boom", file=sys.stderr, flush=True)
            os._exit(3)
        if tool == "pid":
            answer(message, {"content": [{"type": "text", "text": str(os.getpid())}]})
"""
QUICK = Limits(grace=0.2)


def real(before: str = "pass") -> Stdio:
    """A modern server in a process: `pid` tells its number, `die` ends it, all other tools are silent."""
    return Stdio(sys.executable, "-c", SERVER.replace("BEFORE", before))


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def pid_of(client: Client) -> int:
    return int((await client.call_tool("pid")).text)


async def test_calls_fail_when_the_server_dies() -> None:
    """Three calls fail at once with the exit code and the last words when one of them kills the server (F11)."""
    async with Client(real()) as client:
        calls = [client.call_tool(name) for name in ("wait", "wait", "die")]
        for fault in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(fault, ConnectionClosed)
            assert (fault.exit_code, fault.stderr) == (3, "boom")
            assert "exit code 3" in str(fault)
            assert "boom" in str(fault)


async def test_server_that_dies_during_the_handshake() -> None:
    """The end of the process while it is being connected to is that same error, not a timeout (F11)."""
    stdio = real("print('no config', file=sys.stderr, flush=True); sys.exit(78)")
    with pytest.raises(ConnectionClosed, match="no config") as caught:
        await Client(stdio, mode="modern").connect()
    assert caught.value.exit_code == 78


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
async def test_many_deaths_under_load() -> None:
    """20 kills, each under 20 calls: every call fails with ConnectionClosed, and no descriptor is left over (R01)."""
    async with Client(real(), limits=QUICK) as client:
        before = 0
        for _ in range(20):
            pid = await pid_of(client)
            before = before or len(os.listdir("/proc/self/fd"))
            calls = [asyncio.create_task(client.call_tool("wait")) for _ in range(20)]
            await pid_of(client)  # all of them are written by now
            os.kill(pid, signal.SIGKILL)
            async with asyncio.timeout(20):  # far below the time of a call
                faults = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(fault) for fault in faults} == {ConnectionClosed}
            assert all("SIGKILL" in str(fault) for fault in faults)
        await pid_of(client)
        assert len(os.listdir("/proc/self/fd")) == before


async def test_next_call_connects_anew() -> None:
    """After the server died the next calls start it again, once for all of them (STDIO-7)."""
    async with Client(real(), limits=QUICK) as client:
        first = await pid_of(client)
        with pytest.raises(ConnectionClosed):
            await client.call_tool("die")
        assert not lives(first)
        pids = await asyncio.gather(*[pid_of(client) for _ in range(5)])
        assert len(set(pids)) == 1
        assert pids[0] != first
        assert client.revision == "2026-07-28"
    assert not lives(pids[0])


async def test_one_attempt_for_all_callers() -> None:
    """Callers who meet a lost connection wait for the same attempt; if one gives up the others do not notice."""
    server = modern(tools__call=text_result("hi"))
    async with Client(server) as client:
        assert server.connection is not None
        server.connection.lost(ConnectionClosed("gone"))
        usual, server.answers["server/discover"] = server.answers["server/discover"], Fake.SILENT
        calls = [asyncio.create_task(client.call_tool("a")) for _ in range(3)]
        await server.until(lambda: server.methods().count("server/discover") == 2)
        calls[0].cancel()
        await asyncio.wait([calls[0]])
        server.say({"id": server.heard[-1]["id"], "result": usual})
        assert [(await call).text for call in calls[1:]] == ["hi", "hi"]
    assert server.starts == server.ends == 2


async def test_failed_attempt_is_not_for_ever() -> None:
    """When connecting anew fails each caller is told, and the next call tries again (F87)."""
    server = modern(tools__call=text_result("hi"))
    async with Client(server) as client:
        usual = server.answers["server/discover"]
        assert server.connection is not None
        server.connection.lost(ConnectionClosed("gone"))
        server.answers["server/discover"] = Fault(-32021, "not now")
        faults = await asyncio.gather(*[client.call_tool("a") for _ in range(3)], return_exceptions=True)
        assert [str(fault) for fault in faults] == ["not now (-32021)"] * 3
        server.answers["server/discover"] = usual
        assert (await client.call_tool("a")).text == "hi"
    assert server.starts == server.ends == 3


async def test_server_that_became_another() -> None:
    """A server that comes back with another era is met in that one."""
    server = legacy(tools__call=text_result("hi"))
    async with Client(server) as client:
        assert client.revision == "2025-11-25"
        server.answers = modern(tools__call=text_result("ho")).answers
        assert server.connection is not None
        server.connection.lost(ConnectionClosed("gone"))
        assert (await client.call_tool("a")).text == "ho"
        assert client.revision == "2026-07-28"


async def test_log_level_survives_a_reconnect() -> None:
    """The new process of a legacy server is told the level that was set; a refusal does no harm."""
    server = legacy(logging__setLevel={})
    async with Client(server) as client:
        await client.set_log_level("error")
        for answer in ({}, Fault(-32603, "broken")):
            server.answers["logging/setLevel"] = answer
            assert server.connection is not None
            server.connection.lost(ConnectionClosed("gone"))
            await client.ping()
    assert server.asked("logging/setLevel") == [{"level": "error"}] * 3


async def test_closing_in_any_order() -> None:
    """Two clients may be closed in the order they were opened, each leaving the other alone (F12)."""
    a, b = Client(real()), Client(real())
    await a.connect()
    await b.connect()
    pid = await pid_of(a)
    await a.close()
    assert not lives(pid)
    pid = await pid_of(b)
    await b.close()
    assert not lives(pid)


async def test_closing_from_another_task() -> None:
    """A client that one task opened another may close, twice too; calls under way fail cleanly (F12)."""
    client = Client(real())
    await asyncio.create_task(client.connect())
    pid = await pid_of(client)
    call = asyncio.create_task(client.call_tool("wait"))
    await asyncio.sleep(0)
    await asyncio.gather(asyncio.create_task(client.close()), asyncio.create_task(client.close()))
    await client.close()
    assert not lives(pid)
    with pytest.raises(ConnectionClosed, match="was closed"):
        await call
    with pytest.raises(ConnectionClosed, match="this client was closed"):
        await client.call_tool("pid")


async def test_closing_while_connecting() -> None:
    """Closing ends an attempt that is under way, and its caller is told why (F12)."""
    server = legacy(initialize=Fake.SILENT)
    client = Client(server)
    connecting = asyncio.create_task(client.connect())
    await server.until(lambda: "initialize" in server.methods())
    await client.close()
    with pytest.raises(ConnectionClosed, match="this client was closed"):
        await connecting
    assert server.starts == server.ends == 1


async def test_closing_while_connecting_to_a_process() -> None:
    """A process that hangs in the handshake is gone when the client is closed (F3)."""
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stdio = real("print(os.getpid(), file=sys.stderr, flush=True); import time; time.sleep(600)")
    stdio.stderr = heard.set_result
    client = Client(stdio, limits=QUICK)
    connecting = asyncio.create_task(client.connect())
    pid = int(await heard)
    await client.close()
    assert not lives(pid)
    with pytest.raises(ConnectionClosed):
        await connecting


async def test_one_of_three_fails() -> None:
    """Of three servers started together the two good ones are closed when the third fails (F3)."""
    good: list[Fake] = [modern(), legacy()]
    bad = modern(server__discover=Fault(-32021, "no"))
    with pytest.raises(PeerError):
        async with Client(good[0]), Client(good[1]), Client(bad):
            pass
    assert [(server.starts, server.ends) for server in [*good, bad]] == [(1, 1)] * 3


async def test_body_that_fails() -> None:
    """An exception in the body of `async with` comes out as it is, and the server is ended."""
    server = modern()
    with pytest.raises(ZeroDivisionError):
        async with Client(server):
            _ = 1 / 0
    assert server.ends == 1


async def test_calls_before_connecting() -> None:
    """A client that was not connected says so, and what to write."""
    client = Client(modern())
    for use in (lambda: client.revision, lambda: client.server):
        with pytest.raises(ConnectionClosed, match="not connected: use `async with"):
            use()
    with pytest.raises(ConnectionClosed, match="not connected: use `async with"):
        await client.call_tool("a")


async def test_connecting_twice() -> None:
    """Connecting a connected client does nothing."""
    server = modern()
    async with Client(server) as client:
        await client.connect()
    assert server.starts == 1


async def test_reader_goes_on_after_strange_replies(caplog: pytest.LogCaptureFixture) -> None:
    """An error that names no request, an answer to an unknown id and one given twice harm no other call (F31)."""
    server = modern(tools__call=text_result("hi"))
    async with Client(server) as client:
        server.say(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}')
        server.say({"id": 4711, "result": {}})
        server.say({"id": "1", "result": {}})
        server.say({"id": server.heard[0]["id"], "result": {}})
        assert (await client.call_tool("a")).text == "hi"
    assert "what?" in caplog.text


async def test_bytes_that_are_no_text(caplog: pytest.LogCaptureFixture) -> None:
    """A line of bad UTF-8 is reported and skipped; in an answer it fails that call (F4)."""
    server = modern(tools__call=lambda message: b'{"jsonrpc":"2.0","id":%d,"result":{"x":"\xff"}}' % message["id"])
    async with Client(server) as client:
        server.say(b"\xff\xfe")
        with pytest.raises(Exception, match="not UTF-8"):
            await client.call_tool("a")
        server.answers["tools/call"] = text_result("hi")
        assert (await client.call_tool("a")).text == "hi"
        assert client.strays == 1
    assert "\\xff\\xfe" in caplog.text


async def test_stray_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Banners and log lines on standard output are reported once each, shortened and with the server's name (F7)."""
    stray = "\\x1b[31mWelcome!\\x1b[0m " + "x" * 1000
    stdio = real(f"print({stray!r}); print('{{not json'); print(42); print()")
    async with Client(stdio) as client:
        assert client.strays == 3
        print_more = "print('later')"
        assert print_more not in caplog.text
        assert await pid_of(client)
    reports = [record.getMessage() for record in caplog.records if "no message" in record.getMessage()]
    assert len(reports) == 3
    assert all(report.startswith("python") or os.path.basename(sys.executable) in report for report in reports)
    assert "Welcome!" in reports[0]
    assert "\x1b" not in reports[0]
    assert len(reports[0]) < 500
    assert "{not json" in reports[1]
    assert reports[2].endswith(": 42")


async def test_names_in_messages(caplog: pytest.LogCaptureFixture) -> None:
    """Once the server has said its name, messages use that, made fit for a terminal."""
    info: dict[str, Any] = INITIALIZED | {"serverInfo": {"name": "evil\x1b[2Jname", "version": "1"}}
    server = legacy(initialize=info)
    async with Client(server):
        server.say(b"hello")
    assert "evil\\x1b[2Jname wrote a line that is no message" in caplog.text
