"""The everything-server itself, in memory: what the official suite will find when it asks over HTTP."""

from typing import Any

import pytest

from jackfield import Client, ClientQuestion, PeerError
from tests.conformance.everything_server import server
from tests.conformance.fixtures.tools import SCHEMA_2020_12

ARGUMENTS = {
    "header_parameters": {"region": "us-west1"},
    "json_schema_2020_12_tool": {"name": "Ann", "contactMethod": "phone", "phone": "1"},
    "test_elicitation": {"message": "Who are you?"},
    "test_sampling": {"prompt": "Say something."},
}
KINDS = {
    "test_simple_text": ["text"],
    "test_image_content": ["image"],
    "test_audio_content": ["audio"],
    "test_embedded_resource": ["resource"],
    "test_multiple_content_types": ["text", "image", "resource"],
}


def fill_in(question: ClientQuestion) -> dict[str, Any]:
    """An answer that fits any form: of choices the first, and of texts one."""

    def value(field: dict[str, Any]) -> Any:
        if field["type"] == "array":
            items = field["items"]
            return [items["enum"][0] if "enum" in items else items["anyOf"][0]["const"]]
        if "oneOf" in field:
            return field["oneOf"][0]["const"]
        return field["enum"][0] if "enum" in field else {"boolean": True, "string": "Ann"}.get(field["type"], 1)

    return {name: value(field) for name, field in question.schema["properties"].items()}


@pytest.fixture(params=["modern", "legacy"])
async def client(request):
    """A client of the server, in both eras, that answers whatever it is asked."""
    answers: dict[str, Any] = {"elicit": fill_in, "sample": lambda question: "Hello.", "roots": ["file:///here"]}
    async with Client(server, mode=request.param, **answers) as client:
        yield client


async def test_every_tool_is_described_and_answers(client):
    """Each tool has a description and takes its arguments; only the one that is meant to fail does."""
    tools = [tool for tool in await client.list_tools() if tool.name != "test_changing_tool"]  # it comes and goes
    assert all(tool.description for tool in tools)
    results = {tool.name: await client.call_tool(tool.name, ARGUMENTS.get(tool.name)) for tool in tools}
    assert [name for name, result in results.items() if result.is_error] == ["test_error_handling"]
    kinds = {name: [block.type for block in result.content] for name, result in results.items()}
    assert KINDS.items() <= kinds.items()


async def test_the_first_tool_needs_no_arguments(client):
    """The suite probes headers with the first tool of the list, which it calls without arguments."""
    first = (await client.list_tools())[0]
    assert first.input_schema.get("required", []) == []


async def test_the_schema_of_many_keywords_is_listed_as_it_is(client):
    """The schema of json_schema_2020_12_tool is listed with every keyword that it was registered with."""
    schemas = {tool.name: tool.input_schema for tool in await client.list_tools()}
    assert schemas["json_schema_2020_12_tool"] == SCHEMA_2020_12


async def test_one_tool_has_parameters_in_headers(client):
    """One tool says of its string, integer and boolean parameter in which header each is mirrored."""
    schemas = {tool.name: tool.input_schema for tool in await client.list_tools()}
    marked = {
        name: (schema["type"], schema["x-mcp-header"])
        for name, schema in schemas["header_parameters"]["properties"].items()
    }
    assert marked == {
        "region": ("string", "Region"),
        "priority": ("integer", "Priority"),
        "verbose": ("boolean", "Verbose"),
    }


async def test_resources_and_the_template_can_be_read(client):
    """All listed resources can be read, the template fills in the id, and there is nothing elsewhere."""
    resources = await client.list_resources()
    for resource in resources:
        (contents,) = (await client.read_resource(resource.uri)).contents
        assert contents.mime_type == resource.mime_type
    (template,) = await client.list_resource_templates()
    assert template.uri_template == "test://template/{id}/data"
    (contents,) = (await client.read_resource("test://template/123/data")).contents
    assert contents.text == '{"id":"123","templateTest":true,"data":"Data for ID: 123"}'
    with pytest.raises(PeerError):
        await client.read_resource("test://nothing")


async def test_prompts_can_be_expanded_and_completed(client):
    """All prompts are described and can be expanded; the argument of one can be completed."""
    texts = {"arg1": "a", "arg2": "b", "resourceUri": "test://example"}
    prompts = await client.list_prompts()
    assert all(prompt.description for prompt in prompts)
    for prompt in prompts:
        arguments = {argument.name: texts[argument.name] for argument in prompt.arguments or ()}
        assert (await client.get_prompt(prompt.name, arguments)).messages
    (prompt,) = [prompt for prompt in prompts if prompt.name == "test_prompt_with_arguments"]
    assert (await client.complete(prompt, "arg1", "par")).completion.values == ["paris", "park", "party"]
