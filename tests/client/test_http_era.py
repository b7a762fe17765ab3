"""Era detection at a URL: what each answer means, and what says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import ConnectionClosed, HttpError, NotSupported, PeerError, RequestTimeout
from jackfield.protocol.limits import Limits
from tests.client.fakes import DISCOVERED, INITIALIZED, Fault, text_result
from tests.client.web import (
    Post,
    Reply,
    Web,
    answered,
    event,
    fault,
    initialized,
    legacy_web,
    modern_web,
    running,
    silence,
    stream,
)

PROBE, SHAKE = "server/discover", ["initialize", "notifications/initialized"]


async def test_modern_server() -> None:
    """A DiscoverResult, as a body or on a stream, makes a modern conversation; nothing else is sent (ERA-H1)."""
    for answer in (DISCOVERED, lambda post: stream(event({"id": post.id, "result": DISCOVERED}))):
        web = modern_web(server__discover=answer)
        async with running(web), Client(web.url) as client:
            assert client.revision == "2026-07-28"
            assert client.instructions == "Be kind."
        assert web.methods() == [PROBE]


NO_MODERN_SERVER: dict[str, Any] = {
    "400 empty": Reply(400),
    "400 text": Reply(400, b"Bad Request", "text/plain"),
    "400 page": Reply(400, b"<html>", "text/html"),
    "400 JSON of its own": Reply(400, b'{"error":"bad"}'),
    "400 not initialized": fault(-32000, "Bad Request: Server not initialized", status=400, id=None),
    "400 no session": fault(-32600, "Bad Request: Missing session ID", status=400),
    "400 bad version": fault(-32000, "Bad Request: Unsupported protocol version", status=400, id="server-error"),
    "400 invalid params": fault(-32602, "Invalid request parameters", status=400),
    "400 invalid params with data": fault(-32602, "no", {"supported": ["2025-06-18"]}, status=400),
    "404 page": Reply(404, b"Not Found", "text/plain"),
    "404 session": fault(-32001, "Session not found", status=404, id=None),
    "404 unknown method": fault(-32601, "Method not found", status=404),
    "405": Reply(405),
    "406": fault(-32000, "Not Acceptable", status=406, id=None),
    "415": Reply(415),
    "422": Reply(422, b'{"detail":[]}'),
    "200 unknown method": fault(-32601, "Method not found"),
    "200 invalid params": fault(-32602, "Invalid request parameters"),
    "200 on a stream": lambda post: stream(event({"id": post.id, "error": Fault(-32601, "no").error})),
    "200 page": Reply(200, b"<html>", "text/html"),
    "202": Reply(202, kind=""),
    "another result": {},
}


@pytest.mark.parametrize("answer", NO_MODERN_SERVER.values(), ids=NO_MODERN_SERVER)
async def test_answer_that_leads_to_initialize(answer: Any) -> None:
    """Whatever a legacy server answers to the probe, the handshake follows (ERA-H1)."""
    web = legacy_web(server__discover=answer, tools__call=text_result("hi"))
    async with running(web), Client(web.url) as client:
        assert client.revision == "2025-11-25"
        assert (await client.call_tool("a")).text == "hi"
    assert web.methods() == [PROBE, *SHAKE, "tools/call", "DELETE"]


async def test_legacy_answers_on_streams() -> None:
    """A legacy server may answer everything with streams, the handshake included (LH-1)."""
    web = legacy_web(
        initialize=lambda post: stream(
            b"id: 1\ndata:\n\n", event({"id": post.id, "result": INITIALIZED | {"protocolVersion": "2025-06-18"}})
        ),
        tools__call=lambda post: stream(event(answered(post))),
    )
    async with running(web), Client(web.url) as client:
        assert client.revision == "2025-06-18"
        assert (await client.call_tool("a")).text == "hi"
    assert web.posts("tools/call")[0].headers["mcp-protocol-version"] == "2025-06-18"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (fault(-32021, "sampling needed", {"requiredCapabilities": {}}, status=400), "sampling needed"),
        (fault(-32020, "header mismatch", status=400), "header mismatch"),
        (fault(-32022, "no", {"supported": ["2099-01-01"]}, status=400), "speaks 2099-01-01"),
        (fault(-32022, "no", status=400), "speaks nothing that can be read"),
        (fault(-32022, "no", {"supported": ["2026-07-28"]}, status=400), "refuses a request in it"),
        (fault(-32020, "header mismatch", status=500), "header mismatch"),
    ],
)
async def test_modern_refusal(answer: Any, why: str) -> None:
    """A modern code is a modern server's word, on any status: it is acted on, and initialize never tried (ERA-H1)."""
    web = legacy_web(server__discover=answer)
    async with running(web):
        with pytest.raises((NotSupported, PeerError), match=why):
            await Client(web.url).connect()
    assert set(web.methods()) == {PROBE}


