"""The HTTP client: what it sends, and what it makes of an answer in one piece."""

from __future__ import annotations

import asyncio
import gzip
import re
import zlib
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import (
    CallError,
    ConnectionClosed,
    HttpError,
    InvalidResult,
    JackfieldError,
    LimitExceeded,
    PeerError,
)
from jackfield.protocol.limits import Limits
from jackfield.transport.http.target import Http
from tests.client.fakes import text_result
from tests.client.web import (
    Post,
    Reply,
    answered,
    call,
    fault,
    legacy_web,
    modern_web,
    packed,
    refused,
    running,
)

HELLO = text_result("hi")


# ---- what is sent


async def test_modern_headers() -> None:
    """Each POST says its types, revision, method and name (HTTP-2, HDR-3); there is no session (HTTP-1)."""
    web = modern_web(tools__call=HELLO, prompts__get={"messages": []}, resources__read={"contents": []})
    async with running(web), Client(web.url) as client:
        await client.call_tool("Grüezi")
        await client.get_prompt("p")
        await client.read_resource("plan://1")
    discover, listing, *others = web.heard
    assert listing.method == "tools/list"
    for post in web.heard:
        assert (post.verb, post.path) == ("POST", "/mcp")
        assert post.headers["content-type"] == "application/json"
        assert post.headers["accept"] == "application/json, text/event-stream"
        assert post.headers["accept-encoding"] == "identity"
        assert post.headers["mcp-protocol-version"] == "2026-07-28"
        assert post.headers["mcp-method"] == post.method
        assert "mcp-session-id" not in post.headers
    assert "mcp-name" not in discover.headers
    assert [post.headers["mcp-name"] for post in others] == ["=?base64?R3LDvGV6aQ==?=", "p", "plan://1"]


async def test_session_of_a_modern_server_is_ignored() -> None:
    """A session id that a modern server hands out is not sent back, nor ended (HTTP-1)."""
    web = modern_web(tools__call=lambda post: Reply(body=packed(answered(post)), headers={"Mcp-Session-Id": "x"}))
    async with running(web), Client(web.url) as client:
        await client.call_tool("a")
        await client.call_tool("a")
    assert all("mcp-session-id" not in post.headers for post in web.heard)
    assert "DELETE" not in web.methods()


@pytest.mark.parametrize(("version", "header"), [("2025-11-25", "2025-11-25"), ("2025-06-18", "2025-06-18")])
async def test_legacy_headers(version: str, header: str) -> None:
    """The session and the negotiated revision go with all but initialize; at the end the session is deleted (LH-8)."""
    web = legacy_web("s-1", version, tools__call=HELLO)
    assert await call(web, mode="legacy") == "hi"
    first, *others = web.heard
    assert [post.method for post in others] == ["notifications/initialized", "tools/call", "DELETE"]
    assert "mcp-session-id" not in first.headers
    assert "mcp-protocol-version" not in first.headers
    for post in others:
        assert post.headers["mcp-session-id"] == "s-1"
        assert post.headers["mcp-protocol-version"] == header
        assert "mcp-method" not in post.headers


async def test_revision_without_a_version_header() -> None:
    """2025-03-26 has no MCP-Protocol-Version header (LIFE-4), and a server without sessions is told of none (LH-11)."""
    web = legacy_web(None, "2025-03-26", tools__call=HELLO)
    assert await call(web, mode="legacy") == "hi"
    assert web.methods() == ["initialize", "notifications/initialized", "tools/call"]
    for post in web.heard:
        assert not {"mcp-protocol-version", "mcp-session-id"} & set(post.headers)


async def test_headers_and_cookies_of_the_user() -> None:
    """Own headers and cookies go with every request; what the server sets is sent back from then on."""
    web = modern_web(
        tools__call=lambda post: Reply(body=packed(answered(post)), headers={"Set-Cookie": "lb=two; Path=/"})
    )
    async with running(web):
        target = Http(web.url, headers={"Authorization": "Bearer t"}, cookies={"own": "one"})
        async with Client(target) as client:
            await client.call_tool("a")
            await client.call_tool("a")
    assert all(post.headers["authorization"] == "Bearer t" for post in web.heard)
    cookies = [sorted(post.headers["cookie"].split("; ")) for post in web.heard]
    assert cookies == [*[["own=one"]] * 3, ["lb=two", "own=one"]]


