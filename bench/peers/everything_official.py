"""A server with a little of everything, on the official Python SDK over HTTP: `everything_official.py PORT`.

everything_typescript.mjs is the same on the TypeScript SDK.
"""

import sys
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import Completion

NAMES = ("Ada", "Adele", "Grace")

server = MCPServer("everything", log_level="ERROR")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def fail() -> str:
    """Fail."""
    raise ValueError("it failed on purpose")


@server.tool(structured_output=False)
async def count(steps: int, ctx: Context) -> str:
    """Count, and tell of every step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "counted"


@server.resource("note://today", mime_type="text/plain")
def today() -> str:
    """Today's note."""
    return "héllo today"


@server.resource("note://days/{day}", mime_type="text/plain")
def of_day(day: str) -> str:
    """A day's note."""
    return f"note of {day}"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}"


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    """Names that begin so."""
    return Completion(values=[name for name in NAMES if name.startswith(argument.value)])


if __name__ == "__main__":
    server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
