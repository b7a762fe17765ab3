"""What is refused before a body is read: hosts, origins, tokens, forms, sizes; and what pages of other sites get."""

from typing import Any

import pytest

from jackfield import Limits, RegistrationError
from jackfield.transport.http.guard import JSON, STREAM, beyond_legacy, is_loopback, read_accept
from tests.asgi import USUAL, Call, changed, legacy, message, modern, session, tool

from .lab import Lab


@pytest.fixture
def lab() -> Lab:
    """A lab with the default limits."""
    return Lab()


async def refused(app: Any, status: int, setting: str = "", **headers: str | None) -> Call:
    """Send a good call but for these headers, and see it refused before its body is read."""
    call = await tool(app, "add", {"a": 1, "b": 2}, **headers).end()
    assert call.status == status, (headers, call.status)
    assert (call.taken, "id" in call.json) == (0, False)
    assert setting in call.json["error"]["message"]
    return call


async def passed(app: Any, **headers: str | None) -> Call:
    call = await tool(app, "add", {"a": 1, "b": 2}, **headers).end()
    assert call.status == 200, (headers, call.body)
    return call


# ---- Host

OWN = ("localhost", "LOCALHOST:1", "localhost.", "127.0.0.1", "127.0.0.1:8000", "127.9.8.7", "[::1]", "[::1]:80")
FOREIGN = ("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "[::2]",
           "128.0.0.1", "127.0.0.256", "127.0.1", "mylocalhost")  # fmt: skip
BAD = ("", "a b", "localhost/evil", "localhost?x", "x#localhost", "user@localhost", "localhost:port", "[::1", "a..b",
       "ü", "localhost:123456", "localhost, evil.example")  # fmt: skip


@pytest.mark.parametrize("host", OWN)
async def test_a_loopback_server_takes_its_own_names(lab: Lab, host: str) -> None:
    """Names of this machine to itself pass, in any case, with any port or a final dot (T01, F25)."""
    app = lab.server.http_app(loopback=True)
    for _ in range(2):  # judged, then remembered
        await passed(app, host=host)


@pytest.mark.parametrize("host", FOREIGN)
async def test_a_loopback_server_takes_no_other_name(lab: Lab, host: str) -> None:
    """A foreign Host is 421, whatever the path and method; the refusal names the setting (T01, F25)."""
    app = lab.server.http_app(loopback=True, health=True)
    for _ in range(2):
        await refused(app, 421, "allowed_hosts", host=host)
    for method, path in (("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/health"), ("POST", "/other"), ("PUT", "/mcp/")):
        assert (await Call(app, method, path, headers={"host": host}).end()).status == 421
    assert lab.begun == []


@pytest.mark.parametrize("host", BAD)
@pytest.mark.parametrize("loopback", [False, True])
async def test_a_host_that_is_none_is_refused(lab: Lab, host: str, loopback: bool) -> None:
    """What is no host is 400 even where hosts are not checked (T04)."""
    await refused(lab.server.http_app(loopback=loopback), 400, host=host)


@pytest.mark.parametrize(("loopback", "status"), [(True, 400), (False, 200)])
async def test_a_missing_host(lab: Lab, loopback: bool, status: int) -> None:
    """Where the host is checked it must be there (T01)."""
    assert (
        await tool(lab.server.http_app(loopback=loopback), "add", {"a": 1, "b": 2}, host=None).end()
    ).status == status


async def test_two_hosts_are_refused(lab: Lab) -> None:
    """Two Host headers are 400, also where both are fine (T01)."""
    headers = [*USUAL.items(), ("host", "localhost")]
    call = await Call(lab.server.http_app(loopback=True), headers=headers, body=message("ping")).end()
    assert (call.status, call.taken) == (400, 0)


