"""Measures HTTP: servers under wrk, what an idle session costs, and each toolkit's client against our server."""

import json
import subprocess
import sys
from contextlib import ExitStack

from bench import clients, load, peers, targets
from bench.measure import OURS, Effort, Measure, Rate, take_rounds
from bench.servers import HOW
from bench.web import CONNECTIONS, Calls, Site, Talk, wrk

BARE = "bare"
KINDS = {"async": "add", "def": "add_sync"}
JUDGED_ROUNDS = 7
SHOWN_ROUNDS = 3
SESSIONS = 1000
SESSIONS_BEFORE = 200
IDLE_SUBJECTS = ("ours", "official")
IDLE = f"legacy session, tracemalloc, mean of {SESSIONS:,}"
IDLE_RESIDENT = f"legacy session, growth of resident memory, mean of {SESSIONS:,}"


def row(era: str, kind: str, mounted: bool = False) -> str:
    """The name of a row of `http`."""
    session = ", in a session" if era == "legacy" else ""
    return (
        f"{era}, {kind} tool{session}{', mounted under Starlette' if mounted else ''}, wrk, {CONNECTIONS} connections"
    )


def client_row(era: str, in_flight: int) -> str:
    """The name of a row of `httpclient`."""
    return f"{era}, HTTP client on our server, {HOW[in_flight]}"


def servers(effort: Effort) -> list[Measure]:
    """Every server, one process each, under wrk. Raises Skipped where there is no wrk."""
    wrk()
    judged, shown = min(effort.rounds, JUDGED_ROUNDS), min(effort.rounds, SHOWN_ROUNDS)
    with ExitStack() as stack:
        sites = {name: stack.enter_context(Site(targets.http_server(name))) for name in targets.SERVERS}
        bare = Calls(stack.enter_context(Site(targets.bare())), "modern", "add", checked=False)
        mounted = {OURS: stack.enter_context(Site(targets.mounted()))}
        python = {name: site for name, site in sites.items() if name != "typescript"}
        modern = _calls(sites, "modern", "async")
        # Side by side in time: the two that are nearest to each other.
        modern = {OURS: modern.pop(OURS), BARE: bare, **modern}
        return [
            _measure(row("modern", "async"), modern, judged),
            _measure(row("modern", "async", mounted=True), _calls(mounted, "modern", "async"), shown),
            _measure(row("modern", "def"), _calls(python, "modern", "def"), shown),
            _measure(row("legacy", "async"), _calls(sites, "legacy", "async"), shown),
        ]


def _calls(sites: dict[str, Site], era: str, kind: str) -> dict[str, Calls]:
    found: dict[str, Calls] = {}
    for name, site in sites.items():
        session = None
        if era == "legacy":
            with Talk(site.port) as talk:
                session = talk.open_session()
        found[name] = Calls(site, era, KINDS[kind], session)
    return found


def _measure(name: str, calls: dict[str, Calls], rounds: int) -> Measure:
    measure = Measure(name, "http", "calls/s")
    rates: dict[str, Rate] = {subject: each.rate for subject, each in calls.items()}
    take_rounds(measure, rates, rounds)
    return measure


def idle(_: Effort) -> list[Measure]:
    """What a legacy session costs that nobody uses: by tracemalloc in our application, and by resident memory.

    Counted once: rounds would give the same figures.
    """
    traced = Measure(IDLE, "idle", "KiB")
    command = [sys.executable, peers.script("idle_ours.py"), str(SESSIONS_BEFORE), str(SESSIONS)]
    done = subprocess.run(command, env=targets.environment(), stdout=subprocess.PIPE, check=True)
    traced.add(OURS, json.loads(done.stdout)["bytes"] / SESSIONS / 1024)
    resident = Measure(IDLE_RESIDENT, "idle", "KiB")
    for name in IDLE_SUBJECTS:
        with Site(targets.http_server(name)) as site, Talk(site.port) as talk:
            for _ in range(SESSIONS_BEFORE):
                talk.open_session()
            before = site.memory()
            for _ in range(SESSIONS):
                talk.open_session()
            after = site.memory()
        if before is not None and after is not None:
            resident.add(name, (after - before) * 1024 / SESSIONS)
    return [traced, resident]


def http_clients(effort: Effort) -> list[Measure]:
    """Every toolkit's client against our server, which is fast enough to leave the difference to the client."""
    measures: list[Measure] = []
    with Site(targets.http_server(OURS)) as site:
        for era in load.ERAS:
            workers = {name: [*targets.client(name), era, site.url] for name in targets.CLIENTS}
            rows = {in_flight: client_row(era, in_flight) for in_flight in HOW}
            measures += clients.side_by_side("httpclient", era, workers, rows, effort)
    return measures
