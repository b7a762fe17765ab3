"""Handlers of a server's questions."""

from __future__ import annotations

import asyncio
from typing import Any

from jackfield.client.questions import ClientQuestion

ELICIT, SAMPLE, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"


def says(outcome: Any) -> Any:
    """A handler that gives this."""

    def handler(question: ClientQuestion) -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return handler


def says_async(outcome: Any) -> Any:
    """The same, as a coroutine function."""

    async def handler(question: ClientQuestion) -> Any:
        await asyncio.sleep(0)
        return says(outcome)(question)

    return handler


class Waiter:
    """A handler that waits for good, and tells how it ended."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, question: ClientQuestion) -> bool:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return True
