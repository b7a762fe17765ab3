"""Measures clients: each toolkit's client against our server over stdio, and against its own server in memory."""

import json
import subprocess
import threading
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Self

from bench import load, targets
from bench.measure import Effort, Measure, Timer, take_turns
from bench.servers import HOW

PATIENCE = 60.0
IN_MEMORY = ("ours", "official")


class ClientFailed(Exception):
    """A client under test ended, was silent for too long, or speaks another revision than asked."""


class Worker:
    """A client under test in a process of its own (see bench/peers/worker.py), connected in one era."""

    def __init__(self, command: list[str], era: str) -> None:
        self._child = subprocess.Popen(
            command, env=targets.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        revision = self._reply()["revision"]
        if revision != load.ERAS[era]:
            raise ClientFailed(f"{command} speaks {revision}, not {load.ERAS[era]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.communicate()

    def seconds(self, in_flight: int, count: int) -> float:
        """Let the client make `count` calls; it looks at the answers after its clock has stopped."""
        assert self._child.stdin
        self._child.stdin.write(json.dumps({"calls": count, "in_flight": in_flight}) + "\n")
        self._child.stdin.flush()
        reply = self._reply()
        if reply["wrong"]:
            raise load.WrongAnswer(f"{self._child.args}: {reply['wrong']} of {count} answers were wrong")
        return reply["seconds"]

    def _reply(self) -> dict[str, Any]:
        assert self._child.stdout
        watch = threading.Timer(PATIENCE, self._child.kill)
        watch.daemon = True
        watch.start()
        try:
            line = self._child.stdout.readline()
        finally:
            watch.cancel()
        if not line:
            raise ClientFailed(f"{self._child.args} ended or was silent for {PATIENCE:.0f} s; its stderr is above")
        return json.loads(line)


def client_name(era: str, in_flight: int) -> str:
    """The name of a row of `client`."""
    return f"{era}, stdio client on our server, {HOW[in_flight]}"


def in_memory_name(era: str, in_flight: int) -> str:
    """The name of a row of `inmemory`."""
    return f"{era}, client and server in one process, {HOW[in_flight]}"


def stdio_clients(effort: Effort) -> list[Measure]:
    """Every toolkit's client against our server, which is fast enough to leave the difference to the client."""
    commands = {name: targets.client(name) for name in targets.CLIENTS}
    measures: list[Measure] = []
    for era in load.ERAS:
        workers = {name: [*command, era, *targets.server("ours")] for name, command in commands.items()}
        rows = {in_flight: client_name(era, in_flight) for in_flight in HOW}
        measures += side_by_side("client", era, workers, rows, effort)
    return measures


def in_memory(effort: Effort) -> list[Measure]:
    """`Client(server)` of ours and of the official SDK."""
    measures: list[Measure] = []
    for era in load.ERAS:
        workers = {name: [*targets.client(name), era] for name in IN_MEMORY}
        rows = {in_flight: in_memory_name(era, in_flight) for in_flight in HOW}
        measures += side_by_side("inmemory", era, workers, rows, effort)
    return measures


def side_by_side(
    part: str, era: str, commands: dict[str, list[str]], rows: dict[int, str], effort: Effort
) -> list[Measure]:
    """One measure for each number of calls in flight, under the row's name, with a subject for each worker."""
    measures: list[Measure] = []
    with ExitStack() as stack:
        workers = {name: stack.enter_context(Worker(command, era)) for name, command in commands.items()}
        for in_flight, row in rows.items():
            measure = Measure(row, part, "calls/s")
            timers: dict[str, Timer] = {name: partial(worker.seconds, in_flight) for name, worker in workers.items()}
            take_turns(measure, timers, effort)
            measures.append(measure)
    return measures
