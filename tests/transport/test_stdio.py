"""What the stdio server does with what it reads, and that nothing but answers ever reaches its output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from jackfield.protocol.limits import Limits
from tests.transport.talk import META, Talk, call, message, text

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells how much memory a process had")


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    """One server for all tests that leave it as it was."""
    with Talk(env={"SERVED_PRINT": "1"}) as talk:
        yield talk
        talk.close()
        assert talk.rest() == b""
        assert talk.wait() == 0
        assert talk.stderr[-1] == "ended"


def raw(id: object, method: str, **members: object) -> bytes:
    """A line that need not be right."""
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, **members}).encode() + b"\n"


# ---- nothing else on standard output


def test_what_tools_print_goes_to_standard_error(talk: Talk) -> None:
    """print, sys.stdout.buffer, descriptor 1 and a child's output never reach the client's stream (STDIO-2)."""
    assert text(talk.ask(call("p1", "pollute"))) == "done"
    for line in ("printed before the start", "printed — 日本", "buffered", "written", "from a child"):
        talk.says(line)


def test_nobody_else_reads_the_input(talk: Talk) -> None:
    """A handler and its children find an empty standard input and inherit no descriptor of the protocol (STDIO-2)."""
    talk.send(call("s1", "steal"), call("s2", "add", a=1, b=1))
    answers = talk.answers(2)
    assert json.loads(text(answers["s1"])) == ["", "", 0]
    assert text(answers["s2"]) == "2"


@pytest.mark.parametrize("encoding", ["cp1252", "cp932"])
def test_the_platform_has_no_say_in_the_bytes(encoding: str) -> None:
    """In any locale output is UTF-8 with LF alone, and printing what the locale lacks fails nothing (F5, STDIO-1)."""
    env = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C"}
    with Talk(env=env) as talk:
        talk.send(message(1, "tools/list"), call(2, "pollute"), call(3, "echo", text="— 日本\u0085"))
        talk.close()
        lines = talk.rest().split(b"\n")
        assert talk.wait() == 0
    assert lines.pop() == b""
    assert len(lines) == 3
    assert not any(b"\r" in line for line in lines)
    assert "Add two numbers — 二つの数を足す.".encode() in lines[0]
    assert sorted(text(json.loads(line)) for line in lines[1:]) == ["done", "— 日本\u0085"]


# ---- lines


def test_line_ends_and_blank_lines(talk: Talk) -> None:
    """CRLF ends a line as LF does, blank lines are nothing, and a line may come in pieces (F5, STDIO-1)."""
    one = call("l1", "add", a=1, b=1)
    talk.send(b"\r\n\n", one[:-1] + b"\r\n", b"\n", one.replace(b"l1", b"l2")[:30])
    assert text(talk.read()) == "2"
    talk.send(one.replace(b"l1", b"l2")[30:])
    assert talk.read()["id"] == "l2"


@pytest.mark.parametrize("escaped", [False, True])
def test_only_lf_ends_a_line(talk: Talk, escaped: bool) -> None:
    """U+2028, U+2029, U+0085 and others that Python takes for line ends pass both ways unchanged (F23)."""
    odd = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\rh"
    line = json.dumps(
        {"jsonrpc": "2.0", "id": "u1", "method": "tools/call"}
        | {"params": {"name": "echo", "arguments": {"text": odd}, "_meta": META}},
        ensure_ascii=escaped,
    )
    assert text(talk.ask(line.encode() + b"\n")) == odd


# ---- what cannot be read


@pytest.mark.parametrize(
    ("line", "id", "code"),
    [
        (b"\xff\xfe\n", None, -32700),
        (call("b1", "echo", text="AB").replace(b"AB", b"A\xffB"), "b1", -32700),
        (raw(None, "tools/list", params={"_meta": META}), None, -32600),
        (b"[" + raw(1, "ping")[:-1] + b"," + raw(2, "ping")[:-1] + b"]\n", None, -32600),
        (b"[]\n", None, -32600),
        (raw("b2", "ping").replace(b"2.0", b"1.0"), "b2", -32600),
        (b'{"id":"b3","method":"ping"}\n', "b3", -32600),
        (b'{"jsonrpc":"2.0","id":"b4","method":"ping","params":NaN}\n', "b4", -32700),
    ],
)
def test_what_is_no_message_is_answered_and_passed_by(talk: Talk, line: bytes, id: object, code: int) -> None:
    """One error with the right code, with the id where it can be known, and the next line is served (F4, F30, F33)."""
    talk.send(line, call("after", "add", a=2, b=2))
    answers = talk.answers(2)
    after = answers.pop("after")
    [(found, answer)] = answers.items()
    assert answer["error"]["code"] == code
    assert id in (None, found)
    assert text(after) == "4"


@pytest.mark.parametrize("depth", [100, 10_000, 1_000_000])
@pytest.mark.parametrize("brackets", [(b"[", b"]"), (b'{"a":', b"}")], ids=["array", "object"])
def test_deep_json_is_refused(talk: Talk, depth: int, brackets: tuple[bytes, bytes]) -> None:
    """Nesting beyond the limit gives -32700 with the id and the limit's name, closed or not; the server lives (T13)."""
    opened, closed = brackets[0] * depth, b"1" + brackets[1] * depth
    for tail in (closed + b"}", b""):
        talk.send(b'{"jsonrpc":"2.0","id":"d1","method":"tools/call","params":' + opened + tail + b"\n")
        said = talk.read()
        assert said["error"]["code"] == -32700
        assert "limit `depth`" in said["error"]["message"]
        assert said.get("id") in ("d1", None)
    assert text(talk.ask(call("d2", "add", a=1, b=1))) == "2"


