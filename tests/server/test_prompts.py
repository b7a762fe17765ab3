"""Prompts: their arguments, their messages in every form, and what is missing."""

from __future__ import annotations

import json
import threading
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from jackfield import (
    Audio,
    Client,
    Context,
    File,
    Icon,
    Image,
    Message,
    ProtocolError,
    RegistrationError,
    ResourceLink,
    Server,
)
from jackfield.protocol.types import GetPromptResult, PromptMessage, TextContent
from tests.server.talk import LEGACY, MODERN, REVISIONS, Refused, talking


async def messages_of(value: Any, revision: str = MODERN) -> list[tuple[str, str]]:
    """Role and kind of content of each message that a prompt which returns `value` expands to."""
    server = Server("prompts")
    server.add_prompt(lambda: value, name="p")
    async with talking(server, revision) as talk:
        result = await talk.ask("prompts/get", {"name": "p"})
    return [(message["role"], message["content"]["type"]) for message in result["messages"]]


class TestMessages:
    @pytest.mark.parametrize(
        ("value", "messages"),
        [
            ("text", [("user", "text")]),
            (TextContent("a"), [("user", "text")]),
            (Image(b"a"), [("user", "image")]),
            (Audio(b"a"), [("user", "audio")]),
            (File("a", uri="x://a"), [("user", "resource")]),
            (ResourceLink("x://a", "a"), [("user", "resource_link")]),
            (Message("a", role="assistant"), [("assistant", "text")]),
            (PromptMessage("assistant", TextContent("a")), [("assistant", "text")]),
            (
                ["a", Message(Image(b"a"), "assistant"), Image(b"b")],
                [("user", "text"), ("assistant", "image"), ("user", "image")],
            ),
            (("a", ["b"]), [("user", "text"), ("user", "text")]),
            ([], []),
            (GetPromptResult([Message("a")], "other"), [("user", "text")]),
        ],
    )
    async def test_every_form_of_message(self, value: Any, messages: list[tuple[str, str]]) -> None:
        """A text, content, a Message, lists of these, or the whole result (PRM-3)."""
        assert await messages_of(value) == messages

    async def test_what_is_no_message_is_an_internal_error(self) -> None:
        """Anything else is -32603 without a cause; nothing is guessed."""
        for value in (None, 5, {"role": "user", "content": "a"}, [object()], Image(path="/nowhere/at/all")):
            with pytest.raises(Refused, match="prompts/get failed on the server") as caught:
                await messages_of(value)
            assert caught.value.code == -32603

    def test_a_message_is_one_block_of_a_known_role(self) -> None:
        """A message holds just one block, said by the user or the assistant (PRM-3)."""
        for content in ([], None, ["a", "b"]):
            with pytest.raises(TypeError, match="exactly one block"):
                Message(content)
        with pytest.raises(ValueError, match="said by 'user' or 'assistant', not by 'system'"):
            Message("a", role="system")  # type: ignore[arg-type]

    @pytest.mark.parametrize("revision", REVISIONS)
    async def test_older_revisions_get_content_that_they_know(self, revision: str) -> None:
        """Audio becomes a resource and a link a text where the revision has neither; the author's objects stay
        (IMPL-3).
        """
        server = Server("prompts")
        constant = GetPromptResult([Message(Audio(b"a")), Message(ResourceLink("x://a", "a"))])
        server.add_prompt(lambda: constant, name="p")
        for spoken in (revision, MODERN):
            async with talking(server, spoken) as talk:
                result = await talk.ask("prompts/get", {"name": "p"})
            audio = "resource" if spoken == "2024-11-05" else "audio"
            link = "text" if spoken in ("2025-03-26", "2024-11-05") else "resource_link"
            assert [message["content"]["type"] for message in result["messages"]] == [audio, link]
            assert result.keys() == ({"messages", "resultType", "_meta"} if spoken == MODERN else {"messages"})
        assert constant.meta is None

    async def test_a_result_said_in_full(self) -> None:
        """A handler may give the description and `_meta` of its result; else the description is the prompt's."""
        server = Server("prompts")

        @server.prompt
        async def full() -> GetPromptResult:
            return GetPromptResult([], "What came of it.", meta={"a/b": 1})

        @server.prompt(description="What it is for.")
        async def plain() -> str:
            return "a"

        async with talking(server, LEGACY[0]) as talk:
            wanted = {"messages": [], "description": "What came of it.", "_meta": {"a/b": 1}}
            assert await talk.ask("prompts/get", {"name": "full"}) == wanted
            assert (await talk.ask("prompts/get", {"name": "plain"}))["description"] == "What it is for."

    async def test_a_file_is_read_on_a_thread(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A slow disk does not freeze the server when a prompt shows a file."""
        (tmp_path / "a.txt").write_text("from disk")
        names = []
        read = File.read

        def noted(self: File) -> bytes:
            names.append(threading.current_thread().name)
            return read(self)

        monkeypatch.setattr(File, "read", noted)
        assert await messages_of([File(path=tmp_path / "a.txt")]) == [("user", "resource")]
        assert names == ["jackfield-handler"]


class Mood(Enum):
    GOOD = "good"


def server_of_types() -> Server:
    server = Server("prompts")

    @server.prompt
    def typed(
        numbers: list[int],
        note: str | None = None,
        *,
        on: date | None = None,
        mood: Mood = Mood.GOOD,
        size: Literal["s", "m"] = "s",
    ) -> str:
        """Say what came.

        Args:
            numbers: Some numbers.
            note: A note.
        """
        return repr((numbers, note, on, mood, size))

    return server


class TestArguments:
    async def test_arguments_are_listed(self) -> None:
        """Each parameter is an argument with its description, required where it has no default (PRM-1)."""
        async with talking(server_of_types()) as talk:
            (prompt,) = (await talk.ask("prompts/list"))["prompts"]
        assert prompt["arguments"][:2] == [
            {"name": "numbers", "description": "Some numbers.", "required": True},
            {"name": "note", "description": "A note.", "required": False},
        ]
        assert [each["required"] for each in prompt["arguments"]] == [True, False, False, False, False]

    @pytest.mark.parametrize(
        ("arguments", "seen"),
        [
            ({"numbers": "[1, 2]"}, ([1, 2], None, None)),
            ({"numbers": "[]", "note": "null"}, ([], "null", None)),
            ({"numbers": "[3]", "note": "[1]", "on": "2026-01-02"}, ([3], "[1]", date(2026, 1, 2))),
            ({"numbers": "[3]", "unknown": "ignored"}, ([3], None, None)),
        ],
    )
    async def test_texts_become_what_the_parameter_wants(
        self, arguments: dict[str, str], seen: tuple[Any, ...]
    ) -> None:
        """A list comes as its JSON text, a text stays letter for letter, what is left out takes its default (F62,
        PRM-2).
        """
        async with talking(server_of_types()) as talk:
            result = await talk.ask("prompts/get", {"name": "typed", "arguments": arguments})
            assert result["messages"][0]["content"]["text"].startswith(repr(seen)[:-1])

    @pytest.mark.parametrize(
        ("arguments", "named"),
        [
            ({}, "Missing argument: numbers"),
            (None, "Missing argument: numbers"),
            ({"numbers": "[1, x]"}, "Invalid argument 'numbers'"),
            ({"numbers": '["a"]'}, "Invalid argument 'numbers'"),
            ({"numbers": "[]", "mood": "bad"}, "Invalid argument 'mood'"),
            ({"numbers": "[]", "on": "someday"}, "Invalid argument 'on'"),
            ({"numbers": "[]", "size": "xl"}, "Invalid argument 'size'"),
            ({"numbers": 5}, "Invalid params for prompts/get"),
            ([], "Invalid params for prompts/get"),
        ],
    )
    async def test_what_does_not_fit_is_named(self, arguments: Any, named: str) -> None:
        """A missing or ill-typed argument is -32602 and named, in both eras (PRM-2, F62)."""
        for revision in (MODERN, LEGACY[0]):
            async with talking(server_of_types(), revision) as talk:
                with pytest.raises(Refused, match=named) as caught:
                    await talk.ask("prompts/get", {"name": "typed", "arguments": arguments})
                assert caught.value.code == -32602

    async def test_the_client_sends_values_as_text(self) -> None:
        """A client's lists and numbers go as JSON text and arrive as what they were (F62)."""
        async with Client(server_of_types()) as client:
            result = await client.get_prompt("typed", {"numbers": [1, 2], "note": "null"})
            assert "([1, 2], 'null', None," in result.messages[0].content.text  # type: ignore[union-attr]

    async def test_an_unknown_prompt_is_invalid_params(self) -> None:
        """A prompt that is not there is -32602 and named (PRM-2); without any prompt there is no such
        method (CAP-3).
        """
        async with talking(server_of_types()) as talk:
            with pytest.raises(Refused, match="Unknown prompt: nothing") as caught:
                await talk.ask("prompts/get", {"name": "nothing"})
            assert caught.value.code == -32602
        async with talking(Server("prompts")) as talk:
            for method in ("prompts/get", "prompts/list"):
                with pytest.raises(Refused) as caught:
                    await talk.ask(method, {"name": "nothing"})
                assert caught.value.code == -32601

    @pytest.mark.parametrize("kind", ["async", "def"])
    async def test_failures_of_the_handler(self, kind: str, caplog: pytest.LogCaptureFixture) -> None:
        """A ProtocolError goes out as it is; anything else is -32603 without its cause, which is logged
        (PRM-2, O03).
        """
        faults = {"protocol": ProtocolError(7, "seven"), "other": OSError("secret"), "exit": SystemExit("secret")}
        server = Server("prompts")

        def plain(fault: str, ctx: Context) -> str:
            raise faults[fault]

        async def later(ctx: Context, fault: str) -> str:
            raise faults[fault]

        server.add_prompt(later if kind == "async" else plain, name="p")
        found = {}
        async with talking(server) as talk:
            for fault in faults:
                with pytest.raises(Refused) as caught:
                    await talk.ask("prompts/get", {"name": "p", "arguments": {"fault": fault}})
                found[fault] = caught.value.code
            assert "secret" not in json.dumps(talk.frames)
        assert found == {"protocol": 7, "other": -32603, "exit": -32603}
        assert caplog.text.count("secret") >= 2


class TestRegistration:
    async def test_every_option_is_listed(self) -> None:
        """Name, title, description, icons and `_meta` are listed as far as the revision has them (PRM-1, LIFE-4)."""
        server = Server("prompts")

        @server.prompt(
            name="draft-plan",
            title="Draft",
            description="D",
            icons=[Icon("data:image/png;base64,AA==", "image/png")],
            meta={"a/b": 1},
        )
        def draft(what: Annotated[str, msgspec.Meta(title="What", description="About")]) -> str:
            return what

        found = {}
        for revision in REVISIONS:
            async with talking(server, revision) as talk:
                (found[revision],) = (await talk.ask("prompts/list"))["prompts"]
        full = {
            "name": "draft-plan",
            "title": "Draft",
            "description": "D",
            "arguments": [{"name": "what", "title": "What", "description": "About", "required": True}],
            "icons": [{"src": "data:image/png;base64,AA==", "mimeType": "image/png"}],
            "_meta": {"a/b": 1},
        }
        assert found[MODERN] == found["2025-11-25"] == full
        assert found["2025-06-18"].keys() == full.keys() - {"icons"}
        oldest = {"name": "draft-plan", "description": "D"}
        oldest_argument = {"name": "what", "description": "About", "required": True}
        assert found["2025-03-26"] == found["2024-11-05"] == {**oldest, "arguments": [oldest_argument]}

    async def test_bare_and_by_name(self) -> None:
        """The decorator works with and without parentheses and gives the function back; the docstring describes it."""
        server = Server("prompts")

        @server.prompt
        def one() -> str:
            """The first."""
            return "1"

        @server.prompt()
        def two() -> str:
            return "2"

        assert (one(), two()) == ("1", "2")
        async with talking(server) as talk:
            found = (await talk.ask("prompts/list"))["prompts"]
        assert found == [{"name": "one", "description": "The first."}, {"name": "two"}]

    def test_what_cannot_be_a_prompt_is_refused(self) -> None:
        """A taken name, a generator, `**kwargs`, and an option in the place of the function are named."""
        server = Server("prompts")
        server.add_prompt(lambda: "a", name="p")
        with pytest.raises(RegistrationError, match="prompt 'p' is registered already"):
            server.add_prompt(lambda: "a", name="p")
        with pytest.raises(
            RegistrationError, match="'draft' stands where the function should; write the options by name"
        ):
            server.prompt("draft")  # type: ignore[call-overload]

        def kwargs(**kwargs: str) -> str: ...

        with pytest.raises(RegistrationError, match="kwargs"):
            server.add_prompt(kwargs)

        def generator():  # type: ignore[no-untyped-def]
            yield "a"

        with pytest.raises(RegistrationError, match="generator: a handler cannot be a generator"):
            server.add_prompt(generator)

    async def test_prompts_come_and_go(self) -> None:
        """A prompt that is added while clients talk is there at once, one that is removed is gone (F80)."""
        server = Server("prompts")
        server.add_prompt(lambda: "a", name="a")
        async with talking(server) as talk:
            server.add_prompt(lambda: "b", name="b")
            assert [each["name"] for each in (await talk.ask("prompts/list"))["prompts"]] == ["a", "b"]
            server.remove_prompt("a")
            assert [each["name"] for each in (await talk.ask("prompts/list"))["prompts"]] == ["b"]
            with pytest.raises(Refused, match="Unknown prompt: a"):
                await talk.ask("prompts/get", {"name": "a"})
        with pytest.raises(KeyError, match="no prompt 'a'"):
            server.remove_prompt("a")


async def test_message_is_a_type() -> None:
    """`Message` may stand in annotations, unions included, and shows what it holds."""
    server = Server("types")

    @server.prompt
    def mixed() -> list[str | Message]:
        return ["a", Message("b", role="assistant")]

    async with talking(server, "2025-11-25") as talk:
        got = await talk.ask("prompts/get", {"name": "mixed"})
    assert [(each["role"], each["content"]["text"]) for each in got["messages"]] == [("user", "a"), ("assistant", "b")]
    assert "assistant" in repr(Message("b", role="assistant"))
