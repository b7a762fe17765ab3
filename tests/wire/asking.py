"""The server of the transcripts `asking_*`: tools, a prompt and a resource that ask in the middle of their request."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from msgspec import Meta

from jackfield import (
    Context,
    CreateMessageResult,
    Elicit,
    ElicitationRequired,
    ElicitationResult,
    ElicitURL,
    Format,
    ListRoots,
    Resolve,
    Root,
    SamplingMessage,
    Server,
    TextContent,
    Titles,
    Tool,
    ToolResultContent,
    ToolUseContent,
)

server = Server("asking", version="1.0.0")


@dataclass
class Sure:
    """A yes that was meant."""

    sure: bool


@dataclass
class Trip:
    """Where somebody goes, and for how long."""

    to: Annotated[str, Meta(min_length=2, max_length=40)]
    nights: Annotated[int, Meta(ge=1, le=14)] = 2


class Meal(enum.Enum):
    """What can be had for lunch."""

    SOUP = "soup"
    SALAD = "salad"


@dataclass
class Guest:
    """A field of each kind that a form can have."""

    name: Annotated[str, Meta(title="Your name", description="As on the door.")]
    email: Annotated[str, Format("email")]
    since: Annotated[str, Format("date")]
    meal: Meal
    size: Annotated[Literal["s", "l"], Titles({"s": "Small", "l": "Large"})]
    guests: Annotated[int, Meta(ge=0, le=4)] = 0
    tip: float = 0.5
    window: bool = True


@dataclass
class Toppings:
    """Several of some things."""

    cheese: Annotated[list[Literal["feta", "brie"]], Meta(min_length=1, max_length=2)]
    extras: Annotated[list[Literal["n", "h"]], Titles({"n": "Nuts", "h": "Honey"})]


@server.tool
async def delete(name: str, ctx: Context) -> str:
    """Delete something, if the person means it."""
    said = await ctx.elicit(f"Delete {name}?", Sure)
    if said.action != "accept" or not said.data.sure:
        return f"kept {name}: {said.action}"
    return f"deleted {name}"


async def ask_trip() -> Elicit[Trip]:
    return Elicit("Where to?", Trip)


async def ask_meal() -> Elicit[Meal]:
    return Elicit("What do you eat there?", Meal)


async def ask_where() -> ListRoots:
    return ListRoots()


@server.tool
async def plan(
    trip: Annotated[Trip, Resolve(ask_trip)],
    meal: Annotated[ElicitationResult[Meal], Resolve(ask_meal)],
    places: Annotated[list[Root], Resolve(ask_where)],
) -> str:
    """Plan a trip, all about which can be asked at once."""
    eaten = meal.data.value if meal.action == "accept" else f"nothing ({meal.action})"
    return f"{trip.nights} nights in {trip.to}, {eaten}, {len(places)} places"


@server.tool
async def order(ctx: Context) -> str:
    """Ask one thing after the other, each for what was said before."""
    dish = await ctx.elicit("Soup or salad?", Meal, key="dish")
    if dish.action != "accept":
        return f"nothing: {dish.action}"
    sure = await ctx.elicit(f"One {dish.data.value}?", Sure, key="sure")
    if sure.action != "accept" or not sure.data.sure:
        return f"no {dish.data.value}"
    thanks = await ctx.elicit("Anything else?", bool)
    return f"one {dish.data.value}, {thanks.action}"


@server.tool
async def book(ctx: Context) -> str:
    """Ask for something of each kind."""
    said = await ctx.elicit("Who comes?", Guest)
    return f"{said.data!r}" if said.action == "accept" else said.action


@server.tool
async def top(ctx: Context) -> str:
    """Ask for several of some things."""
    said = await ctx.elicit("What on it?", Toppings)
    return f"{said.data!r}" if said.action == "accept" else said.action


@server.tool
async def measure(ctx: Context) -> str:
    """Tell how far the work is, and ask in the middle of it."""
    await ctx.report_progress(1, 2)
    said = await ctx.elicit("Go on?", Sure)
    await ctx.report_progress(2, 2)
    return f"measured: {said.action}"


@server.tool(replay=False)
async def reserve(ctx: Context) -> str:
    """Reserve a table, and keep it while the person is asked: never twice."""
    said = await ctx.elicit("The table at the window?", Sure)
    return f"reserved: {said.action}"


@server.prompt
async def letter(to: str, ctx: Context) -> str:
    """A letter in the tone that the person likes."""
    tone = await ctx.elicit("Which tone?", Literal["warm", "stern"])
    return f"Write a {tone.data if tone.action == 'accept' else 'plain'} letter to {to}."


@server.resource("diary://{day}")
async def diary(day: str, ctx: Context) -> str:
    """A page of the diary, for those who may read it."""
    said = await ctx.elicit(f"Show {day}?", Sure)
    return "It rained." if said.action == "accept" and said.data.sure else "(closed)"


@server.tool
async def agree(ctx: Context) -> str:
    """Have the person read the terms, and tell the client when they are done."""
    page = ElicitURL("Please read the terms.", "https://example.com/terms", id="terms")
    said = await ctx.ask(page)
    if said.action == "accept":
        await ctx.elicitation_complete(page.id)
    return f"terms: {said.action}"


paid: set[str] = set()


@server.tool
async def pay(ctx: Context) -> str:
    """Take money, once the person has signed in at the bank."""
    if "bank" not in paid:
        raise ElicitationRequired(ElicitURL("Sign in at your bank.", "https://example.com/bank", id="bank"))
    paid.remove("bank")
    return "paid"


@server.tool
async def visit(ctx: Context) -> str:
    """What else happens at the bank: somebody has signed in."""
    paid.add("bank")
    await ctx.elicitation_complete("bank")
    return "signed in"


def said_by(result: CreateMessageResult) -> str:
    blocks = result.content if isinstance(result.content, list) else [result.content]
    return " ".join(block.text for block in blocks if isinstance(block, TextContent))


@server.tool
async def sum_up(text: str, ctx: Context) -> str:
    """Have the client's model sum something up."""
    said = await ctx.sample(f"Sum up: {text}", max_tokens=50, system_prompt="Be short.", temperature=0.5)
    return f"{said_by(said)} ({said.model}, {said.stop_reason})"


@server.tool
async def compare(one: str, other: str, ctx: Context) -> str:
    """Have the client's model compare two texts, both in one message."""
    said = await ctx.sample(SamplingMessage("user", [TextContent(one), TextContent(other)]), max_tokens=50)
    return said_by(said)


ADD = Tool("add", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}})


@server.tool
async def reckon(ctx: Context) -> str:
    """Let the client's model use a tool of this server's."""
    talk: list[Any] = [SamplingMessage("user", TextContent("What is 2 and 3?"))]
    first = await ctx.sample(talk, max_tokens=50, tools=[ADD], tool_choice="required")
    blocks = first.content if isinstance(first.content, list) else [first.content]
    calls = [block for block in blocks if isinstance(block, ToolUseContent)]
    if not calls:
        return f"by itself: {said_by(first)}"
    results = [ToolResultContent(call.id, [TextContent(str(sum(call.input.values())))]) for call in calls]
    talk += [SamplingMessage("assistant", first.content), SamplingMessage("user", results)]
    return said_by(await ctx.sample(talk, max_tokens=50, tools=[ADD]))


@server.tool
async def where(ctx: Context) -> str:
    """Ask in which places the client works."""
    return ", ".join(root.uri for root in await ctx.list_roots()) or "nowhere"
