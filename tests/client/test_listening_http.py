"""Listening over HTTP and pipes: a stream is an answer that never ends, or one channel with everything else."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from jackfield.client import subscription
from jackfield.client.client import Client
from jackfield.client.events import Choice
from jackfield.protocol.errors import HttpError, NotSupported, SessionExpired
from jackfield.protocol.events import Event
from jackfield.transport.process import Stdio
from tests.client.fakes import DISCOVERED, INITIALIZED, text_result
from tests.client.listens import ID, LISTEN, TELLING, TOOLS, begin, no_waits, silent, take
from tests.client.web import Post, Reply, Web, begin_stream, fault, initialized, modern_web, packed, pour, running

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    return no_waits(monkeypatch)


def marked(method: str, post: Post, **params: Any) -> dict[str, Any]:
    """A notification of a stream."""
    return {"method": method, "params": {"_meta": {ID: post.id}, **params}}


async def acknowledge(post: Post) -> None:
    """Begin the stream that was asked for."""
    told = post.message["params"]["notifications"]
    await begin_stream(post, marked(ACKNOWLEDGED, post, notifications=told))


async def stay(post: Post) -> None:
    """Begin the stream that was asked for, and keep it until the client ends it."""
    await acknowledge(post)
    await post.gone.wait()


def telling(listen: Any = stay, **answers: Any) -> Web:
    return modern_web(subscriptions__listen=listen, **answers)


@pytest.mark.parametrize("how", ["aclose", "close", "break"])
async def test_the_end_of_a_stream_over_http(how: str) -> None:
    """A stream is ended by closing it: the server sees that, and is told nothing else (SUB-5, HTTP-7)."""
    async with running(telling()) as web, Client(web.url) as client:
        events = client.listen()
        await events.__aenter__()
        (post,) = web.posts(LISTEN)
        await pour(post, marked("notifications/tools/list_changed", post))
        if how == "break":
            async for event in events:
                assert event == TOOLS
                break
            del events
        else:
            assert await take(events, 1) == [TOOLS]
            await (events.aclose() if how == "aclose" else client.close())
        await post.gone.wait()
        if how != "close":
            await client.ping()
    assert "notifications/cancelled" not in web.methods()
    assert len(web.posts(LISTEN)) == 1


async def test_streams_of_one_server_over_http() -> None:
    """Each stream is an answer of its own, beside which calls go on (SUB-4)."""
    server = telling(tools__call=text_result("hi"))
    async with running(server) as web, Client(web.url) as client:
        async with client.listen(tools=True) as one, client.listen(uris=["a:b"]) as other:
            first, second = web.posts(LISTEN)
            await pour(second, marked("notifications/resources/updated", second, uri="a:b/c"))
            assert await take(other, 1) == [Event("resource", "a:b/c")]
            assert (await client.call_tool("a")).text == "hi"
            await pour(first, marked("notifications/tools/list_changed", first))
            assert await take(one, 1) == [TOOLS]
            assert await silent(other)


@pytest.mark.parametrize("how", ["result", "end of the stream", "abort"])
async def test_a_stream_that_ends_over_http(how: str, waits: list[float]) -> None:
    """However the server or the way ends a stream, it is begun again on the same connection (SUB-5)."""

    async def listen(post: Post) -> None:
        await acknowledge(post)
        if len(web.posts(LISTEN)) > 1:
            await post.gone.wait()
        elif how == "result":
            await pour(post, {"id": post.id, "result": {"resultType": "complete", "_meta": {ID: post.id}}})
            post.writer.write(b"0\r\n\r\n")
        elif how == "abort":
            post.writer.transport.abort()
        else:
            post.writer.write(b"0\r\n\r\n")

    async with running(telling(listen)) as web, Client(web.url) as client, client.listen(tools=True) as events:
        assert await take(events, 1) == [TOOLS]
        first, second = web.posts(LISTEN)
        assert first.id != second.id
        assert web.methods().count("server/discover") == 1
        assert waits == [0.0]


async def test_a_server_that_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server is away it is tried again and again; then all may have changed (SUB-5)."""
    started = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds > 0 and not started.is_set():
            await web.start()
            started.set()

    monkeypatch.setattr(subscription, "sleep", sleep)
    async with running(telling()) as web, Client(web.url) as client, client.listen(tools=True) as events:
        await web.stop()
        assert await take(events, 1) == [TOOLS]
        assert started.is_set()


