"""Legacy sessions over HTTP: how they begin, what runs in them, how they end."""

import asyncio
import gc
import json
import re
import tracemalloc
from typing import Any

import pytest

from jackfield import Limits, Server
from tests.asgi import HELLO, USUAL, Call, legacy, message, session, settled

from .lab import Lab


@pytest.fixture
def lab() -> Lab:
    """A lab with the default limits."""
    return Lab()


def call_tool(name: str, arguments: Any = None, *, id: Any = 1, token: Any = None) -> bytes:
    params: dict[str, Any] = {"name": name, "arguments": arguments or {}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return message("tools/call", params, id)


def cancel(id: Any) -> bytes:
    return message("notifications/cancelled", {"requestId": id}, None)


def text_of(answer: Any) -> str:
    return answer["result"]["content"][0]["text"]


def error_of(call: Call) -> tuple[int, int]:
    return call.status, call.json["error"]["code"]


# ---- the handshake


async def test_a_handshake_gives_a_session(lab: Lab) -> None:
    """The answer to initialize names the session: visible ASCII, 128 random bits or more, none twice (LH-7, SEC-6)."""
    app = lab.server.http_app()
    calls = [await Call(app, headers=USUAL, body=HELLO).end() for _ in range(2)]
    ids = [call.headers["mcp-session-id"] for call in calls]
    assert calls[0].json["result"]["protocolVersion"] == "2025-11-25"
    assert all(re.fullmatch(r"[!-~]{32,}", id) for id in ids)
    assert ids[0] != ids[1]
    assert len(app.sessions) == 2


async def test_a_failed_handshake_makes_no_session(lab: Lab) -> None:
    """A session is made only where initialize was answered with a result (F17)."""
    app = lab.server.http_app()
    call = await Call(app, headers=USUAL, body=message("initialize", {})).end()
    assert error_of(call) == (200, -32602)
    assert "mcp-session-id" not in call.headers
    assert len(app.sessions) == 0


async def test_a_handshake_whose_client_hung_up_makes_no_session() -> None:
    """Nobody would ever use it (F17)."""
    lab = Lab()

    async def slow(params: Any, ctx: Any, next: Any) -> Any:
        lab.note(lab.begun, ctx.method)
        await lab.go.wait()
        return await next(params, ctx)

    app = Server("lab", middleware=[slow]).http_app()
    call = Call(app, headers=USUAL, body=HELLO)
    await lab.until_begun()
    call.hang_up()
    await call.end()
    assert (len(app.sessions), call.messages) == (0, [])


# ---- requests


async def test_requests_are_answered_in_their_session(lab: Lab) -> None:
    """A request with the session's id is answered by JSON where nothing comes before its result (LH-1)."""
    app = lab.server.http_app()
    call = await legacy(app, call_tool("add", {"a": 1, "b": 2}, id="ä"), await session(app)).end()
    assert (call.status, call.json["id"], text_of(call.json)) == (200, "ä", "3")
    assert "mcp-session-id" not in call.headers


@pytest.mark.parametrize(
    ("method", "id", "status", "code", "text"),
    [
        ("POST", None, 400, -32000, "Bad Request: Mcp-Session-Id header is required"),
        ("POST", "unknown", 404, -32001, "Session not found"),
        ("DELETE", None, 400, -32000, "Bad Request: Mcp-Session-Id header is required"),
        ("DELETE", "unknown", 404, -32001, "Session not found"),
    ],
)
async def test_a_missing_or_unknown_session_is_told(
    lab: Lab, method: str, id: str | None, status: int, code: int, text: str
) -> None:
    """400 where the id is missing, 404 where it is unknown, each with an error in the body (LH-8, F15)."""
    app = lab.server.http_app()
    await session(app)
    headers = USUAL if id is None else USUAL | {"mcp-session-id": id}
    call = await Call(app, method, headers=headers, body=message("tools/list")).end()
    assert (*error_of(call), call.json["error"]["message"]) == (status, code, text)


async def test_another_principals_session_is_as_unknown(lab: Lab) -> None:
    """A session belongs to whom it was made for; to others it does not exist (LH-9, SEC-6, T05)."""
    app = lab.server.http_app()
    id = await session(app)
    app.guard.principal = "somebody else"
    assert error_of(await legacy(app, message("ping"), id).end()) == (404, -32001)
    assert len(app.sessions) == 1


async def test_progress_makes_the_answer_a_stream(lab: Lab) -> None:
    """What is sent before the result comes on the stream of the POST, before its answer (LH-2)."""
    app = lab.server.http_app()
    call = await legacy(app, call_tool("report", {"steps": 2}, token="t"), await session(app)).end()
    assert [event.get("method", "answer") for event in call.events] == ["notifications/progress"] * 2 + ["answer"]
    assert call.ended


async def test_hanging_up_cancels_nothing(lab: Lab) -> None:
    """The end of the connection is no cancellation; the exchange ends, the handler goes on to its end (LH-2)."""
    lab = Lab(limits=Limits(requests=1))
    app = lab.server.http_app()
    id = await session(app)
    call = legacy(app, call_tool("wait", {"mark": "a"}), id)
    await lab.until_begun()
    call.hang_up()
    await call.end()
    assert call.messages == []
    assert (await legacy(app, message("ping"), id).end()).status == 503  # what runs counts, whoever waits for it
    lab.go.set()
    await settled()
    assert (lab.cancelled, app.waiting) == ([], set())
    assert (await legacy(app, message("ping"), id).end()).status == 200


@pytest.mark.parametrize("streams", [False, True])
async def test_a_cancelled_request_ends_its_exchange(lab: Lab, streams: bool) -> None:
    """`notifications/cancelled` ends the handler and the POST, without an answer (CAN-3, CAN-4, F39)."""
    app = lab.server.http_app()
    id = await session(app)
    body = call_tool("report", {"steps": 1, "waits": True}, token=1) if streams else call_tool("wait", {"mark": "a"})
    call = legacy(app, body, id)
    await lab.until_begun()
    assert (await legacy(app, cancel(1), id).end()).status == 202
    await call.end()
    assert call.ended
    assert [event for event in call.events if "id" in event] == []
    await settled()
    assert (await legacy(app, call_tool("add", {"a": 1, "b": 2}), id).end()).status == 200
    for stray in (1, "1", None, 99):  # finished, never there, malformed
        assert (await legacy(app, cancel(stray), id).end()).status == 202


async def test_an_id_that_is_under_way_is_refused(lab: Lab) -> None:
    """A second request with the id of one that runs, or was cancelled and still runs, is refused (BASE-1, R15)."""
    app = lab.server.http_app()
    id = await session(app)
    first = legacy(app, call_tool("stubborn"), id)
    await lab.until_begun()
    assert error_of(await legacy(app, call_tool("add", {"a": 1, "b": 2}), id).end()) == (400, -32600)
    lab.go.set()
    assert text_of((await first.end()).json) == "still here"

    lab.go.clear()
    first = legacy(app, call_tool("wait", {"mark": "a"}), id)
    await lab.until_begun(2)
    both = [legacy(app, cancel(1), id), legacy(app, call_tool("add", {"a": 1, "b": 2}), id)]
    assert (await both[0].end()).status == 202
    assert error_of(await both[1].end()) == (400, -32600)
    await first.end()


async def test_a_busy_session_refuses(lab: Lab) -> None:
    """Beyond `running` and `queued` requests of one session the answer is 503 and when to come again."""
    lab = Lab(limits=Limits(running=1, queued=1))
    app = lab.server.http_app()
    id = await session(app)
    calls = [legacy(app, call_tool("wait", {"mark": str(i)}, id=i), id) for i in (1, 2)]
    await lab.until_begun()
    await settled()
    third = await legacy(app, call_tool("add", {"a": 1, "b": 2}, id=3), id).end()
    assert (*error_of(third), third.json["id"], third.headers["retry-after"]) == (503, -32603, 3, "1")
    lab.go.set()
    assert [text_of((await call.end()).json) for call in calls] == ["1", "2"]


async def test_a_queued_request_can_be_cancelled() -> None:
    """It ends its POST and never runs (CAN-3)."""
    lab = Lab(limits=Limits(running=1))
    app = lab.server.http_app()
    id = await session(app)
    calls = [legacy(app, call_tool("wait", {"mark": str(i)}, id=i), id) for i in (1, 2)]
    await lab.until_begun()
    await legacy(app, cancel(2), id).end()
    assert (await calls[1].end()).ended
    lab.go.set()
    await calls[0].end()
    assert lab.begun == ["1"]


async def test_sessions_do_not_mix(lab: Lab) -> None:
    """Many sessions that use the same ids get each its own answers (T07)."""
    app = lab.server.http_app()
    ids = [await session(app) for _ in range(20)]
    calls = [legacy(app, call_tool("wait", {"mark": id}, id=n), id) for n in range(5) for id in ids]
    await lab.until_begun(100)
    lab.go.set()
    for call, id in zip(calls, ids * 5, strict=True):
        assert text_of((await call.end()).json) == id


async def test_each_request_of_a_session_has_its_own_headers(lab: Lab) -> None:
    """Two requests of one session at the same time see each its own headers, from a thread too (F28)."""
    app = lab.server.http_app()
    id = await session(app)
    calls = [legacy(app, call_tool("header", {"name": "x-user"}, id=u), id, x_user=u) for u in ("ada", "bob")]
    assert [text_of((await call.end()).json) for call in calls] == ["ada", "bob"]


async def test_answers_and_notifications_are_accepted(lab: Lab) -> None:
    """202 and no body, whatever they are about (LH-1, F34)."""
    app = lab.server.http_app()
    id = await session(app)
    for body in (b'{"jsonrpc":"2.0","id":1,"result":{}}', message("notifications/unheard", id=None)):
        call = await legacy(app, body, id).end()
        assert (call.status, call.body) == (202, b"")


@pytest.mark.parametrize("version", ["1999-01-01", "2027-01-01", "x"])
async def test_a_version_that_there_is_not_is_refused(lab: Lab, version: str) -> None:
    """In a session the version header must name a legacy revision (LH-4, LIFE-4)."""
    app = lab.server.http_app()
    call = await legacy(app, message("ping"), await session(app), mcp_protocol_version=version).end()
    assert error_of(call) == (400, -32000)


async def test_a_batch_is_refused(lab: Lab) -> None:
    """Arrays are no message of the newer revisions (BASE-5, F33)."""
    app = lab.server.http_app()
    call = await legacy(app, b"[" + message("ping") + b"]", await session(app)).end()
    assert error_of(call) == (400, -32600)


# ---- the end


async def test_delete_ends_a_session_and_all_of_it(lab: Lab) -> None:
    """DELETE: 200, handlers are cancelled, those who wait are told, and the id is unknown from then on (LH-8)."""
    app = lab.server.http_app()
    id = await session(app)
    quiet = legacy(app, call_tool("wait", {"mark": "a"}, id=5), id)
    stream = legacy(app, call_tool("report", {"steps": 1, "waits": True}, id=6, token=1), id)
    await lab.until_begun(2)
    assert (await Call(app, "DELETE", headers={"mcp-session-id": id}).end()).status == 200
    assert (*error_of(await quiet.end()), quiet.json["id"]) == (404, -32001, 5)
    assert (await stream.end()).ended
    assert lab.cancelled == ["a"]
    assert error_of(await legacy(app, message("ping"), id).end()) == (404, -32001)
    assert (len(app.sessions), app.waiting) == (0, set())


async def test_an_idle_session_ends() -> None:
    """After `session_idle` seconds without a request, and with no other sign of the client (F16)."""
    lab = Lab(limits=Limits(session_idle=0.01))
    app = lab.server.http_app()
    ids = [await session(app) for _ in range(3)]
    async with asyncio.timeout(10):
        while len(app.sessions):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert error_of(await legacy(app, message("ping"), ids[0]).end()) == (404, -32001)


async def test_a_session_with_an_open_exchange_is_not_idle() -> None:
    """However long a call takes, its session lives; it becomes idle when the call has ended (F16)."""
    lab = Lab(limits=Limits(session_idle=0.005))
    app = lab.server.http_app()
    id = (await Call(app, headers=USUAL, body=HELLO).end()).headers["mcp-session-id"]
    call = legacy(app, call_tool("wait", {"mark": "a"}), id)
    await lab.until_begun()
    await asyncio.sleep(0.02)
    assert len(app.sessions) == 1
    lab.go.set()
    assert text_of((await call.end()).json) == "a"
    async with asyncio.timeout(10):
        while len(app.sessions):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_when_full_the_idlest_session_goes() -> None:
    """Beyond `sessions` the one that was idle for longest ends; one with an open exchange does not (F16, R08)."""
    lab = Lab(limits=Limits(sessions=3))
    app = lab.server.http_app()
    busy, idle, used = [await session(app) for _ in range(3)]
    call = legacy(app, call_tool("wait", {"mark": "a"}), busy)
    await lab.until_begun()
    await legacy(app, message("ping"), idle).end()
    await legacy(app, message("ping"), used).end()
    await session(app)
    assert error_of(await legacy(app, message("ping"), idle).end()) == (404, -32001)
    assert (await legacy(app, message("ping"), used).end()).status == 200
    lab.go.set()
    assert (await call.end()).status == 200
    assert len(app.sessions) == 3


async def test_when_all_are_busy_a_handshake_is_refused() -> None:
    """503, when to come again, and the limit's name, where every session has an open exchange."""
    lab = Lab(limits=Limits(sessions=1))
    app = lab.server.http_app()
    call = legacy(app, call_tool("wait", {"mark": "a"}), await session(app))
    await lab.until_begun()
    refused = await Call(app, headers=USUAL, body=HELLO).end()
    assert (*error_of(refused), refused.headers["retry-after"]) == (503, -32603, "1")
    assert "`sessions`" in refused.json["error"]["message"]
    lab.go.set()
    assert (await call.end()).status == 200


async def test_closing_ends_what_runs_in_sessions(lab: Lab) -> None:
    """At shutdown those who wait are told, streams end properly, and the handlers are cancelled (F24)."""
    app = lab.server.http_app()
    id = await session(app)
    quiet = legacy(app, call_tool("wait", {"mark": "a"}, id=5), id)
    stream = legacy(app, call_tool("report", {"steps": 1, "waits": True}, id=6, token=1), id)
    await lab.until_begun(2)
    app.closing()
    assert (*error_of(await quiet.end()), quiet.json["id"]) == (503, -32603, 5)
    assert "shutting down" in (await stream.end()).events[-1]["error"]["message"]
    assert lab.cancelled == ["a"]
    assert (await legacy(app, message("ping"), id).end()).status == 503


async def test_an_idle_session_is_small() -> None:
    """An idle session takes at most 10 KiB (R08)."""
    app = Lab().server.http_app()

    async def one() -> None:
        id = await session(app)
        await legacy(app, message("ping"), id).end()

    for _ in range(20):
        await one()
    gc.collect()
    tracemalloc.start()
    for _ in range(200):
        await one()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(app.sessions) == 220
    assert size / 200 < 10 * 1024


# ---- without sessions


async def test_without_sessions_requests_stand_alone(lab: Lab) -> None:
    """`stateless`: no id is given or wanted, and the header says the revision (LH-11)."""
    app = lab.server.http_app(stateless=True)
    hello = await Call(app, headers=USUAL, body=HELLO).end()
    assert hello.json["result"]["protocolVersion"] == "2025-11-25"
    assert "mcp-session-id" not in hello.headers
    call = await legacy(app, call_tool("report", {"steps": 1}, token=1)).end()
    assert [event.get("method", "answer") for event in call.events] == ["notifications/progress", "answer"]
    for body in (b'{"jsonrpc":"2.0","id":1,"result":{}}', cancel(1)):
        assert (await legacy(app, body).end()).status == 202
    for method in ("GET", "DELETE"):
        refused = await Call(app, method, headers={"mcp-session-id": "x"}).end()
        assert (refused.status, refused.headers["allow"]) == (405, "POST")
    assert len(app.sessions) == 0


@pytest.mark.parametrize(("version", "structured"), [("2025-06-18", True), (None, False)])
async def test_without_sessions_the_header_says_the_revision(lab: Lab, version: str | None, structured: bool) -> None:
    """Where it is missing, 2025-03-26 is spoken (LH-4)."""
    app = lab.server.http_app(stateless=True)
    call = await legacy(app, call_tool("add", {"a": 1, "b": 2}), mcp_protocol_version=version).end()
    assert ("structuredContent" in call.json["result"]) == structured


async def test_without_sessions_hanging_up_cancels_nothing(lab: Lab) -> None:
    """As in a session, the handler goes on to its end (LH-2)."""
    app = lab.server.http_app(stateless=True)
    call = legacy(app, call_tool("wait", {"mark": "a"}))
    await lab.until_begun()
    call.hang_up()
    await settled()
    assert lab.cancelled == []
    lab.go.set()
    assert (await call.end()).messages == []


async def test_session_ids_are_never_logged(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """Who reads the log cannot take a session over (T05)."""
    app = lab.server.http_app()
    with caplog.at_level("DEBUG", "jackfield"):
        id = await session(app)
        await legacy(app, call_tool("add", {"a": 1, "b": 2}), id).end()
        await legacy(app, b"{", id).end()
        await Call(app, "DELETE", headers={"mcp-session-id": id}).end()
        await legacy(app, message("ping"), id).end()
    assert caplog.records
    assert id not in json.dumps([record.getMessage() for record in caplog.records])
