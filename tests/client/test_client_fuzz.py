"""Servers that say anything at all."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from jackfield.client.client import Client
from jackfield.protocol.errors import (
    InvalidResult,
    LimitExceeded,
    NotSupported,
    PeerError,
    RequestTimeout,
)
from jackfield.protocol.limits import Limits
from tests.client.fakes import INITIALIZED, Fake, modern, text_result

ANY_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
        st.sampled_from(["content", "text", "complete", "input_required", "2026-07-28", "2025-11-25"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "content",
                    "type",
                    "text",
                    "isError",
                    "resultType",
                    "structuredContent",
                    "_meta",
                    "tools",
                    "nextCursor",
                ]
                + ["capabilities", "supportedVersions", "protocolVersion", "serverInfo", "code", "message", "name"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
FRAMES = st.one_of(
    st.binary(max_size=20),
    ANY_JSON.map(msgspec.json.encode),
    st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.just("2.0"),
            "id": st.one_of(st.just("ID"), st.integers(0, 3), st.none()),
            "method": st.sampled_from(["ping", "notifications/progress", "notifications/message", "roots/list", "x"]),
            "params": ANY_JSON,
            "result": ANY_JSON,
            "error": st.one_of(
                ANY_JSON, st.fixed_dictionaries({"code": st.integers(), "message": st.text(max_size=5)})
            ),
        },
    ).map(msgspec.json.encode),
)


@settings(max_examples=60)
@given(st.sampled_from(["server/discover", "initialize", "tools/call", "tools/list"]), st.lists(FRAMES, max_size=4))
def test_any_answer_is_an_answer_or_an_error(method: str, frames: list[bytes]) -> None:
    """Whatever a server says, a call ends with a result or an error, and the client can still be used and closed."""

    async def main() -> None:
        server = modern(tools__call=text_result("fine"), tools__list={"tools": []}, initialize=INITIALIZED)
        usual = server.answers[method]

        def answer(message: dict[str, Any]) -> Any:
            for frame in frames:
                server.say(frame.replace(b'"ID"', b"%d" % message["id"]))
            return Fake.SILENT

        server.answers[method] = answer
        limits = Limits(probe=0.005, request_timeout=0.01)
        client = Client(server, limits=limits, on_log=lambda *_: None, on_notification=lambda *_: None)
        connected = False
        try:
            await client.connect()
            connected = True
            await client.call_tool("a")
            await client.list_tools()
        except (PeerError, InvalidResult, RequestTimeout, NotSupported, LimitExceeded):
            pass
        server.answers[method] = usual
        if connected:
            assert (await client.call_tool("a", timeout=30)).text == "fine"
        await client.close()
        assert server.starts == server.ends
        async with Client(server) as another:
            assert (await another.call_tool("a")).text == "fine"

    asyncio.run(main())