@pytest.mark.parametrize(
    ("allowed", "host", "passes"),
    [
        ("example.com", "example.com", True),
        ("example.com", "Example.com:8443", True),
        ("example.com", "www.example.com", False),
        ("example.com:8443", "example.com:8443", True),
        ("example.com:8443", "example.com", False),
        ("example.com:8443", "example.com:1", False),
        ("example.com:443", "example.com", True),
        ("example.com:*", "example.com:1", True),
        ("[::2]", "[::2]:80", True),
        ("*", "anything.example", True),
        ("example.com", "localhost", False),
    ],
)
async def test_allowed_hosts(lab: Lab, allowed: str, host: str, passes: bool) -> None:
    """Without a port an entry stands for any; the setting alone has hosts checked (F25)."""
    app = lab.server.http_app(allowed_hosts=[allowed])
    await (passed(app, host=host) if passes else refused(app, 421, "allowed_hosts", host=host))


async def test_allowed_hosts_add_to_loopback(lab: Lab) -> None:
    """A loopback server behind a proxy takes the proxy's name too."""
    app = lab.server.http_app(loopback=True, allowed_hosts=["example.com"])
    await passed(app, host="example.com")
    await passed(app, host="localhost")


# ---- Origin


@pytest.mark.parametrize(
    ("host", "origin", "passes"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000", True),
        ("localhost:8000", "http://localhost:6274", True),
        ("127.0.0.1:8000", "http://localhost:3000", True),
        ("127.0.0.1:8000", "HTTP://[::1]", True),
        ("127.0.0.1:8000", "http://evil.example", False),
        ("127.0.0.1:8000", "null", False),
        ("127.0.0.1:8000", "", False),
        ("127.0.0.1:8000", "http://localhost@evil.example", False),
        ("127.0.0.1:8000", "http://evil.example/localhost", False),
        ("127.0.0.1:8000", "http://user@localhost", False),
        ("127.0.0.1:8000", "http://localhost, http://evil.example", False),
        ("127.0.0.1:8000", "http://localhost:*", False),
        ("127.0.0.1:8000", "file://", False),
        ("shop.example", "https://shop.example", True),
        ("shop.example", "https://shop.example:443", True),
        ("shop.example:8443", "https://shop.example:8443", True),
        ("shop.example", "https://shop.example:8443", False),
        ("shop.example", "http://localhost", False),
        ("shop.example", "https://app.shop.example", False),
    ],
)
async def test_an_origin_must_be_the_servers_own(lab: Lab, host: str, origin: str, passes: bool) -> None:
    """Origin is checked whenever it is there: the own page of a host that is listed, or one of this machine (T01, T02,
    HTTP-8).
    """
    app = lab.server.http_app(allowed_hosts=["shop.example"], loopback=True)
    for _ in range(2):
        await passed(app, host=host)  # the host alone is remembered as good
        await (passed if passes else refused)(
            app, *(() if passes else (403, "allowed_origins")), host=host, origin=origin
        )


@pytest.mark.parametrize(
    ("allowed", "origin", "passes"),
    [
        ("https://app.example", "https://app.example", True),
        ("https://app.example/", "https://APP.example:443", True),
        ("https://app.example", "http://app.example", False),
        ("https://app.example", "https://app.example:8443", False),
        ("https://app.example:*", "https://app.example:8443", True),
        ("*", "https://any.example", True),
        ("*", "null", False),
    ],
)
@pytest.mark.parametrize("option", ["allowed_origins", "cors"])
async def test_allowed_origins(lab: Lab, option: str, allowed: str, origin: str, passes: bool) -> None:
    """Origins that an option names pass, exactly (T02)."""
    app = lab.server.http_app(**{option: [allowed]})
    await (passed(app, origin=origin) if passes else refused(app, 403, "allowed_origins", origin=origin))


async def test_what_another_site_sends_is_refused(lab: Lab) -> None:
    """Sec-Fetch-Site: cross-site without an Origin that is allowed is 403 (T02)."""
    app = lab.server.http_app(allowed_origins=["https://app.example"])
    await refused(app, 403, "allowed_origins", sec_fetch_site="cross-site")
    await refused(app, 403, sec_fetch_site="cross-site", origin="null")
    await passed(app, sec_fetch_site="cross-site", origin="https://app.example")
    for site in ("same-origin", "same-site", "none"):
        await passed(app, sec_fetch_site=site)


