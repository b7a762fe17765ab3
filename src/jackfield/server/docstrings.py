"""Docstrings taken apart: the description, and the text of each parameter (Google, NumPy and Sphinx styles)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .signature import document_of

_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters):\s*$")
_GOOGLE_ENTRY = re.compile(r"(\*{0,2}\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?$")
_NUMPY = re.compile(r"(?:Parameters|Other Parameters)\s*$")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_RULE = re.compile(r"\s*-{3,}\s*$")
_SPHINX = re.compile(r"\s*:(?:param|parameter|arg|argument|key|keyword)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_SPHINX_TYPE = re.compile(r"\s*:type\s+\w+\s*:")


def describe(fn: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description that a docstring gives, without its parameter section, and the text of each parameter."""
    lines = document_of(fn).split("\n")
    rest: list[str] = []
    texts: dict[str, list[str]] = {}
    at = 0
    while at < len(lines):
        end = _section(lines, at, texts)
        if end == at:
            rest.append(lines[at])
            end += 1
        at = end
    description = re.sub(r"\n\s*\n(\s*\n)+", "\n\n", "\n".join(rest)).strip()
    return description, {name: text for name, parts in texts.items() if (text := " ".join(" ".join(parts).split()))}


def _section(lines: list[str], at: int, texts: dict[str, list[str]]) -> int:
    """Where the parameter section that starts at line `at` ends, its texts added; `at` itself where none starts."""
    line = lines[at]
    margin = _margin(line)
    if match := _SPHINX.match(line):
        end = _block(lines, at + 1, margin)
        texts[match[1]] = [match[2], *lines[at + 1 : end]]
        return end
    if _SPHINX_TYPE.match(line):
        return _block(lines, at + 1, margin)
    if _GOOGLE.match(line.strip()):
        end = _block(lines, at + 1, margin)
        found = _entries(lines[at + 1 : end], _GOOGLE_ENTRY)
    elif _NUMPY.match(line.strip()) and at + 1 < len(lines) and _RULE.match(lines[at + 1]):
        end = at + 2
        while end < len(lines) and not (end + 1 < len(lines) and lines[end].strip() and _RULE.match(lines[end + 1])):
            end += 1
        found = _entries(lines[at + 2 : end], _NUMPY_ENTRY)
    else:
        return at
    texts.update(found)
    # A section without one readable entry is prose that only looks like a section.
    return end if found else at


def _entries(lines: list[str], pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """The entries of a section: a line at the section's margin names parameters, deeper lines carry their text on."""
    margin = min((_margin(line) for line in lines if line.strip()), default=0)
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        match = pattern.match(line.strip()) if line.strip() and _margin(line) == margin else None
        if match is None:
            current.append(line)
            continue
        current = [match[2] or ""] if pattern.groups > 1 else []
        for name in match[1].split(","):
            found[name.strip().lstrip("*")] = current
    return found


def _block(lines: list[str], at: int, margin: int) -> int:
    """The end of the lines from `at` on that are blank or deeper than `margin`; blank ones at its end are not in it."""
    end = at
    for index in range(at, len(lines)):
        if lines[index].strip():
            if _margin(lines[index]) <= margin:
                break
            end = index + 1
    return end


def _margin(line: str) -> int:
    return len(line) - len(line.lstrip())
