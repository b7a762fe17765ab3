"""Calls that come back with questions: what is asked, and what is sent again (MRTR)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jackfield.client import retrying
from jackfield.client.client import Client
from jackfield.client.questions import ClientQuestion
from jackfield.protocol.errors import (
    ConnectionClosed,
    InvalidResult,
    JackfieldError,
    LimitExceeded,
    PeerError,
    RequestTimeout,
    Unanswered,
)
from jackfield.protocol.limits import Limits
from tests.client.fakes import INITIALIZED, Fake, Fault, asks, form, legacy, modern, page, sample, text_result
from tests.client.handlers import ELICIT, ROOTS, SAMPLE, Waiter, says

META = "io.modelcontextprotocol/"
SURE = (ELICIT, form("Sure?"))
YES = {"action": "accept", "content": {"sure": True}}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for a back-off."""
    monkeypatch.setattr(retrying, "FIRST_WAIT", 0)


def turns(*answers: Any) -> Callable[[dict[str, Any]], Any]:
    """Answer one request after the other with these; a function is given the request."""
    left = list(answers)

    def answer(message: dict[str, Any]) -> Any:
        turn = left.pop(0)
        return turn(message) if callable(turn) else turn

    return answer


async def fails(server: Fake, kind: type[JackfieldError], **options: Any) -> str:
    """Why a call fails; the next call must be as good as before."""
    async with Client(server, **options) as client:
        with pytest.raises(kind) as caught:
            await client.call_tool("a", {"n": 1})
        server.answers["tools/call"] = text_result("fine")
        assert (await client.call_tool("a")).text == "fine"
    return str(caught.value)


# ---- what is sent again


async def test_request_is_sent_again_with_the_answers() -> None:
    """A retry is the same request with a new id, its own `_meta`, the answers and the exact state (MR-3, MR-4)."""
    state = 'é\u2028"\\/\x7f ==.'
    server = modern(tools__call=turns(asks(state, one=SURE, two=(ROOTS, {})), text_result("done")))
    async with Client(server, elicit=says({"sure": True}), roots=["file:///x"]) as client:
        result = await client.call_tool("a", {"n": 1}, meta={"example.com/mine": 7})
    assert result.text == "done"
    first, second = [message for message in server.heard if message["method"] == "tools/call"]
    assert first["id"] != second["id"]
    own = second["params"].pop("_meta")
    assert own.pop("progressToken") == second["id"]
    assert first["params"].pop("_meta").pop("progressToken") == first["id"]
    assert own["example.com/mine"] == 7
    assert own[META + "clientCapabilities"] == {"elicitation": {"form": {}}, "roots": {}}
    assert first["params"] == {"name": "a", "arguments": {"n": 1}}
    answers = {"one": YES, "two": {"roots": [{"uri": "file:///x"}]}}
    assert second["params"] == first["params"] | {"inputResponses": answers, "requestState": state}


async def test_only_the_newest_state_goes_back() -> None:
    """Each round has its own answers and the state of that round; where there was none, none is sent (MR-4)."""
    rounds = [asks("s-1", a=SURE), asks(None, b=SURE), asks("s-3", c=SURE), text_result("done")]
    server = modern(tools__call=turns(*rounds))
    async with Client(server, elicit=says({"sure": True})) as client:
        assert (await client.call_tool("a")).text == "done"
    sent = [(params.get("inputResponses"), params.get("requestState")) for params in server.asked("tools/call")]
    assert sent == [(None, None), ({"a": YES}, "s-1"), ({"b": YES}, None), ({"c": YES}, "s-3")]
    assert "requestState" not in server.asked("tools/call")[2]


async def test_state_of_one_call_is_never_in_another() -> None:
    """Calls beside and after one that was asked know nothing of its answers and its state (MR-3, MR-4)."""

    def work(message: dict[str, Any]) -> Any:
        params = message["params"]
        if params["name"] == "plain":
            return text_result("plain")
        if "requestState" in params:
            return text_result(params["requestState"] + str(params["inputResponses"]["q"]["content"]["n"]))
        return asks("state of " + params["name"], q=(ELICIT, form(params["name"], n={"type": "string"})))

    both = asyncio.Barrier(2)

    async def elicit(question: ClientQuestion) -> Any:
        await both.wait()
        await client.call_tool("plain")
        return {"n": f" for {question.message}, {question.call}"}

    server = modern(tools__call=work)
    async with Client(server, elicit=elicit) as client:
        results = await asyncio.gather(client.call_tool("x"), client.call_tool("y"))
        assert (await client.call_tool("plain")).text == "plain"
    assert [result.text for result in results] == ["state of x for x, x", "state of y for y, y"]
    plain = [params for params in server.asked("tools/call") if params["name"] == "plain"]
    assert [sorted(params) for params in plain] == [["_meta", "arguments", "name"]] * 3


