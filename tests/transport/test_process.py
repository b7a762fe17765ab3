"""The stdio client's child process: started clean, watched closely, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield.protocol.errors import ConnectionClosed, RegistrationError, RequestTimeout
from jackfield.protocol.limits import Limits
from jackfield.transport.connection import Connection
from jackfield.transport.process import Child, Stdio, start

posix = pytest.mark.skipif(os.name == "nt", reason="process groups")

ECHO = """
import json, os, sys
def answer(message, result):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, params = message["method"], message.get("params")
    BODY
"""
"""A server whose loop body is to be filled in."""

QUICK = Limits(grace=0.2)


def _server(body: str) -> str:
    return ECHO.replace("BODY", textwrap.indent(body, "    ").strip())


def script(body: str) -> Stdio:
    """A server with this loop body."""
    return Stdio(sys.executable, "-c", _server(body))


def run(stdio: Stdio, limits: Limits | None = None) -> Child:
    """Start it, with a plain connection."""
    limits = limits or Limits()
    return start(stdio, lambda channel: Connection(channel, limits=limits, name="server"), limits)


@contextlib.asynccontextmanager
async def running(stdio: Stdio, limits: Limits | None = None) -> AsyncIterator[Child]:
    """A started server, closed in the end."""
    child = run(stdio, limits)
    try:
        yield child
    finally:
        await child.close()


async def ask(child: Child, method: str, params: Any = None) -> Any:
    """One request, and its decoded result."""
    connection = child.connection
    return msgspec.json.decode(await connection.request(connection.new_id(), method, params or {}))


def group_is_gone(pid: int) -> bool:
    """Whether no process of that group lives; zombies that wait for init do not count."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    found = subprocess.run(["ps", "-o", "stat=", "-g", str(pid)], capture_output=True, text=True, check=False)
    return all(state.startswith("Z") for state in found.stdout.split())


async def test_request_and_answer() -> None:
    """A request goes to the child's standard input, its answer comes from its output, closing ends it (STDIO-6)."""
    async with running(script("answer(message, {'pid': os.getpid(), 'method': method})")) as child:
        found = await ask(child, "a")
    assert found["method"] == "a"
    assert group_is_gone(found["pid"])


def test_request_and_answer_on_uvloop() -> None:
    """The same works on uvloop as on the standard loop."""
    uvloop = pytest.importorskip("uvloop")

    async def main() -> Any:
        async with running(script("answer(message, {'pid': os.getpid(), 'big': 'x' * 300_000})")) as child:
            found = await asyncio.gather(*[ask(child, "a", {"big": "y" * 300_000}) for _ in range(5)])
        return found[0]["pid"], {len(one["big"]) for one in found}

    pid, sizes = uvloop.run(main())
    assert sizes == {300_000}
    assert group_is_gone(pid)


async def test_environment_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child sees the usual variables and what `env` names, no secrets or shell functions of ours (STDIO-8, F75)."""
    monkeypatch.setenv("MY_SECRET", "s3cret")
    monkeypatch.setenv("TERM", "() { :; }; echo gotcha")
    stdio = script("answer(message, dict(os.environ))")
    stdio.env["FOR_CHILD"] = "yes"
    async with running(stdio) as child:
        found = await ask(child, "env")
    assert found["FOR_CHILD"] == "yes"
    assert found["PATH"] == os.environ["PATH"]
    assert not {"MY_SECRET", "TERM"} & set(found)


@posix
async def test_no_descriptor_is_leaked() -> None:
    """The child has its three standard descriptors and none of ours (STDIO-8)."""
    with open(os.devnull, "rb") as file:
        os.set_inheritable(file.fileno(), True)
        async with running(script("answer(message, sorted(os.listdir('/dev/fd')))")) as child:
            found = await ask(child, "fds")
        assert str(file.fileno()) not in found or found == ["0", "1", "2", "3"]  # 3 is the listing's own


@posix
async def test_command_is_found_on_the_childs_path(tmp_path: Path) -> None:
    """A command that only the child's PATH knows is found there (F75)."""
    tool = tmp_path / "only-here"
    tool.write_text(f"#!{sys.executable}\n" + _server("answer(message, sys.argv[1:])"))
    tool.chmod(0o755)
    async with running(Stdio("only-here", "x y", env={"PATH": str(tmp_path)})) as child:
        assert await ask(child, "a") == ["x y"]


