"""The `jackfield` command: reads the arguments and hands over to the command that they name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .._version import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` default to those of the process.

    Ends by SystemExit: 0 fine, 2 wrong use, 3 failure.
    """
    parser = argparse.ArgumentParser(prog="jackfield", description="The Model Context Protocol for Python.")
    parser.add_argument("--version", action="version", version=f"jackfield {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="serve a server on standard input and output")
    run.add_argument("target", metavar="TARGET", help="a ready server's name, file.py[:object] or module:object")
    commands.add_parser("servers", help="list the ready servers")
    given = parser.parse_args(arguments)
    if given.command == "servers":
        from ..servers import READY

        print("\n".join(sorted(READY)))
        return
    from .run import run_target

    sys.exit(run_target(given.target))
