"""The client's tool calls: what goes out, what comes back, and what is refused on either side."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from typing import Any

import msgspec
import pydantic
import pytest

from jackfield._version import __version__
from jackfield.client.client import Client
from jackfield.protocol.errors import (
    InvalidResult,
    PeerError,
    RegistrationError,
)
from jackfield.protocol.types import (
    TextContent,
    UnknownContent,
)
from tests.client.fakes import INITIALIZED, Fake, Fault, legacy, modern, text_result

BOTH = pytest.mark.parametrize("make", [modern, legacy])
META = "io.modelcontextprotocol/"
STAMP = {
    META + "protocolVersion": "2026-07-28",
    META + "clientInfo": {"name": "jackfield", "version": __version__},
    META + "clientCapabilities": {},
}


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("ftp://example.com/mcp", "begins with http:// or https://, not ftp:"),
        ("python server.py", "a command is given as"),
        (["python", "server.py"], "a command is given as"),
        (7, "not int"),
    ],
)
def test_target_that_is_none(target: Any, why: str) -> None:
    """What cannot be connected to is refused at once, with what to write instead."""
    with pytest.raises(RegistrationError, match=why):
        Client(target)


# ---- tools


@BOTH
async def test_call(make: Callable[..., Fake]) -> None:
    """A call gives content, structured content, whether it failed, its text and its exact bytes, in both eras."""
    result = {
        "content": [{"type": "text", "text": "a"}, {"type": "image", "data": "", "mimeType": "image/png"}]
        + [{"type": "text", "text": "b"}],
        "structuredContent": {"big": 10**30},
        "isError": False,
        "new": 1,
    }
    server = make(tools__call=result)
    async with Client(server) as client:
        answer = await client.call_tool("add", {"a": 1, "b": [2, None, "ü"]})
    assert answer.text == "a\nb"
    assert answer.structured_content == {"big": 10**30}
    assert answer.is_error is False
    assert msgspec.json.decode(answer.raw) == result
    params = server.asked("tools/call")[0]
    assert params["name"] == "add"
    assert params["arguments"] == {"a": 1, "b": [2, None, "ü"]}
    token = {"progressToken": server.heard[-1]["id"]}
    assert params["_meta"] == token | (STAMP if make is modern else {})


async def test_tools_own_failure_is_a_result() -> None:
    """A tool's failure comes back as it is, for a model; an error of the protocol is raised (TOOL-7, BASE-8)."""
    answers = {"sad": text_result("no luck", isError=True), "unknown": Fault(-32602, "unknown tool", {"tool": "x"})}
    async with Client(modern(tools__call=lambda message: answers[message["params"]["name"]])) as client:
        result = await client.call_tool("sad")
        assert (result.is_error, result.text) == (True, "no luck")
        with pytest.raises(PeerError, match="unknown tool") as caught:
            await client.call_tool("unknown")
    assert (caught.value.code, caught.value.data) == (-32602, {"tool": "x"})


async def test_unknown_content_is_kept() -> None:
    """A content block of an unknown kind, or a known kind with a strange body, is kept and costs the others nothing."""
    blocks = [{"type": "hologram", "x": 1}, {"type": "text", "text": "seen"}, {"type": "image", "data": 7}]
    async with Client(modern(tools__call={"content": blocks, "resultType": "complete"})) as client:
        result = await client.call_tool("a")
    assert isinstance(result.content[0], UnknownContent)
    assert result.content[0] == blocks[0]
    assert isinstance(result.content[1], TextContent)
    assert isinstance(result.content[2], UnknownContent)
    assert result.text == "seen"


class Point(msgspec.Struct):
    x: int
    y: int = 2


@dataclasses.dataclass
class Spot:
    x: int
    y: int = 2


class Model(pydantic.BaseModel):
    x: int
    why: int = pydantic.Field(2, alias="y")


@pytest.mark.parametrize("arguments", [{"x": 1, "y": 2}, Point(1), Spot(1), Model(x=1)])
async def test_arguments_of_many_kinds(arguments: Any) -> None:
    """Arguments may be a dict, a struct, a dataclass or a pydantic model, also inside one another."""
    server = modern(tools__call=text_result(""))
    async with Client(server) as client:
        await client.call_tool("a", arguments)
        await client.call_tool("a", {"deep": [arguments, datetime.date(2026, 7, 28)]})
        await client.call_tool("a")
    sent = [params["arguments"] for params in server.asked("tools/call")]
    assert sent == [{"x": 1, "y": 2}, {"deep": [{"x": 1, "y": 2}, "2026-07-28"]}, {}]


@pytest.mark.parametrize(
    ("arguments", "kind", "why"),
    [
        ([1, 2], TypeError, "must be an object .* not list"),
        ("{}", TypeError, "must be an object .* not str"),
        ({"a": object()}, TypeError, "a value of type object has no form in JSON"),
        ({"a": float("nan")}, ValueError, "not JSON compliant"),
        ({"a": float("inf"), "b": None}, ValueError, "not JSON compliant"),
        ({"a": "\ud800"}, ValueError, "surrogates not allowed"),
    ],
)
async def test_arguments_that_cannot_be_sent(arguments: Any, kind: type[Exception], why: str) -> None:
    """What has no form in JSON is refused here, by an error that names the tool; nothing is sent."""
    server = modern(tools__call=text_result(""))
    async with Client(server) as client:
        with pytest.raises(kind, match=f"the arguments of 'add'.*{why}"):
            await client.call_tool("add", arguments)
        assert (await client.call_tool("add")).text == ""
    assert len(server.asked("tools/call")) == 1


