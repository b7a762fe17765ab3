"""Subscriptions of 2026-07-28: one long request whose stream brings the changes asked for."""

from __future__ import annotations

from .base import Object, Params


class SubscriptionFilter(Object):
    """The changes that a client wants to hear of, or that the server will tell (SUB-1, SUB-2)."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    task_ids: list[str] | None = None
    """With the tasks extension only (TX-10)."""


class ListenParams(Params):
    """`subscriptions/listen` (SUB-1); its result is a plain `Result` with the subscription's id in `_meta` (SUB-5)."""

    notifications: SubscriptionFilter


class AcknowledgedParams(Params):
    """`notifications/subscriptions/acknowledged`: the first message of the stream (SUB-2)."""

    notifications: SubscriptionFilter
