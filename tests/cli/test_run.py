"""`jackfield run`: what a target may be, what is said of one that is none, and how the process ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jackfield import Server
from jackfield.cli import run
from jackfield.cli.main import main
from tests.transport.talk import PATIENCE, Talk, call, environment, message, text

TWO = """
from jackfield import Server

class holder:
    inner = Server("inner")

one, other = Server("one"), Server("other")
nothing = 3
"""


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Each test runs in a folder of its own and leaves the interpreter's paths and modules as they were."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    before = dict(sys.modules)
    yield
    for name in sys.modules.keys() - before.keys():
        if not name.startswith("jackfield."):
            del sys.modules[name]


def write(path: str, source: str) -> None:
    """Write a file below the current folder."""
    file = Path(path)
    file.parent.mkdir(exist_ok=True)
    file.write_text(source, "utf-8")


def started(*arguments: str, **env: str) -> Talk:
    """A `jackfield` process."""
    return Talk([sys.executable, "-m", "jackfield", *arguments], env=env)


# ---- what a target may be


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("tiny", "tiny"),
        ("planner", "momentum-planner"),
        ("jackfield.servers.tiny:server", "tiny"),
        ("jackfield.servers.tiny", "tiny"),
        ("file.py", "only"),
        ("./folder/file.py", "server"),
        ("two.py:other", "other"),
        ("two.py:holder.inner", "inner"),
        ("two:one", "one"),
        ("package.module", "deep"),
        ("package.module:mcp", "deep"),
    ],
)
def test_targets(target: str, name: str) -> None:
    """A ready name, a file or a module, with or without the object's name, gives that server."""
    write("file.py", "from jackfield import Server\nanything = again = Server('only')\n")
    write("folder/file.py", "from jackfield import Server\nfirst, server = Server('first'), Server('server')\n")
    write("two.py", TWO)
    write("package/module.py", "from jackfield import Server\nmcp, spare = Server('deep'), Server('spare')\n")
    found = run.load(target)
    assert isinstance(found, Server)
    assert found.name == name


def test_a_file_is_imported_as_python_would() -> None:
    """It can import its neighbours, has its own name for what looks itself up, and is not `__main__`."""
    write("neighbour.py", "VALUE = 'from next door'\n")
    write(
        "file.py",
        "from __future__ import annotations\nimport dataclasses, sys\nimport neighbour\nfrom jackfield import Server\n"
        "@dataclasses.dataclass\nclass Kept:\n    mine: Kept | None = None\n"
        "assert sys.modules[Kept.__module__].Kept is Kept\n"
        "server = Server(neighbour.VALUE)\nif __name__ == '__main__':\n    raise SystemExit('run as a script')\n",
    )
    assert run.load("file.py").name == "from next door"


def test_a_file_named_as_a_known_module_takes_nothing_from_it() -> None:
    """A file that is called json.py is served, and everybody else keeps their json."""
    known = sys.modules["json"]
    write("json.py", "from jackfield import Server\nserver = Server('json')\n")
    assert run.load("json.py").name == "json"
    assert sys.modules["json"] is known


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("planer", "'planer' is no ready server (planner, tiny), and no module; a file is named file.py[:object]"),
        (".", "'.' is no ready server (planner, tiny), and no module; a file is named file.py[:object]"),
        ("nowhere.py", "there is no file nowhere.py"),
        ("nowhere.py:server", "there is no file nowhere.py"),
        ("folder.py", "there is no file folder.py"),
        ("no_such_module:server", "there is no module 'no_such_module'"),
        ("no.such:server", "there is no module 'no.such'"),
        ("json:server", "'server' in json:server is no jackfield Server"),
        ("two.py:nothing", "'nothing' in two.py:nothing is no jackfield Server"),
        ("two.py:missing.part", "'missing.part' in two.py:missing.part is no jackfield Server"),
        ("two.py", "two.py must have one jackfield Server (found: one, other); name it as two.py:object"),
        ("none.py", "none.py must have one jackfield Server (found: none); name it as none.py:object"),
    ],
)
def test_what_is_no_target(target: str, words: str) -> None:
    """A target that names no server is refused with words that say what is wrong and what would do."""
    write("two.py", TWO)
    write("none.py", "")
    Path("folder.py").mkdir()
    with pytest.raises(run.TargetError) as caught:
        run.load(target)
    assert str(caught.value) == words


