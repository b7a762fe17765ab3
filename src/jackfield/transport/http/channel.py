"""The way out to an HTTP server: each message is a POST of its own, and what comes back goes to the connection."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ...protocol.errors import (
    METHOD_NOT_FOUND,
    ConnectionClosed,
    FrameError,
    InvalidResult,
    JackfieldError,
    LimitExceeded,
    PeerError,
    SessionExpired,
)
from ...protocol.framing import EventReader
from ...protocol.headers import Mark, mirrors
from ...protocol.jsonrpc import Id, Message, Request, Response, decode
from ...protocol.limits import Limits
from ...protocol.printable import printable
from ...protocol.revisions import Revision
from ...protocol.types import CancelledParams, decoder
from ..asking import CANCELLED
from ..connection import Connection
from .faults import http_error

log = logging.getLogger("jackfield")

Send = Callable[[str, Mapping[str, str], bytes], Coroutine[Any, Any, aiohttp.ClientResponse]]

MOST_SENDING: Final = 64
"""Notifications and answers under way from which on a sender waits. Requests are bounded by the limit `asking`."""
SESSION_ID: Final = "Mcp-Session-Id"
VERSION: Final = "MCP-Protocol-Version"
_TYPES: Final = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
_INITIALIZED: Final = "notifications/initialized"
_WHO_ARE_YOU: Final = (401, 403)
_SNIPPET: Final = 2**16
"""How much is read of a body that is looked at only to tell of it, or not at all."""


class _Head(Struct):
    """What of a message of ours says how it is sent."""

    id: Id | UnsetType = UNSET
    method: str = ""
    params: Raw = Raw(b"{}")


class _Named(Struct):
    name: str = ""


_decode_head: Final = msgspec.json.Decoder(_Head).decode
_decode_named: Final = msgspec.json.Decoder(_Named).decode
_decode_batch: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_cancelled: Final = decoder(CancelledParams)


class HttpChannel:
    """Carries one conversation; see `Channel`.

    A request is under way as long as its POST is; when that ends without the answer, just this request fails (F19,
    R02). To cancel a request is to end its POST (HTTP-7); a legacy server is told besides (CAN-4).
    """

    def __init__(self, send: Send, label: str, limits: Limits, marks: Mapping[str, tuple[Mark, ...]]) -> None:
        """`send` makes an HTTP request; `marks` are the arguments that are mirrored, by the name of the tool (XH-4)."""
        self.full = False
        self.longest = limits.line
        self.connection: Connection
        self.revision: Revision | None = None
        """What the headers say; None before it is agreed on."""
        self._send = send
        self._label = label
        self._limits = limits
        self._marks = marks
        self._session: str | None = None
        self._expired = False
        self._open = True
        self._loop = asyncio.get_running_loop()
        self._asking: dict[Id, asyncio.Task[None]] = {}
        self._questions: dict[Id, list[Id]] = {}
        """What the server has asked on the stream of each request of ours."""
        self._telling: set[asyncio.Task[None]] = set()
        self._unsent = 0
        self._room = asyncio.Event()
        self._first: asyncio.Task[None] | None = None
        """The end of a handshake that is still on its way: requests must not overtake it (LIFE-3)."""

    # ---- what the connection calls

    def write(self, frame: bytes) -> None:
        """Send one message."""
        if not self._open:
            return
        head = _decode_head(frame)
        if head.id is not UNSET and head.method:
            task = self._loop.create_task(self._ask(frame, head, head.id))
            self._asking[head.id] = task
            task.add_done_callback(functools.partial(self._asked, head.id))
            return
        if head.method == CANCELLED:
            id = _decode_cancelled(head.params).request_id
            task = None if id is None else self._asking.get(id)
            if task is not None:
                task.cancel()
            if self.revision is None or self.revision.modern:
                return
        task = self._loop.create_task(self._tell(frame, head))
        self._telling.add(task)
        self._unsent += len(frame)
        task.add_done_callback(functools.partial(self._told, len(frame)))
        self._judge_room()
        if head.method == _INITIALIZED:
            self._first = task

    async def drained(self) -> None:
        """Return when the channel is no longer full, or is gone."""
        while self.full and self._open:
            await self._room.wait()

    def close(self) -> None:
        """End all that is under way."""
        self._open = False
        self._room.set()
        for task in (*self._asking.values(), *self._telling):
            task.cancel()

    # ---- what the link calls

    async def finish(self, patience: float) -> None:
        """Take no more messages, end what was asked, and let what was told arrive."""
        self._open = False
        self._room.set()
        for task in self._asking.values():
            task.cancel()
        if self._telling:
            await asyncio.wait(self._telling, timeout=patience)

    async def quiet(self) -> None:
        """Return when nothing is under way."""
        while tasks := [*self._asking.values(), *self._telling]:
            await asyncio.wait(tasks)

    def session_headers(self) -> dict[str, str] | None:
        """The headers that name the session at the server; None where there is none (any more)."""
        return None if self._session is None or self._expired else self._headers(_Head())

    # ---- what is told: notifications and answers

    async def _tell(self, frame: bytes, head: _Head) -> None:
        what = head.method or "an answer"
        try:
            async with asyncio.timeout(self._limits.write):
                response = await self._send("POST", _TYPES | self._headers(head), frame)
                try:
                    body = await self._read(response, _SNIPPET)
                finally:
                    response.close()
            if response.status < 300:
                return
            why: Exception = http_error(what, response.status, {}, reason=response.reason, body=body)
        except (aiohttp.ClientError, OSError, TimeoutError, JackfieldError) as error:
            why = error
        expected = head.method == CANCELLED or not self._open
        log.log(
            logging.DEBUG if expected else logging.WARNING,
            "%s did not take %s: %s",
            self._label,
            printable(what),
            printable(str(why) or type(why).__name__, 500),
        )

    def _told(self, size: int, task: asyncio.Task[None]) -> None:
        self._telling.discard(task)
        self._unsent -= size
        self._judge_room()

    def _judge_room(self) -> None:
        self.full = self._unsent >= self._limits.outgoing or len(self._telling) >= MOST_SENDING
        if self.full:
            self._room.clear()
        else:
            self._room.set()

    # ---- what is asked

    def _headers(self, head: _Head) -> dict[str, str]:
        revision = self.revision
        if revision is None or head.method == "initialize":
            return {}
        if revision.modern:
            marks = self._marks.get(_decode_named(head.params).name, ()) if head.method == "tools/call" else ()
            return {VERSION: revision.name, **mirrors(head.method, bytes(head.params), marks)}
        headers = {VERSION: revision.name} if revision.version_header else {}
        if self._session is not None:
            headers[SESSION_ID] = self._session
        return headers

    async def _ask(self, frame: bytes, head: _Head, id: Id) -> None:
        fault: Exception
        try:
            if self._first is not None and head.method != "initialize":
                await asyncio.wait([self._first])
                self._first = None
            response = await self._send("POST", _TYPES | self._headers(head), frame)
            try:
                self._begin(response, head)
                if response.content_type == "text/event-stream" and 200 <= response.status < 300:
                    await self._take_stream(response, head, id)
                else:
                    await self._take_body(response, head, id)
            finally:
                response.close()
            fault = ConnectionClosed(f"{self._label} ended its answer to {head.method} before it was complete")
        except JackfieldError as error:
            fault = error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            fault = self._lost(error)
        except Exception as error:
            log.exception("%s: reading the answer to %s failed", self._label, head.method)
            fault = InvalidResult(f"the answer to {head.method} could not be read: {type(error).__name__}")
        self.connection.fail(id, fault)  # which does nothing where the answer came

    def _asked(self, id: Id, _: asyncio.Task[None]) -> None:
        del self._asking[id]  # not in the task itself, which may be cancelled before it has begun
        for question in self._questions.pop(id, ()):
            self.connection.cancel_served(question)  # the call is over, and whoever was asked for it need not answer

    def _lost(self, error: Exception) -> ConnectionClosed:
        """What a failure on the way means: this request is lost, the next one connects anew (R02)."""
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            text = "could not be connected to in time (limit `start`)"
        elif isinstance(error, aiohttp.ClientConnectorError):
            text = f"could not be connected to: {error.os_error.strerror or error.os_error}"
        elif isinstance(error, aiohttp.ClientResponseError):  # its text holds the whole URL
            text = f"sent what is no HTTP answer: {error.message}"
        else:
            text = f"broke the connection off: {str(error) or type(error).__name__}"
        return ConnectionClosed(f"{self._label} {printable(text, 500)}")

    def _begin(self, response: aiohttp.ClientResponse, head: _Head) -> None:
        """Look at the head of an answer."""
        coding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if coding not in ("identity", ""):
            why = f"it is compressed ({printable(coding, 40)}), which this client does not take"
            raise self._error(response, head, why=why)
        if head.method == "initialize" and 200 <= response.status < 300:
            session = response.headers.get(SESSION_ID)
            if session is not None and not all("!" <= character <= "~" for character in session):
                raise self._error(response, head, why=f"its {SESSION_ID} has characters that it must not have")
            self._session = session or None

    def _error(self, response: aiohttp.ClientResponse, head: _Head, body: bytes = b"", why: str = "") -> JackfieldError:
        asked = f"{self._label}: {head.method}"
        return http_error(asked, response.status, response.headers, reason=response.reason, body=body, why=why)

    # ---- an answer in one piece

    async def _take_body(self, response: aiohttp.ClientResponse, head: _Head, id: Id) -> None:
        status = response.status
        good = 200 <= status < 300
        body = await self._read(response, self._limits.answer if good else _SNIPPET)
        if good and len(body) > self._limits.answer:
            text = f"{self._label}: the answer to {head.method} is larger than {self._limits.answer} bytes"
            raise LimitExceeded(f"{text} (limit `answer`)", "answer")
        message: Message | None = None
        try:
            message = decode(body, self._limits.depth)
        except FrameError as error:
            if good and self._take_batch(body, id):
                return
            if good and body and (error.id == id or response.content_type == "application/json"):
                text = f"{self._label} answered {head.method} with {printable(error.message)}"
                raise InvalidResult(text) from None
        answer = message if isinstance(message, Response) else None
        unknown = answer is not None and answer.id == id and _code(answer) == METHOD_NOT_FOUND
        if status == 404 and not unknown and self._session is not None and head.method != "initialize":
            self._expired = True
            raise SessionExpired(f"{self._label} does not know the session any more (HTTP 404)")
        if answer is not None and (answer.id == id or (answer.id is None and status not in _WHO_ARE_YOU)):
            self._hear(answer, len(body), id, status)
        elif message is not None and good:
            self._hear(message, len(body), id, status)
            raise self._error(response, head, body, "it is not the answer to this request")
        else:
            why = "a request needs an answer" if good and not body else ""
            raise self._error(response, head, body, why)

    async def _read(self, response: aiohttp.ClientResponse, limit: int) -> bytes:
        """The body, or of one that is larger than `limit` about one byte more than that, or what came first (T11)."""
        content = response.content
        pieces: list[bytes] = []
        size = 0
        while size <= limit:
            piece = await content.readany()
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # ---- an answer as a stream of events

    async def _take_stream(self, response: aiohttp.ClientResponse, head: _Head, id: Id) -> None:
        content, reader, answered = response.content, EventReader(self._limits.event), False
        while not answered:
            piece = await content.readany()
            if not piece:
                reader.finish()
                return
            for event in reader.feed(piece):
                if event.data and event.event == "message" and self._take_event(event.data, id):
                    answered = True
            if self.full:
                await self.drained()  # else a server that asks without end would have us store up answers without end
        if not content.at_eof():  # most streams end here; to wait for that keeps the socket for the next request
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.grace):
                    await self._read(response, _SNIPPET)

    def _take_event(self, data: bytes, id: Id) -> bool:
        """Take one message; whether it is the answer to request `id`."""
        try:
            message = decode(data, self._limits.depth)
        except FrameError as error:
            if (answered := self._take_batch(data, id)) is not None:
                return answered
            self.connection.refuse_frame(data, error)
            return error.reply and error.id == id
        return self._hear(message, len(data), id)

    def _take_batch(self, data: bytes, id: Id) -> bool | None:
        """Take an array of messages, which one revision has (BASE-5); None where it is none."""
        if self.revision is None or not self.revision.batches or data.lstrip()[:1] != b"[":
            return None
        try:
            batch = _decode_batch(data)
        except (msgspec.DecodeError, RecursionError):
            return None
        answered = [self._take_event(bytes(item), id) for item in batch]
        return True in answered

    def _hear(self, message: Message, size: int, id: Id, status: int = 200) -> bool:
        """Hand a message on; whether it is the answer to request `id`. An error that names no request is (F31)."""
        if not isinstance(message, Response):
            if isinstance(message, Request):
                self._questions.setdefault(id, []).append(message.id)
            self.connection.take(message, size)
            return False
        if message.id is None:
            message.id = id
        error = message.error
        if message.id == id and error is not None and status >= 300:
            self.connection.fail(id, PeerError(error.code, error.message, error.data, status))
        else:
            self.connection.take(message, size)
        return message.id == id


def _code(answer: Response) -> int | None:
    return None if answer.error is None else answer.error.code
