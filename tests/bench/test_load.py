"""The calls that the benchmarks make and the check of their answers."""

import json
from typing import Any

import pytest

from bench import load


def answers(first: int, count: int, **changes: Any) -> list[dict[str, Any]]:
    """Right answers to so many calls; `changes` replace members of the last one's result."""
    found: list[dict[str, Any]] = []
    for number in range(first, first + count):
        text = [{"type": "text", "text": str(number + 2)}]
        result = {"content": text, "structuredContent": {"result": number + 2}, "isError": False}
        found.append({"jsonrpc": "2.0", "id": number, "result": result})
    found[-1]["result"].update(changes)
    return found


def lines(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.mark.parametrize("era", load.ERAS)
def test_calls_are_whole_lines_with_their_own_id_and_sum(era: str) -> None:
    """Each call is one JSON line that adds 2 to its id, with `_meta` in the modern era alone."""
    found = [json.loads(line) for line in load.calls(era, "add_sync", 9, 3)]
    assert [message["id"] for message in found] == [9, 10, 11]
    assert [message["params"]["arguments"] for message in found] == [{"a": n, "b": 2} for n in (9, 10, 11)]
    assert all(message["params"]["name"] == "add_sync" for message in found)
    assert all(("_meta" in message["params"]) is (era == "modern") for message in found)


def test_right_answers_in_any_order_pass() -> None:
    """Answers may come in another order than the calls."""
    load.check(lines(answers(5, 4)[::-1]), 5, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        lines(answers(5, 3)),
        lines(answers(5, 4) + answers(8, 1)),
        lines(answers(5, 3) + answers(7, 1)),
        lines(answers(5, 4, isError=True)),
        lines(answers(5, 4, content=[{"type": "text", "text": "9"}])),
        lines(answers(5, 4, structuredContent={"result": 9})),
        lines([*answers(5, 3), {"jsonrpc": "2.0", "id": 8, "error": {"code": -32603, "message": "server busy"}}]),
        lines(answers(5, 4))[:-9],
    ],
    ids=["missing", "twice", "other id", "isError", "wrong text", "wrong structure", "error", "cut off"],
)
def test_a_wrong_answer_voids_the_sample(wrong: bytes) -> None:
    """A missing, doubled, failed or wrong answer raises: a fast wrong server has no figure."""
    with pytest.raises(load.WrongAnswer):
        load.check(wrong, 5, 4)


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b'{"id": 5}', "application/json"),
        (b'event: message\r\ndata: {"id": 5}\r\n\r\n', "text/event-stream"),
        (b': hello\n\ndata: {"method": "m"}\n\ndata:{"id": 5}\n\n', "text/event-stream"),
    ],
    ids=["json", "one event", "the last of several"],
)
def test_the_answer_over_http_becomes_a_line(body: bytes, media_type: str) -> None:
    """An answer in a JSON body or at the end of a stream is checked like one over stdio."""
    assert load.line_of(body, media_type) == b'{"id": 5}\n'


def test_the_headers_over_http_are_those_of_the_era() -> None:
    """A modern call mirrors its method and its tool; a legacy one names its session, unless it opens one."""
    modern = load.http_headers("modern", "add", None)
    assert (modern["MCP-Protocol-Version"], modern["Mcp-Method"], modern["Mcp-Name"]) == (
        load.ERAS["modern"],
        "tools/call",
        "add",
    )
    assert load.http_headers("legacy", "add", "s1")["Mcp-Session-Id"] == "s1"
    assert "MCP-Protocol-Version" not in load.http_headers("legacy", "", None)
