"""The application as a whole: which era a request is of, where it answers, how it begins and ends, what it leaves."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jackfield import Limits, Server
from tests.asgi import HELLO, MODERN, USUAL, Call, changed, legacy, message, meta, modern, session, settled, tool

from .lab import Lab


@pytest.fixture
def lab() -> Lab:
    """A lab with the default limits."""
    return Lab()


def error_of(call: Call) -> tuple[int, int]:
    return call.status, call.json["error"]["code"]


# ---- which era


async def test_both_eras_are_served_at_once(lab: Lab) -> None:
    """One endpoint answers sessions and modern requests side by side (ERA-V1)."""
    app = lab.server.http_app()
    id = await session(app)
    calls = [legacy(app, message("ping"), id), modern(app, "server/discover"), modern(app, "tools/list")]
    assert [(await call.end()).status for call in calls] == [200, 200, 200]
    assert "ttlMs" in calls[2].json["result"]


async def test_a_modern_request_knows_no_session(lab: Lab) -> None:
    """The session id on a modern request means nothing, known or not (HTTP-1, STATE-1)."""
    app = lab.server.http_app()
    id = await session(app)
    for each in (id, "unknown"):
        call = await tool(app, "add", {"a": 1, "b": 2}, mcp_session_id=each).end()
        assert call.status == 200
        assert "mcp-session-id" not in call.headers
    gone = await Call(app, "DELETE", headers={"mcp-session-id": id, "mcp-protocol-version": MODERN}).end()
    assert gone.status == 405
    assert len(app.sessions) == 1


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe"])
async def test_removed_methods_with_modern_metadata_are_unknown(lab: Lab, method: str) -> None:
    """What the server answers on the legacy wire is 404 on the modern one (ERA-V5)."""
    assert error_of(await modern(lab.server.http_app(), method, {"level": "info", "uri": "x:y"}).end()) == (404, -32601)


@pytest.mark.parametrize("method", ["tools/list", "initialize"])
async def test_modern_metadata_without_the_header_is_refused(lab: Lab, method: str) -> None:
    """`_meta` says modern and no header does: 400 and HeaderMismatch, with the id (HDR-3)."""
    hello = {"protocolVersion": MODERN, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    params = hello if method == "initialize" else {}
    call = await modern(lab.server.http_app(), method, params, id=9, mcp_protocol_version=None).end()
    assert (*error_of(call), call.json["id"]) == (400, -32020, 9)


async def test_a_header_that_says_otherwise_is_refused(lab: Lab) -> None:
    """Header and `_meta` name different versions: 400 and HeaderMismatch (HDR-2)."""
    app = lab.server.http_app()
    for version in ("2025-06-18", "2099-01-01", "2026-07-28, 2026-07-28"):
        assert error_of(await modern(app, "tools/list", mcp_protocol_version=version).end()) == (400, -32020)


async def test_a_padded_header_is_taken(lab: Lab) -> None:
    """White space around a header's value does not count (HDR-1)."""
    assert (await modern(lab.server.http_app(), "tools/list", mcp_protocol_version=" 2026-07-28 ").end()).status == 200


async def test_a_version_that_there_is_not_yet_is_told(lab: Lab) -> None:
    """Header and body agree on an unknown version: 400 and what is supported (DISC-4)."""
    version = "v999.0.0"
    params = {"_meta": {"io.modelcontextprotocol/protocolVersion": version}}
    call = await modern(lab.server.http_app(), "tools/list", params, mcp_protocol_version=version).end()
    assert error_of(call) == (400, -32022)
    assert call.json["error"]["data"] == {"supported": [MODERN], "requested": version}


