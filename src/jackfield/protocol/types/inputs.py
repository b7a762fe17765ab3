"""Questions by returning (2026-07-28): a result that asks, and the answers that the next try brings."""

from __future__ import annotations

from typing import ClassVar

from msgspec import UNSET, Raw, UnsetType

from .base import Object, Result


class InputRequest(Object):
    """One question: a method that a legacy server would have sent as a request, and its params, undecoded (MR-2)."""

    method: str
    params: Raw | UnsetType = UNSET


class InputRequiredResult(Result):
    """The request needs answers first: at least one of the two members is there (MR-1)."""

    kind: ClassVar[str] = "input_required"

    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None
    """Opaque; goes back unchanged (MR-4)."""


InputResponses = dict[str, Raw]
"""The answers, by the question's key: each a CreateMessageResult, ElicitResult or ListRootsResult (MR-3)."""
