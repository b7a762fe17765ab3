"""Asking a modern client: the question in the answer, the answer in the retry, the state between the two."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from msgspec import Raw

from jackfield import Context, ElicitURL, Limits, Server
from tests.server.shop import ALL, CANCEL, NO, PAGE, URL, YES, again, shop
from tests.server.talk import MODERN, PREFIX, Refused, talking, text_of

SAID = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Paris"}}


async def test_a_modern_call_answers_with_its_question_and_ends_on_the_retry() -> None:
    """The question travels in the answer, and the retry that brings the yes runs the tool to its end (MR-1, MR-3)."""
    server, deeds = shop()
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        assert first["resultType"] == "input_required"
        assert first["inputRequests"] == {
            "question": {
                "method": "elicitation/create",
                "params": {"mode": "url", "message": "Delete a?", "url": PAGE},
            }
        }
        assert deeds.done == []
        assert text_of(await again(talk, first, {"question": YES})) == "deleted"
        assert (deeds.runs, deeds.done) == (2, ["a"])


@pytest.mark.parametrize(("answer", "text"), [(NO, "kept: decline"), (CANCEL, "kept: cancel")])
async def test_a_refusal_is_no_yes(answer: dict[str, Any], text: str) -> None:
    """A decline and a cancel are given to the handler as what they are (ELC-5)."""
    server, deeds = shop()
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        assert text_of(await again(talk, first, {"question": answer})) == text
        assert deeds.done == []


@pytest.mark.parametrize("answers", [{}, {"other": YES}])
async def test_a_missing_answer_is_asked_for_again(answers: dict[str, Any]) -> None:
    """A retry without the answer, or with answers to nothing that was asked, gets the question again (MR-7)."""
    server, deeds = shop()
    async with talking(server, MODERN, URL) as talk:
        second = await again(talk, await talk.call("delete", {"name": "a"}), answers)
        assert second["resultType"] == "input_required"
        assert text_of(await again(talk, second, {"question": YES})) == "deleted"
        assert deeds.done == ["a"]


@pytest.mark.parametrize("answer", [{"action": "maybe"}, {}, "accept", None, 7, [YES], {"action": 1}])
async def test_a_malformed_answer_is_an_error(answer: Any) -> None:
    """An answer that is none is a JSON-RPC error that names it, and nothing is done (MR-7, MR-8)."""
    server, deeds = shop()
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        with pytest.raises(Refused, match=r"inputResponses\['question'\]") as caught:
            await again(talk, first, {"question": answer})
        assert caught.value.code == -32602
        assert deeds.done == []


async def test_a_malformed_answer_counts_whatever_the_handler_does() -> None:
    """A handler that swallows the error of a bad answer cannot go on as if there had been one (MR-8)."""
    server = Server("shop")

    @server.tool
    async def greedy(ctx: Context) -> str:
        try:
            await ctx.elicit_url("May I?", PAGE)
        except Exception as fault:
            return f"took it, for {fault}"
        return "took it"

    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("greedy", {})
        with pytest.raises(Refused, match="inputResponses"):
            await talk.ask(
                "tools/call",
                {
                    "name": "greedy",
                    "arguments": {},
                    "requestState": first["requestState"],
                    "inputResponses": {"question": 1},
                },
            )


@pytest.mark.parametrize("answers", [None, 7, "x", []])
async def test_answers_that_are_no_object_are_an_error(answers: Any) -> None:
    """inputResponses must be an object (MR-7)."""
    server, _ = shop()
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        with pytest.raises(Refused, match="inputResponses") as caught:
            await again(talk, first, answers)
        assert caught.value.code == -32602


async def test_answers_without_the_state_count_for_nothing() -> None:
    """An answer to what this server did not seal is no answer: it asks (MR-6)."""
    server, deeds = shop()
    async with talking(server, MODERN, URL) as talk:
        assert (await again(talk, {}, {"question": YES}))["resultType"] == "input_required"
        assert deeds.done == []


async def test_a_state_is_good_for_its_own_arguments_only() -> None:
    """The yes to one call is none to another: not to other arguments, nor to another tool (M01, MR-6)."""
    server, deeds = shop()

    @server.tool
    async def burn(name: str, ctx: Context) -> str:
        await ctx.elicit_url(f"Delete {name}?", PAGE)
        deeds.done.append("burnt")
        return "burnt"

    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        for name, arguments in (("delete", {"name": "b"}), ("burn", {"name": "a"}), ("delete", {"name": "a", "x": 1})):
            with pytest.raises(Refused, match="requestState") as caught:
                await again(talk, first, {"question": YES}, name, **arguments)
            assert caught.value.code == -32602
        assert deeds.done == []


async def test_arguments_count_by_what_they_say_not_by_how_they_are_written() -> None:
    """The order of the arguments and the spaces between them change nothing; other `_meta` neither (MR-6)."""
    server = Server("shop")

    @server.tool
    async def move(a: str, b: str, ctx: Context) -> str:
        return (await ctx.elicit_url(f"Move {a} to {b}?", PAGE)).action

    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("move", {"a": "1", "b": "2"})
        params = {
            "inputResponses": {"question": YES},
            "requestState": first["requestState"],
            "arguments": {"b": "2", "a": "1"},
            "name": "move",
        }
        assert text_of(await talk.ask("tools/call", params, progressToken=9)) == "accept"


@pytest.mark.parametrize("state", ["", "x", "é", "A" * 200])
async def test_a_forged_state_is_an_error(state: str) -> None:
    """A state that this server did not seal is refused before the handler runs (MR-6)."""
    server, deeds = shop()
    async with talking(server, MODERN, URL) as talk:
        with pytest.raises(Refused) as caught:
            await again(talk, {"requestState": state}, {"question": YES})
        assert caught.value.code == -32602
        assert deeds.runs == 0


async def test_a_forged_state_is_an_error_for_a_tool_that_never_asks() -> None:
    """A state is judged wherever it comes (MR-6)."""
    server = Server("shop")

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    async with talking(server) as talk:
        with pytest.raises(Refused, match="requestState"):
            await talk.ask("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "requestState": "forged"})


async def test_a_state_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that a question may take its state is refused, and the error says so (M01, MR-6)."""
    server, deeds = shop(limits=Limits(question=60))
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 59)
        second = await again(talk, first, {})
        monkeypatch.setattr(time, "time", lambda: now + 62)
        with pytest.raises(Refused, match="its time is over"):
            await again(talk, first, {"question": YES})
        assert text_of(await again(talk, second, {"question": YES})) == "deleted"
        assert deeds.done == ["a"]


