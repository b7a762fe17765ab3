"""The planner asks before it overwrites: a yes does, and nothing else ever does, wherever it runs and in both eras."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from jackfield import Client, ClientQuestion, ElicitResult, Limits, PeerError, Stdio
from jackfield.servers.planner import example
from jackfield.servers.planner.server import server
from jackfield.servers.planner.store import PlanStore
from tests.servers.planner_drafts import goal_plan, goal_request
from tests.servers.planner_wires import PLACES, Wire, environment, wire

QUESTION = f"The plan 'Calm weekday' is saved already as {example.PLAN_ID}. Overwrite it?"
OTHER = {**example.plan(), "name": "Another"}
SAVE = {"name": "save_plan", "arguments": {"plan": OTHER, "request": example.request()}}
CONTRACT = {"name": "get_plan_contract", "arguments": {}}
YES = {"action": "accept", "content": {"overwrite": True}}
ERAS = ["modern", "legacy"]
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

each_place = pytest.mark.parametrize("place", list(PLACES))
each_era = pytest.mark.parametrize("era", ERAS)


class Saved:
    """A store in which a plan is saved."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = PlanStore(directory)
        assert self.store.save(example.PLAN_ID, example.plan())
        self.before = self.bytes()

    def bytes(self) -> dict[str, bytes]:
        """What is in the store, whole."""
        return {path.name: path.read_bytes() for path in self.directory.iterdir()}

    @property
    def kept(self) -> bool:
        """Whether the store is as it was, byte for byte."""
        return self.bytes() == self.before

    @property
    def name(self) -> str:
        """The name of the plan that is saved now."""
        return json.loads(self.store.read(example.PLAN_ID) or "")["name"]


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saved:
    monkeypatch.setenv("PLAN_STORE", str(tmp_path / "plans"))
    return Saved(tmp_path / "plans")


