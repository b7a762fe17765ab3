"""The official Python client under test: `load_official.py ERA [URL | COMMAND...]`, in memory when neither is given."""

import asyncio
import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters
from server_official import server
from worker import work

MODES = {"modern": "2026-07-28", "legacy": "legacy"}


def answer(result: Any) -> Any:
    """What the check looks at."""
    return bool(result.is_error), result.content[0].text, result.structured_content


async def main(era: str, command: list[str]) -> None:
    """Connect and work."""
    target: Any = server
    if command and "://" in command[0]:
        target = command[0]
    elif command:
        target = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with Client(target, mode=MODES[era]) as client:
        await work(client.protocol_version, lambda a, b: client.call_tool("add", {"a": a, "b": b}), answer)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
