"""What changed at a server, as both sides tell of it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["tools", "prompts", "resources", "resource"]


class Event(Struct, frozen=True):
    """Something changed: a list ("tools", "prompts", "resources"), or one "resource", whose `uri` it then has."""

    kind: Kind
    uri: str | None = None
