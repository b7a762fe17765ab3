"""The server of the transcripts `watching_*`: a stock that changes, and a tool that comes and goes."""

from __future__ import annotations

from jackfield import Context, Server

server = Server("watching", version="1.0.0")


@server.resource("stock://apples")
def apples() -> str:
    return "12"


@server.tool
async def eat(ctx: Context) -> str:
    """Eat an apple, and tell so twice."""
    ctx.notify_resource_updated("stock://apples")
    ctx.notify_resource_updated("stock://apples/green")
    ctx.notify_resource_updated("stock://apples")
    ctx.notify_resource_updated("stock://pears")
    return "eaten"


@server.tool
async def learn() -> str:
    """Have one more tool for a moment."""

    async def cook() -> None: ...

    server.add_tool(cook)
    server.remove_tool("cook")
    return "learnt"


@server.tool
async def grow() -> str:
    """Have one more resource for a moment."""
    server.add_resource("stock://plums", lambda: "none")
    server.remove_resource("stock://plums")
    return "grown"
