"""Who gets in from where: every Host and Origin at every door of a server, and what a page in a browser can do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount

from jackfield.cli.main import main
from tests.asgi import HELLO, MODERN, USUAL, Call, changed, legacy, message, meta, session
from tests.transport.http.lab import Lab

# ---- Host x Origin x door (T01)

HOSTS: dict[str, tuple[list[str], int]] = {
    "address": (["127.0.0.1:8000"], 0),
    "name": (["localhost"], 0),
    "upper case": (["LocalHost:8000"], 0),
    "trailing dot": (["localhost."], 0),
    "IPv6": (["[::1]:8000"], 0),
    "another port": (["127.0.0.1:1"], 0),
    "foreign": (["evil.example"], 421),
    "foreign with our port": (["evil.example:8000"], 421),
    "foreign in upper case": (["EVIL.EXAMPLE"], 421),
    "foreign with a dot": (["evil.example."], 421),
    "foreign IPv6": (["[2001:db8::1]:8000"], 421),
    "mapped IPv6": (["[::ffff:127.0.0.1]"], 421),
    "every address": (["0.0.0.0:8000"], 421),
    "our name in front": (["localhost.evil.example"], 421),
    "our address in front": (["127.0.0.1.evil.example"], 421),
    "number": (["2130706433"], 421),
    "userinfo": (["localhost@evil.example"], 400),
    "userinfo behind": (["evil.example@localhost"], 400),
    "path": (["localhost/evil.example"], 400),
    "odd port": (["localhost:evil"], 400),
    "null": (["null"], 421),
    "empty": ([""], 400),
    "missing": ([], 400),
    "twice the same": (["localhost", "localhost"], 400),
    "ours, then foreign": (["localhost", "evil.example"], 400),
    "foreign, then ours": (["evil.example", "localhost"], 400),
}
ORIGINS: dict[str, tuple[list[str], bool]] = {
    "missing": ([], True),
    "own": (["http://127.0.0.1:8000"], True),
    "own name": (["http://localhost:8000"], True),
    "another tool of this machine": (["http://localhost:6274"], True),
    "own IPv6": (["http://[::1]:8000"], True),
    "upper case": (["HTTP://LOCALHOST:8000"], True),
    "foreign": (["https://evil.example"], False),
    "foreign with our port": (["http://evil.example:8000"], False),
    "null": (["null"], False),
    "empty": ([""], False),
    "userinfo": (["http://localhost@evil.example"], False),
    "userinfo of ours": (["http://evil.example@localhost"], False),
    "path": (["http://evil.example/http://localhost"], False),
    "our name in front": (["http://localhost.evil.example"], False),
    "trailing dot": (["http://evil.example."], False),
    "twice the same": (["http://localhost", "http://localhost"], False),
    "ours, then foreign": (["http://localhost", "http://evil.example"], False),
    "extension": (["chrome-extension://abc"], False),
    "file": (["file://"], False),
}
CALL = {"name": "wait", "arguments": {"mark": "ran"}}
LATER = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "wait"}
DOORS: dict[str, tuple[str, str, bytes, dict[str, str]]] = {
    "modern call": ("POST", "/mcp", message("tools/call", CALL | {"_meta": meta()}), LATER),
    "handshake": ("POST", "/mcp", HELLO, {}),
    "call in a session": ("POST", "/mcp", message("tools/call", CALL), {"mcp-session-id": "ours"}),
    "final slash": ("POST", "/mcp/", message("tools/call", CALL | {"_meta": meta()}), LATER),
    "GET": ("GET", "/mcp", b"", {"mcp-session-id": "ours"}),
    "DELETE": ("DELETE", "/mcp", b"", {"mcp-session-id": "ours"}),
    "OPTIONS": ("OPTIONS", "/mcp", b"", {}),
    "PUT": ("PUT", "/mcp", HELLO, {}),
    "health": ("GET", "/health", b"", {}),
    "HEAD of health": ("HEAD", "/health", b"", {}),
    "wrong path": ("POST", "/other", HELLO, {}),
    "well-known": ("GET", "/.well-known/oauth-protected-resource", b"", {}),
}


@pytest.mark.parametrize("mounted", [False, True])
@pytest.mark.parametrize("door", DOORS)
async def test_every_host_and_origin_at_every_door(door: str, mounted: bool) -> None:
    """On loopback a foreign Host is 421 (400 where it is none), a foreign Origin 403, at every path and for every
    method, mounted or not; no handler runs, no session begins or ends, and what is ours gets through (T01, F25).
    """
    lab = Lab()
    app: Any = lab.server.http_app(loopback=True, health=True)
    ours = await session(app)
    outer = Starlette(routes=[Mount("/m", app=app)]) if mounted else app
    method, path, body, more = DOORS[door]
    if "mcp-session-id" in more:
        more = more | {"mcp-session-id": ours}
    lab.go.set()
    passed = 0
    for hosts, host_status in HOSTS.values():
        for origins, is_ours in ORIGINS.values():
            headers = [(name, value) for name, value in (USUAL | more).items() if name != "host"]
            headers += [("host", host) for host in hosts] + [("origin", origin) for origin in origins]
            before = len(app.sessions)
            call = await Call(outer, method, f"/m{path}" if mounted else path, headers=headers, body=body).end()
            wanted = host_status or (0 if is_ours else 403)
            where = (door, hosts, origins)
            if wanted:
                assert (call.status, len(app.sessions)) == (wanted, before), where
                setting = {421: "allowed_hosts", 403: "allowed_origins", 400: "Host"}[wanted]
                assert setting in call.json["error"]["message"], where
                assert lab.begun == [], where
            else:
                assert call.status not in (400, 403, 421), where
                passed += 1
                if door == "DELETE" and call.status == 200:
                    more = more | {"mcp-session-id": await session(app)}
            lab.begun.clear()
    assert passed == 6 * 6


async def test_a_preflight_is_no_way_around_the_host() -> None:
    """With CORS switched on a foreign Host is refused all the same, for the preflight too (T01, F26)."""
    app = Lab().server.http_app(loopback=True, cors="*")
    asks = {"origin": "http://evil.example", "access-control-request-method": "POST"}
    assert (await Call(app, "OPTIONS", headers={"host": "evil.example", **asks}).end()).status == 421


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000"])
async def test_a_page_that_was_bound_anew_to_this_machine(host: str) -> None:
    """An application that runs on loopback under another ASGI server, without any option, is not open to a page whose
    name was bound anew to 127.0.0.1: its Host and Origin agree, yet neither is ours (T01).
    """
    lab = Lab()
    lab.go.set()
    app = lab.server.http_app()

    async def on_loopback(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "server": ("127.0.0.1", 8000), "client": ("127.0.0.1", 50000)}, receive, send)

    headers = changed(USUAL, {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}) | LATER
    body = message("tools/call", CALL | {"_meta": meta()})
    assert (await Call(on_loopback, headers=headers, body=body).end()).status in (403, 421)
    assert lab.begun == []


async def test_a_bound_name_and_listed_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is bound beyond this machine takes any name until hosts are listed; then these pass with and without a port,
    and the list holds however late it was given (F25).
    """
    made: list[Any] = []
    monkeypatch.setattr("jackfield.transport.http.serve.run", lambda app, **options: made.append((app, options)))
    path = tmp_path / "shop.py"
    path.write_text("from jackfield import Server\nserver = Server('shop')\n")
    lan = "192.0.2.7:8000"
    for flags, hosts in (
        (["--http", "0.0.0.0:0", "--insecure"], {lan: 200, "shop.example": 200}),
        (["--http", "0.0.0.0:0", "--token", "t"], {lan: 200}),
        (
            ["--http", "0.0.0.0:0", "--insecure", "--allowed-host", "shop.example"],
            {"shop.example": 200, "shop.example:8000": 200, lan: 421, "localhost": 421},
        ),
        (["--http", "0", "--allowed-host", "shop.example:*"], {"shop.example": 200, "localhost:1": 200, lan: 421}),
    ):
        monkeypatch.delenv("JACKFIELD_TOKEN", raising=False)
        with pytest.raises(SystemExit) as ended:
            main(["run", str(path), *flags])
        assert ended.value.code == 0
        app, options = made.pop()
        assert options["insecure"] == ("--insecure" in flags)
        for host, status in hosts.items():
            call = await Call(
                app, headers=changed(USUAL, {"host": host, "authorization": "Bearer t"}), body=HELLO
            ).end()
            assert call.status == status, (flags, host, call.body)


