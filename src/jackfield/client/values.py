"""What a user of the client gives, made into JSON."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from msgspec import Raw


def _foreign(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)  # a pydantic model; pydantic itself need not be installed
    if callable(dump):
        return dump(mode="json", by_alias=True)
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


encode_value: Final = msgspec.json.Encoder(enc_hook=_foreign).encode
"""Encode any value, also dataclasses, structs and models. Raises TypeError or ValueError for what has no form."""


def encode_object(value: Any, place: str) -> Raw:
    """Encode what must be a JSON object. Raises TypeError or ValueError, which name the `place`, for anything else."""
    text = _encode(value, place)
    if not text.startswith(b"{"):
        raise TypeError(f"{place} must be an object (a dict, struct, dataclass or model), not {type(value).__name__}")
    return Raw(text)


def as_text(value: Any, place: str) -> str:
    """Make what must be text of any value: a text as it is, what JSON writes as a string without its quotes (a date, a
    UUID, a Decimal), anything else as JSON (F62). Raises as `encode_object` does for what has no form.
    """
    if isinstance(value, str):
        return str.__str__(value)  # also of an Enum that is one
    text = _encode(value, place)
    return msgspec.json.decode(text, type=str) if text.startswith(b'"') else text.decode()


def _encode(value: Any, place: str) -> bytes:
    try:
        text = encode_value(value)
        if b"null" in text:  # which is also what the encoder makes of numbers that JSON does not have
            json.dumps(msgspec.to_builtins(value, enc_hook=_foreign), allow_nan=False)
    except TypeError as error:
        raise TypeError(f"{place}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return text
