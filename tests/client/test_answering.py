"""What a client says to the questions of a legacy server, whatever its handlers do."""

from __future__ import annotations

import asyncio
import datetime
import threading
from pathlib import Path
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.client.questions import ClientQuestion, Handlers
from jackfield.protocol.errors import NotSupported, ProtocolError, RegistrationError
from jackfield.protocol.limits import Limits
from jackfield.protocol.types import (
    CreateMessageResult,
    ElicitResult,
    Root,
    StringSchema,
    TextContent,
    ToolUseContent,
)
from tests.client.fakes import INITIALIZED, form, legacy, modern, page, sample, text_result
from tests.client.handlers import ELICIT, ROOTS, SAMPLE, says, says_async

CANCEL = {"action": "cancel"}


async def ask(method: str, params: Any = None, *, version: str = "2025-11-25", **handlers: Any) -> dict[str, Any]:
    """What a client with these handlers answers to one question."""
    server = legacy(initialize=INITIALIZED | {"protocolVersion": version})
    async with Client(server, **handlers) as client:
        answer = await server.ask(method, params)
        await client.ping()  # whatever was asked, the conversation goes on
    return answer


async def answered(method: str, params: Any = None, **handlers: Any) -> Any:
    """The result that it answers with."""
    answer = await ask(method, params, **handlers)
    assert "error" not in answer, answer
    return answer["result"]


async def refused(method: str, params: Any = None, **handlers: Any) -> tuple[int, str]:
    """The error that it answers with."""
    error = (await ask(method, params, **handlers))["error"]
    return error["code"], error["message"]


# ---- what is declared

DECLARED = [
    ({}, {}, {}),
    ({"elicit": says(1)}, {"elicitation": {"form": {}}}, None),
    ({"elicit_url": says(1)}, {"elicitation": {"url": {}}}, None),
    ({"elicit": says(1), "elicit_url": says(1)}, {"elicitation": {"form": {}, "url": {}}}, None),
    ({"sample": says(1)}, {"sampling": {}}, None),
    ({"sample": says(1), "sample_tools": True}, {"sampling": {"tools": {}}}, None),
    ({"roots": []}, {"roots": {}}, {"roots": {"listChanged": True}}),
]


@pytest.mark.parametrize(("handlers", "modern_form", "legacy_form"), DECLARED)
async def test_capabilities(handlers: Any, modern_form: Any, legacy_form: Any) -> None:
    """A client declares just what it has handlers for, in each era's form (CAP-1, CAP-3, ELC-1, ROOT-1)."""
    server = modern(tools__call=text_result(""))
    async with Client(server, **handlers) as client:
        await client.call_tool("a")
    for params in (server.asked("server/discover")[0], server.asked("tools/call")[0]):
        assert params["_meta"]["io.modelcontextprotocol/clientCapabilities"] == modern_form
    old = legacy()
    async with Client(old, **handlers):
        pass
    assert old.asked("initialize")[0]["capabilities"] == (modern_form if legacy_form is None else legacy_form)


@pytest.mark.parametrize(
    "handlers",
    [
        {"elicit": True},
        {"elicit_url": "https://a"},
        {"sample": 1},
        {"sample_tools": True},
        {"roots": "/tmp"},
        {"roots": Path("/tmp")},
        {"roots": ["https://example.com/a"]},
        {"roots": ["file:relative"]},
        {"roots": ["file:///a/%2E%2e/b"]},
        {"roots": [Root("ftp://a/b")]},
        {"roots": [7]},
    ],
)
async def test_handlers_that_cannot_answer(handlers: Any) -> None:
    """What cannot answer is told at once, by name (ROOT-1: roots are file URIs without a way out)."""
    with pytest.raises(RegistrationError, match=next(iter(handlers))):
        Client(legacy(), **handlers)


