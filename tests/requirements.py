"""Joins the requirements of the protocol, in requirements.toml, to the tests that name them in their docstrings.

`python tests/requirements.py` prints how things stand; with `--update` it rewrites the list of open requirements first.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
TABLE = TESTS / "requirements.toml"

FAMILIES = (
    "BASE|RES|ERR|META|STATE|CAP|JS|IMPL|DISC|ERA|LIFE|STDIO|TOOL|RSC|PRM|CMP|PAG|CCH|LOG|PRG|CAN|"
    "HTTP|HDR|ENC|XH|FT|LH|SUB|MR|ELC|SMP|ROOT|ICO|TRC|SEC"
)
ID = re.compile(rf"\b(?:{FAMILIES})-[A-Z]?\d+\b")
OPEN = re.compile(r"^open = \[\n.*?^\]\n", re.MULTILINE | re.DOTALL)

Citations = dict[str, list[str]]
"""A requirement's id -> the tests that name it, as "path::test"."""


def cited_in(root: Path) -> Citations:
    """The ids in the docstrings of all tests below `root`."""
    found: Citations = {}
    for path in sorted(root.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for identity in ID.findall(ast.get_docstring(node) or ""):
                    found.setdefault(identity, []).append(f"{path.relative_to(root).as_posix()}::{node.name}")
    return found


def open_musts(table: dict[str, Any], cited: Citations) -> list[str]:
    """The MUSTs that are ours now and that no test names, in the order of the table."""
    return [
        identity
        for identity, row in table["requirements"].items()
        if row["strength"] == "M" and "later" not in row and identity not in cited
    ]


def problems(table: dict[str, Any], cited: Citations) -> list[str]:
    """What is wrong between the table and the tests, in words that say what to do."""
    known, listed, real = table["requirements"], table["open"], open_musts(table, cited)
    found = [
        f"{identity} is no requirement, but {', '.join(tests)} names it"
        for identity, tests in sorted(cited.items())
        if identity not in known
    ]
    found += [
        f"{identity} is a MUST that no test names: write one, or add it to `open`"
        for identity in real
        if identity not in listed
    ]
    found += [f"{identity} is not open (any more): take it from `open`" for identity in listed if identity not in real]
    return found


def with_open(text: str, identities: list[str]) -> str:
    """The text of the table with these ids as its list of open requirements, a line for each family."""
    families: dict[str, list[str]] = {}
    for identity in identities:
        families.setdefault(identity.split("-")[0], []).append(f'"{identity}"')
    lines = [f"    {', '.join(members)},\n" for members in families.values()]
    return OPEN.sub(lambda _: f"open = [\n{''.join(lines)}]\n", text, count=1)


def report(table: dict[str, Any], cited: Citations) -> str:
    """How many requirements of each strength have a test, and which MUSTs are open or come later."""
    rows = table["requirements"]
    lines: list[str] = []
    for strength, word in (("M", "must"), ("S", "should"), ("Y", "may"), ("N", "note")):
        ours = [identity for identity, row in rows.items() if row["strength"] == strength]
        lines.append(f"{word}: {sum(identity in cited for identity in ours)} of {len(ours)} have a test")
    lines.append(f"open: {', '.join(open_musts(table, cited)) or 'none'}")
    lines += [
        f"later: {identity} ({row['later']})"
        for identity, row in rows.items()
        if row["strength"] == "M" and "later" in row
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Print how things stand; exit 1 if the table and the tests disagree."""
    cited = cited_in(TESTS)
    if "--update" in arguments:
        text = TABLE.read_text("utf-8")
        TABLE.write_text(with_open(text, open_musts(tomllib.loads(text), cited)), "utf-8", newline="\n")
    table = tomllib.loads(TABLE.read_text("utf-8"))
    wrong = problems(table, cited)
    print(report(table, cited), *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
