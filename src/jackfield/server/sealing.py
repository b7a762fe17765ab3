"""Sealing what a client keeps for the server between two requests: nobody else can read, change or reuse it."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_FORM: Final = b"\x01"
_NONCE: Final = 12
_NAME: Final = 4


class _Key(Struct):
    name: bytes
    """What a sealed text says of its key; tells nothing of the key itself."""
    cipher: AESGCM


class Sealer:
    """Seals with the first of its keys (AES-GCM), and opens what any of them has sealed (MR-6, MR-10).

    Each sealed text is bound to something that is not in it, and opens only where that is the same.
    """

    def __init__(self, keys: Sequence[str | bytes]) -> None:
        """`keys` are secrets of many random bytes, the one that seals first."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # not at the top: most servers seal nothing

        self._keys = [
            _Key(_derived(b"name", key)[:_NAME], AESGCM(_derived(b"key", key)))
            for key in (each.encode() if isinstance(each, str) else each for each in keys)
        ]

    def seal(self, data: bytes, bound: bytes) -> str:
        """A text that only `open` with the same `bound` can read."""
        key, nonce = self._keys[0], os.urandom(_NONCE)
        sealed = _FORM + key.name + nonce + key.cipher.encrypt(nonce, data, bound)
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, text: str, bound: bytes) -> bytes:
        """What was sealed. Raises ValueError for any text that was not sealed by one of the keys for this `bound`."""
        from cryptography.exceptions import InvalidTag

        raw = text.encode("ascii")  # UnicodeEncodeError is a ValueError
        sealed = base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
        if base64.urlsafe_b64encode(sealed).rstrip(b"=") != raw:
            raise ValueError("not written as it was")  # bits that no byte holds: a text that was changed all the same
        start = len(_FORM) + _NAME
        if sealed[:1] != _FORM:
            raise ValueError("of another form")
        for key in self._keys:
            if key.name == sealed[len(_FORM) : start]:
                nonce = sealed[start : start + _NONCE]
                try:
                    return key.cipher.decrypt(nonce, sealed[start + _NONCE :], bound)
                except InvalidTag:
                    raise ValueError("changed, or sealed for something else") from None
        raise ValueError("sealed with a key that is not here")


def _derived(purpose: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(purpose, key=hashlib.sha512(key).digest(), digest_size=32, person=b"jackfield").digest()