async def test_a_modern_header_without_metadata_is_refused(lab: Lab) -> None:
    """The header says modern, `_meta` is not there: 400 and invalid params (META-3)."""
    headers = USUAL | {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
    app = lab.server.http_app()
    assert error_of(await Call(app, headers=headers, body=message("tools/list")).end()) == (400, -32602)


async def test_metadata_that_cannot_be_read_is_told(lab: Lab) -> None:
    """A mistyped version is the request's fault, not the transport's (META-3)."""
    for wrong in ({"_meta": meta() | {"io.modelcontextprotocol/protocolVersion": 7}}, {"_meta": "protocolVersion"}):
        headers = USUAL | {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
        call = await Call(lab.server.http_app(), headers=headers, body=message("tools/list", wrong)).end()
        assert error_of(call) == (400, -32602)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[]", -32600),
        (b"1", -32600),
        (b'{"jsonrpc":"1.0","method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
    ],
)
async def test_what_is_no_request_is_refused(lab: Lab, body: bytes, code: int) -> None:
    """Unreadable bodies, arrays, answers and other shapes are 400 (4.5, BASE-3, BASE-5, BASE-6, F30, F33)."""
    headers = USUAL | {"mcp-protocol-version": MODERN}
    call = await Call(lab.server.http_app(), headers=headers, body=body).end()
    assert error_of(call) == (400, code)
    assert "id" not in call.json


async def test_a_fault_of_the_envelope_has_the_id(lab: Lab) -> None:
    """Where the request's id could be read it is in the error (HDR-3, F4)."""
    for body, code in (
        (b'{"jsonrpc":"1.0","id":7,"method":"x"}', -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":1}', -32600),
    ):
        call = await Call(lab.server.http_app(), headers=USUAL, body=body).end()
        assert (*error_of(call), call.json["id"]) == (400, code, 7)


async def test_a_modern_notification_is_accepted(lab: Lab) -> None:
    """202 and no body, with any headers (HTTP-3)."""
    app = lab.server.http_app()
    body = message("notifications/cancelled", {"requestId": 1, "_meta": meta()}, None)
    call = await Call(app, headers=USUAL | {"mcp-protocol-version": MODERN}, body=body).end()
    assert (call.status, call.body) == (202, b"")


async def test_a_modern_only_server() -> None:
    """initialize is 404 and names what to do; a request without the version header is 400 (ERA-V3, ERA-V4)."""
    app = Lab(eras=["modern"]).server.http_app()
    hello = await Call(app, headers=USUAL, body=HELLO).end()
    assert error_of(hello) == (404, -32601)
    assert hello.json["error"]["data"]["supported"] == [MODERN]
    call = await Call(app, headers=USUAL, body=message("tools/list", id=4)).end()
    assert (*error_of(call), call.json["id"]) == (400, -32020, 4)
    assert (await modern(app, "tools/list", accept="application/json").end()).status == 200
    assert (await Call(app, "DELETE", headers={"mcp-session-id": "x"}).end()).headers["allow"] == "POST"


@pytest.mark.parametrize("version", [MODERN, "v999.0.0"])
async def test_a_legacy_only_server(version: str) -> None:
    """A modern request gets no code of its era, so that a client of both falls back to initialize (ERA-H1)."""
    app = Lab(eras=["legacy"]).server.http_app()
    call = await modern(app, "server/discover", mcp_protocol_version=version).end()
    assert error_of(call) == (400, -32000)
    assert "initialize" in call.json["error"]["message"]
    assert (await legacy(app, message("ping"), await session(app)).end()).status == 200


# ---- where it answers


@pytest.mark.parametrize(
    ("own", "path", "root", "found"),
    [
        ("/mcp", "/mcp", "", True),
        ("/mcp", "/mcp/", "", True),
        ("/mcp/", "/mcp", "", True),
        ("/mcp", "/api/mcp", "/api", True),
        ("/mcp", "/api/mcp/", "/api/", True),
        ("/mcp", "/mcp", "/api", True),
        ("/", "/", "", True),
        ("/", "/mcp", "/mcp", True),
        ("/", "/mcp/", "/mcp", True),
        ("/", "/", "/mcp", True),
        ("/a/b", "/a/b/", "", True),
        ("/mcp", "/", "", False),
        ("/mcp", "/mcp/x", "", False),
        ("/mcp", "//mcp", "", False),
        ("/mcp", "/MCP", "", False),
        ("/mcp", "/apimcp", "/api", False),
        ("/", "/x", "", False),
        ("/", "/mcpx", "/mcp", False),
    ],
)
async def test_the_endpoint_is_at_its_path(lab: Lab, own: str, path: str, root: str, found: bool) -> None:
    """With and without the final slash, mounted or not, whether the server gives the root path twice or not."""
    headers = USUAL | {"mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
    body = message("tools/list", {"_meta": meta()})
    call = await Call(lab.server.http_app(path=own), path=path, root_path=root, headers=headers, body=body).end()
    assert call.status == (200 if found else 404)
    if not found:
        assert call.headers["content-type"].startswith("text/plain")
        assert f"is {root}{own}" in call.body.decode()


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "OPTIONS"])
async def test_other_methods_are_not_allowed(lab: Lab, method: str) -> None:
    """405 and what is allowed; in a session the stream of GET is not offered (HTTP-1, LH-5, LH-12)."""
    app = lab.server.http_app()
    headers = {"host": "localhost", "accept": "text/event-stream"}
    for more in ({}, {"mcp-session-id": await session(app)}, {"mcp-protocol-version": MODERN}):
        call = await Call(app, method, headers=headers | more).end()
        assert (call.status, call.headers["allow"]) == (405, "POST, DELETE")


async def test_websockets_are_refused(lab: Lab) -> None:
    """A WebSocket is closed before it is opened; what is no scope of ASGI at all is a fault of the server that asks."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    app = lab.server.http_app()
    await app({"type": "websocket"}, receive, send)
    assert sent == ["websocket.close"]
    with pytest.raises(ValueError, match="telnet"):
        await app({"type": "telnet"}, receive, send)


# ---- how it begins and ends


class Life:
    """A lifespan that tells how often it began and ended, and can fail or wait."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.fails = 0
        self.go = asyncio.Event()
        self.go.set()

    @contextlib.asynccontextmanager
    async def __call__(self, server: Server) -> AsyncIterator[str]:
        await self.go.wait()
        if self.fails:
            self.fails -= 1
            raise OSError("no database")
        self.told.append("began")
        yield "state"
        self.told.append("ended")


class Outer:
    """The ASGI server's side of a lifespan."""

    def __init__(self, app: Any) -> None:
        self.said: asyncio.Queue[Any] = asyncio.Queue()
        self._asked: asyncio.Queue[Any] = asyncio.Queue()
        self.task = asyncio.get_running_loop().create_task(app({"type": "lifespan"}, self._asked.get, self.said.put))

    async def ask(self, what: str) -> Any:
        self._asked.put_nowait({"type": f"lifespan.{what}"})
        return await asyncio.wait_for(self.said.get(), 10)


async def test_it_begins_and_ends_with_the_asgi_lifespan() -> None:
    """The server's lifespan runs between startup and shutdown; what comes after is refused."""
    life = Life()
    app = Lab(lifespan=life).server.http_app()
    outer = Outer(app)
    assert (await outer.ask("startup"))["type"] == "lifespan.startup.complete"
    assert life.told == ["began"]
    assert (await modern(app, "tools/list").end()).status == 200
    assert (await outer.ask("shutdown"))["type"] == "lifespan.shutdown.complete"
    await outer.task
    assert life.told == ["began", "ended"]
    assert (await modern(app, "tools/list").end()).status == 503


async def test_a_failed_startup_is_told() -> None:
    """The ASGI server learns that and why the server cannot start."""
    life = Life()
    life.fails = 1
    told = await Outer(Lab(lifespan=life).server.http_app()).ask("startup")
    assert told["type"] == "lifespan.startup.failed"
    assert "no database" in told["message"]


async def test_it_begins_with_the_first_request() -> None:
    """Mounted without a lifespan, it starts once for all the requests that come first."""
    life = Life()
    life.go.clear()
    app = Lab(lifespan=life).server.http_app()
    calls = [modern(app, "tools/list") for _ in range(5)]
    await settled()
    life.go.set()
    assert [(await call.end()).status for call in calls] == [200] * 5
    assert life.told == ["began"]


async def test_a_failed_beginning_may_be_tried_again() -> None:
    """Each request that waited for it is 500; the next one tries again."""
    life = Life()
    life.fails = 1
    life.go.clear()
    app = Lab(lifespan=life).server.http_app()
    calls = [modern(app, "tools/list") for _ in range(3)]
    await settled()
    life.go.set()
    for call in calls:
        assert error_of(await call.end()) == (500, -32603)
        assert "database" not in call.json["error"]["message"]
    assert (await modern(app, "tools/list").end()).status == 200


async def test_its_lifespan_can_be_given_to_the_outer_application() -> None:
    """`app.lifespan` is what an outer application takes as its own; it may be used again."""
    life = Life()
    app = Lab(lifespan=life).server.http_app()
    for _ in range(2):
        async with app.lifespan(object()):
            assert (await modern(app, "tools/list").end()).status == 200
        assert (await modern(app, "tools/list").end()).status == 503
    assert life.told == ["began", "ended"] * 2
    life.fails = 1
    with pytest.raises(OSError, match="no database"):
        async with app.lifespan():
            raise AssertionError


async def test_the_end_waits_for_handlers() -> None:
    """The server's lifespan ends after the handlers that it cancelled, of sessions too (F24)."""
    life = Life()
    lab = Lab(lifespan=life)
    app = lab.server.http_app()
    seen: list[int] = []

    @lab.server.tool
    async def slow_to_end() -> str:
        lab.note(lab.begun, "slow")
        try:
            await lab.go.wait()
        finally:
            await asyncio.sleep(0.001)
            seen.append(len(life.told))
        return "never"

    async with app.lifespan():
        body = message("tools/call", {"name": "slow_to_end"})
        calls = [legacy(app, body, await session(app)), tool(app, "slow_to_end")]
        await lab.until_begun(2)
    for call in calls:
        assert (await call.end()).status == 503
    assert seen == [1, 1]


def test_each_loop_has_its_own_beginning() -> None:
    """An application that tests use on one loop after the other starts anew on each."""
    life: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        life.append("began")
        yield

    server = Server("lab", lifespan=lifespan)
    app = server.http_app()

    async def ask() -> int:
        await session(app)
        return (await modern(app, "server/discover").end()).status

    assert [asyncio.run(ask()) for _ in range(2)] == [200, 200]
    assert life == ["began", "began"]


# ---- what it leaves

MANY = 1000


async def count(app: Any) -> tuple[int, int, int]:
    await settled()
    return len(asyncio.all_tasks()), len(app.sessions), len(app.waiting)


REFUSED: dict[str, dict[str, Any]] = {
    "body": {"body": b"{"},
    "accept": {"accept": "text/html"},
    "type": {"content_type": "text/plain"},
    "host": {"host": "evil.example"},
    "origin": {"origin": "https://evil.example"},
    "size": {"content_length": "999999999"},
    "handshake": {"body": message("initialize", {})},
    "no session": {"body": message("tools/list")},
    "get": {"method": "GET"},
    "delete": {"method": "DELETE"},
    "path": {"path": "/other"},
}


@pytest.mark.parametrize("kind", REFUSED)
async def test_a_thousand_refused_requests_leave_nothing(lab: Lab, kind: str) -> None:
    """First requests that are refused make no session and leave no task (F17)."""
    app = lab.server.http_app(loopback=True)
    await modern(app, "tools/list").end()
    before = await count(app)
    options = dict(REFUSED[kind])
    method, path, body = options.pop("method", "POST"), options.pop("path", "/mcp"), options.pop("body", HELLO)
    for _ in range(MANY):
        call = await Call(app, method, path, headers=changed(USUAL, options), body=body).end()
        assert "error" in call.body.decode() or call.status == 404
    assert await count(app) == before


@pytest.mark.parametrize("kind", ["modern", "stream", "legacy", "body", "handshake"])
async def test_a_thousand_abandoned_requests_leave_nothing(kind: str) -> None:
    """Clients that hang up in the middle leave no task, no exchange and no session but the one they used (F16, F39)."""
    lab = Lab(limits=Limits(running=2000))
    app = lab.server.http_app()
    id = await session(app)
    before = await count(app)
    calls: list[Call] = []
    for number in range(MANY):
        if kind == "modern":
            calls.append(tool(app, "wait", {"mark": "a"}))
        elif kind == "stream":
            calls.append(tool(app, "report", {"steps": 1, "waits": True}, token=1))
        elif kind == "legacy":
            body = message("tools/call", {"name": "wait", "arguments": {"mark": "a"}}, number)
            calls.append(legacy(app, body, id))
        else:
            calls.append(Call(app, headers=USUAL, body=() if kind == "body" else [HELLO[:20]] * 2))
            if kind == "handshake":
                calls[-1].pieces.append(b"never comes")
                calls[-1].pieces = [HELLO[:20]]
    await settled()
    for call in calls:
        call.hang_up()
        await call.end()
    lab.go.set()
    assert await count(app) == before


async def test_a_thousand_sessions_leave_nothing() -> None:
    """Deleted sessions go at once, idle ones in their time (F16)."""
    app = Lab(limits=Limits(session_idle=0.2)).server.http_app()
    await modern(app, "tools/list").end()
    before = await count(app)
    for _ in range(MANY):
        id = await session(app)
        assert (await Call(app, "DELETE", headers={"mcp-session-id": id}).end()).status == 200
    assert await count(app) == before
    for _ in range(MANY):
        await session(app)
    async with asyncio.timeout(20):
        while len(app.sessions):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert await count(app) == before


async def test_a_thousand_stateless_requests_leave_nothing(lab: Lab) -> None:
    """Twenty at a time, without sessions (F16)."""
    app = lab.server.http_app(stateless=True)
    await modern(app, "tools/list").end()
    before = await count(app)
    for _ in range(MANY // 20):
        body = message("tools/call", {"name": "report", "arguments": {"steps": 1}, "_meta": {"progressToken": 1}})
        for call in [legacy(app, body) for _ in range(20)]:
            assert (await call.end()).ended
    assert await count(app) == before


async def test_an_exchange_is_freed_without_the_collector(lab: Lab) -> None:
    """Nothing of an answered request is held in a circle, which would cost every request a part of a collection."""
    app = lab.server.http_app()
    await tool(app, "add", {"a": 1, "b": 2}).end()
    from jackfield.transport.http.post import Exchange

    gc.collect()
    gc.disable()
    try:
        await tool(app, "add", {"a": 1, "b": 2}).end()
        await settled()
        assert not [each for each in gc.get_objects() if isinstance(each, Exchange)]
    finally:
        gc.enable()
