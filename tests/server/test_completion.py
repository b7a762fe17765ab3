"""Completion: what can be completed, at most a hundred values, and what is unknown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jackfield import Client, Context, RegistrationError, Server
from jackfield.protocol.types import Completion, PromptReference
from tests.server.talk import LEGACY, MODERN, Refused, Talk, talking

PROMPT = {"type": "ref/prompt", "name": "plan"}
TEMPLATE = {"type": "ref/resource", "uri": "plan://{city}/{day}"}


def server_with(fn: Any = None) -> Server:
    server = Server("completion")
    server.add_prompt(lambda city, day="": city, name="plan")
    server.add_resource("plan://{city}/{day}", lambda city, day: city, name="plans")
    if fn is not None:
        server.add_completion("plan", "city", fn)
    return server


async def complete(talk: Talk, value: str, ref: Any = PROMPT, name: str = "city", **params: Any) -> dict[str, Any]:
    asked = {"ref": ref, "argument": {"name": name, "value": value}, **params}
    return (await talk.ask("completion/complete", asked))["completion"]


class TestValues:
    @pytest.mark.parametrize("revision", [MODERN, *LEGACY])
    async def test_values_for_what_was_typed(self, revision: str) -> None:
        """Prompts' arguments and templates' variables are completed, async or blocking, in every revision (CMP-2)."""
        server = server_with()
        cities = ["berlin", "bern", "basel"]

        @server.completion("plan", "city")
        async def city(typed: str) -> list[str]:
            return [each for each in cities if each.startswith(typed)]

        @server.completion("plan://{city}/{day}", "day")
        def day(typed: str) -> Any:
            return (n for n in range(3))

        assert callable(city)
        assert callable(day)
        async with talking(server, revision) as talk:
            assert await complete(talk, "ber") == {"values": ["berlin", "bern"], "total": 2, "hasMore": False}
            assert (await complete(talk, "", TEMPLATE, "day"))["values"] == ["0", "1", "2"]

    @pytest.mark.parametrize(
        ("found", "completion"),
        [
            ([f"v{n}" for n in range(100)], (100, 100, False)),
            ([f"v{n}" for n in range(101)], (100, 101, True)),
            (Completion([f"v{n}" for n in range(250)], 9000), (100, 9000, True)),
            (Completion(["a"], None, True), (1, None, True)),
            (Completion(["a"]), (1, None, False)),
            (None, (0, 0, False)),
            ((), (0, 0, False)),
        ],
    )
    async def test_at_most_a_hundred_values(self, found: Any, completion: tuple[int, int | None, bool]) -> None:
        """An answer holds a hundred values at most, says how many there are, and that there are more (CMP-2)."""
        async with talking(server_with(lambda typed: found)) as talk:
            got = await complete(talk, "")
            assert (len(got["values"]), got.get("total"), got["hasMore"]) == completion

    async def test_the_other_arguments_are_given(self) -> None:
        """A completer with a second parameter gets the arguments that are filled in already (CMP-2)."""
        seen = []

        async def city(typed: str, others: dict[str, str], ctx: Context) -> list[str]:
            seen.append((typed, others, ctx.method))
            return []

        server = server_with(city)
        async with talking(server) as talk:
            await complete(talk, "b", context={"arguments": {"day": "1"}})
            for context in ({}, {"context": {}}, {"context": None}, {"context": {"arguments": None}}):
                await complete(talk, "b", **context)
        async with Client(server) as client:
            await client.complete(PromptReference("plan"), "city", "b", context={"day": "2"})
        method = "completion/complete"
        assert seen == [("b", {"day": "1"}, method), *[("b", {}, method)] * 4, ("b", {"day": "2"}, method)]

    async def test_an_argument_without_a_completer_has_no_values(self) -> None:
        """What exists and nobody completes gives an empty answer, no error."""
        async with talking(server_with(lambda typed: ["a"])) as talk:
            nothing = {"values": [], "total": 0, "hasMore": False}
            assert await complete(talk, "x", name="day") == nothing
            assert await complete(talk, "x", TEMPLATE) == nothing

    async def test_one_text_is_not_a_list_of_its_letters(self, caplog: pytest.LogCaptureFixture) -> None:
        """A completer that returns one text, or fails, is an internal error; the cause is in the log alone (CMP-3,
        O03).
        """

        def fail(typed: str) -> list[str]:
            raise OSError("secret")

        for fn in (lambda typed: "berlin", fail):
            async with talking(server_with(fn)) as talk:
                with pytest.raises(Refused) as caught:
                    await complete(talk, "b")
                assert caught.value.code == -32603
                assert "secret" not in json.dumps(talk.frames)
        assert "a completion returns a list of texts, not one text" in caplog.text
        assert "secret" in caplog.text


class TestUnknown:
    @pytest.mark.parametrize(
        ("ref", "name", "said"),
        [
            ({"type": "ref/prompt", "name": "no"}, "city", "Unknown prompt or resource template: no"),
            ({"type": "ref/resource", "uri": "x://{no}"}, "city", "Unknown prompt or resource template: x://{no}"),
            ({"type": "ref/resource", "uri": "plan"}, "city", "Unknown prompt or resource template: plan"),
            (PROMPT, "no", "plan has no argument 'no'"),
            (TEMPLATE, "no", "has no argument 'no'"),
            ({"type": "ref/tool", "name": "plan"}, "city", "Invalid params"),
            ({"name": "plan"}, "city", "Invalid params"),
            ("plan", "city", "Invalid params"),
            (PROMPT, 5, "Invalid params"),
        ],
    )
    async def test_an_unknown_reference_or_argument_is_invalid_params(self, ref: Any, name: Any, said: str) -> None:
        """A reference or an argument that is not there is -32602 and named (CMP-3)."""
        async with talking(server_with(lambda typed: ["a"])) as talk:
            with pytest.raises(Refused) as caught:
                await complete(talk, "x", ref, name)
            assert caught.value.code == -32602
            assert said in caught.value.message

    async def test_without_a_completion_there_is_no_such_method(self) -> None:
        """The capability is declared when there is a completion, else the method is unknown (CMP-1, CAP-3)."""
        server = server_with()
        async with talking(server) as talk:
            assert "completions" not in (await talk.ask("server/discover"))["capabilities"]
            with pytest.raises(Refused) as caught:
                await complete(talk, "x")
            assert caught.value.code == -32601
            server.add_completion("plan", "city", lambda typed: ["a"])
            assert (await talk.ask("server/discover"))["capabilities"]["completions"] == {}
            assert (await complete(talk, "x"))["values"] == ["a"]

    async def test_the_oldest_revision_has_no_such_capability(self) -> None:
        """2024-11-05 completes without a capability, 2025-03-26 and later declare it (CMP-1)."""
        server = server_with(lambda typed: ["a"])
        declared = {}
        for revision in LEGACY:
            talk = Talk(revision)
            await server.__mcp_connect__(talk.on)  # type: ignore[arg-type]
            hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            declared[revision] = "completions" in (await talk.ask("initialize", hello))["capabilities"]
            assert (await complete(talk, "x"))["values"] == ["a"]
            await talk.close()
        assert declared == dict.fromkeys(LEGACY, True) | {"2024-11-05": False}


class TestRegistration:
    def test_what_is_not_there_cannot_be_completed(self) -> None:
        """A prompt or template that is not registered, and an argument that it lacks, are named at registration."""
        server = server_with()
        server.add_prompt(lambda: "a", name="bare")

        def fn(typed: str) -> list[str]: ...

        with pytest.raises(RegistrationError, match="no prompt or resource template 'plam' to complete; register that"):
            server.add_completion("plam", "city", fn)
        with pytest.raises(RegistrationError, match="'plan' has no argument 'town' to complete; it has 'city', 'day'"):
            server.add_completion("plan", "town", fn)
        with pytest.raises(RegistrationError, match="'bare' has no argument 'a' to complete; it has none"):
            server.add_completion("bare", "a", fn)
        server.add_completion("plan", "city", fn)
        with pytest.raises(RegistrationError, match="argument 'city' of 'plan' has a completion already"):
            server.add_completion("plan", "city", fn)

    def test_what_a_completer_takes(self) -> None:
        """A completer takes the text, perhaps the other arguments, perhaps the Context, and nothing by name alone."""

        def none() -> list[str]: ...
        def three(a: str, b: dict[str, str], c: int) -> list[str]: ...
        def named(*, a: str) -> list[str]: ...

        for fn in (none, three, named):
            with pytest.raises(
                RegistrationError, match=f"{fn.__name__}: a completion takes the text so far, and may take"
            ):
                server_with(fn)

        async def generator(typed: str):  # type: ignore[no-untyped-def]
            yield "a"

        with pytest.raises(RegistrationError, match="generator: a handler cannot be a generator"):
            server_with(generator)

    async def test_completions_come_and_go(self) -> None:
        """A completion that is removed completes nothing more, and can be added again."""
        server = server_with(lambda typed: ["a"])
        async with talking(server) as talk:
            server.remove_completion("plan", "city")
            assert (await complete(talk, "x"))["values"] == []
            server.add_completion("plan", "city", lambda typed: ["b"])
            assert (await complete(talk, "x"))["values"] == ["b"]
            server.remove_prompt("plan")
            with pytest.raises(Refused, match="Unknown prompt"):
                await complete(talk, "x")
        with pytest.raises(KeyError, match="no completion of 'day' of 'plan'"):
            server.remove_completion("plan", "day")
