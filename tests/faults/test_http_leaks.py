"""What a server over HTTP still holds after many refused requests, abandoned and deleted sessions: nothing."""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from jackfield import Limits
from jackfield.transport.http.app import App
from jackfield.transport.http.sessions import Session
from tests.asgi import HELLO, MODERN, Call, legacy, message, meta, modern, session, settled, tool
from tests.transport.http.lab import Lab
from tests.transport.http.serve_talk import Served, served

MANY = 1000
NOISE = 300
"""Objects that come and go with the test run itself; one object for each request or session would be more."""


class Counts(NamedTuple):
    """What a server holds."""

    sessions: int
    tasks: int
    waiting: int


async def counts(app: App) -> tuple[Counts, int]:
    """What there is of an application, and all objects of the process."""
    for _ in range(2):  # what is collected is forgotten in the loop's next turn
        await settled()
        gc.collect()
    return Counts(len(app.sessions), len(asyncio.all_tasks()), len(app.waiting)), len(gc.get_objects())


async def nothing_left(app: App, before: tuple[Counts, int]) -> None:
    """Check that an application holds no more than before."""
    now, objects = await counts(app)
    assert now == before[0]
    assert objects - before[1] < NOISE


# ---- refused first requests (F17)

JSON = "application/json"
BOTH = "application/json, text/event-stream"
USUAL = {"host": "127.0.0.1", "content-type": JSON, "accept": BOTH}
CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta()}}).encode()
NONE = {"mcp-protocol-version": MODERN, "mcp-method": "tools/none"}

REFUSED: dict[str, tuple[int, str, bytes, dict[str, str | None]]] = {
    "body is no JSON": (400, "POST", b"{", {}),
    "body is no request": (400, "POST", b'{"jsonrpc":"2.0","id":null,"method":"initialize"}', {}),
    "body is a batch": (400, "POST", b"[" + HELLO + b"]", {}),
    "body is empty": (400, "POST", b"", {}),
    "handshake of no sense": (200, "POST", message("initialize", {}), {}),
    "no session": (400, "POST", message("tools/list"), {}),
    "unknown session": (404, "POST", message("tools/list"), {"mcp-session-id": "nobody"}),
    "modern body without headers": (400, "POST", CALL, {}),
    "modern method that is none": (404, "POST", CALL.replace(b"tools/list", b"tools/none"), NONE),
    "accept": (406, "POST", HELLO, {"accept": "text/html"}),
    "type": (415, "POST", HELLO, {"content-type": "text/plain"}),
    "coding": (415, "POST", HELLO, {"content-encoding": "gzip"}),
    "host": (421, "POST", HELLO, {"host": "evil.example"}),
    "no host": (400, "POST", HELLO, {"host": None}),
    "origin": (403, "POST", HELLO, {"origin": "https://evil.example"}),
    "GET": (405, "GET", b"", {}),
    "GET of an unknown session": (405, "GET", b"", {"mcp-session-id": "nobody"}),
    "DELETE": (400, "DELETE", b"", {}),
    "DELETE of an unknown session": (404, "DELETE", b"", {"mcp-session-id": "nobody"}),
    "PUT": (405, "PUT", HELLO, {}),
}


def headers_of(kind: str) -> dict[str, str]:
    """The headers of the request of that kind."""
    return {name: value for name, value in (USUAL | REFUSED[kind][3]).items() if value is not None}


def bytes_of(kind: str) -> bytes:
    """The request of that kind as it goes over the wire."""
    _, method, body, _ = REFUSED[kind]
    head = "".join(f"{name}: {value}\r\n" for name, value in headers_of(kind).items())
    return f"{method} /mcp HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_thousand_refused_first_requests(kind: str) -> None:
    """Each has its status, and leaves no session, task, exchange or object behind (F17)."""
    app = Lab().server.http_app(loopback=True)
    status, method, body, _ = REFUSED[kind]
    headers = headers_of(kind)

    async def refuse() -> None:
        call = await Call(app, method, headers=headers, body=body).end()
        assert (call.status, "error" in call.json, "mcp-session-id" in call.headers) == (status, True, False)

    for _ in range(10):
        await refuse()
    before = await counts(app)
    for _ in range(MANY):
        await refuse()
    await nothing_left(app, before)