# ---- the token


async def test_a_token_is_wanted(lab: Lab) -> None:
    """Without the right bearer token every request is 401 with a challenge (4.5, LH-12)."""
    app = lab.server.http_app(token="s3cret")
    for value in (None, "Basic s3cret", "s3cret"):
        assert (await refused(app, 401, authorization=value)).headers["www-authenticate"] == "Bearer"
    for value in ("Bearer", "Bearer s3cre", "Bearer s3crets", "Bearer ü"):
        challenge = (await refused(app, 401, authorization=value)).headers["www-authenticate"]
        assert challenge == 'Bearer error="invalid_token"'
    for method in ("GET", "DELETE", "OPTIONS"):
        assert (await Call(app, method, headers={"host": "localhost"}).end()).status == 401
    for value in ("Bearer s3cret", "bearer  s3cret "):
        await passed(app, authorization=value)


async def test_a_token_is_never_shown(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    """Neither texts of objects nor the log have it."""
    app = lab.server.http_app(token="s3cret")
    with caplog.at_level("DEBUG", "jackfield"):
        await refused(app, 401, authorization="Bearer s3cret2")
    assert caplog.records
    assert "s3cret" not in caplog.text + repr(app) + repr(app.guard) + repr(app.service)


async def test_health_needs_no_token(lab: Lab) -> None:
    """`health`: GET /health tells that the server answers; without the option nothing is there."""
    app = lab.server.http_app(health=True, token="s3cret")
    call = await Call(app, "GET", "/health").end()
    assert (call.status, call.json) == (200, {"status": "ok"})
    assert (await Call(app, "POST", "/health").end()).status == 404
    assert (await Call(lab.server.http_app(), "GET", "/health").end()).status == 404


# ---- the form


@pytest.mark.parametrize(
    "kind",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/json-evil",
     "application/json, text/plain", "application/json; charset=latin-1", "application/json;charset=utf-16", "json"],
)  # fmt: skip
async def test_other_types_are_refused(lab: Lab, kind: str | None) -> None:
    """Only application/json is taken, or any page could send requests (T02, HTTP-9)."""
    app = lab.server.http_app()
    for _ in range(2):
        await refused(app, 415, content_type=kind)


@pytest.mark.parametrize(
    "kind",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"',
     "application/json; profile=x"],
)  # fmt: skip
async def test_json_is_taken(lab: Lab, kind: str) -> None:
    """Parameters do not matter, but for a charset, which is UTF-8 (HTTP-2)."""
    app = lab.server.http_app()
    for _ in range(2):
        await passed(app, content_type=kind)


async def test_packed_bodies_are_refused(lab: Lab) -> None:
    """A body comes as it is: nothing is unpacked (T12)."""
    app = lab.server.http_app()
    assert (await refused(app, 415, content_encoding="gzip")).headers["accept-encoding"] == "identity"
    await passed(app, content_encoding="identity")


BOTH = JSON | STREAM


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", BOTH),
        ("*/*", BOTH),
        ("application/json, text/event-stream", BOTH),
        ("Application/JSON;q=0.5 , TEXT/event-stream ; q=0.001", BOTH),
        ("application/*, text/*", BOTH),
        ("application/json", JSON),
        ("text/event-stream", STREAM),
        ("*/*;q=0, text/event-stream", STREAM),
        ("*/*, application/json;q=0", STREAM),
        ("application/json;q=0.0, */*;q=0.1", STREAM),
        ("text/html, image/*", 0),
        ("*/*;q=0", 0),
    ],
)
def test_accept_is_read_by_its_ranges(text: str, taken: int) -> None:
    """The most exact range decides, and one of weight 0 refuses (HTTP-9)."""
    assert read_accept(text) == taken


