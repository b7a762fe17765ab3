"""Lists, resources, prompts, completion and the client's smaller requests."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import (
    InvalidResult,
    LimitExceeded,
    NotSupported,
    PeerError,
)
from jackfield.protocol.limits import Limits
from jackfield.protocol.types import (
    Prompt,
    PromptReference,
    ResourceTemplate,
    ResourceTemplateReference,
    TextContent,
)
from tests.client.fakes import DISCOVERED, INITIALIZED, Fake, Fault, legacy, modern, text_result

BOTH = pytest.mark.parametrize("make", [modern, legacy])
META = "io.modelcontextprotocol/"


# ---- lists


def pages_of(member: str, count: int, size: int, item: Callable[[int], dict[str, Any]]) -> Callable[[Any], Any]:
    """A list method that cuts `count` items into pages."""

    def answer(message: dict[str, Any]) -> Any:
        begin = int(message["params"].get("cursor", "0"))
        more = {"nextCursor": str(begin + size)} if begin + size < count else {}
        return {member: [item(n) for n in range(begin, min(begin + size, count))]} | more

    return answer


LISTS: dict[str, tuple[str, Callable[[Client], Awaitable[list[Any]]], Callable[[int], dict[str, Any]]]] = {
    "tools/list": ("tools", Client.list_tools, lambda n: {"name": f"{n}", "inputSchema": {"type": "object"}, "x": n}),
    "resources/list": ("resources", Client.list_resources, lambda n: {"uri": f"a:{n}", "name": f"{n}", "x": n}),
    "resources/templates/list": (
        "resourceTemplates",
        Client.list_resource_templates,
        lambda n: {"uriTemplate": "a:{b}", "name": f"{n}", "x": n},
    ),
    "prompts/list": ("prompts", Client.list_prompts, lambda n: {"name": f"{n}", "x": n}),
}


@BOTH
@pytest.mark.parametrize("method", LISTS)
async def test_every_page_is_read(method: str, make: Callable[..., Fake]) -> None:
    """A list comes whole, from all pages, and each item keeps its bytes (F78, PAG-1)."""
    member, list_all, item = LISTS[method]
    server = make()
    server.answers[method] = pages_of(member, 120, 50, item)
    async with Client(server) as client:
        found = await list_all(client)
    assert [entry.name for entry in found] == [str(n) for n in range(120)]
    assert msgspec.json.decode(found[-1].raw) == item(119)
    assert [params.get("cursor") for params in server.asked(method)] == [None, "50", "100"]


async def test_one_page() -> None:
    """A page can be asked for alone, by its cursor, which is not looked into (PAG-2)."""
    member, _, item = LISTS["tools/list"]
    async with Client(modern(tools__list=pages_of(member, 120, 50, item))) as client:
        page = await client.list_tools_page("100")
        assert (len(page.tools), page.next_cursor) == (20, None)
        assert (await client.list_tools_page()).next_cursor == "50"


async def test_empty_cursor() -> None:
    """On the modern wire an empty cursor leads to another page; a legacy server may mean the end by it (PAG-2)."""

    def answer(message: dict[str, Any]) -> Any:
        return {"prompts": [{"name": "a"}]} | ({} if "cursor" in message["params"] else {"nextCursor": ""})

    async with Client(modern(prompts__list=answer)) as client:
        assert len(await client.list_prompts()) == 2
    async with Client(legacy(prompts__list=answer)) as client:
        assert len(await client.list_prompts()) == 1


async def test_list_that_goes_in_circles() -> None:
    """A cursor that comes again ends the list with an error (PAG-4)."""
    follow = {"0": "1", "1": "2", "2": "1"}

    def answer(message: dict[str, Any]) -> Any:
        return {"prompts": [], "nextCursor": follow[message["params"].get("cursor", "0")]}

    async with Client(modern(prompts__list=answer)) as client:
        with pytest.raises(InvalidResult, match="comes back to the same cursor"):
            await client.list_prompts()


async def test_list_without_end() -> None:
    """A list of ever new cursors ends at the limit, which the error names (PAG-4)."""
    server = modern(prompts__list=lambda message: {"prompts": [], "nextCursor": str(message["id"])})
    async with Client(server, limits=Limits(pages=7)) as client:
        with pytest.raises(LimitExceeded, match=r"over 7 pages \(limit `pages`\)") as caught:
            await client.list_prompts()
    assert caught.value.limit == "pages"
    assert len(server.asked("prompts/list")) == 7


async def test_broken_items_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """One item that does not fit costs none of the others, and is reported."""
    tools = [{"name": "a", "inputSchema": {}}, {"name": 7}, {"name": "b", "inputSchema": {}}]
    async with Client(modern(tools__list={"tools": tools})) as client:
        assert [tool.name for tool in await client.list_tools()] == ["a", "b"]
    assert "tools[1]" in caplog.text


# ---- resources, prompts, completion


@BOTH
async def test_read_resource(make: Callable[..., Fake]) -> None:
    """A resource's contents are texts and blobs, each with its own type (F60)."""
    contents = [
        {"uri": "a:b", "text": "hi", "mimeType": "text/plain"},
        {"uri": "a:c", "blob": "/w==", "mimeType": "image/png"},
        {"uri": "a:d", "blob": ""},
    ]
    server = make(resources__read={"contents": contents})
    async with Client(server) as client:
        result = await client.read_resource("a:b")
    assert [(part.uri, part.text, part.blob, part.mime_type) for part in result.contents] == [
        ("a:b", "hi", None, "text/plain"),
        ("a:c", None, "/w==", "image/png"),
        ("a:d", None, "", None),
    ]
    assert server.asked("resources/read")[0]["uri"] == "a:b"


