"""Progress and log messages: when they are sent, to whom, and what they carry."""

from __future__ import annotations

import asyncio
import math
from datetime import date
from typing import Any

import pytest

from jackfield import Context, Server
from jackfield.protocol.types import LOG_LEVELS
from tests.server.talk import LEGACY, MODERN, REVISIONS, Refused, logs_of, progress_of, talking, text_of


class TestProgress:
    @pytest.mark.parametrize("token", [0, -1, 7, "", "a b", "0", 10**30])
    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    async def test_reports_carry_the_token_of_the_request(self, token: Any, revision: str) -> None:
        """Each report has just the token that was given, in its type; all come before the result (F41, PRG-2)."""
        server = Server("progress")

        @server.tool
        async def work(ctx: Context) -> None:
            await ctx.report_progress(1, 3, "one")
            await ctx.report_progress(2.5, total=3)
            await ctx.report_progress(3)

        async with talking(server, revision) as talk:
            await talk.call("work", progressToken=token)
            assert progress_of(talk) == [
                {"progressToken": token, "progress": 1, "total": 3, "message": "one"},
                {"progressToken": token, "progress": 2.5, "total": 3},
                {"progressToken": token, "progress": 3},
            ]
            assert [type(each["progressToken"]) for each in progress_of(talk)] == [type(token)] * 3
            assert "result" in talk.frames[-1]

    async def test_without_a_token_there_is_no_report(self) -> None:
        """No token, no progress: the server invents none (F41)."""
        server = Server("progress")

        @server.tool
        async def work(ctx: Context) -> None:
            await ctx.report_progress(1)

        async with talking(server) as talk:
            await talk.call("work", progressToken=1)
            await talk.call("work")
            assert len(progress_of(talk)) == 1

    async def test_progress_only_grows(self) -> None:
        """What has not grown, and what is no number that JSON has, is not sent (PRG-2, F41)."""
        server = Server("progress")

        @server.tool
        async def work(ctx: Context) -> None:
            for value in (-3, math.nan, -3, -5, 0, 0.0, math.inf, 0.5, 0.4, math.nan, 1):
                await ctx.report_progress(value, total=math.inf)

        async with talking(server) as talk:
            await talk.call("work", progressToken=1)
            assert [each["progress"] for each in progress_of(talk)] == [-3, 0, 0.5, 1]
            assert all("total" not in each for each in progress_of(talk))

    async def test_nothing_follows_the_result(self) -> None:
        """Reports and log messages of a task that outlives its request are not sent (PRG-2, LOG-2, F41)."""
        server = Server("progress")
        later = asyncio.Event()
        tasks = []

        @server.tool
        async def work(ctx: Context) -> None:
            async def linger() -> None:
                await later.wait()
                await ctx.report_progress(2)
                await ctx.error("too late")
                assert ctx.cancelled

            await ctx.report_progress(1)
            tasks.append(asyncio.create_task(linger()))

        async with talking(server) as talk:
            await talk.call("work", progressToken=1, log_level="debug")
            later.set()
            await tasks[0]
            await talk.settled()
            assert "result" in talk.frames[-1]
            assert [each["progress"] for each in progress_of(talk)] == [1]

    async def test_nothing_follows_the_result_when_the_id_is_used_again(self) -> None:
        """A context that outlives its request does not speak for the next one of the same id (PRG-2, LOG-2, F41)."""
        server = Server("progress")
        kept: list[Context] = []
        entered, leave = asyncio.Event(), asyncio.Event()

        @server.tool
        async def first(ctx: Context) -> None:
            kept.append(ctx)

        @server.tool
        async def second() -> None:
            entered.set()
            await leave.wait()

        async with talking(server) as talk:
            await talk.ask("tools/call", {"name": "first"}, id=7, progressToken="one", log_level="debug")
            talk.send("tools/call", {"name": "second"}, id=7, progressToken="two", log_level="debug")
            await entered.wait()
            (context,) = kept
            assert context.cancelled
            await context.report_progress(1)
            await context.error("too late")
            leave.set()
            await talk.answer(7)
            assert talk.heard == []

    async def test_the_oldest_revision_has_no_message(self) -> None:
        """A report's message is left out where the revision has none (PRG-2, LIFE-4)."""
        server = Server("progress")

        @server.tool
        async def work(ctx: Context) -> None:
            await ctx.report_progress(1, message="hi \ud800")

        found = {}
        for revision in REVISIONS:
            async with talking(server, revision) as talk:
                await talk.call("work", progressToken=1)
                found[revision] = progress_of(talk)[0].get("message")
        assert found == dict.fromkeys(REVISIONS[:-1], "hi \\ud800") | {"2024-11-05": None}

    async def test_two_requests_report_to_their_own_tokens(self) -> None:
        """Progress of calls that run side by side is not mixed up."""
        server = Server("progress")
        both = asyncio.Barrier(2)

        @server.tool
        async def work(ctx: Context, n: int) -> None:
            await both.wait()
            await ctx.report_progress(n)

        async with talking(server) as talk:
            calls = [
                talk.send("tools/call", {"name": "work", "arguments": {"n": n}}, progressToken=f"t{n}") for n in (1, 2)
            ]
            await asyncio.gather(*map(talk.answer, calls))
            found = {each["progressToken"]: each["progress"] for each in progress_of(talk)}
            assert found == {"t1": 1, "t2": 2}


