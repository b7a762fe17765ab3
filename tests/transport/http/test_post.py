"""Modern exchanges: JSON, streams, hang-ups, slow readers, and the end of the server."""

import asyncio
from typing import Any

import pytest

from jackfield import Limits, Server
from tests.asgi import Call, modern, settled, tool

from .lab import Lab


@pytest.fixture
def lab() -> Lab:
    """A lab with the default limits."""
    return Lab()


def text_of(answer: Any) -> str:
    return answer["result"]["content"][0]["text"]


async def app_of(lab: Lab, **options: Any) -> Any:
    """A running application of the lab's server."""
    app = lab.server.http_app(**options)
    await modern(app, "server/discover").end()
    return app


# ---- plain answers


async def test_an_answer_that_is_there_at_once_is_json(lab: Lab) -> None:
    """A handler that sends nothing before its result is answered with one JSON text and its length (HTTP-4)."""
    call = await tool(await app_of(lab), "add", {"a": 1, "b": 2}, id="x").end()
    assert (call.status, call.json["id"], text_of(call.json)) == (200, "x", "3")
    assert call.headers["content-length"] == str(len(call.body))
    assert "mcp-session-id" not in call.headers


async def test_an_answer_at_once_takes_no_task_and_no_timer(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a request whose handler does not wait, nothing is scheduled and the peer is not watched."""
    app = await app_of(lab)
    call = tool(app, "add", {"a": 1, "b": 2})
    loop = asyncio.get_running_loop()

    def none(*_: Any, **__: Any) -> Any:
        raise AssertionError("scheduled")

    monkeypatch.setattr(loop, "create_task", none)
    monkeypatch.setattr(loop, "call_later", none)
    monkeypatch.setattr(loop, "call_at", none)
    await asyncio.wait([call.task])
    monkeypatch.undo()
    assert (await call.end()).status == 200


async def test_an_answer_that_had_to_be_waited_for_is_json_too(lab: Lab) -> None:
    """Waiting alone makes no stream (HTTP-4)."""
    call = tool(await app_of(lab), "wait", {"mark": "a"})
    await lab.until_begun()
    assert not call.messages
    lab.go.set()
    assert text_of((await call.end()).json) == "a"


@pytest.mark.parametrize(
    ("method", "status", "code"),
    [("tools/fly", 404, -32601), ("initialize", 404, -32601), ("ping", 404, -32601), ("tools/call", 200, -32602)],
)
async def test_an_error_has_the_status_that_goes_with_it(lab: Lab, method: str, status: int, code: int) -> None:
    """Unknown and removed methods are 404, faults of the content 200 (4.5, ERA-V5); the id is echoed (HDR-3)."""
    call = await modern(await app_of(lab), method, {"name": "none"}, id=7, mcp_name="none").end()
    assert (call.status, call.json["error"]["code"], call.json["id"]) == (status, code, 7)


async def test_a_client_that_takes_streams_alone_gets_one(lab: Lab) -> None:
    """Accept names only text/event-stream: the answer is a stream of one event; an error with a status stays JSON."""
    app = await app_of(lab)
    call = await tool(app, "add", {"a": 1, "b": 2}, accept="text/event-stream").end()
    assert [text_of(event) for event in call.events] == ["3"]
    assert (await modern(app, "tools/fly", accept="text/event-stream").end()).json["error"]["code"] == -32601


# ---- streams


async def test_what_comes_before_the_result_makes_a_stream(lab: Lab) -> None:
    """Notifications, then the one answer, then the end; no proxy may hold it back (HTTP-5, PRG-2)."""
    call = await tool(await app_of(lab), "report", {"steps": 2}, token=0).end()
    assert [event.get("method", "answer") for event in call.events] == ["notifications/progress"] * 2 + ["answer"]
    assert [event["params"]["progressToken"] for event in call.events[:2]] == [0, 0]
    assert call.ended
    assert call.headers["x-accel-buffering"] == "no"
    assert call.headers["cache-control"] == "no-cache, no-transform"


async def test_a_stream_begins_while_its_handler_waits(lab: Lab) -> None:
    """What a handler sends is with the peer while it goes on working (HTTP-5)."""
    call = tool(await app_of(lab), "report", {"steps": 1, "waits": True}, token="t")
    await call.came("notifications/progress")
    assert not call.ended
    lab.go.set()
    assert [text_of(event) for event in (await call.end()).events[1:]] == ["reported"]


async def test_an_error_after_the_stream_began_is_its_last_event(lab: Lab) -> None:
    """The status was sent already, so that the error comes as the stream's final message (FT-1)."""
    from jackfield import Context, ProtocolError

    @lab.server.tool
    async def fails(ctx: Context) -> str:
        await ctx.report_progress(1)
        await lab.go.wait()
        raise ProtocolError(-32601, "gone")

    call = tool(await app_of(lab), "fails", token=1)
    await call.came("progress")
    lab.go.set()
    assert (await call.end()).events[-1]["error"]["code"] == -32601
    assert call.status == 200


async def test_a_client_that_takes_json_alone_gets_no_notifications(lab: Lab) -> None:
    """Accept names only application/json: what comes before the result is dropped."""
    app = await app_of(lab)
    assert (
        text_of((await tool(app, "report", {"steps": 3}, token=1, accept="application/json").end()).json) == "reported"
    )


async def test_silence_makes_a_stream_with_signs_of_life() -> None:
    """After `silence` seconds without an answer a stream begins, with a comment every `heartbeat` seconds (HTTP-5)."""
    lab = Lab(limits=Limits(silence=0.001, heartbeat=0.001))
    call = tool(await app_of(lab), "wait", {"mark": "a"})
    await call.came(":")
    assert call.body.replace(b": \n\n", b"") == b""
    lab.go.set()
    assert [text_of(event) for event in (await call.end()).events] == ["a"]


async def test_silence_makes_no_stream_for_who_takes_json_alone() -> None:
    """The answer stays JSON however long it takes."""
    lab = Lab(limits=Limits(silence=0.001))
    call = tool(await app_of(lab), "wait", {"mark": "a"}, accept="application/json")
    await lab.until_begun()
    await asyncio.sleep(0.01)
    lab.go.set()
    assert text_of((await call.end()).json) == "a"


# ---- a peer that is gone, or does not read


async def test_hanging_up_cancels_the_handler(lab: Lab) -> None:
    """A client that closes the connection has cancelled its request; nothing more is sent (HTTP-7, F39)."""
    app = await app_of(lab)
    call = tool(app, "wait", {"mark": "a"})
    await lab.until_begun()
    call.hang_up()
    await call.end()
    assert (lab.cancelled, call.messages, app.waiting) == (["a"], [], set())


async def test_hanging_up_on_a_stream_cancels_the_handler(lab: Lab) -> None:
    """The same in the middle of a stream, whose end is not sent any more (HTTP-7)."""
    app = await app_of(lab, health=True)
    call = tool(app, "report", {"steps": 1, "waits": True}, token=1)
    await call.came("progress")
    call.hang_up()
    await call.end()
    assert not call.ended
    assert not app.waiting


async def test_a_handler_that_ignores_cancellation_says_nothing_more(lab: Lab) -> None:
    """What it sends and returns after its peer hung up is dropped (HTTP-7)."""
    app = await app_of(lab)
    call = tool(app, "stubborn", token=1)
    await lab.until_begun()
    call.hang_up()
    await call.end()
    assert (lab.cancelled, call.messages) == (["stubborn"], [])


async def test_hanging_up_while_sending_does_nothing(lab: Lab) -> None:
    """A body that does not come to its end is no request, and no fault."""
    app = await app_of(lab)
    usual = {"content-type": "application/json", "mcp-protocol-version": "2026-07-28"}
    call = Call(app, headers=usual, body=())
    call.hang_up()
    assert (await call.end()).messages == []


async def test_a_handler_waits_for_a_slow_reader() -> None:
    """Notifications wait while more than `outgoing` bytes are unsent, and none is lost (R07, F45)."""
    lab = Lab(limits=Limits(outgoing=1000))
    call = tool(await app_of(lab), "report", {"steps": 100}, token=1)
    call.stall()
    await settled()
    held = len(lab.begun)
    assert 3 < held < 30
    call.read()
    assert len((await call.end()).events) == 101


async def test_a_peer_that_takes_nothing_is_given_up() -> None:
    """A send that does not end in `write` seconds drops the exchange and cancels the handler (R07, T16)."""
    lab = Lab(limits=Limits(outgoing=1000, write=0.01))
    app = await app_of(lab)
    call = tool(app, "report", {"steps": 100}, token=1)
    call.stall()
    await call.end()
    assert len(lab.begun) < 100
    assert not app.waiting


@pytest.mark.parametrize("name", ["add", "report"])
async def test_an_answer_that_nobody_takes_is_given_up(name: str) -> None:
    """A whole answer that is not taken in `write` seconds is given up too (R07)."""
    lab = Lab(limits=Limits(write=0.01))
    call = tool(await app_of(lab), name, {"a": 1, "b": 2} if name == "add" else {"steps": 1}, token=1)
    call.stall()
    assert (await call.end()).messages == []


async def test_a_cancellation_from_outside_goes_through(lab: Lab) -> None:
    """When the ASGI server cancels the task itself, the handler is cancelled and the task ends as cancelled."""
    app = await app_of(lab)
    call = tool(app, "wait", {"mark": "a"})
    await lab.until_begun()
    call.task.cancel()
    await asyncio.wait([call.task])
    assert call.task.cancelled()
    assert (lab.cancelled, app.waiting) == (["a"], set())


@pytest.mark.parametrize("waits", [False, True])
async def test_a_cancellation_that_nobody_asked_for_is_answered(waits: bool) -> None:
    """CancelledError out of a middleware is the request's failure, not the exchange's."""

    async def gives_up(params: Any, ctx: Any, next: Any) -> Any:
        if waits:
            await asyncio.sleep(0)
        raise asyncio.CancelledError

    app = Server("lab", middleware=[gives_up]).http_app()
    call = await modern(app, "server/discover", id=3).end()
    assert (call.json["error"]["code"], call.json["id"]) == (-32603, 3)
    assert not app.waiting


# ---- how much at once, and the end


async def test_more_requests_than_the_limit_are_refused() -> None:
    """Beyond `requests` waiting ones the answer is 503, when to come again, and an error (4.5)."""
    lab = Lab(limits=Limits(requests=2))
    app = await app_of(lab)
    calls = [tool(app, "wait", {"mark": str(i)}) for i in range(2)]
    await lab.until_begun(2)
    third = await tool(app, "add", {"a": 1, "b": 2}, id=3).end()
    assert (third.status, third.headers["retry-after"], third.json["id"]) == (503, "1", 3)
    assert "`requests`" in third.json["error"]["message"]
    lab.go.set()
    for call in calls:
        assert (await call.end()).status == 200
    assert (await tool(app, "add", {"a": 1, "b": 2}).end()).status == 200


async def test_closing_ends_what_runs_properly(lab: Lab) -> None:
    """At shutdown handlers are cancelled, streams end with an error and their end, others with 503 (F24)."""
    app = await app_of(lab)
    quiet, stream = tool(app, "wait", {"mark": "a"}, id=5), tool(app, "report", {"steps": 1, "waits": True}, token=1)
    await lab.until_begun(2)
    app.closing()
    await quiet.end()
    await stream.end()
    assert (quiet.status, quiet.json["id"], quiet.headers["retry-after"]) == (503, 5, "1")
    assert "shutting down" in stream.events[-1]["error"]["message"]
    assert stream.ended
    late = await tool(app, "add", {"a": 1, "b": 2}).end()
    assert (late.status, late.headers["retry-after"]) == (503, "1")


async def test_each_request_has_its_own_headers(lab: Lab) -> None:
    """Two requests at the same time see each its own headers, from a thread too (F28)."""
    app = await app_of(lab)
    calls = [tool(app, "header", {"name": "x-user"}, x_user=user) for user in ("ada", "bob")]
    assert [text_of((await call.end()).json) for call in calls] == ["ada", "bob"]
