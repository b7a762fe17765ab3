"""A server on the official Python SDK whose tools ask their client for everything: over stdio, or with `http PORT`.

asking_fastmcp.py and asking_typescript.mjs have those of these tools that their SDKs can have.
"""

import sys
from typing import Annotated, Any

from mcp import types
from mcp.server import MCPServer
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Elicit, ListRoots, Resolve, Sample
from mcp.shared.exceptions import UrlElicitationRequiredError
from pydantic import BaseModel, Field

PAGE = "https://example.com/agree"
MOTTO = "resource://motto"

server = MCPServer("asking", log_level="ERROR")


class Sure(BaseModel):
    """What a person is asked before something is overwritten."""

    sure: bool
    why: str = Field(default="no reason")


async def overwrite(name: str) -> Elicit[Sure]:
    """Ask."""
    return Elicit(f"Overwrite {name}?", Sure)


async def forget(name: str) -> Elicit[Sure]:
    """Ask something else."""
    return Elicit(f"Forget {name}?", Sure)


async def think() -> Sample:
    """Ask the model."""
    question = types.SamplingMessage(role="user", content=types.TextContent(text="The capital of France?"))
    return Sample([question], max_tokens=9)


async def look() -> ListRoots:
    """Ask for the places to work in."""
    return ListRoots()


def said(name: str, answer: Any) -> str:
    """What came of a question, in one line."""
    return f"{name}: {answer.action}" + (f" {answer.data.sure} {answer.data.why}" if answer.action == "accept" else "")


@server.tool(structured_output=False)
async def resolved(name: str, answer: Annotated[ElicitationResult[Sure], Resolve(overwrite)]) -> str:
    """Ask before the body runs."""
    return said(name, answer)


@server.tool(structured_output=False)
async def twice(
    name: str,
    first: Annotated[ElicitationResult[Sure], Resolve(overwrite)],
    second: Annotated[ElicitationResult[Sure], Resolve(forget)],
) -> str:
    """Ask two things at once."""
    return f"{first.action} {second.action}"


@server.tool(structured_output=False)
async def asked(name: str, ctx: Context) -> str:
    """Ask in the body, which this SDK has for legacy clients only."""
    return said(name, await ctx.elicit(f"Overwrite {name}?", Sure))


@server.tool(structured_output=False)
async def thinks(answer: Annotated[types.CreateMessageResult, Resolve(think)]) -> str:
    """Ask the model before the body runs."""
    return answer.content.text


@server.tool(structured_output=False)
async def looks(answer: Annotated[types.ListRootsResult, Resolve(look)]) -> str:
    """Ask for the places to work in before the body runs."""
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool(structured_output=False)
async def visits(ctx: Context) -> str | types.InputRequiredResult:
    """Ask to visit a page."""
    if ctx.protocol_version != "2026-07-28":
        return (await ctx.elicit_url("Agree", PAGE, "visit-1")).action
    if not ctx.input_responses:
        page = types.ElicitRequest(params=types.ElicitRequestURLParams(message="Agree", url=PAGE))
        return types.InputRequiredResult(input_requests={"page": page}, request_state="page")
    return ctx.input_responses["page"].action


@server.tool(structured_output=False)
async def demands(done: bool, ctx: Context) -> str:
    """Say that a page has to be visited first, and that it was where that is so."""
    page = types.ElicitRequestURLParams(message="Agree", url=PAGE, elicitation_id="visit-2")
    if done and visited:
        return "visited"
    visited.append(page.url)
    raise UrlElicitationRequiredError([page])


visited: list[str] = []


@server.resource(MOTTO)
async def motto() -> str:
    """What can be listened to."""
    return "Ask first."


@server.tool(structured_output=False)
async def touch(ctx: Context) -> str:
    """Tell that the motto changed."""
    await ctx.notify_resource_updated(MOTTO)
    return "touched"


@server.tool(structured_output=False)
async def grow(ctx: Context) -> str:
    """Tell that the tools changed, to listeners and to the session of the caller."""
    await ctx.notify_tools_changed()
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_tool_list_changed()
    return "grown"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run(transport="stdio")
