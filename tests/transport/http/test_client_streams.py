"""The HTTP client: answers as streams, and what a legacy server asks and is told meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import (
    ConnectionClosed,
    InvalidResult,
    LimitExceeded,
    PeerError,
)
from jackfield.protocol.limits import Limits
from tests.client.fakes import text_result
from tests.client.web import (
    Post,
    Reply,
    answered,
    begin_stream,
    call,
    event,
    legacy_web,
    modern_web,
    packed,
    pour,
    refused,
    running,
    stream,
)

HELLO = text_result("hi")


# ---- streams


async def test_stream_with_an_answer() -> None:
    """Notifications of a stream are heard, then its answer is taken; comments are nothing (HTTP-4, HTTP-5)."""
    heard: list[float] = []

    def answer(post: Post) -> Reply:
        progress = {"progressToken": post.id, "progress": 1}
        return stream(
            b": hello\n\n",
            b"id: 1\ndata:\n\n",
            b"retry: 10\n\n",
            event({"method": "notifications/progress", "params": progress}),
            b"event: other\ndata: not for us\n\n",
            event(answered(post)),
        )

    web = modern_web(tools__call=answer)
    async with running(web), Client(web.url) as client:
        assert (await client.call_tool("a", progress=lambda progress, *_: heard.append(progress))).text == "hi"
        assert (await client.call_tool("a")).text == "hi"
        assert web.sockets == 1  # the same one again: each stream was read to its end
    assert heard == [1.0]


TEXT = "one\u2028two\u2029three\u0085four"


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=["LF", "CR", "CRLF"])
async def test_stream_byte_by_byte(end: str) -> None:
    """Any line end, a byte order mark, data of several lines, and one byte at a time; U+2028 ends nothing (F23)."""

    def answer(post: Post) -> Reply:
        body = packed(answered(post, TEXT)).decode().replace('"content"', '\n"content"')
        lines = ["\ufeff: comment", *[f"data: {line}" for line in body.split("\n")], "", ""]
        data = end.join(lines).encode()
        return stream(*[data[place : place + 1] for place in range(len(data))])

    assert await call(modern_web(tools__call=answer)) == TEXT


@pytest.mark.parametrize(
    "events",
    [
        [],
        [b": nothing\n\n"],
        [b"id: 7\ndata:\n\n"],
        [event({"method": "notifications/progress", "params": {"progressToken": 99, "progress": 1}})],
        [event({"id": 9999, "result": {}})],
        [b'data: {"jsonrpc":"2.0","id":2,"result"'],
    ],
)
@pytest.mark.parametrize("end", [True, False], ids=["ended", "cut"])
async def test_stream_without_an_answer(events: list[bytes], end: bool) -> None:
    """A stream that ends before the answer fails that request at once, while another one goes on (F19, HTTP-6)."""
    go_on = asyncio.Event()

    async def answer(post: Post) -> Any:
        if post.message["params"]["name"] == "short":
            return stream(*events, end=end)
        await go_on.wait()
        return HELLO

    web = modern_web(tools__call=answer)
    async with running(web), Client(web.url, limits=Limits(request_timeout=3600)) as client:
        long = asyncio.create_task(client.call_tool("long"))
        await web.until(lambda: bool(web.posts("tools/call")))
        with pytest.raises(ConnectionClosed, match=r"ended its answer|broke the connection off"):
            await client.call_tool("short")
        go_on.set()
        assert (await long).text == "hi"


async def test_error_on_a_stream() -> None:
    """An error may come as the last event, with the id of the request or none (FT-1, F31)."""
    for named in (True, False):
        error = await refused(
            lambda post, named=named: stream(
                event(({"id": post.id} if named else {}) | {"error": {"code": -32603, "message": "no"}})
            )
        )
        assert isinstance(error, PeerError)
        assert error.code == -32603


async def test_large_event() -> None:
    """An event beyond the limit fails its request, and names the limit; smaller ones before it were heard (T11)."""
    heard: list[str] = []

    def answer(post: Post) -> Reply:
        return stream(event({"method": "odd/news"}), b"data: " + b"x" * 3000 + b"\n\n")

    web = modern_web(tools__call=answer)
    async with (
        running(web),
        Client(web.url, limits=Limits(event=2000), on_notification=lambda method, _: heard.append(method)) as client,
    ):
        with pytest.raises(LimitExceeded, match=r"2000 bytes \(limit `event`\)") as caught:
            await client.call_tool("a")
    assert caught.value.limit == "event"
    assert heard == ["odd/news"]


async def test_event_that_is_no_message(caplog: pytest.LogCaptureFixture) -> None:
    """An event that cannot be read is reported, and the answer behind it taken (F7); a broken answer is an error."""
    web = modern_web(tools__call=lambda post: stream(b"data: {oops\n\n", event(answered(post))))
    async with running(web), Client(web.url) as client:
        assert (await client.call_tool("a")).text == "hi"
        assert client.strays == 1
    error = await refused(lambda post: stream(b'data: {"jsonrpc":"2.0","id":%d}\n\n' % post.id))
    assert isinstance(error, InvalidResult)


async def test_stream_that_goes_on_after_the_answer() -> None:
    """The answer counts at once; a server that then does not end the stream loses the socket, no more."""
    seen: list[Post] = []

    async def answer(post: Post) -> None:
        seen.append(post)
        await begin_stream(post, answered(post))
        await post.gone.wait()

    web = modern_web(tools__call=answer)
    async with running(web), Client(web.url, limits=Limits(grace=0.05)) as client:
        assert (await client.call_tool("a")).text == "hi"
        await asyncio.wait_for(seen[0].gone.wait(), 5)


async def test_batch_of_the_revision_that_has_them() -> None:
    """2025-03-26 may answer with an array, as body or event (BASE-5); elsewhere an array is no message."""
    for batch in (lambda post: Reply(body=b"[%b]" % packed(answered(post))), None):
        if batch is None:

            def batch(post: Post) -> Reply:
                return stream(b'data: [{"jsonrpc":"2.0","method":"odd/news"},%b]\n\n' % packed(answered(post)))

        assert await call(legacy_web(version="2025-03-26", tools__call=batch), mode="legacy") == "hi"
        with pytest.raises((InvalidResult, ConnectionClosed)):
            await call(legacy_web(version="2025-11-25", tools__call=batch), mode="legacy")


# ---- what the server asks (legacy)


async def test_request_of_a_legacy_server_on_the_stream() -> None:
    """A server's ping on the stream of a call is answered by a POST of its own, and the call goes on (LH-2, LIFE-6)."""
    said = asyncio.Event()

    async def answer(post: Post) -> None:
        await begin_stream(post, {"id": "p", "method": "ping"})
        await said.wait()
        await pour(post, answered(post))
        post.writer.write(b"0\r\n\r\n")

    def take(post: Post) -> Reply:
        said.set()
        return Reply(202, kind="")

    web = legacy_web(tools__call=answer)
    web.answers["an answer"] = take
    async with running(web), Client(web.url) as client:
        assert (await client.call_tool("a")).text == "hi"
    (pong,) = web.posts("an answer")
    assert pong.message == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert pong.headers["mcp-session-id"] == "s-1"


