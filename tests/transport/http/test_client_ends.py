"""The HTTP client: requests that are given up, servers that die or redirect, and the end."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import (
    ConnectionClosed,
    HttpError,
    NotSupported,
    RequestTimeout,
)
from jackfield.protocol.limits import Limits
from jackfield.transport.http.target import Http
from tests.client.fakes import text_result
from tests.client.web import (
    Answer,
    Post,
    Reply,
    answered,
    call,
    legacy_web,
    modern_web,
    packed,
    refused,
    running,
    silence,
)

OK = b"HTTP/1.1 200 OK"
HELLO = text_result("hi")


# ---- the end of a request


@pytest.mark.parametrize("streaming", [False, True])
async def test_cancelling_a_modern_request(streaming: bool) -> None:
    """A cancelled or timed-out call closes its own stream, and nothing is said (HTTP-7, CAN-1); others go on."""
    seen: list[Post] = []

    async def answer(post: Post) -> Any:
        if post.message["params"]["name"] == "quick":
            return HELLO
        seen.append(post)
        if streaming:
            post.writer.write(Reply(kind="text/event-stream", chunks=[]).head + b"1\r\n:\r\n")
        await post.gone.wait()
        return None

    web = modern_web(tools__call=answer)
    async with running(web), Client(web.url) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("a", timeout=0.05)
        calling = asyncio.create_task(client.call_tool("a"))
        await web.until(lambda: len(web.posts("tools/call")) == 2)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        for post in seen:
            await asyncio.wait_for(post.gone.wait(), 5)
        assert (await client.call_tool("quick")).text == "hi"
    assert web.methods() == ["server/discover", "tools/list", *["tools/call"] * 3]


async def test_cancelling_a_legacy_request() -> None:
    """A legacy server is told of it, for the end of the stream means nothing to it (LH-2, CAN-4)."""

    web = legacy_web(tools__call=silence)
    async with running(web), Client(web.url) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("a", timeout=0.05)
        await web.until(lambda: "notifications/cancelled" in web.methods())
    (cancelled,) = web.posts("notifications/cancelled")
    (asked,) = web.posts("tools/call")
    assert cancelled.message["params"] == {"requestId": asked.id}
    assert cancelled.headers["mcp-session-id"] == "s-1"


async def test_cancelled_before_it_was_sent() -> None:
    """A call that is cancelled in the same turn of the loop is never sent, and leaves nothing behind."""
    web = modern_web(tools__call=HELLO)
    async with running(web), Client(web.url) as client:
        for _ in range(3):
            calling = asyncio.create_task(client.call_tool("a"))
            await asyncio.sleep(0)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        assert (await client.call_tool("a")).text == "hi"


async def test_many_open_streams_hold_nothing_up() -> None:
    """With as many calls open as there may be, cancellations and the end still get through; none waits for a socket."""

    web = legacy_web(tools__call=silence)
    limits = Limits(asking=150, grace=5)
    async with running(web):
        async with Client(web.url, limits=limits) as client:
            calls = [asyncio.create_task(client.call_tool("a")) for _ in range(151)]
            await web.until(lambda: len(web.posts("tools/call")) == 150)
            calls[0].cancel()
            await web.until(lambda: "notifications/cancelled" in web.methods())
            await web.until(lambda: len(web.posts("tools/call")) == 151)  # the one that waited for a place
        for fault in (await asyncio.gather(*calls, return_exceptions=True))[1:]:
            assert isinstance(fault, ConnectionClosed)
        assert web.methods()[-1] == "DELETE"
        await web.until(lambda: web.sockets == 0)


async def test_server_dies_in_the_middle() -> None:
    """When the server dies the calls under way fail with ConnectionClosed, and the next one connects anew (R02)."""

    async def answer(post: Post) -> Any:
        if post.message["params"]["name"] == "long":
            await post.gone.wait()
        return HELLO

    web = modern_web(tools__call=answer)
    async with running(web), Client(web.url) as client:
        calls = [asyncio.create_task(client.call_tool("long")) for _ in range(5)]
        await web.until(lambda: len(web.posts("tools/call")) == 5)
        await web.stop()
        for fault in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(fault, ConnectionClosed)
        with pytest.raises(ConnectionClosed, match="could not be connected to"):
            await client.call_tool("a")
        await web.start()
        assert (await client.call_tool("a")).text == "hi"
    assert web.methods().count("server/discover") == 1


@pytest.mark.parametrize(
    "cut", [b"", b"HTTP/1.1 200 OK\r\nContent-", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"]
)
async def test_socket_that_is_closed_early(cut: bytes) -> None:
    """A socket that ends before, in or after the head fails its request alone (F19)."""

    async def answer(post: Post) -> None:
        post.writer.write(cut)
        await post.writer.drain()
        post.writer.close()

    error = await refused(answer)
    assert type(error) is ConnectionClosed


@pytest.mark.parametrize(
    "head",
    [b"SSH-2.0-nothing\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: %b\r\n\r\n" % (b"x" * 70_000)],
    ids=["SSH", "large head"],
)
async def test_answer_that_is_no_http(head: bytes) -> None:
    """What is no HTTP, or has a head beyond 64 KiB, fails the request; nothing of the URL's query is shown."""

    async def answer(post: Post) -> None:
        post.writer.write(head)
        await post.writer.drain()
        await post.gone.wait()

    web = modern_web(tools__call=answer, ping=HELLO)
    async with running(web), Client(web.url + "?key=secret") as client:
        with pytest.raises(ConnectionClosed, match="sent what is no HTTP answer") as caught:
            await client.call_tool("a")
        assert "secret" not in str(caught.value)


