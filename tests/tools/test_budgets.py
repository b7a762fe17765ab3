"""Each house rule is broken by a made-up file and kept by its mended twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import budgets

OPENING = '"""A module."""\n'


def check(root: Path, name: str, text: str, exceptions: dict[str, str] | None = None) -> list[str]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return budgets.check_tree(root, exceptions or {})


def function(lines: int, name: str = "long") -> str:
    return f"def {name}():\n" + "    x = 1\n" * (lines - 1)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        pytest.param("src/a.py", OPENING + "x = 1\n" * 500, "src/a.py has 501 lines", id="file"),
        pytest.param("src/a.py", OPENING + function(61), "src/a.py::long has 61 lines", id="function"),
        pytest.param(
            "src/a.py",
            OPENING + "class A:\n    async " + function(60).replace("\n", "\n    ").strip() + "\n        y = 2\n",
            "src/a.py::A.long has 61 lines",
            id="method",
        ),
        pytest.param(
            "src/a.py", OPENING + "def f(a, b, c, d, e, g, h, i, j): ...\n", "f has 9 parameters", id="params"
        ),
        pytest.param("src/a.py", "x = 1\n", "does not open with a sentence", id="no module docstring"),
        pytest.param("src/a.py", "", "does not open with a sentence", id="empty module"),
        pytest.param("src/a.py", '"""Things"""\n', "does not open with a sentence", id="no sentence"),
        pytest.param("tests/test_a.py", OPENING + "def test_a(): ...\n", "test_a has no docstring", id="test"),
        pytest.param(
            "tests/test_a.py",
            OPENING + "class TestA:\n    async def test_a(self): ...\n",
            "TestA.test_a has no docstring",
            id="test in a class",
        ),
        pytest.param("src/a.py", OPENING + "import x\nx.run('ls', shell=True)\n", "through a shell", id="shell"),
        pytest.param(
            "src/a.py", OPENING + "try:\n    f()\nexcept Exception:\n    pass\n", "swallows every failure", id="except"
        ),
        pytest.param("src/a.py", OPENING + "try:\n    f()\nexcept:\n    ...\n", "swallows every failure", id="bare"),
        pytest.param(
            "src/a.py",
            OPENING + "for x in y:\n    try:\n        f()\n    except (OSError, BaseException):\n        continue\n",
            "swallows every failure",
            id="except in a loop",
        ),
        pytest.param(
            "src/a.py",
            OPENING + "with contextlib.suppress(Exception):\n    f()\n",
            "swallows every failure",
            id="suppress",
        ),
    ],
)
def test_a_broken_rule_is_named(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    """A file that breaks one rule gives one complaint, which names the file and the rule."""
    (found,) = check(tmp_path, name, text)
    assert found.startswith(name)
    assert complaint in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("src/a.py", OPENING + "x = 1\n" * 499, id="file"),
        pytest.param("src/a.py", OPENING + function(60), id="function"),
        pytest.param("src/a.py", OPENING + "def f(a, b, c, d, e, g, h, i, *, j, k): ...\n", id="keyword-only"),
        pytest.param("src/a.py", OPENING + "class A:\n    def f(self, a, b, c, d, e, g, h, i): ...\n", id="self"),
        pytest.param("tests/b/__init__.py", "", id="empty package of tests"),
        pytest.param("tests/test_a.py", OPENING + 'def test_a():\n    """A is a."""\n', id="test"),
        pytest.param("tests/helper.py", OPENING + "def build(): ...\n", id="helper"),
        pytest.param("src/a.py", OPENING + "import x\nx.run(['ls'], shell=False)\n", id="no shell"),
        pytest.param("src/a.py", OPENING + "try:\n    f()\nexcept OSError:\n    pass\n", id="expected failure"),
        pytest.param("src/a.py", OPENING + "try:\n    f()\nexcept Exception:\n    log()\n", id="told failure"),
        pytest.param("src/a.py", OPENING + "with suppress(OSError):\n    f()\n", id="suppress"),
    ],
)
def test_what_keeps_the_rules_passes(tmp_path: Path, name: str, text: str) -> None:
    """A file at the edge of a rule, but within it, gives no complaint."""
    assert check(tmp_path, name, text) == []


@pytest.mark.parametrize(
    "statement",
    [
        "import asyncio",
        "import os.path",
        "from http import client",
        "from urllib import request",
        "import urllib.request",
    ],
)
@pytest.mark.parametrize("within", ["", "def f():\n    "])
def test_protocol_does_no_input_or_output(tmp_path: Path, statement: str, within: str) -> None:
    """What waits, opens or connects is refused anywhere in protocol/, inside functions too, and allowed above it."""
    text = f"{OPENING}{within}{statement}\n"
    (found,) = check(tmp_path, "src/jackfield/protocol/a.py", text)
    assert "may not import" in found
    assert check(tmp_path / "other", "src/jackfield/transport/a.py", text) == []


@pytest.mark.parametrize(
    "statement", ["import json", "from urllib.parse import quote", "from jackfield.protocol import os"]
)
def test_protocol_may_import_what_only_computes(tmp_path: Path, statement: str) -> None:
    """A module is judged by its whole name, so urllib.parse and a namesake of ours pass."""
    assert check(tmp_path, "src/jackfield/protocol/a.py", f"{OPENING}{statement}\n") == []


@pytest.mark.parametrize(
    "statement",
    [
        "import jackfield.server",
        "from jackfield.protocol.errors import ToolError",
        "from jackfield import server",
        "from jackfield import _version",
        "from ..server import Server",
        "from .. import client",
        "from jackfield.compat import Name",
    ],
)
def test_ready_servers_use_the_front_door(tmp_path: Path, statement: str) -> None:
    """A ready server that reaches behind the front door is refused, however it spells the import."""
    (found,) = check(tmp_path, "src/jackfield/servers/a.py", f"{OPENING}{statement}\n")
    assert "front door" in found


@pytest.mark.parametrize(
    "statement",
    [
        "import jackfield",
        "from jackfield import Server",
        "from . import b",
        "from .b import c",
        "from jackfield.servers.b import c",
        "import json",
    ],
)
def test_ready_servers_may_use_names_of_the_front_door_and_each_other(tmp_path: Path, statement: str) -> None:
    """Names from `jackfield` itself, from servers/ and from elsewhere pass."""
    assert check(tmp_path, "src/jackfield/servers/a.py", f"{OPENING}{statement}\n") == []


@pytest.mark.parametrize(
    "line",
    [
        "cd /ho" + "me/someone/jackfield",
        '"path": "/ro' + 'ot/.cache"',
        "see `/wo" + "rk/main`",
        "C:" + "\\Users\\someone",
        '"resolved": ' + '"https://mirror.example/a.tgz"',
        "pip install --index" + "-url x",
        "registry" + "=https://mirror.example",
        "https://py" + "pi.org/simple",
    ],
)
def test_no_text_names_a_machine_or_a_registry(tmp_path: Path, line: str) -> None:
    """A path of one machine or a registry's address is found in any text, with its line."""
    (found,) = check(tmp_path, "docs/a.md", f"# Title\n\n{line}\n")
    assert found.startswith("docs/a.md:3: names ")


