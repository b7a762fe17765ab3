"""The Context: what a handler knows of its request, progress, log messages, and their twins for threads."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest

from jackfield import Context, ProtocolError, RegistrationError, Server
from jackfield.protocol.types import LOG_LEVELS
from jackfield.server.handlers import context_parameter, is_async
from tests.server.talk import (
    CLIENT,
    LEGACY,
    MODERN,
    PREFIX,
    REVISIONS,
    Refused,
    Talk,
    logs_of,
    progress_of,
    talking,
    text_of,
)

if TYPE_CHECKING:
    from decimal import Decimal


class TestParameter:
    def test_where_the_context_may_stand(self) -> None:
        """The parameter that is annotated with Context is found wherever it stands, however it is written."""

        def first(ctx: Context, a: int) -> None: ...
        def last(a: int, ctx: "Context") -> None: ...  # noqa: UP037
        def by_name(a: int, *, ctx: Context) -> None: ...
        def optional(a: int, ctx: Optional[Context] = None) -> None: ...  # noqa: UP045
        def union(a: int, ctx: Context | None = None) -> None: ...
        def annotated(ctx: Annotated[Context, "whatever"]) -> None: ...
        def without(a: int, b, c: "int | None" = None) -> None: ...  # noqa: UP037

        found = [context_parameter(fn) for fn in (first, last, by_name, optional, union, annotated)]
        assert [(each.name, each.place) for each in found if each] == [
            ("ctx", 0),
            ("ctx", 1),
            ("ctx", None),
            ("ctx", 1),
            ("ctx", 1),
            ("ctx", 0),
        ]
        assert context_parameter(without) is None

    def test_two_contexts_are_one_too_many(self) -> None:
        """A second parameter for the Context is an error that names the function."""

        def twice(a: Context, b: Context) -> None: ...

        with pytest.raises(RegistrationError, match="twice: only one parameter can be the Context"):
            context_parameter(twice)

    def test_a_type_that_is_not_there_at_run_time_is_named(self) -> None:
        """An annotation that was imported for the type checker alone is an error that names the parameter."""

        def priced(price: "Decimal", ctx: Context) -> None: ...  # noqa: UP037

        with pytest.raises(RegistrationError, match="priced: parameter 'price'"):
            context_parameter(priced)

    @pytest.mark.parametrize("handler", [5, "name", None, {}])
    def test_what_cannot_be_called_is_no_handler(self, handler: Any) -> None:
        """A handler that is no function is told as one."""
        with pytest.raises(RegistrationError, match="is no function"):
            context_parameter(handler)

    def test_generators_are_refused(self) -> None:
        """A handler that yields is an error that says what to do instead."""

        def plain():  # type: ignore[no-untyped-def]
            yield 1

        async def later():  # type: ignore[no-untyped-def]
            yield 1

        class Called:
            def __call__(self):  # type: ignore[no-untyped-def]
                yield 1

        for fn, name in ((plain, "plain"), (later, "later"), (Called(), "Called")):
            with pytest.raises(RegistrationError, match=f"{name}: a handler cannot be a generator; return the whole"):
                is_async(fn)

    @pytest.mark.parametrize("kind", ["async", "def", "object", "method"])
    async def test_every_kind_of_handler_gets_it(self, kind: str) -> None:
        """Async and blocking functions, methods and objects get the Context among their arguments."""
        server = Server("context")

        class Tools:
            async def method(self, a: int, ctx: Context, b: int) -> str:
                return f"{a} {ctx.method} {b}"

            def __call__(self, a: int, ctx: Context, b: int) -> str:
                return f"{a} {ctx.method} {b}"

        async def later(a: int, ctx: Context, b: int) -> str:
            return f"{a} {ctx.method} {b}"

        def plain(a: int, b: int, *, ctx: Context) -> str:
            return f"{a} {ctx.method} {b}"

        server.add_tool({"async": later, "def": plain, "object": Tools(), "method": Tools().method}[kind], name="t")
        async with talking(server) as talk:
            assert text_of(await talk.call("t", {"a": 1, "b": 2})) == "1 tools/call 2"
            (tool,) = (await talk.ask("tools/list"))["tools"]
            assert list(tool["inputSchema"]["properties"]) == ["a", "b"]


class TestFacts:
    @pytest.mark.parametrize("revision", REVISIONS)
    async def test_what_a_handler_knows(self, revision: str) -> None:
        """Request id, method, revision, identity and capabilities of the client, in every revision."""
        server = Server("context")
        seen = []

        @server.tool
        async def look(ctx: Context) -> None:
            seen.append((ctx.request_id, ctx.method, ctx.revision, ctx.client and ctx.client.name, ctx.state))
            assert ctx.capabilities.sampling is None
            assert not ctx.cancelled

        async with talking(server, revision) as talk:
            await talk.ask("tools/call", {"name": "look"}, id="my id")
        assert seen == [("my id", "tools/call", revision, "test", None)]

    async def test_capabilities_are_those_of_this_request(self) -> None:
        """Two requests of one conversation may differ in all that they say of the client (META-4, META-5)."""
        server = Server("context")

        @server.tool
        async def look(ctx: Context) -> str:
            return f"{ctx.client and ctx.client.name} {ctx.capabilities.roots is not None}"

        info, offer = PREFIX + "clientInfo", PREFIX + "clientCapabilities"
        async with talking(server) as talk:
            for _ in range(2):  # the second time from what was kept
                assert text_of(await talk.call("look")) == "test False"
                assert text_of(await talk.call("look", **{offer: {"roots": {}}})) == "test True"
                assert text_of(await talk.call("look", **{info: {"name": "other", "version": "2"}})) == "other False"
                assert text_of(await talk.call("look", **{info: None})) == "None False"

    async def test_a_session_is_not_changed_by_a_modern_request(self) -> None:
        """What a modern request says is not the session's, and the other way round (META-4, ERA-V1)."""
        server = Server("context")

        @server.tool
        async def look(ctx: Context) -> str:
            return f"{ctx.revision} {ctx.client and ctx.client.name} {ctx.peer.log_level}"

        modern = {
            PREFIX + "protocolVersion": MODERN,
            PREFIX + "clientInfo": {"name": "modern", "version": "1"},
            PREFIX + "clientCapabilities": {},
            PREFIX + "logLevel": "error",
        }
        async with talking(server, LEGACY[0]) as talk:
            for _ in range(2):
                assert text_of(await talk.call("look", **modern)) == f"{MODERN} modern error"
                assert text_of(await talk.call("look")) == f"{LEGACY[0]} test info"


