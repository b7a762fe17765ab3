"""Other people's clients on our planner and our client on other people's servers, over stdio, in both eras."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import peers
from jackfield import Client, JackfieldError, Stdio

MODERN, LEGACY = "2026-07-28", "2025-11-25"
ERAS = [("modern", MODERN), ("legacy", LEGACY), ("auto", MODERN)]
PLANNER = [sys.executable, "-m", "jackfield", "run", "planner"]
CLIENTS = ["client_official.py", "client_typescript.mjs"]

era_and_revision = pytest.mark.parametrize(("era", "revision"), ERAS, ids=[era for era, _ in ERAS])


def client_command(name: str) -> list[str]:
    """The command line of a peer's client script."""
    return peers.node_script(name) if name.endswith(".mjs") else [peers.python(), peers.script(name)]


def use_planner(client: str, era: str, tool: str, arguments: dict[str, Any], store: Path) -> dict[str, Any]:
    """Let a peer's client list our planner and call one tool; what it saw."""
    env = os.environ | {"PYTHONPATH": str(peers.ROOT / "src"), "PLAN_STORE": str(store)}
    command = [*client_command(client), era, tool, json.dumps(arguments), *PLANNER]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("client", CLIENTS)
@era_and_revision
def test_a_peers_client_lists_and_calls_our_planner(client: str, era: str, revision: str, tmp_path: Path) -> None:
    """The official Python client and the TypeScript client agree on a revision with our planner and use it."""
    seen = use_planner(client, era, "get_plan_contract", {}, tmp_path)
    assert seen["revision"] == revision
    assert {tool["name"] for tool in seen["tools"]} == {"get_plan_contract", "validate_plan", "save_plan"}
    assert not seen["result"].get("isError")
    assert seen["result"]["structuredContent"]["format"] == "daily-momentum-ai-plan"
    assert json.loads(seen["result"]["content"][0]["text"]) == seen["result"]["structuredContent"]


@pytest.mark.parametrize("client", CLIENTS)
@era_and_revision
def test_a_peers_client_sees_our_tools_failure(client: str, era: str, revision: str, tmp_path: Path) -> None:
    """An invalid plan is not saved: the peer reads `isError` and each error's path."""
    seen = use_planner(client, era, "save_plan", {"plan": {}, "request": {}}, tmp_path)
    assert seen["revision"] == revision
    assert seen["result"]["isError"] is True
    assert seen["result"]["content"][0]["text"].startswith("Plan not saved.")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("era", "revision"), [("legacy", LEGACY), ("auto", LEGACY)])
async def test_our_client_on_server_everything(era: str, revision: str) -> None:
    """The npm reference server is legacy only: our client falls back by itself, lists it and calls it."""
    async with Client(Stdio(*peers.npm_bin("mcp-server-everything")), mode=era) as client:
        assert client.revision == revision
        assert {"echo", "get-sum"} <= {tool.name for tool in await client.list_tools()}
        assert (await client.call_tool("echo", {"message": "hé \u2028"})).text == "Echo: hé \u2028"
        assert (await client.call_tool("get-sum", {"a": 1, "b": 2})).text == "The sum of 1 and 2 is 3."
        assert (await client.call_tool("get-sum", {"a": "x", "b": 2})).is_error


async def test_our_client_refuses_a_legacy_server_when_told_to_be_modern() -> None:
    """`mode="modern"` never falls back: a legacy server is an error that says so, and no call is made."""
    with pytest.raises(JackfieldError):
        async with Client(Stdio(*peers.npm_bin("mcp-server-everything")), mode="modern"):
            pass


@era_and_revision
async def test_our_client_on_mcp_server_time(era: str, revision: str) -> None:
    """A server of another project, on the official SDK, is used in both eras; its failure is `is_error`."""
    noon = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    async with Client(Stdio(peers.bin("mcp-server-time"), "--local-timezone", "UTC"), mode=era) as client:
        assert client.revision == revision
        assert {tool.name for tool in await client.list_tools()} == {"get_current_time", "convert_time"}
        result = await client.call_tool("convert_time", noon)
        assert not result.is_error
        assert json.loads(result.text)["time_difference"] == "+9.0h"
        wrong = await client.call_tool("convert_time", noon | {"source_timezone": "Nowhere/Town"})
        assert wrong.is_error


@pytest.mark.parametrize("toolkit", ["official", "fastmcp", "typescript"])
@era_and_revision
async def test_our_client_on_a_server_of_another_sdk(toolkit: str, era: str, revision: str) -> None:
    """Servers written with the official SDK, FastMCP and the TypeScript SDK answer many calls of ours at once."""
    typescript = toolkit == "typescript"
    python_server = [peers.python(), peers.script(f"server_{'official' if typescript else toolkit}.py")]
    command = peers.node_script("server_typescript.mjs") if typescript else python_server
    async with Client(Stdio(*command), mode=era) as client:
        assert client.revision == revision
        assert "add" in {tool.name for tool in await client.list_tools()}
        results = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 2}) for n in range(20)))
        assert [result.structured_content for result in results] == [{"result": n + 2} for n in range(20)]
        assert (await client.call_tool("add", {"a": "many", "b": 2})).is_error
