"""The method table: every request and notification of every revision, with its types, direction and conditions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

from . import types as t
from .errors import InvalidResult
from .revisions import LEGACY, MODERN, REVISIONS

Direction = Literal["to_server", "to_client", "both"]


class Method(Struct, frozen=True, dict=True):
    """One row of the table.

    `direction` is where the message goes; a few that went both ways go one way in the modern era, where a server never
    asks and a client never answers (BASE-6). `revisions` are names. `capability` is what the answering side must have
    declared: its attribute in `ServerCapabilities` (or `ClientCapabilities` where the client answers), with a dot where
    a member of it decides; None where nothing has to be.
    """

    name: str
    params: type[t.Params]
    result: type[t.Result] | None
    direction: Direction
    revisions: frozenset[str]
    cacheable: bool = False
    may_ask: bool = False
    capability: str | None = None

    @property
    def request(self) -> bool:
        """Whether it is answered; else it is a notification."""
        return self.result is not None

    @cached_property
    def decode_params(self) -> Callable[[bytes | Raw], Any]:
        """Read the params (b"{}" where absent). Raises msgspec.DecodeError, naming the place, where they do not fit."""
        return t.decoder(self.params)

    def decode_result(self, raw: bytes | Raw) -> Any:
        """Read the answer: the result, or InputRequiredResult where the method may ask (MR-1).

        Raises InvalidResult where it does not fit, or is of a kind that this method has no word for (RES-2).
        """
        try:
            kind = t.decoder(_Kind)(raw).result_type
            if self.result is not None and (kind is None or kind == self.result.kind):
                return t.read(self.result, raw)
            if self.may_ask and kind == t.InputRequiredResult.kind:
                return t.read(t.InputRequiredResult, raw)
        except msgspec.DecodeError as error:
            raise InvalidResult(f"the answer to {self.name} does not fit: {error}") from None
        raise InvalidResult(f"the answer to {self.name} is of a kind that was not asked for: resultType {kind!r}")

    def offered(self, capabilities: t.ServerCapabilities | t.ClientCapabilities) -> bool:
        """Whether a side that declared `capabilities` answers this (CAP-3)."""
        value: Any = capabilities
        for member in self.capability.split(".") if self.capability else ():
            value = getattr(value, member, None)
            if value is None or value is False:
                return False
        return True


class _Kind(Struct, rename="camel"):
    result_type: str | None = None


_ALL = frozenset(revision.name for revision in REVISIONS)
_LEGACY = frozenset(revision.name for revision in LEGACY)
_MODERN = frozenset(revision.name for revision in MODERN)
_FORMS = frozenset({"2025-06-18", "2025-11-25"})
_TASKS = frozenset({"2025-11-25"})


def _table(*rows: Method) -> dict[str, Method]:
    return {row.name: row for row in rows}


METHODS: Final = _table(
    # requests to the server
    Method("initialize", t.InitializeParams, t.InitializeResult, "to_server", _LEGACY),
    Method("server/discover", t.Params, t.DiscoverResult, "to_server", _MODERN, cacheable=True),
    Method("tools/list", t.PaginatedParams, t.ListToolsResult, "to_server", _ALL, cacheable=True, capability="tools"),
    Method("tools/call", t.CallToolParams, t.CallToolResult, "to_server", _ALL, may_ask=True, capability="tools"),
    Method(
        "resources/list",
        t.PaginatedParams,
        t.ListResourcesResult,
        "to_server",
        _ALL,
        cacheable=True,
        capability="resources",
    ),
    Method(
        "resources/templates/list",
        t.PaginatedParams,
        t.ListResourceTemplatesResult,
        "to_server",
        _ALL,
        cacheable=True,
        capability="resources",
    ),
    Method(
        "resources/read",
        t.ReadResourceParams,
        t.ReadResourceResult,
        "to_server",
        _ALL,
        cacheable=True,
        may_ask=True,
        capability="resources",
    ),
    Method("resources/subscribe", t.SubscribeParams, t.Result, "to_server", _LEGACY, capability="resources.subscribe"),
    Method(
        "resources/unsubscribe", t.SubscribeParams, t.Result, "to_server", _LEGACY, capability="resources.subscribe"
    ),
    Method(
        "prompts/list", t.PaginatedParams, t.ListPromptsResult, "to_server", _ALL, cacheable=True, capability="prompts"
    ),
    Method("prompts/get", t.GetPromptParams, t.GetPromptResult, "to_server", _ALL, may_ask=True, capability="prompts"),
    Method("completion/complete", t.CompleteParams, t.CompleteResult, "to_server", _ALL, capability="completions"),
    Method("logging/setLevel", t.SetLevelParams, t.Result, "to_server", _LEGACY, capability="logging"),
    Method("subscriptions/listen", t.ListenParams, t.Result, "to_server", _MODERN),
    # requests to the client; the modern era has them as questions inside a result only
    Method(
        "sampling/createMessage",
        t.CreateMessageParams,
        t.CreateMessageResult,
        "to_client",
        _LEGACY,
        capability="sampling",
    ),
    Method("elicitation/create", t.ElicitParams, t.ElicitResult, "to_client", _FORMS, capability="elicitation"),
    Method("roots/list", t.Params, t.ListRootsResult, "to_client", _LEGACY, capability="roots"),
    # requests both ways
    Method("ping", t.Params, t.Result, "both", _LEGACY),
    Method("tasks/get", t.TaskParams, t.TaskResult, "both", _TASKS, capability="tasks"),
    Method("tasks/result", t.TaskParams, t.Result, "both", _TASKS, capability="tasks"),
    Method("tasks/list", t.PaginatedParams, t.ListTasksResult, "both", _TASKS, capability="tasks.list"),
    Method("tasks/cancel", t.TaskParams, t.TaskResult, "both", _TASKS, capability="tasks.cancel"),
    # notifications
    Method("notifications/initialized", t.Params, None, "to_server", _LEGACY),
    Method("notifications/roots/list_changed", t.Params, None, "to_server", _LEGACY),
    Method("notifications/cancelled", t.CancelledParams, None, "both", _ALL),
    Method("notifications/progress", t.ProgressParams, None, "both", _ALL),
    Method("notifications/tasks/status", t.TaskStatusParams, None, "both", _TASKS),
    Method("notifications/message", t.LogParams, None, "to_client", _ALL),
    Method("notifications/tools/list_changed", t.Params, None, "to_client", _ALL),
    Method("notifications/prompts/list_changed", t.Params, None, "to_client", _ALL),
    Method("notifications/resources/list_changed", t.Params, None, "to_client", _ALL),
    Method("notifications/resources/updated", t.ResourceUpdatedParams, None, "to_client", _ALL),
    Method("notifications/elicitation/complete", t.ElicitationCompleteParams, None, "to_client", _TASKS),
    Method("notifications/subscriptions/acknowledged", t.AcknowledgedParams, None, "to_client", _MODERN),
)
"""Every method of the protocol itself, by name."""

EXTENSIONS: Final = {
    t.TASKS_EXTENSION: _table(
        Method("tasks/get", t.TaskParams, t.TaskStateResult, "to_server", _MODERN),
        Method("tasks/update", t.UpdateTaskParams, t.Result, "to_server", _MODERN),
        Method("tasks/cancel", t.TaskParams, t.Result, "to_server", _MODERN),
        Method("notifications/tasks", t.TaskStateParams, None, "to_client", _MODERN),
    ),
}
"""The methods that an extension adds where both sides declared it (CAP-4), by its identifier, then by name."""

QUESTIONS: Final = ("elicitation/create", "sampling/createMessage", "roots/list")
"""What a modern server may ask inside an InputRequiredResult (MR-2); `METHODS` has their types."""


def exists(method: str, revision: str) -> bool:
    """Whether the revision of that name has the method as a message of its own, extensions aside (ERA-V5)."""
    row = METHODS.get(method)
    return row is not None and revision in row.revisions
