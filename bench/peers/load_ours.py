"""Our client under test: `load_ours.py ERA [URL | COMMAND...]`, in memory when neither is given."""

import asyncio
import os
import sys
from typing import Any

from server_ours import server
from worker import work

from jackfield import Client, Stdio


def answer(result: Any) -> Any:
    """What the check looks at."""
    return result.is_error, result.text, result.structured_content


async def main(era: str, command: list[str]) -> None:
    """Connect and work."""
    target: Any = server
    if command:
        target = command[0] if "://" in command[0] else Stdio(*command, env=dict(os.environ))
    async with Client(target, mode=era) as client:
        await work(client.revision, lambda a, b: client.call_tool("add", {"a": a, "b": b}), answer)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