async def test_server_that_asks_without_end() -> None:
    """A server that asks faster than it takes our answers is not read any further than they go out (T11)."""
    held = asyncio.Event()
    sent = 0

    async def answer(post: Post) -> None:
        nonlocal sent
        post.writer.write(Reply(kind="text/event-stream", chunks=[]).head)
        while not post.gone.is_set():
            data = b"".join(
                [event({"id": f"{sent}-{n}", "method": "ping", "params": {"x": "y" * 500}}) for n in range(50)]
            )
            post.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
            sent += 50
            try:
                async with asyncio.timeout(0.3):
                    await post.writer.drain()
            except TimeoutError:
                held.set()
                return
            await asyncio.sleep(0)

    async def never(post: Post) -> None:
        await post.gone.wait()

    web = legacy_web(tools__call=answer)
    web.answers["an answer"] = never
    async with running(web), Client(web.url, limits=Limits(grace=0.1)) as client:
        calling = asyncio.create_task(client.call_tool("a"))
        await held.wait()
        assert web.most_sockets < 700
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)


async def test_notification_that_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A server that refuses a notification is reported, and nothing fails (HTTP-3)."""
    web = legacy_web(tools__call=HELLO, **{"notifications/initialized": Reply(400, b"what?", "text/plain")})
    assert await call(web) == "hi"
    assert "did not take notifications/initialized" in caplog.text
    assert "what?" in caplog.text


async def test_nothing_overtakes_the_end_of_the_handshake() -> None:
    """No request is sent before the server has taken notifications/initialized (LIFE-3)."""
    seen: list[list[str]] = []
    web = legacy_web(tools__call=HELLO)

    async def slowly(post: Post) -> Reply:
        for _ in range(20):
            await asyncio.sleep(0)
        seen.append(web.methods())
        return Reply(202, kind="")

    web.answers["notifications/initialized"] = slowly
    async with running(web), Client(web.url) as client:
        await asyncio.gather(*[client.call_tool("a") for _ in range(5)])
    assert seen == [["server/discover", "initialize", "notifications/initialized"]]