# ---- simple requests of other sites (T02)


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=8), st.booleans())
@settings(max_examples=100)
async def test_only_json_is_json(noise: str, front: bool) -> None:
    """A Content-Type that is `application/json` with something more or less, except for parameters, is 415 (T02)."""
    lab = Lab()
    kind = noise + "application/json" if front else "application/json" + noise
    ours = kind.partition(";")[0].strip().lower() == "application/json"
    call = await Call(lab.server.http_app(), headers=changed(USUAL, {"content-type": kind}), body=HELLO).end()
    assert call.status == 200 if ours and "charset" not in kind.lower() else call.status in (200, 415)
    assert ours or call.status == 415


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None])
@pytest.mark.parametrize("site", ["cross-site", "same-origin", None])
async def test_what_a_page_may_send_unasked_is_refused(kind: str | None, site: str | None) -> None:
    """A form or a `fetch` that needs no preflight runs nothing, with or without the word of the browser (T02)."""
    lab = Lab()
    app = lab.server.http_app(loopback=True, cors="*")
    headers = changed(USUAL, {"content-type": kind, "sec-fetch-site": site}) | LATER
    call = await Call(app, headers=headers, body=message("tools/call", CALL | {"_meta": meta()})).end()
    assert call.status == (403 if site == "cross-site" else 415)
    assert lab.begun == []


# ---- a page in a browser (F26)

SIMPLE = {"cache-control", "content-language", "content-length", "content-type", "expires", "last-modified", "pragma"}


class Blocked(Exception):
    """The browser does not let the page have this."""


