"""What a client can listen to, and what it then hears."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from ..protocol.events import Event
from ..protocol.types import ServerCapabilities, SubscriptionFilter

_KINDS: Final = ("tools", "prompts", "resources")


class Choice(Struct, frozen=True):
    """What of a server is listened to: which of its lists, and which resources with what lies below them (RSC-6)."""

    tools: bool = False
    prompts: bool = False
    resources: bool = False
    uris: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.tools or self.prompts or self.resources or bool(self.uris)

    def has(self, kind: str) -> bool:
        """Whether that list is among it."""
        return bool(getattr(self, kind))

    def events(self) -> list[Event]:
        """One event for each thing."""
        lists: list[Any] = [Event(kind) for kind in _KINDS if self.has(kind)]
        return lists + [Event("resource", uri) for uri in self.uris]

    def common(self, other: SubscriptionFilter) -> Choice:
        """What a server acknowledged of this (SUB-2)."""
        uris = set(other.resource_subscriptions or ())
        return Choice(
            self.tools and other.tools_list_changed is True,
            self.prompts and other.prompts_list_changed is True,
            self.resources and other.resources_list_changed is True,
            tuple([uri for uri in self.uris if uri in uris]),
        )

    def wire(self) -> SubscriptionFilter:
        """As it is asked for (SUB-1)."""
        return SubscriptionFilter(
            tools_list_changed=self.tools or None,
            prompts_list_changed=self.prompts or None,
            resources_list_changed=self.resources or None,
            resource_subscriptions=list(self.uris) or None,
        )


def declared(capabilities: ServerCapabilities, uris: Iterable[str] = ()) -> SubscriptionFilter:
    """The lists that a server says it tells the changes of."""
    tools, prompts, resources = capabilities.tools, capabilities.prompts, capabilities.resources
    return SubscriptionFilter(
        tools_list_changed=tools is not None and tools.list_changed is True,
        prompts_list_changed=prompts is not None and prompts.list_changed is True,
        resources_list_changed=resources is not None and resources.list_changed is True,
        resource_subscriptions=list(uris),
    )
