"""What is told without being asked: progress, log messages, cancellation, and the listen stream."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw, UnsetType

from .base import LogLevel, Object, Params, ProgressToken


class ProgressParams(Params):
    """`notifications/progress`; `message` from 2025-03-26 on (PRG-2)."""

    progress_token: ProgressToken
    progress: int | float
    total: int | float | None = None
    message: str | None = None


class LogParams(Params):
    """`notifications/message`: one log message; `data` is any JSON (LOG-1)."""

    level: LogLevel
    data: Any
    logger: str | None = None


class SetLevelParams(Params):
    """`logging/setLevel`, on legacy wires (LOG-3)."""

    level: LogLevel


class CancelledParams(Params):
    """`notifications/cancelled` (CAN-1). Without an id, which 2025-11-25 allows, it cancels nothing."""

    request_id: int | str | None = None
    reason: str | None = None


class SubscriptionFilter(Object):
    """The changes that a client wants to hear of, or that the server will tell (SUB-1, SUB-2)."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: list[str] | None = None
    task_ids: Raw | UnsetType = UNSET
    """With the tasks extension only (TX-10)."""


class ListenParams(Params):
    """`subscriptions/listen` (SUB-1); its result is a plain `Result` with the subscription's id in `_meta` (SUB-5)."""

    notifications: SubscriptionFilter


class AcknowledgedParams(Params):
    """`notifications/subscriptions/acknowledged`: the first message of the stream (SUB-2)."""

    notifications: SubscriptionFilter
