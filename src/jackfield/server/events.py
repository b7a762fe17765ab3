"""What changed, who listens, and the bus between them: the part of subscriptions that an author may see."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from msgspec import Struct

from ..protocol.errors import RegistrationError
from ..protocol.events import Event
from ..protocol.types import Implementation

log = logging.getLogger("jackfield")


class Listener(Struct, frozen=True):
    """Who listens, for `may_hear`: one subscription of a modern client, or the session of a legacy one."""

    principal: str
    """Who it is, as far as the transport made sure of it; "local" where nobody had to say."""
    client: Implementation | None
    """What it calls itself: nothing may rest on that (META-5)."""
    revision: str


class Bus(Protocol):
    """Carries events between the servers that share it, such as the replicas of one server.

    Both methods must return at once. Events need neither keep their order nor come only once, but each that a server
    publishes must come back to that server too.
    """

    def publish(self, event: Event) -> None:
        """Pass an event on to all who subscribed. Is called from any thread; what it raises is logged."""
        ...

    def subscribe(self, hear: Callable[[Event], None]) -> Callable[[], None]:
        """Call `hear`, from any thread, with each event from now on; what is returned ends that."""
        ...


class LocalBus:
    """The usual bus: within one process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._hearing: dict[object, Callable[[Event], None]] = {}

    def publish(self, event: Event) -> None:
        """Pass an event on to all who subscribed."""
        with self._lock:
            hearing = list(self._hearing.values())
        for hear in hearing:
            try:
                hear(event)
            except Exception:  # one who fails must not keep the others from hearing
                log.exception("an event could not be heard: %r", event)

    def subscribe(self, hear: Callable[[Event], None]) -> Callable[[], None]:
        """Call `hear` with each event from now on; what is returned ends that, and may be called twice."""
        key = object()
        with self._lock:
            self._hearing[key] = hear

        def end() -> None:
            with self._lock:
                self._hearing.pop(key, None)

        return end


MayHear = Callable[[Event, Listener], "bool | Awaitable[bool]"]
"""Decides whether a listener may be told of an event; a coroutine function may take its time."""


def check_bus(bus: Any) -> None:
    """Raise RegistrationError for what is no bus."""
    for name in ("publish", "subscribe"):
        method = getattr(bus, name, None)
        if not callable(method):
            raise RegistrationError(f"bus={bus!r} has no method {name!r}; see jackfield.Bus")
        if inspect.iscoroutinefunction(method):
            raise RegistrationError(
                f"{name!r} of {bus!r} is a coroutine function; it must return at once, from any thread"
            )