@pytest.mark.parametrize("code", [-32022, -32602])
async def test_first_request_refused_for_its_version(code: int) -> None:
    """A server that refuses the first request, naming the very revision that it was in, is asked once more (DISC-3)."""
    web = modern_web()

    def discover(post: Post) -> Any:
        first = len(web.posts(PROBE)) == 1
        return fault(code, "no", {"supported": ["2026-07-28"]}, status=400)(post) if first else DISCOVERED

    web.answers[PROBE] = discover
    async with running(web), Client(web.url) as client:
        assert client.revision == "2026-07-28"
    assert web.methods() == [PROBE, PROBE]


async def test_modern_refusal_that_names_older_revisions() -> None:
    """A server that itself names legacy revisions alone is initialized with the best of them (DISC-3)."""
    web = legacy_web(
        server__discover=fault(-32022, "no", {"supported": ["2025-03-26", "2025-06-18"]}, status=400),
        initialize=initialized(None, "2025-06-18"),
    )
    async with running(web), Client(web.url) as client:
        assert client.revision == "2025-06-18"
    assert web.posts("initialize")[0].message["params"]["protocolVersion"] == "2025-06-18"


@pytest.mark.parametrize(
    "answer",
    [
        Reply(401, headers={"WWW-Authenticate": "Bearer"}),
        Reply(403),
        Reply(429),
        Reply(500),
        Reply(503, b"busy", "text/plain"),
        fault(-32603, "boom", status=500),
        Reply(302, headers={"Location": "/login"}),
        Reply(307, headers={"Location": "http://other.invalid/"}),
    ],
    ids=["401", "403", "429", "500", "503", "500 with an error", "302", "307"],
)
async def test_answer_that_says_nothing_of_the_era(answer: Any) -> None:
    """Refused credentials, failures of the server and redirects are errors, and no reason to initialize (ERA-H3)."""
    web = legacy_web(server__discover=answer)
    async with running(web):
        for mode in ("auto", "modern"):
            with pytest.raises((HttpError, PeerError)):
                await Client(web.url, mode=mode).connect()
        web.answers["initialize"] = answer
        with pytest.raises((HttpError, PeerError)):
            await Client(web.url, mode="legacy").connect()
    assert web.methods() == [PROBE, PROBE, "initialize"]


async def test_silence_and_broken_connections() -> None:
    """Neither does a timeout, a stream without an answer, or a server that is not there (ERA-H3)."""
    web = legacy_web(server__discover=silence)
    async with running(web):
        with pytest.raises(RequestTimeout):
            await Client(web.url, limits=Limits(request_timeout=0.05)).connect()
        web.answers[PROBE] = stream()
        with pytest.raises(ConnectionClosed):
            await Client(web.url).connect()
    with pytest.raises(ConnectionClosed, match="could not be connected to"):
        await Client(web.url).connect()
    assert web.methods() == [PROBE, PROBE]


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_neither_era(status: int) -> None:
    """Where the handshake is refused too, the error tells of both answers, and of the transport that is missing."""
    web = Web({PROBE: Reply(400, b"what?", "text/plain"), "initialize": Reply(status, b"nope", "text/plain")})
    async with running(web):
        with pytest.raises(NotSupported) as caught:
            await Client(web.url).connect()
    text = str(caught.value)
    for part in (
        "refused the handshake",
        f"HTTP {status}",
        "nope",
        "server/discover was answered with",
        "what?",
        "SSE",
    ):
        assert part in text
    assert web.methods() == [PROBE, "initialize"]