async def test_large_head_within_the_limit() -> None:
    """A head of 60 KiB is read: tokens and policies can be long."""
    web = modern_web(tools__call=lambda post: Reply(body=packed(answered(post)), headers={"X-Long": "x" * 60_000}))
    assert await call(web) == "hi"


# ---- redirects


def redirect(place: str, status: int = 307) -> Reply:
    return Reply(status, kind="", headers={"Location": place})


@pytest.mark.parametrize(("status", "again"), [(307, 2), (308, 1)])
async def test_redirect_within_the_origin(status: int, again: int) -> None:
    """307 and 308 to the same origin are followed with the whole request; 308 is remembered."""
    web = modern_web(tools__call=lambda post: HELLO if post.path == "/mcp/?a=b" else redirect("/mcp/?a=b", status))
    async with running(web), Client(Http(web.url, headers={"X-Key": "k"})) as client:
        for _ in range(2):
            assert (await client.call_tool("a")).text == "hi"
    paths = [post.path for post in web.posts("tools/call")]
    assert paths == ["/mcp", "/mcp/?a=b"] * again + ["/mcp/?a=b"] * (2 - again)
    assert all(
        post.headers["x-key"] == "k" and post.message["params"]["name"] == "a" for post in web.posts("tools/call")
    )


@pytest.mark.parametrize(
    "place", ["http://127.0.0.1:PORT2/mcp", "http://localhost:PORT/mcp", "https://127.0.0.1:PORT/"]
)
async def test_redirect_to_another_origin(place: str) -> None:
    """A redirect to another scheme, host or port is refused: secrets do not leave the origin; the place is shown."""
    async with running(modern_web(tools__call=HELLO)) as other:
        web = modern_web(
            tools__call=lambda post: redirect(place.replace("PORT2", str(other.port)).replace("PORT", str(web.port)))
        )
        async with running(web), Client(Http(web.url, headers={"Authorization": "Bearer t"})) as client:
            with pytest.raises(HttpError, match=f"another origin, {place.split(':')[0]}://.*use that URL") as caught:
                await client.call_tool("a")
        assert caught.value.status == 307
        assert other.heard == []


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (redirect("/other", 302), "loses the request"),
        (redirect("/other", 303), "loses the request"),
        (redirect("/mcp", 307), "more than 3 times"),
        (Reply(307, kind=""), "loses the request"),
        (redirect("http://u:p@127.0.0.1/", 307), "another origin"),
        (redirect("ftp:", 307), "no URL|another origin"),
    ],
)
async def test_redirect_that_is_not_followed(reply: Answer, why: str) -> None:
    """Redirects that change the method, go round in circles or lead nowhere are errors; a query is not shown."""
    error = await refused(reply)
    assert isinstance(error, HttpError)
    assert re.search(why, str(error)), str(error)


# ---- the end of the client


async def test_close_under_load(caplog: pytest.LogCaptureFixture) -> None:
    """Closing fails the calls under way, ends every socket and task, and warns of nothing."""
    caplog.set_level(logging.WARNING)

    for web in (modern_web(tools__call=silence), legacy_web(tools__call=silence)):
        before = len(asyncio.all_tasks())
        async with running(web):
            client = Client(web.url)
            await client.connect()
            calls = [asyncio.create_task(client.call_tool("a")) for _ in range(20)]
            await web.until(lambda web=web: len(web.posts("tools/call")) == 20)
            await asyncio.gather(client.close(), client.close())
            for fault in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(fault, ConnectionClosed)
            with pytest.raises(ConnectionClosed, match="was closed"):
                await client.call_tool("a")
            await web.until(lambda web=web: web.sockets == 0)
        assert len(asyncio.all_tasks()) == before
    assert caplog.text == ""


@pytest.mark.parametrize("answer", [Reply(405), Reply(500), None], ids=["405", "500", "silence"])
async def test_session_that_cannot_be_ended(answer: Any) -> None:
    """A server that does not end sessions, or does not answer, holds nobody up (LH-8)."""

    web = legacy_web(tools__call=HELLO, DELETE=answer or silence)
    assert await call(web, limits=Limits(grace=0.05)) == "hi"
    assert web.methods()[-1] == "DELETE"


async def test_session_id_that_must_not_be() -> None:
    """A session id with characters that it must not have is refused (LH-7)."""
    web = legacy_web("a b")
    async with running(web):
        with pytest.raises(NotSupported, match="Mcp-Session-Id has characters"):
            await Client(web.url).connect()
