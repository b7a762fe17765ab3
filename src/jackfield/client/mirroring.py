"""The tools of a modern server over HTTP, looked up before they are called: some arguments go in headers too."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, MutableMapping

from ..protocol.errors import CallError, JackfieldError, RequestTimeout
from ..protocol.headers import Mark, marks_of
from ..protocol.printable import printable
from ..protocol.types import ListToolsResult, Tool

log = logging.getLogger("jackfield")


class Mirroring:
    """What is known of the marks of one server's tools (4.4)."""

    def __init__(self, marks: MutableMapping[str, tuple[Mark, ...]], list_all: Callable[[], Awaitable[object]]) -> None:
        """Fill `marks`, which the transport reads; `list_all` has every page of the list read and given to `learn`."""
        self.seen: set[str] = set()
        """The tools that were listed."""
        self._marks = marks
        self._list_all = list_all
        self._whole = False
        self._turn = 0
        self._looking = asyncio.Lock()

    def learn(self, page: ListToolsResult, server: str) -> None:
        """Take a page of the list, without the tools whose marks are not valid: they cannot be called (XH-3)."""
        fine: list[Tool] = []
        for tool in page.tools:
            try:
                marks = marks_of(tool.input_schema)
            except ValueError as fault:
                log.warning("%s: left out its tool %s: %s", server, printable(tool.name), printable(str(fault)))
                self._marks.pop(tool.name, None)
                continue
            fine.append(tool)
            self.seen.add(tool.name)
            if marks:
                self._marks[tool.name] = marks
            else:
                self._marks.pop(tool.name, None)
        page.tools[:] = fine

    async def look(self, timeout: float | None) -> None:
        """Have the tools listed, if that has not been done (XH-8). One that is not listed is called without marks.

        Raises RequestTimeout where that takes longer than the `timeout` of the call that it is for, and what else keeps
        a request from being answered.
        """
        try:
            async with asyncio.timeout(timeout):
                await self._look()
        except TimeoutError:
            raise RequestTimeout("the tools were not listed in time, which comes before the first call") from None

    async def _look(self) -> None:
        async with self._looking:  # all who come at the same time wait for one list
            if self._whole:
                return
            turn = self._turn
            try:
                await self._list_all()
            except CallError:
                raise
            except JackfieldError as fault:
                log.info("the tools could not be listed before the first call: %s", printable(str(fault)))
            self._whole = turn == self._turn

    def forget(self) -> None:
        """The list is another one now; what was known of marks counts until it is read again."""
        self.seen.clear()
        self._whole = False
        self._turn += 1
