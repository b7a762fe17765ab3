"""Who asks: what a server knows of the other side of one request or session, and how it reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from ..protocol.jsonrpc import Id
from ..protocol.revisions import REVISIONS, Revision
from ..protocol.types import ClientCapabilities, Implementation, LogLevel
from ..protocol.wire import LEGACY, MODERN, Wire

OLDEST = REVISIONS[-1]


class Peer(Struct):
    """What is known of a client: from its `_meta`, for one request (META-4), or from `initialize`, for a session.

    A modern peer is never changed once it was read; a session's is filled in by `initialize` and `logging/setLevel`.
    """

    wire: Wire
    revision: Revision | None
    """None: a session that was not initialized yet."""
    capabilities: ClientCapabilities
    client: Implementation | None
    log_level: LogLevel | None
    """Log messages from this level on are wanted; None: none are (LOG-2)."""
    opening: asyncio.Event | None = None
    """Set once the `initialize` that is under way was answered: what follows it in the same read waits for it."""

    @property
    def speaks(self) -> Revision:
        """The revision to answer in: the oldest before any was agreed on."""
        return self.revision or OLDEST


def new_session(revision: Revision | None = None) -> Peer:
    """The peer of a conversation; it is sent logs from `info` on until it asks otherwise (LOG-3).

    Without a `revision` it has not begun; with one it goes on where no session is kept (LH-11).
    """
    return Peer(LEGACY, revision, ClientCapabilities(), None, "info")


STRANGER = Peer(MODERN, None, ClientCapabilities(), None, None)
"""The peer of a modern request that comes by itself, before its `_meta` was read; never changed (META-4)."""


class Link(Protocol):
    """How a request's handler reaches its peer: what a transport gives to the engine with each request."""

    @property
    def headers(self) -> Mapping[str, str] | None:
        """The HTTP headers of the request, with lower-case names; None where it did not come over HTTP."""
        ...

    @property
    def verify(self) -> Callable[[str, str, str | None], None] | None:
        """Compare those headers with the request's revision, method and name (HDR-2); raises ProtocolError."""
        ...

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification on the stream of this request; waits while the peer does not read."""

    def serving(self, id: Id) -> bool:
        """Tell whether the request is still under way: neither answered nor cancelled."""
        ...
