"""What tests of questions share: what clients declare and say, and a server whose tool asks before it acts."""

from __future__ import annotations

from typing import Any

from jackfield import Context, Server
from tests.server.talk import Talk

PAGE = "https://example.com/agree"
URL = {"elicitation": {"url": {}}}
ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
YES, NO, CANCEL = {"action": "accept"}, {"action": "decline"}, {"action": "cancel"}


class Deeds:
    """What a tool really did."""

    def __init__(self) -> None:
        self.runs = 0
        self.done: list[str] = []


def shop(**options: Any) -> tuple[Server, Deeds]:
    """A server whose tool deletes something where the person agrees."""
    server, deeds = Server("shop", **options), Deeds()

    @server.tool
    async def delete(name: str, ctx: Context) -> str:
        deeds.runs += 1
        said = await ctx.elicit_url(f"Delete {name}?", PAGE)
        if said.action != "accept":
            return f"kept: {said.action}"
        deeds.done.append(name)
        return "deleted"

    return server, deeds


async def again(talk: Talk, before: dict[str, Any], answers: Any, tool: str = "delete", **arguments: Any) -> Any:
    """Make the call again with answers."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments or {"name": "a"}, "inputResponses": answers}
    if "requestState" in before:
        params["requestState"] = before["requestState"]
    return await talk.ask("tools/call", params)
