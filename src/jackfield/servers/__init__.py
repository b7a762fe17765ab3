"""The ready servers: each runs with `jackfield run NAME` and doubles as an example of the public face."""

READY = {
    "planner": "jackfield.servers.planner.server:server",
    "tiny": "jackfield.servers.tiny:server",
}
"""Name -> "module:object". Text, so that naming the ready servers imports none of them."""