async def test_modern_clients_must_take_one_kind_of_answer(lab: Lab) -> None:
    """Where neither JSON nor streams are taken: 406 (HTTP-9)."""
    app = lab.server.http_app()
    call = await refused(app, 406, accept="text/html")
    assert call.json["error"]["code"] == -32000
    for accept in (None, "*/*", "application/json", "text/*"):
        for _ in range(2):
            await passed(app, accept=accept)


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "text/html"])
async def test_legacy_clients_must_take_both_kinds(lab: Lab, accept: str) -> None:
    """406, code -32000 and the text that these clients know (LH-1, LH-12)."""
    app = lab.server.http_app()
    id = await session(app)
    for call in (legacy(app, message("ping"), id, accept=accept), Call(app, headers=USUAL | {"accept": accept})):
        await call.end()
        text = "Not Acceptable: Client must accept both application/json and text/event-stream"
        assert (call.status, call.taken, call.json["error"]) == (406, 0, {"code": -32000, "message": text})
    assert (await legacy(app, message("ping"), id, accept="*/*").end()).status == 200


# ---- the size


async def test_a_large_body_is_refused_by_its_length() -> None:
    """Content-Length over the limit is 413 before anything is read; the error names the limit (T11)."""
    app = Lab(limits=Limits(body=1000)).server.http_app()
    for size in ("1001", "9" * 30, "xxxx", "-999", "²²²²"):
        await refused(app, 413, "`body`", content_length=size)
    await passed(app, content_length="1000")


async def test_a_large_body_is_refused_while_it_comes() -> None:
    """Without a length the body is counted, and reading stops at the limit (T11)."""
    app = Lab(limits=Limits(body=1000)).server.http_app()
    call = await Call(app, headers=USUAL, body=[b" " * 300] * 50).end()
    assert (call.status, call.taken) == (413, 4)
    assert "`body`" in call.json["error"]["message"]
    assert (await Call(app, headers=USUAL, body=b" " * 1001).end()).status == 413


async def test_a_body_may_come_in_pieces(lab: Lab) -> None:
    """Pieces of any size, and empty ones, are put together."""
    app = lab.server.http_app()
    body = message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    headers = {**USUAL, "mcp-session-id": await session(app)}
    pieces = [body[i : i + 1] for i in range(len(body))]
    assert (await Call(app, headers=headers, body=[b"", *pieces, b""]).end()).status == 200


@pytest.mark.parametrize("depth", [100, 100_000])
async def test_deep_json_is_refused(lab: Lab, depth: int) -> None:
    """Nesting beyond the limit is a parse error, and the server lives (T13)."""
    app = lab.server.http_app()
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    call = await Call(app, headers=USUAL, body=body).end()
    assert (call.status, call.json["error"]["code"]) == (400, -32700)
    await passed(app)


# ---- pages of other sites

APP = "https://app.example"


def preflight(app: Any, origin: str = APP, asks: str = "content-type", **headers: str | None) -> Call:
    usual = {"host": "127.0.0.1:8000", "origin": origin, "access-control-request-method": "POST",
             "access-control-request-headers": asks}  # fmt: skip
    return Call(app, "OPTIONS", headers=changed(usual, headers))


async def test_cors_is_off_until_asked_for(lab: Lab) -> None:
    """No answer has a word for other sites' pages, and their question is refused (F26, T02)."""
    app = lab.server.http_app()
    assert (await preflight(app).end()).status == 403
    assert (await preflight(app, "http://127.0.0.1:8000").end()).status == 405
    for call in (await passed(app), await refused(app, 403, origin=APP)):
        assert not [name for name in call.headers if name.startswith("access-control") or name == "vary"]


@pytest.mark.parametrize("cors", [(APP,), ("*",), "*"])
async def test_a_preflight_passes_before_the_token(lab: Lab, cors: Any) -> None:
    """A page that may ask learns so without credentials: methods, and every header of the protocol (F26)."""
    app = lab.server.http_app(cors=cors, token="s3cret", loopback=True)
    asks = "Authorization, content-type, MCP-Protocol-Version, mcp-session-id, last-event-id, mcp-method, mcp-name,"
    call = await preflight(app, asks=asks + "Mcp-Param-Region, x-other").end()
    assert (call.status, call.body) == (200, b"")
    assert call.headers["access-control-allow-origin"] == APP
    assert "access-control-allow-credentials" not in call.headers
    assert set(call.headers["access-control-allow-methods"].split(", ")) >= {"POST", "GET", "DELETE"}
    allowed = call.headers["access-control-allow-headers"].split(", ")
    assert set(allowed) == {name.strip().lower() for name in asks.split(",") if name} | {"mcp-param-region"}
    assert call.headers["vary"] == "Origin"


