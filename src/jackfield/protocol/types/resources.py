"""Resources: their definitions, templates, reads and subscriptions."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType, field

from .base import CacheableResult, Kept, Object, PaginatedResult, Params
from .content import Annotations, Icon, ResourceContents


class Resource(Kept):
    """One resource as a server lists it (RSC-2)."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ResourceTemplate(Kept):
    """A family of resources, by the RFC 6570 template of their URIs (RSC-4)."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: list[Icon] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ListResourcesResult(PaginatedResult):
    """`resources/list`."""

    resources: list[Resource]


class ListResourceTemplatesResult(PaginatedResult):
    """`resources/templates/list`."""

    resource_templates: list[ResourceTemplate]


class ReadResourceParams(Params):
    """`resources/read`; the answers to questions stay undecoded."""

    uri: str
    input_responses: Raw | UnsetType = UNSET
    request_state: str | None = None


class ReadResourceResult(CacheableResult):
    """What a resource holds; several contents where it is like a directory."""

    contents: list[ResourceContents]


class SubscribeParams(Params):
    """`resources/subscribe` and `resources/unsubscribe`, on legacy wires (RSC-6)."""

    uri: str


class ResourceUpdatedParams(Params):
    """`notifications/resources/updated`; the URI may lie below the one that was subscribed to (RSC-6)."""

    uri: str


class ResourceMissingData(Object):
    """`data` of the error for a resource that does not exist (RSC-3)."""

    uri: str
