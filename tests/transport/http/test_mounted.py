"""The application inside another one: mounted, behind middleware, and how many steps a call takes through it."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount

from jackfield import Server
from tests.asgi import MODERN, USUAL, Call, legacy, message, meta, session, settled, tool

from .lab import Lab

SOURCE = str(Path(sys.modules["jackfield"].__file__ or "").parent)


@pytest.fixture
def lab() -> Lab:
    """A lab with the default limits."""
    return Lab()


def discover(app: Any, path: str) -> Call:
    headers = USUAL | {"mcp-protocol-version": MODERN, "mcp-method": "server/discover"}
    return Call(app, path=path, headers=headers, body=message("server/discover", {"_meta": meta()}))


@pytest.mark.parametrize(
    ("mount", "own", "path"),
    [
        ("/tools", "/mcp", "/tools/mcp"),
        ("/tools", "/mcp", "/tools/mcp/"),
        ("/mcp", "/", "/mcp/"),
        ("/", "/mcp", "/mcp"),
        ("/a/b", "/c/d", "/a/b/c/d"),
    ],
)
@pytest.mark.parametrize("lives", [True, False])
async def test_it_answers_where_it_is_mounted(mount: str, own: str, path: str, lives: bool) -> None:
    """In Starlette, with its lifespan handed on or starting by itself, at the path of both together."""
    told: list[str] = []

    @contextlib.asynccontextmanager
    async def lifespan(server: Server) -> AsyncIterator[None]:
        told.append("began")
        yield
        told.append("ended")

    app = Lab(lifespan=lifespan).server.http_app(path=own)
    outer = Starlette(routes=[Mount(mount, app=app)], lifespan=app.lifespan if lives else None)
    async with outer.router.lifespan_context(outer):
        assert (await discover(outer, path).end()).status == 200
        assert (await discover(outer, path + "x").end()).status == 404
    assert told == (["began", "ended"] if lives else ["began"])


async def test_streams_and_hang_ups_pass_through_middleware(lab: Lab) -> None:
    """Starlette's own middleware stands between: streams come in parts, hanging up cancels (HTTP-5, HTTP-7)."""

    class Plain(BaseHTTPMiddleware):
        async def dispatch(self, request: Any, call_next: Any) -> Any:
            return await call_next(request)

    outer = Starlette(
        routes=[Mount("/", app=lab.server.http_app())], middleware=[Middleware(Plain), Middleware(GZipMiddleware)]
    )
    call = tool(outer, "report", {"steps": 1, "waits": True}, token=1)
    await call.came("progress")
    assert not call.ended
    lab.go.set()
    assert len((await call.end()).events) == 2
    lab.go.clear()
    call = tool(outer, "wait", {"mark": "a"})
    await lab.until_begun(2)
    call.hang_up()
    await lab.until(lambda: lab.cancelled == ["a"])


@pytest.mark.parametrize("steps", range(1, 12))
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_cancellation_at_any_moment_leaves_nothing(era: str, steps: int) -> None:
    """The ASGI server may cancel the task of a stream wherever it is (R14)."""
    lab = Lab()
    app = lab.server.http_app()
    id = await session(app)
    before = len(asyncio.all_tasks())
    if era == "modern":
        call = tool(app, "report", {"steps": 3, "waits": True}, token=1)
    else:
        params = {"name": "report", "arguments": {"steps": 3, "waits": True}, "_meta": {"progressToken": 1}}
        call = legacy(app, message("tools/call", params), id)
    for _ in range(steps):
        await asyncio.sleep(0)
    call.task.cancel()
    lab.go.set()
    await asyncio.wait([call.task])
    await settled()
    assert (len(asyncio.all_tasks()), app.waiting) == (before, set())
    assert (await legacy(app, message("ping"), id).end()).status == 200