@posix
async def test_command_with_a_path_is_relative_to_cwd(tmp_path: Path) -> None:
    """A command with a slash is taken from the child's working directory, like every file that the child opens."""
    tool = tmp_path / "tool"
    tool.write_text(f"#!{sys.executable}\n" + _server("answer(message, os.getcwd())"))
    tool.chmod(0o755)
    async with running(Stdio("./tool", cwd=tmp_path)) as child:
        assert os.path.samefile(await ask(child, "a"), tmp_path)


@pytest.mark.parametrize(
    ("stdio", "why"),
    [
        (Stdio("no-such-program", env={"PATH": "/nowhere"}), "no such program"),
        (Stdio("python", env={"PATH": ""}), "no such program"),
        (Stdio(__file__), "may not be executed"),
        (Stdio(sys.executable, cwd="/no/such/folder"), "there is no directory '/no/such/folder'"),
        (Stdio(sys.executable, env={"A=B": "c"}), "illegal environment variable name"),
    ],
)
async def test_what_cannot_be_started(stdio: Stdio, why: str) -> None:
    """What cannot be started gives one error that names the command, the reason and the PATH (F75)."""
    before = _open_descriptors()
    with pytest.raises(ConnectionClosed) as caught:
        run(stdio)
    text = str(caught.value)
    assert repr(stdio.command) in text
    assert why in text
    assert f"PATH of the child: {stdio.environment()['PATH']!r}" in text
    assert _open_descriptors() == before


@posix
async def test_file_without_interpreter(tmp_path: Path) -> None:
    """A program that the system itself refuses gives the same kind of error."""
    tool = tmp_path / "tool"
    tool.write_text("#!/no/such/interpreter\n")
    tool.chmod(0o755)
    with pytest.raises(ConnectionClosed, match=r"cannot start '.*tool'"):
        run(Stdio(tool))


def _open_descriptors() -> int:
    return len(os.listdir("/dev/fd")) if os.path.isdir("/dev/fd") else 0


async def test_stderr_is_always_drained() -> None:
    """A tool that writes a megabyte to standard error before it answers is not stuck, and only the end is kept (F9)."""
    body = "sys.stderr.write(('e' * 99 + chr(10)) * 10_000); answer(message, 'done')"
    async with running(script(body), Limits(stderr=1000)) as child:
        assert await ask(child, "a") == "done"
        await child.close()
        assert child.connection.closed is not None
        assert len(child._tail.text()) <= 1000


async def test_stderr_callback() -> None:
    """Each line of standard error goes to the callback; one that fails does no harm, nor does a line without end."""
    heard: list[str] = []
    enough = asyncio.Event()

    def listen(line: str) -> None:
        heard.append(line)
        if len(heard) == 3:
            enough.set()
        raise ValueError("not nice")

    stdio = script(
        "print('one\\nzwei \\u00fc', file=sys.stderr); print('x' * 5000, file=sys.stderr); answer(message, 1)"
    )
    stdio.stderr = listen
    stdio.env["PYTHONIOENCODING"] = "utf-8"
    async with running(stdio, Limits(stderr=1000)) as child:
        await ask(child, "a")
        await enough.wait()
    assert heard[:2] == ["one", "zwei ü"]
    assert "longer than 1000 bytes" in heard[2]


async def test_death_fails_all_calls() -> None:
    """When the process ends, all calls under way fail with its exit code and its last words (F11)."""
    async with running(script("if method == 'die': print('my last words', file=sys.stderr); sys.exit(3)")) as child:
        calls = await asyncio.gather(ask(child, "wait"), ask(child, "wait"), ask(child, "die"), return_exceptions=True)
        with pytest.raises(ConnectionClosed, match="ended with exit code 3"):
            await ask(child, "again")
    assert len(calls) == 3
    for fault in calls:
        assert isinstance(fault, ConnectionClosed)
        assert fault.exit_code == 3
        assert fault.stderr == "my last words"
        assert "my last words" in str(fault)


@posix
async def test_death_by_signal() -> None:
    """A process that was killed is reported with the signal's name (F11)."""
    async with running(script("os.kill(os.getpid(), 9)")) as child:
        with pytest.raises(ConnectionClosed, match="was ended by signal SIGKILL") as caught:
            await ask(child, "die")
    assert caught.value.exit_code == -9


