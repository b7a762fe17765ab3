"""A client that does what a scenario of the official conformance suite asks for: `everything_client.py URL`.

The suite is the server. It names the scenario in MCP_CONFORMANCE_SCENARIO, which decides what is called here and
nothing else, the revision in MCP_CONFORMANCE_PROTOCOL_VERSION, and what some scenarios need in MCP_CONFORMANCE_CONTEXT.
The exit code is 0 only when all calls came out as they must.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from jackfield import CallToolResult, Client
from jackfield.client.questions import ClientQuestion

FIRST_MODERN = "2026-07-28"
NOT_YET = {
    "elicitation-sep1034-client-defaults": "the GET stream of legacy sessions, on which this server asks",
    "sse-retry": "the GET stream of legacy sessions",
}
"""Scenarios that this release cannot do, and what each waits for; all of auth/ waits for authorization."""

Calls = Callable[[Client, dict[str, Any]], Awaitable[None]]


class Wrong(Exception):
    """An answer that is not what the scenario must give."""


def expect(found: Any, wanted: Any, what: str) -> None:
    if found != wanted:
        raise Wrong(f"{what}: {found!r}, and not {wanted!r}")


async def call(client: Client, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """Call a tool that must succeed."""
    result = await client.call_tool(name, arguments)
    if result.is_error:
        raise Wrong(f"{name} failed: {result.text}")
    return result


async def connect(client: Client, context: dict[str, Any]) -> None:
    """Nothing but the connection; the mock offers nothing that could be called."""
    await client.ping()


async def list_tools(client: Client, context: dict[str, Any]) -> None:
    await client.list_tools()


async def add_numbers(client: Client, context: dict[str, Any]) -> None:
    expect([tool.name for tool in await client.list_tools()], ["add_numbers"], "tools")
    expect((await call(client, "add_numbers", {"a": 2, "b": 3})).text, "The sum of 2 and 3 is 5", "the sum")


async def use_everything(client: Client, context: dict[str, Any]) -> None:
    for tool in await client.list_tools():
        await call(client, tool.name, {})
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def call_as_told(client: Client, context: dict[str, Any]) -> None:
    await client.list_tools()
    for each in context["toolCalls"]:
        await call(client, each["name"], each["arguments"])


async def call_what_is_sound(client: Client, context: dict[str, Any]) -> None:
    expect([tool.name for tool in await client.list_tools()], ["valid_tool"], "tools that may be called")
    await call(client, "valid_tool", {"region": "us-west1"})


async def echo_schema(client: Client, context: dict[str, Any]) -> None:
    schemas = {tool.name: tool.input_schema for tool in await client.list_tools()}
    await call(client, "json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


async def accept_defaults(client: Client, context: dict[str, Any]) -> None:
    await client.list_tools()
    said = (await call(client, "test_client_elicitation_defaults", {})).text
    prefix = "Elicitation completed: "
    expect(said[: len(prefix)], prefix, "the outcome")
    filled = {"name": "John Doe", "age": 30, "score": 95.5, "status": "active", "verified": True}
    expect(json.loads(said[len(prefix) :]), filled, "the defaults")


ASKED, MAY_ANSWER = asyncio.Event(), asyncio.Event()


async def confirm(question: ClientQuestion) -> dict[str, Any]:
    ASKED.set()
    await MAY_ANSWER.wait()
    return {"confirmed": True}


async def call_while_asked(client: Client, context: dict[str, Any]) -> None:
    """Call another tool while the question of the first one is open; the others are asked as well, or must not be."""
    await client.list_tools()
    echo = asyncio.create_task(call(client, "test_mrtr_echo_state", {}))
    await ASKED.wait()
    expect((await call(client, "test_mrtr_unrelated", {})).text, "unrelated-ok", "the call in between")
    MAY_ANSWER.set()
    expect((await echo).text, "echo-state-ok", "the call with a state")
    expect((await call(client, "test_mrtr_no_state", {})).text, "no-state-ok", "the call without a state")
    expect((await call(client, "test_mrtr_no_result_type", {})).text, "no-result-type-test-ok", "the plain result")


CALLS: dict[str, Calls] = {
    "initialize": connect,
    "request-metadata": connect,
    "tools_call": add_numbers,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_as_told,
    "http-invalid-tool-headers": call_what_is_sound,
    "json-schema-ref-no-deref": list_tools,
    "elicitation-sep1034-client-defaults": accept_defaults,
    "sep-2322-client-request-state": call_while_asked,
    "json-schema-2020-12-preservation": echo_schema,
}

HANDLERS: dict[str, dict[str, Any]] = {
    "elicitation-sep1034-client-defaults": {"elicit": lambda question: {}},
    "sep-2322-client-request-state": {"elicit": confirm},
}
"""What the client answers questions with, by the scenario."""


async def main(url: str) -> None:
    """Do what the environment asks for, with the server at `url`."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    modern = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"] >= FIRST_MODERN
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    waits = "authorization" if scenario.startswith("auth/") else NOT_YET.get(scenario)
    if waits is not None:
        sys.exit(f"{scenario}: not yet, it waits for {waits}")
    if scenario not in CALLS:
        sys.exit(f"{scenario}: this client has no calls for it")
    mode = "modern" if modern else "legacy"
    async with Client(url, mode=mode, **HANDLERS.get(scenario, {})) as client:
        await CALLS[scenario](client, context)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
