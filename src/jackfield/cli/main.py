"""The `jackfield` command: reads the arguments and hands over to the command that they name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from .._version import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` default to those of the process.

    Ends by SystemExit: 0 fine, 2 wrong use, 3 failure.
    """
    parser = argparse.ArgumentParser(prog="jackfield", description="The Model Context Protocol for Python.")
    parser.add_argument("--version", action="version", version=f"jackfield {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    run = commands.add_parser("run", help="serve a server on standard input and output, or over HTTP")
    run.add_argument("target", metavar="TARGET", help="a ready server's name, file.py[:object] or module:object")
    http = _add_http(run)
    commands.add_parser("servers", help="list the ready servers")
    given = parser.parse_args(arguments)
    if given.command == "servers":
        from ..servers import READY

        print("\n".join(sorted(READY)))
        return
    from .run import run_target, run_target_http

    options = {action.dest: getattr(given, action.dest) for action in http if hasattr(given, action.dest)}
    if given.http is not None:
        sys.exit(run_target_http(given.target, {**given.http, **options}))
    if options:
        flags = ", ".join(action.option_strings[0] for action in http if action.dest in options)
        run.error(f"{flags}: only for a server over HTTP, which --http asks for")
    sys.exit(run_target(given.target))


def _add_http(run: argparse.ArgumentParser) -> list[argparse.Action]:
    """Add the options of HTTP; the ones that are returned have no value where they are not given."""
    group = run.add_argument_group("over HTTP")
    group.add_argument(
        "--http",
        nargs="?",
        const="127.0.0.1:8000",
        type=_address,
        metavar="[HOST:]PORT",
        help="serve over HTTP, at 127.0.0.1:8000 unless told otherwise; unix:PATH is a Unix domain socket",
    )

    def add(flag: str, help: str, **options: Any) -> argparse.Action:
        return group.add_argument(flag, help=help, default=argparse.SUPPRESS, **options)

    return [
        add("--path", "the endpoint's path; /mcp unless told otherwise", metavar="PATH"),
        add("--workers", "how many processes serve", type=int, metavar="N"),
        add(
            "--token",
            "let in only who sends this bearer token; without a value one is made and printed. Other users of this"
            " machine can see it in the list of processes: better set the environment variable JACKFIELD_TOKEN",
            nargs="?",
            const=True,
            type=_token,
            metavar="TOKEN",
        ),
        add("--insecure", "let everybody in who reaches the address", action="store_true"),
        add("--stateless", "keep no sessions for clients of older revisions", action="store_true"),
        add(
            "--allowed-host",
            "a name that requests may be sent to; may be repeated",
            action="append",
            dest="allowed_hosts",
            metavar="HOST",
        ),
        add(
            "--allowed-origin",
            "a web page's origin that may send requests; may be repeated",
            action="append",
            dest="allowed_origins",
            metavar="ORIGIN",
        ),
        add("--health", "answer GET /health", action="store_true"),
    ]


def _address(text: str) -> dict[str, Any]:
    """Where to listen: PORT, HOST, HOST:PORT, [IPv6]:PORT or unix:PATH, as options of `Server.run`."""
    if text.startswith("unix:"):
        if text == "unix:":
            raise argparse.ArgumentTypeError("unix: names no path")
        return {"uds": text[5:]}
    if text.isdecimal():
        host, port = "127.0.0.1", text
    elif text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
        if not bracket or (rest and not rest.startswith(":")):
            raise argparse.ArgumentTypeError(f"{text!r} is not [ADDRESS]:PORT")
    elif text.count(":") > 1:  # an IPv6 address without brackets
        host, port = text, ""
    else:
        host, _, port = text.partition(":")
    if not host:
        raise argparse.ArgumentTypeError(f"{text!r} names no host; 127.0.0.1:PORT is this machine alone")
    if not port:
        return {"host": host}
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise argparse.ArgumentTypeError(f"{port!r} is no port")
    return {"host": host, "port": int(port)}


def _token(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("the token is empty")
    return text
