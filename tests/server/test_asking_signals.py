"""A question that is open is asked, whatever its handler makes of the signal; and who cannot be asked is told so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jackfield import CannotAsk, Context, Server
from tests.server.shop import PAGE, URL, YES, again, shop
from tests.server.talk import LEGACY, MODERN, Refused, talking, text_of

# ---- whatever the handler does with the signal


async def bare(ctx: Context) -> str:
    try:
        await ctx.elicit_url("May I?", PAGE)
    except:  # noqa: E722
        return "did it"
    return "asked"


async def raising(ctx: Context) -> str:
    try:
        await ctx.elicit_url("May I?", PAGE)
    except BaseException:
        raise ValueError("something else") from None
    return "asked"


async def final(ctx: Context) -> str:
    outcome = "did it"
    try:
        await ctx.elicit_url("May I?", PAGE)
        outcome = "asked"
    finally:
        return outcome  # noqa: B012


async def gathering(ctx: Context) -> str:
    said = await asyncio.gather(ctx.elicit_url("May I?", PAGE), return_exceptions=True)
    return "asked" if not isinstance(said[0], BaseException) else "did it"


async def grouped(ctx: Context) -> str:
    async with asyncio.TaskGroup() as group:
        group.create_task(ctx.elicit_url("May I?", PAGE))
    return "asked"


async def exiting(ctx: Context) -> str:
    try:
        await ctx.elicit_url("May I?", PAGE)
    except BaseException:
        raise SystemExit(1) from None
    return "asked"


async def cancelling(ctx: Context) -> str:
    try:
        await ctx.elicit_url("May I?", PAGE)
    except BaseException:
        raise asyncio.CancelledError from None
    return "asked"


def threaded(ctx: Context) -> str:
    try:
        ctx.sync.elicit_url("May I?", PAGE)
    except BaseException:
        return "did it"
    return "asked"


TRICKS = [bare, raising, final, gathering, grouped, exiting, cancelling, threaded]


@pytest.mark.parametrize("trick", TRICKS)
async def test_a_swallowed_signal_is_asked_all_the_same(trick: Any) -> None:
    """Whatever a handler makes of the signal, the answer is its question, and the retry has its answer (MR-1)."""
    server, name = Server("deaf"), trick.__name__
    server.add_tool(trick)
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call(name, {})
        assert first["resultType"] == "input_required"
        params = {"name": name, "requestState": first["requestState"], "inputResponses": {"question": YES}}
        assert text_of(await talk.ask("tools/call", params)) == "asked"


async def test_middleware_sees_the_signal_pass() -> None:
    """A middleware that handles every Exception does not keep a question from being asked."""
    seen: list[str] = []

    async def watch(params: Any, ctx: Context, following: Any) -> Any:
        try:
            return await following(params, ctx)
        except Exception:
            seen.append("failure")
            raise

    server, _ = shop(middleware=[watch])
    async with talking(server, MODERN, URL) as talk:
        assert (await talk.call("delete", {"name": "a"}))["resultType"] == "input_required"
        assert seen == []


async def test_prompts_and_resources_ask_too() -> None:
    """prompts/get and resources/read come back with a question as tools/call does (MR-1, RSC-7, PRM-3)."""
    server = Server("all")

    @server.prompt
    async def greet(ctx: Context, name: str = "") -> str:
        return f"Greet {name}: {(await ctx.elicit_url('Who?', PAGE)).action}"

    @server.resource("x://{name}")
    async def read(name: str, ctx: Context) -> str:
        return f"{name}: {(await ctx.elicit_url('Who?', PAGE)).action}"

    async with talking(server, MODERN, URL) as talk:
        for method, params in (
            ("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}),
            ("resources/read", {"uri": "x://a"}),
        ):
            first = await talk.ask(method, params)
            assert first["resultType"] == "input_required"
            assert "ttlMs" not in first
            params |= {"requestState": first["requestState"], "inputResponses": {"question": YES}}
            assert "accept" in str(await talk.ask(method, params))
            other = {"name": "greet", "arguments": {"name": "Bob"}} if method == "prompts/get" else {"uri": "x://b"}
            with pytest.raises(Refused, match="requestState"):
                await talk.ask(method, params | other)


# ---- who can be asked


@pytest.mark.parametrize(
    ("offered", "needed"),
    [
        ({}, {"elicitation": {"url": {}}}),
        ({"elicitation": {}}, {"elicitation": {"url": {}}}),
        ({"sampling": {}, "roots": {}}, {"elicitation": {"url": {}}}),
    ],
)
async def test_a_modern_client_that_cannot_be_asked_gets_the_missing_capability(
    offered: dict[str, Any], needed: dict[str, Any]
) -> None:
    """The error is -32021 and holds what the client would have to declare, as an object (ERR-2, MR-2)."""
    server, deeds = shop()
    async with talking(server, MODERN, offered) as talk:
        with pytest.raises(Refused) as caught:
            await talk.call("delete", {"name": "a"})
        assert (caught.value.code, caught.value.data) == (-32021, {"requiredCapabilities": needed})
        assert deeds.done == []


@pytest.mark.parametrize("revision", LEGACY)
async def test_a_legacy_client_that_cannot_be_asked_gets_the_tools_failure(revision: str) -> None:
    """The text says which capability is missing (CAP-3, ELC-1)."""
    server, deeds = shop()
    async with talking(server, revision, {}) as talk:
        result = await talk.call("delete", {"name": "a"})
        assert result["isError"]
        assert "cannot be asked" in text_of(result)
        assert deeds.done == []


@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
async def test_a_handler_may_do_without_the_answer(revision: str) -> None:
    """CannotAsk can be caught, and the call then ends as any other."""
    server = Server("modest")

    @server.tool
    async def modest(ctx: Context) -> str:
        try:
            await ctx.list_roots()
        except CannotAsk as fault:
            return f"no roots: {fault.required}"
        return "roots"

    async with talking(server, revision) as talk:
        assert text_of(await talk.call("modest", {})) == "no roots: {'roots': {}}"


async def test_capabilities_are_those_of_the_request() -> None:
    """A client that could be asked a moment ago is not asked by a request that does not say so (META-4)."""
    server, _ = shop()
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        talk.capabilities = {}
        with pytest.raises(Refused) as caught:
            await again(talk, first, {})
        assert caught.value.code == -32021
