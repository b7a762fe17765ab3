"""Measures what a user waits for before the first call: start-up and imports, always in fresh processes."""

import json
import subprocess
import sys

from bench import load, peers, targets
from bench.driver import Driver
from bench.measure import OURS, Effort, Measure

FORBIDDEN = ("aiohttp", "uvicorn", "jsonschema_rs", "cryptography")
IMPORT_SERVER = "import of the server class"
IMPORT_SERVER_MODULES = "modules after that import, in all"
IMPORT_FORBIDDEN = f"heavy modules among them ({', '.join(FORBIDDEN)})"
IMPORT_PROTOCOL_MODULES = "modules that `import jackfield.protocol` adds"
IMPORT_PROTOCOL_ASYNCIO = "asyncio among them (1 is yes)"
SERVER_IMPORTS = {
    "ours": "from jackfield import Server",
    "official": "from mcp.server import MCPServer",
    "fastmcp": "from fastmcp import FastMCP",
}
PROBE = """
import sys, time
before = set(sys.modules)
begin = time.perf_counter()
{statement}
took = time.perf_counter() - begin
after = set(sys.modules)
import json
print(json.dumps([took, sorted(before), sorted(after)]))
"""


def startup_name(era: str) -> str:
    """The name of a row of `startup`."""
    return f"{era}, process start to first answer"


def startup(effort: Effort) -> list[Measure]:
    """From the start of each server's process to its first answer; one uncounted start warms the disk cache."""
    measures = [Measure(startup_name(era), "startup", "ms") for era in load.ERAS]
    for turn in range(effort.rounds + 1):
        for era, measure in zip(load.ERAS, measures, strict=True):
            for name in targets.SERVERS:
                with Driver(targets.server(name), targets.environment(), era) as server:
                    if turn:
                        measure.add(name, server.startup * 1000)
    return measures


def imports(effort: Effort) -> list[Measure]:
    """Time and modules of the server's import in each Python toolkit, and what our protocol layer pulls in."""
    took = Measure(IMPORT_SERVER, "import", "ms")
    modules = Measure(IMPORT_SERVER_MODULES, "import", "modules")
    heavy = Measure(IMPORT_FORBIDDEN, "import", "modules")
    added = Measure(IMPORT_PROTOCOL_MODULES, "import", "modules")
    loop = Measure(IMPORT_PROTOCOL_ASYNCIO, "import", "modules")
    for turn in range(effort.rounds + 1):
        for name, statement in SERVER_IMPORTS.items():
            seconds, _, after = _probe(name, statement)
            if turn:
                took.add(name, seconds * 1000)
                modules.add(name, len(after))
                if name == OURS:
                    heavy.add(name, len(after.intersection(FORBIDDEN)))
        if turn:
            _, before, after = _probe(OURS, "import jackfield.protocol")
            added.add(OURS, len(after - before))
            loop.add(OURS, int("asyncio" in after))
    return [took, modules, heavy, added, loop]


def _probe(name: str, statement: str) -> tuple[float, set[str], set[str]]:
    """Run an import in a fresh interpreter: its seconds, the modules before it and the modules after it."""
    python = sys.executable if name == OURS else peers.python()
    command = [python, "-c", PROBE.format(statement=statement)]
    output = subprocess.run(command, env=targets.environment(), stdout=subprocess.PIPE, check=True).stdout
    seconds, before, after = json.loads(output)
    return seconds, set(before), set(after)
