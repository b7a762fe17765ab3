"""The benchmark's server on FastMCP: over stdio, or with `http PORT` over HTTP."""

import sys

from fastmcp import FastMCP

server = FastMCP("bench")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def add_sync(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        port = int(sys.argv[2])
        server.run(transport="http", host="127.0.0.1", port=port, show_banner=False, log_level="ERROR")
    else:
        server.run(show_banner=False, log_level="ERROR")
