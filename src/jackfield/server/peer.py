"""Who asks: what a server knows of the other side of one request or session, and how it reaches it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from ..protocol.revisions import REVISIONS, Revision
from ..protocol.types import ClientCapabilities, Implementation, LogLevel
from ..protocol.wire import LEGACY, MODERN, Wire

OLDEST = REVISIONS[-1]


class Peer(Struct, weakref=True, eq=False):
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
    tell: Callable[[str, Any], Awaitable[None]] | None = None
    """Sends a session a notification that belongs to none of its requests; None where there is no way to."""
    closed: Callable[[], bool] | None = None
    """Tells whether the session is over; None for a peer that is none, or has no way to be told."""
    kept: bool = True
    """False for a legacy client of a server that keeps no sessions: it can neither be asked nor told of changes."""

    @property
    def speaks(self) -> Revision:
        """The revision to answer in: the oldest before any was agreed on."""
        return self.revision or OLDEST


def new_session(revision: Revision | None = None, kept: bool = True) -> Peer:
    """The peer of a conversation; it is sent logs from `info` on until it asks otherwise (LOG-3).

    Without a `revision` it has not begun; with one it goes on where no session is `kept` (LH-11).
    """
    return Peer(LEGACY, revision, ClientCapabilities(), None, "info", kept=kept)


STRANGER = Peer(MODERN, None, ClientCapabilities(), None, None)
"""The peer of a modern request that comes by itself, before its `_meta` was read; never changed (META-4)."""