UNDECLARED = [
    (ELICIT, form(), {}, -32601),
    (ELICIT, form(), {"elicit_url": says(True)}, -32602),
    (ELICIT, page(), {"elicit": says(True)}, -32602),
    (ELICIT, form() | {"mode": "form"}, {"elicit_url": says(True)}, -32602),
    (SAMPLE, sample(), {"elicit": says(True)}, -32601),
    (SAMPLE, sample(tools=[]), {"sample": says("x")}, -32602),
    (SAMPLE, sample(toolChoice={"mode": "auto"}), {"sample": says("x")}, -32602),
    (ROOTS, None, {"sample": says("x")}, -32601),
    ("tools/list", None, {"elicit": says(True)}, -32601),
    ("sampling/other", None, {"sample": says("x")}, -32601),
]


@pytest.mark.parametrize(("method", "params", "handlers", "code"), UNDECLARED)
async def test_what_was_not_declared(method: str, params: Any, handlers: Any, code: int) -> None:
    """What was not declared gets -32601, a mode or tools that were not -32602; no handler is called (ELC-1, SMP-2)."""
    assert (await refused(method, params, **handlers))[0] == code


@pytest.mark.parametrize(
    ("version", "params", "code"), [("2025-06-18", page(), -32602), ("2025-03-26", form(), -32601)]
)
async def test_what_the_revision_does_not_have(version: str, params: Any, code: int) -> None:
    """A server may not ask what its revision does not have, whatever the client could answer (ELC-1, CAP-3)."""
    found = await refused(ELICIT, params, version=version, elicit=says(True), elicit_url=says(True))
    assert found[0] == code


MALFORMED = [
    (ELICIT, {}),
    (ELICIT, {"message": "a"}),
    (ELICIT, {"message": "a", "mode": "url"}),
    (ELICIT, {"message": "a", "mode": "telepathy", "requestedSchema": {}}),
    (ELICIT, {"message": "a", "requestedSchema": []}),
    (SAMPLE, {}),
    (SAMPLE, sample() | {"maxTokens": 0}),
    (SAMPLE, sample() | {"messages": [{"role": "user", "content": {"type": "hologram"}}]}),
    (
        SAMPLE,
        sample()
        | {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "t", "input": {}}]}]},
    ),
]


@pytest.mark.parametrize(("method", "params"), MALFORMED)
async def test_malformed_questions(method: str, params: Any) -> None:
    """A question that does not fit its method gets -32602, and no handler is called (SMP-2)."""
    code, message = await refused(method, params, elicit=says(True), elicit_url=says(True), sample=says("x"))
    assert (code, message.startswith(method)) == (-32602, True)


# ---- forms

NAME = {"type": "string", "default": "John"}
FORM = form("Who?", required=["age"], name=NAME, age={"type": "integer", "minimum": 1}, tags={"type": "string"})
MEANT = [
    ({"age": 3}, {"action": "accept", "content": {"age": 3, "name": "John"}}),
    ({"age": 3, "name": "Eve", "tags": "x"}, {"action": "accept", "content": {"age": 3, "name": "Eve", "tags": "x"}}),
    (ElicitResult(action="accept", content={"age": 3}), {"action": "accept", "content": {"age": 3, "name": "John"}}),
    (False, {"action": "decline"}),
    (None, CANCEL),
    (ElicitResult(action="decline", content={"age": 3}), {"action": "decline"}),
    (ElicitResult(action="cancel"), CANCEL),
]


@pytest.mark.parametrize("make", [says, says_async])
@pytest.mark.parametrize(("outcome", "result"), MEANT)
async def test_what_a_handler_means(outcome: Any, result: Any, make: Any) -> None:
    """A dict accepts, False declines, None cancels; content goes with a yes only, with its defaults (ELC-4, ELC-5)."""
    assert await answered(ELICIT, FORM, elicit=make(outcome)) == result


async def test_yes_to_the_defaults() -> None:
    """True, and an empty dict, accept a form as it was prefilled (ELC-4)."""
    fields = {"name": NAME, "n": {"type": "integer", "default": 30}, "ok": {"type": "boolean", "default": True}}
    for outcome in (True, {}, ElicitResult(action="accept")):
        result = await answered(ELICIT, form(**fields), elicit=says(outcome))
        assert result == {"action": "accept", "content": {"name": "John", "n": 30, "ok": True}}


