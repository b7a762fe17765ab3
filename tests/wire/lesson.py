"""The server of the transcripts `lesson_*`: a little of everything, two items to a page."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from jackfield import Audio, Context, Image, Message, ResourceLink, Server, ToolError, ToolResult

server = Server("lesson", version="1.0.0", instructions="For reading along.", page_size=2)

NOTES = {"first": "Buy milk.", "second": "Water the plants."}


@server.tool(title="Count up", read_only=True)
async def count(to: Annotated[int, Meta(ge=1, le=5)], ctx: Context) -> list[int]:
    """Count, and report each step."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"said {number}")
        await ctx.debug(f"at {number}")
    await ctx.notice({"counted": to}, logger="counter")
    return list(range(1, to + 1))


@server.tool
def show(what: str) -> list[Image | Audio | ResourceLink | str]:
    """Show something."""
    if what == "picture":
        return [Image(b"\x89PNG"), "A picture."]
    if what == "sound":
        return [Audio(b"RIFF")]
    if what == "note":
        return [ResourceLink("note://first", "first", title="The first note")]
    raise ToolError(f"There is no {what}; ask for picture, sound or note")


@server.tool
def break_down() -> int:
    """Fail."""
    raise RuntimeError("what nobody shall read")


def total(numbers: dict[str, list[float]]) -> ToolResult:
    """Add numbers, by a schema of its own."""
    return ToolResult(
        content="The total.", structured_content=[sum(numbers["numbers"])], meta={"example.com/unit": "1"}
    )


server.add_tool(
    total,
    input_schema={
        "type": "object",
        "properties": {"numbers": {"type": "array", "items": {"type": "number"}, "x-hint": "any"}},
        "required": ["numbers"],
    },
    output_schema={"type": "array", "items": {"type": "number"}},
)


def note_uris() -> list[str]:
    return [f"note://{name}" for name in NOTES]


@server.resource("note://{name}", title="A note", mime_type="text/plain", list=note_uris)
def note(name: str) -> str | None:
    """A note."""
    return NOTES.get(name)


@server.resource("lesson://logo", mime_type="image/png", size=4)
async def logo() -> bytes:
    """The logo."""
    return b"\x89PNG"


@server.resource("lesson://broken")
async def broken() -> str:
    """A resource that cannot be read."""
    raise OSError("what nobody shall read")


@server.prompt(title="Sum up")
def sum_up(
    note: Annotated[str, Meta(description="The note's name")],
    words: Annotated[int, Meta(description="At most so many")] = 10,
) -> list[Message | str]:
    """Have a note summed up."""
    return [f"Sum up in {words} words: {NOTES[note]}", Message("Gladly.", role="assistant")]


@server.completion("sum_up", "note")
async def complete_note(typed: str) -> list[str]:
    return [name for name in NOTES if name.startswith(typed)]


@server.completion("note://{name}", "name")
def complete_name(typed: str, others: dict[str, str]) -> list[str]:
    return [f"{typed}{n}" for n in range(120)] if not others else sorted(others)


if __name__ == "__main__":
    server.run()