@pytest.mark.parametrize("code", [-32002, -32602])
async def test_missing_resource(code: int) -> None:
    """A missing resource is the server's error with either code (RSC-3)."""
    async with Client(modern(resources__read=Fault(code, "not found", {"uri": "a:b"}))) as client:
        with pytest.raises(PeerError, match="not found") as caught:
            await client.read_resource("a:b")
    assert caught.value.code == code


class Colour(enum.Enum):
    RED = "red"


class Other(str, enum.Enum):  # noqa: UP042 - the older way, which is a str of another kind
    BLUE = "blue"


async def test_prompt_arguments_become_text() -> None:
    """A prompt's arguments are texts: what JSON has no string for is sent as JSON, None not at all (F62, PRM-2)."""
    message = {"role": "user", "content": {"type": "text", "text": "hi"}}
    server = modern(prompts__get={"messages": [message], "description": "d"})
    async with Client(server) as client:
        arguments = {
            "text": "null",
            "quoted": '"q"',
            "list": [1, "a"],
            "dict": {"a": None},
            "none": None,
            "date": datetime.date(2026, 7, 28),
            "when": datetime.datetime(2026, 7, 28, 12, 30, tzinfo=datetime.UTC),
            "uuid": uuid.UUID(int=5),
            "decimal": decimal.Decimal("1.50"),
            "colour": Colour.RED,
            "other": Other.BLUE,
            "flag": True,
            "number": 3,
        }
        result = await client.get_prompt("greet", arguments)
        await client.get_prompt("greet")
    assert result.messages[0].role == "user"
    assert result.messages[0].content == TextContent("hi")
    sent = server.asked("prompts/get")
    assert sent[0]["arguments"] == {
        "text": "null",
        "quoted": '"q"',
        "list": '[1,"a"]',
        "dict": '{"a":null}',
        "date": "2026-07-28",
        "when": "2026-07-28T12:30:00Z",
        "uuid": "00000000-0000-0000-0000-000000000005",
        "decimal": "1.50",
        "colour": "red",
        "other": "blue",
        "flag": "true",
        "number": "3",
    }
    assert "arguments" not in sent[1]


@pytest.mark.parametrize(("value", "kind"), [(object(), TypeError), ([float("nan")], ValueError)])
async def test_prompt_argument_without_a_form(value: Any, kind: type[Exception]) -> None:
    """A prompt's argument that JSON has no form for is refused by name before anything is sent (F62)."""
    server = modern(prompts__get={"messages": []})
    async with Client(server) as client:
        with pytest.raises(kind, match="argument 'when' of prompt 'greet'"):
            await client.get_prompt("greet", {"when": value})
    assert server.asked("prompts/get") == []


