"""The planner walk: a client plans a day with a server that asks before it overwrites, each way, in both eras."""

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

from jackfield import Client, ClientQuestion, Stdio
from jackfield.servers.planner.example import PLAN_ID, broken_plan, plan, request
from jackfield.servers.planner.server import server

URI = f"plan://{PLAN_ID}"
BROKEN = [
    ("overlap", "$.routine.blocks[2]"),
    ("category", "$.routine.blocks[3].category"),
    ("commitment", "$.routine.blocks[1]"),
]


ASKED = f"The plan 'Calm weekday' is saved already as {PLAN_ID}. Overwrite it?"


class Failure(Exception):
    """Something that did not come out as it must."""


class Person:
    """Stands for whoever sits at the client: shows what is asked, and answers what was decided before."""

    def __init__(self) -> None:
        self.overwrite = False
        self.asked: list[str] = []

    def answer(self, question: ClientQuestion) -> dict[str, bool]:
        self.asked.append(question.message)
        print(f"      ?  {question.server} asks: {question.message} {short(list(question.schema['properties']))}")
        given = {"overwrite": self.overwrite}
        print(f"      !  the person answers: {short(given)}")
        return given


def short(value: Any, width: int = 92) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 3] + "..."


class Walk:
    """One walk with one client: does a step, shows it, and checks what came back."""

    def __init__(self, client: Client, person: Person) -> None:
        self.client = client
        self.person = person
        self.steps = 0

    def send(self, what: str) -> None:
        self.steps += 1
        print(f"  {self.steps:2}. -> {short(what)}")

    def got(self, what: Any, as_expected: bool) -> None:
        print(f"      <- {short(what)}")
        if not as_expected:
            raise Failure(f"step {self.steps} gave: {what}")

    async def call(self, tool: str, what: str, **arguments: Any) -> Any:
        self.send(f"tools/call {tool} {what}".rstrip())
        return await self.client.call_tool(tool, arguments)

    async def all(self) -> None:
        await self.look()
        await self.draft()
        await self.save()

    async def look(self) -> None:
        self.send("tools/list")
        tools = [tool.name for tool in await self.client.list_tools()]
        self.got(tools, tools == ["get_plan_contract", "validate_plan", "save_plan"])
        self.send("prompts/list")
        prompts = [prompt.name for prompt in await self.client.list_prompts()]
        self.got(prompts, prompts == ["draft-plan"])
        self.send("prompts/get draft-plan")
        prompt = await self.client.get_prompt("draft-plan", {"request_json": json.dumps(request())})
        text = getattr(prompt.messages[0].content, "text", "")
        self.got(text, PLAN_ID in text)
        result = await self.call("get_plan_contract", "")
        contract = result.structured_content
        self.got(result.text, contract["format"] == "daily-momentum-ai-plan" and len(contract["categories"]) == 9)

    async def draft(self) -> None:
        result = await self.call("validate_plan", "the draft", plan=plan(), request=request())
        verdict = result.structured_content
        warnings = [(issue["code"], issue["path"]) for issue in verdict["warnings"]]
        self.got(verdict, verdict["valid"] and warnings == [("overnight", "$.routine.blocks[4]")])

        broken = json.dumps(broken_plan())
        result = await self.call("validate_plan", "a broken draft, as text", plan=broken, request=request())
        verdict = result.structured_content
        errors = [(issue["code"], issue["path"]) for issue in verdict["errors"]]
        self.got(verdict["errors"], not verdict["valid"] and errors == BROKEN)

    async def save(self) -> None:
        result = await self.call("save_plan", "the broken draft", plan=broken_plan(), request=request())
        self.got("isError: " + result.text, result.is_error and result.text.startswith("Plan not saved."))
        result = await self.call("save_plan", "the draft", plan=plan(), request=request())
        self.got(result.structured_content, result.structured_content["saved"] is True and not self.person.asked)

        await self.save_over(yes=False)
        await self.read("Calm weekday")
        await self.save_over(yes=True)
        self.send("resources/list")
        listed = [resource.uri for resource in await self.client.list_resources()]
        self.got(listed, listed == [URI])
        self.send("resources/templates/list")
        templates = [template.uri_template for template in await self.client.list_resource_templates()]
        self.got(templates, templates == ["plan://{plan_id}"])
        await self.read("Calmer weekday")

    async def save_over(self, *, yes: bool) -> None:
        """Save another draft over the saved one; the person is asked about it while the call waits."""
        self.person.overwrite, self.person.asked = yes, []
        another = {**plan(), "name": "Calmer weekday"}
        result = await self.call("save_plan", "another draft", plan=another, request=request())
        saved = result.structured_content["saved"]
        self.got(result.structured_content, saved is yes and self.person.asked == [ASKED])

    async def read(self, wanted: str) -> None:
        self.send(f"resources/read {URI}")
        read = await self.client.read_resource(URI)
        name = json.loads(read.contents[0].text or "null")["name"]
        self.got(f"the plan called {name!r}", name == wanted)


async def walk(title: str, target: Any, mode: str) -> tuple[str, str, int, float]:
    person = Person()
    async with Client(target, mode=mode, elicit=person.answer) as client:
        print(f"\n{title}: {client.server.name} {client.server.version}, revision {client.revision}")
        begin = time.perf_counter()
        steps = Walk(client, person)
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
