"""What the runner's connections take, refuse and give up, and how they end, byte by byte in one process."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket

import pytest

from tests.transport.http.serve_app import PlainApp
from tests.transport.http.serve_talk import PATIENCE, post, served

GET = b"GET /mcp HTTP/1.1\r\nhost: a\r\n"
POST = b"POST /mcp HTTP/1.1\r\nhost: a\r\n"

# ---- what is served


async def test_a_request_is_answered() -> None:
    """A request gets its answer with a Date and without the software's name, and the connection is kept."""
    async with served() as run:
        raw = await run.connect()
        for body in (b"", b"x" * 100_000):
            status, headers, answer = await raw.post("/mcp", body)
            assert (status, json.loads(answer)["size"]) == (200, len(body))
            assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", headers["date"])
            assert "server" not in headers


async def test_pipelined_requests_are_answered_in_order() -> None:
    """Requests that are sent without waiting are answered one after the other."""
    async with served() as run:
        raw = await run.connect()
        raw.send(post("/mcp", b"1") + post("/mcp", b"22") + post("/mcp", b"333"))
        assert [json.loads((await raw.answer())[2])["size"] for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("together", [True, False])
async def test_an_offer_of_another_protocol_is_passed_over(together: bool) -> None:
    """A request that offers HTTP/2, as Java's client does, is served with its body as if it did not (RFC 9110, 7.8)."""
    offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAA", b"x-own: 1")
    async with served() as run:
        raw = await run.connect()
        request = post("/mcp", b"hello", *offer)
        raw.send(request if together else request[:-5])
        if not together:
            await run.app.until("called")
            raw.send(request[-5:])
        assert json.loads((await raw.answer())[2])["size"] == 5
        assert json.loads((await raw.post("/mcp", b"22"))[2])["size"] == 2
        names = [name for name, _ in run.app.seen[0]["headers"]]
        assert names == [b"host", b"connection", b"x-own", b"content-length"]


async def test_a_body_is_asked_for() -> None:
    """Who waits to be asked for the body gets 100 first, and then one answer (RFC 9110, 10.1.1)."""
    async with served() as run:
        raw = await run.connect()
        for _ in range(2):
            raw.send(POST + b"expect: 100-continue\r\ncontent-length: 5\r\n\r\n")
            assert await raw.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            raw.send(b"hello")
            status, _, body = await raw.answer()
            assert (status, json.loads(body)["size"]) == (200, 5)


async def test_an_answer_without_a_body_is_sent() -> None:
    """The answer to HEAD is its head alone, and the answers behind it follow."""
    async with served() as run:
        raw = await run.connect()
        raw.send(b"HEAD /mcp HTTP/1.1\r\nhost: a\r\n\r\n" + post("/mcp", b"22"))
        assert (await raw.head())[0] == 200
        assert json.loads((await raw.answer())[2])["size"] == 2


async def test_trailers_are_no_headers() -> None:
    """What stands behind a chunked body is not added to the request's headers."""
    async with served() as run:
        raw = await run.connect()
        raw.send(POST + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nauthorization: b\r\n\r\n")
        assert json.loads((await raw.answer())[2])["size"] == 2
        assert [name for name, _ in run.app.seen[0]["headers"]] == [b"host", b"transfer-encoding"]


# ---- sizes


def head_of(size: int) -> bytes:
    """A request whose head has so many bytes as they are counted: its target, and each header with 4 to part it."""
    start = b"GET /mcp HTTP/1.1\r\nhost: a\r\nx: "
    counted = len("/mcp") + len("host: a\r\n") + len("x: \r\n")
    return start + b"y" * (size - counted) + b"\r\n\r\n"


@pytest.mark.parametrize("parts", [1, 7])
async def test_the_head_has_a_limit(parts: int) -> None:
    """A head of `headers` bytes is taken; one with a byte more is refused with 431, however it arrives."""
    async with served(headers=4096) as run:
        for size, expected in ((4096, 200), (4097, 431), (100_000, 431)):
            raw = await run.connect()
            head = head_of(size)
            step = len(head) // parts + 1
            for start in range(0, len(head), step):
                raw.send(head[start : start + step])
                await asyncio.sleep(0)
            status, headers, _ = await raw.answer()
            assert status == expected, size
            if expected == 431:
                assert headers["connection"] == "close"
                assert await raw.rest() == b""
        assert len(run.app.seen) == 1


@pytest.mark.parametrize(
    "start",
    [
        b"GET /",
        b"GET /mcp HTTP/1.1\r\nhost: ",
        b"GET /mcp HTTP/1.1\r\nhost: a\r\nx",
        b"POST /mcp HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2;",
        b"POST /mcp HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ",
    ],
    ids=["target", "value", "name", "chunk extension", "trailer"],
)
async def test_what_never_ends_is_refused(start: bytes) -> None:
    """A target, a header, a chunk's extension or a trailer without an end is cut off, and the client can read why."""
    async with served(headers=4096) as run:
        raw = await run.connect()
        raw.send(start + b"a" * 1_000_000)
        assert (await raw.answer())[0] == 431
        assert await raw.rest() == b""
        assert "waiting" not in run.app.happened


async def test_a_body_in_tiny_chunks_is_taken() -> None:
    """The framing of a body counts only until its next piece: a thousand chunks of one byte pass a small limit."""
    async with served(headers=256) as run:
        raw = await run.connect()
        raw.send(
            b"POST /mcp HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1000 + b"0\r\n\r\n"
        )
        assert json.loads((await raw.answer())[2])["size"] == 1000


# ---- times


@pytest.mark.parametrize("start", [b"GET /mcp HTTP/1.1\r\nho", b"\r\n", b"G"])
async def test_a_slow_head_is_given_up(start: bytes) -> None:
    """A head that is not complete in `head_time` is refused with 408, on a new connection and on a kept one."""
    async with served(head_time=0.05) as run:
        raw = await run.connect()
        raw.send(start)
        assert (await raw.answer())[0] == 408
        assert await raw.rest() == b""
        kept = await run.connect()
        assert (await kept.post())[0] == 200
        kept.send(start)
        assert (await kept.answer())[0] == 408
        assert await kept.rest() == b""


async def test_a_silent_connection_is_closed() -> None:
    """Who connects and sends nothing is let go without a word."""
    async with served(head_time=0.05) as run:
        assert await (await run.connect()).rest() == b""


async def test_a_body_that_stops_is_given_up() -> None:
    """Who sends no more of a body for `head_time` is answered 408, and its handler hears that nobody waits."""
    async with served(head_time=0.05) as run:
        raw = await run.connect()
        raw.send(POST + b"content-length: 5\r\n\r\nab")
        assert (await raw.answer())[0] == 408
        await run.app.until("gone")
        assert await raw.rest() == b""


async def test_a_request_that_runs_has_all_its_time() -> None:
    """The time for the head ends with the head: a handler that takes longer is left alone."""
    async with served(head_time=0.05) as run:
        raw = await run.connect()
        raw.send(post("/gated"))
        await run.app.until("waiting")
        assert await (await run.connect()).rest() == b""  # a silent one, whose time is over
        run.app.gate.set()
        assert (await raw.answer())[2] == b"passed"


async def test_a_peer_that_takes_nothing_is_given_up() -> None:
    """Where nothing of an answer is taken for `write` seconds the connection is cut and the handler told (R07)."""
    async with served(write=0.05) as run:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, ("127.0.0.1", run.port))
            await loop.sock_sendall(deaf, post("/endless"))
            async with asyncio.timeout(PATIENCE):
                await run.app.until("gone")


# ---- how many


async def test_connections_are_capped() -> None:
    """Beyond `requests` connections one that has nothing to do makes room; else the new one is answered 503 at once."""
    async with served(requests=2) as run:
        first, second = await run.connect(), await run.connect()
        status, headers, body = await (third := await run.connect()).answer()
        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        assert b"`requests`" in body
        assert await third.rest() == b""
        third.close()
        assert (await first.post())[0] == 200
        fourth = await run.connect()
        assert (await fourth.post())[0] == 200
        assert await first.rest() == b""
        assert (await second.post())[0] == 200


async def test_a_body_that_drips_is_given_up() -> None:
    """A body has `body_time` seconds as a whole, however often something of it comes (T11)."""
    async with served(body_time=0.3, head_time=60) as run:
        raw = await run.connect()
        raw.send(b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: 900\r\n\r\n")

        async def drip() -> None:
            while True:
                raw.send(b" ")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        assert (await raw.answer())[0] == 408
        dripping.cancel()


async def test_all_requests_hear_of_a_hang_up() -> None:
    """A request that others came behind, on the same connection, is told too that its peer is gone (HTTP-7)."""
    async with served() as run:
        raw = await run.connect()
        raw.send(post("/wait") + post("/wait"))
        await run.app.until("waiting")
        raw.close()
        await run.app.until("gone")
        assert run.app.happened.count("waiting") == 1


# ---- what is no request


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (POST + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd", 400),
        (POST + b"content-length: 3\r\ncontent-length: 3\r\n\r\nabc", 400),
        (POST + b"content-length: 3, 3\r\n\r\nabc", 400),
        (POST + b"content-length: +3\r\n\r\nabc", 400),
        (POST + b"content-length: 0x3\r\n\r\nabc", 400),
        (POST + b"content-length:\r\n\r\nabc", 400),
        (POST + b"content-length: 99999999999999999999999\r\n\r\nabc", 400),
        (POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n0\r\n\r\n", 400),
        (POST + b"transfer-encoding: gzip\r\n\r\n0\r\n\r\n", 400),
        (POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
        (POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /mcp HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"x: a\r\n content-length: 3\r\n\r\nabc", 400),
        (b"GET /mcp HTTP/1.1\nhost: a\n\n", 400),
        (b"GET /mcp HTTP/1.1\r\nhost: a\rx: b\r\n\r\n", 400),
        (GET + b"x: a\0b\r\n\r\n", 400),
        (GET + b"x y: a\r\n\r\n", 400),
        (GET + b": a\r\n\r\n", 400),
        (b"GET /m cp HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"GET /\xff\xfe HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"GET http://[ HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"GET http://a HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"GET /mcp HTTP/1.2\r\nhost: a\r\n\r\n", 400),
        (b"GET /mcp HTTP/2.0\r\nhost: a\r\n\r\n", 505),
        (b"GET /mcp\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"FOO /mcp HTTP/1.1\r\nhost: a\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"{}\n", 400),
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(data: bytes, status: int) -> None:
    """Bytes that another HTTP parser could part otherwise are refused, nothing behind them is read, no app is run."""
    async with served() as run:
        raw = await run.connect()
        raw.send(data + post("/mcp", b"smuggled"))
        assert (await raw.answer())[0] == status
        assert await raw.rest() == b""
        assert run.app.seen == []


@pytest.mark.parametrize("broken", [b"zz\r\n", b"3\nabc\r\n", b"-1\r\n", b"3\r\nabcd\r\n"])
async def test_a_body_that_breaks_is_refused(broken: bytes) -> None:
    """A request whose chunks are broken is answered 400, and its handler hears that nobody waits."""
    async with served() as run:
        raw = await run.connect()
        raw.send(POST + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n" + broken)
        assert (await raw.answer())[0] == 400
        await run.app.until("gone")
        assert await raw.rest() == b""


@pytest.mark.parametrize("path", ["/wait", "/stubborn_stream"])
async def test_garbage_behind_a_request_cuts_the_connection(path: str) -> None:
    """What is no request, sent while another is being answered, gets no answer that could be taken for the other's."""
    async with served(grace=0.05) as run:
        raw = await run.connect()
        raw.send(post(path))
        if path == "/wait":
            await run.app.until("waiting")
        else:
            await raw.until(b"data: 1\n\n\r\n")
        raw.send(b"garbage\r\n\r\n")
        assert await raw.is_cut()
        if path == "/wait":
            await run.app.until("gone")


# ---- the end


async def test_the_end_waits_for_answers() -> None:
    """Idle connections are closed at once, and what is under way is answered as if nothing was (F24)."""
    async with served(grace=3600) as run:
        idle, running = await run.connect(), await run.connect()
        assert (await idle.post())[0] == 200
        running.send(post("/gated"))
        await run.app.until("waiting")
        run.stop()
        assert await idle.rest() == b""
        run.app.gate.set()
        status, _, body = await running.answer()
        assert (status, body) == (200, b"passed")
        assert await running.rest() == b""
        await run.ended()
        assert run.app.happened[-1] == "ended"


async def test_the_app_ends_what_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """After `grace` seconds streams are ended in order and requests are answered, and then the lifespan ends (F24)."""
    async with served(grace=0.05) as run:
        idle, stream, running = await run.connect(), await run.connect(), await run.connect()
        assert (await idle.post())[0] == 200
        stream.send(post("/stream"))
        running.send(post("/until_closing"))
        await run.app.until("streaming", "waiting")
        run.stop()
        assert (await running.answer())[2] == b"last"
        assert (await stream.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await stream.rest() == b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
        assert await idle.rest() == await running.rest() == b""
        await run.ended()
        assert run.app.happened[-2:] == ["closing", "ended"]
        with pytest.raises(ConnectionRefusedError):
            await run.connect()
    assert caplog.records == []


async def test_the_end_cancels_what_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """What the app does not end either is cancelled: answered 503, or ended where it had begun (F24)."""
    async with served(grace=0.05) as run:
        waiting, stream = await run.connect(), await run.connect()
        waiting.send(post("/wait"))
        stream.send(post("/stubborn_stream"))
        await run.app.until("waiting", "streaming")
        run.stop()
        status, headers, _ = await waiting.answer()
        assert (status, headers["retry-after"], headers["connection"]) == (503, "1", "close")
        assert (await stream.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await stream.rest() == b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
        await run.ended()
        assert run.app.happened[-2:] == ["cancelled", "ended"]
    assert caplog.records == []


async def test_the_end_cuts_an_answer_that_announced_more() -> None:
    """An answer that is shorter than it said is not made to look whole."""
    async with served(grace=0.05) as run:
        raw = await run.connect()
        raw.send(post("/announced"))
        await run.app.until("streaming")
        run.stop()
        assert (await raw.head())[1]["content-length"] == "10"
        assert await raw.rest() == b"1"
        await run.ended()


async def test_the_end_does_not_wait_for_half_a_request() -> None:
    """Connections that have sent a part of a head, or of a body, do not keep the server."""
    async with served(grace=0.05) as run:
        head, body = await run.connect(), await run.connect()
        head.send(b"GET /mc")
        body.send(POST + b"content-length: 5\r\n\r\nab")
        await run.app.until("called")
        run.stop()
        await run.ended()
        assert (await body.answer())[0] == 503
        assert await head.is_cut()


async def test_the_end_cuts_who_does_not_read() -> None:
    """A peer that takes nothing does not keep the server either."""
    async with served(grace=0.05) as run:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, ("127.0.0.1", run.port))
            await loop.sock_sendall(deaf, post("/endless"))
            await run.app.until("called")
            run.stop()
            await run.ended()


async def test_a_lifespan_that_fails_ends_the_start() -> None:
    """What the lifespan raises at the start is raised, and nothing was served."""

    class Failing(PlainApp):
        def lifespan(self, app: object) -> object:  # type: ignore[override]
            raise OSError("no database")

    with pytest.raises(OSError, match="no database"):
        async with served(Failing()) as run:
            await run.task


async def test_an_app_that_fails_is_one_answer_of_500(caplog: pytest.LogCaptureFixture) -> None:
    """What an app raises is logged and answered 500, and the connection's next request is served (T14)."""
    async with served() as run:
        raw = await run.connect()
        assert (await raw.post("/nothing_here"))[0] == 500
        assert (await (await run.connect()).post())[0] == 200
    [record] = caplog.records
    assert (record.name, record.levelno) == ("uvicorn.error", logging.ERROR)
