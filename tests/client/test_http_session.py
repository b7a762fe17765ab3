"""Sessions of legacy HTTP servers: forgotten by the server, begun anew once, for all calls that noticed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import ConnectionClosed, HttpError, NotSupported, PeerError, SessionExpired
from jackfield.protocol.limits import Limits
from jackfield.protocol.types import PromptReference
from tests.client.fakes import text_result
from tests.client.web import Post, Reply, Web, fault, initialized, legacy_web, modern_web, running

SHAKE = ["initialize", "notifications/initialized"]
COMPLETED = {"completion": {"values": []}}
PROMPT = PromptReference("p")


class Forgetful:
    """A server with sessions s-1, s-2, ...; `forget` makes it know those of before no more."""

    def __init__(self, **answers: Any) -> None:
        self.given = 0
        self.known: set[str] = set()
        self.web = legacy_web(**answers)
        inner = self.web.answers
        self.web.answers = {method: self._guarded(answer) for method, answer in inner.items()}
        self.web.answers["server/discover"] = inner["server/discover"]
        self.web.answers["initialize"] = self._initialize

    def forget(self) -> None:
        self.known.clear()

    def _initialize(self, post: Post) -> Reply:
        assert "mcp-session-id" not in post.headers  # LH-8
        self.given += 1
        self.known.add(f"s-{self.given}")
        reply: Reply = initialized(f"s-{self.given}")(post)
        return reply

    def _guarded(self, answer: Any) -> Any:
        def guarded(post: Post) -> Any:
            if post.headers.get("mcp-session-id") not in self.known:
                return fault(-32001, "Session not found", status=404, id=None)(post)
            return answer(post) if callable(answer) else answer

        return guarded


async def test_one_call_after_the_session_was_forgotten() -> None:
    """A 404 leads to a new handshake without the old id, and the call is made once more (F13, LH-8)."""
    server = Forgetful(tools__call=text_result("hi"), ping={}, logging__setLevel={}, completion__complete=COMPLETED)
    async with running(server.web) as web, Client(web.url) as client:
        for work in (
            lambda: client.call_tool("a"),
            lambda: client.ping(),
            lambda: client.set_log_level("error"),
            lambda: client.complete(PROMPT, "a", ""),
        ):
            await work()
            server.forget()
            given = server.given
            web.heard.clear()
            await work()
            assert server.given == given + 1
            assert web.methods()[1:3] == SHAKE
        assert web.methods()[-1] == "completion/complete"


async def test_many_calls_share_one_renewal() -> None:
    """Calls that all find the session gone begin one new session, and each of them is made once more (F13)."""
    server = Forgetful(tools__call=lambda post: text_result(post.message["params"]["name"]))
    async with running(server.web) as web, Client(web.url) as client:
        server.forget()
        results = await asyncio.gather(*[client.call_tool(f"t{n}") for n in range(20)])
        assert [result.text for result in results] == [f"t{n}" for n in range(20)]
        assert server.given == 2
        calls = web.posts("tools/call")
        assert sum(post.headers["mcp-session-id"] == "s-2" for post in calls) == 20
        assert len(calls) <= 40
    assert [post.headers["mcp-session-id"] for post in web.posts("DELETE")] == ["s-2"]


async def test_call_in_flight_on_the_old_session() -> None:
    """A call that the server still answers on the old session goes on while another one renews it (F13)."""
    go_on = asyncio.Event()

    async def answer(post: Post) -> Any:
        if post.message["params"]["name"] == "long":
            await go_on.wait()
        return text_result(post.headers["mcp-session-id"])

    server = Forgetful(tools__call=answer)
    async with running(server.web) as web, Client(web.url) as client:
        long = asyncio.create_task(client.call_tool("long"))
        await web.until(lambda: bool(web.posts("tools/call")))
        server.forget()
        assert (await client.call_tool("short")).text == "s-2"
        assert not long.done()
        go_on.set()
        assert (await long).text == "s-1"
    before = asyncio.all_tasks()
    assert before == {asyncio.current_task()}


async def test_close_while_the_old_session_is_in_use() -> None:
    """Closing ends the calls of old sessions too."""
    waits = asyncio.Event()

    async def answer(post: Post) -> Any:
        if post.message["params"]["name"] == "long":
            waits.set()
            await post.gone.wait()
        return text_result("hi")

    server = Forgetful(tools__call=answer)
    async with running(server.web) as web:
        async with Client(web.url) as client:
            long = asyncio.create_task(client.call_tool("long"))
            await waits.wait()
            server.forget()
            await client.call_tool("short")
        with pytest.raises(ConnectionClosed, match="was closed"):
            await long
        await web.until(lambda: web.sockets == 0)


async def test_second_404_is_an_error() -> None:
    """Where the new session is not known either the call fails, and no handshake follows without end (F13, F27)."""
    web = legacy_web(tools__call=fault(-32001, "Session not found", status=404, id=None))
    async with running(web), Client(web.url) as client:
        with pytest.raises(SessionExpired, match="does not know the session any more"):
            await client.call_tool("a")
        assert web.methods() == ["server/discover", *SHAKE, "tools/call", *SHAKE, "tools/call"]
        web.answers["tools/call"] = text_result("hi")
        assert (await client.call_tool("a")).text == "hi"


async def test_404_without_a_session() -> None:
    """Where no session was ever set a 404 is an error of its own; the call is not repeated (F13)."""
    web = legacy_web(None, tools__call=Reply(404, b"nope", "text/plain"))
    async with running(web), Client(web.url) as client:
        with pytest.raises(HttpError, match="HTTP 404"):
            await client.call_tool("a")
    assert web.methods() == ["server/discover", *SHAKE, "tools/call"]


async def test_unknown_method_in_a_session() -> None:
    """A 404 that is the answer to this very request, unknown method, does not end the session."""
    web = legacy_web("s-1", tools__call=fault(-32601, "no tools", status=404))
    async with running(web), Client(web.url) as client:
        with pytest.raises(PeerError, match="no tools"):
            await client.call_tool("a")
    assert web.methods() == ["server/discover", *SHAKE, "tools/call", "DELETE"]


async def test_renewal_that_fails() -> None:
    """Where the new handshake fails, that is the error, for all who waited; the next call tries again."""
    server = Forgetful(tools__call=text_result("hi"))
    async with running(server.web) as web, Client(web.url) as client:
        server.forget()
        web.answers["initialize"] = Reply(500)
        for fault_ in await asyncio.gather(*[client.call_tool("a") for _ in range(3)], return_exceptions=True):
            assert isinstance(fault_, HttpError)
        assert web.methods().count("initialize") == 2
        web.answers["initialize"] = server._initialize
        assert (await client.call_tool("a")).text == "hi"


async def test_log_level_is_asked_for_again() -> None:
    """A new session is asked for the log messages that the old one was asked for (LOG-3)."""
    server = Forgetful(tools__call=text_result("hi"), logging__setLevel={})
    async with running(server.web) as web, Client(web.url) as client:
        await client.set_log_level("error")
        server.forget()
        await client.call_tool("a")
        assert [post.message["params"]["level"] for post in web.posts("logging/setLevel")] == ["error"] * 2


async def test_session_that_a_modern_server_replaced() -> None:
    """A server that comes back modern answers the renewal's handshake with a refusal, and is then probed (ERA-H2)."""
    server = Forgetful(tools__call=text_result("legacy"))
    async with running(server.web) as web, Client(web.url) as client:
        assert (await client.call_tool("a")).text == "legacy"
        web.answers = modern_web(tools__call=text_result("modern")).answers
        web.answers["tools/call"] = lambda post: (
            text_result("modern") if "mcp-method" in post.headers else fault(-32001, "who?", status=404, id=None)(post)
        )
        assert (await client.call_tool("a")).text == "modern"
        assert client.revision == "2026-07-28"


async def test_two_workers_behind_one_address() -> None:
    """Each worker knows its own sessions only: every wrong one costs a renewal, and every call succeeds (F27)."""
    known: list[set[str]] = [set(), set()]
    turn = 0

    def worker() -> set[str]:
        nonlocal turn
        turn += 1
        return known[turn // 3 % 2]  # the balancer sends three requests to each in turn

    def initialize(post: Post) -> Any:
        name = f"s-{turn}"
        worker().add(name)
        return initialized(name)(post)

    def answer(post: Post) -> Any:
        if post.headers["mcp-session-id"] in worker():
            return text_result("hi")
        return fault(-32001, "Session not found", status=404, id=None)(post)

    web = legacy_web(initialize=initialize, tools__call=answer)
    async with running(web), Client(web.url, limits=Limits(grace=0.1)) as client:
        for _ in range(50):
            assert (await client.call_tool("a")).text == "hi"


async def test_refused_handshake_is_told_once() -> None:
    """A handshake that a legacy-only client is refused for good names the answer."""
    web = Web({"initialize": Reply(404, b"nope", "text/plain")})
    async with running(web):
        with pytest.raises(NotSupported, match="HTTP 404 Not Found"):
            await Client(web.url, mode="legacy").connect()