class TestSync:
    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    async def test_a_thread_reports_and_logs(self, revision: str) -> None:
        """`ctx.sync` has the blocking twin of each method; what it sends comes before the result, in order."""
        server = Server("sync")

        @server.tool
        def work(ctx: Context) -> None:
            ctx.sync.report_progress(1, 2, "one")
            for level in LOG_LEVELS:
                getattr(ctx.sync, level)(level, logger="mine")
            ctx.sync.log("error", [1])
            ctx.sync.report_progress(2)

        async with talking(server, revision) as talk:
            meta = {"log_level": "debug"} if revision == MODERN else {}
            if revision != MODERN:
                await talk.ask("logging/setLevel", {"level": "debug"})
            await talk.call("work", progressToken="t", **meta)
            assert [each["progress"] for each in progress_of(talk)] == [1, 2]
            assert [each["data"] for each in logs_of(talk)] == [*LOG_LEVELS, [1]]
            assert "result" in talk.frames[-1]

    async def test_on_the_loop_it_says_so_instead_of_blocking_for_ever(self) -> None:
        """`ctx.sync` in an async handler is an error that says what to write."""
        server = Server("sync")

        @server.tool
        async def work(ctx: Context) -> str:
            with pytest.raises(RuntimeError, match=r"in an `async def` await ctx's own methods"):
                ctx.sync.info("x")
            return "told"

        async with talking(server) as talk:
            assert text_of(await talk.call("work", log_level="info")) == "told"

    async def test_a_thread_may_have_a_loop_of_its_own(self) -> None:
        """A `def` handler that runs a loop on its thread can still use `ctx.sync` there."""
        server = Server("sync")

        @server.tool
        def work(ctx: Context) -> None:
            async def inner() -> None:
                ctx.sync.info("from another loop")

            asyncio.run(inner())

        async with talking(server) as talk:
            assert "isError" not in await talk.call("work", log_level="info")
            assert [each["data"] for each in logs_of(talk)] == ["from another loop"]

    async def test_a_thread_sees_that_nobody_waits(self) -> None:
        """`ctx.cancelled` tells a `def` handler that it may stop; what it still sends is dropped (STDIO-4, CAN-3)."""
        server = Server("sync")
        begun, look, ended = threading.Event(), threading.Event(), threading.Event()
        seen = []

        @server.tool
        def work(ctx: Context) -> str:
            seen.append(ctx.cancelled)
            begun.set()
            look.wait(10)
            seen.append(ctx.cancelled)
            ctx.sync.info("nobody hears this")
            ctx.sync.report_progress(1)
            ended.set()
            return "nor this"

        async with talking(server) as talk:
            id = talk.send("tools/call", {"name": "work"}, log_level="debug", progressToken=1)
            await asyncio.to_thread(begun.wait, 10)
            talk.cancel(id)
            await talk.settled()
            # The same id again is another request, and no business of the thread that was given up.
            again = talk.send("tools/list", id=id)
            look.set()
            await asyncio.to_thread(ended.wait, 10)
            await talk.answer(again)
            await talk.settled()
            assert seen == [False, True]
            assert [frame.get("id") for frame in talk.frames] == [id]

    async def test_context_variables_of_the_request_reach_the_thread(self) -> None:
        """What a middleware set for its request is what the `def` handler sees, each its own (F28)."""
        user = contextvars.ContextVar("user", default="nobody")

        async def identify(params: Any, ctx: Context, next: Any) -> Any:
            if ctx.method == "tools/call":
                user.set(f"user {ctx.request_id}")
            return await next(params, ctx)

        server = Server("sync", middleware=[identify])
        both = threading.Barrier(2)

        @server.tool
        def whoami() -> str:
            both.wait(10)
            return user.get()

        async with talking(server) as talk:
            calls = [talk.send("tools/call", {"name": "whoami"}, id=n) for n in (1, 2)]
            assert [text_of(await talk.answer(call)) for call in calls] == ["user 1", "user 2"]


