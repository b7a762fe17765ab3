"""Lists and calls a server with the official Python client: `client_official.py ERA TOOL ARGUMENTS URL | COMMAND...`.

ERA is modern, legacy or auto, ARGUMENTS is JSON; prints one JSON object: revision, server, tools, result.
"""

import asyncio
import json
import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters

MODES = {"modern": "2026-07-28", "legacy": "legacy", "auto": "auto"}


def plain(model: Any) -> Any:
    """A model of the SDK as the JSON it came from."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main(era: str, name: str, arguments: str, command: list[str]) -> None:
    """Connect, list, call and print."""
    over_stdio = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    target = command[0] if "://" in command[0] else over_stdio
    async with Client(target, mode=MODES[era]) as client:
        tools = await client.list_tools()
        result = await client.call_tool(name, json.loads(arguments))
        seen = {
            "revision": client.protocol_version,
            "server": plain(client.server_info) if client.server_info else None,
            "tools": plain(tools)["tools"],
            "result": plain(result),
        }
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