async def test_questions_of_a_round_are_asked_together() -> None:
    """All questions of a round are open at the same time, and one retry has all answers (MR-3)."""
    together = asyncio.Barrier(3)

    async def elicit(question: ClientQuestion) -> bool:
        await together.wait()
        return False

    async def model(question: ClientQuestion) -> str:
        await together.wait()
        return "Hello"

    async def roots() -> list[str]:
        await together.wait()
        return []

    asked = asks(None, f=SURE, m=(SAMPLE, sample()), r=(ROOTS, None))
    server = modern(tools__call=turns(asked, text_result("done")))
    async with Client(server, elicit=elicit, sample=model, roots=roots) as client:
        await client.call_tool("a")
    answers = server.asked("tools/call")[1]["inputResponses"]
    assert answers["f"] == {"action": "decline"}
    assert answers["m"]["content"] == {"type": "text", "text": "Hello"}
    assert answers["r"] == {"roots": []}


@pytest.mark.parametrize("outcome", [False, None, ValueError("broken"), "yes"])
async def test_no_is_told(outcome: Any) -> None:
    """A decline, a cancel and a broken handler are told as what they are, never as a yes (MR-5, ELC-5)."""
    server = modern(tools__call=turns(asks(None, q=SURE), text_result("kept")))
    async with Client(server, elicit=says(outcome)) as client:
        assert (await client.call_tool("a")).text == "kept"
    action = "decline" if outcome is False else "cancel"
    assert server.asked("tools/call")[1]["inputResponses"] == {"q": {"action": action}}


async def test_prompts_and_resources_ask_too() -> None:
    """`prompts/get` and `resources/read` may ask as well; what came of it is not kept (MR-1, MR-9, CCH-4)."""
    contents = {"contents": [{"uri": "a:b", "text": "x"}], "ttlMs": 60_000, "cacheScope": "private"}
    seen: list[str | None] = []

    def elicit(question: ClientQuestion) -> bool:
        seen.append(question.call)
        return True

    server = modern(
        prompts__get=turns(asks("p", q=SURE), {"messages": []}),
        resources__read=turns(asks("r", q=SURE), contents, contents),
    )
    async with Client(server, elicit=elicit) as client:
        await client.get_prompt("p", {"x": "1"})
        for _ in range(3):
            await client.read_resource("a:b")
    assert server.asked("prompts/get")[1]["arguments"] == {"x": "1"}
    assert server.asked("prompts/get")[1]["requestState"] == "p"
    assert [params.get("requestState") for params in server.asked("resources/read")] == [None, "r", None]
    assert sorted(seen, key=str) == ["a:b", "p"]


async def test_load_shedding() -> None:
    """Without questions the request is sent again with the state alone (MR-5), as often as `rounds` allows."""
    server = modern(
        tools__call=turns(*[asks("later")] * 3, asks(None, q=SURE) | {"inputRequests": {}}, text_result(""))
    )
    async with Client(server) as client:
        await client.call_tool("a")
    sent = [(params.get("requestState"), "inputResponses" in params) for params in server.asked("tools/call")]
    assert sent == [(None, False), *[("later", False)] * 3, (None, False)]


# ---- what is not asked

ODD = [
    ({}, asks("s", q=SURE), r"mode 'form'|no method elicitation/create"),
    ({"elicit_url": says(True)}, asks(None, q=SURE), "mode 'form'"),
    ({"elicit": says(True)}, asks(None, q=(ELICIT, page())), "mode 'url'"),
    ({"elicit": says(True)}, asks(None, q=(SAMPLE, sample())), "no method sampling/createMessage"),
    ({"sample": says("x")}, asks(None, q=(SAMPLE, sample(tools=[]))), "sampling.tools"),
    ({"elicit": says(True)}, asks(None, q=(ROOTS, {})), "no method roots/list"),
    ({"elicit": says(True)}, asks(None, q=("tools/list", {})), "no method tools/list"),
    ({"elicit": says(True)}, asks(None, q=(ELICIT, {"message": 7})), "message"),
    ({"elicit": says(True)}, asks(), "neither questions nor a state"),
    ({"elicit": says(True)}, asks() | {"requestState": 7}, "requestState"),
    ({"elicit": says(True)}, asks() | {"inputRequests": [1]}, "inputRequests"),
]


