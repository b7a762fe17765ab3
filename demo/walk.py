"""The planner walk: a client plans a day with a server, in memory, over stdio and over HTTP, in both eras."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any

from jackfield import Client, Stdio
from jackfield.servers.planner.example import PLAN_ID, broken_plan, plan, request
from jackfield.servers.planner.server import server

URI = f"plan://{PLAN_ID}"
BROKEN = [
    ("overlap", "$.routine.blocks[2]"),
    ("category", "$.routine.blocks[3].category"),
    ("commitment", "$.routine.blocks[1]"),
]


class Failure(Exception):
    """Something that did not come out as it must."""


def short(value: Any, width: int = 92) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."


class Walk:
    """One walk with one client: does a step, shows it, and checks what came back."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.steps = 0

    def show(self, sent: str, got: Any, as_expected: bool) -> None:
        self.steps += 1
        print(f"  {self.steps:2}. -> {short(sent)}")
        print(f"      <- {short(got)}")
        if not as_expected:
            raise Failure(f"step {self.steps} ({sent}) gave: {got}")

    async def call(self, tool: str, sent: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, arguments)
        return f"tools/call {tool} {sent}".rstrip(), result

    async def all(self) -> None:
        client = self.client
        tools = [tool.name for tool in await client.list_tools()]
        self.show("tools/list", tools, tools == ["get_plan_contract", "validate_plan", "save_plan"])
        prompts = [prompt.name for prompt in await client.list_prompts()]
        self.show("prompts/list", prompts, prompts == ["draft-plan"])
        prompt = await client.get_prompt("draft-plan", {"request_json": json.dumps(request())})
        text = getattr(prompt.messages[0].content, "text", "")
        self.show("prompts/get draft-plan", text, PLAN_ID in text)

        sent, result = await self.call("get_plan_contract", "")
        contract = result.structured_content
        self.show(
            sent, result.text, contract["format"] == "daily-momentum-ai-plan" and len(contract["categories"]) == 9
        )

        sent, result = await self.call("validate_plan", "the draft", plan=plan(), request=request())
        verdict = result.structured_content
        warnings = [(issue["code"], issue["path"]) for issue in verdict["warnings"]]
        self.show(sent, verdict, verdict["valid"] and warnings == [("overnight", "$.routine.blocks[4]")])

        broken = json.dumps(broken_plan())
        sent, result = await self.call("validate_plan", "a broken draft, as text", plan=broken, request=request())
        verdict = result.structured_content
        errors = [(issue["code"], issue["path"]) for issue in verdict["errors"]]
        self.show(sent, verdict["errors"], not verdict["valid"] and errors == BROKEN)

        sent, result = await self.call("save_plan", "the broken draft", plan=broken_plan(), request=request())
        self.show(sent, "isError: " + result.text, result.is_error and result.text.startswith("Plan not saved."))

        sent, result = await self.call("save_plan", "the draft", plan=plan(), request=request())
        self.show(sent, result.structured_content, result.structured_content["saved"] is True)

        sent, result = await self.call("save_plan", "the draft once more", plan=plan(), request=request())
        self.show(sent, result.structured_content, result.structured_content["saved"] is False)

        listed = [resource.uri for resource in await client.list_resources()]
        self.show("resources/list", listed, listed == [URI])
        read = await client.read_resource(URI)
        name = json.loads(read.contents[0].text or "null")["name"]
        self.show(f"resources/read {URI}", f"the plan called {name!r}", name == "Calm weekday")


async def walk(title: str, target: Any, mode: str) -> tuple[str, str, int, float]:
    async with Client(target, mode=mode) as client:
        print(f"\n{title}: {client.server.name} {client.server.version}, revision {client.revision}")
        begin = time.perf_counter()
        steps = Walk(client)
        await steps.all()
        return title, client.revision, steps.steps, time.perf_counter() - begin


@contextlib.asynccontextmanager
async def over_http(environment: dict[str, str]) -> AsyncIterator[str]:
    """The URL of a planner that serves over HTTP in a process of its own, on a free port."""
    command = [sys.executable, "-m", "jackfield", "run", "planner", "--http", "127.0.0.1:0"]
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **environment}, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        said = ""
        while not (found := re.search(r"http://\S+", said)):
            line = (await process.stderr.readline()).decode()
            if not line:
                raise Failure(f"the server over HTTP did not start: {said}")
            said += line
        yield found[0]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


async def main() -> int:
    rows: list[tuple[str, str, int, float]] = []
    for place in ("in memory", "over stdio", "over HTTP"):
        for era in ("modern", "legacy"):
            with tempfile.TemporaryDirectory() as store:
                os.environ["PLAN_STORE"] = store
                environment = {"PLAN_STORE": store}
                title = f"{place}, {era} era"
                if place == "over HTTP":
                    async with over_http(environment) as url:
                        rows.append(await walk(title, url, era))
                else:
                    started = Stdio(sys.executable, "-m", "jackfield", "run", "planner", env=environment)
                    rows.append(await walk(title, server if place == "in memory" else started, era))
    print("\nThe same walk came out of every way to make it:")
    for title, revision, steps, seconds in rows:
        print(f"  {title:26} {revision}  {steps} steps in {seconds * 1000:6.1f} ms")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main()))
    except Failure as failure:
        print(f"\nThe walk went wrong: {failure}", file=sys.stderr)
        sys.exit(1)
