"""What the transcripts of all transports share: how JSON values in them are compared, and kept under a name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

NAME = re.compile(r"\$([a-z][a-z0-9_]*)")
_WHOLE = re.compile(rf'"{NAME.pattern}"')


class Values:
    """The values that stand under a name: `"$name"`.

    A line `let: name = JSON` gives one; what stands where an answer is first shown with an unknown name is kept, and
    from then on must be the same. In what is sent, a name inside a longer text is filled in too.
    """

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def let(self, definition: str) -> None:
        """Take a definition, `name = JSON`."""
        name, _, value = definition.partition(" = ")
        assert name not in self._known, f"{name} is defined twice"
        self._known[name] = json.loads(value)

    def fill(self, line: str) -> str:
        """A line to send, with the values in place of their names."""
        line = _WHOLE.sub(lambda match: json.dumps(self._known[match[1]]), line)
        return NAME.sub(lambda match: json.dumps(self._known[match[1]])[1:-1], line)

    def agrees(self, got: Any, wanted: Any) -> bool:
        """Whether JSON values are equal; `<*>` in a wanted text stands for any text, and a name as described above."""
        if isinstance(wanted, str):
            if (match := NAME.fullmatch(wanted)) is not None:
                wanted = self._known.setdefault(match[1], got)
                return type(got) is type(wanted) and got == wanted
            if "<*>" in wanted and isinstance(got, str):
                return re.fullmatch(".*".join(map(re.escape, wanted.split("<*>"))), got, re.DOTALL) is not None
        if isinstance(wanted, dict) and isinstance(got, dict):
            return wanted.keys() == got.keys() and all(self.agrees(got[key], wanted[key]) for key in wanted)
        if isinstance(wanted, list) and isinstance(got, list):
            return len(wanted) == len(got) and all(map(self.agrees, got, wanted))
        return type(got) is type(wanted) and got == wanted


def values(definitions: Iterable[str]) -> Values:
    """The values that a transcript begins with."""
    found = Values()
    for definition in definitions:
        found.let(definition)
    return found