async def test_cookies_are_kept_over_a_reconnect_and_never_shared() -> None:
    """One jar for one client: the same client keeps a cookie after a fault, another client does not see it."""
    web = modern_web(tools__call=lambda post: Reply(body=packed(answered(post)), headers={"Set-Cookie": "lb=1"}))
    async with running(web):
        async with Client(web.url) as one, Client(web.url) as other:
            await one.call_tool("a")
            await web.stop()
            with pytest.raises(ConnectionClosed):
                await one.call_tool("a")
            await web.start()
            await one.call_tool("a")
            await other.call_tool("a")
    assert [post.headers.get("cookie") for post in web.posts("tools/call")] == [None, "lb=1", None]


async def test_large_request() -> None:
    """A body of several MiB arrives whole, and with its length."""
    web = modern_web(tools__call=lambda post: text_result(str(len(post.message["params"]["arguments"]["text"]))))
    async with running(web), Client(web.url) as client:
        assert (await client.call_tool("a", {"text": "x" * 3_000_000})).text == "3000000"


async def test_environment_proxies_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the environment names is used with `env_proxies` alone; `proxy` names one outright."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    proxy = modern_web(tools__call=HELLO)
    async with running(proxy):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(ConnectionClosed):
            await Client("http://127.0.0.1:9/mcp").connect()
        assert proxy.heard == []
        for target in (
            Http("http://server.invalid/mcp", env_proxies=True),
            Http("http://server.invalid/mcp", proxy=f"http://127.0.0.1:{proxy.port}"),
        ):
            async with Client(target) as client:
                assert (await client.call_tool("a")).text == "hi"
    assert {post.path for post in proxy.heard} == {"http://server.invalid/mcp"}


# ---- answers in one piece


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "text/plain", ""])
async def test_json_answer(kind: str) -> None:
    """A body that is the answer is taken whatever type it claims to be (FT-2)."""
    assert await call(modern_web(tools__call=lambda post: Reply(body=packed(answered(post)), kind=kind))) == "hi"


async def test_answer_without_a_length() -> None:
    """A body may come in pieces, without its length before it."""

    def answer(post: Post) -> Reply:
        body = packed(answered(post))
        return Reply(chunks=[body[place : place + 1] for place in range(len(body))])

    assert await call(modern_web(tools__call=answer)) == "hi"


async def test_error_with_its_status() -> None:
    """A JSON-RPC error is told as such on any status, which the exception holds (FT-2)."""
    error = await refused(fault(-32601, "no such method", status=404))
    assert isinstance(error, PeerError)
    assert (error.code, error.message, error.status) == (-32601, "no such method", 404)
    error = await refused(fault(-32602, "no such tool", {"a": 1}))
    assert type(error) is PeerError
    assert (error.code, error.data) == (-32602, {"a": 1})


@pytest.mark.parametrize("named", [None, "null"])
@pytest.mark.parametrize("status", [200, 400, 413, 500])
async def test_error_without_an_id(named: str | None, status: int) -> None:
    """An error that names no request, in the body of one POST, is the answer to that POST (FT-2, F31)."""

    def answer(post: Post) -> Reply:
        body = packed({"error": {"code": -32700, "message": "bad"}})
        return Reply(status, body if named is None else body[:-1] + b',"id":null}')

    error = await refused(answer)
    assert isinstance(error, PeerError)
    assert error.code == -32700