@pytest.mark.parametrize(("handlers", "answer", "why"), ODD)
async def test_questions_that_cannot_be_asked(handlers: Any, answer: Any, why: str) -> None:
    """A question that was not declared, or is malformed, fails the call, which says what is missing (MR-1, MR-2)."""
    server = modern(tools__call=answer)
    async with Client(server, **handlers) as client:
        with pytest.raises(InvalidResult, match=why):
            await client.call_tool("a")
    assert len(server.asked("tools/call")) == 1


async def test_client_without_handlers_is_told_of_them() -> None:
    """Whoever wrote a client that cannot be asked reads which handlers there are."""
    text = await fails(modern(tools__call=asks(None, q=SURE)), InvalidResult)
    assert "Client(elicit=, elicit_url=, sample=, sample_tools=, roots=)" in text


async def test_nothing_is_asked_where_one_question_cannot_be() -> None:
    """A person is not bothered with a round that cannot be completed (MR-3)."""
    seen: list[ClientQuestion] = []
    asked = asks(None, a=SURE, b=(SAMPLE, sample()), c=SURE)
    await fails(modern(tools__call=asked), InvalidResult, elicit=seen.append)
    assert seen == []


async def test_methods_that_may_not_ask() -> None:
    """No other method may come back with questions (MR-1)."""
    server = modern(tools__list=asks(None, q=SURE), completion__complete=asks("s"))
    async with Client(server, elicit=says(True)) as client:
        with pytest.raises(InvalidResult, match="input_required"):
            await client.list_tools()


async def test_legacy_servers_do_not_ask_so() -> None:
    """In an older revision an answer is an answer: questions are requests there."""
    text = await fails(legacy(tools__call=asks("s", q=SURE)), InvalidResult, elicit=says(True))
    assert "revision 2025-11-25 does not have" in text


# ---- calls that fail, or end, in between


@pytest.mark.parametrize("outcome", [None, KeyError("k")])
async def test_sampling_without_an_answer(outcome: Any) -> None:
    """Where the model gives no answer the call fails with the cause, the other handlers stop, all is unsent (MR-3)."""
    waiter = Waiter()

    async def model(question: ClientQuestion) -> Any:
        await waiter.begun.wait()
        return says(outcome)(question)

    server = modern(tools__call=asks(None, q=SURE, m=(SAMPLE, sample())))
    async with Client(server, elicit=waiter, sample=model) as client:
        with pytest.raises(Unanswered, match="fake: tools/call: ") as caught:
            await client.call_tool("a")
    assert isinstance(caught.value.__cause__, KeyError if outcome else JackfieldError)
    assert waiter.cancelled.is_set()
    assert len(server.asked("tools/call")) == 1


async def test_caller_gives_up() -> None:
    """Whoever cancels a call cancels its questions, and nothing more is sent."""
    waiter = Waiter()
    server = modern(tools__call=asks(None, q=SURE))
    async with Client(server, elicit=waiter) as client:
        call = asyncio.create_task(client.call_tool("a"))
        await waiter.begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert waiter.cancelled.is_set()
        await client.ping()
    assert len(server.asked("tools/call")) == 1


async def test_client_is_closed_while_a_question_is_open() -> None:
    """Closing the client withdraws the question, and the call fails as every call that is under way."""
    waiter = Waiter()
    async with Client(modern(tools__call=asks(None, q=SURE)), elicit=waiter) as client:
        call = asyncio.create_task(client.call_tool("a"))
        await waiter.begun.wait()
        await client.close()
        with pytest.raises(ConnectionClosed, match="closed while a question was open"):
            await call
    assert waiter.cancelled.is_set()


async def test_handler_that_closes_the_client() -> None:
    """A handler may close the client, and goes on after that; its call then fails as any other."""

    async def elicit(question: ClientQuestion) -> bool:
        await client.close()
        await asyncio.sleep(0)
        ended.append(question)
        return True

    ended: list[ClientQuestion] = []
    server = modern(tools__call=asks(None, q=SURE))
    async with Client(server, elicit=elicit) as client:
        with pytest.raises(ConnectionClosed):
            await client.call_tool("a")
    assert (server.ends, len(ended)) == (1, 1)


