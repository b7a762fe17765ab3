"""Sampling: what can be said to a client's model, to whom, and how its answer is read."""

from __future__ import annotations

import base64
import json
import warnings
from typing import Any

import msgspec
import pytest

from jackfield.protocol.errors import CannotAsk
from jackfield.protocol.revisions import REVISIONS, Revision
from jackfield.protocol.types import (
    AudioContent,
    ClientCapabilities,
    ImageContent,
    ModelPreferences,
    ResourceLink,
    SamplingCapability,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from jackfield.server.content import Image
from jackfield.server.prompts import Message
from jackfield.server.questions import Question, Sample

NEWEST, NOVEMBER, JUNE, MARCH, OLDEST = REVISIONS
ADD = Tool("add", {"type": "object"})


def wire(question: Question, revision: Revision = NEWEST) -> dict[str, Any]:
    """The params as they go out."""
    return json.loads(msgspec.json.encode(question.params(revision)))


def answer(**members: Any) -> bytes:
    """A client's result."""
    return json.dumps(members).encode()


def use(id: str = "1") -> SamplingMessage:
    """The assistant calls a tool."""
    return SamplingMessage("assistant", ToolUseContent(id, "add", {}))


def result(*ids: str) -> SamplingMessage:
    """The user hands over what tools gave."""
    return SamplingMessage("user", [ToolResultContent(id, []) for id in ids])


class TestWhoCanBeAsked:
    def test_sampling_with_tools_or_context_must_have_been_declared_as_such(self) -> None:
        """Tools need sampling.tools, context sampling.context; revisions before 2025-11-25 have no tools (SMP-2)."""
        with pytest.warns(DeprecationWarning, match="thisServer"):
            aware = Sample("Hi", max_tokens=9, include_context="thisServer")
        plain, tooled = Sample("Hi", max_tokens=9), Sample("Hi", max_tokens=9, tools=[ADD])
        assert [each.needs() for each in (plain, tooled, aware)] == [
            {"sampling": {}},
            {"sampling": {"tools": {}}},
            {"sampling": {"context": {}}},
        ]
        table: list[tuple[SamplingCapability | None, list[bool]]] = [
            (None, [False, False, False]),
            (SamplingCapability(), [True, False, False]),
            (SamplingCapability(tools={}), [True, True, False]),
            (SamplingCapability(context={}), [True, False, True]),
        ]
        for offered, expected in table:
            client = ClientCapabilities(sampling=offered)
            assert [each.can_ask(client, NEWEST) for each in (plain, tooled, aware)] == expected
        client = ClientCapabilities(sampling=SamplingCapability(tools={}))
        assert [each.can_ask(client, JUNE) for each in (plain, tooled, aware)] == [True, False, True]

    def test_messages_that_speak_of_tools_need_them_too(self) -> None:
        """A conversation with tool calls in it is for clients that know tools, without any on offer as well (SMP-2)."""
        question = Sample(["Add", use(), result("1")], max_tokens=9)
        assert question.needs() == {"sampling": {"tools": {}}}
        assert not question.can_ask(ClientCapabilities(sampling=SamplingCapability()), NEWEST)


class TestSampling:
    def test_what_messages_can_be_made_of(self) -> None:
        """Texts and other content are said by the user; messages say for themselves who says them."""
        picture = Image(b"x", mime_type="image/png")
        question = Sample(
            ["Look", picture, SamplingMessage("assistant", "Nice"), Message("And?", "user"), TextContent("Go")],  # type: ignore[arg-type]
            max_tokens=9,
        )
        data = base64.b64encode(b"x").decode()
        assert wire(question) == {
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "Look"}},
                {"role": "user", "content": {"type": "image", "data": data, "mimeType": "image/png"}},
                {"role": "assistant", "content": {"type": "text", "text": "Nice"}},
                {"role": "user", "content": {"type": "text", "text": "And?"}},
                {"role": "user", "content": {"type": "text", "text": "Go"}},
            ],
            "maxTokens": 9,
        }
        single = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}], "maxTokens": 1}
        assert wire(Sample("Hi", max_tokens=1)) == wire(Sample(["Hi"], max_tokens=1)) == single

    def test_every_option_goes_out(self) -> None:
        """All that the protocol has for sampling can be said (SMP-1)."""
        question = Sample(
            "Hi",
            max_tokens=9,
            system_prompt="Be brief",
            temperature=0.5,
            stop_sequences=("\n",),
            model_preferences=ModelPreferences(cost_priority=1, speed_priority=0.0),
            include_context="none",
            metadata={"a": 1},
            tools=(ADD,),
            tool_choice="required",
            key="k",
        )
        params = wire(question)
        assert params.pop("messages")
        assert params == {
            "maxTokens": 9,
            "systemPrompt": "Be brief",
            "temperature": 0.5,
            "stopSequences": ["\n"],
            "modelPreferences": {"costPriority": 1, "speedPriority": 0.0},
            "includeContext": "none",
            "metadata": {"a": 1},
            "tools": [{"name": "add", "inputSchema": {"type": "object"}}],
            "toolChoice": {"mode": "required"},
        }
        assert question.key == "k"
        assert wire(Sample("Hi", max_tokens=9, tools=[ADD], tool_choice=ToolChoice("auto")))["toolChoice"] == {
            "mode": "auto"
        }

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"max_tokens": 0}, "max_tokens"),
            ({"max_tokens": True}, "max_tokens"),
            ({"max_tokens": 1.5}, "max_tokens"),
            ({"temperature": float("nan")}, "temperature"),
            ({"model_preferences": ModelPreferences(speed_priority=1.5)}, "speed_priority"),
            ({"include_context": "everything"}, "include_context"),
            ({"tool_choice": "maybe"}, "tool_choice"),
            ({"messages": []}, "at least one message"),
            ({"messages": SamplingMessage("user", [])}, "at least one message"),
            ({"messages": SamplingMessage("system", TextContent("Hi"))}, "'user' or 'assistant'"),  # type: ignore[arg-type]
        ],
    )
    def test_options_out_of_range(self, options: dict[str, Any], text: str) -> None:
        """An option that no client could follow is an error where it was written."""
        with pytest.raises(ValueError, match=text):
            Sample(**{"messages": "Hi", "max_tokens": 9, **options})

    @pytest.mark.parametrize("given", [3, ResourceLink("a://b", "b"), ["Hi", None], SamplingMessage("user", 4)])  # type: ignore[arg-type]
    def test_what_cannot_be_said_to_a_model(self, given: Any) -> None:
        """Only text, pictures, sounds and tool blocks make a message."""
        with pytest.raises(TypeError, match=r"cannot be said to a model|is no content"):
            Sample(given, max_tokens=9)

    def test_only_a_wider_context_is_warned_of(self) -> None:
        """The author hears of the deprecation of thisServer and allServers, and of nothing else."""
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Sample("Hi", max_tokens=9, include_context="none")
        with pytest.warns(DeprecationWarning, match="allServers") as heard:
            Sample("Hi", max_tokens=9, include_context="allServers")
        assert heard[0].filename == __file__

    @pytest.mark.parametrize(
        ("messages", "text"),
        [
            ([use()], "no result"),
            ([use(), "Hm"], "must have one result"),
            ([use(), result("2")], "must have one result"),
            ([use(), result("1", "1")], "must have one result"),
            ([use(), result("1", "2")], "'2' must have one result"),
            ([use(), "Hm", result("1")], "must have one result"),
            ([use(), use("2"), result("1", "2")], "must have one result"),
            ([result("1")], "must have one result"),
            ([SamplingMessage("user", ToolUseContent("1", "add", {})), result("1")], "only the assistant"),
            ([use(), SamplingMessage("assistant", ToolResultContent("1", []))], "stand alone"),
            ([use(), SamplingMessage("user", [ToolResultContent("1", []), TextContent("Hi")])], "stand alone"),
            ([SamplingMessage("assistant", [ToolUseContent("1", "a", {}), ToolUseContent("1", "b", {})])], "same id"),
        ],
    )
    def test_every_call_of_a_tool_is_answered(self, messages: list[Any], text: str) -> None:
        """Each tool use has its result in the very next message, which holds nothing else (SMP-2)."""
        with pytest.raises(ValueError, match=text):
            Sample(messages, max_tokens=9, tools=[ADD])

    def test_tool_calls_that_are_answered(self) -> None:
        """Several calls may stand beside text, and be answered in any order (SMP-2)."""
        calls = SamplingMessage("assistant", [TextContent("Hm"), use("1").content, use("2").content])  # type: ignore[list-item]
        params = wire(Sample(["Add", calls, result("2", "1"), use("3"), result("3")], max_tokens=9, tools=[ADD]))
        assert [block["type"] for block in params["messages"][1]["content"]] == ["text", "tool_use", "tool_use"]

    def test_older_clients_get_one_block_in_each_message(self) -> None:
        """Before 2025-11-25 a message has one block: several become messages of the same speaker (SMP-5)."""
        both = SamplingMessage("assistant", [TextContent("a"), TextContent("b")])
        question = Sample(["Hi", both], max_tokens=9)
        assert len(wire(question, NOVEMBER)["messages"]) == 2
        for revision in (JUNE, MARCH, OLDEST):
            assert [(each["role"], each["content"]["text"]) for each in wire(question, revision)["messages"]] == [
                ("user", "Hi"),
                ("assistant", "a"),
                ("assistant", "b"),
            ]

    def test_what_older_clients_cannot_be_asked(self) -> None:
        """Tools before 2025-11-25, and sounds in 2024-11-05, have no words there."""
        with pytest.raises(CannotAsk, match="no tools in sampling"):
            Sample("Hi", max_tokens=9, tools=[ADD]).params(JUNE)
        sound = Sample(AudioContent("eA==", "audio/wav"), max_tokens=9)
        assert wire(sound, MARCH)["messages"][0]["content"]["type"] == "audio"
        with pytest.raises(CannotAsk, match="no audio"):
            sound.params(OLDEST)

    def test_what_a_model_said(self) -> None:
        """The answer has one block or several; kinds that we do not know are kept (SMP-3)."""
        one = Sample("Hi", max_tokens=9).read(
            answer(role="assistant", content={"type": "text", "text": "Hello"}, model="m", stopReason="endTurn")
        )
        assert (one.content, one.model, one.stop_reason) == (TextContent("Hello"), "m", "endTurn")
        parts = [{"type": "image", "data": "eA==", "mimeType": "image/png"}, {"type": "smell", "of": "rain"}]
        many = Sample("Hi", max_tokens=9).read(answer(role="assistant", content=parts, model="m"))
        assert isinstance(many.content, list)
        assert many.content[0] == ImageContent("eA==", "image/png")
        assert isinstance(many.content[1], UnknownContent)
        call = {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 1}}
        tooled = Sample("Hi", max_tokens=9, tools=[ADD]).read(answer(role="assistant", content=call, model="m"))
        assert tooled.content == ToolUseContent("1", "add", {"a": 1})

    @pytest.mark.parametrize(
        ("raw", "text"),
        [
            (answer(role="assistant", content={"type": "text", "text": "Hello"}), "no sampling result"),
            (answer(role="judge", content={"type": "text", "text": "Hello"}, model="m"), "no sampling result"),
            (answer(role="assistant", model="m"), "no sampling result"),
            (answer(role="assistant", content={"type": "text"}, model="m"), "text content that does not fit"),
            (answer(role="assistant", content=[{"text": "Hello"}], model="m"), "content that does not fit"),
            (answer(role="assistant", content="Hello", model="m"), "content that does not fit"),
            (
                answer(role="assistant", content={"type": "resource_link", "uri": "a://b", "name": "b"}, model="m"),
                "no model says",
            ),
            (
                answer(role="assistant", content={"type": "tool_use", "id": "1", "name": "x", "input": {}}, model="m"),
                "none was offered",
            ),
            (b"null", "no sampling result"),
        ],
    )
    def test_what_no_model_says(self, raw: bytes, text: str) -> None:
        """An answer of another shape, or with a call of a tool that was not on offer, is an error (MR-7)."""
        with pytest.raises(ValueError, match=text):
            Sample("Hi", max_tokens=9).read(raw)
