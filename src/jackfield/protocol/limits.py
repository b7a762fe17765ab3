"""Every limit and deadline, in one place; each is named in the error that it raises."""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from .errors import RegistrationError


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds of a server or a client. Sizes are bytes, times are seconds."""

    line: int = 16 * 2**20
    """The longest line on stdio, without its end."""
    body: int = 4 * 2**20
    """The largest body of an HTTP request that a server takes."""
    answer: int = 16 * 2**20
    """The largest body of an HTTP answer, other than a stream, that a client takes."""
    headers: int = 64 * 2**10
    """The size of an HTTP request's head."""
    event: int = 16 * 2**20
    """The largest Server-Sent Event."""
    depth: int = 64
    """The deepest nesting of arrays and objects in one message."""
    running: int = 256
    """Requests of one peer that run at the same time."""
    asking: int = 256
    """Requests to one peer that are under way at the same time; more of them wait, for most peers would refuse them."""
    queued: int = 256
    """Requests of one peer that wait for a running one to end; beyond it the peer is told "server busy"."""
    queued_bytes: int = 16 * 2**20
    """The size of the waiting requests together."""
    requests: int = 4096
    """HTTP requests that one server works on at the same time; beyond it they are refused."""
    sessions: int = 10_000
    """HTTP sessions of one server; when it has so many, the one that was idle for longest ends."""
    session_idle: float = 1800.0
    """How long an HTTP session lasts without a request."""
    outgoing: int = 2**20
    """Unsent bytes from which on a handler's answer or notification waits for the peer to read."""
    threads: int = 64
    """Threads for `def` handlers."""
    request_timeout: float = 60.0
    """How long a client waits for an answer; each progress notification starts it anew."""
    request_total: float = 600.0
    """The end of a request's time, progress or not."""
    probe: float = 3.0
    """How long the era probe waits for its answer after the server's first byte."""
    start: float = 30.0
    """How long a started server has for its first byte."""
    drain: float = 30.0
    """How long a stdio server whose input ended goes on answering what it had read."""
    grace: float = 2.0
    """How long each step of a shutdown lasts before the next, harder one."""
    silence: float = 5.0
    """An HTTP answer that is not there after so long becomes a stream."""
    heartbeat: float = 15.0
    """The time between signs of life on a stream that has nothing else to say."""
    write: float = 30.0
    """How long an HTTP peer may take nothing of what is sent to it before it is given up."""
    head_time: float = 10.0
    """How long an HTTP client may take for the head of a request, and send nothing more of a body."""
    body_time: float = 60.0
    """How long an HTTP client may take for a whole body."""
    question: float = 600.0
    """How long a question may stay open: at a client's handlers, and until a sealed state expires."""
    rounds: int = 10
    """How often one call may come back with questions."""
    questions: int = 20
    """How many questions of one call a client takes, and of one legacy server at the same time."""
    state: int = 2**20
    """The largest state of a call that waits for answers, as text."""
    parked: int = 256
    """Calls whose handlers stay alive while a modern client is asked (`replay=False`), and, counted apart, threads of
    `def` handlers that wait for people."""
    listens: int = 1000
    """Subscription streams of one principal at the same time."""
    watched: int = 1000
    """Resources that one subscription or session may watch."""
    pages: int = 1000
    """Pages of one list that a client reads."""
    stderr: int = 64 * 2**10
    """How much of a child's standard error is kept for error messages."""
    schema_size: int = 64 * 2**10
    """The largest JSON Schema, as JSON."""
    schema_depth: int = 56
    """The deepest nesting of a JSON Schema, and its longest chain of schemas that judge one and the same value.

    A schema of this depth still fits into the answer that lists it, under the default `depth`."""
    schema_nodes: int = 10_000
    """The most subschemas of a JSON Schema, and how many may judge one and the same value, references followed."""

    def __post_init__(self) -> None:
        """Raises RegistrationError for a limit that limits nothing: it must be a number above 0, and finite."""
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            value: Any = getattr(self, name)
            whole = isinstance(default, int)
            number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
            if not number or not 0 < value < math.inf:
                kind = "a whole number above 0" if whole else "a number of seconds above 0, and finite"
                raise RegistrationError(f"limit `{name}` is {value!r}; it must be {kind}")
