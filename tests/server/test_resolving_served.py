"""Tools, prompts and resources with a Resolve, served to clients of both eras: the same handlers, the same outcome."""

import asyncio
from typing import Annotated, Any

import pytest
from msgspec import Struct

from jackfield import Client, Context, Server
from jackfield.protocol.types import CreateMessageResult, Root, TextContent
from jackfield.server.handlers import Resolve
from jackfield.server.questions import Elicit, ElicitationResult, ListRoots, Sample
from tests.server.talk import LEGACY, MODERN, Refused, talking, text_of

FORM = {"elicitation": {"form": {}}}


class Sure(Struct):
    sure: bool


async def overwrite(name: str) -> Elicit[Sure] | Sure:
    """Ask before anything is lost."""
    return Sure(True) if name == "new" else Elicit(f"Overwrite {name}?", Sure)


def saving() -> Server:
    """A server whose tool, prompt and resource ask before they do anything."""
    server = Server("saving")

    @server.tool
    def save(name: str, sure: Annotated[Sure, Resolve(overwrite)], text: str, ctx: Context, times: int = 1) -> str:
        return f"{name}={text * times} {sure.sure} {ctx.method}"

    @server.tool(input_schema={"type": "object", "properties": {"name": {"type": "string"}}})
    def raw(given: dict[str, Any], *, sure: Annotated[Sure, Resolve(lambda given: overwrite(given["name"]))]) -> str:
        return f"{given['name']} {sure.sure}"

    @server.prompt
    async def letter(name: str, sure: Annotated[Sure, Resolve(overwrite)]) -> str:
        return f"{name} {sure.sure}"

    @server.resource("notes://{name}")
    async def note(name: str, sure: Annotated[Sure, Resolve(overwrite)]) -> str:
        return f"{name} {sure.sure}"

    @server.resource("notes:all")
    async def notes(sure: Annotated[Sure, Resolve(lambda: overwrite("all"))]) -> str:
        return f"all {sure.sure}"

    return server


ASKING: list[tuple[str, dict[str, Any], str]] = [
    ("tools/call", {"name": "save", "arguments": {"name": "old", "text": "x", "times": 2}}, "old=xx True tools/call"),
    ("tools/call", {"name": "raw", "arguments": {"name": "old"}}, "old True"),
    ("prompts/get", {"name": "letter", "arguments": {"name": "old"}}, "old True"),
    ("resources/read", {"uri": "notes://old"}, "old True"),
    ("resources/read", {"uri": "notes:all"}, "all True"),
]


def said(result: dict[str, Any]) -> str:
    """The one text of a result of any kind."""
    if "messages" in result:
        return result["messages"][0]["content"]["text"]
    return result["contents"][0]["text"] if "contents" in result else text_of(result)


class TestServed:
    async def test_what_clients_see(self) -> None:
        """Resolved parameters are no arguments: no schema or list has them, and the order of others is kept."""
        async with talking(saving()) as talk:
            (save, _raw) = (await talk.ask("tools/list"))["tools"]
            assert list(save["inputSchema"]["properties"]) == ["name", "text", "times"]
            assert save["inputSchema"]["required"] == ["name", "text"]
            (letter,) = (await talk.ask("prompts/list"))["prompts"]
            assert [each["name"] for each in letter["arguments"]] == ["name"]

    @pytest.mark.parametrize(("method", "params", "text"), ASKING)
    async def test_a_modern_client_is_asked_by_the_answer(self, method: str, params: dict[str, Any], text: str) -> None:
        """Tools, prompts and resources answer with their question; the retry with its answer is the result (MR-1)."""
        async with talking(saving(), MODERN, FORM) as talk:
            first = await talk.ask(method, params)
            assert first["resultType"] == "input_required"
            request = first["inputRequests"]["sure"]
            assert request["method"] == "elicitation/create"
            assert request["params"]["requestedSchema"]["properties"] == {"sure": {"type": "boolean"}}
            answers = {"sure": {"action": "accept", "content": {"sure": True}}}
            again = {**params, "inputResponses": answers, "requestState": first["requestState"]}
            assert said(await talk.ask(method, again)) == text

    @pytest.mark.parametrize("revision", LEGACY[:2])
    @pytest.mark.parametrize(("method", "params", "text"), ASKING)
    async def test_a_legacy_client_is_asked_at_once(
        self, revision: str, method: str, params: dict[str, Any], text: str
    ) -> None:
        """The very same handlers send a legacy client a request of their own, and go on with its answer."""
        async with talking(saving(), revision, FORM) as talk:
            call = talk.send(method, params)
            question = await talk.asked()
            assert question["method"] == "elicitation/create"
            talk.reply(question, {"action": "accept", "content": {"sure": True}})
            assert said(await talk.answer(call)) == text

    @pytest.mark.parametrize("action", ["decline", "cancel"])
    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    async def test_a_no_is_told_to_the_model(self, revision: str, action: str) -> None:
        """On decline and cancel the tool does not run; its result says so."""
        method, params, _ = ASKING[0]
        async with talking(saving(), revision, FORM) as talk:
            call = talk.send(method, params)
            if revision == MODERN:
                state = (await talk.answer(call))["requestState"]
                again = {"inputResponses": {"sure": {"action": action}}, "requestState": state}
                call = talk.send(method, {**params, **again})
            else:
                talk.reply(await talk.asked(), {"action": action})
            result = await talk.answer(call)
            assert result["isError"] is True
            assert "the question 'sure'" in text_of(result)

    async def test_a_client_cannot_answer_by_an_argument(self) -> None:
        """An argument with the name of a resolved parameter fills nothing: the question is asked."""
        async with talking(saving(), MODERN, FORM) as talk:
            result = await talk.call("save", {"name": "old", "text": "x", "sure": {"sure": True}})
            assert list(result["inputRequests"]) == ["sure"]

    async def test_a_client_that_cannot_be_asked(self) -> None:
        """Nothing runs where the client did not declare forms: -32021 tells a modern one what it takes (ERR-2)."""
        async with talking(saving()) as talk:
            with pytest.raises(Refused) as fault:
                await talk.call("save", {"name": "old", "text": "x"})
            assert fault.value.code == -32021
            assert fault.value.data == {"requiredCapabilities": FORM}
            assert text_of(await talk.call("save", {"name": "new", "text": "x"})) == "new=x True tools/call"
        async with talking(saving(), LEGACY[0]) as talk:
            result = await talk.call("save", {"name": "old", "text": "x"})
            assert result["isError"] is True
            assert "cannot be asked" in text_of(result)


