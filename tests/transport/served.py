"""The server that the stdio tests start as a process; SERVED_LIMITS, SERVED_LOOP and SERVED_PRINT change it."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator

if os.environ.get("SERVED_LOOP") == "asyncio":
    sys.modules["uvloop"] = None  # type: ignore[assignment] - as if it was not installed

from jackfield import Limits, Server
from jackfield.transport import stdio

stdio.PARENT_WATCH = 0.1


def say(text: str) -> None:
    """Tell the test, on standard error."""
    os.write(2, f"{text}\n".encode())


@contextlib.asynccontextmanager
async def lifespan(_: Server) -> AsyncIterator[None]:
    say(f"began {os.getpid()} {type(asyncio.get_running_loop()).__module__}")
    yield
    say("ended")


server = Server("served", lifespan=lifespan, limits=Limits(**json.loads(os.environ.get("SERVED_LIMITS", "{}"))))


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers — 二つの数を足す."""
    return a + b


@server.tool
def add_on_thread(a: int, b: int) -> int:
    return a + b


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
async def big(size: int) -> str:
    say("big")
    return "x" * size


@server.tool
async def wait() -> str:
    say("waiting")
    await asyncio.get_running_loop().create_future()
    return "never"


@server.tool
async def ignore_cancellation() -> str:
    say("waiting")
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.get_running_loop().create_future()
    say("cancelled")
    await asyncio.get_running_loop().create_future()
    return "never"


@server.tool
def block() -> str:
    """Sit on a thread for ever."""
    say("waiting")
    threading.Event().wait()
    return "never"


@server.tool
async def block_loop() -> str:
    """Keep the loop itself for ever; say so when the first SIGINT was taken."""
    handler = signal.getsignal(signal.SIGINT)
    say("waiting")
    while signal.getsignal(signal.SIGINT) is handler:
        time.sleep(0.001)
    say("taken")
    while True:
        time.sleep(0.001)


@server.tool
async def pollute() -> str:
    """Write to standard output in every way."""
    print("printed — 日本")
    sys.stdout.buffer.write(b"buffered\n")
    sys.stdout.flush()
    os.write(1, b"written\n")
    subprocess.run(["echo", "from a child"], check=True)
    return "done"


@server.tool
async def steal() -> str:
    """Try to read standard input, here and in a child."""
    child = subprocess.run(["cat"], check=True, stdout=subprocess.PIPE)
    fds = subprocess.run(["ls", "/dev/fd/"], check=True, stdout=subprocess.PIPE).stdout.split()
    return json.dumps([os.read(0, 10).decode(), child.stdout.decode(), len([fd for fd in fds if int(fd) > 3])])


@server.tool
async def fork() -> int:
    """Start a child without exec, as multiprocessing can, end it as usual, and tell by which signal it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"x")
        time.sleep(30)
        os._exit(1)
    os.read(reading, 1)
    os.kill(child, signal.SIGTERM)
    return os.WTERMSIG(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    if "SERVED_PRINT" in os.environ:
        print("printed before the start")
    server.run()
