"""Notices that belong to no feature: progress, log messages, cancellation."""

from __future__ import annotations

from typing import Any

from .base import LogLevel, Params, ProgressToken


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
