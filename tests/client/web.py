"""An HTTP server on a loopback port whose every byte is scripted, for what no decent server does."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from jackfield.client.client import Client
from jackfield.client.era_http import legacy_urls
from jackfield.protocol.errors import JackfieldError
from jackfield.protocol.limits import Limits
from tests.client.fakes import DISCOVERED, INITIALIZED, Fault, text_result

REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


class Reply:
    """A whole HTTP answer: with a length, or with none and `chunks` sent one by one."""

    def __init__(
        self,
        status: int = 200,
        body: bytes = b"",
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
        chunks: list[bytes] | None = None,
        end: bool = True,
    ) -> None:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Odd')}"]
        lines += [f"Content-Type: {kind}"] if kind else []
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += [f"Content-Length: {len(body)}"] if chunks is None else ["Transfer-Encoding: chunked"]
        self.head = "\r\n".join([*lines, "", ""]).encode()
        self.body = body
        self.chunks = chunks
        self.end = end

    async def write(self, post: Post) -> None:
        """Send this as the answer to a request."""
        post.writer.write(self.head + (self.body if self.chunks is None else b""))
        for chunk in self.chunks or []:
            post.writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await post.writer.drain()
            await asyncio.sleep(0)  # so that each chunk is a read of its own
        if self.chunks is not None and self.end:
            post.writer.write(b"0\r\n\r\n")
        if not self.end:
            await post.writer.drain()
            post.writer.close()


def stream(*events: bytes, status: int = 200, end: bool = True) -> Reply:
    """A stream of events, each as one chunk; without `end` the socket is closed in the middle of it."""
    return Reply(status, kind="text/event-stream", chunks=list(events), end=end)


async def begin_stream(post: Post, *messages: dict[str, Any]) -> None:
    """Begin a stream and leave it open: `pour` says more."""
    post.writer.write(Reply(kind="text/event-stream", chunks=[]).head)
    await pour(post, *messages)


async def pour(post: Post, *messages: dict[str, Any]) -> None:
    """Say more on a stream."""
    data = b"".join([event(message) for message in messages])
    if data:
        post.writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    await post.writer.drain()


def answered(post: Post, text: str = "hi") -> dict[str, Any]:
    """The answer of a tool that says something."""
    return {"id": post.id, "result": text_result(text)}


async def silence(post: Post) -> None:
    """Answer nothing until the client gives up."""
    await post.gone.wait()


def event(message: dict[str, Any]) -> bytes:
    """A message as an event."""
    return b"event: message\ndata: " + packed(message) + b"\n\n"


def packed(message: dict[str, Any]) -> bytes:
    """A message as a body."""
    return msgspec.json.encode({"jsonrpc": "2.0", **message})


class Post:
    """A request that came."""

    def __init__(
        self,
        verb: str,
        path: str,
        headers: dict[str, str],
        body: bytes,
        writer: asyncio.StreamWriter,
        gone: asyncio.Event,
    ) -> None:
        self.verb = verb
        self.path = path
        self.headers = headers
        self.body = body
        self.writer = writer
        self.message: dict[str, Any] = msgspec.json.decode(body) if body else {}
        self.gone = gone
        """Set when the client has closed its socket."""

    @property
    def method(self) -> str:
        return self.message.get("method", self.verb if not self.body else "an answer")

    @property
    def id(self) -> Any:
        return self.message.get("id")


Answer = Callable[[Post], Any]


class Web:
    """Answers each method with what `answers` has for it: a result, a `Fault`, a `Reply`, or a function of the `Post`.

    Such a function, which may be `async`, gives one of these, or None where it has written the answer itself.
    Notifications and answers are taken with 202, unless there is something for them too.
    """

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.heard: list[Post] = []
        self.sockets = 0
        self.most_sockets = 0
        self._waiting: list[tuple[Callable[[], bool], asyncio.Event]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def start(self) -> None:
        """Listen, at the port of before where there was one."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """End at once, as a process does that is killed."""
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def methods(self) -> list[str]:
        """The methods that came, in order; GET and DELETE by their name."""
        return [post.method for post in self.heard]

    def posts(self, method: str) -> list[Post]:
        """The requests with that method."""
        return [post for post in self.heard if post.method == method]

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait for the request, or the end of a socket, that makes `reached` true."""
        if not reached():
            entry = (reached, asyncio.Event())
            self._waiting.append(entry)
            await entry[1].wait()
            self._waiting.remove(entry)

    def _look(self) -> None:
        for reached, event in self._waiting:
            if reached():
                event.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        gone = asyncio.Event()
        _tell_of_end(reader, gone)
        self._writers.add(writer)
        self.sockets += 1
        self.most_sockets = max(self.most_sockets, self.sockets)
        try:
            while True:
                post = await self._read(reader, writer, gone)
                self.heard.append(post)
                self._look()
                await self._answer(post)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            self.sockets -= 1
            self._look()
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gone: asyncio.Event) -> Post:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        verb, path, _ = head[0].split(" ")
        headers = {name.lower(): value for line in head[1:] if line for name, _, value in [line.partition(": ")]}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Post(verb, path, headers, body, writer, gone)

    async def _answer(self, post: Post) -> None:
        told = "id" not in post.message or "method" not in post.message
        answer = self.answers.get(post.method, Reply(202, kind="") if told else Fault(-32601, "method not found"))
        if callable(answer):
            answer = answer(post)
            if inspect.isawaitable(answer):
                answer = await answer
        if answer is None:
            return
        if isinstance(answer, Fault):
            answer = Reply(body=packed({"id": post.id, "error": answer.error}))
        elif not isinstance(answer, Reply):
            answer = Reply(body=packed({"id": post.id, "result": answer}))
        await answer.write(post)