NO_YES = [
    {"age": "three"},
    {"age": 0},
    {"age": True},
    {},
    True,
    ElicitResult(action="accept", content={"age": 0}),
    1,
    "yes",
    [],
    ("age", 3),
    object(),
    {"age": 3, "more": object()},
    {"age": 3, "tags": "\ud800"},
    ValueError("broken"),
    TimeoutError("of its own"),
    StopIteration(),
    SystemExit(1),
]


@pytest.mark.parametrize("outcome", NO_YES)
async def test_what_is_no_yes(outcome: Any, caplog: pytest.LogCaptureFixture) -> None:
    """What does not fit, means nothing or failed is answered with a cancel, and logged: never a yes (ELC-5)."""
    assert await answered(ELICIT, FORM, elicit=says(outcome)) == CANCEL
    assert "fake: a question was cancelled" in caplog.text


async def test_content_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What a person filled in stays out of the logs, also where it does not fit (LOG-4)."""
    fields = {"mail": {"type": "string", "format": "email"}, "colour": {"type": "string", "enum": ["red"]}}
    outcome = {"mail": "eve-at-home", "colour": "eve-blue"}
    assert await answered(ELICIT, form(**fields), elicit=says(outcome)) == CANCEL
    assert "mail" in caplog.text
    assert "eve" not in caplog.text


async def test_handler_that_cancels_itself(caplog: pytest.LogCaptureFixture) -> None:
    """A cancellation that comes out of a handler, though nobody cancelled the question, is a failure like any other."""

    async def elicit(question: ClientQuestion) -> bool:
        raise asyncio.CancelledError

    assert await answered(ELICIT, FORM, elicit=elicit) == CANCEL
    assert "though the question was not" in caplog.text


@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_no_answer_in_time(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """After the time of limit `question` the answer is a cancel, also where a handler blocks its thread."""
    release = threading.Event()

    async def sleep(question: ClientQuestion) -> bool:
        await asyncio.Event().wait()
        return True

    def block(question: ClientQuestion) -> bool:
        release.wait()
        return True

    result = await answered(ELICIT, form(), elicit=block if kind == "plain" else sleep, limits=Limits(question=0.01))
    release.set()
    assert result == CANCEL
    assert "no answer within 0.01 s (limit `question`)" in caplog.text


@pytest.mark.parametrize("field", [{"password": {"type": "string"}}, {"a": {"type": "string", "title": "API key"}}])
async def test_forms_that_ask_for_secrets(field: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A form that asks for a secret is cancelled before anybody sees it (ELC-6, P12)."""
    seen: list[ClientQuestion] = []
    assert await answered(ELICIT, form(**field), elicit=seen.append) == CANCEL
    assert seen == []
    assert "asks for a secret" in caplog.text


async def test_forms_that_the_protocol_does_not_allow(caplog: pytest.LogCaptureFixture) -> None:
    """Some servers send forms beyond the protocol's words: these are judged as the JSON Schema that they are."""
    fields = {"name": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}], "default": None}}
    seen: list[ClientQuestion] = []

    def elicit(question: ClientQuestion) -> Any:
        seen.append(question)
        return {"name": "Eve"} if len(seen) == 1 else {"name": "Evelyn"}

    server = legacy()
    async with Client(server, elicit=elicit):
        first = await server.ask(ELICIT, form(**fields))
        second = await server.ask(ELICIT, form(**fields))
        third = await server.ask(ELICIT, form(name={"type": "strange"}))
    assert first["result"] == {"action": "accept", "content": {"name": "Eve"}}
    assert (second["result"], third["result"]) == (CANCEL, CANCEL)
    assert [question.fields for question in seen] == [None, None]
    assert "its form is no schema" in caplog.text