async def test_modern_server_without_discover() -> None:
    """A server that knows neither method is an error, which tells of both answers (DISC-1, ERA-H1)."""
    web = Web({PROBE: fault(-32601, "unknown", status=404), "initialize": fault(-32601, "unknown", status=404)})
    async with running(web):
        with pytest.raises(NotSupported, match=r"refused the handshake: unknown \(-32601\); server/discover.*unknown"):
            await Client(web.url).connect()


async def test_forced_modern() -> None:
    """`mode` "modern" never tries the handshake (ERA-S3)."""
    web = legacy_web()
    async with running(web):
        with pytest.raises(NotSupported, match=r"not a server of that era: .*Server not initialized.*mode='auto'"):
            await Client(web.url, mode="modern").connect()
    assert web.methods() == [PROBE]


async def test_forced_legacy() -> None:
    """`mode` with a legacy revision sends no probe; a refusal says how to reach the server."""
    web = modern_web()
    async with running(web):
        with pytest.raises(NotSupported, match=r"refused the handshake: .*-32601.*mode='auto'"):
            await Client(web.url, mode="2025-06-18").connect()
    assert web.methods() == ["initialize"]


async def test_era_is_remembered_until_it_is_contradicted() -> None:
    """What a URL was found to be is known to the next client; when it refuses that, it is probed anew (ERA-H2)."""
    web = legacy_web()
    async with running(web):
        for _ in range(2):
            async with Client(web.url) as client:
                assert client.revision == "2025-11-25"
        assert web.methods().count(PROBE) == 1
        web.answers = {"initialize": fault(-32603, "boom", status=500)}
        with pytest.raises(PeerError, match="boom"):
            await Client(web.url).connect()
        assert web.methods().count(PROBE) == 1  # a failure contradicts nothing
        web.answers = modern_web().answers
        web.heard.clear()
        for _ in range(2):
            async with Client(web.url) as client:
                assert client.revision == "2026-07-28"
    assert web.methods() == ["initialize", PROBE, PROBE]


@pytest.mark.parametrize(
    "answer",
    [
        Reply(404, b"not here", "text/plain"),
        Reply(400),
        Reply(405),
        fault(-32022, "no", {"supported": ["2025-11-25"]}, status=400),
    ],
    ids=["404", "400", "405", "-32022"],
)
async def test_server_that_became_another(answer: Any) -> None:
    """A client whose server changes its era in its lifetime looks again with the next call (ERA-H2)."""
    web = modern_web(tools__call=text_result("modern"))
    async with running(web), Client(web.url) as client:
        assert (await client.call_tool("a")).text == "modern"
        web.answers = legacy_web(tools__call=answer).answers
        with pytest.raises((HttpError, PeerError)):
            await client.call_tool("a")
        web.answers["tools/call"] = text_result("legacy")
        assert (await client.call_tool("a")).text == "legacy"
        assert client.revision == "2025-11-25"


async def test_failed_attempt_leaves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Where connecting fails no socket stays open, and the same client may try again (F3)."""
    web = modern_web(server__discover=Reply(500))
    async with running(web):
        client = Client(web.url)
        for _ in range(2):
            with pytest.raises(HttpError):
                await client.connect()
            await web.until(lambda: web.sockets == 0)
        web.answers[PROBE] = DISCOVERED
        async with client:
            assert client.revision == "2026-07-28"
        await web.until(lambda: web.sockets == 0)
    assert caplog.text == ""
