"""The planner as a client meets it: its lists, the walk, and what it refuses, in both eras."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jackfield import Client, PeerError
from jackfield.servers.planner import example
from jackfield.servers.planner.contract import contract
from jackfield.servers.planner.server import server

URI = f"plan://{example.PLAN_ID}"


@pytest.fixture(params=["legacy", "modern"])
async def client(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Client]:
    """A client of the planner, whose store is empty; its person wants no plan overwritten."""
    monkeypatch.setenv("PLAN_STORE", str(tmp_path / "plans"))
    async with Client(server, mode=request.param, elicit=lambda question: {"overwrite": False}) as connected:
        yield connected


async def test_lists_three_tools(client: Client):
    """The tools stand in the order of work, with their hints, and only the two that need arguments require them."""
    tools = await client.list_tools()
    assert [tool.name for tool in tools] == ["get_plan_contract", "validate_plan", "save_plan"]
    assert tools[0].title == "Plan contract"
    assert [tool.input_schema.get("required", []) for tool in tools] == [[], ["plan", "request"], ["plan", "request"]]
    for tool in tools:
        hints = tool.annotations
        assert hints is not None
        assert (hints.idempotent_hint, hints.open_world_hint) == (True, False)
        assert hints.read_only_hint is (tool.name != "save_plan")
        assert hints.destructive_hint is (False if tool.name == "save_plan" else None)
        assert tool.output_schema is not None
        assert tool.output_schema["type"] == "object"


async def test_gives_the_contract(client: Client):
    """`get_plan_contract` answers the contract, as structured content and as its JSON in text."""
    result = await client.call_tool("get_plan_contract", {})
    assert result.structured_content == contract()
    assert json.loads(result.text) == contract()


async def test_the_walk(client: Client):
    """Draft, mend, save, save again and read come out as the documents have it, in either era."""
    request = example.request()
    verdict = (await client.call_tool("validate_plan", {"plan": example.plan(), "request": request})).structured_content
    assert verdict["valid"] is True
    assert [(issue["code"], issue["path"]) for issue in verdict["warnings"]] == [("overnight", "$.routine.blocks[4]")]
    broken = {"plan": json.dumps(example.broken_plan()), "request": request}
    verdict = (await client.call_tool("validate_plan", broken)).structured_content
    assert verdict["valid"] is False
    assert [(issue["code"], issue["path"]) for issue in verdict["errors"]] == [
        ("overlap", "$.routine.blocks[2]"),
        ("category", "$.routine.blocks[3].category"),
        ("commitment", "$.routine.blocks[1]"),
    ]
    refused = await client.call_tool("save_plan", {"plan": example.broken_plan(), "request": request})
    assert refused.is_error
    parts = refused.text.split(" | ")
    assert parts[0].startswith("Plan not saved. $.routine.blocks[2]: ")
    assert [part.partition(": ")[0] for part in parts[1:]] == ["$.routine.blocks[3].category", "$.routine.blocks[1]"]
    saved = await client.call_tool("save_plan", {"plan": example.plan(), "request": request})
    assert not saved.is_error
    assert saved.structured_content["saved"] is True
    assert saved.structured_content["planId"] == example.PLAN_ID
    assert saved.structured_content["uri"] == URI
    assert [issue["code"] for issue in saved.structured_content["warnings"]] == ["overnight"]
    read = await client.read_resource(URI)
    assert read.contents[0].mime_type == "application/json"
    assert json.loads(read.contents[0].text or "") == example.plan()
    assert [prompt.name for prompt in await client.list_prompts()] == ["draft-plan"]


async def test_a_saved_plan_is_kept(client: Client):
    """Where the person wants it so, saving over a plan answers `saved: false` with a reason, and the first stays."""
    arguments = {"plan": example.plan(), "request": example.request()}
    first = (await client.call_tool("save_plan", arguments)).structured_content
    assert "reason" not in first
    changed = {**example.plan(), "name": "Another"}
    again = await client.call_tool("save_plan", {**arguments, "plan": changed})
    assert not again.is_error
    assert again.structured_content["saved"] is False
    assert example.PLAN_ID in again.structured_content["reason"]
    assert json.loads((await client.read_resource(URI)).contents[0].text or "")["name"] == "Calm weekday"


async def test_lists_what_is_saved(client: Client):
    """A saved plan is listed as a resource, and the template is there before any plan is."""
    assert await client.list_resources() == []
    assert [each.uri_template for each in await client.list_resource_templates()] == ["plan://{plan_id}"]
    await client.call_tool("save_plan", {"plan": example.plan(), "request": example.request()})
    (listed,) = await client.list_resources()
    assert (listed.uri, listed.mime_type) == (URI, "application/json")


@pytest.mark.parametrize("uri", ["plan://unknown", "plan://con", "plan://a%20b"])
async def test_an_unknown_plan_is_not_found(client: Client, uri: str):
    """A plan that is not saved, or whose id could not be, is an error of the protocol, not an empty answer (RSC-3)."""
    with pytest.raises(PeerError) as caught:
        await client.read_resource(uri)
    assert caught.value.code == (-32602 if client.revision == "2026-07-28" else -32002)
    assert caught.value.data == {"uri": uri}


@pytest.mark.parametrize("uri", ["plan://..%2Fescape", "plan://a%00b"])
async def test_an_id_that_leads_elsewhere_is_refused(client: Client, tmp_path: Path, uri: str):
    """An id that is a path out of the folder of plans never gets to it; the error names the variable (F58, S05)."""
    (tmp_path / "escape.json").write_text("{}", encoding="utf-8")
    with pytest.raises(PeerError, match="Invalid variable 'plan_id'") as caught:
        await client.read_resource(uri)
    assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("validate_plan", {"plan": {}}, "request"),
        ("validate_plan", {"plan": 7, "request": {}}, "plan"),
        ("save_plan", {"request": {}}, "plan"),
        ("save_plan", {"plan": {}, "request": 7}, "request"),
    ],
)
async def test_wrong_arguments_are_named(client: Client, tool: str, arguments: dict[str, object], named: str):
    """A missing or unfit argument is the tool's error, and its text names the argument (TOOL-7)."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert named in result.text


async def test_a_store_that_cannot_be_written_is_said(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where the store is no directory the tool says that the plan was not saved, and where."""
    blocker = tmp_path / "file"
    blocker.write_text("", encoding="utf-8")
    monkeypatch.setenv("PLAN_STORE", str(blocker / "plans"))
    result = await client.call_tool("save_plan", {"plan": example.plan(), "request": example.request()})
    assert result.is_error
    assert result.text.startswith("Plan not saved. The store ")


async def test_the_prompt_gives_the_order_of_work_and_the_request(client: Client):
    """`draft-plan` names the three tools in their order and ends with the request as it was given."""
    text_of_request = json.dumps(example.request())
    result = await client.get_prompt("draft-plan", {"request_json": text_of_request})
    (message,) = result.messages
    text = message.content.text
    assert message.role == "user"
    assert 0 < text.index("get_plan_contract") < text.index("validate_plan") < text.index("save_plan")
    assert text.endswith(text_of_request)
