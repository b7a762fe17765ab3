"""The calls that the benchmarks make and the check of their answers, both outside the timed part."""

import json

import msgspec

ERAS = {"modern": "2026-07-28", "legacy": "2025-11-25"}
IN_FLIGHT = 64
_CLIENT = {"name": "bench", "version": "1.0.0"}
_META = {
    "io.modelcontextprotocol/protocolVersion": ERAS["modern"],
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class WrongAnswer(Exception):
    """A timed call was not answered, or not with its own sum: the figure would mean nothing."""


class _Text(msgspec.Struct):
    text: str


class _Sum(msgspec.Struct):
    result: int


class _Result(msgspec.Struct):
    content: list[_Text]
    structured: _Sum = msgspec.field(name="structuredContent")
    is_error: bool = msgspec.field(name="isError", default=False)


class _Answer(msgspec.Struct):
    id: int
    result: _Result


_decode_lines = msgspec.json.Decoder(_Answer).decode_lines


def opening(era: str) -> tuple[bytes, bytes]:
    """The first request of a conversation (id 0), and what follows its answer."""
    if era == "modern":
        return _line({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": _META}}), b""
    params = {"protocolVersion": ERAS["legacy"], "capabilities": {}, "clientInfo": _CLIENT}
    first = _line({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    return first, _line({"jsonrpc": "2.0", "method": "notifications/initialized"})


def calls(era: str, tool: str, first: int, count: int) -> list[bytes]:
    """Lines that call `tool` with a = id and b = 2, under the ids from `first` on."""
    params: dict[str, object] = {"name": tool, "arguments": {"a": "@", "b": 2}}
    if era == "modern":
        params["_meta"] = _META
    sample = _line({"jsonrpc": "2.0", "id": "@", "method": "tools/call", "params": params})
    start, middle, end = sample.split(b'"@"')
    numbers = [b"%d" % number for number in range(first, first + count)]
    return [b"".join((start, number, middle, number, end)) for number in numbers]


def http_headers(era: str, tool: str, session: str | None) -> dict[str, str]:
    """The headers of a call of `tool` over HTTP; legacy ones belong to a session, but for the one that opens it."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if era == "modern":
        return headers | {"MCP-Protocol-Version": ERAS[era], "Mcp-Method": "tools/call", "Mcp-Name": tool}
    return headers | ({"MCP-Protocol-Version": ERAS[era], "Mcp-Session-Id": session} if session else {})


def line_of(body: bytes, media_type: str) -> bytes:
    """The answer in the body of an HTTP response, which is the only or the last event of a stream, as a line."""
    if media_type == "text/event-stream":
        data = [line[5:].strip() for line in body.splitlines() if line.startswith(b"data:")]
        body = data[-1] if data else b""
    return body.rstrip() + b"\n"


def check(answers: bytes, first: int, count: int) -> None:
    """Every call was answered once, without error, with its own sum as text and as structured content.

    Raises WrongAnswer.
    """
    try:
        got = {answer.id: answer.result for answer in _decode_lines(answers)}
    except msgspec.DecodeError as error:
        raise WrongAnswer(f"an answer is not what a call of add gives: {error}: {answers[:300]!r}") from None
    lines = answers.count(b"\n")
    if lines != count or got.keys() != set(range(first, first + count)):
        raise WrongAnswer(f"{count} calls from id {first} on got {lines} answers to {len(got)} ids")
    for number, result in got.items():
        text = [block.text for block in result.content]
        if result.is_error or text != [str(number + 2)] or result.structured.result != number + 2:
            raise WrongAnswer(f"add({number}, 2) was answered with {result}")


def _line(message: dict[str, object]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