async def test_each_round_has_its_own_time() -> None:
    """The time of a call is the silence of each request; the time for answering is not of it (CAN-5)."""

    async def elicit(question: ClientQuestion) -> bool:
        await asyncio.sleep(0.12)
        return True

    server = modern(tools__call=turns(asks("1", q=SURE), asks("2", q=SURE), lambda message: Fake.SILENT))
    async with Client(server, elicit=elicit) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("a", timeout=0.08)
    ids = [message["id"] for message in server.heard if message["method"] == "tools/call"]
    assert len(ids) == 3
    assert server.asked("notifications/cancelled") == [{"requestId": ids[-1]}]


async def test_progress_of_each_round() -> None:
    """A progress callback hears of every round, by that round's token."""
    heard: list[float] = []

    def work(message: dict[str, Any]) -> Any:
        server.notify("notifications/progress", {"progressToken": message["id"], "progress": message["id"]})
        return text_result("") if "inputResponses" in message["params"] else asks(None, q=SURE)

    server = modern(tools__call=work)
    async with Client(server, elicit=says(True)) as client:
        await client.call_tool("a", progress=lambda progress, total, text: heard.append(progress))
    assert heard == [message["id"] for message in server.heard if message["method"] == "tools/call"]
    assert len(heard) == 2


async def test_errors_of_a_retry() -> None:
    """An error that the server answers a retry with is the call's error."""
    server = modern(tools__call=turns(asks("s", q=SURE), Fault(-32602, "the state has expired")))
    async with Client(server, elicit=says(True)) as client:
        with pytest.raises(PeerError, match="the state has expired"):
            await client.call_tool("a")


# ---- servers that never have enough


async def test_rounds_are_bounded() -> None:
    """A server that asks again and again is left after so many rounds, whatever it asks for (MR-12, M02)."""
    for make in (lambda n: asks(str(n), q=SURE), lambda n: asks(str(n))):
        numbers = iter(range(100))
        server = modern(tools__call=lambda _, make=make, numbers=numbers: make(next(numbers)))
        text = await fails(server, LimitExceeded, elicit=says(True), limits=Limits(rounds=4))
        assert "more than 4 times (limit `rounds`)" in text
        assert len(server.asked("tools/call")) == 1 + 4 + 1


async def test_questions_are_bounded() -> None:
    """Of one call so many questions are taken in all, and of a round with more none is asked (MR-12, P12)."""
    seen: list[ClientQuestion] = []

    def elicit(question: ClientQuestion) -> None:
        seen.append(question)

    storm = asks(None, **{f"q{n}": SURE for n in range(100)})
    assert "limit `questions`" in await fails(modern(tools__call=storm), LimitExceeded, elicit=elicit)
    assert seen == []
    rounds = [asks(str(n), a=SURE, b=SURE) for n in range(3)]
    text = await fails(modern(tools__call=turns(*rounds)), LimitExceeded, elicit=elicit, limits=Limits(questions=5))
    assert "more than 5 questions" in text
    assert len(seen) == 4


async def test_no_progress() -> None:
    """A server that asks the very same again though it was answered the same is left at once (MR-12)."""
    text = await fails(modern(tools__call=asks("s", q=SURE)), InvalidResult, elicit=says(True))
    assert "the same questions as before" in text
    moods = iter([{"sure": True}, {"sure": False}, {"sure": True}])
    again = [asks("s", q=SURE)] * 3
    server = modern(tools__call=turns(*again, text_result("done")))
    async with Client(server, elicit=lambda question: next(moods)) as client:
        assert (await client.call_tool("a")).text == "done"


# ---- the error of 2025-11-25 that names pages to visit


def pages(*ids: str, url: str = "https://example.com/pay") -> Fault:
    """Error -32042 with a page for each id."""
    return Fault(-32042, "payment needed", {"elicitations": [page(f"{url}?{id}", elicitationId=id) for id in ids]})


