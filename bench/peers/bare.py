"""A bare ASGI application on uvicorn as it comes, without logs, that answers `{}`: our floor; `bare.py PORT`."""

import sys
from typing import Any

import uvicorn

HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"2")]


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Read the body, answer."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": b"{}"})


if __name__ == "__main__":
    port = int(sys.argv[1])
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        http="httptools",
        loop="uvloop",
        lifespan="off",
        log_level="error",
        access_log=False,
    )
