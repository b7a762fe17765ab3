"""The guide is true: its examples run and print what they show, and its tables agree with the code."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import fields

import jackfield
from jackfield import Limits, Server
from jackfield.cli import main as command_line
from jackfield.cli.run import load
from jackfield.protocol.methods import METHODS, Method
from jackfield.protocol.revisions import REVISIONS, Revision

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
each_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}

# ---- the examples

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE_NAME = re.compile(r"# (\w+\.py)\n")


class Block(NamedTuple):
    """A fenced block; `line` is where its text begins, `gap` what stands between it and the block before."""

    language: str
    text: str
    line: int
    gap: str

    @property
    def file(self) -> str | None:
        """The name that the block's first line gives it as a file."""
        match = _FILE_NAME.match(self.text)
        return match[1] if match and self.language == "python" else None


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    found: list[Block] = []
    end = 0
    for match in _FENCE.finditer(text):
        found.append(Block(match[1], match[2], text.count("\n", 0, match.start()) + 2, text[end : match.start()]))
        end = match.end()
    assert len(re.findall(r"^\s*```", text, re.MULTILINE)) == 2 * len(found), "a fence that is not plain"
    return found


def save_files(page: Path, folder: Path) -> None:
    """Save the blocks of a page that are files."""
    for block in blocks_of(page.read_text("utf-8")):
        if block.file:
            (folder / block.file).write_text(block.text, "utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder that modules can be imported from; they, and the path, are forgotten in the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]


URL = "http://127.0.0.1:8000/mcp"
"""Where pages say that their server is; in the tests it is at a free port."""


@contextlib.contextmanager
def served(page: Path, folder: Path) -> Iterator[str]:
    """The URL of the first server that a page saves to a file, where the page calls one over HTTP."""
    text = page.read_text("utf-8")
    if URL not in text:
        yield URL
        return
    file = next(block.file for block in blocks_of(text) if block.file)
    command = [sys.executable, "-m", "jackfield", "run", file, "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = None
            said = ""
            while found is None:
                line = process.stderr.readline()
                assert line, said
                said += line
                found = re.search(r"http://\S+", line)
            yield found[0]
        finally:
            process.terminate()
            process.communicate(timeout=10)


def run_block(block: Block, page: Path, names: dict[str, Any], url: str) -> str:
    """Run one python block as a reader would, and return what it prints."""
    file = block.file
    if file and file.startswith("test_"):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return ""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if file:
            importlib.import_module(file.removesuffix(".py"))
        else:
            text = block.text.replace(URL, url)
            exec(compile("\n" * (block.line - 1) + text, page, "exec"), names)
    return printed.getvalue()


@each_page
def test_examples_run_and_print_what_they_show(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each python block runs, in order and in one namespace; the text block below it is all that it prints."""
    save_files(page, folder)
    with served(page, folder) as url:
        run_page(page, url, monkeypatch)


def run_page(page: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    printed: str | None = None
    line = 0
    for block in [*blocks_of(page.read_text("utf-8")), Block("", "", 0, "")]:
        if block.language == "text":
            assert printed, f"{page.name}:{block.line}: nothing printed this"
            assert block.gap.isspace(), f"{page.name}:{block.line}: output stands right below its example"
            assert printed == block.text, f"{page.name}:{line} prints:\n{printed}"
            printed = None
            continue
        assert not printed, f"{page.name}:{line} prints what the page does not show:\n{printed}"
        if block.language == "python":
            line, printed = block.line, run_block(block, page, vars(module), url)


@each_page
def test_commands_exist(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command of a sh block can be given: its verb exists, and so does the file or server that it names."""
    save_files(page, folder)
    verbs = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for block in blocks_of(page.read_text("utf-8")):
        assert block.language in ("python", "text", "sh"), f"{page.name}:{block.line}: {block.language!r}"
        for command in block.text.splitlines() if block.language == "sh" else ():
            words = shlex.split(command, comments=True)
            if words[0] == "make":
                assert words[1] in verbs, command
            elif words[0] == "python":
                assert (folder / words[1]).is_file(), command
            else:
                assert words[0] == "jackfield", command
                with pytest.raises(SystemExit) as ended:
                    command_line.main([words[1], "--help"])
                assert ended.value.code == 0, command
                assert words[1] != "run" or isinstance(load(words[2]), Server), command
    capsys.readouterr()


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    """Each link of a page to another file, or to a heading, finds it."""
    for target, anchor in re.findall(r"\]\(([^)#:]*)(#[\w-]+)?\)", page.read_text("utf-8")):
        if target.startswith("bench/"):
            continue  # `make bench` writes it
        other = page.parent / target if target else page
        assert other.is_file(), target
        titles = re.findall(r"^#+ (.*)$", other.read_text("utf-8"), re.MULTILINE)
        anchors = {"#" + re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert not anchor or anchor in anchors, f"{target}{anchor}"


# ---- what must be told


def test_every_public_name_is_told_of() -> None:
    """Each name of the front door stands in the guide."""
    text = "\n".join([page.read_text("utf-8") for page in PAGES])
    missing = [name for name in jackfield.__all__ if not re.search(rf"\b{name}\b", text)]
    assert missing == []


def rows_below(heading: str, page: str) -> list[list[str]]:
    """The cells of the first table below a heading, its head left out."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    section = re.split(rf"^#+ {heading}$", text, flags=re.MULTILINE)[1]
    lines = [line for line in re.split(r"^#+ ", section, flags=re.MULTILINE)[0].splitlines() if line.startswith("|")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def as_shown(value: float) -> str:
    """A limit as the table shows it."""
    if isinstance(value, float):
        return f"{value:g} s"
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if value % size == 0:
            return f"{value // size} {unit}"
    return str(value)


def test_the_limits_are_those_of_the_code() -> None:
    """The table of limits has each field of Limits, in order, with its default."""
    told = [[row[0].strip("`"), row[1]] for row in rows_below("Limits", "server.md")]
    counts = ("running", "asking", "queued", "requests", "sessions")
    shown = {
        field.name: str(field.default) if field.name in counts else as_shown(field.default) for field in fields(Limits)
    }
    assert told == [[name, value] for name, value in shown.items()]


# ---- the tables of protocol.md

FACTS = {
    "era": "era",
    "http": "HTTP",
    "batches": "several messages in one frame",
    "tool_annotations": "hints of tools",
    "audio": "audio",
    "progress_message": "a message with progress",
    "completions_capability": "completion is declared",
    "title": "titles, and `_meta` of definitions",
    "resource_link": "resource links",
    "output_schema": "structured content",
    "completion_context": "completion knows the other arguments",
    "elicitation": "elicitation",
    "version_header": "HTTP: the version header",
    "icons": "icons, website",
    "form_choices": "elicitation: titled and multiple choices",
    "sampling_tools": "sampling with tools",
    "argument_faults_in_result": "arguments that do not fit",
    "stream_polling": "HTTP: polled streams",
    "core_tasks": "tasks, in the protocol itself",
    "resource_missing": "no such resource",
    "headers": "HTTP: mirrored headers",
    "caching": "how long results stay fresh",
    "extensions": "extensions",
}
"""What the table calls each fact of a revision."""


def fact(revision: Revision, name: str) -> str:
    """One cell of the table of revisions."""
    value = getattr(revision, name)
    if name == "argument_faults_in_result":
        return "`isError`" if value else "-32602"
    if name == "output_schema":
        return {"object": "objects", "any": "any JSON", None: "-"}[value]
    if isinstance(value, frozenset):
        return ", ".join(sorted(value)) or "-"
    return {True: "yes", False: "-"}[value] if isinstance(value, bool) else str(value)


def table(rows: list[list[str]]) -> str:
    """Rows as they should stand in the page."""
    return "\n" + "\n".join(["| " + " | ".join(row) + " |" for row in rows])


def test_the_revisions_are_those_of_the_code() -> None:
    """The table of revisions has each fact of each revision, oldest first."""
    oldest_first = REVISIONS[::-1]
    names = [field.name for field in fields(Revision) if field.name != "name"]
    wanted = [[FACTS[name], *[fact(revision, name) for revision in oldest_first]] for name in names]
    assert rows_below("The revisions", "protocol.md") == wanted, table(wanted)


async def answers(server: Server, *frames: bytes) -> list[dict[str, Any]]:
    """What a server answers to raw frames; a ping behind them, which is left out, shows that no more will come."""
    ended = asyncio.Event()
    heard: list[dict[str, Any]] = []
    channels: list[Any] = []

    class Ear:
        farewell: asyncio.Task[None] | None = None

        def receive(self, frame: bytes) -> None:
            answer = json.loads(frame)
            if answer.get("id") == "last":
                ended.set()
            else:
                heard.append(answer)

    def make(channel: Any) -> Any:
        channels.append(channel)
        return Ear()

    ear: Any = await server.__mcp_connect__(make)
    for frame in (*frames, b'{"jsonrpc":"2.0","id":"last","method":"ping"}'):
        channels[0].write(frame)
    async with asyncio.timeout(10):
        await ended.wait()
    channels[0].close()
    await ear.farewell
    return heard


def everything() -> Server:
    """A server with a handler of each kind."""
    server = Server("all")
    server.add_tool(lambda: "", name="tool")
    server.add_resource("all://{name}", lambda name: name)
    server.add_prompt(lambda text: text, name="prompt")
    server.add_completion("prompt", "text", lambda text: [text])
    return server


async def is_served(server: Server, method: Method) -> bool:
    """Whether a server of this release answers the method in a revision that has it."""
    ask: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method.name, "params": {"_meta": META}}
    frames = [ask]
    if "2026-07-28" not in method.revisions:
        info = {"name": "test", "version": "1"}
        begin = {"protocolVersion": max(method.revisions), "capabilities": {}, "clientInfo": info}
        frames = [{"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin}, {**ask, "params": {}}]
    heard = await answers(server, *[json.dumps(frame).encode() for frame in frames])
    (answer,) = [answer for answer in heard if answer["id"] == 1]
    return answer.get("error", {}).get("code") != -32601


async def test_the_methods_are_those_of_the_code() -> None:
    """The table of methods has each method, in which revisions it exists, and whether this release serves it."""
    ways = {"to_server": "client to server", "to_client": "server to client", "both": "both ways"}
    server = everything()
    wanted: list[list[str]] = []
    for method in METHODS.values():
        there = ["yes" if revision.name in method.revisions else "-" for revision in REVISIONS[::-1]]
        served = ""
        if method.request and method.direction != "to_client":
            served = "yes" if await is_served(server, method) else "not yet"
        wanted.append([f"`{method.name}`", ways[method.direction], *there, served])
    assert rows_below("The methods", "protocol.md") == wanted, table(wanted)


async def test_frames_are_refused_as_told() -> None:
    """Each frame of the table of refusals gets just the code that stands beside it, or no answer."""
    rows = rows_below("What is refused", "protocol.md")
    assert len(rows) > 10
    for frame, code, _ in rows:
        sent = frame.strip("`").replace("META", f'"_meta":{json.dumps(META)}')
        heard = await answers(everything(), sent.encode())
        told = [] if code == "no answer" else [int(code)]
        assert [answer["error"]["code"] for answer in heard] == told, frame
