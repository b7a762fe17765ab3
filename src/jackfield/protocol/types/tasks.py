"""Tasks: long work that is asked after; the core form of 2025-11-25 and the extension's form of 2026-07-28."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import UNSET, Raw, UnsetType

from .base import ErrorData, Object, Params, Result
from .questions import InputRequest, InputResponses

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


class TaskParams(Params):
    """`tasks/get`, `tasks/result` and `tasks/cancel`, in both forms."""

    task_id: str


# The core form of 2025-11-25. Its task stands in results and notifications both nested and flat.


class TaskMetadata(Object):
    """`task` in the params of a request: the wish that it become a task, kept for `ttl` milliseconds (T25-2)."""

    ttl: int | None = None


class Task(Object):
    """A task (T25-4). `ttl` is in milliseconds; None, which is written, is for ever."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | None = None
    status_message: str | None = None


class CreateTaskResult(Result):
    """The request became a task (T25-4)."""

    task: Task


class TaskResult(Result):
    """`tasks/get` and `tasks/cancel`: the task, flat (T25-5)."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | None = None
    status_message: str | None = None


class TaskStatusParams(Params):
    """`notifications/tasks/status`: the task, flat (T25-7)."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl: int | None
    poll_interval: int | None = None
    status_message: str | None = None


class ListTasksResult(Result):
    """`tasks/list` (T25-5)."""

    tasks: list[Task]
    next_cursor: str | None = None


# The extension's form: always flat, other names for the two times, and what came of the task inside.


class TaskCreatedResult(Result):
    """The call became a task (TX-2). `ttl_ms` None, which is written, is for ever."""

    kind: ClassVar[str] = "task"

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    status_message: str | None = None


class TaskStateResult(Result):
    """`tasks/get`: the task, with the open questions, the result or the error where its status has one (TX-4)."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    status_message: str | None = None
    input_requests: dict[str, InputRequest] | None = None
    result: Raw | UnsetType = UNSET
    error: ErrorData | None = None


class UpdateTaskParams(Params):
    """`tasks/update`: answers to open questions; some of them will do (TX-5)."""

    task_id: str
    input_responses: InputResponses


class TaskStateParams(Params):
    """`notifications/tasks`: the same as `tasks/get` answers (TX-10)."""

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None
    status_message: str | None = None
    input_requests: dict[str, InputRequest] | None = None
    result: Raw | UnsetType = UNSET
    error: ErrorData | None = None