class TestOthers:
    async def test_every_kind_of_handler_can_log(self) -> None:
        """Resources, templates, prompts and completions get the Context as tools do."""
        server = Server("context")

        @server.resource("x://fixed")
        async def fixed(ctx: Context) -> str:
            await ctx.info("fixed")
            return "x"

        @server.resource("x://of/{name}")
        def template(name: str, ctx: Context) -> str:
            ctx.sync.info("template " + name)
            return "x"

        @server.prompt
        async def prompt(*, ctx: Context, a: str) -> str:
            await ctx.info("prompt " + a)
            return "x"

        @server.completion("prompt", "a")
        async def complete(typed: str, ctx: Context) -> list[str]:
            await ctx.info("complete " + typed)
            return []

        async with talking(server) as talk:
            await talk.ask("resources/read", {"uri": "x://fixed"}, log_level="info")
            await talk.ask("resources/read", {"uri": "x://of/a"}, log_level="info")
            await talk.ask("prompts/get", {"name": "prompt", "arguments": {"a": "b"}}, log_level="info")
            ref = {"type": "ref/prompt", "name": "prompt"}
            await talk.ask(
                "completion/complete", {"ref": ref, "argument": {"name": "a", "value": "c"}}, log_level="info"
            )
            assert [each["data"] for each in logs_of(talk)] == ["fixed", "template a", "prompt b", "complete c"]

    async def test_before_the_handshake_there_is_no_revision(self) -> None:
        """A middleware that sees `initialize` finds no revision, no client, and nothing breaks."""
        seen = []

        async def look(params: Any, ctx: Context, next: Any) -> Any:
            seen.append((ctx.method, ctx.revision, ctx.client and ctx.client.name))
            await ctx.report_progress(1, message="x")
            if ctx.method == "ping":
                raise ProtocolError(-1, "no pings")
            return await next(params, ctx)

        server = Server("context", middleware=[look])
        talk = Talk(LEGACY[0])
        await server.__mcp_connect__(talk.on)  # type: ignore[arg-type]
        with pytest.raises(Refused, match="no pings"):
            await talk.ask("ping", progressToken=1)
        hello = {"protocolVersion": LEGACY[0], "capabilities": {}, "clientInfo": CLIENT}
        await talk.ask("initialize", hello)
        assert seen == [("ping", "", None), ("initialize", "", None)]
        assert [each["progressToken"] for each in progress_of(talk)] == [1]
        await talk.close()
