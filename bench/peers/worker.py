"""The loop of a client under test: jobs come in as JSON lines, the seconds they took go out."""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any


async def work(revision: str, call: Callable[[int, int], Awaitable[Any]], answer: Callable[[Any], Any]) -> None:
    """Say which revision was agreed on, then do the jobs `{"calls": n, "in_flight": k}` until the input ends.

    `call(a, b)` calls the tool; `answer(result)` gives (is error, text, structured content) and is asked after the
    clock has stopped. The reply is `{"seconds": s, "wrong": number of wrong answers}`.
    """
    print(json.dumps({"revision": revision}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        seconds, results = await _timed(call, job["calls"], job["in_flight"])
        wrong = sum(answer(result) != (False, str(a + 2), {"result": a + 2}) for a, result in enumerate(results))
        print(json.dumps({"seconds": seconds, "wrong": wrong}), flush=True)


async def _timed(call: Callable[[int, int], Awaitable[Any]], calls: int, in_flight: int) -> tuple[float, list[Any]]:
    results: list[Any] = [None] * calls
    numbers = iter(range(calls))

    async def lane() -> None:
        for a in numbers:
            results[a] = await call(a, 2)

    gc.collect()
    begin = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(in_flight)))
    return time.perf_counter() - begin, results