@pytest.mark.parametrize(
    ("ref", "sent"),
    [
        (Prompt("p"), {"type": "ref/prompt", "name": "p"}),
        (PromptReference("p"), {"type": "ref/prompt", "name": "p"}),
        (ResourceTemplate("a:{b}", "t"), {"type": "ref/resource", "uri": "a:{b}"}),
        (ResourceTemplateReference("a:{b}"), {"type": "ref/resource", "uri": "a:{b}"}),
    ],
)
async def test_complete(ref: Any, sent: dict[str, str]) -> None:
    """Completion takes a listed prompt or template, or a reference, and what is filled in already (CMP-2)."""
    server = modern(completion__complete={"completion": {"values": ["ab", "ac"], "hasMore": False}})
    async with Client(server) as client:
        result = await client.complete(ref, "arg", "a", {"other": "x"})
    assert result.completion.values == ["ab", "ac"]
    params = server.asked("completion/complete")[0]
    assert params["ref"] == sent
    assert params["argument"] == {"name": "arg", "value": "a"}
    assert params["context"] == {"arguments": {"other": "x"}}


async def test_complete_on_the_oldest_revision() -> None:
    """2024-11-05 has completion without a capability, and no context (CMP-1)."""
    bare = INITIALIZED | {"protocolVersion": "2024-11-05", "capabilities": {}}
    server = legacy(initialize=bare, completion__complete={"completion": {"values": []}})
    async with Client(server) as client:
        assert (await client.complete(Prompt("p"), "arg", "a", {"other": "x"})).completion.values == []
    assert "context" not in server.asked("completion/complete")[0]


# ---- the rest


@pytest.mark.parametrize(("make", "method"), [(modern, "server/discover"), (legacy, "ping")])
async def test_ping(make: Callable[..., Fake], method: str) -> None:
    """Ping asks a modern server, which knows no ping, for `server/discover` (LIFE-6)."""
    server = make()
    async with Client(server) as client:
        server.heard.clear()
        await client.ping()
    assert server.methods() == [method]


async def test_log_level() -> None:
    """The log level is set once on a legacy wire and said in each request of the modern one (LOG-2, LOG-3)."""
    server = legacy(logging__setLevel={})
    async with Client(server) as client:
        await client.set_log_level("warning")
    assert server.asked("logging/setLevel") == [{"level": "warning"}]
    server = modern(tools__call=text_result(""))
    async with Client(server) as client:
        await client.call_tool("a")
        await client.set_log_level("warning")
        await client.call_tool("a")
    levels = [params["_meta"].get(META + "logLevel") for params in server.asked("tools/call")]
    assert levels == [None, "warning"]


REFUSED: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "tools/call": lambda client: client.call_tool("a"),
    "tools/list": lambda client: client.list_tools(),
    "resources/list": lambda client: client.list_resources(),
    "resources/templates/list": lambda client: client.list_resource_templates_page(),
    "resources/read": lambda client: client.read_resource("a:b"),
    "prompts/list": lambda client: client.list_prompts(),
    "prompts/get": lambda client: client.get_prompt("a"),
    "completion/complete": lambda client: client.complete(Prompt("p"), "a", ""),
    "logging/setLevel": lambda client: client.set_log_level("error"),
}


@BOTH
@pytest.mark.parametrize("method", REFUSED)
async def test_what_was_not_declared_is_not_asked(method: str, make: Callable[..., Fake]) -> None:
    """What the server did not declare is refused here, by the capability's name, and not sent (CAP-3)."""
    facts = DISCOVERED if make is modern else INITIALIZED
    server = make(server__discover=DISCOVERED | {"capabilities": {}}, initialize=facts | {"capabilities": {}})
    if make is legacy:
        del server.answers["server/discover"]
    async with Client(server) as client:
        with pytest.raises(NotSupported, match=f"fake does not offer {method}: it did not declare the capability"):
            await REFUSED[method](client)
    assert method not in server.methods()