async def test_a_server_of_the_other_era_takes_its_place(waits: list[float]) -> None:
    """Where the server is a legacy one all of a sudden, it is listened to as one (ERA-H2, RSC-6)."""
    ended = asyncio.Event()

    async def listen(post: Post) -> Reply | None:
        if ended.is_set():
            return Reply(404, b"not found", kind="text/plain")
        await acknowledge(post)
        await ended.wait()
        post.writer.write(b"0\r\n\r\n")
        return None

    def probe(post: Post) -> Reply:
        if len(web.posts("server/discover")) == 2:  # the first one after that at the beginning
            return Reply(503, b"", kind="")
        return fault(-32000, status=400, id=None)(post)

    def initialize(post: Post) -> Reply:
        result = INITIALIZED | {"capabilities": TELLING}
        return Reply(body=packed({"id": post.id, "result": result}), headers={"Mcp-Session-Id": "s-1"})

    async with running(telling(listen)) as web, Client(web.url) as client:
        async with client.listen(uris=["a:b"]) as events:
            web.answers |= {"server/discover": probe}
            web.answers |= {"initialize": initialize, "resources/subscribe": {}, "resources/unsubscribe": {}}
            web.answers["DELETE"] = Reply(200, kind="")
            ended.set()
            assert await take(events, 1) == [Event("resource", "a:b")]
            assert client.revision == "2025-11-25"
        assert web.methods().count("resources/subscribe") == web.methods().count("resources/unsubscribe") == 1


async def test_a_session_that_takes_anothers_place(waits: list[float]) -> None:
    """When a call finds that the server is another now, those who listen do so in the new conversation too."""
    answers = [Reply(404, b"", kind="text/plain")]
    server = telling(prompts__list=lambda post: answers.pop() if answers else {"prompts": []})
    async with running(server) as web, Client(web.url) as client, client.listen(tools=True) as events:
        with pytest.raises(HttpError):
            await client.list_prompts()
        assert await client.list_prompts() == []
        assert await take(events, 1) == [TOOLS]
        first, second = web.posts(LISTEN)
        await first.gone.wait()
        await pour(second, marked("notifications/tools/list_changed", second))
        assert await take(events, 1) == [TOOLS]
        assert web.methods().count("server/discover") == 2
        assert waits == []


@pytest.mark.parametrize("again", [False, True])
async def test_a_session_that_expired_while_subscribing(again: bool, waits: list[float]) -> None:
    """A legacy server that has forgotten the session is subscribed to in a new one, once (F13)."""

    def subscribe(post: Post) -> Any:
        if post.headers["mcp-session-id"] == "s-2" and not again:
            return {}
        return fault(-32001, "Session not found", status=404, id=None)(post)

    def initialize(post: Post) -> Reply:
        session = f"s-{web.methods().count('initialize')}"
        result = INITIALIZED | {"capabilities": TELLING}
        return Reply(body=packed({"id": post.id, "result": result}), headers={"Mcp-Session-Id": session})

    answers = {"initialize": initialize, "resources/subscribe": subscribe, "resources/unsubscribe": {}}
    web = Web({"server/discover": fault(-32000, status=400, id=None), "DELETE": Reply(200, kind="")} | answers)
    async with running(web), Client(web.url) as client:
        if again:
            with pytest.raises(SessionExpired):
                await begin(client.listen(uris=["a:b"]), "enter")
        else:
            async with client.listen(uris=["a:b"]) as events:
                assert events.acknowledged == Choice(uris=("a:b",))
    assert web.methods().count("initialize") == 2
    assert waits == [0.0]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (fault(-32601, status=404), NotSupported),
        (Reply(401, b"", kind=""), HttpError),
        (Reply(503, b"", kind=""), HttpError),
    ],
)
async def test_refusals_over_http(answer: Any, error: type[Exception], waits: list[float]) -> None:
    """What a server or whoever stands before it answers instead of a stream is raised."""
    async with running(telling(answer)) as web, Client(web.url) as client:
        with pytest.raises(error):
            await begin(client.listen(), "enter")
        await client.ping()
    assert waits == []