async def test_question_as_a_handler_sees_it() -> None:
    """A handler is told who asks, by a name of one line, and all that was asked (ELC-6)."""
    seen: list[ClientQuestion] = []
    info = {"serverInfo": {"name": "bank\x1b[2J\nof you", "version": "1"}}
    server = legacy(initialize=INITIALIZED | info)
    async with Client(server, elicit=seen.append, elicit_url=seen.append, sample=lambda q: seen.append(q) or "x"):
        await server.ask(ELICIT, form("Who?", name={"type": "string", "title": "Name"}))
        await server.ask(ELICIT, page("https://example.com/a?b=c", elicitationId="e-1"))
        await server.ask(SAMPLE, sample("Hi", systemPrompt="Be brief."))
    asked, visit, sampled = seen
    assert asked.server == "bank\\x1b[2J\\nof you"
    assert (asked.method, asked.message, asked.url, asked.call) == (ELICIT, "Who?", None, None)
    assert asked.schema["properties"] == {"name": {"type": "string", "title": "Name"}}
    assert asked.fields is not None
    assert asked.fields.properties == {"name": StringSchema(title="Name")}
    assert (visit.url, visit.schema, visit.fields, visit.message) == ("https://example.com/a?b=c", {}, None, "Pay")
    assert visit.params.elicitation_id == "e-1"  # type: ignore[union-attr]
    assert (sampled.message, sampled.schema, sampled.url) == ("", {}, None)
    assert sampled.params.system_prompt == "Be brief."  # type: ignore[union-attr]


# ---- pages


