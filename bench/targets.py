"""How each toolkit's server and client under test is started."""

import os
import sys

from bench import peers

SERVERS = ("ours", "official", "fastmcp", "typescript")
CLIENTS = ("ours", "official", "typescript")


def server(name: str) -> list[str]:
    """The command line of a toolkit's stdio server with the tools `add` and (not TypeScript) `add_sync`."""
    if name == "ours":
        return [sys.executable, peers.script("server_ours.py")]
    if name == "typescript":
        return peers.node_script("server_typescript.mjs")
    return [peers.python(), peers.script(f"server_{name}.py")]


def http_server(name: str) -> list[str]:
    """The command line of the same server over HTTP, but for the port, which it takes as its last argument."""
    return [*server(name), "http"]


def mounted() -> list[str]:
    """The command line of our server as a part of a Starlette application, but for the port."""
    return [*server("ours"), "mounted"]


def bare() -> list[str]:
    """The command line of an application that answers `{}` on the HTTP server that we use, but for the port."""
    return [sys.executable, peers.script("bare.py")]


def client(name: str) -> list[str]:
    """The command line of a toolkit's client under test, without its own arguments."""
    if name == "ours":
        return [sys.executable, peers.script("load_ours.py")]
    if name == "typescript":
        return peers.node_script("load_typescript.mjs")
    return [peers.python(), peers.script(f"load_{name}.py")]


def echo() -> list[str]:
    """The command line of the bare echo."""
    return [sys.executable, "-I", "-S", peers.script("echo.py")]


def environment() -> dict[str, str]:
    """The children's environment: this checkout on the path, and no PYTHON* setting that would slow one side down."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return env | {"PYTHONPATH": str(peers.ROOT / "src")}
