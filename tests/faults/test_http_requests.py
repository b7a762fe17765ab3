"""What a handler is told of its request: its own headers, and only where they say what the body says."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Annotated, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jackfield import Context, Header, Limits, Server
from jackfield.protocol.headers import marks_of, mirrors
from tests.asgi import MODERN, PREFIX, USUAL, Call, legacy, message, meta, modern, session

# ---- each request's own headers (F28)

AT_ONCE = 20


class Echo:
    """A server whose every handler waits until as many others have begun, and then tells the header `x-user`."""

    def __init__(self) -> None:
        self.server = server = Server("echo", limits=Limits(threads=2 * AT_ONCE))
        self._here = asyncio.Barrier(AT_ONCE)
        self._there = threading.Barrier(AT_ONCE)

        @server.tool
        async def user(ctx: Context) -> str:
            await self._here.wait()
            return ctx.headers["x-user"]

        @server.tool
        async def later(ctx: Context) -> str:
            """Tell it from a task of its own, after the first wait."""
            await self._here.wait()

            async def tell() -> str:
                await asyncio.sleep(0)
                return ctx.headers["x-user"]

            return await asyncio.create_task(tell())

        @server.tool
        def threaded(ctx: Context) -> str:
            self._there.wait(10)
            return ctx.headers["x-user"]

        @server.resource("user://async")
        async def page(ctx: Context) -> str:
            await self._here.wait()
            return ctx.headers["x-user"]

        @server.resource("user://threaded")
        def threaded_page(ctx: Context) -> str:
            self._there.wait(10)
            return ctx.headers["x-user"]

        @server.prompt
        def ask(ctx: Context) -> str:
            self._there.wait(10)
            return ctx.headers["x-user"]


ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "async tool": ("tools/call", {"name": "user", "arguments": {}}),
    "task of a tool": ("tools/call", {"name": "later", "arguments": {}}),
    "def tool": ("tools/call", {"name": "threaded", "arguments": {}}),
    "async resource": ("resources/read", {"uri": "user://async"}),
    "def resource": ("resources/read", {"uri": "user://threaded"}),
    "def prompt": ("prompts/get", {"name": "ask"}),
}


@pytest.mark.parametrize("how", ["session", "stateless", "modern"])
async def test_each_call_sees_its_own_headers(how: str) -> None:
    """Async and `def` handlers of every kind, all at the same time, one after the other, and in one session: each sees
    the header of the request that it answers, never that of the first (F28).
    """
    app = Echo().server.http_app(stateless=how == "stateless")
    id = await session(app, x_user="the first") if how == "session" else None
    calls: dict[str, Call] = {}
    for number in range(AT_ONCE):
        # For either barrier as many wait as it wants: twenty async handlers, and twenty on threads.
        for kind in (list(ASKED)[number % 2], "def tool"):
            method, params = ASKED[kind]
            user = f"{kind} {number}"
            if how == "modern":
                calls[user] = modern(app, method, params, id=number, x_user=user)
            else:
                calls[user] = legacy(app, message(method, params, len(calls)), id, x_user=user)
    for user, call in calls.items():
        assert (await call.end()).json["result"]["content"][0]["text"] == user


@pytest.mark.parametrize("kind", ASKED)
async def test_each_request_of_a_kind_sees_its_own_headers(kind: str) -> None:
    """The same for resources and prompts (F28)."""
    app = Echo().server.http_app()
    id = await session(app, x_user="the first")
    method, params = ASKED[kind]
    calls = [legacy(app, message(method, params, n), id, x_user=f"user {n}") for n in range(AT_ONCE)]
    for number, call in enumerate(calls):
        assert f'"user {number}"' in (await call.end()).body.decode()


# ---- headers that say otherwise than the body (T09)

RAN: list[Any] = []
"""What handlers were run with."""


def make_server() -> Server:
    """A server with a tool whose arguments are marked, a resource and a prompt."""
    server = Server("marked")

    @server.tool
    async def route(
        region: Annotated[str, Header("Region")],
        count: Annotated[int | None, Header("Count")] = None,
        dry: Annotated[bool | None, Header("Dry")] = None,
        note: str = "",
    ) -> str:
        RAN.append((region, count, dry))
        return region

    @server.tool
    async def other() -> str:
        RAN.append("other")
        return "other"

    @server.resource("note://{id}")
    async def note(id: str) -> str:
        RAN.append(id)
        return id

    @server.prompt
    async def ask(topic: str = "") -> str:
        RAN.append(topic)
        return topic

    return server


SERVER = make_server()
APP = SERVER.http_app()
MARKS = marks_of(
    {
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        }
    }
)
PLAIN = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=12)
ANY = st.text(st.characters(codec="utf-8"), max_size=12)
ARGUMENTS = st.fixed_dictionaries(
    {"region": PLAIN | ANY}, optional={"count": st.integers(-(10**6), 10**6) | st.none(), "dry": st.booleans()}
)
REQUESTS = st.one_of(
    st.tuples(st.just("tools/call"), ARGUMENTS.map(lambda given: {"name": "route", "arguments": given})),
    st.tuples(st.just("resources/read"), st.from_regex(r"note://[a-z0-9%]{0}[a-z0-9]{1,8}", fullmatch=True).map(
        lambda uri: {"uri": uri})),
    st.tuples(st.just("prompts/get"), PLAIN.map(lambda topic: {"name": "ask", "arguments": {"topic": topic}})),
    st.tuples(st.just("tools/list"), st.just({})),
)  # fmt: skip
METHODS = ("tools/call", "tools/list", "resources/read", "prompts/get", "prompts/list", "server/discover", "ping")
METHODS += ("initialize", "no/such")


def said(method: str, params: dict[str, Any]) -> list[tuple[str, str]]:
    """The headers of a request that say what its body says."""
    headers = {"MCP-Protocol-Version": MODERN, **mirrors(method, json.dumps(params).encode(), MARKS)}
    return [(name.lower(), value) for name, value in headers.items()]


def sent(method: str, params: dict[str, Any], headers: list[tuple[str, str]], version: str = MODERN) -> Call:
    """Send a request."""
    stamp = {**meta(), PREFIX + "protocolVersion": version}
    return Call(APP, headers=[*USUAL.items(), *headers], body=message(method, {**params, "_meta": stamp}, 7))


async def refused(call: Call) -> None:
    """See a request refused with its id as one whose headers say otherwise, and no handler run."""
    await call.end()
    assert call.status == 400, call.body
    assert (call.json["error"]["code"], call.json["id"]) == (-32020, 7), call.body
    assert RAN == []


@given(REQUESTS, st.data())
@settings(max_examples=150)
async def test_one_header_that_says_otherwise(request: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    """A good request is served; with any one of its headers left out, changed, in another case, given twice, not to be
    decoded, or one too many, it is 400 and -32020, and no handler runs (T09, HDR-3, XH-5).
    """
    method, params = request
    headers = said(method, params)
    RAN.clear()
    assert (await sent(method, params, headers).end()).status == 200
    assert len(RAN) == (method != "tools/list")
    RAN.clear()
    index = data.draw(st.integers(0, len(headers) - 1))
    name, value = headers[index]
    ways = ["leave out", "change", "other case", "twice", "twice, the other first", "beside it"]
    ways += ["broken", "no padding"] if name == "mcp-name" or name.startswith("mcp-param-") else []
    ways += ["one too many"] if params.get("name") == "route" and params["arguments"].get("count") is None else []
    match data.draw(st.sampled_from(ways)):
        case "leave out":
            del headers[index]
        case "change":
            other = data.draw(PLAIN.filter(lambda text: "base64" not in text) | st.integers().map(str))
            assume(other != value and other != value.removesuffix(".0"))
            headers[index] = name, other
        case "other case":
            assume(value.swapcase() != value)
            headers[index] = name, value.swapcase()
        case "twice":
            headers.append((name, value))
        case "twice, the other first":
            headers.insert(0, (name, "other"))
        case "beside it":
            headers[index] = name, f"{value},{value}"
        case "broken":
            headers[index] = name, "=?base64?&&&&?="
        case "no padding":
            headers[index] = name, "=?base64?SGVsbG8?="
        case "one too many":
            headers.append(("mcp-param-count", "0"))
    await refused(sent(method, params, headers))


@given(REQUESTS, st.data())
@settings(max_examples=150)
async def test_one_field_of_the_body_that_says_otherwise(
    request: tuple[str, dict[str, Any]], data: st.DataObject
) -> None:
    """Headers that a proxy was shown, and a body with another version, method, name or argument: 400 and -32020, and no
    handler runs (T09, HDR-2, XH-5).
    """
    method, params = request
    headers, version = said(method, params), MODERN
    RAN.clear()
    fields = ["version", "method"]
    fields += [field for field in ("name", "uri") if field in params]
    fields += [*params["arguments"], "count", "dry"] if params.get("name") == "route" else []
    field = data.draw(st.sampled_from(fields))
    if field == "version":
        version = data.draw(st.sampled_from(["2025-11-25", "2025-03-26", "2026-07-29", "", "2026-07-28 "]))
    elif field == "method":
        method = data.draw(st.sampled_from([other for other in METHODS if other != method]))
    elif field in params:
        names = st.sampled_from(["other", "note://other", params[field].upper(), params[field] + " "])
        params = {**params, field: data.draw(names.filter(lambda other: other != params[field]))}
    else:
        before = params["arguments"].get(field)
        kinds = {"region": PLAIN, "count": st.integers(0, 9) | st.none(), "dry": st.booleans() | st.none()}
        other = data.draw(kinds[field].filter(lambda other: other != before))
        params = {**params, "arguments": {**params["arguments"], field: other}}
    await refused(sent(method, params, headers, version))


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"region":"eu","region":"us"}',
        b'{"region":"eu","reg\\u0069on":"us"}',
        b'"{\\"region\\":\\"us\\"}"',
        b'{"region":["eu"]}',
        b'{"REGION":"eu"}',
        b'{"region":"eu","region":null}',
        b'[{"region":"eu"}]',
    ],
)
async def test_a_value_that_hides_is_not_passed_on(arguments: bytes) -> None:
    """A value that is given twice, as JSON in a text, in an array or under another name never reaches the tool under a
    header that says otherwise (T09, F49).
    """
    RAN.clear()
    body = message("tools/call", {"name": "route", "arguments": 0, "_meta": meta()}, 7)
    body = body.replace(b'"arguments": 0', b'"arguments": ' + arguments)
    headers = said("tools/call", {"name": "route", "arguments": {"region": "eu"}})
    await refused(Call(APP, headers=[*USUAL.items(), *headers], body=body))


async def test_a_session_is_no_way_around_the_check() -> None:
    """A modern body is judged by its headers also where a session, or a legacy version, stands beside it (T09)."""
    RAN.clear()
    id = await session(APP)
    params = {"name": "route", "arguments": {"region": "eu"}}
    good = said("tools/call", params)
    for version in ("2025-11-25", "2025-03-26", None):
        headers = [(name, value) for name, value in good if name != "mcp-protocol-version"]
        headers += [("mcp-session-id", id)] + ([("mcp-protocol-version", version)] if version else [])
        await refused(sent("tools/call", params, headers))
    await refused(sent("tools/call", params | {"name": "other"}, [*good, ("mcp-session-id", id)]))


@pytest.mark.parametrize(
    "headers", [{"mcp_method": "tools/list"}, {"mcp_method": None}, {"mcp_protocol_version": None}]
)
async def test_headers_are_judged_before_params(headers: dict[str, str | None]) -> None:
    """A body whose params do not fit its method is refused for its headers first (T09, META-8, HDR-3)."""
    RAN.clear()
    await refused(modern(APP, "tools/call", {}, id=7, **headers))