def test_a_line_of_exactly_the_limit_passes() -> None:
    """`line` bytes are served, one more is refused with the limit's name, and the next line is served (T15)."""
    limit = 20_000
    line = call("x", "echo", text="")
    fits = line.replace(b'"text": ""', b'"text": "%b"' % (b"x" * (limit - len(line) + 1)))
    assert len(fits) == limit + 1  # with the LF
    with Talk(limits={"line": limit}) as talk:
        assert len(text(talk.ask(fits))) == limit - len(line) + 1
        assert len(text(talk.ask(fits[:-1] + b"\r\n"))) == limit - len(line) + 1
        said = talk.ask(fits.replace(b"xx", b"xxx", 1))
        assert said["error"]["code"] == -32700
        assert f"{limit} bytes (limit `line`)" in said["error"]["message"]
        assert text(talk.ask(call("y", "add", a=1, b=1))) == "2"


@linux
def test_a_line_without_end_is_refused_in_bounded_memory() -> None:
    """128 MiB without an LF: refused as soon as the limit is passed, never kept, and the next line is served (T15)."""
    with Talk() as talk:
        assert text(talk.ask(call(1, "add", a=1, b=1))) == "2"
        before = talk.peak()
        junk = b"x" * 2**20
        for _ in range(17):
            talk.send(junk)
        said = talk.read()
        assert said["error"]["code"] == -32700
        assert "id" not in said
        for _ in range(111):
            talk.send(junk)
        talk.send(b"\n", call(2, "add", a=2, b=2))
        assert text(talk.read()) == "4"
        # The line that is being read, and room for its growth.
        assert talk.peak() - before < 3 * Limits().line / 2**20


# ---- methods and order


def test_unknown_methods_and_late_notices(talk: Talk) -> None:
    """An unknown method gives a short -32601; unknown notices and idle cancels give nothing (F34, CAN-3, BASE-4)."""
    said = talk.ask(message("m1", "no/such/method"))
    assert (said["id"], said["error"]["code"]) == ("m1", -32601)
    assert len(said["error"]["message"]) < 100
    notices = [
        b'{"jsonrpc":"2.0","method":"notifications/unknown"}\n',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"m1"}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled"}\n',
        b'{"jsonrpc":"2.0","id":99,"result":{}}\n',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"what?"}}\n',
    ]
    talk.send(*notices)
    assert text(talk.ask(call("m2", "add", a=1, b=1))) == "2"


def test_the_handshake_out_of_order() -> None:
    """A request before `initialize` is refused with words, one right behind it is served, and twice is fine (F34)."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    with Talk() as talk:
        said = talk.ask(raw(1, "tools/list"))
        assert said["error"]["code"] == -32602
        assert "initialize" in said["error"]["message"]
        talk.send(raw(2, "initialize", params=hello), raw(3, "tools/list"), raw(4, "initialize", params=hello))
        answers = talk.answers(3)
        assert all("result" in answer for answer in answers.values())
        assert answers[2]["result"]["protocolVersion"] == "2025-06-18"


def test_a_cancelled_call_is_not_answered(talk: Talk) -> None:
    """After a cancel nothing is sent for the request, whether it runs on the loop or on a thread (STDIO-4)."""
    waiting = talk.stderr.count("waiting")
    talk.send(call("c1", "wait"), call("c2", "block"))
    talk.says("waiting", waiting + 2)
    for id in ("c1", "c2"):
        talk.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"%b"}}\n' % id.encode())
    assert talk.ask(call("c3", "add", a=1, b=1))["id"] == "c3"


def test_stuck_calls_leave_the_server_responsive() -> None:
    """With 256 calls stuck and 256 more waiting, pings are answered, cancels heard, and the rest told "server busy"."""
    ping = raw("ping", "ping")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    with Talk(limits={"drain": 0.1}) as talk:
        assert "result" in talk.ask(raw("i", "initialize", params=hello))
        talk.send(*[call(id, "wait") for id in range(256)])
        talk.says("waiting", 256)
        talk.send(*[call(id, "add", a=id, b=0) for id in range(256, 514)], ping)
        refused = talk.answers(3)
        assert refused.pop("ping")["result"] == {}
        assert sorted(refused) == [512, 513]
        assert all(
            answer["error"]["code"] == -32603 and "server busy" in answer["error"]["message"]
            for answer in refused.values()
        )
        cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}\n'
        talk.send(cancel)
        assert sorted(talk.answers(256)) == list(range(256, 512))
        talk.close()
        assert talk.rest() == b""
        assert talk.wait() == 0


@linux
def test_a_client_that_does_not_read_costs_bounded_memory() -> None:
    """300 calls with 100 kB each and nothing read: memory is what runs times its size, and all answers come."""
    with Talk() as talk:
        assert text(talk.ask(call(1, "add", a=1, b=1))) == "2"
        before = talk.peak()
        talk.send(*[call(id, "big", size=100_000) for id in range(300)])
        talk.says("big", 100)
        answers = talk.answers(300)
        assert {len(text(answer)) for answer in answers.values()} == {100_000}
        assert talk.peak() - before < 3 * 26


@linux
def test_results_far_beyond_the_memory_go_out_as_they_are_read() -> None:
    """Of 400 MB of results there is never more than the places allow, 8 at a time and what is being put together."""
    with Talk(limits={"running": 8, "queued": 500}) as talk:
        assert text(talk.ask(call(0, "add", a=1, b=1))) == "2"
        before = talk.peak()
        talk.send(*[call(id, "big", size=1_000_000) for id in range(400)])
        talk.says("big", 8)
        assert talk.process.stdout is not None
        size = lines = 0
        while lines < 400:
            part = talk.process.stdout.read(1 << 20)
            assert part
            size, lines = size + len(part), lines + part.count(b"\n")
        assert size > 400_000_000
        assert talk.peak() - before < 60