@pytest.mark.parametrize(
    ("outcome", "result"),
    [
        (True, {"action": "accept"}),
        (ElicitResult(action="accept", content={"a": 1}), {"action": "accept"}),
        (False, {"action": "decline"}),
        (None, CANCEL),
        ("yes", CANCEL),
        (OSError("no browser"), CANCEL),
    ],
)
async def test_pages(outcome: Any, result: Any) -> None:
    """A yes to a page has no content (ELC-7)."""
    assert await answered(ELICIT, page(), elicit_url=says(outcome)) == result


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "http://example.com/",
        "https://bank.com@evil.com/",
        "https:///x",
        "https://exa mple.com",
        "https://ex\u0430mple.com",
        "data:text/html,x",
        "",
    ],
)
async def test_pages_that_nobody_is_sent_to(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is asked to visit what is no https page (or one on this machine), or hides where it leads (P13, SEC-4)."""
    seen: list[ClientQuestion] = []
    assert await answered(ELICIT, page(url), elicit_url=seen.append) == CANCEL
    assert seen == []
    assert "a question was cancelled" in caplog.text


async def test_page_on_this_machine() -> None:
    """Plain http is for pages on this machine (SEC-4)."""
    for host in ("localhost", "127.0.0.1:8080", "[::1]:80"):
        assert await answered(ELICIT, page(f"http://{host}/x"), elicit_url=says(True)) == {"action": "accept"}


# ---- sampling

HELLO = {"type": "text", "text": "Hello"}
MADE = {"role": "assistant", "content": HELLO, "model": "unknown", "stopReason": "endTurn"}
WHOLE = CreateMessageResult(role="assistant", content=TextContent("Hello"), model="m-1", result_type="complete")
SAMPLED = [
    ("Hello", MADE),
    (TextContent("Hello"), MADE),
    ([TextContent("Hello")], MADE),
    ([TextContent("Hello"), TextContent("Hello")], MADE | {"content": [HELLO, HELLO]}),
    (WHOLE, {"role": "assistant", "content": HELLO, "model": "m-1"}),
]


@pytest.mark.parametrize("make", [says, says_async])
@pytest.mark.parametrize(("outcome", "result"), SAMPLED)
async def test_what_a_model_says(outcome: Any, result: Any, make: Any) -> None:
    """A text, a block, several and a whole result are made into the answer (SMP-3)."""
    assert await answered(SAMPLE, sample(), sample=make(outcome)) == result


@pytest.mark.parametrize(
    ("outcome", "code"), [(None, -1), (7, -32603), ([], -32603), (["text"], -32603), (KeyError("k"), -32603)]
)
async def test_sampling_without_an_answer(outcome: Any, code: int) -> None:
    """What the user rejects is told from a handler that failed, of which the server learns no more (SMP-4)."""
    found, message = await refused(SAMPLE, sample(), sample=says(outcome))
    assert found == code
    assert "KeyError" not in message


async def test_one_block_for_older_servers() -> None:
    """Before 2025-11-25 an answer has one block: one in a list is taken out of it, several are an error (SMP-5)."""
    one = await answered(SAMPLE, sample(), sample=says([TextContent("Hello")]), version="2025-06-18")
    assert one["content"] == HELLO
    two = says([TextContent("a"), TextContent("b")])
    assert (await refused(SAMPLE, sample(), sample=two, version="2025-06-18"))[0] == -32603


async def test_sampling_with_tools() -> None:
    """With `sample_tools` the model may be given tools, and answer with a call of one (SMP-2)."""
    tools = [{"name": "t", "inputSchema": {"type": "object"}}]
    seen: list[ClientQuestion] = []

    def answer(question: ClientQuestion) -> Any:
        seen.append(question)
        return ToolUseContent(id="1", name="t", input={})

    result = await answered(SAMPLE, sample(tools=tools), sample=answer, sample_tools=True)
    assert result["content"] == {"type": "tool_use", "id": "1", "name": "t", "input": {}}
    assert seen[0].params.tools[0].name == "t"  # type: ignore[union-attr]


# ---- roots


async def test_roots(tmp_path: Path) -> None:
    """Roots are paths, file URIs and Roots, as a list or as what a function gives at the time (ROOT-1)."""
    uri = tmp_path.as_uri()
    wanted = {"roots": [{"uri": uri}, {"uri": uri}, {"uri": "file:///srv"}, {"uri": "file:///x", "name": "X"}]}
    roots = [tmp_path, str(tmp_path / "a" / ".."), "file:///srv", Root("file:///x", "X")]

    async def later() -> Any:
        return tuple(roots)

    for given in (roots, lambda: roots, later):
        assert await answered(ROOTS, roots=given) == wanted


async def test_roots_that_cannot_be_told() -> None:
    """A function that fails, or gives what are no roots, costs the answer alone."""

    def broken() -> Any:
        raise OSError("unplugged")

    for given in (broken, lambda: ["https://x"], lambda: "/tmp", lambda: None):
        code, message = await refused(ROOTS, roots=given)
        assert code == -32603
        assert "unplugged" not in message


async def test_roots_that_changed() -> None:
    """A legacy server is told that the roots are others; a modern one asks anew each time (ROOT-2)."""
    old, new = legacy(), modern()
    for server in (old, new):
        async with Client(server, roots=[]) as client:
            await client.roots_changed()
    assert ("notifications/roots/list_changed" in old.methods(), len(new.heard)) == (True, 1)
    async with Client(legacy()) as client:
        with pytest.raises(NotSupported, match="roots"):
            await client.roots_changed()


# ---- what is no answer


@pytest.mark.parametrize(
    "given", [{"action": "decline"}, {"action": "accept"}, {"nme": "Ann"}, {"name": "Ann", "x": 1}]
)
async def test_what_is_no_field_is_no_answer(given: Any) -> None:
    """A dict with anything but the form's fields is a cancel, be all fields optional: it may mean a no (ELC-5)."""
    schema = {"type": "object", "properties": {"name": {"type": "string", "default": "Bob"}}}
    params = {"message": "Who?", "requestedSchema": schema}
    assert await answered(ELICIT, params, elicit=says(given)) == CANCEL


@pytest.mark.parametrize("given", [{}, {"action": "decline"}, {"name": "Ann"}])
async def test_a_dict_is_no_answer_to_a_page(given: Any) -> None:
    """A page is agreed to with True alone (ELC-7)."""
    assert await answered(ELICIT, page(), elicit_url=says(given)) == CANCEL


async def test_answers_may_hold_python_values() -> None:
    """Dates and choices go as the texts that they are in JSON (ELC-5)."""
    schema = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}}}
    params = {"message": "When?", "requestedSchema": schema}
    result = await answered(ELICIT, params, elicit=says({"day": datetime.date(2026, 12, 1)}))
    assert result == {"action": "accept", "content": {"day": "2026-12-01"}}


async def test_nothing_is_answered_before_the_handshake() -> None:
    """A server that asks before it has said which revision it speaks gets no answer but an error (LIFE-3)."""
    asked: list[Any] = []
    handlers = Handlers(elicit=says(True), roots=["file:///x"])
    for method in (ELICIT, "roots/list"):
        with pytest.raises(ProtocolError) as caught:
            asked.append(handlers.read(method, b"{}", None))
        assert caught.value.code == -32601
    assert asked == []
