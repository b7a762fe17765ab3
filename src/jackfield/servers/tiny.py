"""The server of the first lesson: two tools and nothing else."""

from typing import Annotated

from msgspec import Meta

from jackfield import Server, ToolError

LOWEST, HIGHEST = -(2**31), 2**31 - 1

Int32 = Annotated[int, Meta(ge=LOWEST, le=HIGHEST)]

server = Server("tiny", version="1.0.0")


@server.tool(read_only=True, idempotent=True, open_world=False)
async def add(a: Int32, b: Int32) -> Int32:
    """Add two whole numbers of 32 bits."""
    total = a + b
    if not LOWEST <= total <= HIGHEST:
        raise ToolError(f"{a} + {b} = {total} lies outside {LOWEST}..{HIGHEST}; take smaller numbers")
    return total


@server.tool(read_only=True, idempotent=True, open_world=False)
async def word_count(text: str) -> int:
    """Count the words of a text; words are what white space separates."""
    return len(text.split())


if __name__ == "__main__":
    server.run()
