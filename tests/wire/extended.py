"""The server of the transcripts `extended_*`: extensions, icons, and a trace that is passed on."""

from __future__ import annotations

import json

from jackfield import Context, Icon, Server

ICONS = [Icon("https://example.com/icon.png", mime_type="image/png", sizes=["48x48"])]
COLOURS = "com.example/colours"
server = Server("extended", version="1.0.0", icons=ICONS, extensions={COLOURS: {"depth": 24}, "com.example/shapes": {}})


@server.tool(icons=ICONS)
async def agreed(ctx: Context) -> str:
    """Tell which extensions both sides speak."""
    return json.dumps(ctx.extensions)


@server.tool
async def paint(ctx: Context) -> str:
    """Do what takes an extension."""
    return f"painted with {ctx.require_extension(COLOURS)}"


@server.tool
async def traced(ctx: Context) -> str:
    """Tell in which trace the call is."""
    trace = ctx.trace
    return "in none" if trace is None else f"{trace.traceparent} {trace.tracestate} {trace.baggage}"