@posix
async def test_closed_output_of_a_living_process() -> None:
    """A process that closes its output but lives is taken for gone, and ended (F11)."""
    body = "open('PID', 'w').write(str(os.getpid())); os.close(1); import time; time.sleep(600)"
    async with running(script(body.replace("'PID'", "params['file']")), QUICK) as child:
        with pytest.raises(ConnectionClosed, match="closed its standard output") as caught:
            await ask(child, "a", {"file": os.devnull})
        assert caught.value.exit_code is None
    assert group_is_gone(child._process.pid)


@posix
async def test_grandchild_that_holds_the_output() -> None:
    """The exit of the server counts though a process that it started keeps the output open; that is ended too (F3)."""
    body = "import subprocess; subprocess.Popen(['sleep', '600']); sys.exit(4)"
    async with running(script(body), QUICK) as child:
        with pytest.raises(ConnectionClosed) as caught:
            await ask(child, "a")
        assert caught.value.exit_code == 4
    assert group_is_gone(child._process.pid)


async def test_answers_before_the_exit_arrive() -> None:
    """What a process wrote before it ended is read to the end, however much it is."""
    async with running(script("answer(message, 'z' * 2_000_000); sys.exit(0)")) as child:
        assert len(await ask(child, "a")) == 2_000_000


@posix
async def test_stubborn_process_is_killed() -> None:
    """A server that ignores both the end of its input and SIGTERM is killed, with all that it started (STDIO-6, F3)."""
    body = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'])
answer(message, 1)
time.sleep(600)
"""
    child = run(script(body), QUICK)
    assert await ask(child, "a") == 1
    await child.close()
    assert group_is_gone(child._process.pid)


@posix
async def test_sigterm_comes_before_sigkill() -> None:
    """A server that outlives the end of its input is asked by SIGTERM first, and can end by itself (STDIO-6)."""
    body = """