def logging_server() -> Server:
    server = Server("logs")

    @server.tool
    async def speak(ctx: Context) -> None:
        for level in LOG_LEVELS:
            await getattr(ctx, level)(level)
            await ctx.log(level, {"level": level}, logger="mine")

    return server


class TestLogging:
    async def test_modern_logs_come_only_when_asked_for(self) -> None:
        """Without a log level in `_meta` nothing is sent; with one, that level and those above it (LOG-2)."""
        async with talking(logging_server()) as talk:
            await talk.call("speak")
            assert talk.heard == []
            await talk.call("speak", log_level="critical")
            assert logs_of(talk) == [
                each
                for level in ("critical", "alert", "emergency")
                for each in (
                    {"level": level, "data": level},
                    {"level": level, "data": {"level": level}, "logger": "mine"},
                )
            ]
            assert "result" in talk.frames[-1]
            talk.heard.clear()
            await talk.call("speak")
            assert talk.heard == []

    async def test_an_unknown_level_is_invalid_params(self) -> None:
        """A level that is none is -32602, in `_meta` and in `logging/setLevel` (LOG-2, LOG-3)."""
        async with talking(logging_server()) as talk:
            with pytest.raises(Refused, match="Invalid enum value 'loud'") as caught:
                await talk.call("speak", log_level="loud")
            assert caught.value.code == -32602
        async with talking(logging_server(), LEGACY[0]) as talk:
            with pytest.raises(Refused) as caught:
                await talk.ask("logging/setLevel", {"level": "loud"})
            assert caught.value.code == -32602

    @pytest.mark.parametrize("revision", LEGACY)
    async def test_a_legacy_session_sets_its_own_level(self, revision: str) -> None:
        """A session hears `info` and above until it sets a level, which is its own alone (LOG-3)."""
        server = logging_server()
        async with talking(server, revision) as talk, talking(server, revision) as other:
            await talk.call("speak")
            assert [each["level"] for each in logs_of(talk)][::2] == list(LOG_LEVELS[1:])
            assert await talk.ask("logging/setLevel", {"level": "emergency"}) == {}
            talk.heard.clear()
            await talk.call("speak")
            assert [each["level"] for each in logs_of(talk)] == ["emergency", "emergency"]
            await other.call("speak")
            assert len(logs_of(other)) == 14

    async def test_the_modern_era_has_no_set_level(self) -> None:
        """`logging/setLevel` does not exist in the modern revision, whatever its params (ERA-V5, META-8)."""
        for params in ({"level": "debug"}, {"level": "loud"}, {}):
            async with talking(logging_server()) as talk:
                with pytest.raises(Refused) as caught:
                    await talk.ask("logging/setLevel", params)
                assert caught.value.code == -32601

    async def test_any_value_can_be_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """Data may be any JSON value; what is none fails no call that only wanted to log it."""
        server = Server("logs")

        @server.tool
        async def speak(ctx: Context) -> None:
            for data in (None, [1, {"a": date(2026, 1, 2)}], object(), math.nan, "a\ud800b"):
                await ctx.info(data)

        async with talking(server) as talk:
            assert "isError" not in await talk.call("speak")
            assert "isError" not in await talk.call("speak", log_level="info")
            assert [each["data"] for each in logs_of(talk)] == [
                None,
                [1, {"a": "2026-01-02"}],
                "(a object that is no JSON)",
                "(a float that is no JSON)",
                "a\\ud800b",
            ]
        assert caplog.text.count("a log message is no JSON") == 2

    async def test_a_level_that_is_none_is_the_authors_mistake(self) -> None:
        """`ctx.log` with another word for a level raises ValueError, whoever listens."""
        server = Server("logs")

        @server.tool
        async def speak(ctx: Context) -> str:
            with pytest.raises(ValueError, match="'warn' is no log level; use one of debug, info"):
                await ctx.log("warn", "x")  # type: ignore[arg-type]
            return "told"

        async with talking(server) as talk:
            assert text_of(await talk.call("speak")) == "told"

    @pytest.mark.parametrize("level", ["error", "debug"])
    async def test_a_flood_of_messages_arrives_before_the_result(self, level: str) -> None:
        """Ten thousand messages and the result all arrive, in order; those below the level are not sent (F45)."""
        server = Server("logs")

        @server.tool
        async def flood(ctx: Context) -> str:
            for n in range(10_000):
                await ctx.info(n)
                if n % 10 == 0:
                    await ctx.report_progress(n)
            return "done"

        async with talking(server) as talk:
            assert text_of(await talk.call("flood", log_level=level, progressToken="t")) == "done"
            assert [each["data"] for each in logs_of(talk)] == ([] if level == "error" else list(range(10_000)))
            assert len(progress_of(talk)) == 1000
            assert "result" in talk.frames[-1]
