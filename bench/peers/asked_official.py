"""Has a server ask the official Python client: `asked_official.py ERA STEPS URL | COMMAND...`.

ERA is modern or legacy. STEPS is a JSON list: of each what to `do` (call, prompt, resource or listen), its `name` and
`arguments`, and the `answer` of the person to what is asked, or for listen the `calls` to make meanwhile. Prints a JSON
list of what came of each. asked_fastmcp.py and asked_typescript.mjs are the same on other toolkits.
"""

import asyncio
import json
import os
import sys
from typing import Any

from mcp import Client, MCPError, StdioServerParameters, types

MODES = {"modern": "2026-07-28", "legacy": "legacy"}


class Person:
    """Who is asked: gives what the step says, and remembers the questions."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}
        self.asked: list[dict[str, Any]] = []
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    async def elicit(self, context: Any, params: Any) -> types.ElicitResult:
        """Fill in a form, or agree to a page."""
        self.asked.append(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        return types.ElicitResult(**self.answer)

    async def sample(self, context: Any, params: Any) -> types.CreateMessageResult:
        """Be the model."""
        self.asked.append(params.model_dump(mode="json", by_alias=True, exclude_none=True))
        return types.CreateMessageResult(role="assistant", content=types.TextContent(text="Paris"), model="m")

    async def roots(self, context: Any) -> types.ListRootsResult:
        """Say where to work."""
        return types.ListRootsResult(roots=[types.Root(uri="file:///work")])

    async def hear(self, message: Any) -> None:
        """Take a notification of a legacy server."""
        match message:
            case types.ResourceUpdatedNotification():
                self.heard.put_nowait(f"resource {message.params.uri}")
            case types.ToolListChangedNotification():
                self.heard.put_nowait("tools")


def text(result: Any) -> str:
    """The text of a result of any kind."""
    parts = getattr(result, "contents", None) or getattr(result, "content", None)
    if parts is None:
        parts = [message.content for message in result.messages]
    return "".join(part.text for part in parts)


async def step(client: Client, person: Person, step: dict[str, Any]) -> dict[str, Any]:
    """Do one step."""
    person.answer, person.asked = step.get("answer", {}), []
    name, arguments = step["name"], step.get("arguments", {})
    try:
        match step["do"]:
            case "call":
                result: Any = await client.call_tool(name, arguments)
            case "prompt":
                result = await client.get_prompt(name, arguments)
            case "resource":
                result = await client.read_resource(name)
            case _:
                return {"heard": await listen(client, person, name, step["calls"])}
    except MCPError as error:
        return {"code": error.error.code, "asked": person.asked}
    return {"text": text(result), "failed": getattr(result, "is_error", False), "asked": person.asked}


async def listen(client: Client, person: Person, uri: str, calls: list[str]) -> list[str]:
    """Hear of tools and one resource, while these tools are called; what was heard after each."""
    heard: list[str] = []
    if client.protocol_version != "2026-07-28":
        await client.session.subscribe_resource(uri)
        for call in calls:
            await client.call_tool(call, {})
            heard.append(await asyncio.wait_for(person.heard.get(), 10))
        return heard
    async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as events:
        for call in calls:
            await client.call_tool(call, {})
            event = await asyncio.wait_for(anext(events), 10)
            heard.append(f"resource {event.uri}" if hasattr(event, "uri") else "tools")
    return heard


async def main(era: str, steps: str, command: list[str]) -> None:
    """Connect, do all steps and print."""
    over_stdio = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    person = Person()
    client = Client(
        command[0] if "://" in command[0] else over_stdio,
        mode=MODES[era],
        elicitation_callback=person.elicit,
        sampling_callback=person.sample,
        list_roots_callback=person.roots,
        message_handler=person.hear,
    )
    async with client:
        print(json.dumps([await step(client, person, each) for each in json.loads(steps)]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
