"""The house rules that no linter knows: sizes, docstrings, forbidden imports, swallowed failures, leaked addresses.

`python tools/budgets.py [FOLDER]` prints one line for each broken rule and exits 1 if there is any.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FILE_LINES, FILE_LINES_AT_MOST = 500, 800
FUNCTION_LINES, FUNCTION_LINES_AT_MOST = 60, 100
PARAMETERS = 8

# "path" or "path::Class.function" -> why it may pass its budget, up to the hard cap. An unneeded one is an error.
EXCEPTIONS: dict[str, str] = {}

# protocol/ turns bytes into messages and back. Whatever waits, opens or connects belongs to transport/ and above.
NOT_IN_PROTOCOL = frozenset(
    "aiohttp anyio asyncio concurrent ctypes fcntl ftplib glob http mmap multiprocessing os pathlib sched select"
    " selectors shutil signal smtplib socket socketserver ssl subprocess tempfile threading urllib.request uvicorn"
    " uvloop".split()
)

# The rooms behind the front door. Who writes a server of their own imports names from `jackfield`, never these.
ROOMS = frozenset("agent auth cli client gateway host inspector protocol server transport".split())

# Written so that no pattern finds itself.
LEAKS = (
    (re.compile(r"(?<![\w./-])/(?:home|root|work|Users)/[\w.~-]"), "a path of one machine"),
    (re.compile(r"\b[A-Z]:\\{1,2}Users\\"), "a path of one machine"),
    (re.compile(r'"resolved":\s*"http'), "a registry's address"),
    (re.compile(r"-{2}(?:extra-)?index-url|\bregistry\s*=\s*[\"']?http"), "a registry's address"),
    (
        re.compile(r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|crates\.io|proxy\.golang\.org)\b"),
        "a registry's address",
    ),
)

SKIPPED_FOLDERS = frozenset(("__pycache__", "build", "dist", "node_modules", "plans"))
HIDDEN_FOLDERS_READ = frozenset((".ci", ".github"))
BROAD = frozenset(("Exception", "BaseException"))

Function = ast.FunctionDef | ast.AsyncFunctionDef
Problem = tuple[int, str]
"""A line number and what is wrong there."""


class Oversize(NamedTuple):
    """Something larger than its budget: its key in EXCEPTIONS, where it is, and its size in lines."""

    key: str
    line: int
    lines: int
    budget: int
    at_most: int


def check_tree(root: Path, exceptions: dict[str, str]) -> list[str]:
    """Every broken rule below `root`, as "path:line: what is wrong"."""
    found: list[str] = []
    unused = set(exceptions)
    for path in _files(root):
        name = path.relative_to(root).as_posix()
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue  # an image or an archive
        problems = list(leaks(text))
        if path.suffix == ".py":
            tree = ast.parse(text, name)
            problems += check_python(name, tree)
            for large in oversizes(name, text, tree):
                unused.discard(large.key)
                if large.key not in exceptions:
                    problems.append((large.line, f"{large.key} has {large.lines} lines, the budget is {large.budget}"))
                elif large.lines > large.at_most:
                    problems.append(
                        (large.line, f"{large.key} has {large.lines} lines; an exception ends at {large.at_most}")
                    )
        found += [f"{name}:{line}: {message}" for line, message in sorted(problems)]
    found += [f"tools/budgets.py: the exception for {key} is not needed; remove it" for key in sorted(unused)]
    return found


def check_python(name: str, tree: ast.Module) -> Iterator[Problem]:
    """The rules for one Python file, apart from its size."""
    yield from module_docstring(name, tree)
    yield from parameters(tree)
    yield from swallowed(tree)
    yield from shells(tree)
    if name.startswith("tests/"):
        yield from test_docstrings(tree)
    if name.startswith("src/jackfield/protocol/"):
        yield from protocol_imports(tree)
    if name.startswith("src/jackfield/servers/"):
        yield from servers_imports(name, tree)


def oversizes(name: str, text: str, tree: ast.Module) -> Iterator[Oversize]:
    """The file and the functions in it that are larger than their budgets."""
    lines = len(text.splitlines())
    if lines > FILE_LINES:
        yield Oversize(name, 1, lines, FILE_LINES, FILE_LINES_AT_MOST)
    for function, qualified in _functions(tree):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES:
            yield Oversize(f"{name}::{qualified}", function.lineno, lines, FUNCTION_LINES, FUNCTION_LINES_AT_MOST)


def parameters(tree: ast.Module) -> Iterator[Problem]:
    """Functions with too many parameters; keyword-only ones name themselves at the call and do not count."""
    for function, qualified in _functions(tree):
        positional = [*function.args.posonlyargs, *function.args.args]
        if "." in qualified and positional and positional[0].arg in ("self", "cls"):
            del positional[0]
        if len(positional) > PARAMETERS:
            yield function.lineno, f"{qualified} has {len(positional)} parameters, the budget is {PARAMETERS}"


def module_docstring(name: str, tree: ast.Module) -> Iterator[Problem]:
    """A module that does not open with a sentence; an empty file marks a package of tests and says nothing."""
    if not tree.body and name.startswith("tests/"):
        return
    opening = (ast.get_docstring(tree) or "").split("\n\n")[0]
    if not opening.endswith("."):
        yield 1, "the module does not open with a sentence that says what lives here"


def test_docstrings(tree: ast.Module) -> Iterator[Problem]:
    """Tests that do not state the behaviour they test."""
    for function, qualified in _functions(tree):
        if function.name.startswith("test_") and not ast.get_docstring(function):
            yield function.lineno, f"{qualified} has no docstring that states the behaviour"


def protocol_imports(tree: ast.Module) -> Iterator[Problem]:
    """Imports in protocol/ of what does input, output or waiting."""
    for line, module in _imports(tree, package=""):
        parts = module.split(".")
        if any(".".join(parts[: end + 1]) in NOT_IN_PROTOCOL for end in range(len(parts))):
            yield line, f"protocol/ does no input or output and may not import {module}"


def servers_imports(name: str, tree: ast.Module) -> Iterator[Problem]:
    """Imports in servers/ from behind the front door."""
    package = ".".join(Path(name).with_suffix("").parts[1:-1])
    for line, module in _imports(tree, package):
        parts = module.split(".")
        if parts[0] != "jackfield" or len(parts) == 1 or parts[1] == "servers":
            continue
        if len(parts) > 2 or parts[1] in ROOMS or parts[1].startswith("_"):
            yield line, f"servers/ uses the front door alone (from jackfield import ...), not {module}"


def shells(tree: ast.Module) -> Iterator[Problem]:
    """Calls that hand a command line to a shell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "shell" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
                    yield node.lineno, "no command goes through a shell; give the list of arguments"


