"""The client: what an application calls a server with, over whatever connection there is at the moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from .._version import __version__
from ..protocol.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    InvalidResult,
    LimitExceeded,
    PeerError,
    SessionExpired,
)
from ..protocol.icons import check_icons
from ..protocol.limits import Limits
from ..protocol.meta import check_call_meta, check_extensions, negotiated
from ..protocol.methods import METHODS, Method
from ..protocol.printable import printable
from ..protocol.types import (
    CacheableResult,
    CallToolParams,
    CallToolResult,
    CompleteParams,
    CompleteResult,
    CompletionArgument,
    CompletionContext,
    GetPromptParams,
    GetPromptResult,
    Implementation,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    LogLevel,
    PaginatedParams,
    PaginatedResult,
    Params,
    Prompt,
    PromptReference,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    ResourceTemplateReference,
    ServerCapabilities,
    Tool,
)
from ..transport.http.target import Http
from ..transport.process import Stdio
from .answering import Answering
from .cache import Cache
from .era import wanted_by
from .events import Choice
from .incoming import Callbacks, Incoming, OnListChanged, OnLog, OnNotification, OnProgress
from .keeper import Keeper
from .link import Connectable, check
from .listening import Listeners, Listening
from .mirroring import Mirroring
from .outputs import Outputs
from .questions import Handlers, OnElicit, OnSample, Roots, retried
from .session import CALL, Asking, Hello, Session
from .tracing import OnTrace
from .values import as_text, encode_object

log = logging.getLogger("jackfield")

_ANONYMOUS: Final = Implementation("jackfield", __version__)
_DISCOVER: Final = METHODS["server/discover"]
_PING: Final = METHODS["ping"]
_LIST_TOOLS: Final = METHODS["tools/list"]
_LIST_RESOURCES: Final = METHODS["resources/list"]
_LIST_TEMPLATES: Final = METHODS["resources/templates/list"]
_LIST_PROMPTS: Final = METHODS["prompts/list"]
_READ: Final = METHODS["resources/read"]
_GET_PROMPT: Final = METHODS["prompts/get"]
_COMPLETE: Final = METHODS["completion/complete"]


class Client:
    """Calls one server: one at a URL, a `Stdio` description of one to start, or a `Server` object of this process.

    Use it as `async with Client(target) as client`, or `await client.connect()` and `await client.close()`. Any number
    of calls may be under way at once. When the connection is lost the calls under way fail with ConnectionClosed, and
    the next call connects anew.

    Every call may raise NotSupported (the server does not offer it; nothing was sent), PeerError (the server answered
    with an error), RequestTimeout, ConnectionClosed, HttpError (it answered with no message at all) or InvalidResult.
    Results and the items of lists keep their exact bytes in `.raw`.

    `extensions` are those of the protocol that the application speaks, with its settings, as in
    `{"com.example/colours": {}}`; no other is declared (CAP-4). `trace()` is asked with each request for the trace that
    it belongs to, a dict with `traceparent` and perhaps `tracestate` and `baggage` (TRC-1).

    In the middle of a call a server may ask what the client has a function for, plain or `async`, that takes a
    `ClientQuestion`. `elicit` gives a dict for a form, or True (its defaults), `elicit_url` True where the person
    agrees to visit a page; both give False for a no, and None where it is neither, as which counts what fails or does
    not fit.
    `sample` gives a CreateMessageResult, text or content, None where the user rejects it; with `sample_tools` of a
    model that can be given tools. `roots` is a list of paths, file URIs or Roots, or a function that gives one. A call
    that was asked what it gives no answer to raises Unanswered, one that is asked without end LimitExceeded.
    """

    def __init__(
        self,
        target: str | Http | Stdio | Connectable,
        *,
        mode: str = "auto",
        timeout: float | None = None,
        limits: Limits | None = None,
        info: Implementation | None = None,
        on_log: OnLog | None = None,
        on_list_changed: OnListChanged | None = None,
        on_notification: OnNotification | None = None,
        cache: bool = True,
        elicit: OnElicit | None = None,
        elicit_url: OnElicit | None = None,
        sample: OnSample | None = None,
        sample_tools: bool = False,
        roots: Roots | None = None,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        trace: OnTrace | None = None,
    ) -> None:
        """Describe a client; nothing is started yet.

        `mode` is "auto", "modern", "legacy" or the name of one revision. `timeout` is the longest silence in an
        answer's making, in seconds, unless a call says otherwise (limit `request_timeout`). `info` is what the server
        is told of us. `on_log(level, logger, data)` hears the server's log messages, `on_list_changed(kind)` that its
        "tools", "resources" or "prompts" are others now (a modern server is listened to for that, where it declares
        it), `on_notification(method, params)` all that no other callback took. Callbacks may be plain or `async`; calls
        of a slow `async` one wait in a bounded queue that drops the oldest, and of the same news (a list that changed,
        a resource that was updated) only one waits at a time.

        With `cache` lists and resources are not asked for again while they are fresh by the server's own word (12).
        Raises RegistrationError for a target or mode that there is not, and for what cannot answer a question.
        """
        self._target = check(target)
        self._mode = mode
        wanted_by(mode)
        limits = limits or Limits()
        if timeout is not None:
            limits = msgspec.structs.replace(limits, request_timeout=timeout)
        self._limits = limits
        self._trace = trace
        self._asking = None if timeout is None and trace is None else Asking(timeout, trace=trace)
        self._extensions = check_extensions(extensions or {})
        check_icons(info.icons if info else None, "info")
        handlers = Handlers(elicit=elicit, elicit_url=elicit_url, sample=sample, sample_tools=sample_tools, roots=roots)
        answering = Answering(handlers, limits)
        self._incoming = Incoming(Callbacks(on_log, on_list_changed, on_notification), self._forget, answering)
        self._outputs = Outputs(limits)
        hello = Hello(info or _ANONYMOUS, answering, self._extensions or None)
        self._cache = Cache(time.monotonic, limits.answer if cache else 0)
        self._keeper = Keeper(
            self._target, mode, hello, limits, self._incoming, wants_logs=on_log is not None, renewed=self._renewed
        )
        self._listeners = Listeners(self._keeper, self._incoming, hello, limits, self._asking, self._forget)
        self._mirroring = Mirroring(self._keeper.marks, self.list_tools) if isinstance(self._target, Http) else None

    def __repr__(self) -> str:
        return f"Client({self._target!r}, mode={self._mode!r})"

    # ---- the connection

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Start the target and agree with it on a revision (ERA-S1); when connected already, do nothing.

        Where it fails, or the caller is cancelled, nothing of the target is left running, and it may be tried again.
        """
        await self._keeper.begin()

    async def close(self) -> None:
        """End the connection and what carries it; calls under way fail with ConnectionClosed.

        Any task may call it, at any time, again and again; it returns when nothing is left.
        """
        await self._listeners.close()
        await self._keeper.close()

    # ---- what the server said of itself

    @property
    def revision(self) -> str:
        """The revision that was agreed on, by name."""
        return self._keeper.known().revision.name

    @property
    def server(self) -> Implementation | None:
        """The server's own word on who it is (META-5); a modern server may leave it out."""
        return self._keeper.known().facts.server

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server declared."""
        return self._keeper.known().facts.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's words on how to use it."""
        return self._keeper.known().facts.instructions

    @property
    def extensions(self) -> dict[str, dict[str, Any]]:
        """The extensions that both sides declared, with the server's settings (CAP-4)."""
        return negotiated(self._extensions, self.capabilities.extensions)

    @property
    def strays(self) -> int:
        """How many lines came that were no messages; each was reported as a warning of the logger "jackfield" (F7)."""
        return self._incoming.strays

    # ---- tools

    async def call_tool(
        self,
        name: str,
        arguments: Any = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallToolResult:
        """Call a tool; its own failures are results with `is_error`, for a model to read (TOOL-7).

        `arguments` is a dict, struct, dataclass or model. `timeout` is the longest silence in seconds: progress starts
        it anew, up to the limit `request_total`; then the call is cancelled at the server (CAN-5). `progress(progress,
        total, message)` hears of progress. `meta` is added to the `_meta` of the request. Where the tool was listed
        with an output schema, the structured content of a success is checked against it, and InvalidResult raised if it
        does not fit (TOOL-5) or the schema is one that cannot be checked (JS-2). Raises TypeError or ValueError for
        arguments that have no form in JSON, ValueError for keys of `meta` that are not a caller's to set (META-6).
        """
        session = self._keeper.session
        if session is None or session.over:
            session = await self._keeper.ready()
        asking = self._asking
        if timeout is not None or progress is not None or meta is not None:
            asking = self._ask(timeout, progress, meta)
        mirroring = self._mirroring
        if mirroring is not None and name not in mirroring.seen and session.revision.headers:
            await mirroring.look(timeout)
        call = CallToolParams(name, encode_object({} if arguments is None else arguments, f"the arguments of {name!r}"))
        result: CallToolResult
        try:
            result = await session.request(CALL, call, asking)
        except SessionExpired:  # the server did not look at the call, so it may be made again (F13)
            session = await self._keeper.ready()
            result = await session.request(CALL, call, asking)
        except PeerError as error:
            if mirroring is None or error.code != HEADER_MISMATCH:
                raise
            self._forget("tools", None)  # the tool may be another one now (XH-6)
            await mirroring.look(timeout)
            result = await session.request(CALL, call, asking)
        if session.revision.output_schema is not None:
            self._outputs.check(name, result)
        return result

    async def list_tools(self) -> list[Tool]:
        """Every tool, from all pages (PAG-1)."""
        return await self._all(self.list_tools_page, "tools")

    async def list_tools_page(self, cursor: str | None = None) -> ListToolsResult:
        """One page of the tools; `next_cursor` of the result leads to the next (PAG-2)."""
        page: ListToolsResult = await self._page(_LIST_TOOLS, cursor)
        session = self._keeper.known()
        if self._mirroring is not None and session.revision.headers:
            self._mirroring.learn(page, session.connection.name)
        self._outputs.learn(page.tools)
        return page

    # ---- resources

    async def list_resources(self) -> list[Resource]:
        """Every resource, from all pages."""
        return await self._all(self.list_resources_page, "resources")

    async def list_resources_page(self, cursor: str | None = None) -> ListResourcesResult:
        """One page of the resources."""
        return await self._page(_LIST_RESOURCES, cursor)

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Every resource template, from all pages."""
        return await self._all(self.list_resource_templates_page, "resource_templates")

    async def list_resource_templates_page(self, cursor: str | None = None) -> ListResourceTemplatesResult:
        """One page of the resource templates."""
        return await self._page(_LIST_TEMPLATES, cursor)

    async def read_resource(
        self,
        uri: str,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ReadResourceResult:
        """Read a resource; the options are those of `call_tool`.

        Raises PeerError with code -32002 or, from a modern server, -32602 when there is no such resource (RSC-3).
        """
        return await self._fresh(_READ, uri, ReadResourceParams(uri), self._ask(timeout, progress, meta))

    # ---- prompts and completion

    async def list_prompts(self) -> list[Prompt]:
        """Every prompt, from all pages."""
        return await self._all(self.list_prompts_page, "prompts")

    async def list_prompts_page(self, cursor: str | None = None) -> ListPromptsResult:
        """One page of the prompts."""
        return await self._page(_LIST_PROMPTS, cursor)

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> GetPromptResult:
        """Expand a prompt; the options are those of `call_tool`.

        Arguments are texts on the wire (F62): a date, a UUID and their like go as what JSON writes between quotes,
        numbers, lists and objects as JSON; None leaves the argument out. Raises TypeError or ValueError for one that
        has no form in JSON.
        """
        texts = {
            key: as_text(value, f"argument {key!r} of prompt {name!r}")
            for key, value in (arguments or {}).items()
            if value is not None
        }
        params = GetPromptParams(name, texts or None)
        return await self._request(_GET_PROMPT, params, self._ask(timeout, progress, meta))

    async def complete(
        self,
        ref: Prompt | ResourceTemplate | PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
    ) -> CompleteResult:
        """Ask what `value` may become, as the value of an argument of a prompt or resource template (CMP-2).

        `context` holds the arguments that are filled in already; it is sent to servers that know it, from 2025-06-18
        on.
        """
        if isinstance(ref, Prompt):
            ref = PromptReference(ref.name)
        elif isinstance(ref, ResourceTemplate):
            ref = ResourceTemplateReference(ref.uri_template)
        params = CompleteParams(ref, CompletionArgument(argument, value))

        def ask(session: Session) -> Awaitable[CompleteResult]:
            known = context and session.revision.completion_context
            params.context = CompletionContext(dict(context)) if context and known else None
            return session.request(_COMPLETE, params, self._asking)

        return await self._keeper.attempt(ask)

    # ---- the rest

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: str | Iterable[str] = ()
    ) -> Listening:
        """Hear of changes of lists, all three where nothing is chosen, and of the resources `uris` and what is below.

        To be used as `async with client.listen() as events: async for event in events: ...`; `Listening` says the rest.
        """
        return self._listeners.listen(
            Choice(tools, prompts, resources, (uris,) if isinstance(uris, str) else tuple(uris))
        )

    async def ping(self) -> None:
        """Return when the server has answered: `ping`, or in the modern era, which has none, `server/discover`."""

        def ask(session: Session) -> Awaitable[object]:
            return session.request(_DISCOVER if session.revision.modern else _PING, Params(), self._asking)

        await self._keeper.attempt(ask)

    async def set_log_level(self, level: LogLevel) -> None:
        """Ask for log messages of this level and above, for `on_log`, also after a reconnect (LOG-2, LOG-3).

        2026-07-28 marks them as deprecated: new servers may send none.
        """
        await self._keeper.attempt(lambda session: session.set_log_level(level))
        self._keeper.level = level

    async def roots_changed(self) -> None:
        """Tell a legacy server that `roots` are others now (ROOT-2); a modern one asks anew each time.

        Raises NotSupported where the client has no roots.
        """
        await self._keeper.attempt(lambda session: session.roots_changed())

    def _ask(self, timeout: float | None, progress: OnProgress | None, meta: Mapping[str, Any] | None) -> Asking | None:
        if timeout is None and progress is None and meta is None:
            return self._asking
        if timeout is None and self._asking is not None:
            timeout = self._asking.timeout
        if meta:
            check_call_meta(meta, self._extensions)
        return Asking(timeout, None if progress is None else self._incoming.progress(progress), meta, self._trace)

    async def _request(self, method: Method, params: Params, asking: Asking | None) -> Any:
        return await self._keeper.attempt(lambda session: session.request(method, params, asking))

    async def _fresh(self, method: Method, key: str | None, params: Params, asking: Asking | None) -> Any:
        """What was kept of an earlier answer while it is fresh, else a new one, to be kept if it may be (12)."""
        cache, session = self._cache, self._keeper.session
        kept = None if session is None or session.over else cache.find(method.name, key)
        if kept is not None:
            return method.decode_result(kept)
        turn = cache.turn
        try:
            result: CacheableResult = await self._request(method, params, asking)
        except PeerError as error:
            if method is not _READ and key is not None and error.code == INVALID_PARAMS:
                cache.pages(method.name)
            raise
        if turn == cache.turn and self._keeper.known().revision.caching and not retried(result):
            cache.keep(method.name, key, result, turn)
        return result

    async def _page(self, method: Method, cursor: str | None) -> Any:
        page: PaginatedResult = await self._fresh(method, cursor, PaginatedParams(cursor=cursor), self._asking)
        for reason in page.dropped:
            log.warning("%s: left out of %s: %s", self._keeper.known().connection.name, method.name, printable(reason))
        return page

    async def _all(self, read_page: Callable[[str | None], Awaitable[Any]], member: str) -> list[Any]:
        """All items of a list, however its pages are cut; a list that never ends is an error (PAG-4)."""
        keeper = self._keeper
        items: list[Any] = []
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(self._limits.pages):
            page = await read_page(cursor)
            items += getattr(page, member)
            cursor = page.next_cursor
            if cursor is None or (
                cursor == "" and not self._keeper.known().revision.modern
            ):  # legacy servers may end so
                return items
            if cursor in seen:
                name = keeper.known().connection.name
                raise InvalidResult(f"{name}: its list of {member} comes back to the same cursor")
            seen.add(cursor)
        name = keeper.known().connection.name
        text = f"{name}: its list of {member} has over {self._limits.pages} pages (limit `pages`)"
        raise LimitExceeded(text, "pages")

    def _forget(self, kind: str, uri: str | None) -> None:
        if uri is not None:
            self._cache.updated(uri)
            return
        self._cache.changed(kind)
        if kind == "tools":
            self._outputs.forget()
            if self._mirroring is not None:
                self._mirroring.forget()

    def _renewed(self) -> None:
        self._cache.clear()
        if self._mirroring is not None:
            self._mirroring.forget()