REFUSALS: dict[str, tuple[Any, type[Exception], str]] = {
    "page": (Reply(502, b"<h1>Bad Gateway</h1>", "text/html"), HttpError, "HTTP 502 Odd: <h1>Bad Gateway</h1>"),
    "page for 200": (Reply(200, b"<h1>Sign in</h1>", "text/html"), HttpError, "HTTP 200 OK: <h1>Sign in"),
    "terminal codes": (Reply(500, b"\x1b[2Jboom", "text/plain"), HttpError, r"HTTP 500 Odd: \\x1b\[2Jboom"),
    "nothing": (Reply(500), HttpError, "tools/call was answered with HTTP 500 Odd$"),
    "empty 200": (Reply(200), HttpError, "HTTP 200 OK .a request needs an answer"),
    "empty 202": (Reply(202), HttpError, "HTTP 202 Accepted .a request needs an answer"),
    "token wanted": (Reply(401, b"{}"), HttpError, r"Http\(url, headers=\{'Authorization'"),
    "token wanted, as JSON-RPC": (fault(-32001, "who?", status=401, id=None), HttpError, "who are: |who you are.*who?"),
    "forbidden": (Reply(403), HttpError, "Authorization"),
    "too often": (Reply(429, headers={"Retry-After": "7"}), HttpError, "asked too often"),
    "no session was ever set": (Reply(404, b"nope", "text/plain"), HttpError, "HTTP 404 Not Found .is the path"),
    "no JSON": (Reply(200, b"{oops"), InvalidResult, "answered tools/call with not JSON"),
    "no message": (Reply(200, b'{"a":1}'), InvalidResult, "jsonrpc"),
    "array": (Reply(200, b"[]"), InvalidResult, "batch"),
    "half a surrogate": (Reply(200, b'{"jsonrpc":"2.0","id":1,"result":"\\ud800"}'), JackfieldError, ""),
    "another's answer": (
        lambda post: Reply(body=packed({"id": post.id + 1000, "result": HELLO})),
        HttpError,
        "is not the answer to this request",
    ),
    "id as text": (
        lambda post: Reply(body=packed({"id": str(post.id), "result": HELLO})),
        HttpError,
        "is not the answer to this request",
    ),
    "a request": (
        Reply(body=packed({"id": 1, "method": "ping"})),
        HttpError,
        "is not the answer to this request",
    ),
    "another's error": (
        lambda post: Reply(400, packed({"id": "x", "error": {"code": 1, "message": "no"}})),
        HttpError,
        "HTTP 400",
    ),
}


@pytest.mark.parametrize(("answer", "kind", "text"), REFUSALS.values(), ids=REFUSALS)
async def test_answer_that_is_none(answer: Any, kind: type[Exception], text: str) -> None:
    """What is no answer to the request fails it, and nothing else, with the status and what it was (FT-2)."""
    error = await refused(answer)
    assert isinstance(error, kind)
    assert error.__class__ is not ConnectionClosed
    assert re.search(text, str(error)), str(error)


async def test_status_and_headers_of_a_refusal() -> None:
    """The exception holds the status and the headers of the answer."""
    error = await refused(Reply(429, headers={"Retry-After": "7"}))
    assert isinstance(error, HttpError)
    assert isinstance(error, CallError)
    assert error.status == 429
    assert error.headers["retry-after"] == "7"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_compressed_answer(coding: str) -> None:
    """A compressed answer was not asked for and is refused unread, be it small or a bomb (T12)."""
    packer = zlib.compressobj(9)
    bomb = gzip.compress(packer.compress(bytes(2**24)) + packer.flush())
    error = await refused(Reply(200, bomb, headers={"Content-Encoding": coding}))
    assert isinstance(error, HttpError)
    assert f"compressed ({coding})" in str(error)


async def test_compressed_stream() -> None:
    """A stream is no exception."""
    reply = Reply(
        chunks=[gzip.compress(b"data: {}\n\n")], kind="text/event-stream", headers={"Content-Encoding": "gzip"}
    )
    assert "compressed (gzip)" in str(await refused(reply))


async def test_large_answer_is_refused_by_its_length() -> None:
    """An answer that says that it is larger than the limit is not read (T11)."""
    limits = Limits(answer=2000)
    error = await refused(Reply(200, b" " * 2001), limits=limits)
    assert isinstance(error, LimitExceeded)
    assert (error.limit, "2000 bytes (limit `answer`)" in str(error)) == ("answer", True)


async def test_endless_answer() -> None:
    """An answer without length or end is read up to the limit, and the socket is closed (T11)."""
    seen: list[Post] = []
    sent = 0

    async def pour(post: Post) -> None:
        nonlocal sent
        seen.append(post)
        post.writer.write(Reply(chunks=[], end=True).head)
        while not post.gone.is_set():
            post.writer.write(b"10000\r\n" + b" " * 2**16 + b"\r\n")
            sent += 2**16
            await post.writer.drain()
            await asyncio.sleep(0)

    error = await refused(pour, limits=Limits(answer=2**20))
    assert isinstance(error, LimitExceeded)
    assert error.limit == "answer"
    assert sent < 2**25


async def test_error_page_without_end() -> None:
    """Of a refusal's page only the beginning is read."""
    error = await refused(Reply(500, b"x" * 2**22, "text/html"), limits=Limits(answer=2**22))
    assert isinstance(error, HttpError)
    assert len(str(error)) < 500


async def test_deep_answer() -> None:
    """An answer that is nested beyond the limit is refused (T13)."""
    deep = b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    error = await refused(Reply(200, deep))
    assert isinstance(error, InvalidResult)
    assert "limit `depth`" in str(error)
