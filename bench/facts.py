"""Where and with what a run was made: commit, machine, versions."""

import json
import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata

from bench import peers

OUR_PACKAGES = ("msgspec", "uvloop", "uvicorn", "httptools", "aiohttp", "starlette")
PYTHON_PEERS = ("mcp", "fastmcp", "pydantic", "anyio", "uvicorn", "starlette")
NPM_PEERS = (
    "@modelcontextprotocol/server",
    "@modelcontextprotocol/node",
    "@modelcontextprotocol/client",
    "zod",
)
ASK_VERSIONS = (
    "import json, sys; from importlib.metadata import version; print(json.dumps({n: version(n) for n in sys.argv[1:]}))"
)


def gather() -> dict[str, object]:
    """All of it, as JSON values; nothing in it names a path or a person."""
    asked = subprocess.run([peers.python(), "-c", ASK_VERSIONS, *PYTHON_PEERS], stdout=subprocess.PIPE, check=True)
    node = subprocess.run([peers.node(), "--version"], stdout=subprocess.PIPE, text=True, check=True)
    npm = {name: _npm_version(name) for name in NPM_PEERS}
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "machine": f"{os.cpu_count()} cores, {_processor()}, {platform.system()}",
        "load before the run": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": sys.version.split()[0],
        **{name: metadata.version(name) for name in OUR_PACKAGES if _installed(name)},
        "wrk": _wrk_version(),
        "peers": {**json.loads(asked.stdout), "node": node.stdout.strip(), **npm},
    }


def commit() -> str:
    """The commit id, and whether the sources under test differ from it; "none" outside a repository."""
    head = _git("rev-parse", "HEAD")
    if not head:
        return "none"
    return (
        f"{head} with uncommitted changes"
        if _git("status", "--porcelain", "--", "src", "bench/*.py", "bench/peers")
        else head
    )


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=peers.ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _npm_version(name: str) -> str:
    return json.loads((peers.NODE / "node_modules" / name / "package.json").read_text())["version"]


def _wrk_version() -> str | None:
    """What wrk calls itself; None where it is absent."""
    if (path := shutil.which("wrk")) is None:
        return None
    said = subprocess.run([path, "-v"], capture_output=True, text=True, check=False)
    return said.stdout.split()[1]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (FileNotFoundError, StopIteration):
        return platform.machine()