async def test_meta_is_added() -> None:
    """`meta` goes into `_meta` beside what the revision wants there (META-1)."""
    extra = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "example.com/x": [1]}
    for server, own in ((modern(), STAMP), (legacy(), {})):
        server.answers["tools/call"] = text_result("")
        async with Client(server) as client:
            await client.call_tool("a", meta=extra)
        assert server.asked("tools/call")[0]["_meta"] == {"progressToken": server.heard[-1]["id"]} | extra | own


@pytest.mark.parametrize("kind", ["riddle", "task"])
@pytest.mark.parametrize("method", ["tools/call", "resources/read"])
async def test_unknown_result_type(method: str, kind: str) -> None:
    """A result of an unknown kind is an error, never a success (RES-2)."""
    server = modern()
    server.answers[method] = text_result("", resultType=kind, contents=[])
    async with Client(server) as client:
        with pytest.raises(InvalidResult, match=kind):
            await (client.call_tool("a") if method == "tools/call" else client.read_resource("a:b"))


async def test_absent_result_type_is_complete() -> None:
    """A modern result without `resultType` counts as complete (RES-2)."""
    async with Client(modern(tools__call={"content": []})) as client:
        assert (await client.call_tool("a")).content == []


@pytest.mark.parametrize("answer", [{}, 7, [], None, {"content": "a"}, {"content": [], "isError": "maybe"}])
async def test_answer_that_does_not_fit(answer: Any) -> None:
    """An answer of a wrong shape fails that call alone."""
    server = modern(tools__call=answer)
    async with Client(server) as client:
        with pytest.raises(InvalidResult, match="tools/call"):
            await client.call_tool("a")
        server.answers["tools/call"] = text_result("fine")
        assert (await client.call_tool("a")).text == "fine"


# ---- output schemas


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def with_schema(result: dict[str, Any], schema: Any = SCHEMA) -> Fake:
    tool = {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": schema}
    return modern(tools__list={"tools": [tool]}, tools__call=result)


async def test_structured_content_that_fits_its_schema() -> None:
    """Structured content is checked against the schema of the listed tool (TOOL-5)."""
    async with Client(with_schema(text_result("3", structuredContent={"n": 3}))) as client:
        await client.list_tools()
        assert (await client.call_tool("count")).structured_content == {"n": 3}


@pytest.mark.parametrize("more", [{"structuredContent": {"n": "three"}}, {"structuredContent": None}, {}])
async def test_structured_content_that_does_not_fit(more: dict[str, Any]) -> None:
    """Structured content that does not fit, or is not there, is the server's fault; the error names the tool (F54)."""
    async with Client(with_schema(text_result("3", **more))) as client:
        assert (await client.call_tool("count")).text == "3"  # not listed yet: nothing is known of it
        await client.list_tools()
        with pytest.raises(InvalidResult, match="'count'"):
            await client.call_tool("count")


async def test_error_results_are_not_checked() -> None:
    """A tool's error passes whole, its structured part too (F54)."""
    async with Client(with_schema(text_result("no", isError=True, structuredContent={"why": "x"}))) as client:
        await client.list_tools()
        assert (await client.call_tool("count")).structured_content == {"why": "x"}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
async def test_older_revisions_have_no_output_schemas(revision: str) -> None:
    """Where the revision has no structured content a schema that is listed all the same asks for nothing (TOOL-4)."""
    server = with_schema(text_result("3"))
    server.answers["initialize"] = INITIALIZED | {"protocolVersion": revision}
    async with Client(server, mode=revision) as client:
        await client.list_tools()
        assert (await client.call_tool("count")).text == "3"


async def test_schema_is_forgotten_when_the_list_changes() -> None:
    """After list_changed the old schema says nothing any more."""
    server = with_schema(text_result("3"))
    async with Client(server) as client:
        await client.list_tools()
        server.notify("notifications/tools/list_changed")
        assert (await client.call_tool("count")).text == "3"


@pytest.mark.parametrize("schema", [{"$ref": "https://example.com/schema.json"}, {"type": "objekt"}])
async def test_schema_that_is_none(schema: dict[str, str]) -> None:
    """A schema that cannot be checked is never taken for a fit; listing and the tool's errors pass (S02, JS-2)."""
    server = with_schema(text_result("3", structuredContent={"n": 3}), schema)
    async with Client(server) as client:
        assert [tool.name for tool in await client.list_tools()] == ["count"]
        for _ in range(2):
            with pytest.raises(
                InvalidResult, match=r"tool 'count' declares an output schema that cannot be checked: ."
            ):
                await client.call_tool("count")
        server.answers["tools/call"] = text_result("no", isError=True)
        assert (await client.call_tool("count")).is_error
