"""The HTTP servers under test, and the runs of wrk that are thrown away when an answer is wrong."""

import shutil
import sys

import pytest

from bench import load, web
from bench.measure import Skipped

SERVER = """
import http.server, json, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    calls = 0

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        arguments = message["params"]["arguments"]
        result = arguments["a"] + arguments["b"]
        Handler.calls += 1
        if sys.argv[1] == "wrong" or sys.argv[1] == "wrong later" and Handler.calls > 100 and result < 40_000_000:
            result += 1
        content = [{"type": "text", "text": str(result)}]
        answer = {"content": content, "structuredContent": {"result": result}, "isError": sys.argv[1] == "error"}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}).encode()
        self.send_response(500 if sys.argv[1] == "status" else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
"""

needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is absent")


def site(kind: str) -> web.Site:
    """A server that answers calls rightly, or in one of several wrong ways."""
    return web.Site([sys.executable, "-c", SERVER, kind])


@needs_wrk
def test_right_answers_give_a_rate() -> None:
    """A server whose answers are right has a figure."""
    with site("right") as server:
        assert web.Calls(server, "modern", "add").rate() > 0


@needs_wrk
@pytest.mark.parametrize("kind", ["wrong", "error", "status"])
def test_wrong_answers_in_the_first_run_void_it(kind: str) -> None:
    """A wrong sum, a tool error and an HTTP error are all found by looking at every answer of the first run."""
    with site(kind) as server, pytest.raises(load.WrongAnswer):
        web.Calls(server, "modern", "add")


@needs_wrk
def test_a_wrong_answer_beside_a_timed_run_voids_it() -> None:
    """The call that is checked before each timed run finds a server that went wrong after the first."""
    with site("wrong later") as server:
        calls = web.Calls(server, "modern", "add")
        with pytest.raises(load.WrongAnswer):
            calls.rate()


def test_without_wrk_the_part_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where wrk is absent the reason names it."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(Skipped, match="wrk is absent"):
        web.wrk()


def test_a_server_that_ends_at_once_says_why() -> None:
    """A server that does not listen is an error with what it wrote."""
    with pytest.raises(web.ServerFailed, match="no such thing"):
        web.Site([sys.executable, "-c", "raise SystemExit('no such thing')"])
