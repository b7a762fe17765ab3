"""A server of ours over HTTP, for tests that need a whole process; the argument is a JSON object of `run`'s options."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator

from jackfield import Context, Limits, Server


def say(text: str) -> None:
    """Tell the test, on standard error."""
    os.write(2, f"{text}\n".encode())


@contextlib.asynccontextmanager
async def lifespan(_: Server) -> AsyncIterator[asyncio.Event]:
    """What tools wait for is the state."""
    yield asyncio.Event()
    say("ended")


server = Server("whole", lifespan=lifespan, limits=Limits(**json.loads(os.environ.get("SERVED_LIMITS", "{}"))))


@server.tool
async def where() -> str:
    """Tell the process."""
    return str(os.getpid())


@server.tool
async def slow() -> str:
    """Take half a minute."""
    say("slow")
    await asyncio.sleep(30)
    return "done"


@server.tool
async def stream(ctx: Context) -> str:
    """Report progress, and wait for `let_go`."""
    await ctx.report_progress(1, message="streaming")
    await ctx.state.wait()
    return "done"


@server.tool
async def let_go(ctx: Context) -> str:
    """Let `stream` end."""
    ctx.state.set()
    return "done"


if __name__ == "__main__":
    server.run("http", port=0, **json.loads(sys.argv[1]))