@pytest.mark.parametrize("missing", ["no_such_thing", "broken_", "broke"])
def test_a_fault_inside_a_module_is_not_blamed_on_the_target(missing: str) -> None:
    """A module that is there but imports one that is not raises just that."""
    write("broken.py", f"import {missing}\n")
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{missing}'"):
        run.load("broken:server")


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("a.py", ("a.py", "", "")),
        ("a.py:b.c", ("a.py", ":", "b.c")),
        (r"C:\x\a.py", (r"C:\x\a.py", "", "")),
        (r"C:\x\a.py:b", (r"C:\x\a.py", ":", "b")),
        ("C:/x/a.py:b", ("C:/x/a.py", ":", "b")),
    ],
)
def test_a_drive_letter_is_part_of_the_path(target: str, parts: tuple[str, str, str]) -> None:
    """The colon behind a drive's letter parts nothing."""
    assert run._split(target) == parts


# ---- the command


def test_the_ready_servers_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """`jackfield servers` names each, one a line."""
    main(["servers"])
    assert capsys.readouterr().out.split() == ["planner", "tiny"]


@pytest.mark.parametrize("arguments", [[], ["run"], ["walk"], ["run", "a", "b"]])
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A command line that cannot be read ends with 2 and the usage."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: jackfield" in capsys.readouterr().err


@pytest.mark.parametrize(("source", "code"), [(None, 2), ("", 2), ("1 / 0", 3), ("import nowhere", 3), ("=", 3)])
def test_what_cannot_be_served_ends_with_a_line(source: str | None, code: int) -> None:
    """Exit 2 for what is no target, 3 for one that fails, the last line says why, and standard output stays empty."""
    if source is not None:
        write("file.py", source)
    process = subprocess.run(
        [sys.executable, "-m", "jackfield", "run", "file.py"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert process.returncode == code
    assert process.stdout == b""
    last = process.stderr.decode().splitlines()[-1]
    assert last.startswith("jackfield: ")
    assert "file.py" in last
    assert (b"Traceback" in process.stderr) == (code == 3)


def test_a_ready_server_is_served() -> None:
    """`jackfield run tiny` answers on standard output and ends with its input."""
    with started("run", "tiny") as talk:
        assert talk.ask(message(1, "server/discover"))["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]
        talk.close()
        assert talk.rest() == b""
        assert talk.wait() == 0


def test_nothing_that_is_printed_at_import_reaches_the_client() -> None:
    """The descriptors are taken before the import: what it prints, writes and starts goes to stderr (STDIO-2)."""
    write(
        "file.py",
        "import os, subprocess\nfrom jackfield import Server\nprint('printed')\nos.write(1, b'written\\n')\n"
        "subprocess.run(['echo', 'child'])\nserver = Server('loud')\n",
    )
    with started("run", "file.py", PYTHONUNBUFFERED="1") as talk:
        assert "result" in talk.ask(message(1, "server/discover"))
        talk.close()
        assert talk.rest() == b""
        assert talk.wait() == 0
    assert {"printed", "written", "child"} <= set(talk.stderr)


THREAD = """
import atexit, contextlib, sys, threading
from jackfield import Server

@contextlib.asynccontextmanager
async def lifespan(server):
    yield
    print("clean-up")

server = Server("threaded", lifespan=lifespan)
atexit.register(lambda: print("at exit"))

@server.tool
def hang() -> str:
    threading.Thread(target=threading.Event().wait).start()
    return "hangs"
"""


def test_a_thread_of_the_user_does_not_keep_the_process() -> None:
    """With a thread alive that is no daemon, clean-up and exit handlers run and the process ends with 0."""
    write("file.py", THREAD)
    with started("run", "file.py") as talk:
        assert text(talk.ask(call(1, "hang"))) == "hangs"
        talk.close()
        assert talk.wait() == 0
    assert talk.stderr[-2:] == ["clean-up", "at exit"]


def test_an_interrupt_before_the_start_is_no_traceback() -> None:
    """Ctrl-C while the file is being imported ends the process with 130 and without a word."""
    write("file.py", "import signal\nsignal.raise_signal(signal.SIGINT)\n")
    with started("run", "file.py") as talk:
        assert talk.wait() == 130
    assert talk.stderr == []


def test_a_lifespan_that_fails_is_reported() -> None:
    """What the lifespan raises is shown, and the process ends with 3."""
    write("file.py", THREAD.replace("    yield\n", "    raise OSError('no database')\n    yield\n"))
    with started("run", "file.py") as talk:
        assert talk.rest() == b""
        assert talk.wait() == 3
    assert "jackfield: file.py could not be served: no database" in talk.stderr


def test_a_module_needs_no_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the current folder is named like a ready server; its only server is found."""
    (tmp_path / "only_one_here.py").write_text("from jackfield import Server\nthing = Server('thing')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    assert run.load("only_one_here").name == "thing"
