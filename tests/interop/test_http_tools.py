"""Other people's command lines and proxies on our planner over HTTP."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import peers
from jackfield import Client, Stdio

TOOLS = {"get_plan_contract", "validate_plan", "save_plan"}
FORMAT = "daily-momentum-ai-plan"
MODERN, LEGACY = "2026-07-28", "2025-11-25"


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment in which what a peer keeps in the home directory is in a new one."""
    return os.environ | {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "NO_UPDATE_NOTIFIER": "1"}


def run_peer(env: dict[str, str], name: str, *arguments: str, code: int = 0) -> Any:
    """What an npm peer's command line printed as JSON; it must end with this exit code."""
    command = [*peers.npm_bin(name), *arguments]
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, check=False
    )
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
class TestInspector:
    """The Inspector's command line, which speaks both eras."""

    def inspect(self, env: dict[str, str], url: str, era: str, *arguments: str) -> Any:
        how = ["--cli", "--server-url", url, "--transport", "http", "--protocol-era", era, "--method", *arguments]
        return run_peer(env, "mcp-inspector", *how)

    def test_it_lists_our_tools(self, planner: str, home: dict[str, str], era: str) -> None:
        """All tools are listed."""
        assert {tool["name"] for tool in self.inspect(home, planner, era, "tools/list")["tools"]} == TOOLS

    def test_it_calls_our_tool(self, planner: str, home: dict[str, str], era: str) -> None:
        """A call is answered; a modern answer names the server in its `_meta`, a legacy one has none."""
        result = self.inspect(home, planner, era, "tools/call", "--tool-name", "get_plan_contract")
        assert result["structuredContent"]["format"] == FORMAT
        assert ("_meta" in result) is (era != "legacy")

    def test_it_reads_our_resources_and_prompts(self, planner: str, home: dict[str, str], era: str) -> None:
        """What is listed can be read."""
        prompts = self.inspect(home, planner, era, "prompts/list")["prompts"]
        assert [prompt["name"] for prompt in prompts] == ["draft-plan"]
        templates = self.inspect(home, planner, era, "resources/templates/list")["resourceTemplates"]
        assert [template["uriTemplate"] for template in templates] == ["plan://{plan_id}"]


class TestMcporter:
    """mcporter, on the TypeScript SDK v1."""

    def test_it_lists_our_tools(self, planner: str, home: dict[str, str]) -> None:
        """All tools are listed."""
        listed = run_peer(home, "mcporter", "list", "--allow-http", planner, "--json")
        assert listed["status"] == "ok"
        assert {tool["name"] for tool in listed["tools"]} == TOOLS

    def test_it_calls_our_tools(self, planner: str, home: dict[str, str]) -> None:
        """A call is answered, and a tool's failure is seen as one."""
        call = ("call", "--allow-http", "--output", "json")
        assert run_peer(home, "mcporter", *call, f"{planner}.get_plan_contract")["format"] == FORMAT
        bad = json.dumps({"plan": {}, "request": {}})
        failed = run_peer(home, "mcporter", *call, f"{planner}.save_plan", "--args", bad, code=1)
        assert failed["isError"] is True
        assert failed["content"][0]["text"].startswith("Plan not saved.")


class TestMcpc:
    """mcpc, which keeps a session in a process of its own, and deletes it at the end."""

    @pytest.fixture
    def session(self, planner: str, home: dict[str, str]) -> Iterator[dict[str, Any]]:
        """What it says of a session that it opened; closed afterwards."""
        opened = run_peer(home, "mcpc", "--json", "connect", planner, "@planner")
        try:
            yield opened
        finally:
            assert run_peer(home, "mcpc", "--json", "close", "@planner")["closed"] is True

    def test_it_uses_a_session_of_ours(self, session: dict[str, Any], home: dict[str, str]) -> None:
        """The session is legacy; tools are listed and called in it, and a failure is seen as one."""
        assert session["protocolVersion"] == LEGACY
        assert set(session["toolNames"]) == TOOLS
        assert {tool["name"] for tool in run_peer(home, "mcpc", "--json", "@planner", "tools-list")} == TOOLS
        called = run_peer(home, "mcpc", "--json", "@planner", "tools-call", "get_plan_contract")
        assert called["structuredContent"]["format"] == FORMAT
        failed = run_peer(home, "mcpc", "--json", "@planner", "tools-call", "save_plan", "plan:={}", "request:={}")
        assert failed["isError"] is True


@pytest.mark.parametrize(("era", "revision"), [("modern", MODERN), ("legacy", LEGACY), ("auto", MODERN)])
async def test_mcp_remote_carries_our_client_to_our_planner(
    planner: str, home: dict[str, str], era: str, revision: str
) -> None:
    """A proxy between stdio and HTTP that is not ours passes both eras through, headers and errors included."""
    command = [*peers.npm_bin("mcp-remote"), planner, "--allow-http", "--transport", "http-only"]
    async with Client(Stdio(*command, env=home), mode=era) as client:
        assert client.revision == revision
        assert {tool.name for tool in await client.list_tools()} == TOOLS
        result = await client.call_tool("get_plan_contract")
        assert result.structured_content["format"] == FORMAT
        assert (await client.call_tool("save_plan", {"plan": {}, "request": {}})).is_error