class Page:
    """A page of an origin that does `fetch` under the rules of a browser."""

    def __init__(self, app: Any, origin: str) -> None:
        self.app = app
        self.origin = origin
        self.statuses: list[int] = []

    async def fetch(self, method: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """What the page gets to see. Raises Blocked."""
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        asked = ", ".join(sorted(name for name in own if name != "accept"))
        preflight = {"access-control-request-method": method, "access-control-request-headers": asked}
        asking = await self._send("OPTIONS", b"", preflight)
        allowed = {name.strip() for name in asking.headers.get("access-control-allow-headers", "").lower().split(",")}
        methods = {name.strip() for name in asking.headers.get("access-control-allow-methods", "").split(",")}
        if not 200 <= asking.status < 300 or not self._may(asking):
            raise Blocked("preflight")
        if not {name for name in own if name != "accept"} <= allowed or not {method} <= methods | {"POST", "GET"}:
            raise Blocked("header or method")
        call = await self._send(method, body, own)
        if not self._may(call):
            raise Blocked("answer")
        self.statuses.append(call.status)
        exposed = {name.strip() for name in call.headers.get("access-control-expose-headers", "").lower().split(",")}
        seen = {name: value for name, value in call.headers.items() if name in exposed | SIMPLE}
        return call.status, seen, call.body

    async def _send(self, method: str, body: bytes, headers: dict[str, str]) -> Call:
        usual = {"host": "127.0.0.1:8000", "origin": self.origin, "sec-fetch-site": "cross-site"}
        return await Call(self.app, method, headers=usual | headers, body=body).end()

    def _may(self, call: Call) -> bool:
        assert "access-control-allow-credentials" not in call.headers
        return call.headers.get("access-control-allow-origin") in ("*", self.origin)


APP = "https://app.example"
TAKES = {"content_type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("cors", ["*", [APP]])
async def test_a_page_that_may_talks_to_a_server(cors: Any) -> None:
    """Preflights need no credentials; handshake, session and version headers, streams, marked arguments, refusals of
    every status and DELETE all work and can be read, the session's id and the challenge too (F26).
    """
    lab = Lab()
    page = Page(lab.server.http_app(loopback=True, token="s3cret", cors=cors), APP)
    status, seen, _ = await page.fetch("POST", HELLO, **TAKES)
    assert (status, seen["www-authenticate"]) == (401, "Bearer")
    mine = TAKES | {"authorization": "Bearer s3cret"}
    status, seen, _ = await page.fetch("POST", HELLO, **mine)
    inside = mine | {"mcp_session_id": seen["mcp-session-id"], "mcp_protocol_version": "2025-11-25"}
    assert (await page.fetch("POST", message("notifications/initialized", id=None), **inside))[0] == 202
    assert json.loads((await page.fetch("POST", message("ping"), **inside))[2])["result"] == {}
    params = {"name": "report", "arguments": {"steps": 1}, "_meta": {"progressToken": 1}}
    _, seen, body = await page.fetch("POST", message("tools/call", params), **inside)
    assert (seen["content-type"], body.count(b"data: ")) == ("text/event-stream", 2)
    assert (await page.fetch("GET", last_event_id="1", **inside))[0] == 405
    assert (await page.fetch("DELETE", **inside))[0] == 200
    assert (await page.fetch("POST", message("ping"), **inside))[0] == 404
    later = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "add", "mcp_param_region": "eu"}
    body = message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta()})
    assert (await page.fetch("POST", body, **mine, **later, traceparent="00-a-b-01"))[0] == 200
    assert (await page.fetch("POST", body, **mine, **(later | {"mcp_name": "other"})))[0] == 400
    assert page.statuses[-2:] == [200, 400]


@pytest.mark.parametrize(
    ("cors", "origin"),
    [((), APP), ([APP], "https://evil.example"), ([APP], "null"), ("*", "null"), ([APP], "http://app.example")],
)
async def test_a_page_that_may_not_is_blocked(cors: Any, origin: str) -> None:
    """Off by default; other origins than those that are listed get no word, and nothing runs for them (F26, T02)."""
    lab = Lab()
    app = lab.server.http_app(loopback=True, cors=cors)
    with pytest.raises(Blocked, match="preflight"):
        await Page(app, origin).fetch("POST", HELLO, **TAKES)
    call = await Call(app, headers=USUAL | {"origin": origin}, body=HELLO).end()
    assert (call.status, "access-control-allow-origin" in call.headers, len(app.sessions)) == (403, False, 0)


# ---- versions (LH-4)


@pytest.mark.parametrize("version", ["1999-01-01", "2025-11-24"])
async def test_a_version_that_there_is_not_ends_no_session(version: str) -> None:
    """A version header that names no revision is 400 for DELETE as for POST, and the session stays (LH-4)."""
    app = Lab().server.http_app()
    id = await session(app)
    assert (await legacy(app, message("ping"), id, mcp_protocol_version=version).end()).status == 400
    headers = {**USUAL, "mcp-session-id": id, "mcp-protocol-version": version}
    call = await Call(app, "DELETE", headers=headers).end()
    assert (call.status, len(app.sessions)) == (400, 1)
    assert re.search("version", call.json["error"]["message"])
