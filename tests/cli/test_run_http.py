"""`jackfield run TARGET --http`: what the flags mean, what they refuse, and a served target."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from jackfield import Server
from jackfield.cli.main import main
from tests.transport.talk import META, PATIENCE, Talk

HERE = {"host": "127.0.0.1", "port": 8000}


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What `Server.run` was called with; nothing is served."""
    called: list[tuple[str, dict[str, Any]]] = []

    def run(_: Server, transport: str = "stdio", **options: Any) -> None:
        called.append((transport, options))

    monkeypatch.setattr(Server, "run", run)
    monkeypatch.delenv("JACKFIELD_TOKEN", raising=False)
    return called


def ran(*arguments: str) -> int:
    """The exit code of `jackfield run tiny` with flags."""
    with pytest.raises(SystemExit) as caught:
        main(["run", "tiny", *arguments])
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ([], HERE),
        (["9000"], {"host": "127.0.0.1", "port": 9000}),
        (["0"], {"host": "127.0.0.1", "port": 0}),
        (["localhost"], {"host": "localhost"}),
        (["0.0.0.0:80"], {"host": "0.0.0.0", "port": 80}),
        (["[::1]:9000"], {"host": "::1", "port": 9000}),
        (["[::1]"], {"host": "::1"}),
        (["::1"], {"host": "::1"}),
        (["unix:/run/x.sock"], {"uds": "/run/x.sock"}),
    ],
)
def test_addresses(address: list[str], expected: dict[str, Any], runs: list[Any]) -> None:
    """`--http` takes a port, a host, both, or the path of a Unix domain socket."""
    assert ran("--http", *address) == 0
    assert runs == [("http", expected)]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (":8000", "':8000' names no host; 127.0.0.1:PORT is this machine alone"),
        ("", "'' names no host"),
        ("a:b", "'b' is no port"),
        ("a:65536", "'65536' is no port"),
        ("99999", "'99999' is no port"),
        ("a:-1", "'-1' is no port"),
        ("a:٣", "'٣' is no port"),
        ("[::1", "'[::1' is not [ADDRESS]:PORT"),
        ("[::1]8000", "'[::1]8000' is not [ADDRESS]:PORT"),
        ("unix:", "unix: names no path"),
    ],
)
def test_what_is_no_address(address: str, words: str, runs: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """An address that cannot be is wrong use, and the line says why."""
    assert ran("--http", address) == 2
    assert words in capsys.readouterr().err
    assert runs == []


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--path", "/x"], {"path": "/x"}),
        (["--workers", "3"], {"workers": 3}),
        (["--insecure"], {"insecure": True}),
        (["--stateless"], {"stateless": True}),
        (["--health"], {"health": True}),
        (["--token", "secret"], {"token": "secret"}),
        (["--token"], {"token": True}),
        (["--allowed-host", "a", "--allowed-host", "b"], {"allowed_hosts": ["a", "b"]}),
        (["--allowed-origin", "https://a"], {"allowed_origins": ["https://a"]}),
    ],
)
def test_flags(flags: list[str], options: dict[str, Any], runs: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Each flag is handed on as the option of `Server.run`; without --http it is wrong use that names the flag."""
    assert ran("--http", "--health", *flags) == 0
    assert runs == [("http", {**HERE, "health": True, **options})]
    runs.clear()
    assert ran(*flags) == 2
    assert f"{flags[0]}: only for a server over HTTP, which --http asks for" in capsys.readouterr().err
    assert runs == []


@pytest.mark.parametrize("flags", [["--workers", "many"], ["--token", ""]])
def test_values_that_cannot_be(flags: list[str], runs: list[Any]) -> None:
    """A value that a flag does not take is wrong use."""
    assert ran("--http", "--health", *flags) == 2
    assert runs == []


@pytest.mark.parametrize(
    ("flags", "token"),
    [([], "from outside"), (["--token"], "from outside"), (["--token", "given"], "given")],
)
def test_the_token_of_the_environment(
    flags: list[str], token: str, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JACKFIELD_TOKEN guards the server unless another token is given, and no child of the server inherits it."""
    monkeypatch.setenv("JACKFIELD_TOKEN", "from outside")
    assert ran("--http", *flags) == 0
    assert runs == [("http", {**HERE, "token": token})]
    assert "JACKFIELD_TOKEN" not in os.environ


def test_standard_input_and_output_are_the_default(runs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --http the target is served as before, whatever token stands in the environment."""
    monkeypatch.setenv("JACKFIELD_TOKEN", "from outside")
    monkeypatch.setattr("jackfield.transport.stdio.take_over", lambda: "taken")
    assert ran() == 0
    assert runs == [("stdio", {"descriptors": "taken"})]


# ---- as a process


def started(*arguments: str, **env: str) -> Talk:
    """A `jackfield run` process."""
    return Talk([sys.executable, "-m", "jackfield", "run", *arguments], env={"JACKFIELD_TOKEN": "", **env})


def asked(talk: Talk, **headers: str) -> tuple[int, Any]:
    """The status and the answer of a modern tools/call to the address that was announced."""
    pattern = re.compile(r"jackfield: serving \S+ at http://127\.0\.0\.1:(\d+)/mcp")
    talk.until(lambda lines: any(pattern.fullmatch(line) for line in lines))
    [port] = [int(found[1]) for line in talk.stderr if (found := pattern.fullmatch(line))]
    params = {"name": "where", "arguments": {}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    usual = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": "where",
    }
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("POST", "/mcp", body, {**usual, **headers})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


SERVER = """
import os
from jackfield import Server
server = Server("placed")
print("printed")

@server.tool
def where() -> str:
    return os.environ.get("JACKFIELD_TOKEN", "no token")
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    """A file with a server."""
    path = tmp_path / "placed.py"
    path.write_text(SERVER)
    return str(path)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_target_is_served_over_http(target: str) -> None:
    """The address is announced, a call is answered, what is printed stays on standard output, SIGTERM ends with 0."""
    with started(target, "--http", "0") as talk:
        status, answer = asked(talk)
        assert (status, answer["result"]["content"][0]["text"]) == (200, "no token")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == 0
        assert talk.rest() == b"printed\n"


def test_a_token_that_is_made_is_told_once(target: str) -> None:
    """`--token` alone makes a token, which lets its bearer in and nobody else."""
    with started(target, "--http", "0", "--token") as talk:
        assert asked(talk)[0] == 401
        [line] = [line for line in talk.stderr if "token of this run" in line]
        assert asked(talk, Authorization=f"Bearer {line.split()[-1]}")[0] == 200


def test_the_token_of_the_environment_guards(target: str) -> None:
    """JACKFIELD_TOKEN lets its bearer in and nobody else, is not told again, and is hidden from the target."""
    with started(target, "--http", "0", JACKFIELD_TOKEN="from-outside") as talk:
        assert asked(talk, Authorization="Bearer wrong")[0] == 401
        status, answer = asked(talk, Authorization="Bearer from-outside")
        assert (status, answer["result"]["content"][0]["text"]) == (200, "no token")
    assert not any("from-outside" in line for line in talk.stderr)


def test_an_open_door_needs_the_wish(target: str) -> None:
    """Listening on every address without a token ends with 2 and one line that says what to do (T03)."""
    with started(target, "--http", "0.0.0.0:0") as talk:
        assert talk.wait() == 2
    [line] = talk.stderr
    assert line.startswith("jackfield: 0.0.0.0 can be reached from other machines")
    assert "--token" in line
    assert "--insecure" in line


def test_a_port_in_use_is_one_line(target: str) -> None:
    """A second server on a port ends with 2 and a line that names it."""
    with started(target, "--http", "0") as first:
        asked(first)
        [port] = [line.split(":")[-1].split("/")[0] for line in first.stderr if "serving" in line]
        with started(target, "--http", port) as second:
            assert second.wait() == 2
    assert second.stderr == [f"jackfield: cannot listen on 127.0.0.1 port {port}: it is in use already"]


def test_a_lifespan_that_fails_over_http_is_reported(tmp_path: Path) -> None:
    """What the lifespan raises is shown, and the process ends with 3."""
    path = tmp_path / "failing.py"
    path.write_text(
        "import contextlib\nfrom jackfield import Server\n"
        "@contextlib.asynccontextmanager\nasync def lifespan(server):\n    raise OSError('no database')\n    yield\n"
        "server = Server('failing', lifespan=lifespan)\n"
    )
    with started(str(path), "--http", "0") as talk:
        assert talk.wait() == 3
    assert talk.stderr[-1] == f"jackfield: {path} could not be served: no database"