import signal, time
def end(*_):
    print('goodbye', file=sys.stderr, flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
answer(message, 1)
while True:
    time.sleep(600)
"""
    heard: list[str] = []
    stdio = script(body)
    stdio.stderr = heard.append
    child = run(stdio, QUICK)
    await ask(child, "a")
    await child.close()
    assert child._exited.result() == 0
    assert heard == ["goodbye"]


@posix
async def test_descendants_of_a_leader_that_left() -> None:
    """What the server started in its group does not survive the close, though the server itself ended nicely (F3)."""
    child = run(script("import subprocess; subprocess.Popen(['sleep', '600'], stdout=2); answer(message, 1)"), QUICK)
    await ask(child, "a")
    await child.close()
    assert group_is_gone(child._process.pid)


async def test_close_by_many() -> None:
    """Any task may close, again and again; each waits to the end, and calls under way fail cleanly (F12)."""
    child = run(script("pass"))
    call = asyncio.create_task(ask(child, "never"))
    await asyncio.sleep(0)
    await asyncio.gather(*[asyncio.create_task(child.close()) for _ in range(3)])
    await child.close()
    assert child._exited.done()
    with pytest.raises(ConnectionClosed, match="was closed"):
        await call


async def test_close_lets_a_decent_server_end_by_itself() -> None:
    """A server with a call under way hears of its cancellation, then of the end of its input, and exits 0 (F12)."""
    heard: list[str] = []
    stdio = script("print(method, params, file=sys.stderr)")
    stdio.stderr = heard.append
    child = run(stdio)
    call = asyncio.create_task(ask(child, "tools/call"))
    await asyncio.sleep(0)
    await child.close()
    assert child._exited.result() == 0
    assert heard == ["tools/call {}", "notifications/cancelled {'requestId': 1}"]
    with pytest.raises(ConnectionClosed, match="was closed"):
        await call


@posix
async def test_close_does_not_wait_for_a_server_that_reads_nothing() -> None:
    """A server that takes nothing of what waits for it is ended all the same, step by step (F12, STDIO-6)."""
    child = run(script("import time; time.sleep(600)"), QUICK)
    call = asyncio.create_task(ask(child, "a", {"text": "x" * 1_000_000}))
    await asyncio.sleep(0)
    await child.close()
    assert group_is_gone(child._process.pid)
    with pytest.raises(ConnectionClosed, match="was closed"):
        await call


@posix
async def test_cancelled_closer() -> None:
    """Whoever waits for the close may be cancelled; the child is ended all the same (F3)."""
    child = run(script("import time; answer(message, 1); time.sleep(600)"), QUICK)
    await ask(child, "a")
    closer = asyncio.create_task(child.close())
    await asyncio.sleep(0)
    closer.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closer
    await child.close()
    assert group_is_gone(child._process.pid)


@posix
def test_loop_that_ends_without_a_close() -> None:
    """A child that nobody closed is ended when its loop is torn down."""

    async def main() -> Child:
        child = run(script("import time; answer(message, 1); time.sleep(600)"))
        await ask(child, "a")
        return child

    child = asyncio.run(main())
    assert child._process.wait(10) == -signal.SIGKILL


@posix
def test_interpreter_that_exits_without_a_close(tmp_path: Path) -> None:
    """A child that nobody closed is ended when the interpreter exits, even if it ignores the end of its input (F1)."""
    program = """
import asyncio, sys
from jackfield.protocol.limits import Limits
from jackfield.transport.connection import Connection
from jackfield.transport.process import Stdio, start
async def main():
    child = start(Stdio(sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"), Connection, Limits())
    print(child._process.pid, flush=True)
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert group_is_gone(int(done.stdout))


async def test_awake_by_output() -> None:
    """A server that has written anything has shown that it runs."""
    async with running(
        Stdio(sys.executable, "-c", "import sys; print('hello', file=sys.stderr); sys.stdin.read()")
    ) as child:
        await child.awake()
        assert child.connection.closed is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much a pipe holds")
async def test_awake_by_reading() -> None:
    """A server that has read what was sent, without a word, has shown that it runs."""
    read_then_wait = "import os, time; os.read(0, 65536); time.sleep(600)"
    async with running(Stdio(sys.executable, "-c", read_then_wait), QUICK) as child:
        await child.connection.notify("hello", {})
        await child.awake()
        assert child.connection.closed is None


async def test_input_that_the_server_closed() -> None:
    """A server that closed its input cannot be asked anything: the call fails, and the process is ended."""
    body = "answer(message, 1); sys.stdin.close(); os.close(0); import time; time.sleep(600)"
    async with running(script(body), QUICK) as child:
        await ask(child, "a")
        calls = [asyncio.create_task(ask(child, "b"))]
        while not calls[0].done():  # until the pipe is really closed, the system still takes what is sent
            await child.connection.notify("anything", {})
            await asyncio.sleep(0.01)
        with pytest.raises(ConnectionClosed, match="closed its standard input"):
            await calls[0]


async def test_answers_are_read_while_requests_wait() -> None:
    """A server that reads on only when its answer was taken gets on, however much waits to be sent to it."""
    async with running(script("answer(message, 'z' * 300_000)"), Limits(outgoing=1000)) as child:
        answers = await asyncio.gather(*[ask(child, "a", {"big": "y" * 300_000}) for _ in range(8)])
    assert [len(answer) for answer in answers] == [300_000] * 8


async def test_server_that_does_not_read() -> None:
    """A server that stopped reading does not outlast the time of a call that was not even sent whole (CAN-5)."""
    async with running(Stdio(sys.executable, "-c", "import time; time.sleep(600)"), QUICK) as child:
        connection = child.connection
        big = {"big": "x" * 3_000_000}
        calls = [connection.request(id, "a", big, timeout=0.05) for id in (1, 2)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [RequestTimeout] * 2


def test_repr_keeps_secrets() -> None:
    """The description shows which variables are set, never their values."""
    stdio = Stdio("python", Path("server.py"), "--flag", env={"API_KEY": "s3cret"}, cwd="/srv")
    assert repr(stdio) == "Stdio('python', 'server.py', '--flag', env=['API_KEY'], cwd='/srv')"
    assert stdio.label == "python server.py"
    assert Stdio("/usr/bin/tool", "--token", "s3cret").label == "tool"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stdio(7),  # type: ignore[arg-type]
        lambda: Stdio("python", 7),  # type: ignore[arg-type]
        lambda: Stdio("python", env={"A": 7}),  # type: ignore[dict-item]
        lambda: Stdio("pyth\0on"),
        lambda: Stdio(["python", "server.py"]),  # type: ignore[arg-type]
    ],
)
def test_description_that_is_wrong(make: Callable[[], Stdio]) -> None:
    """A part that is no text is refused when it is written down, not when it is started."""
    with pytest.raises(RegistrationError, match="must be text"):
        make()