@pytest.mark.parametrize(("status", "passes"), [(401, False), (403, False), (503, True), (429, True)])
async def test_what_may_pass_over_http(status: int, passes: bool, waits: list[float]) -> None:
    """After it was acknowledged once it is tried again where that may help; whoever must say who they are is told."""
    answers: list[Any] = [None, Reply(status, b"", kind=""), None]

    async def listen(post: Post) -> Any:
        if (answer := answers.pop(0)) is not None:
            return answer
        await acknowledge(post)
        if answers:
            post.writer.write(b"0\r\n\r\n")
        else:
            await post.gone.wait()
        return None

    async with running(telling(listen)) as web, Client(web.url) as client, client.listen(tools=True) as events:
        if passes:
            assert await take(events, 1) == [TOOLS]
            assert len(waits) == 2
        else:
            with pytest.raises(HttpError):
                await take(events, 1)


async def test_a_legacy_server_without_subscriptions() -> None:
    """The handshake of a legacy server without subscriptions is enough to know that it has none (CAP-3)."""
    web = Web({"server/discover": fault(-32000, status=400, id=None), "initialize": initialized(None)})
    async with running(web), Client(web.url) as client:
        with pytest.raises(NotSupported, match=r"resources\.subscribe"):
            await begin(client.listen(uris=["a:b"]), "iterate")
    assert LISTEN not in web.methods()


# ---- a process

SERVER = """
import json, os, sys
ID = "io.modelcontextprotocol/subscriptionId"
heard = []
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def tell(method, id, **params):
    say(method="notifications/" + method, params={"_meta": {ID: id}, **params})
for line in sys.stdin:
    message = json.loads(line)
    method, params, id = message["method"], message["params"], message.get("id")
    heard.append([method, params.get("requestId", id)])
    if method == "server/discover":
        say(id=id, result=FACTS)
    elif method == "subscriptions/listen":
        tell("subscriptions/acknowledged", id, notifications=params["notifications"])
        stream = id
    elif method == "tools/call":
        if params["name"] == "die":
            os._exit(3)
        if params["name"] == "change":
            tell("tools/list_changed", stream)
        say(id=id, result={"content": [{"type": "text", "text": json.dumps(heard)}], "resultType": "complete"})
"""


def process() -> Stdio:
    return Stdio(sys.executable, "-c", SERVER.replace("FACTS", repr(DISCOVERED)))


async def test_listening_to_a_process(waits: list[float]) -> None:
    """Over a pipe the stream shares the channel with calls, and its end is a cancellation, once (STDIO-5, SUB-5)."""
    async with Client(process()) as client:
        async with client.listen(tools=True) as events:
            await client.call_tool("change")
            assert await take(events, 1) == [TOOLS]
        heard = (await client.call_tool("heard")).text
    assert heard.count("notifications/cancelled") == 1
    assert '["subscriptions/listen", 2]' in heard
    assert '["notifications/cancelled", 2]' in heard
    assert waits == []


async def test_a_process_that_dies(waits: list[float]) -> None:
    """A server that dies is started again by those who listen, who hear that all may have changed (SUB-8, STDIO-7)."""
    async with Client(process()) as client, client.listen(tools=True) as events:
        dying = asyncio.ensure_future(client.call_tool("die"))
        assert await take(events, 1) == [TOOLS]
        await asyncio.wait([dying])
        assert dying.exception() is not None
        await client.call_tool("change")
        assert await take(events, 1) == [TOOLS]
    assert waits == [0.0]
