"""Two connections in one process, joined back to back: what one writes the other receives at once, as bytes."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable

from ..protocol.errors import ConnectionClosed
from .connection import Channel, Connection


class MemoryChannel:
    """One direction of an in-memory conversation; never full, for the receiving connection bounds what it takes."""

    def __init__(self) -> None:
        self.full = False
        self.longest = sys.maxsize
        self.ended: Callable[[], None] | None = None
        self._far: Connection | None = None

    def join(self, far: Connection | None) -> None:
        """Deliver what is written from now on to `far`; to nobody where that is None."""
        self._far = far

    def write(self, frame: bytes) -> None:
        """Deliver one frame."""
        if self._far is not None:
            self._far.receive(frame)

    async def drained(self) -> None:
        """Return at once."""

    def close(self) -> None:
        """End the conversation: the other side sees that its peer is gone."""
        far, self._far = self._far, None
        if far is not None:
            far.lost(ConnectionClosed(f"{far.name} closed the connection"))
        if self.ended is not None:
            self.ended()


def connect(
    near: Callable[[Channel], Connection],
    far: Callable[[Channel], Connection],
    leave: Callable[[], Awaitable[None]],
    grace: float,
) -> tuple[Connection, Connection]:
    """Make two connections that talk to one another; each maker is given the channel to its other side.

    When the near side closes its channel, the far side's handlers are cancelled and have `grace` seconds, then `leave`
    is awaited; `near.farewell` is the task that does this.
    """
    to_far, to_near = MemoryChannel(), MemoryChannel()
    one, other = near(to_far), far(to_near)
    to_far.join(other)
    to_near.join(one)

    async def part() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await other.quiet()
        await leave()

    def ended() -> None:
        to_far.ended = None
        to_near.join(None)
        one.farewell = asyncio.get_running_loop().create_task(part())

    to_far.ended = ended
    return one, other