@pytest.mark.parametrize("kept", [True, False])
async def test_a_thousand_refused_over_sockets(kept: bool) -> None:
    """All kinds, and bytes that are no HTTP, on one connection or each on its own: when that is gone, so is everything
    of it (F17, R08).
    """
    app = Lab().server.http_app(loopback=True)
    firsts = [bytes_of(kind) for kind in REFUSED]
    if not kept:
        firsts += [b"\r\x00\r\n\r\n", b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n"]
    async with served(app) as run:  # type: ignore[arg-type]

        async def all_kinds() -> None:
            if kept:
                raw = await run.connect()
                raw.send(b"".join(firsts))
                for _ in firsts:
                    await raw.answer()
                raw.close()
                run._open.remove(raw)
            else:
                await asyncio.gather(*map(alone, firsts))

        async def alone(first: bytes) -> None:
            raw = await run.connect()
            raw.send(first)
            assert (await raw.answer())[0] != 500
            raw.close()
            run._open.remove(raw)

        await all_kinds()
        await quiet(run)
        before = await counts(app)
        for _ in range(MANY // len(firsts)):
            await all_kinds()
        await quiet(run)
        await nothing_left(app, before)


async def quiet(run: Served) -> None:
    """Wait until the server has seen the end of every connection that a test has closed."""
    raw = await run.connect()  # whoever is served after them comes after them
    raw.send(b"GET /none HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
    await raw.rest()
    raw.close()
    run._open.remove(raw)
    await settled()


async def test_remembered_headers_are_few() -> None:
    """What was judged of Host, Accept and Content-Type is remembered, and only so much of it (R08)."""
    app = Lab().server.http_app()
    await modern(app, "tools/list").end()

    async def odd(number: int) -> None:
        for name, value in (
            ("host", f"h{number}.example"),
            ("accept", f"text/x{number}, */*"),
            ("content_type", f"application/json; x={number}"),
        ):
            assert (await modern(app, "tools/list", **{name: value}).end()).status == 200

    for number in range(300):
        await odd(number)
    before = await counts(app)
    for number in range(300, 300 + MANY):
        await odd(number)
    await nothing_left(app, before)


# ---- sessions that nobody uses any more (F16)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[[App], Any]:
    """Gives what waits until an application has no session left."""
    changed = asyncio.Event()
    end = Session.end

    def noted(self: Session) -> None:
        end(self)
        changed.set()

    monkeypatch.setattr(Session, "end", noted)

    async def all_ended(app: App) -> None:
        async with asyncio.timeout(20):
            while len(app.sessions):
                changed.clear()
                await changed.wait()

    return all_ended


def a_call(app: App, id: str, name: str = "wait", **arguments: Any) -> Call:
    """A call in a session: of a tool that goes on until the test lets it, unless another one is named."""
    params = {"name": name, "arguments": arguments or {"mark": "a"}, "_meta": {"progressToken": 1}}
    return legacy(app, message("tools/call", params), id)


@pytest.mark.parametrize("calls", [0, 2])
async def test_a_thousand_abandoned_sessions(calls: int, ended: Callable[[App], Any]) -> None:
    """Sessions without DELETE end in their time, after the handshake or after some calls (F16, R08)."""
    app = Lab(limits=Limits(session_idle=0.1)).server.http_app()

    async def abandon() -> None:
        id = await session(app)
        for _ in range(calls):
            assert (await a_call(app, id, "report", steps=1).end()).status == 200

    await abandon()
    await ended(app)
    before = await counts(app)
    for _ in range(MANY):
        await abandon()
    await ended(app)
    await nothing_left(app, before)


@pytest.mark.parametrize("end", ["answer", "cancelled", "DELETE", "idle", "cap"])
async def test_a_thousand_calls_whose_clients_hung_up(end: str, ended: Callable[[App], Any]) -> None:
    """A call whose client hung up goes on (LH-2); when it has ended, by its answer, by `notifications/cancelled` (as a
    client sends it whose time is over), or with its session, nothing of it is left (F16, F39, R08).
    """
    limits = {"idle": Limits(session_idle=0.1), "cap": Limits(sessions=1)}
    lab = Lab(limits=limits.get(end))
    app = lab.server.http_app()

    async def once() -> None:
        id = await session(app)
        call = a_call(app, id)
        await lab.until_begun()
        call.hang_up()
        await call.end()
        if end == "answer":
            lab.go.set()
        elif end == "cancelled":
            assert (
                await legacy(app, message("notifications/cancelled", {"requestId": 1}, None), id).end()
            ).status == 202
        elif end == "cap":
            await session(app)
        if end in ("answer", "cancelled", "DELETE"):
            await settled()
            assert (await Call(app, "DELETE", headers={"mcp-session-id": id}).end()).status == 200
        if end not in ("answer", "idle"):
            await lab.until(lambda: lab.cancelled == ["a"])
            lab.cancelled.clear()
        lab.go.clear()
        lab.begun.clear()

    async def many(count: int) -> None:
        for _ in range(count):
            await once()
        if end == "idle":
            await ended(app)
            await lab.until(lambda: len(lab.cancelled) == count)
            lab.cancelled.clear()

    await many(1)
    before = await counts(app)
    assert before[0].waiting == 0
    await many(MANY)
    await nothing_left(app, before)


@pytest.mark.parametrize("use", ["handshake", "call", "stream"])
async def test_a_thousand_deleted_sessions(use: str) -> None:
    """Deleted sessions are gone at once, with the calls and streams that were open in them (F16)."""
    lab = Lab()
    app = lab.server.http_app()

    async def delete(count: int) -> None:
        ids = [await session(app) for _ in range(count)]
        calls: list[Call] = []
        if use == "call":
            calls = [a_call(app, id) for id in ids]
        elif use == "stream":
            calls = [a_call(app, id, "report", steps=1, waits=True) for id in ids]
        await lab.until_begun(len(calls))
        for id in ids:
            assert (await Call(app, "DELETE", headers={"mcp-session-id": id}).end()).status == 200
        assert len(app.sessions) == 0
        for call in calls:
            assert (await call.end()).ended
        lab.begun.clear()
        lab.cancelled.clear()

    await delete(5)
    before = await counts(app)
    await delete(MANY)
    await nothing_left(app, before)


async def test_a_thousand_handshakes_beyond_the_cap() -> None:
    """However many come, there are never more than `sessions`, and what made room for them is gone (F16, R08)."""
    app = Lab(limits=Limits(sessions=50)).server.http_app()
    for _ in range(60):
        await session(app)
    before = await counts(app)
    for _ in range(MANY):
        await session(app)
        assert len(app.sessions) == 50
    await nothing_left(app, before)


async def test_a_thousand_requests_without_sessions() -> None:
    """Twenty at a time, handshakes among them, of a server that keeps no sessions (F16, LH-11)."""
    app = Lab().server.http_app(stateless=True)

    async def twenty() -> None:
        params = {"name": "report", "arguments": {"steps": 1}, "_meta": {"progressToken": 1}}
        bodies = [HELLO, message("tools/call", params), message("ping"), message("notifications/initialized", id=None)]
        calls = [legacy(app, body) for body in bodies * 5]
        assert {(await call.end()).status for call in calls} == {200, 202}

    await twenty()
    before = await counts(app)
    for _ in range(MANY // 20):
        await twenty()
    await nothing_left(app, before)


async def test_a_thousand_modern_calls() -> None:
    """Answers in one piece, streams, failures and clients that hang up leave nothing (STATE-1, F16)."""
    lab = Lab()
    app = lab.server.http_app()

    async def four() -> None:
        assert (await tool(app, "add", {"a": 1, "b": 2}).end()).status == 200
        assert (await tool(app, "report", {"steps": 2}, token=1).end()).events
        assert (await tool(app, "none").end()).status == 200
        call = tool(app, "wait", {"mark": "a"})
        await lab.until(lambda: "a" in lab.begun)
        call.hang_up()
        await call.end()
        lab.begun.clear()
        lab.cancelled.clear()

    for _ in range(3):
        await four()
    before = await counts(app)
    for _ in range(MANY // 4):
        await four()
    await nothing_left(app, before)


# ---- what one session may hold (R08)


@pytest.mark.parametrize("where", ["clientInfo", "capabilities"])
async def test_an_idle_session_is_small_whatever_its_client_says(where: str) -> None:
    """A handshake as large as a body may be makes no large session: it is refused, or not all of it is kept (R08)."""
    app = Lab().server.http_app()
    long = "x" * 2**20
    said = {"clientInfo": {"name": "a", "version": "1"}, "capabilities": {}}
    said[where] = {"name": long, "version": "1"} if where == "clientInfo" else {"experimental": {"x": long}}
    body = message("initialize", {"protocolVersion": "2025-11-25", **said})

    async def ten() -> None:
        for _ in range(10):
            await Call(app, headers=USUAL, body=body).end()

    await ten()
    gc.collect()
    tracemalloc.start()
    try:
        await ten()
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size / 10 < 20 * 1024
