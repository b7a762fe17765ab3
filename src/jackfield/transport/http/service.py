"""What a server gives to the transport that serves it over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from msgspec import Struct

from ...protocol.jsonrpc import Notification, Request
from ...protocol.limits import Limits
from ...protocol.revisions import Revision
from ..link import Link

WHOLE = "jackfield.whole"
"""Where our runner's scopes have a `Whole`."""
Whole = Callable[[Any, bytes, bytes], bool]
"""Writes a whole answer of status 200 at once: for the request with this `send`, from its header lines and its body.
Returns False where nothing was written, and the answer must be sent as ASGI says."""


class Service(Struct, frozen=True):
    """A server as its HTTP transport sees it. What stands for a peer is the server's own and only handed back to it."""

    label: str
    """The server's name, for messages."""
    limits: Limits
    eras: frozenset[str]
    """Which of "modern" and "legacy" are served."""
    serve: Callable[[Any, Request, Link], Coroutine[Any, Any, bytes]]
    """Answer a request of a peer; a JSON-RPC error comes as `Refused`. Raises nothing but CancelledError."""
    notice: Callable[[Any, Notification], None]
    """Hear a notification of a peer."""
    stranger: Any
    """The peer of each modern request whose `_meta` was not read yet."""
    session: Callable[[Revision | None, bool], Any]
    """The peer of a legacy session; with a revision one that needs no `initialize` any more."""
    enter: Callable[[], Awaitable[None]]
    """Begin to use the server: its lifespan starts with the first use. Raises what the lifespan raises."""
    leave: Callable[[], Awaitable[None]]
    """End one use of it."""
