"""The engine: which era a request is of, the order of the checks, cancellation, and that every request is answered."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jackfield import Context, Limits, ProtocolError, Server
from jackfield.protocol.methods import METHODS
from jackfield.server.engine import _KNOWN_METAS
from tests.server.talk import CLIENT, LEGACY, MODERN, PREFIX, REVISIONS, Refused, Talk, talking, text_of


def everything() -> Server:
    server = Server("engine")

    @server.tool
    async def add(a: int, b: int = 0) -> int:
        return a + b

    @server.tool
    def join(parts: list[str], by: str = "") -> str:
        return by.join(parts)

    server.add_tool(
        lambda arguments: arguments,
        name="raw",
        input_schema={
            "type": "object",
            "properties": {"a": {"type": ["array", "null"]}, "b": {"enum": [1, "x", [2]]}, "c": {"$ref": "#/$defs/c"}},
            "$defs": {"c": {"anyOf": [{"type": "object", "properties": {"c": {"$ref": "#/$defs/c"}}}, {"const": 5}]}},
        },
    )
    server.add_resource("x://a", lambda: "a")
    server.add_resource("x://of/{name}{?n}", lambda name, n=1: [name, n])
    server.add_prompt(lambda a, b="": a + b, name="p")
    server.add_completion("p", "a", lambda typed: [typed])
    return server


class TestEra:
    async def test_metadata_decides_before_the_session(self) -> None:
        """A request with a modern version is served the modern way in the middle of a legacy session (ERA-V1)."""
        async with talking(everything(), LEGACY[0]) as talk:
            modern = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}}
            assert "resultType" in await talk.call("add", {"a": 1}, **modern)
            assert "resultType" not in await talk.call("add", {"a": 1})
            assert (await talk.ask("server/discover", **modern))["supportedVersions"] == [MODERN]
            with pytest.raises(Refused, match="Method not found"):
                await talk.ask("server/discover")

    async def test_a_modern_request_needs_no_other(self) -> None:
        """Any method may come first, without a handshake and without discovery (STATE-1)."""
        for method, params in (("tools/list", {}), ("tools/call", {"name": "add", "arguments": {"a": 1}})):
            async with talking(everything()) as talk:
                assert (await talk.ask(method, params))["resultType"] == "complete"

    @pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "tasks/list"])
    @pytest.mark.parametrize("params", [{}, {"level": 5}, {"uri": None, "protocolVersion": 1}])
    async def test_removed_methods_are_unknown_in_the_modern_era(self, method: str, params: dict[str, Any]) -> None:
        """What the revision removed is -32601 with modern metadata, whatever its params (ERA-V5, META-8, LIFE-6)."""
        for revision in (MODERN, LEGACY[0]):
            async with talking(everything(), revision) as talk:
                meta = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}}
                with pytest.raises(Refused) as caught:
                    await talk.ask(method, params, **meta)
                assert caught.value.code == -32601

    @pytest.mark.parametrize("revision", LEGACY)
    async def test_the_handshake_agrees_to_what_was_asked_for(self, revision: str) -> None:
        """`initialize` echoes each legacy revision, and says who and what the server is (LIFE-1, LIFE-2, IMPL-1)."""
        server = Server("engine", version="1.2", title="T", website_url="https://x.example", instructions="Be kind.")
        talk = Talk(revision)
        await server.__mcp_connect__(talk.on)  # type: ignore[arg-type]
        result = await talk.ask("initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT})
        info = {"name": "engine", "version": "1.2"}
        if revision in LEGACY[:2]:
            info["title"] = "T"
        if revision == LEGACY[0]:
            info["websiteUrl"] = "https://x.example"
        assert result == {
            "protocolVersion": revision,
            "capabilities": {"logging": {}},
            "serverInfo": info,
            "instructions": "Be kind.",
        }
        await talk.close()

    async def test_nothing_but_ping_comes_before_the_handshake(self) -> None:
        """Before `initialize` a legacy client may only ping; the refusal says how to begin (LIFE-1, LIFE-3, LIFE-6)."""
        talk = Talk(LEGACY[0])
        await everything().__mcp_connect__(talk.on)  # type: ignore[arg-type]
        assert await talk.ask("ping") == {}
        with pytest.raises(Refused, match="tools/list came before `initialize`, and without `_meta`") as caught:
            await talk.ask("tools/list")
        assert caught.value.code == -32602
        with pytest.raises(Refused, match="Method not found: no/method") as caught:
            await talk.ask("no/method")
        assert caught.value.code == -32601
        await talk.close()

    async def test_two_conversations_have_two_sessions(self) -> None:
        """One process serves several sessions, each in its own revision (STATE-3, LIFE-4)."""
        server = everything()
        async with talking(server, LEGACY[0]) as new, talking(server, "2024-11-05") as old:
            assert "structuredContent" in await new.call("add", {"a": 1})
            assert "structuredContent" not in await old.call("add", {"a": 1})


class TestMetadata:
    @pytest.mark.parametrize(
        ("meta", "code"),
        [
            ({PREFIX + "protocolVersion": MODERN}, -32602),
            ({PREFIX + "clientCapabilities": {}}, -32602),
            ({PREFIX + "protocolVersion": 5, PREFIX + "clientCapabilities": {}}, -32602),
            ({PREFIX + "protocolVersion": None, PREFIX + "clientCapabilities": {}}, -32602),
            ({PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": None}, -32602),
            ({PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": []}, -32602),
            ({PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {"roots": 5}}, -32602),
            ({PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}, PREFIX + "logLevel": "x"}, -32602),
            ({PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}, "progressToken": 1.5}, -32602),
            ({PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}, PREFIX + "clientInfo": 5}, -32602),
            ({PREFIX + "protocolVersion": LEGACY[0], PREFIX + "clientCapabilities": {}}, -32022),
            ({PREFIX + "protocolVersion": "v999.0.0"}, -32022),
            ({PREFIX + "protocolVersion": "", PREFIX + "clientCapabilities": {}}, -32022),
        ],
    )
    async def test_each_modern_request_must_say_who_it_is_of(self, meta: dict[str, Any], code: int) -> None:
        """A key that is missing or of another type is -32602, an unsupported version -32022 (META-1,
        META-3, DISC-4).
        """
        talk = Talk("")
        await everything().__mcp_connect__(talk.on)  # type: ignore[arg-type]
        for method in ("tools/list", "no/method", "server/discover"):
            with pytest.raises(Refused) as caught:
                await talk.ask(method, {"cursor": 5}, **meta)
            assert caught.value.code == code
            if code == -32022:
                assert caught.value.data == {"supported": [MODERN], "requested": meta[PREFIX + "protocolVersion"]}
        await talk.close()

    async def test_the_identity_and_anything_unknown_may_be_missing_or_there(self) -> None:
        """No client identity, unknown keys, traces of any type: all fine (META-3, META-2, META-6)."""
        async with talking(everything()) as talk:
            for meta in (
                {PREFIX + "clientInfo": None},
                {"com.example/x": [1], "traceparent": 5, "baggage": {}, "tracestate": None},
                {PREFIX + "related-task": {"taskId": "a"}},
            ):
                assert (await talk.ask("tools/list", **meta))["resultType"] == "complete"

    @pytest.mark.parametrize("meta", [5, None, [], "x"])
    async def test_metadata_that_is_no_object_is_invalid_params(self, meta: Any) -> None:
        """`_meta` of another shape is -32602 in both eras (META-3)."""
        for revision in (MODERN, LEGACY[0]):
            async with talking(everything(), revision) as talk:
                id = "m"
                talk._answers[id] = asyncio.get_running_loop().create_future()
                talk.write({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {"_meta": meta}})
                with pytest.raises(Refused) as caught:
                    await talk.answer(id)
                assert caught.value.code == -32602

    async def test_what_is_kept_of_metadata_is_bounded_and_exact(self) -> None:
        """The texts of `_meta` that are remembered are few, and each is used for that very text alone (META-4)."""
        server = Server("engine")

        @server.tool
        async def who(ctx: Context) -> str:
            assert ctx.client is not None
            return f"{ctx.client.version} {ctx.peer.log_level} {ctx.capabilities.sampling is not None}"

        levels = [None, "debug", "error"]
        async with talking(server) as talk:
            for n in range(3 * _KNOWN_METAS):
                for _ in range(2):
                    meta: dict[str, Any] = {PREFIX + "clientInfo": {"name": "n", "version": f"v{n}"}}
                    if n % 2:
                        meta[PREFIX + "clientCapabilities"] = {"sampling": {}}
                    if levels[n % 3]:
                        meta["log_level"] = levels[n % 3]
                    assert text_of(await talk.call("who", **meta)) == f"v{n} {levels[n % 3]} {n % 2 == 1}"
                assert len(server._engine._peers) <= _KNOWN_METAS
            kept = len(server._engine._peers)
            for meta in ({"progressToken": 1}, {"x/y": "z" * 5000}):
                await talk.call("who", **meta)
            assert len(server._engine._peers) == kept

    @pytest.mark.parametrize(
        ("params", "place"),
        [
            ('{"name":"add","name":"add","arguments":{"a":1}}', "params"),
            ('{"name":"add","n\\u0061me":"add","arguments":{"a":1}}', "params"),
            ('{"name":"add","arguments":{"a":2},"arguments":{"a":1}}', "params"),
            ('{"name":"add","arguments":{"a":1},"x":1,"x":2}', "params"),
            ('{"name":"add","arguments":{"a":1},"_meta":{},"_meta":{"x":1}}', "params"),
            ('{"name":"add","arguments":{"a":1},"_meta":{"x":1,"x":2}}', "_meta"),
            ('{"name": "add", "name": "add"}', "params"),
            ('{"":1,"name":"add","":1}', "params"),
        ],
    )
    async def test_a_key_given_twice_is_refused(self, params: str, place: str) -> None:
        """A repeated key of params or `_meta`, however it is spelt, is -32600 (T08); in arguments the last one
        counts.
        """
        async with talking(everything(), LEGACY[0]) as talk:
            for id in ("a", "b"):
                talk._answers[id] = asyncio.get_running_loop().create_future()
            talk._channel.write(f'{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{params}}}'.encode())
            with pytest.raises(Refused, match=f"a key of `{place}` is given twice") as caught:
                await talk.answer("a")
            assert caught.value.code == -32600
            good = b'{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"add","arguments":{"a":1,"a":5}}}'
            talk._channel.write(good)
            assert text_of(await talk.answer("b")) == "5"


class TestResults:
    async def test_every_modern_result_is_stamped(self) -> None:
        """Each modern result says its kind and its server; what can be cached says for how long (RES-1, RES-4, CCH-1,
        RSC-8).
        """
        asked: dict[str, dict[str, Any]] = {
            "server/discover": {},
            "tools/list": {},
            "tools/call": {"name": "add", "arguments": {"a": 1}},
            "resources/list": {},
            "resources/templates/list": {},
            "resources/read": {"uri": "x://a"},
            "prompts/list": {},
            "prompts/get": {"name": "p", "arguments": {"a": "b"}},
            "completion/complete": {
                "ref": {"type": "ref/prompt", "name": "p"},
                "argument": {"name": "a", "value": ""},
            },
        }
        assert asked.keys() == {
            name
            for name, row in METHODS.items()
            if row.request
            and MODERN in row.revisions
            and row.direction == "to_server"
            and name != "subscriptions/listen"
        }
        async with talking(everything()) as talk:
            for method, params in asked.items():
                result = await talk.ask(method, params)
                assert result["resultType"] == "complete"
                assert result["_meta"] == {PREFIX + "serverInfo": {"name": "engine", "version": "0"}}
                assert ("ttlMs" in result, "cacheScope" in result) == (METHODS[method].cacheable,) * 2, method
                if METHODS[method].cacheable:
                    assert result["ttlMs"] == 0
                    assert result["cacheScope"] == ("private" if method == "resources/read" else "public")
        for revision in LEGACY:
            async with talking(everything(), revision) as talk:
                for method, params in asked.items():
                    if revision in METHODS[method].revisions:
                        assert not (await talk.ask(method, params)).keys() & {
                            "resultType",
                            "_meta",
                            "ttlMs",
                            "cacheScope",
                        }

    async def test_discovery_says_what_there_is(self) -> None:
        """`server/discover` lists versions, capabilities and instructions; the identity is in `_meta` (DISC-1,
        CAP-2).
        """
        server = everything()
        async with talking(server) as talk:
            found = await talk.ask("server/discover")
        everything_offered = {"logging", "tools", "resources", "prompts", "completions"}
        assert found["supportedVersions"] == [MODERN]
        assert found["capabilities"].keys() == everything_offered
        assert "serverInfo" not in found

    @pytest.mark.parametrize("data", [object(), "\ud800"])
    async def test_an_error_that_is_no_json_is_still_an_error(self, data: Any) -> None:
        """A ProtocolError with data or a text that no JSON can hold is answered as an internal error (BASE-7)."""
        server = Server("engine")
        faults = [ProtocolError(1, "x", data), ProtocolError(1, str(data) if isinstance(data, str) else "\udfff")]

        @server.prompt
        def fail(n: int) -> str:
            raise faults[n]

        async with talking(server) as talk:
            for n in ("0", "1"):
                with pytest.raises(Refused, match="prompts/get failed on the server") as caught:
                    await talk.ask("prompts/get", {"name": "fail", "arguments": {"n": n}})
                assert caught.value.code == -32603

    async def test_who_lacks_something_is_told_by_the_code(self) -> None:
        """What the server does not offer is -32601, never the code for what the client lacks (ERR-2, CAP-3)."""
        for revision in REVISIONS:
            async with talking(Server("bare"), revision) as talk:
                for name, row in METHODS.items():
                    if row.request and row.capability and row.capability != "logging" and row.direction == "to_server":
                        with pytest.raises(Refused) as caught:
                            await talk.ask(name, {"name": "x", "uri": "x://x", "taskId": "x"})
                        assert caught.value.code == -32601, name


class TestCancellation:
    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    async def test_a_cancelled_handler_stops_and_nothing_is_sent(self, revision: str) -> None:
        """The handler is cancelled, sends nothing more, gets no answer, and the next request is served (STDIO-4,
        CAN-1, F39).
        """
        server = Server("engine")
        began, ended = asyncio.Event(), asyncio.Event()

        @server.tool
        async def wait(ctx: Context) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                await ctx.info("too late")
                await ctx.report_progress(1)
                assert ctx.cancelled
                ended.set()

        async with talking(server, revision) as talk:
            meta = {"log_level": "debug"} if revision == MODERN else {}
            id = talk.send("tools/call", {"name": "wait"}, progressToken="t", **meta)
            await began.wait()
            before = len(talk.frames)
            talk.cancel(id)
            await ended.wait()
            await talk.ask("tools/list")
            assert len(talk.frames) == before + 1

    async def test_fifty_given_up_calls_leave_nothing_behind(self, caplog: pytest.LogCaptureFixture) -> None:
        """Fifty cancelled calls against a tool that waits for ever: each ends quietly, no task is left (F39)."""
        server = Server("engine")
        running = 0

        @server.tool
        async def wait() -> None:
            nonlocal running
            running += 1
            try:
                await asyncio.Event().wait()
            finally:
                running -= 1

        async with talking(server) as talk:
            tasks = asyncio.all_tasks()
            ids = [talk.send("tools/call", {"name": "wait"}) for _ in range(50)]
            await talk.settled()
            assert running == 50
            for id in ids:
                talk.cancel(id)
            await talk.settled()
            assert running == 0
            assert asyncio.all_tasks() == tasks
            assert talk.frames == []
        assert caplog.text == ""

    async def test_a_handler_that_ignores_it_is_abandoned(self) -> None:
        """One that goes on is left alone: its answer is dropped, and the conversation goes on and ends (CAN-3)."""
        server = Server("engine", limits=Limits(grace=0.05))
        began, go_on = asyncio.Event(), asyncio.Event()

        @server.tool
        async def stubborn() -> str:
            began.set()
            while not go_on.is_set():
                try:
                    await go_on.wait()
                except asyncio.CancelledError:
                    continue
            return "nobody hears this"

        async with talking(server) as talk:
            id = talk.send("tools/call", {"name": "stubborn"})
            await began.wait()
            talk.cancel(id)
            await talk.ask("tools/list")
            assert [frame["id"] for frame in talk.frames] == [id + 1]
        go_on.set()
        await talk.settled()
        assert len(talk.frames) == 1

    async def test_late_and_unknown_cancellations_are_ignored(self) -> None:
        """A cancellation of a finished, unknown or missing id changes nothing and is not answered (CAN-3, F34)."""
        async with talking(everything()) as talk:
            await talk.ask("tools/list", id="done")
            for params in ({"requestId": "done"}, {"requestId": "never"}, {}, {"requestId": None}, {"requestId": [1]}):
                talk.notify("notifications/cancelled", params)
            talk.notify("notifications/never/heard/of", {"a": 1})
            talk.notify("notifications/initialized", {})
            await talk.ask("tools/list")
            assert len(talk.frames) == 2

    async def test_the_server_cancels_nothing_by_itself(self) -> None:
        """When a conversation ends the server sends no cancellation and asks nothing (CAN-2, STDIO-3, BASE-6)."""
        server = Server("engine")
        began = asyncio.Event()

        @server.tool
        async def wait() -> None:
            began.set()
            await asyncio.Event().wait()

        async with talking(server) as talk:
            talk.send("tools/call", {"name": "wait"})
            await began.wait()
        assert talk.frames == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    "name arguments uri cursor ref argument value type level protocolVersion capabilities clientInfo version context"
    " requestState inputResponses task taskId notifications".split()
)
VALUES = JSON | st.sampled_from(
    [
        "add",
        "join",
        "raw",
        "p",
        "x://a",
        "x://of/b",
        "x://of/%",
        "ref/prompt",
        "ref/resource",
        MODERN,
        LEGACY[0],
        "info",
    ]
)
NESTED = st.recursive(
    VALUES, lambda inner: st.dictionaries(KEYS | st.sampled_from("abc"), inner, max_size=4), max_leaves=8
)
METAS = st.fixed_dictionaries(
    {},
    optional={
        PREFIX + "protocolVersion": st.just(MODERN) | VALUES,
        PREFIX + "clientCapabilities": st.just({}) | JSON,
        PREFIX + "clientInfo": st.just(CLIENT) | JSON,
        PREFIX + "logLevel": st.just("debug") | JSON,
        "progressToken": JSON,
    },
)
CODES = {-32600, -32601, -32602, -32603, -32002, -32022}
ROWS = sorted(METHODS)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(ROWS) | st.text(max_size=8), st.dictionaries(KEYS, NESTED, max_size=5) | JSON, METAS),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from(REVISIONS),
)
async def test_every_request_is_answered_once(asked: list[tuple[str, Any, Any]], revision: str) -> None:
    """Whatever is asked, each request gets one answer with its id: a result or a legal error (BASE-2,
    BASE-7, ERR-1).
    """
    modern = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}}
    async with talking(everything(), revision) as talk:
        start = len(talk.frames)
        ids = [f"f{n}" for n in range(len(asked))]
        for id, (method, params, meta) in zip(ids, asked, strict=True):
            if isinstance(params, dict) and (meta or revision == MODERN):
                params = {**params, "_meta": {**modern, **meta} if revision == MODERN else meta}
            talk._answers[id] = asyncio.get_running_loop().create_future()
            talk.write({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        await asyncio.wait([talk._answers[id] for id in ids], timeout=10)
        await talk.settled()
        answers = [frame for frame in talk.frames[start:] if "method" not in frame]
        assert sorted(frame["id"] for frame in answers) == sorted(ids)
        for frame in answers:
            assert frame.keys() in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"})
            if "error" in frame:
                assert frame["error"]["code"] in CODES
                assert isinstance(frame["error"]["message"], str)
                assert "failed on the server" not in frame["error"]["message"], (asked, frame)
            elif "content" in frame["result"]:
                assert "failed" not in json.dumps(frame["result"]["content"]), (asked, frame)
