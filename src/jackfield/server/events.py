"""What changed, who listens, and the bus between them: the part of subscriptions that an author may see."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, get_args

from msgspec import Struct

from ..protocol.errors import RegistrationError
from ..protocol.events import Event, Kind
from ..protocol.printable import printable
from ..protocol.types import Implementation

log = logging.getLogger("jackfield")

STOPS: Final = (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit)
"""What ends whatever runs; all else that the author's code raises, SystemExit too, is a failure of that code."""
_KINDS: Final = get_args(Kind)


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

    def publish(self, event: Event, /) -> None:
        """Pass an event on to all who subscribed. Is called from any thread; what it raises is logged."""
        ...

    def subscribe(self, hear: Callable[[Event], None], /) -> Callable[[], None]:
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
            except STOPS:
                raise
            except BaseException:  # one who fails must not keep the others from hearing
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
"""Decides whether a listener may be told of an event; a coroutine function may take its time.

It is asked about each event by itself. While more of them wait for its answer than limit `watched`, further changes
below a watched resource are not told to that listener at all.
"""


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


def fault_of(event: Any) -> str | None:
    """Say why what came from a bus is no event; None where it is one."""
    if not isinstance(event, Event):
        return f"an object of type {type(event).__name__}"
    kind: Any = event.kind
    uri: Any = event.uri
    if not isinstance(kind, str) or kind not in _KINDS:
        return f"an event of kind {printable(kind, 50) if isinstance(kind, str) else type(kind).__name__}"
    if kind != "resource":
        return None if uri is None else f"a change of the list of {kind} with a URI"
    if not isinstance(uri, str):
        return f"a change of a resource whose URI is of type {type(uri).__name__}"

    from ..protocol.uri import LONGEST_URI, is_uri  # not at the top: many servers have no resources

    return None if len(uri) <= LONGEST_URI and is_uri(uri) else f"no URI: {printable(uri, 200)}"