@pytest.mark.parametrize(
    "line", ["https://example.com/home/page", "src/work/item", "the /homeless", "registry = Registry()"]
)
def test_ordinary_paths_are_no_leak(tmp_path: Path, line: str) -> None:
    """Addresses and relative paths that only look alike pass."""
    assert check(tmp_path, "docs/a.md", line) == []


def test_an_exception_reaches_to_the_hard_cap(tmp_path: Path) -> None:
    """An oversize function passes with a reason, up to 100 lines and not beyond."""
    reason = {"src/a.py::long": "one table"}
    assert check(tmp_path, "src/a.py", OPENING + function(100), reason) == []
    (found,) = check(tmp_path, "src/a.py", OPENING + function(101), reason)
    assert "an exception ends at 100" in found


def test_an_exception_that_is_not_needed_is_an_error(tmp_path: Path) -> None:
    """The list of exceptions cannot outlive what it excuses."""
    (found,) = check(tmp_path, "src/a.py", OPENING, {"src/a.py": "was long"})
    assert "the exception for src/a.py is not needed" in found


def test_files_that_are_not_ours_are_skipped(tmp_path: Path) -> None:
    """Installed code, caches and files that are no text are not judged."""
    (tmp_path / "image.png").write_bytes(b"\x89PNG\xff")
    assert check(tmp_path, ".venv/lib/a.py", "x = 1\n") == []
    assert check(tmp_path, "node_modules/a/package.json", '"resolved": ' + '"https://mirror.example/a.tgz"') == []


def test_main_exits_with_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints each broken rule and exits 1, or says that all are kept and exits 0."""
    assert budgets.main([str(tmp_path)]) == 0
    (tmp_path / "a.py").write_text("x = 1\n", "utf-8")
    assert budgets.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "budgets: all kept",
        "a.py:1: the module does not open with a sentence that says what lives here",
        "budgets: 1 broken",
    ]