async def test_a_state_of_another_server_is_refused() -> None:
    """Servers that share their keys but not their name do not take each other's states (MR-6)."""
    keys = ["k" * 32]
    (one, _), (_, deeds) = shop(state_keys=keys), shop()
    other = Server("other", state_keys=keys)

    @other.tool
    async def delete(name: str, ctx: Context) -> str:
        deeds.done.append((await ctx.elicit_url(f"Delete {name}?", PAGE)).action)
        return "deleted"

    async with talking(one, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
    async with talking(other, MODERN, URL) as talk:
        with pytest.raises(Refused, match="requestState"):
            await again(talk, first, {"question": YES})


async def test_a_retry_may_come_to_another_process() -> None:
    """With the same keys another instance of the server takes the call up; with others it does not (MR-10)."""
    keys = ["new" * 20, b"old" * 20]
    (one, _), (two, deeds), (three, _) = shop(state_keys=keys[1:]), shop(state_keys=keys), shop()
    async with talking(one, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
    async with talking(three, MODERN, URL) as talk:
        with pytest.raises(Refused, match="requestState"):
            await again(talk, first, {"question": YES})
    async with talking(two, MODERN, URL) as talk:
        assert text_of(await again(talk, first, {"question": YES})) == "deleted"
    assert deeds.done == ["a"]


# ---- several questions


def steps() -> Server:
    """A server whose tool asks one thing after the other."""
    server = Server("steps")

    @server.tool
    async def walk(ctx: Context) -> str:
        first = await ctx.elicit_url("One?", PAGE)
        second = await ctx.elicit_url("Two?", PAGE)
        third = await ctx.elicit_url("Two?", PAGE)
        return f"{first.action} {second.action} {third.action}"

    return server


async def test_questions_that_follow_one_another_take_a_round_each() -> None:
    """Each round keeps the answers of those before it; the same question twice is two questions (MR-2, MR-12)."""
    async with talking(steps(), MODERN, URL) as talk:
        result = await talk.call("walk", {})
        for answer, key in ((YES, "question"), (NO, "question-2"), (CANCEL, "question-3")):
            assert list(result["inputRequests"]) == [key]
            params = {"name": "walk", "requestState": result["requestState"], "inputResponses": {key: answer}}
            result = await talk.ask("tools/call", params)
        assert text_of(result) == "accept decline cancel"


async def test_an_answer_to_another_question_does_not_count() -> None:
    """Where the question has changed between two rounds the old answer is dropped, and the new one asked (M01)."""
    server, now = Server("prices"), {"price": 1}

    @server.tool
    async def buy(ctx: Context) -> str:
        said = await ctx.elicit_url(f"Pay {now['price']}?", PAGE)
        return f"paid {now['price']}: {said.action}"

    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("buy", {})
        now["price"] = 1000
        second = await talk.ask(
            "tools/call",
            {"name": "buy", "requestState": first["requestState"], "inputResponses": {"question": YES}},
        )
        assert second["inputRequests"]["question"]["params"]["message"] == "Pay 1000?"
        params = {"name": "buy", "requestState": second["requestState"], "inputResponses": {"question": NO}}
        assert text_of(await talk.ask("tools/call", params)) == "paid 1000: decline"


async def test_what_is_asked_at_the_same_time_travels_in_one_round() -> None:
    """A form, the model and the roots, asked side by side, are one answer with three questions (MR-2)."""
    server = Server("three")

    @server.tool
    async def all_three(ctx: Context) -> str:
        said, model, roots = await asyncio.gather(
            ctx.elicit_url("One?", PAGE), ctx.sample("Capital of France?", max_tokens=10), ctx.list_roots()
        )
        return f"{said.action} {model.content.text} {roots[0].uri}"  # type: ignore[union-attr]

    async with talking(server, MODERN, ALL) as talk:
        first = await talk.call("all_three", {})
        methods = {key: each["method"] for key, each in first["inputRequests"].items()}
        assert sorted(methods.values()) == ["elicitation/create", "roots/list", "sampling/createMessage"]
        results = {
            "elicitation/create": YES,
            "sampling/createMessage": SAID,
            "roots/list": {"roots": [{"uri": "file:///x"}]},
        }
        answers = {key: results[method] for key, method in methods.items()}
        params = {"name": "all_three", "requestState": first["requestState"], "inputResponses": answers}
        assert text_of(await talk.ask("tools/call", params)) == "accept Paris file:///x"


async def test_authors_name_their_questions() -> None:
    """A question with a key travels under it; the same key again gets a number (MR-2)."""
    server = Server("named")

    @server.tool
    async def ask(ctx: Context) -> str:
        await asyncio.gather(ctx.elicit_url("a", PAGE, key="who"), ctx.elicit_url("b", PAGE, key="who"))
        return ""

    async with talking(server, MODERN, URL) as talk:
        assert list((await talk.call("ask", {}))["inputRequests"]) == ["who", "who-2"]


async def test_too_many_questions_at_once_are_an_error() -> None:
    """A handler that opens questions without end fails, in words (design: nothing is unbounded)."""
    server = Server("storm")

    @server.tool
    async def storm(ctx: Context) -> str:
        await asyncio.gather(*[ctx.elicit_url(str(n), PAGE) for n in range(101)])
        return ""

    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("storm", {})
        assert len(first["inputRequests"]) == 100


async def test_answers_that_outgrow_the_state_are_an_error() -> None:
    """What a client is given to keep is bounded, and the error names the limit `state`."""
    server = Server("long", limits=Limits(state=4096))

    @server.tool
    async def talkative(ctx: Context) -> str:
        for n in range(3):
            await ctx.sample(f"Go on {n}", max_tokens=10)
        return ""

    long = {**SAID, "content": {"type": "text", "text": "x" * 4000}}
    async with talking(server, MODERN, ALL) as talk:
        first = await talk.call("talkative", {})
        params = {"name": "talkative", "requestState": first["requestState"], "inputResponses": {"question": long}}
        with pytest.raises(Refused, match="limit `state`"):
            await talk.ask("tools/call", params)


# ---- what a hostile client tries


async def test_an_answer_is_used_once() -> None:
    """However often the same retry comes, also at the same time, the yes counts for one deed (M01)."""
    server, deeds = shop()
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        retries = [again(talk, first, {"question": YES}) for _ in range(20)]
        outcomes = await asyncio.gather(*retries, return_exceptions=True)
        refused = [str(each) for each in outcomes if isinstance(each, Refused)]
        assert len(refused) == 19
        assert all("used already" in text for text in refused)
        assert deeds.done == ["a"]


@pytest.mark.parametrize(
    "answers",
    [
        '{"question":{"action":"decline"},"question":{"action":"accept"}}',
        '{"question":{"action":"decline"},"quest\\u0069on":{"action":"accept"}}',
        '{"question":{"action":"decline","action":"accept"}}',
        '{"question":{"action":"accept","content":{"x":false,"x":true}}}',
    ],
)
async def test_an_answer_that_says_two_things_is_an_error(answers: str) -> None:
    """A key that is given twice in the answers, in one of them or in its content is refused (T08)."""
    server, deeds = shop()
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        id = talk.send("tools/call", {"name": "delete", "arguments": {"name": "a"}}, id="x")  # which makes the id known
        assert (await talk.answer(id))["resultType"] == "input_required"
        meta = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": URL}
        params = {
            "name": "delete",
            "arguments": {"name": "a"},
            "requestState": first["requestState"],
            "inputResponses": "ANSWERS",
            "_meta": meta,
        }
        talk._answers["y"] = asyncio.get_running_loop().create_future()
        frame = json.dumps({"jsonrpc": "2.0", "id": "y", "method": "tools/call", "params": params})
        talk._channel.write(frame.replace('"ANSWERS"', answers).encode())
        with pytest.raises(Refused, match="given twice"):
            await talk.answer("y")
        assert deeds.done == []


async def test_every_question_has_a_key_of_its_own() -> None:
    """A key that an author uses is never given to another question too, and so no yes counts for two (M01)."""
    server = Server("keys")

    @server.tool
    async def three(ctx: Context) -> str:
        return " ".join([(await ctx.ask(ElicitURL("Sure?", PAGE, key=key))).action for key in ("x", "x-2", "x", None)])

    async with talking(server, MODERN, URL) as talk:
        result = await talk.call("three", {})
        for key, answer in (("x", YES), ("x-2", NO), ("x-3", CANCEL), ("question", YES)):
            assert list(result["inputRequests"]) == [key]
            params = {"name": "three", "requestState": result["requestState"], "inputResponses": {key: answer}}
            result = await talk.ask("tools/call", params)
        assert text_of(result) == "accept decline cancel accept"


async def test_a_middleware_may_change_the_params() -> None:
    """The state belongs to the params as they came, whatever a middleware makes of them (MR-6)."""

    async def loud(params: Any, ctx: Context, following: Any) -> Any:
        if ctx.method == "tools/call":
            params.arguments = Raw(b'{"name":"LOUD"}')
        return await following(params, ctx)

    server, deeds = shop(middleware=[loud])
    async with talking(server, MODERN, URL) as talk:
        first = await talk.call("delete", {"name": "a"})
        assert text_of(await again(talk, first, {"question": YES})) == "deleted"
        assert deeds.done == ["LOUD"]
