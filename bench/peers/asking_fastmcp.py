"""A server on FastMCP whose tools ask their client: over stdio, or with `http PORT`; see asking_official.py."""

import sys
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.tools import ToolResult
from mcp import types
from pydantic import BaseModel, Field

server = FastMCP("asking")


class Sure(BaseModel):
    """What a person is asked before something is overwritten."""

    sure: bool
    why: str = Field(default="no reason")


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}, "why": {"type": "string", "default": "no reason"}},
    "required": ["sure"],
}


@server.tool
async def asked(name: str, ctx: Context) -> str:
    """Ask in the body, which this toolkit has for legacy clients only."""
    answer = await ctx.elicit(f"Overwrite {name}?", Sure)
    return f"{name}: {answer.action}" + (f" {answer.data.sure} {answer.data.why}" if answer.action == "accept" else "")


@server.tool(output_schema=None)
async def returned(name: str, ctx: Context) -> ToolResult | types.InputRequiredResult:
    """Ask by what is returned, which modern clients understand."""
    if not ctx.input_responses:
        params = types.ElicitRequestFormParams(message=f"Overwrite {name}?", requested_schema=FORM)
        asks = {"sure": types.ElicitRequest(params=params)}
        return types.InputRequiredResult(input_requests=asks, request_state=name)
    answer = ctx.input_responses["sure"]
    filled = f" {answer.content['sure']} {answer.content['why']}" if answer.action == "accept" else ""
    return ToolResult(f"{ctx.request_state}: {answer.action}{filled}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        port = int(sys.argv[2])
        server.run(transport="http", host="127.0.0.1", port=port, show_banner=False, log_level="ERROR")
    else:
        server.run(show_banner=False, log_level="ERROR")
