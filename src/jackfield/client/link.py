"""From a target to one conversation with it: a URL, a child process, or a server object in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from ..protocol.errors import ConnectionClosed, RegistrationError
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..transport.connection import Channel, Connection
from ..transport.http.target import Http
from ..transport.process import Stdio, start

Make = Callable[[Channel], Connection]


class Link(Protocol):
    """One conversation, and what carries it."""

    label: str
    """A name for messages until the server has told its own."""
    started: float
    """When the other side was started, on the loop's clock."""
    connection: Connection

    async def awake(self) -> None:
        """Return when the other side has shown that it runs."""
        ...

    async def close(self) -> None:
        """End the conversation and what carries it; any task may call it, any number of times."""
        ...


@runtime_checkable
class Connectable(Protocol):
    """What a client can be given besides `Http` and `Stdio`: our `Server` is one."""

    def __mcp_connect__(self, make: Make) -> Awaitable[Connection]:
        """Start serving one client, whose side of the conversation `make` makes; closing its channel ends it."""
        ...


class Joined:
    """A conversation with a server object in this process."""

    def __init__(self, label: str, connection: Connection, channel: Channel) -> None:
        self.label = label
        self.started = asyncio.get_running_loop().time()
        self.connection = connection
        self._channel = channel

    async def awake(self) -> None:
        """Return at once: it runs."""

    async def close(self) -> None:
        """End the conversation."""
        self.connection.lost(ConnectionClosed(f"the connection to {self.label} was closed"))
        self._channel.close()
        if self.connection.farewell is not None:
            await asyncio.shield(self.connection.farewell)


Target = Http | Stdio | Connectable


def check(target: object) -> Target:
    """The target, if it is one; a URL as the `Http` that it is. Raises RegistrationError, which says what to write."""
    if isinstance(target, str) and "://" in target:
        return Http(target)
    if isinstance(target, Http | Stdio | Connectable):
        return target
    if isinstance(target, str | list | tuple):
        raise RegistrationError(
            f"Client({target!r}): a URL begins with http:// or https://, a command is given as "
            "Client(Stdio('python', 'server.py'))"
        )
    raise RegistrationError(f"Client takes a URL, an Http, a Stdio or a Server object, not {type(target).__name__}")


def label_of(target: Target) -> str:
    """A name for messages."""
    if isinstance(target, Http | Stdio):
        return target.label
    return printable(str(getattr(target, "name", "the server")), 80)


async def open_link(target: Stdio | Connectable, make: Make, limits: Limits) -> Link:
    """Start the target and connect to it. Raises ConnectionClosed where a process cannot be started."""
    if isinstance(target, Stdio):
        return start(target, make, limits)
    channels: list[Channel] = []

    def make_and_keep(channel: Channel) -> Connection:
        channels.append(channel)
        return make(channel)

    connection = await target.__mcp_connect__(make_and_keep)
    return Joined(connection.name, connection, channels[0])
