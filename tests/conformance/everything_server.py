"""A server with all that the official conformance suite looks for: `python -m tests.conformance.everything_server`.

The suite is the client. It speaks HTTP only, and finds what it looks for by name.
"""

import argparse

from jackfield import Server
from tests.conformance.fixtures import changes, prompts, questions, resources, tools

server = Server(
    "jackfield-everything",
    version="1.0.0",
    title="jackfield's everything-server",
    instructions="Serves one thing of every kind, for the official conformance suite.",
)

for theme in (tools, resources, prompts, questions, changes):
    theme.add_to(server)


def main() -> None:
    """Serve on the loopback address until told to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.everything_server", description=__doc__)
    parser.add_argument("--port", type=int, default=3000, help="where to listen (default: %(default)s)")
    server.run("http", host="127.0.0.1", port=parser.parse_args().port)


if __name__ == "__main__":
    main()
