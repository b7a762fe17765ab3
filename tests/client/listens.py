"""Servers that tell of changes, scripted, and what their tests look at."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from jackfield.client import subscription
from jackfield.client.listening import Listening
from jackfield.protocol.errors import ConnectionClosed
from jackfield.protocol.events import Event
from tests.client.fakes import Fake, modern

ID = "io.modelcontextprotocol/subscriptionId"
LISTEN = "subscriptions/listen"
TOOLS, PROMPTS, RESOURCES = Event("tools"), Event("prompts"), Event("resources")
TELLING = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
EVERYTHING = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def no_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, none of which takes any time."""
    passed: list[float] = []

    async def sleep(seconds: float) -> None:
        passed.append(seconds)

    monkeypatch.setattr(subscription, "sleep", sleep)
    return passed


def acknowledge(server: Fake, message: dict[str, Any], told: Any = None, id: Any = None) -> object:
    """Say what is told on the stream that was asked for: all of it, unless `told` says what."""
    filter = message["params"]["notifications"] if told is None else told
    params = {"notifications": filter, "_meta": {ID: message["id"] if id is None else id}}
    server.notify("notifications/subscriptions/acknowledged", params)
    return Fake.SILENT


def telling(listen: Callable[[dict[str, Any]], Any] | None = None, **answers: Any) -> Fake:
    """A modern server that acknowledges whatever it is asked for."""
    server = modern(**answers)
    server.answers[LISTEN] = listen or (lambda message: acknowledge(server, message))
    return server


def changed(server: Fake, kind: str, id: Any) -> None:
    """Tell on a stream that a list changed."""
    server.notify(f"notifications/{kind}/list_changed", {"_meta": {ID: id}})


def updated(server: Fake, uri: str, id: Any = None) -> None:
    """Tell, on a stream where `id` names one, that a resource changed."""
    meta = {} if id is None else {"_meta": {ID: id}}
    server.notify("notifications/resources/updated", {"uri": uri, **meta})


def streams(server: Fake) -> list[Any]:
    """The ids of the streams that were asked for."""
    return [message["id"] for message in server.heard if message.get("method") == LISTEN]


def cancelled(server: Fake) -> list[Any]:
    """The ids that were cancelled."""
    return [params["requestId"] for params in server.asked("notifications/cancelled")]


async def take(events: Listening, count: int) -> list[Event]:
    """The next events."""
    return [await anext(events) for _ in range(count)]


async def silent(events: Listening) -> bool:
    """Whether nothing waits to be heard."""
    waiting = asyncio.ensure_future(anext(events))
    for _ in range(10):
        await asyncio.sleep(0)
    quiet = not waiting.done()
    waiting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await waiting
    return quiet


async def begin(events: Listening, how: str) -> None:
    if how == "enter":
        async with events:
            pass
    else:
        await anext(events)


def end_with_a_result(server: Fake, id: Any) -> None:
    server.say({"id": id, "result": {"resultType": "complete", "_meta": {ID: id}}})


def end_with_a_cancellation(server: Fake, id: Any) -> None:
    server.notify("notifications/cancelled", {"requestId": id})


def end_with_an_error(server: Fake, id: Any) -> None:
    server.say({"id": id, "error": {"code": -32602, "message": "no more"}})


def end_with_the_connection(server: Fake, id: Any) -> None:
    assert server.connection is not None
    server.connection.lost(ConnectionClosed("fake ended with exit code 1", exit_code=1))