async def test_pages_to_visit_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page is asked for, and the call is made again when the server says that the visits are done (ELC-8)."""
    monkeypatch.setattr(retrying, "FIRST_VISIT", 3600)  # so that it is the notifications that end the wait
    monkeypatch.setattr(retrying, "LONGEST_VISIT", 3600)
    seen: list[str | None] = []

    def elicit_url(question: ClientQuestion) -> bool:
        seen.append(question.url)
        if len(seen) == 2:
            loop.call_soon_threadsafe(tell, "e-9", "e-2", "e-1")
        return True

    def tell(*ids: str) -> None:
        for id in ids:
            server.notify("notifications/elicitation/complete", {"elicitationId": id})

    loop = asyncio.get_running_loop()
    heard: list[str] = []
    server = legacy(tools__call=turns(pages("e-1", "e-2"), text_result("paid")))
    async with Client(
        server, elicit_url=elicit_url, on_notification=lambda method, params: heard.append(params["elicitationId"])
    ) as client:
        assert (await client.call_tool("pay", {"n": 1})).text == "paid"
    assert sorted(map(str, seen)) == ["https://example.com/pay?e-1", "https://example.com/pay?e-2"]
    first, second = [message for message in server.heard if message["method"] == "tools/call"]
    assert first["id"] != second["id"]
    assert {**first["params"], "_meta": 0} == {**second["params"], "_meta": 0}
    assert heard == ["e-9", "e-2", "e-1"]


async def test_pages_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says nothing is asked again after a while; a page that was agreed to is not shown again (ELC-8)."""
    monkeypatch.setattr(retrying, "FIRST_VISIT", 0)
    seen: list[str | None] = []

    def elicit_url(question: ClientQuestion) -> bool:
        seen.append(question.url)
        return True

    server = legacy(tools__call=turns(pages("a"), pages("a"), pages("a", "b"), text_result("paid")))
    async with Client(server, elicit_url=elicit_url) as client:
        assert (await client.call_tool("pay")).text == "paid"
    assert seen == ["https://example.com/pay?a", "https://example.com/pay?b"]
    endless = legacy(tools__call=lambda message: pages("a"))
    assert "limit `rounds`" in await fails(endless, LimitExceeded, elicit_url=says(True), limits=Limits(rounds=2))
    assert len(endless.asked("tools/call")) == 1 + 2 + 1


@pytest.mark.parametrize("outcome", [False, None, ValueError("broken")])
async def test_page_that_nobody_visits(outcome: Any) -> None:
    """Without a yes the call fails with the server's error, and is not made again."""
    server = legacy(tools__call=turns(pages("a")))
    async with Client(server, elicit_url=says(outcome)) as client:
        with pytest.raises(PeerError, match="payment needed") as caught:
            await client.call_tool("pay")
    assert (caught.value.code, len(server.asked("tools/call"))) == (-32042, 1)


PLAIN_ERRORS = [
    (pages("a"), {"elicit": says(True)}, "2025-11-25"),
    (pages("a"), {"elicit_url": says(True)}, "2025-06-18"),
    (Fault(-32042, "payment needed"), {"elicit_url": says(True)}, "2025-11-25"),
    (Fault(-32042, "payment needed", {"elicitations": []}), {"elicit_url": says(True)}, "2025-11-25"),
    (Fault(-32042, "payment needed", {"elicitations": [7]}), {"elicit_url": says(True)}, "2025-11-25"),
    (Fault(-32042, "payment needed", {"elicitations": [page()]}), {"elicit_url": says(True)}, "2025-11-25"),
    (pages("a", url="http://example.com"), {"elicit_url": says(True)}, "2025-11-25"),
    (
        Fault(-32042, "payment needed", {"elicitations": [form() | {"elicitationId": "a"}]}),
        {"elicit": says(True), "elicit_url": says(True)},
        "2025-11-25",
    ),
]


@pytest.mark.parametrize(("error", "handlers", "version"), PLAIN_ERRORS)
async def test_error_that_names_no_page_to_visit(error: Fault, handlers: Any, version: str) -> None:
    """Where there is nothing that could be visited the error is an error like any other."""
    server = legacy(initialize=INITIALIZED | {"protocolVersion": version}, tools__call=turns(error))
    async with Client(server, **handlers) as client:
        with pytest.raises(PeerError, match="payment needed"):
            await client.call_tool("pay")


async def test_other_errors_after_a_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of another kind that follows a visit is the call's error, whatever it holds."""
    monkeypatch.setattr(retrying, "FIRST_VISIT", 0)
    other = Fault(-32603, "broken", {"elicitations": [page(elicitationId="b")]})
    server = legacy(tools__call=turns(pages("a"), other))
    async with Client(server, elicit_url=says(True)) as client:
        with pytest.raises(PeerError, match="broken"):
            await client.call_tool("pay")


async def test_modern_servers_have_no_such_error() -> None:
    """In the modern era the code means nothing: pages are questions there (ELC-8)."""
    server = modern(tools__call=turns(pages("a")))
    async with Client(server, elicit_url=says(True)) as client:
        with pytest.raises(PeerError, match="payment needed"):
            await client.call_tool("pay")
