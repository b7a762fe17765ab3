"""A plain ASGI app for the tests of the runner, and the process that runs it with the options of its argument."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

from jackfield import Limits
from jackfield.transport import stdio
from jackfield.transport.http import workers


class PlainApp:
    """Answers what a path asks for, and remembers what happened."""

    path = "/mcp"

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.happened: list[str] = []
        self.gate = asyncio.Event()
        self._closed = asyncio.Event()
        self._watchers: list[asyncio.Future[None]] = []

    def tell(self, what: str) -> None:
        """Remember something, and wake who waits for it."""
        self.happened.append(what)
        for watcher in self._watchers:
            watcher.set_result(None)
        self._watchers.clear()

    async def until(self, *what: str) -> None:
        """Wait until all that has happened."""
        while not set(what) <= set(self.happened):
            self._watchers.append(watcher := asyncio.get_running_loop().create_future())
            await watcher

    def closing(self) -> None:
        """End the streams."""
        self.tell("closing")
        self._closed.set()

    @contextlib.asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Tell when it begins and ends."""
        assert app is self
        self.tell("began")
        yield
        self.tell("ended")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope)
        self.tell("called")
        await getattr(self, scope["path"].strip("/"))(scope, receive, send)

    async def mcp(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer with the size of the body and the process."""
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.tell("gone")
                return
            size, more = size + len(message["body"]), message["more_body"]
        await self._answer(send, json.dumps({"size": size, "pid": os.getpid()}).encode())

    async def wait(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer never; the peer may hang up."""
        await receive()
        self.tell("waiting")
        try:
            await receive()
            self.tell("gone")
        except asyncio.CancelledError:
            self.tell("cancelled")
            raise

    async def block(self, scope: Any, receive: Any, send: Any) -> None:
        """Keep the loop for ever."""
        self.tell("blocked")
        threading.Event().wait()

    async def gated(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer once the test lets it."""
        self.tell("waiting")
        await self.gate.wait()
        await self._answer(send, b"passed")

    async def until_closing(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer once the server ends."""
        self.tell("waiting")
        await self._closed.wait()
        await self._answer(send, b"last")

    async def stream(self, scope: Any, receive: Any, send: Any) -> None:
        """Send an event, and go on until the server ends."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        self.tell("streaming")
        await self._closed.wait()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def stubborn_stream(self, scope: Any, receive: Any, send: Any) -> None:
        """Send an event, and go on until it is cancelled."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        self.tell("streaming")
        await asyncio.get_running_loop().create_future()

    async def announced(self, scope: Any, receive: Any, send: Any) -> None:
        """Announce ten bytes, send one, and wait."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"1", "more_body": True})
        self.tell("streaming")
        await asyncio.get_running_loop().create_future()

    async def endless(self, scope: Any, receive: Any, send: Any) -> None:
        """Send until the peer is gone."""
        gone = asyncio.ensure_future(self._gone(receive))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            await asyncio.sleep(0)
        self.tell("gone")

    async def _gone(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def _answer(self, send: Any, body: bytes) -> None:
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


class LoudApp(PlainApp):
    """Tells what happens on standard error, and fails to start where FAILS says so."""

    def __init__(self) -> None:
        super().__init__()
        self._fails = os.environ.get("FAILS")

    def tell(self, what: str) -> None:
        os.write(2, f"{what}\n".encode())

    @contextlib.asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        if self._fails:
            raise OSError(self._fails)
        async with super().lifespan(app):
            os.write(2, f"pid {os.getpid()}\n".encode())
            yield


def main() -> None:
    """Run the app; the argument is a JSON object of the options."""
    if os.environ.get("SERVED_LOOP") == "asyncio":
        sys.modules["uvloop"] = None  # type: ignore[assignment] - as if it was not installed
    from jackfield.transport.http.serve import run

    stdio.PARENT_WATCH = 0.1
    workers.AGAIN = 0.05
    usual: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
        "uds": None,
        "workers": 1,
        "protected": False,
        "insecure": False,
    }
    limits = Limits(**json.loads(os.environ.get("SERVED_LIMITS", "{}")))
    run(LoudApp(), **usual | json.loads(sys.argv[1]), limits=limits, label="plain")


if __name__ == "__main__":
    main()
