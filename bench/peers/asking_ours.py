"""A server on jackfield whose tools ask their client for everything, and tell of changes. To `jackfield run`."""

import asyncio
from typing import Annotated

from msgspec import Struct

from jackfield import Context, Elicit, ElicitationRequired, ElicitationResult, ElicitURL, Resolve, Server

PAGE = "https://example.com/agree"
MOTTO = "resource://motto"

server = Server("asking", version="1.0.0")


class Sure(Struct):
    """What a person is asked before something is overwritten."""

    sure: bool
    why: str = "no reason"


async def overwrite(name: str) -> Elicit[Sure]:
    """Ask."""
    return Elicit(f"Overwrite {name}?", Sure)


async def forget(name: str) -> Elicit[Sure]:
    """Ask something else."""
    return Elicit(f"Forget {name}?", Sure)


def said(name: str, answer: ElicitationResult[Sure]) -> str:
    """What came of a question, in one line."""
    return f"{name}: {answer.action}" + (f" {answer.data.sure} {answer.data.why}" if answer.data else "")


@server.tool
async def resolved(name: str, answer: Annotated[ElicitationResult[Sure], Resolve(overwrite)]) -> str:
    """Ask before the body runs."""
    return said(name, answer)


@server.tool
async def needed(name: str, answer: Annotated[Sure, Resolve(overwrite)]) -> str:
    """Ask before the body runs, which takes no no."""
    return f"{name}: {answer.sure} {answer.why}"


@server.tool
async def asked(name: str, ctx: Context) -> str:
    """Ask in the body."""
    return said(name, await ctx.elicit(f"Overwrite {name}?", Sure))


@server.tool
def blocking(name: str, ctx: Context) -> str:
    """Ask in a body that blocks."""
    return said(name, ctx.sync.elicit(f"Overwrite {name}?", Sure))


@server.tool
async def twice(
    name: str,
    first: Annotated[ElicitationResult[Sure], Resolve(overwrite)],
    second: Annotated[ElicitationResult[Sure], Resolve(forget)],
    ctx: Context,
) -> str:
    """Ask two things at once, and then a third."""
    third = await ctx.elicit(f"Really {name}?", Sure)
    return " ".join([first.action, second.action, third.action])


@server.tool
async def thinks(ctx: Context) -> str:
    """Ask the model."""
    answer = await ctx.sample("The capital of France?", max_tokens=9)
    return getattr(answer.content, "text", "")


@server.tool
async def looks(ctx: Context) -> str:
    """Ask for the places to work in."""
    return " ".join([root.uri for root in await ctx.list_roots()])


@server.tool
async def visits(ctx: Context) -> str:
    """Ask to visit a page."""
    return (await ctx.elicit_url("Agree", PAGE)).action


@server.tool
async def demands(ctx: Context) -> str:
    """Say that a page has to be visited first."""
    raise ElicitationRequired(ElicitURL("Agree", PAGE, id="visit-1"))


@server.prompt
async def letter(name: str, answer: Annotated[ElicitationResult[Sure], Resolve(overwrite)]) -> str:
    """Ask before a prompt."""
    return said(name, answer)


@server.resource("note://{name}")
async def note(name: str, ctx: Context) -> str:
    """Ask before a resource."""
    return said(name, await ctx.elicit(f"Overwrite {name}?", Sure))


@server.resource(MOTTO)
async def motto() -> str:
    """What can be listened to."""
    return "Ask first."


@server.tool
async def touch(ctx: Context) -> str:
    """Tell that the motto changed."""
    ctx.notify_resource_updated(MOTTO)
    return "touched"


@server.tool
async def grow(ctx: Context) -> str:
    """Have one more tool."""
    name = f"grown-{ctx.request_id}"
    server.add_tool(lambda: name, name=name, description="Grown.")
    await asyncio.sleep(0)
    return "grown"