def swallowed(tree: ast.Module) -> Iterator[Problem]:
    """Failures of any kind that vanish: an `except` that catches all and does nothing, or `suppress` of all."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and all(map(_does_nothing, node.body)):
            yield node.lineno, "this swallows every failure; catch what is expected, or say what happened"
        elif isinstance(node, ast.Call) and _is_suppress(node.func) and any(map(_is_broad, node.args)):
            yield node.lineno, "this swallows every failure; suppress what is expected"


def leaks(text: str) -> Iterator[Problem]:
    """Text that holds only on one machine or with one registry."""
    for pattern, what in LEAKS:
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, f"names {what}: {match.group().strip()}"


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED_FOLDERS
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or name in HIDDEN_FOLDERS_READ)
        )
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _functions(tree: ast.AST, within: str = "") -> Iterator[tuple[Function, str]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield node, within + node.name
        inside = f"{within}{node.name}." if isinstance(node, Function | ast.ClassDef) else within
        yield from _functions(node, inside)


def _imports(tree: ast.Module, package: str) -> Iterator[tuple[int, str]]:
    """Each imported module or name, in full; relative ones are resolved against `package`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _is_broad(caught: ast.expr | None) -> bool:
    if isinstance(caught, ast.Tuple):
        return any(map(_is_broad, caught.elts))
    return caught is None or (isinstance(caught, ast.Name) and caught.id in BROAD)


def _is_suppress(function: ast.expr) -> bool:
    return ast.unparse(function) in ("suppress", "contextlib.suppress")


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass | ast.Continue) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def main(arguments: list[str]) -> int:
    """Check the folder named in `arguments`, or this repository."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    found = check_tree(root, EXCEPTIONS)
    for line in found:
        print(line)
    print(f"budgets: {len(found)} broken" if found else "budgets: all kept")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
