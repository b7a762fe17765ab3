"""The description of a server that is reached over HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from ...protocol.errors import RegistrationError
from ...protocol.printable import printable

if TYPE_CHECKING:
    from ssl import SSLContext

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NOT_IN_VALUE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_COOKIE: Final = re.compile(r"[\x00-\x20\x7f;,\"\\]")
_NOT_IN_URL: Final = re.compile(r"[\x00-\x20\x7f\\]")
_OURS: Final = frozenset(
    ("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "expect")
    + ("keep-alive", "te", "trailer", "transfer-encoding", "upgrade")
)
"""Headers that say how a message is carried; what the caller would say there could only be wrong."""


class Http(Struct, frozen=True):
    """A server at a URL: `Client(Http(url, headers={"Authorization": "Bearer ..."}))`.

    `headers` and `cookies` go with every request, and never to another origin than that of `url`. `proxy` is the URL of
    a proxy; those that the environment names are used with `env_proxies` only. `ssl` takes the place of the usual
    checks of certificates.
    """

    url: str
    headers: Mapping[str, str] = {}
    cookies: Mapping[str, str] = {}
    proxy: str | None = None
    env_proxies: bool = False
    ssl: SSLContext | None = None

    def __post_init__(self) -> None:
        """Raises RegistrationError for what cannot be sent; the text never holds a value, which may be a secret."""
        _check_url(self.url, "the URL")
        if urlsplit(self.url).username is not None or urlsplit(self.url).password is not None:
            raise RegistrationError(
                f"Http({_shown(self.url)!r}): a user and password in a URL end up in logs; give them as "
                "headers={'Authorization': 'Basic ...'}"
            )
        if self.proxy is not None:
            _check_url(self.proxy, "the proxy")
        for name, value in self.headers.items():
            _check_header(name, value)
        for name, value in self.cookies.items():
            if not _is_text(name) or not _is_text(value) or not _NAME.fullmatch(name) or _NOT_IN_COOKIE.search(value):
                raise RegistrationError(
                    f"Http: cookie {printable(str(name), 80)!r}: a cookie's name and value are texts, without spaces, "
                    "quotes, commas, semicolons and control characters"
                )

    def __repr__(self) -> str:
        """The URL without its query, and the names of headers and cookies; the rest may be secrets."""
        parts = [repr(_shown(self.url))]
        parts += [f"headers={sorted(self.headers)}"] if self.headers else []
        parts += [f"cookies={sorted(self.cookies)}"] if self.cookies else []
        parts += [f"proxy={_shown(self.proxy)!r}"] if self.proxy else []
        parts += ["env_proxies=True"] if self.env_proxies else []
        return f"Http({', '.join(parts)})"

    @property
    def label(self) -> str:
        """A name for messages: the URL without what may be secret."""
        return printable(_shown(self.url), 80)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _shown(url: str) -> str:
    """The URL without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "a URL that cannot be read"
    return SplitResult(parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "").geturl()


def _check_url(url: object, what: str) -> None:
    if not isinstance(url, str):
        raise RegistrationError(f"Http: {what} must be a text, not {type(url).__name__}")
    try:
        parts = urlsplit(url)
        sound = bool(parts.hostname) and (parts.port is None or parts.port > 0) and not _NOT_IN_URL.search(url)
    except ValueError:
        raise RegistrationError(f"Http: {what} cannot be read as a URL; write http://host:port/path") from None
    if parts.scheme.lower() not in ("http", "https"):
        raise RegistrationError(
            f"Http({_shown(url)!r}): {what} begins with http:// or https://, not {printable(parts.scheme, 20)}:"
        )
    if not sound:
        raise RegistrationError(
            f"Http({_shown(url)!r}): {what} needs a host, and no spaces; write http://host:port/path"
        )


def _check_header(name: object, value: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RegistrationError(f"Http: {printable(str(name), 80)!r} is no name of a header")
    if name.lower() in _OURS or name.lower().startswith("mcp-"):
        raise RegistrationError(f"Http: header {name!r} is the client's own; leave it out")
    if not isinstance(value, str) or _NOT_IN_VALUE.search(value):
        raise RegistrationError(f"Http: the value of header {name!r} must be a text of one line")
