"""The server of the HTTP transcripts."""

from __future__ import annotations

from typing import Annotated

from jackfield import Context, Header, Message, ProtocolError, Server, ToolError

server = Server("lesson", version="1.0.0")
modern_only = Server("modern", version="1.0.0", eras=("modern",))
legacy_only = Server("legacy", version="1.0.0", eras=("legacy",))


@modern_only.tool
@legacy_only.tool
@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
async def route(region: Annotated[str, Header("Region")], fast: Annotated[bool | None, Header("Fast")] = None) -> str:
    """Choose a way; what stands between can choose one too, by the headers."""
    return f"by {region}" + (", fast" if fast else "")


@server.tool
async def steps(ctx: Context) -> str:
    """Report progress."""
    await ctx.report_progress(1, 2, "half of it")
    return "done"


@server.tool
async def fail() -> str:
    """Fail."""
    raise ToolError("There is no more paper.")


@server.tool
async def summarize() -> str:
    """What needs a model on the client's side."""
    raise ProtocolError(-32021, "This tool needs sampling", {"requiredCapabilities": {"sampling": {}}})


@server.resource("note://{name}")
async def note(name: str) -> str | None:
    """A note."""
    return {"first": "Buy milk."}.get(name)


@server.prompt
async def greet(name: str) -> Message:
    """A greeting."""
    return Message(f"Say hello to {name}.")
