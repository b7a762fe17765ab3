"""What an HTTP request must be like before its body is looked at: where it came from, who sent it, and in what form."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from ...protocol.errors import INVALID_REQUEST, RegistrationError
from ...protocol.jsonrpc import Id
from ...protocol.limits import Limits
from ...protocol.printable import printable
from ...protocol.revisions import LEGACY, MODERN

Pairs = Sequence[tuple[bytes, bytes]]
"""Headers as ASGI has them."""

JSON: Final = 1
STREAM: Final = 2
"""What a client can read an answer as, as bits: one JSON text, Server-Sent Events."""

SERVER_ERROR: Final = -32000
"""The code that legacy clients know for refusals of the transport itself."""
MODERN_NAMES: Final = frozenset(revision.name for revision in MODERN)
LATEST: Final = LEGACY[0].name
"""The newest legacy revision."""

_KNOWN: Final = 256
"""How many different texts of one header are remembered as judged, and how long such a text may be."""
_AUTHORITY: Final = re.compile(
    r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?::(?P<port>[0-9]{0,5}))?"
)
_ORIGIN: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#@]+)")
_PORTS: Final = {"http": "80", "https": "443"}
_DEFAULT_PORTS: Final = frozenset(_PORTS.values())
_MCP_HEADERS: Final = frozenset(
    "accept authorization content-type last-event-id mcp-method mcp-name mcp-protocol-version mcp-session-id"
    " traceparent tracestate baggage".split()
)
_EXPOSED: Final = b"Mcp-Session-Id, WWW-Authenticate, MCP-Protocol-Version"
_VARY: Final = (b"vary", b"Origin")
BOTH_TYPES: Final = "Not Acceptable: Client must accept both application/json and text/event-stream"


class Denied(Exception):
    """A request that is answered with an HTTP status and an error of JSON-RPC, mostly without an id (BASE-3)."""

    def __init__(self, status: int, text: str, code: int = INVALID_REQUEST, *, id: Id | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.code = code
        self.id = id
        self.headers: list[tuple[bytes, bytes]] = []

    def with_header(self, name: bytes, value: bytes) -> Denied:
        """Itself, with one more header for the answer."""
        self.headers.append((name, value))
        return self


class Place(Struct, frozen=True):
    """A host as a header or an option names it. `port` is "" where none is named."""

    host: str
    port: str


class Guard:
    """Judges requests by method and headers alone. See `Server.http_app` for what its options mean.

    Raises RegistrationError for options that cannot be.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        allowed_hosts: Iterable[str] | None,
        allowed_origins: Iterable[str],
        cors: Iterable[str],
        token: str | None,
        loopback: bool,
        eras: frozenset[str],
    ) -> None:
        for option, value in (("allowed_hosts", allowed_hosts), ("allowed_origins", allowed_origins)):
            if isinstance(value, str | bool):
                raise RegistrationError(f"{option} is a sequence; write {option}=[{value!r}]")
        if isinstance(cors, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError('cors holds origins; write cors=["https://app.example"], or cors="*"')
        if token is not None and not (isinstance(token, str) and re.fullmatch(r"[!-~]+", token)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError("the token must be visible ASCII characters, at least one")
        allowed_origins = tuple(allowed_origins)
        cors = (cors,) if isinstance(cors, str) else tuple(cors)
        self.principal = "local" if token is None else "token"
        """Whom the requests that pass come from; sessions belong to it (LH-9)."""
        self.loopback = loopback
        self.limits = limits
        self._hosts = None if allowed_hosts is None else [_place("allowed_hosts", host) for host in allowed_hosts]
        self._any_origin = "*" in cors or "*" in allowed_origins
        origins = [*allowed_origins, *cors]
        self._origins = [_origin_option(origin) for origin in origins if origin != "*"]
        self.cors = bool(cors)
        self._cors_any = "*" in cors
        self._cors = [_origin_option(origin) for origin in cors if origin != "*"]
        self._token = None if token is None else token.encode()
        self.plain_hosts: set[bytes] = set()
        """Values of Host that are known to be good; none where a token or CORS have each request looked at."""
        self._legacy = "legacy" in eras
        self._modern = "modern" in eras
        self._good_hosts: set[str] = set()
        self._good_types = {"application/json"}
        self._accepts: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"Guard(principal={self.principal!r})"  # never the token

    def check_post(self, headers: dict[str, str]) -> int:
        """Judge a POST; returns what the client takes as its answer, as bits of JSON and STREAM. Raises Denied."""
        if headers.get("host") not in self._good_hosts or "origin" in headers or "sec-fetch-site" in headers:
            self.check_place(headers)
        if self._token is not None:
            self.check_token(headers)
        kind = headers.get("content-type", "")
        if kind not in self._good_types:
            self._check_type(kind)
        if "content-encoding" in headers and headers["content-encoding"].strip().lower() not in ("identity", ""):
            text = f"Content-Encoding {printable(headers['content-encoding'], 80)}: send the body as it is"
            raise Denied(415, text).with_header(b"accept-encoding", b"identity")
        accept = headers.get("accept", "*/*")
        taken = self._accepts.get(accept)
        if taken is None:
            taken = self._read_accept(accept)
        if taken != JSON | STREAM:
            self._check_accept(taken, headers)
        return taken

    def check_size(self, size: bytes | None) -> None:
        """Judge what a body will take by the word of its head. Raises Denied."""
        if size is not None and not (size.isdigit() and int(size[:20]) <= self.limits.body):
            raise too_large(self.limits)

    # ---- where it came from

    def check_place(self, headers: dict[str, str]) -> None:
        """Judge Host, Origin and Sec-Fetch-Site (T01, T02, HTTP-8). Raises Denied."""
        host = self.check_host(headers)
        origin = headers.get("origin")
        if origin is not None:
            self._check_origin(origin, host)
        elif headers.get("sec-fetch-site", "").strip().lower() == "cross-site":
            text = "a request from another site (Sec-Fetch-Site: cross-site) without an Origin that is allowed"
            raise Denied(403, f"{text}; see the setting allowed_origins")

    def check_host(self, headers: dict[str, str]) -> Place | None:
        """Judge Host alone, and return it. Raises Denied."""
        text = headers.get("host")
        host = None if text is None else self._check_host(text)
        if host is None and self._checks_host:
            raise Denied(400, "the request has no Host header")
        return host

    @property
    def _checks_host(self) -> bool:
        return self.loopback or self._hosts is not None

    def _check_host(self, text: str) -> Place:
        host = _read_place(text)
        if host is None:
            raise Denied(400, f"Host {printable(text, 80)!r} is no host, or there are several")  # T04
        if self._checks_host and not (
            (self.loopback and is_loopback(host.host)) or any(_covers(known, host) for known in self._hosts or ())
        ):
            name = printable(text, 80)
            raise Denied(421, f"this server is not {name!r}; to serve that name add it to the setting allowed_hosts")
        if len(self._good_hosts) >= _KNOWN:
            self._good_hosts.clear()
            self.plain_hosts.clear()
        if len(text) <= _KNOWN:
            self._good_hosts.add(text)
            if self._token is None and not self.cors:
                self.plain_hosts.add(text.encode("latin-1"))
        return host

    def _check_origin(self, text: str, host: Place | None) -> None:
        origin = _read_origin(text)
        if origin is not None:
            scheme, place = origin
            if self._any_origin or any(_same(known, origin) for known in self._origins):
                return
            if host is not None:
                port = host.port or _PORTS.get(scheme, "")
                if self._checks_host and place.host == host.host and place.port == port:
                    return  # its own page; where any Host is taken, a name that was bound anew would pass so (T01)
                if is_loopback(place.host) and is_loopback(host.host):
                    return  # a page on this machine, as inspectors have
        shown = printable(text, 80)
        raise Denied(403, f"Origin {shown!r} is not allowed; to allow it add it to the setting allowed_origins")

    # ---- who sent it

    def check_token(self, headers: dict[str, str]) -> None:
        """Judge the bearer token, in a time that tells nothing of it. Raises Denied."""
        if self._token is None:
            return
        scheme, _, value = headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() != "bearer":
            raise Denied(401, "this server wants a bearer token").with_header(b"www-authenticate", b"Bearer")
        if not hmac.compare_digest(value.strip().encode("latin-1", "replace"), self._token):
            challenge = b'Bearer error="invalid_token"'
            raise Denied(401, "the bearer token is not the right one").with_header(b"www-authenticate", challenge)

    # ---- in what form

    def _check_type(self, text: str) -> None:
        """Only `application/json` is taken, for other types pass a browser without a question (T02)."""
        kind, *parameters = [part.strip().lower() for part in text.split(";")]
        charsets = [value.strip(' "') for name, _, value in (part.partition("=") for part in parameters)
                    if name.strip() == "charset"]  # fmt: skip
        if kind != "application/json" or any(charset not in ("utf-8", "utf8") for charset in charsets):
            shown = printable(text, 80)
            raise Denied(415, f"Content-Type {shown!r}: send application/json (in UTF-8)")
        if len(self._good_types) < _KNOWN and len(text) <= _KNOWN:
            self._good_types.add(text)

    def _read_accept(self, text: str) -> int:
        taken = read_accept(text)
        if len(self._accepts) >= _KNOWN:
            self._accepts.clear()
        if len(text) <= _KNOWN:
            self._accepts[text] = taken
        return taken

    def _check_accept(self, taken: int, headers: dict[str, str]) -> None:
        """Modern clients must be able to read either kind of answer, legacy ones both (HTTP-9)."""
        modern = self._modern and (not self._legacy or beyond_legacy(headers.get("mcp-protocol-version", LATEST)))
        if taken and modern:
            return
        raise Denied(406, BOTH_TYPES, SERVER_ERROR)

    # ---- pages of other sites (F26)

    def cors_headers(self, headers: dict[str, str]) -> Pairs:
        """What each answer has on top, so that the page that asked may read it; nothing where CORS is off."""
        if not self.cors:
            return ()
        text = headers.get("origin", "")
        if not self._reads(text):
            return (_VARY,)
        return (
            (b"access-control-allow-origin", text.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED),
            _VARY,
        )

    def preflight(self, headers: dict[str, str]) -> Pairs | None:
        """The answer's headers where a browser asks whether a page may send a request; None where it does not ask.

        It comes without credentials, so it is answered before they are looked for. Raises Denied.
        """
        if not self.cors or "origin" not in headers or "access-control-request-method" not in headers:
            return None
        if not self._reads(headers["origin"]):
            self._check_origin(headers["origin"], None)
        asked = [name.strip().lower() for name in headers.get("access-control-request-headers", "").split(",")]
        allowed = [name for name in asked if name in _MCP_HEADERS or re.fullmatch(r"mcp-param-[!#-'*+.^-z|~-]+", name)]
        return (
            *self.cors_headers(headers),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", ", ".join(allowed or sorted(_MCP_HEADERS)).encode("latin-1")),
            (b"access-control-max-age", b"600"),
        )

    def _reads(self, text: str) -> bool:
        origin = _read_origin(text)
        return origin is not None and (self._cors_any or any(_same(known, origin) for known in self._cors))


def too_large(limits: Limits) -> Denied:
    """The refusal of a body that is larger than it may be (T11)."""
    return Denied(413, f"the body is larger than {limits.body} bytes (limit `body`)")


def beyond_legacy(version: str) -> bool:
    """Whether a version is of the modern era, known or not: a date after the legacy revisions, or no date at all."""
    version = version.strip()
    return version > LATEST or not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", version)


def is_loopback(host: str) -> bool:
    """Whether a host, in lower case and without brackets, names this machine to itself."""
    if host in ("localhost", "::1"):
        return True
    parts = host.split(".")
    return parts[0] == "127" and len(parts) == 4 and all(part.isdigit() and int(part[:4]) < 256 for part in parts)


def read_accept(text: str) -> int:
    """What an Accept header takes, as bits of JSON and STREAM; the most exact media range decides on a type."""
    taken = 0
    ranges: dict[str, bool] = {}
    for part in text.lower().split(","):
        media, *parameters = [piece.strip() for piece in part.split(";")]
        weight = next((value for name, _, value in (p.partition("=") for p in parameters) if name.strip() == "q"), "1")
        ranges[media] = ranges.get(media, False) or bool(weight.strip().strip("0."))
    for bit, names in (
        (JSON, ("application/json", "application/*", "*/*")),
        (STREAM, ("text/event-stream", "text/*", "*/*")),
    ):
        if next((ranges[name] for name in names if name in ranges), text.strip() == ""):
            taken |= bit
    return taken


def joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers with lower-case names of which some came several times: their values in one, with commas between."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _place(option: str, text: str) -> Place:
    place = Place("*", "*") if text == "*" else _read_place(text.removesuffix(":*"))
    if place is None:
        raise RegistrationError(f"{option} holds {text!r}; write a host, with or without a port, as in 'example.com'")
    return place


def _read_place(text: str) -> Place | None:
    found = _AUTHORITY.fullmatch(text.strip().lower())
    return found and Place(found["six"] or found["name"], found["port"] or "")


def _covers(known: Place, host: Place) -> bool:
    """Whether the option's entry names this host; without a port it stands for any, with a usual one for none too."""
    if known.host == "*":
        return True
    if known.host != host.host:
        return False
    return known.port in ("", host.port) or (host.port == "" and known.port in _DEFAULT_PORTS)


def _origin_option(text: str) -> tuple[str, Place]:
    any_port = text.endswith(":*")
    origin = _read_origin(text.removesuffix("/").removesuffix(":*"))
    if origin is None:
        raise RegistrationError(f"{text!r} is no origin; write scheme and host, as in 'https://app.example.com'")
    return (origin[0], Place(origin[1].host, "*")) if any_port else origin


def _read_origin(text: str) -> tuple[str, Place] | None:
    """Scheme and place; the place's port is the scheme's own where none is named. None for `null` and the like."""
    found = _ORIGIN.fullmatch(text.strip().lower())
    place = found and _read_place(found["authority"])
    if not found or not place:
        return None
    return found["scheme"], Place(place.host, place.port or _PORTS.get(found["scheme"], ""))


def _same(known: tuple[str, Place], origin: tuple[str, Place]) -> bool:
    (scheme, place), (other, there) = known, origin
    return scheme == other and place.host == there.host and place.port in ("*", there.port)