@contextlib.asynccontextmanager
async def over_http() -> AsyncIterator[str]:
    """The URL of the planner while it is served."""
    listening = socket.create_server(("127.0.0.1", 0))
    serving = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="warning", lifespan="on"))
    task = asyncio.create_task(serving.serve([listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        serving.should_exit = True
        await task


@contextlib.asynccontextmanager
async def joined(place: str, era: str, **options: Any) -> AsyncIterator[Client]:
    """A client of ours at the planner."""
    async with contextlib.AsyncExitStack() as stack:
        target: Any = server
        if place == "stdio":
            target = Stdio(sys.executable, "-m", "jackfield", "run", "planner", env=environment())
        elif place == "http":
            target = await stack.enter_async_context(over_http())
        yield await stack.enter_async_context(Client(target, mode=era, **options))


# ---- what a person says, and what a client of ours makes of it


@each_place
@each_era
async def test_a_yes_overwrites(place: str, era: str, saved: Saved) -> None:
    """The person is asked once, in words that name the plan, and their yes puts the new plan in its place (MR-11)."""
    seen: list[ClientQuestion] = []

    def elicit(question: ClientQuestion) -> dict[str, bool]:
        seen.append(question)
        assert saved.kept
        return {"overwrite": True}

    async with joined(place, era, elicit=elicit) as client:
        result = await client.call_tool("save_plan", SAVE["arguments"])
        assert not result.is_error
        assert result.structured_content["saved"] is True
        assert "reason" not in result.structured_content
        assert json.loads((await client.read_resource(f"plan://{example.PLAN_ID}")).contents[0].text or "") == OTHER
    (question,) = seen
    assert (question.server, question.message) == ("momentum-planner", QUESTION)
    assert question.schema["required"] == ["overwrite"]
    assert question.schema["properties"]["overwrite"]["type"] == "boolean"
    assert saved.name == "Another"


def fails(error: BaseException) -> Callable[[ClientQuestion], Any]:
    """A handler that raises."""

    def elicit(question: ClientQuestion) -> Any:
        raise error

    return elicit


async def never(question: ClientQuestion) -> dict[str, bool]:
    """A person who never answers."""
    await asyncio.Event().wait()
    return {"overwrite": True}


NOES: dict[str, Any] = {
    "declines": False,
    "cancels": None,
    "declines in the protocol's words": ElicitResult(action="decline", content={"overwrite": True}),
    "cancels in the protocol's words": ElicitResult(action="cancel", content={"overwrite": True}),
    "says no": {"overwrite": False},
    "accepts and fills in nothing": True,
    "accepts with nothing in it": ElicitResult(action="accept"),
    "fills in something else": {"sure": True},
    "fills in a text": {"overwrite": "true"},
    "fills in a number": {"overwrite": 1},
    "fills in null": {"overwrite": None},
    "gives a text": "yes",
    "gives a number": 1,
    "gives a list": [{"overwrite": True}],
    "gives what is no JSON": {"overwrite": object()},
    "fails": fails(OSError("no window")),
    "ends its thread": fails(SystemExit(0)),
    "is cancelled by itself": fails(asyncio.CancelledError()),
    "never answers": never,
}


def handler(outcome: Any) -> Callable[[ClientQuestion], Any]:
    """A handler that gives this, or is this."""
    return outcome if callable(outcome) else lambda question: outcome


@each_place
@each_era
async def test_nothing_but_a_yes_overwrites(place: str, era: str, saved: Saved) -> None:
    """A no, a broken handler, nonsense and silence answer `saved: false` with a reason; the plan stays (ELC-5)."""
    late, answered_late = threading.Event(), threading.Event()

    def answers_too_late(question: ClientQuestion) -> dict[str, bool]:
        late.wait(20)
        answered_late.set()
        return {"overwrite": True}

    noes = {**NOES, "answers too late": answers_too_late}
    waiting = iter(noes.values())

    def elicit(question: ClientQuestion) -> Any:
        return handler(next(waiting))(question)

    async with joined(place, era, elicit=elicit, limits=Limits(question=0.1)) as client:
        for how in noes:
            result = await client.call_tool("save_plan", SAVE["arguments"])
            assert saved.kept, how
            assert not result.is_error, how
            assert result.structured_content["saved"] is False, how
            assert example.PLAN_ID in result.structured_content["reason"], how
        late.set()
        assert await asyncio.to_thread(answered_late.wait, 20)
        await client.call_tool("get_plan_contract")
        assert saved.kept


@each_place
@each_era
async def test_a_plan_that_is_not_there_yet_is_not_asked_about(place: str, era: str, saved: Saved) -> None:
    """A first save, and a plan that is not valid, ask nobody."""
    async with joined(place, era, elicit=fails(AssertionError("asked"))) as client:
        first = await client.call_tool("save_plan", {"plan": goal_plan(), "request": goal_request()})
        assert first.structured_content["saved"] is True
        broken = await client.call_tool("save_plan", {"plan": example.broken_plan(), "request": example.request()})
        assert broken.is_error
    assert saved.name == "Calm weekday"


# ---- clients that cannot be asked, and clients that go away


@each_place
@pytest.mark.parametrize(
    ("mode", "handlers"),
    [
        ("modern", {}),
        ("legacy", {}),
        ("modern", {"elicit_url": handler(True)}),
        ("legacy", {"elicit_url": handler(True)}),
        ("modern", {"sample": handler("yes")}),
        ("2025-03-26", {"elicit": handler({"overwrite": True})}),
        ("2024-11-05", {"elicit": handler({"overwrite": True})}),
    ],
)
async def test_a_client_that_cannot_be_asked_is_refused(
    place: str, mode: str, handlers: dict[str, Any], saved: Saved
) -> None:
    """No answer is guessed for it: the call fails, in words that say why, and the plan stays (ERR-2)."""
    async with joined(place, mode, **handlers) as client:
        if mode == "modern":
            with pytest.raises(PeerError, match="cannot be asked") as caught:
                await client.call_tool("save_plan", SAVE["arguments"])
            assert caught.value.code == -32021
            assert caught.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        else:
            result = await client.call_tool("save_plan", SAVE["arguments"])
            assert result.is_error
            assert "cannot be asked" in result.text
    assert saved.kept


@each_place
@each_era
@pytest.mark.parametrize("how", ["gives up the call", "closes the client"])
async def test_a_person_who_walks_away_has_not_agreed(place: str, era: str, how: str, saved: Saved) -> None:
    """A call that is given up while its question is open, and a client that is closed then, change nothing (CAN-4)."""
    asked = asyncio.Event()

    async def elicit(question: ClientQuestion) -> dict[str, bool]:
        asked.set()
        return await never(question)

    async with joined(place, era, elicit=elicit) as client:
        call = asyncio.create_task(client.call_tool("save_plan", SAVE["arguments"]))
        await asyncio.wait_for(asked.wait(), 20)
        if how == "gives up the call":
            call.cancel()
            await asyncio.wait([call])
            assert (await client.read_resource(f"plan://{example.PLAN_ID}")).contents
    await asyncio.wait([call])
    assert call.cancelled() or call.exception() is not None
    assert saved.kept


@each_place
@each_era
async def test_a_client_that_vanishes_has_not_agreed(place: str, era: str, saved: Saved) -> None:
    """A connection that is lost while the question is open is no answer; the planner ends with it (ELC-5, STDIO-6)."""
    async with wire(place, era) as client:
        await asked(client)
        await client.vanish()
        assert saved.kept


# ---- what no client of ours would send


async def asked(client: Wire) -> dict[str, Any]:
    """The question that a call to save is answered with, in its era's form."""
    said = await client.request(SAVE)
    if client.modern:
        assert said["result"]["resultType"] == "input_required"
        (request,) = said["result"]["inputRequests"].values()
    else:
        request = said
    assert request["method"] == "elicitation/create"
    assert request["params"]["message"] == QUESTION
    return said["result"] if client.modern else said


def again(before: dict[str, Any], answers: Any, params: dict[str, Any] = SAVE, **changed: Any) -> dict[str, Any]:
    """The call, made again with answers."""
    return {**params, "inputResponses": answers, "requestState": before["requestState"], **changed}


def outcome(message: dict[str, Any]) -> Any:
    """How a call ended: "saved", "kept", "asked again", "failed", or the code of its error."""
    if "error" in message:
        return message["error"]["code"]
    result = message["result"]
    if result.get("resultType") == "input_required":
        return "asked again"
    if result.get("isError"):
        return "failed"
    return "saved" if result["structuredContent"]["saved"] else "kept"


MALFORMED: list[Any] = [
    {"action": "accept"},
    {"action": "accept", "content": None},
    {"action": "accept", "content": {}},
    {"action": "accept", "content": []},
    {"action": "accept", "content": {"overwrite": "yes"}},
    {"action": "accept", "content": {"overwrite": 1}},
    {"action": "accept", "content": {"overwrite": None}},
    {"action": "accept", "content": {"overwrite": [True]}},
    {"action": "accept", "content": {"Overwrite": True}},
    {"action": "ACCEPT", "content": {"overwrite": True}},
    {"action": True, "content": {"overwrite": True}},
    {"content": {"overwrite": True}},
    {"overwrite": True},
    {},
]


@each_place
@each_era
async def test_a_malformed_answer_is_no_yes(place: str, era: str, saved: Saved) -> None:
    """What does not fit the question fails the call in either era, and a decline with a yes in it is a decline."""
    async with wire(place, era) as client:
        for answer in MALFORMED:
            question = await asked(client)
            if client.modern:
                assert outcome(await client.request(again(question, {"question": answer}))) == -32602, answer
            else:
                assert outcome(await client.reply(question, result=answer)) == "failed", answer
            assert saved.kept, answer
        for action in ("decline", "cancel"):
            question, answer = await asked(client), {**YES, "action": action}
            if client.modern:
                assert outcome(await client.request(again(question, {"question": answer}))) == "kept"
            else:
                assert outcome(await client.reply(question, result=answer)) == "kept"
            assert saved.kept


@each_place
async def test_an_error_in_place_of_an_answer_is_no_yes(place: str, saved: Saved) -> None:
    """A legacy client that answers the question with an error fails the call (ELC-5)."""
    async with wire(place, "legacy") as client:
        said = await client.reply(await asked(client), error={"code": -32603, "message": "no window"})
        assert outcome(said) == "failed"
        assert saved.kept


@each_place
async def test_a_yes_to_a_call_that_was_given_up_comes_too_late(place: str, saved: Saved) -> None:
    """After the cancellation the question is closed: a yes to it does nothing, and the planner goes on (CAN-4)."""
    async with wire(place, "legacy") as client:
        question = await asked(client)
        given_up = {"method": "notifications/cancelled", "params": {"requestId": client.last}}
        await client.tell({"jsonrpc": "2.0", **given_up})
        await client.tell({"jsonrpc": "2.0", "id": question["id"], "result": YES})
        assert "error" not in await client.request(CONTRACT)
        assert saved.kept


@each_place
async def test_a_state_that_was_tampered_with_is_refused(place: str, saved: Saved) -> None:
    """Any character of the state changed, cut off or added makes it nothing (MR-6, M01)."""
    async with wire(place, "modern") as client:
        question = await asked(client)
        state = question["requestState"]
        forged = [state[:at] + BASE64[BASE64.index(state[at]) - 1] + state[at + 1 :] for at in range(len(state))]
        for text in [
            *forged,
            "",
            state[:-1],
            state[1:],
            state + "A",
            state + "=",
            state * 2,
            "no state",
            "é",
            "0" * 99,
        ]:
            said = await client.request(again(question, {"question": YES}, requestState=text))
            assert outcome(said) == -32602, text
            assert "requestState" in said["error"]["message"]
        assert saved.kept
        assert outcome(await client.request(again(question, {"question": YES}))) == "saved"
        assert saved.name == "Another"


@each_place
async def test_a_state_of_another_plan_is_refused(place: str, saved: Saved) -> None:
    """The yes to one plan is none to another, nor to other contents of the same one (MR-6, M01)."""
    goal = {"name": "save_plan", "arguments": {"plan": goal_plan(), "request": goal_request()}}
    changed = {**OTHER, "name": "Worse"}
    async with wire(place, "modern") as client:
        assert outcome(await client.request(goal)) == "saved"
        before = saved.bytes()
        question, of_goal = await asked(client), (await client.request(goal))["result"]
        yes = {"question": YES}
        for state, call in [
            (of_goal, SAVE),
            (question, goal),
            (question, {**SAVE, "arguments": {"plan": changed, "request": example.request()}}),
            (question, {**SAVE, "name": "validate_plan"}),
        ]:
            assert outcome(await client.request(again(state, yes, call))) == -32602
        assert saved.bytes() == before


async def test_a_state_of_another_process_is_refused(saved: Saved) -> None:
    """A planner has keys of its own: what another one sealed is nothing to it (MR-6, MR-10)."""
    async with wire("stdio", "modern") as one, wire("stdio", "modern") as two:
        question = await asked(one)
        assert outcome(await two.request(again(question, {"question": YES}))) == -32602
        assert saved.kept
        assert outcome(await one.request(again(question, {"question": YES}))) == "saved"


@each_place
async def test_an_answer_to_no_question_is_none(place: str, saved: Saved) -> None:
    """Answers without a state, under another key, or none at all: the person is asked again (MR-6, MR-7)."""
    async with wire(place, "modern") as client:
        question = await asked(client)
        unasked = {**SAVE, "inputResponses": {"question": YES}}
        for call in [
            unasked,
            {**unasked, "requestState": None},
            again(question, {}),
            again(question, {"overwrite": YES}),
            again(question, {"question-2": YES}),
        ]:
            assert outcome(await client.request(call)) == "asked again", call
        for answers in (None, [], [YES], "yes", True):
            assert outcome(await client.request(again(question, answers))) == -32602, answers
        assert saved.kept


async def test_a_state_whose_time_is_over_is_refused(saved: Saved, monkeypatch: pytest.MonkeyPatch) -> None:
    """A yes that comes after the question's time is over is none (M01, limit `question`)."""
    async with wire("memory", "modern") as client:
        question = await asked(client)
        late = time.time() + server.limits.question + 2
        monkeypatch.setattr(time, "time", lambda: late)
        said = await client.request(again(question, {"question": YES}))
        assert outcome(said) == -32602
        assert "its time is over" in said["error"]["message"]
        assert saved.kept


async def test_a_legacy_client_that_says_nothing_is_not_waited_for_for_ever(
    saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time that a question may take the call fails, and a yes that comes then does nothing (ELC-5)."""
    monkeypatch.setattr(server._engine, "limits", Limits(question=0.05))
    async with wire("memory", "legacy") as client:
        question = await asked(client)
        assert outcome(await client.next()) == "failed"
        await client.tell({"jsonrpc": "2.0", "id": question["id"], "result": YES})
        assert "error" not in await client.request(CONTRACT)
        assert saved.kept


async def test_a_yes_is_for_the_plan_that_it_was_asked_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What was saved meanwhile is not lost to the yes that was given before: it is asked for anew (M01)."""
    monkeypatch.setenv("PLAN_STORE", str(tmp_path))
    asked: list[str] = []

    def agree(question: ClientQuestion) -> dict[str, bool]:
        asked.append(question.message)
        if len(asked) == 1:  # another client saves while the person thinks
            file = tmp_path / f"{example.PLAN_ID}.json"
            file.write_text(file.read_text().replace("Calm weekday", "Urgent weekday"))
        return {"overwrite": len(asked) == 1}

    async with Client(server, elicit=agree) as client:
        arguments = {"plan": example.plan(), "request": example.request()}
        await client.call_tool("save_plan", arguments)
        again = await client.call_tool("save_plan", arguments)
    assert again.structured_content["saved"] is False
    assert ["Urgent" in message for message in asked] == [False, True]