def _tell_of_end(reader: asyncio.StreamReader, gone: asyncio.Event) -> None:
    """Set the event when the other side closes its socket, whatever is read or not read at that time."""
    feed_eof, set_exception = reader.feed_eof, reader.set_exception

    def ended() -> None:
        gone.set()
        feed_eof()

    def broken(error: Exception) -> None:
        gone.set()
        set_exception(error)

    reader.feed_eof, reader.set_exception = ended, broken  # type: ignore[method-assign]


def fault(code: int, message: str = "no", data: Any = None, *, status: int = 200, id: Any = ...) -> Answer:
    """A JSON-RPC error with an HTTP status, with the id of the request unless another one is given."""

    def answer(post: Post) -> Reply:
        named = {"id": post.id} if id is ... else {} if id is None else {"id": id}
        return Reply(status, packed({**named, "error": Fault(code, message, data).error}))

    return answer


def modern_web(**answers: Any) -> Web:
    """A modern server; `tools_call` is its answer to tools/call."""
    return Web({"server/discover": DISCOVERED} | {key.replace("__", "/"): value for key, value in answers.items()})


def initialized(session: str | None = None, version: str = "2025-11-25") -> Answer:
    """The answer to `initialize`, with a session where one is named."""

    def answer(post: Post) -> Reply:
        headers = {} if session is None else {"Mcp-Session-Id": session}
        result = INITIALIZED | {"protocolVersion": version}
        return Reply(body=packed({"id": post.id, "result": result}), headers=headers)

    return answer


def legacy_web(session: str | None = "s-1", version: str = "2025-11-25", **answers: Any) -> Web:
    """A legacy server, which refuses the probe as most of them do."""
    known = {
        "server/discover": fault(-32000, "Bad Request: Server not initialized", status=400, id=None),
        "initialize": initialized(session, version),
        "DELETE": Reply(200, kind=""),
    }
    return Web(known | {key.replace("__", "/"): value for key, value in answers.items()})


@contextlib.asynccontextmanager
async def running(web: Web) -> AsyncIterator[Web]:
    """The server, listening."""
    await web.start()
    legacy_urls.pop(web.url, None)  # another test may have had the port
    try:
        yield web
    finally:
        await web.stop()


async def call(web: Web, **options: Any) -> str:
    """The text that the tool of a fresh server gives."""
    async with running(web), Client(web.url, **options) as client:
        return (await client.call_tool("a")).text


async def refused(answer: Any, *, limits: Limits | None = None) -> Exception:
    """What a call is refused with; the client must be as good as before: another request works."""
    web = modern_web(tools__call=answer, prompts__list={"prompts": []})
    async with running(web), Client(web.url, limits=limits) as client:
        with pytest.raises(JackfieldError) as caught:
            await client.call_tool("a")
        assert await client.list_prompts() == []
    return caught.value
