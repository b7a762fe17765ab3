"""Measures stdio servers: calls per second side by side, on one core, and memory after the run."""

import os
from contextlib import ExitStack
from functools import partial

from bench import load, targets
from bench.driver import Driver, Echo
from bench.measure import Effort, Measure, Timer, take_turns

ECHO = "echo"
KINDS = {"async": "add", "def": "add_sync"}
HOW = {load.IN_FLIGHT: f"{load.IN_FLIGHT} in flight", 1: "sequential"}
PINNED = ("ours", "official", "typescript")
ONE_CORE = "both sides on one core"
TWO_CORES = "a core for each side"


def throughput(era: str, kind: str, in_flight: int) -> str:
    """The name of a row of `stdio`."""
    return f"{era}, {kind} tool, {HOW[in_flight]}"


def pinned_name(era: str, layout: str) -> str:
    """The name of a row of `pinned`."""
    return f"{era}, async tool, sequential, {layout}"


def memory_name(era: str, which: str = "after the run") -> str:
    """The name of a row about memory."""
    return f"{era}, resident memory, {which}"


def stdio(effort: Effort) -> list[Measure]:
    """Every server in both eras, sequential and 64 in flight, `async` and `def` tools; an echo beside; then memory."""
    return [measure for era in load.ERAS for measure in _era(era, effort)]


def _era(era: str, effort: Effort) -> list[Measure]:
    measures: list[Measure] = []
    with ExitStack() as stack:
        servers = {name: stack.enter_context(_driver(name, era)) for name in targets.SERVERS}
        echo = stack.enter_context(Echo(targets.echo(), era))
        for kind, tool in KINDS.items():
            for in_flight in HOW:
                timers: dict[str, Timer] = {
                    name: partial(server.seconds, tool, in_flight)
                    for name, server in servers.items()
                    if kind == "async" or name != "typescript"
                }
                if kind == "async":
                    timers[ECHO] = partial(echo.seconds, in_flight)
                measure = Measure(throughput(era, kind, in_flight), "stdio", "calls/s")
                take_turns(measure, timers, effort)
                measures.append(measure)
        after = Measure(memory_name(era), "memory", "MB")
        peak = Measure(memory_name(era, "peak"), "memory", "MB")
        for name, server in servers.items():
            if found := server.memory():
                after.add(name, found[0])
                peak.add(name, found[1])
    return [*measures, after, peak]


def pinned(effort: Effort) -> list[Measure]:
    """Sequential round trips with both sides on one core, where the work rules, and on two, where the wake-ups do.

    Left to itself the system moves the pair between the two layouts, which differ ten times, in the middle of a run.
    Gives nothing where a process cannot be pinned, and no rows for two cores where there is one.
    """
    if not hasattr(os, "sched_setaffinity"):
        return []
    free = os.sched_getaffinity(0)
    layouts = {ONE_CORE: (min(free), min(free)), TWO_CORES: (min(free), max(free))}
    if len(free) == 1:
        del layouts[TWO_CORES]
    try:
        return [_pinned(era, layout, *cores, effort) for era in load.ERAS for layout, cores in layouts.items()]
    finally:
        os.sched_setaffinity(0, free)


def _pinned(era: str, layout: str, mine: int, theirs: int, effort: Effort) -> Measure:
    measure = Measure(pinned_name(era, layout), "pinned", "calls/s")
    with ExitStack() as stack:
        os.sched_setaffinity(0, {theirs})  # a child inherits where it may run
        servers = {name: stack.enter_context(_driver(name, era)) for name in PINNED}
        echo = stack.enter_context(Echo(targets.echo(), era))
        os.sched_setaffinity(0, {mine})
        timers: dict[str, Timer] = {name: partial(server.seconds, "add", 1) for name, server in servers.items()}
        timers[ECHO] = partial(echo.seconds, 1)
        take_turns(measure, timers, effort)
    return measure


def _driver(name: str, era: str) -> Driver:
    return Driver(targets.server(name), targets.environment(), era)
