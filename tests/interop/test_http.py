"""Other people's SDK clients on our planner and our client on other people's servers, over HTTP, in both eras."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from bench import peers
from bench.web import Site
from jackfield import Client, JackfieldError, PeerError

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERAS = [("modern", MODERN), ("legacy", LEGACY), ("auto", MODERN)]
CLIENTS = [
    pytest.param(client, era, revision, id=f"{client}-{era}")
    for client in ("client_official.py", "client_typescript.mjs")
    for era, revision in ERAS
] + [pytest.param("client_typescript_v1.mjs", None, LEGACY, id="client_typescript_v1.mjs-legacy")]

each_client = pytest.mark.parametrize(("client", "era", "revision"), CLIENTS)
era_and_revision = pytest.mark.parametrize(("era", "revision"), ERAS, ids=[era for era, _ in ERAS])


def seen_by(client: str, era: str | None, url: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """What a peer's client script saw that listed a server and called one tool."""
    script = peers.node_script(client) if client.endswith(".mjs") else [peers.python(), peers.script(client)]
    command = [*script, *([era] if era else []), tool, json.dumps(arguments), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@each_client
def test_a_peers_client_lists_and_calls_our_planner(planner: str, client: str, era: str | None, revision: str) -> None:
    """The official Python client and both TypeScript clients agree on a revision with our planner and use it."""
    seen = seen_by(client, era, planner, "get_plan_contract", {})
    assert seen["revision"] == revision
    assert {tool["name"] for tool in seen["tools"]} == {"get_plan_contract", "validate_plan", "save_plan"}
    assert not seen["result"].get("isError")
    assert seen["result"]["structuredContent"]["format"] == "daily-momentum-ai-plan"
    assert json.loads(seen["result"]["content"][0]["text"]) == seen["result"]["structuredContent"]


@each_client
def test_a_peers_client_sees_our_tools_failure(planner: str, client: str, era: str | None, revision: str) -> None:
    """An invalid plan is not saved: the peer reads `isError` and each error's path."""
    seen = seen_by(client, era, planner, "save_plan", {"plan": {}, "request": {}})
    assert seen["revision"] == revision
    assert seen["result"]["isError"] is True
    assert seen["result"]["content"][0]["text"].startswith("Plan not saved.")


# ---- our client


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    """The npm reference server, which is legacy only."""
    with Site([*peers.npm_bin("mcp-server-everything"), "streamableHttp"]) as site:
        yield site.url


@pytest.fixture(scope="module", params=["official", "typescript"])
def everything(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of both eras with a little of everything, on another SDK."""
    python = [peers.python(), peers.script("everything_official.py")]
    typescript = request.param == "typescript"
    with Site(peers.node_script("everything_typescript.mjs") if typescript else python) as site:
        yield site.url


@pytest.mark.parametrize(("era", "revision"), [("legacy", LEGACY), ("auto", LEGACY)])
async def test_our_client_on_server_everything(reference: str, era: str, revision: str) -> None:
    """Our client falls back by itself on the reference server, lists it, calls it and hears of progress."""
    heard: list[tuple[float, float | None]] = []
    async with Client(reference, mode=era) as client:
        assert client.revision == revision
        assert {"echo", "get-sum"} <= {tool.name for tool in await client.list_tools()}
        assert (await client.call_tool("echo", {"message": "hé \u2028"})).text == "Echo: hé \u2028"
        assert (await client.call_tool("get-sum", {"a": 1, "b": 2})).text == "The sum of 1 and 2 is 3."
        assert (await client.call_tool("get-sum", {"a": "x", "b": 2})).is_error
        await client.call_tool(
            "trigger-long-running-operation",
            {"duration": 0.2, "steps": 2},
            progress=lambda progress, total, message: heard.append((progress, total)),
        )
        resources = await client.list_resources()
        assert (await client.read_resource(resources[0].uri)).contents
        assert await client.list_prompts()
    assert heard == [(1, 2), (2, 2)]


async def test_our_client_refuses_a_legacy_server_when_told_to_be_modern(reference: str) -> None:
    """`mode="modern"` never falls back: a legacy server is an error that says so, and no call is made."""
    with pytest.raises(JackfieldError):
        async with Client(reference, mode="modern"):
            pass


@era_and_revision
async def test_our_client_calls_tools_of_another_sdk(everything: str, era: str, revision: str) -> None:
    """Many calls at once are answered, a tool's failure is `is_error`, and progress is heard before the answer."""
    heard: list[tuple[float, float | None, str | None]] = []
    async with Client(everything, mode=era) as client:
        assert client.revision == revision
        assert {tool.name for tool in await client.list_tools()} == {"add", "fail", "count"}
        results = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 2}) for n in range(20)))
        assert [result.structured_content for result in results] == [{"result": n + 2} for n in range(20)]
        assert (await client.call_tool("add", {"a": "many", "b": 2})).is_error
        failed = await client.call_tool("fail")
        assert failed.is_error
        assert failed.text in ("it failed on purpose", "Error executing tool fail")
        counted = await client.call_tool("count", {"steps": 3}, progress=lambda *told: heard.append(told))
        assert counted.text == "counted"
    assert heard == [(step, 3, f"step {step}") for step in (1, 2, 3)]


@era_and_revision
async def test_our_client_reads_resources_and_prompts_of_another_sdk(everything: str, era: str, revision: str) -> None:
    """Resources, templates, prompts and completion work with another SDK, and what is not there is an error."""
    async with Client(everything, mode=era) as client:
        assert client.revision == revision
        assert [resource.uri for resource in await client.list_resources()] == ["note://today"]
        assert (await client.read_resource("note://today")).contents[0].text == "héllo today"
        (template,) = await client.list_resource_templates()
        assert template.uri_template == "note://days/{day}"
        assert (await client.read_resource("note://days/monday")).contents[0].text == "note of monday"
        (prompt,) = await client.list_prompts()
        got = await client.get_prompt(prompt.name, {"name": "Zoë"})
        assert got.messages[0].content.text == "Say hello to Zoë"
        assert (await client.complete(prompt, "name", "Ad")).completion.values == ["Ada", "Adele"]
        with pytest.raises(PeerError):
            await client.read_resource("other://nothing")
        await client.ping()
