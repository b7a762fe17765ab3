"""The server: what an author writes tools, resources and prompts on, and what runs them."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from msgspec import UNSET

from ..protocol.errors import INVALID_PARAMS, ProtocolError, RegistrationError
from ..protocol.headers import verify_marks
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.types import (
    CallToolParams,
    Icon,
    Implementation,
    InitializeResult,
    ListToolsResult,
    PaginatedParams,
    Prompt,
    PromptsCapability,
    Resource,
    ResourcesCapability,
    ResourceTemplate,
    Result,
    ServerCapabilities,
    Tool,
    ToolAnnotations,
    ToolsCapability,
)
from ..protocol.wire import fit
from .completion import Completions
from .context import Context, Notifying
from .engine import Engine, Handler, Middleware, checked_keys
from .life import Life
from .listing import Listing, require_sound
from .prompts import PromptEntry, Prompts
from .resources import ResourceEntry, Resources, TemplateEntry
from .serving import Serving
from .signature import name_of

if TYPE_CHECKING:
    from ..protocol.events import Kind
    from .events import Bus, MayHear
    from .tools import ToolEntry

F = TypeVar("F", bound=Callable[..., Any])

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class Server(Serving, Notifying):
    """An MCP server: register handlers on it, then run it, or hand it to a `Client` of the same process.

    It speaks every revision; handlers need not know which. Nothing is declared to clients that has no handler (CAP-3).
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        instructions: str | None = None,
        icons: Sequence[Icon] | None = None,
        website_url: str | None = None,
        lifespan: Callable[[Server], AbstractAsyncContextManager[Any]] | None = None,
        middleware: Sequence[Middleware] = (),
        limits: Limits | None = None,
        page_size: int | None = None,
        list_ttl: float = 0,
        strict: bool = False,
        eras: Collection[str] = ("modern", "legacy"),
        state_keys: Sequence[str | bytes] = (),
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        bus: Bus | None = None,
        may_hear: MayHear | None = None,
    ) -> None:
        """Make a server called `name`.

        `instructions` tell a model how to use the server as a whole. `lifespan` is called with the server when its
        first conversation begins; what the context manager yields is `ctx.state`. Each `middleware` is an
        `async def (params, ctx, next)` around every request. `page_size` is how many items a list page holds (None:
        all), `list_ttl` for how many seconds clients may keep lists without asking again (CCH-1). `strict` refuses JSON
        text where an object or array is wanted (F49). `eras` is without "modern" (2026-07-28) or "legacy" (up to
        2025-11-25) where that is not to be served. `state_keys` are secrets of 32 or more random characters, the one
        that seals first: with the same ones several processes take up each other's calls that wait for answers
        (MR-10); without any there is one of this process. `extensions` are those of the protocol that the handlers
        speak, with their settings, as in `{"com.example/colours": {}}`; no other is declared (CAP-4).

        `bus` carries what changed to the other replicas of this server, and from them (None: there are none). Where
        `may_hear` is given, an Event is told to a Listener only if it says so; what it raises counts as a no. Raises
        RegistrationError.
        """
        from .subscriptions import Subscriptions  # not at the top: importing a server needs none

        if not name:
            raise RegistrationError("a server needs a name")
        _check_options(lifespan, middleware, page_size, list_ttl, eras)
        self.name = name
        self.limits = limits or Limits()
        self._strict = strict
        self._page_size = page_size
        self._middleware = tuple(middleware)
        self._extensions = _declared(extensions)
        info = Implementation(name, version, title, None, website_url, list(icons) if icons else None)
        require_sound(InitializeResult("", ServerCapabilities(), info, instructions), f"server {name!r}")
        self._engine = Engine(info, instructions, frozenset(eras), self.limits, checked_keys(state_keys))
        self._engine.ttl_ms = ttl_ms = round(list_ttl * 1000)
        self._engine.hub = Subscriptions(self._engine, bus, may_hear)
        self._life = Life(self, self._engine, lifespan, self.limits.threads)
        self._tools: Listing[ToolEntry] = Listing("tool", functools.partial(self._changed, "tools"))
        self._resources = Resources(functools.partial(self._changed, "resources"), page_size, ttl_ms)
        self._prompts = Prompts(functools.partial(self._changed, "prompts"), page_size, ttl_ms)
        self._completions = Completions(self._prompts, self._resources)
        self._changed()

    def __repr__(self) -> str:
        return f"Server({self.name!r})"

    # ---- tools

    @overload
    def tool(self, fn: F) -> F: ...

    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        replay: bool = True,
        icons: Sequence[Icon] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        replay: bool = True,
        icons: Sequence[Icon] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Any:
        """Register a function as a tool; use it as `@server.tool` or `@server.tool(...)`. See `add_tool`."""
        options: dict[str, Any] = {**locals()}
        return self._decorated(self.add_tool, fn, options)

    def add_tool(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        replay: bool = True,
        icons: Sequence[Icon] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Register `fn` as a tool.

        Its name and description are the function's own unless given; its schemas come from the annotations. With
        `input_schema` the function takes all arguments as one dict, checked against that schema, which is listed
        unmodified; with `output_schema` what it returns is checked. `read_only`, `destructive`, `idempotent` and
        `open_world` are the hints of TOOL-6; None leaves one out. Without `replay` a function that asks the client
        stays alive until the answer is there, instead of running again from the top, which ties the client to this
        process.
        Raises RegistrationError for a bad name (TOOL-2), signature or schema.
        """
        from .tools import ToolEntry  # not at the top, as are all parts that only registering needs

        name = name or name_of(fn)
        _check_tool_name(name)
        hints = ToolAnnotations(None, read_only, destructive, idempotent, open_world)
        definition = Tool(
            name,
            {},
            title,
            description or _description(fn) or None,
            output_schema,
            None if hints == ToolAnnotations() else hints,
            list(icons) if icons else None,
            meta=self._meta(meta, f"tool {name!r}"),
        )
        entry = ToolEntry(
            fn, definition, strict=self._strict, input_schema=input_schema, limits=self.limits, replay=replay
        )
        self._tools.add(name, entry)

    def remove_tool(self, name: str) -> None:
        """Take a tool out. Raises KeyError when there is none of that name."""
        self._tools.remove(name)

    # ---- resources

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        list: Callable[..., Any] | None = None,
        unguarded: Collection[str] = (),
        icons: Sequence[Icon] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Callable[[F], F]:
        """Register a function as a resource, or as a family of them: `@server.resource(uri)`. See `add_resource`."""
        if callable(uri):
            raise RegistrationError(
                f'a resource needs a URI; write @server.resource("notes://...") above {name_of(uri)}'
            )
        options: dict[str, Any] = {**locals()}
        del options["uri"]
        return self._decorated(functools.partial(self.add_resource, uri), None, options)

    def add_resource(
        self,
        uri: str,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        list: Callable[..., Any] | None = None,
        unguarded: Collection[str] = (),
        icons: Sequence[Icon] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Register `fn` as the resource `uri`, or, where that is an RFC 6570 template, as all resources that match it.

        The function of a template is called with its variables, and `list` gives the URIs (or `Resource`s) that exist.
        A variable that could lead out of a folder is refused, unless it stands in a `{?query}` or in `unguarded` (F58).
        What the function returns is the content: text, bytes, Image/Audio/File, `ResourceContents` or a list of them,
        any JSON value, or a whole `ReadResourceResult`, which can say how long it stays fresh (CCH-1). None means that
        there is nothing there. Raises RegistrationError.
        """
        name = name or name_of(fn)
        description = description or _description(fn) or None
        pictures, meta = [*icons] if icons else None, self._meta(meta, f"resource {uri!r}")
        if "{" in uri:
            template = ResourceTemplate(uri, name, title, description, mime_type, icons=pictures, meta=meta)
            self._resources.templates.add(uri, TemplateEntry(fn, template, list, unguarded))
            return
        if list is not None or unguarded:
            wrong = "unguarded=" if list is None else "list="
            raise RegistrationError(f"{uri!r} is one resource; {wrong} is for templates")
        resource = Resource(uri, name, title, description, mime_type, size, icons=pictures, meta=meta)
        self._resources.fixed.add(uri, ResourceEntry(fn, resource))

    def remove_resource(self, uri: str) -> None:
        """Take a resource or template out. Raises KeyError when there is none of that URI."""
        (self._resources.templates if "{" in uri else self._resources.fixed).remove(uri)

    # ---- prompts and completion

    @overload
    def prompt(self, fn: F) -> F: ...

    @overload
    def prompt(
        self,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Callable[[F], F]: ...

    def prompt(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> Any:
        """Register a function as a prompt; use it as `@server.prompt` or `@server.prompt(...)`. See `add_prompt`."""
        options: dict[str, Any] = {**locals()}
        return self._decorated(self.add_prompt, fn, options)

    def add_prompt(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Register `fn` as a prompt; its parameters are the prompt's arguments.

        It returns a text (one user message), a `Message`, content, or a list of these. Raises RegistrationError.
        """
        name = name or name_of(fn)
        description = description or _description(fn) or None
        meta = self._meta(meta, f"prompt {name!r}")
        definition = Prompt(name, title, description, icons=list(icons) if icons else None, meta=meta)
        self._prompts.prompts.add(name, PromptEntry(fn, definition))

    def remove_prompt(self, name: str) -> None:
        """Take a prompt out. Raises KeyError when there is none of that name."""
        self._prompts.prompts.remove(name)

    def completion(self, reference: str, argument: str) -> Callable[[F], F]:
        """Register a function that completes one argument: `@server.completion("prompt or template", "argument")`."""

        def register(fn: F) -> F:
            self.add_completion(reference, argument, fn)
            return fn

        return register

    def add_completion(self, reference: str, argument: str, fn: Callable[..., Any]) -> None:
        """Complete `argument` of the prompt or resource template `reference` with `fn`.

        `fn` takes the text so far, and with a second parameter the dict of the arguments filled in already; it returns
        texts, best first. Raises RegistrationError, also where that prompt or template is not registered yet.
        """
        self._completions.add(reference, argument, fn)
        self._changed()

    def remove_completion(self, reference: str, argument: str) -> None:
        """Take a completion out. Raises KeyError when there is none."""
        self._completions.remove(reference, argument)
        self._changed()

    # ---- what is offered

    def _meta(self, meta: dict[str, Any] | None, label: str) -> dict[str, Any] | None:
        if meta:
            from ..protocol.meta import check_meta  # not at the top: few definitions have any

            check_meta(meta, label, self._extensions)
        return meta

    def _decorated(self, add: Callable[..., Any], fn: Any, options: dict[str, Any]) -> Any:
        options = {key: value for key, value in options.items() if key not in ("self", "fn")}

        def register(fn: F) -> F:
            add(fn, **options)
            return fn

        if fn is not None and not callable(fn):
            raise RegistrationError(
                f"{fn!r} stands where the function should; write the options by name, as in name=..."
            )
        return register if fn is None else register(fn)

    def _changed(self, kind: Kind | None = None) -> None:
        """Build the routes anew for what is registered now, and tell that the list of this kind changed (TOOL-11).

        A kind that was offered once stays declared, with an empty list: sessions that were told of it may ask again.
        """
        hub = self._engine.hub
        handlers: dict[str, Handler] = {"subscriptions/listen": hub.listen}
        offer = ServerCapabilities(logging={}, extensions=self._extensions or None)
        if self._tools.offered:
            offer.tools = ToolsCapability(list_changed=True)
            handlers["tools/list"] = self._list_tools
            handlers["tools/call"] = self._call_tool
        if self._resources.fixed.offered or self._resources.templates.offered:
            offer.resources = ResourcesCapability(subscribe=True, list_changed=True)
            handlers["resources/list"] = self._resources.list
            handlers["resources/templates/list"] = self._resources.list_templates
            handlers["resources/read"] = self._resources.read
            handlers["resources/subscribe"] = hub.subscribe
            handlers["resources/unsubscribe"] = hub.unsubscribe
        if self._prompts.prompts.offered:
            offer.prompts = PromptsCapability(list_changed=True)
            handlers["prompts/list"] = self._prompts.list
            handlers["prompts/get"] = self._prompts.get
        if self._completions.offered:
            offer.completions = {}
            handlers["completion/complete"] = self._completions.complete
        self._engine.set_routes(handlers, offer, self._middleware)
        if kind is not None:
            hub.changed(kind)

    def _call_tool(self, params: CallToolParams, context: Context) -> Awaitable[Result]:
        tool = self._tools.entries.get(params.name)
        if tool is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {printable(params.name)}")
        if tool.marks and context.headers and context.peer.speaks.headers:
            verify_marks(context.headers, tool.marks, b"{}" if params.arguments is UNSET else bytes(params.arguments))
        return tool.call(params, context)

    async def _list_tools(self, params: PaginatedParams, context: Context) -> Any:
        wire, revision = context.peer.wire, context.peer.speaks

        def make() -> ListToolsResult:
            entries, following = self._tools.page(params.cursor, self._page_size)
            listed = [fit(entry.definition, revision) for entry in entries]
            return ListToolsResult(listed, next_cursor=following, ttl_ms=self._engine.ttl_ms, cache_scope="public")

        def finish() -> ListToolsResult:
            page = make()
            wire.stamp(page, self._engine.stamp)
            return page

        if self._middleware:
            return make()  # which it may want to see, and change
        return self._tools.encoded(revision.name, params.cursor, finish)


def _check_options(
    lifespan: object, middleware: object, page_size: int | None, list_ttl: object, eras: Collection[str]
) -> None:
    if inspect.isasyncgenfunction(lifespan):
        raise RegistrationError(f"put @contextlib.asynccontextmanager above the lifespan {name_of(lifespan)}")
    if callable(middleware):
        raise RegistrationError("middleware is a sequence; write middleware=[...]")
    if page_size is not None and page_size < 1:
        raise RegistrationError(f"page_size is {page_size}; it must be at least 1, or None for one page")
    if isinstance(eras, str) or not eras or not set(eras) <= {"modern", "legacy"}:
        raise RegistrationError(f"eras={eras!r}: it holds 'modern', 'legacy' or both")
    if not isinstance(list_ttl, int | float) or not 0 <= list_ttl < 2**53:
        raise RegistrationError(f"list_ttl is {list_ttl}; it must be a number of seconds, 0 or more")


def _declared(extensions: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, Any]]:
    if not extensions:
        return {}
    from ..protocol.meta import check_extensions

    return check_extensions(extensions)


def _description(fn: Callable[..., Any]) -> str:
    from .docstrings import describe  # not at the top: serving needs none

    return describe(fn)[0]


def _check_tool_name(name: str) -> None:
    if not _TOOL_NAME.fullmatch(name):
        raise RegistrationError(f"tool name {name!r}: use 1 to 128 of A-Z a-z 0-9 _ - . (TOOL-2)")
    if len(name) > 64:
        warnings.warn(f"tool name {name!r} is longer than 64 characters, which many clients refuse", stacklevel=4)
