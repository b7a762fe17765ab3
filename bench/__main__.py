"""The command line of the benchmarks: what to measure, where the results go, and the exit code of `--check`."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench import budgets, clients, cold, facts, http, peers, report, servers
from bench.measure import FULL, QUICK, Effort, Measure, Skipped

HERE = Path(__file__).parent
PARTS: dict[str, Callable[[Effort], list[Measure]]] = {
    "stdio": servers.stdio,
    "pinned": servers.pinned,
    "inmemory": clients.in_memory,
    "client": clients.stdio_clients,
    "http": http.servers,
    "idle": http.idle,
    "httpclient": http.http_clients,
    "startup": cold.startup,
    "import": cold.imports,
}
ALSO_GIVES = {"memory": "stdio"}


def arguments() -> argparse.Namespace:
    """What the caller asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 when a budget is missed")
    parser.add_argument("--quick", action="store_true", help="two short rounds; writes no results")
    parser.add_argument(
        "--only", metavar="NAME", action="append", choices=PARTS, help="measure this part; writes no results"
    )
    return parser.parse_args()


def main() -> int:
    """Measure, print, write; 1 when `--check` is given and a budget is missed."""
    asked = arguments()
    peers.setup()
    found = facts.gather()
    names = asked.only or list(PARTS)
    effort = QUICK if asked.quick else FULL
    measures: list[Measure] = []
    skipped: dict[str, str] = {}
    for name in names:
        begin = time.perf_counter()
        try:
            measures += PARTS[name](effort)
        except Skipped as reason:
            skipped[name] = str(reason)
        said = f"skipped: {skipped[name]}" if name in skipped else f"measured in {time.perf_counter() - begin:.0f} s"
        print(f"{name}: {said}", file=sys.stderr, flush=True)
    wanted = [budget for budget in budgets.budgets() if ALSO_GIVES.get(budget.part, budget.part) in names]
    verdicts = budgets.judge(measures, wanted, skipped)
    print(report.body(measures, verdicts))
    if not asked.quick and not asked.only:
        (HERE / "RESULTS.md").write_text(report.page(measures, verdicts, found))
        (HERE / "results.json").write_text(report.raw(measures, found, skipped))
    return int(asked.check and any(verdict.missed for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