async def test_a_preflight_of_a_page_that_may_not_ask_is_refused(lab: Lab) -> None:
    """Other origins, and `null`, get no word (F26)."""
    app = lab.server.http_app(cors=[APP])
    for origin in ("https://evil.example", "null", "https://app.example.evil.example"):
        call = await preflight(app, origin).end()
        assert call.status == 403
        assert "access-control-allow-origin" not in call.headers


async def test_every_answer_can_be_read_by_a_page_that_may_ask(lab: Lab) -> None:
    """Results, streams, errors, 202 and refusals have the headers, the exact origin, never credentials (F26)."""
    app = lab.server.http_app(cors=[APP])
    id = await session(app, origin=APP)
    locked = lab.server.http_app(cors=[APP], token="s3cret")
    calls = [
        tool(app, "add", {"a": 1, "b": 2}, origin=APP),
        tool(app, "report", {"steps": 1}, token=1, origin=APP),
        modern(app, "tools/fly", origin=APP),
        legacy(app, message("ping"), id, origin=APP),
        legacy(app, message("notifications/initialized", id=None), id, origin=APP),
        legacy(app, message("ping"), "unknown", origin=APP),
        legacy(app, b"{", id, origin=APP),
        Call(app, "GET", headers={"origin": APP}),
        Call(app, "GET", "/nowhere", headers={"origin": APP}),
        Call(app, headers={"origin": APP}),
        Call(locked, headers={"origin": APP}),
        Call(app, "DELETE", headers={"origin": APP, "mcp-session-id": id}),
    ]
    seen = set()
    for call in calls:
        await call.end()
        seen.add(call.status)
        assert call.headers["access-control-allow-origin"] == APP
        exposed = call.headers["access-control-expose-headers"].lower().split(", ")
        assert set(exposed) == {"mcp-session-id", "www-authenticate", "mcp-protocol-version"}
        assert "access-control-allow-credentials" not in call.headers
        assert call.headers["vary"] == "Origin"
    assert seen == {200, 202, 400, 401, 404, 405, 415}
    without = await passed(app)
    assert (without.headers["vary"], "access-control-allow-origin" in without.headers) == ("Origin", False)


# ---- options and small rules


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_hosts": "example.com"},
        {"allowed_hosts": ["https://example.com"]},
        {"allowed_origins": "https://app.example"},
        {"allowed_origins": ["app.example"]},
        {"cors": ["null"]},
        {"token": ""},
        {"token": "two words"},
        {"path": "mcp"},
        {"path": "/mcp?x"},
    ],
)
def test_options_that_cannot_be_are_refused(lab: Lab, options: dict[str, Any]) -> None:
    """A wrong option fails when the application is made, not with its first request."""
    with pytest.raises(RegistrationError):
        lab.server.http_app(**options)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "127.255.0.9", "::1"])
def test_loopback_names(name: str) -> None:
    """What a machine calls itself."""
    assert is_loopback(name)


@pytest.mark.parametrize("name", ["", "127", "127.0.0", "127.0.0.1.x", "127.0.0.x", "::2", "localhost.x", "127.0.0.1e"])
def test_other_names(name: str) -> None:
    """What only looks like it."""
    assert not is_loopback(name)


def test_versions_beyond_the_legacy_ones() -> None:
    """A later date, or no date at all, is of the modern era; an earlier one is not (ERA-V2)."""
    assert [
        version for version in ("2026-07-28", "2025-11-26", "v999.0.0", "x", " 2030-01-01 ") if beyond_legacy(version)
    ]
    assert not [
        version for version in ("2025-11-25", "2025-06-18", "2024-01-01", "1999-01-01") if beyond_legacy(version)
    ]
