"""What a client raises for an HTTP answer that is not what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...protocol.errors import HttpError
from ...protocol.printable import printable

_HINTS: Final = {
    401: "it wants to know who you are: give a token, Client(Http(url, headers={'Authorization': 'Bearer ...'}))",
    403: "it refuses who you are or where you come from; a token is given as "
    "Client(Http(url, headers={'Authorization': 'Bearer ...'}))",
    404: "is the path of the URL right?",
    405: "is the path of the URL right?",
    407: "the proxy wants a user and password in its URL",
    413: "the request is larger than it takes",
    429: "it was asked too often; wait before you ask again",
}


def http_error(
    asked: str, status: int, headers: Mapping[str, str], *, reason: str | None = None, body: bytes = b"", why: str = ""
) -> HttpError:
    """The error for an answer that is no message. `asked` says who was asked for what, `why` what is wrong with it."""
    text = f"{asked} was answered with HTTP {status}"
    if reason:
        text += f" {printable(reason, 80)}"
    if why or status in _HINTS:
        text += f" ({why or _HINTS[status]})"
    if body.strip():
        text += f": {printable(body.strip(), 300)}"
    return HttpError(text, status, {name.lower(): value for name, value in headers.items()})
