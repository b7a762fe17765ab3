"""How the handler of one request reaches its peer: what every transport gives to the engine with each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Raw

from ..protocol.jsonrpc import Id


class Link(Protocol):
    """The way back to the peer of a request."""

    @property
    def headers(self) -> Mapping[str, str] | None:
        """The HTTP headers of the request, with lower-case names; None where it did not come over HTTP."""
        ...

    @property
    def verify(self) -> Callable[[str, str, str | None], None] | None:
        """Compare those headers with the request's revision, method and name (HDR-2); raises ProtocolError."""
        ...

    @property
    def principal(self) -> str:
        """Who asks, as far as the transport made sure of it; "local" where nobody had to say who they are."""
        ...

    @property
    def streams(self) -> bool:
        """Tell whether the peer takes anything before the answer: an HTTP client may have said that it does not."""
        ...

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification on the stream of this request; waits while the peer does not read."""

    async def sent(self) -> None:
        """Return when what was notified has gone out, as far as this side can tell, or nobody reads any more."""

    async def ask(self, method: str, params: Any, timeout: float) -> Raw:
        """Send a request to a legacy peer, on the stream of the one that is served, and return its result's bytes.

        Raises NotSupported where the peer cannot be reached so, PeerError, RequestTimeout, ConnectionClosed.
        """
        ...

    def at_end(self, id: Id, frame: bytes) -> None:
        """Note with which answer request `id` ends where this side ends the conversation before its handler does."""

    def serving(self, id: Id) -> bool:
        """Tell whether the request is still under way: neither answered nor cancelled."""
        ...
