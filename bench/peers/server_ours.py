"""The benchmark's server on jackfield: over stdio, with `http PORT` over HTTP, with `mounted PORT` under Starlette."""

import sys

from jackfield import Server

server = Server("bench", version="1.0.0")


@server.tool()
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def add_sync(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def run_mounted(port: int) -> None:
    """Serve it as a part of another application."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    inner = server.http_app()
    app = Starlette(routes=[Mount("/", app=inner)], lifespan=inner.lifespan)
    uvicorn.run(app, host="127.0.0.1", port=port, http="httptools", loop="uvloop", log_level="error", access_log=False)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", port]:
            server.run("http", port=int(port))
        case ["mounted", port]:
            run_mounted(int(port))
        case _:
            server.run()