async def permitted() -> Elicit[Sure]:
    """Ask for leave."""
    return Elicit("May the roots be told?", Sure)


async def places() -> ListRoots:
    """Ask for the roots."""
    return ListRoots()


async def summary(
    places: Annotated[list[Root], Resolve(places)], leave: Annotated[Sure, Resolve(permitted)], count: int
) -> Sample:
    """Ask the model, when the other answers are there."""
    return Sample(f"{leave.sure} {count} {[place.uri for place in places]}", max_tokens=9)


def telling() -> Server:
    """A server whose tool needs an answer of each kind, one of them for another one."""
    server = Server("telling")

    @server.tool
    def tell(
        count: int,
        leave: Annotated[ElicitationResult[Sure], Resolve(permitted)],
        told: Annotated[CreateMessageResult, Resolve(summary)],
    ) -> str:
        assert isinstance(told.content, TextContent)
        return f"{leave.action}: {told.content.text}"

    return server


class TestWithClient:
    @pytest.mark.parametrize("mode", ["modern", *LEGACY[:2]])
    async def test_answers_of_every_kind_for_one_call(self, mode: str) -> None:
        """One tool gets a form, the roots and a model's words, which need the first two, from clients of both eras."""
        async with Client(
            telling(),
            mode=mode,
            elicit=lambda question: {"sure": True},
            sample=lambda question: question.params.messages[0].content.text.upper(),
            roots=["file:///srv"],
        ) as client:
            assert (await client.call_tool("tell", {"count": 3})).text == "accept: TRUE 3 ['FILE:///SRV']"

    @pytest.mark.parametrize("mode", ["modern", "legacy"])
    async def test_a_no_keeps_the_model_out(self, mode: str) -> None:
        """Where a function needs a yes and the person says no, the model is not asked and the tool does not run."""
        sampled: list[Any] = []
        async with Client(
            telling(), mode=mode, elicit=lambda question: False, sample=sampled.append, roots=["file:///srv"]
        ) as client:
            result = await client.call_tool("tell", {"count": 3})
            assert result.is_error
            assert result.text == "The user declined the question 'leave'."
            assert sampled == []

    @pytest.mark.parametrize("mode", ["modern", "legacy"])
    async def test_all_that_does_not_wait_is_asked_in_one_round(self, mode: str) -> None:
        """The form and the roots are asked at the same time: neither answer is needed to ask for the other (MR-2)."""
        form, roots = asyncio.Event(), asyncio.Event()

        async def fill(question: Any) -> dict[str, Any]:
            form.set()
            await roots.wait()
            return {"sure": True}

        async def list_roots() -> list[str]:
            roots.set()
            await form.wait()
            return []

        async with Client(
            telling(), mode=mode, elicit=fill, sample=lambda question: "Fine", roots=list_roots
        ) as client:
            assert (await client.call_tool("tell", {"count": 3})).text == "accept: Fine"


async def test_a_no_ends_the_call_whatever_else_is_open() -> None:
    """Of two questions that must be agreed to, the no to one ends a modern call, though the other has no answer."""
    server = Server("two")

    def first() -> Elicit[bool]:
        return Elicit("One?", bool)

    def second() -> Elicit[bool]:
        return Elicit("Two?", bool)

    @server.tool
    async def both(a: Annotated[bool, Resolve(first)], b: Annotated[bool, Resolve(second)]) -> str:
        return "done"

    async with talking(server, MODERN, {"elicitation": {}}) as talk:
        asked = await talk.call("both", {})
        assert sorted(asked["inputRequests"]) == ["a", "b"]
        params = {
            "name": "both",
            "requestState": asked["requestState"],
            "inputResponses": {"a": {"action": "decline"}},
        }
        result = await talk.ask("tools/call", params)
        assert result["isError"]
        assert text_of(result) == "The user declined the question 'a'."
