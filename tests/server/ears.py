"""A client's side of a conversation that listens: what it is told comes one by one, so that tests can wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

from jackfield import Context, Server
from tests.server.talk import CLIENT, MODERN, PREFIX, Talk

SUBSCRIPTION = PREFIX + "subscriptionId"
LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


class Ear(Talk):
    """A client that listens."""

    def __init__(self, revision: str) -> None:
        super().__init__(revision)
        self._told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def receive(self, frame: bytes) -> None:
        """Take what the server sends."""
        super().receive(frame)
        message = json.loads(frame)
        if "id" not in message:
            self._told.put_nowait(message)

    async def told(self) -> tuple[str, Any]:
        """The next notification: its method without `notifications/`, and its params without an empty `_meta`."""
        message = await asyncio.wait_for(self._told.get(), 10)
        return message["method"].removeprefix("notifications/"), message["params"]

    async def listen(self, *, id: Any = None, **wanted: Any) -> tuple[Any, dict[str, Any]]:
        """Open a subscription, and return its id with what was acknowledged."""
        id = self.send("subscriptions/listen", {"notifications": wanted}, id=id)
        method, params = await self.told()
        assert method == "subscriptions/acknowledged"
        assert params["_meta"] == {SUBSCRIPTION: id}
        return id, params["notifications"]


@contextlib.asynccontextmanager
async def hearing(server: Server, revision: str = MODERN, *, ready: bool = True) -> AsyncGenerator[Ear]:
    """A conversation with `server`; of a legacy client after its handshake, or just before the end of it."""
    ear = Ear(revision)
    await server.__mcp_connect__(ear.on)  # type: ignore[arg-type]
    try:
        if revision != MODERN:
            hello = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
            await ear.ask("initialize", hello)
        if revision != MODERN and ready:
            ear.notify("notifications/initialized", {})
        yield ear
    finally:
        await ear.close()


def about(uri: str, id: Any = None) -> tuple[str, dict[str, Any]]:
    """What is told of a resource: to a session, or on the subscription `id`."""
    params: dict[str, Any] = {"uri": uri}
    if id is not None:
        params["_meta"] = {SUBSCRIPTION: id}
    return "resources/updated", params


def listed(kind: str, id: Any = None) -> tuple[str, dict[str, Any]]:
    """What is told of a list: to a session, or on the subscription `id`."""
    return f"{kind}/list_changed", {} if id is None else {"_meta": {SUBSCRIPTION: id}}


def shop(**options: Any) -> Server:
    """A server with one tool, prompt and resource each."""
    server = Server("shop", **options)

    @server.tool
    async def buy(ctx: Context) -> str:
        """Buy something, which changes what is in stock."""
        ctx.notify_resource_updated("shop://stock/apples")
        return "bought"

    @server.prompt
    def advise() -> str:
        return "Advise me."

    @server.resource("shop://stock")
    def stock() -> str:
        return "apples"

    return server
