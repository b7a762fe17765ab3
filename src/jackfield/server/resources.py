"""Resources: fixed URIs and templates, their lists, and reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence, Set
from typing import Any, cast

from msgspec import Raw

from ..protocol.errors import INVALID_PARAMS, ProtocolError, RegistrationError, ResourceNotFound
from ..protocol.printable import printable
from ..protocol.types import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedParams,
    ReadResourceParams,
    ReadResourceResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    Result,
)
from ..protocol.wire import fit
from .content import Audio, File, Image, resource_contents
from .context import Context
from .handlers import context_parameter, converted, invoke, is_async, supplied_to, supply, with_context
from .listing import Listing, page_of
from .returns import to_json
from .signature import name_of, parameters_of


class ResourceEntry:
    """One resource at a fixed URI."""

    def __init__(self, fn: Callable[..., Any], definition: Resource) -> None:
        """Serve what `fn`, which takes nothing but perhaps a Context, returns. Raises RegistrationError."""
        from ..protocol.uri import is_uri  # not at the top: many servers have no resources

        uri = definition.uri
        if not is_uri(uri):
            raise RegistrationError(f"{uri!r} is no URI; a resource needs a scheme, as in notes://todo")
        self.definition = definition
        self._fn = fn
        self._blocking = not is_async(fn)
        self._supplied = supplied_to(fn)
        if unfilled := _unfilled(fn, self._supplied.names):
            raise RegistrationError(
                f"{name_of(fn)}: nothing fills its parameter {unfilled!r}; put {{{unfilled}}} into the URI {uri!r}"
            )

    async def read(self, context: Context) -> Any:
        """What the handler returns."""
        values, named = await supply(self._supplied, (), {}, context)
        return await invoke(self._fn, self._blocking, values, named, context)


class TemplateEntry:
    """A family of resources, by the template of their URIs."""

    def __init__(
        self,
        fn: Callable[..., Any],
        definition: ResourceTemplate,
        instances: Callable[..., Any] | None,
        unguarded: Collection[str] = (),
    ) -> None:
        """Serve what `fn` gives for the template's variables; `instances` lists the URIs.

        What stands in the path is guarded, but for the variables in `unguarded` (RSC-4). Raises RegistrationError.
        """
        from ..protocol.uri import Template, guard_segments
        from .arguments import template_values

        self.definition = definition
        self.template = Template(definition.uri_template)
        self._guarded = self.template.paths.difference(_exempt(unguarded, self.template.names, definition.uri_template))
        self._guard = guard_segments
        self._fn = fn
        self._blocking = not is_async(fn)
        self._supplied = supplied_to(fn)
        self._values = template_values(fn, self.template.names, skip=self._supplied.names)
        self.instances = instances
        if instances is not None:
            self._instances_context = context = context_parameter(instances)
            self._instances_block = not is_async(instances)
            if unfilled := _unfilled(instances, set() if context is None else {context.name}):
                raise RegistrationError(
                    f"{name_of(instances)}: nothing fills its parameter {unfilled!r}; list= has none"
                )

    async def read(self, found: dict[str, Any], context: Context) -> Any:
        """What the handler returns for the values found in the URI. Raises ProtocolError (-32602) for a bad path."""
        for name in self._guarded.intersection(found):
            value: str | list[str] = found[name]
            try:
                # Together too: the first of several that is empty makes a path from the root.
                for each in [value] if isinstance(value, str) else [*value, "/".join(value)]:
                    self._guard(each)
            except ProtocolError as fault:
                raise ProtocolError(INVALID_PARAMS, f"Invalid variable {name!r}: {fault.message}") from None
        positional, keyword = self._values.values(found)
        values, named = await supply(self._supplied, positional, keyword, context)
        return await invoke(self._fn, self._blocking, values, named, context)

    async def list(self, context: Context) -> Iterable[Resource]:
        """The resources that exist of this family, as far as they can be listed."""
        if self.instances is None:
            return []
        values, named = with_context(self._instances_context, (), {}, context)
        found = await invoke(self.instances, self._instances_block, values, named, context)
        return [self._instance(each) for each in found or ()]

    def _instance(self, found: Any) -> Resource:
        if isinstance(found, Resource):
            return found
        own = self.definition
        return Resource(str(found), str(found), own.title, own.description, own.mime_type, icons=own.icons)


class Resources:
    """The resources of one server, and the methods that serve them."""

    def __init__(self, changed: Callable[[], None], page_size: int | None, ttl_ms: int) -> None:
        self.fixed: Listing[ResourceEntry] = Listing("resource", changed)
        self.templates: Listing[TemplateEntry] = Listing("resource template", changed)
        self._page_size = page_size
        self._ttl_ms = ttl_ms

    async def list(self, params: PaginatedParams, context: Context) -> Result | Raw:
        """`resources/list`: the fixed ones, then the instances that templates can list."""
        revision = context.peer.speaks
        if all(template.instances is None for template in self.templates):
            entries, cursor = self.fixed.page(params.cursor, self._page_size)
            listed = [fit(entry.definition, revision) for entry in entries]
            return ListResourcesResult(listed, next_cursor=cursor, ttl_ms=self._ttl_ms, cache_scope="public")
        found = {entry.definition.uri: entry.definition for entry in self.fixed}
        for template in self.templates:
            for resource in await template.list(context):
                found.setdefault(resource.uri, resource)
        resources, cursor = page_of(list(found.items()), params.cursor, self._page_size)
        return ListResourcesResult([fit(resource, revision) for resource in resources], next_cursor=cursor)

    async def list_templates(self, params: PaginatedParams, context: Context) -> Result | Raw:
        """`resources/templates/list`."""
        entries, cursor = self.templates.page(params.cursor, self._page_size)
        listed = [fit(entry.definition, context.peer.speaks) for entry in entries]
        return ListResourceTemplatesResult(listed, next_cursor=cursor, ttl_ms=self._ttl_ms, cache_scope="public")

    async def read(self, params: ReadResourceParams, context: Context) -> Result:
        """`resources/read`: a fixed resource of just this URI, else the first template that matches (RSC-4).

        Raises ProtocolError with the revision's code where there is none (RSC-3).
        """
        uri = params.uri
        try:
            value, mime_type = await self._value(uri, context)
            if value is None:
                raise ResourceNotFound(uri)
        except ResourceNotFound as missing:
            raise ProtocolError(
                context.peer.speaks.resource_missing,
                f"Resource not found: {printable(missing.uri)}",
                {"uri": missing.uri},
            ) from None
        return await converted(_result, value, uri, mime_type, context=context)

    async def _value(self, uri: str, context: Context) -> tuple[Any, str | None]:
        fixed = self.fixed.entries.get(uri)
        if fixed is not None:
            return await fixed.read(context), fixed.definition.mime_type
        for template in self.templates:
            found = template.template.match(uri)
            if found is not None:
                return await template.read(found, context), template.definition.mime_type
        raise ResourceNotFound(uri)


def _exempt(unguarded: Collection[str], names: Collection[str], uri: str) -> Collection[str]:
    """`unguarded`, if it is a collection of variables of this URI. Raises RegistrationError."""
    if isinstance(unguarded, str):
        raise RegistrationError(f"{uri!r}: unguarded holds names; write unguarded=({unguarded!r},)")
    if unknown := set(unguarded).difference(names):
        raise RegistrationError(f"{uri!r} has no variable {min(unknown)!r} that could be unguarded")
    return unguarded


def _unfilled(fn: Callable[..., Any], supplied: Set[str]) -> str | None:
    """The first parameter of `fn` that is none of those which no client fills."""
    return next((item.name for item in parameters_of(fn) if item.name not in supplied), None)


def _result(value: Any, uri: str, mime_type: str | None) -> ReadResourceResult:
    if isinstance(value, ReadResourceResult):
        return ReadResourceResult(value.contents, ttl_ms=value.ttl_ms, cache_scope=value.cache_scope, meta=value.meta)
    return ReadResourceResult(list(_contents(value, uri, mime_type)))


def _contents(value: Any, uri: str, mime_type: str | None) -> Iterable[ResourceContents]:
    """Make resource contents of what a handler returned; several where it is a list of contents (RSC-2)."""
    if isinstance(value, ResourceContents):
        return [value]
    if isinstance(value, list | tuple) and value:
        items = cast("Sequence[Any]", value)
        if all(isinstance(item, ResourceContents) for item in items):
            return items
    if isinstance(value, Image | Audio | File):
        return [resource_contents(uri, value.read(), mime_type or value.mime_type)]
    if isinstance(value, str):
        return [resource_contents(uri, value, mime_type or "text/plain")]
    if isinstance(value, bytes | bytearray | memoryview):
        return [resource_contents(uri, bytes(cast("bytes", value)), mime_type or "application/octet-stream")]
    return [resource_contents(uri, to_json(value).decode(), mime_type or "application/json")]
