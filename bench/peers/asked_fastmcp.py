"""Has a server ask the client of FastMCP: `asked_fastmcp.py ERA STEPS URL | COMMAND...`; see asked_official.py."""

import asyncio
import json
import os
import sys
from typing import Any

from asked_official import MODES, Person, text
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp import MCPError


async def step(client: Client, person: Person, step: dict[str, Any]) -> dict[str, Any]:
    """Do one step."""
    person.answer, person.asked = step.get("answer", {}), []
    name, arguments = step["name"], step.get("arguments", {})
    try:
        match step["do"]:
            case "call":
                result: Any = await client.call_tool(name, arguments, raise_on_error=False)
            case "prompt":
                result = await client.get_prompt(name, arguments)
            case _:
                parts = await client.read_resource(name)
                return {"text": "".join(part.text for part in parts), "failed": False, "asked": person.asked}
    except MCPError as error:
        return {"code": error.error.code, "asked": person.asked}
    return {"text": text(result), "failed": getattr(result, "is_error", False), "asked": person.asked}


async def main(era: str, steps: str, command: list[str]) -> None:
    """Connect, do all steps and print."""
    person = Person()

    async def elicit(message: str, kind: Any, params: Any, context: Any) -> ElicitResult:
        answer = await person.elicit(context, params)
        return ElicitResult(action=answer.action, content=answer.content)

    client = Client(
        command[0] if "://" in command[0] else StdioTransport(command[0], command[1:], env=dict(os.environ)),
        mode=MODES[era],
        elicitation_handler=elicit,
        sampling_handler=lambda messages, params, context: person.sample(context, params),
        roots=["file:///work"],
    )
    async with client:
        print(json.dumps([await step(client, person, each) for each in json.loads(steps)]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
