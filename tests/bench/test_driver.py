"""The loops that time calls."""

import os
import select
import threading
from collections.abc import Iterator

import pytest

from bench import driver

Pipes = tuple[int, int, int, int]


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    """The ends of two pipes: the driver writes 1 and reads 2, the server reads 0 and writes 3."""
    server_reads, driver_writes = os.pipe()
    driver_reads, server_writes = os.pipe()
    ends = [server_reads, driver_writes, driver_reads, server_writes]
    yield server_reads, driver_writes, driver_reads, server_writes
    for end in ends:
        os.close(end)


class Server(threading.Thread):
    """Echoes lines a few at a time, reading ahead as far as it can, and notes how many were ever open at once."""

    def __init__(self, pipes: Pipes, total: int) -> None:
        super().__init__(daemon=True)
        self.read_from, self.write_to, self.total, self.most_open = pipes[0], pipes[3], total, 0

    def run(self) -> None:
        buffer, answered = b"", 0
        while answered < self.total:
            while not buffer or select.select([self.read_from], [], [], 0)[0]:
                buffer += os.read(self.read_from, 1 << 16)
            lines = buffer.splitlines(keepends=True)
            self.most_open = max(self.most_open, len(lines))
            out = b"".join(lines[:7])
            buffer = buffer[len(out) :]
            os.write(self.write_to, out)
            answered += len(lines[:7])


MESSAGES = [b"message %d\n" % number for number in range(1_000)]


@pytest.mark.parametrize("in_flight", [1, 64])
def test_exchange_brings_every_line_back_and_keeps_the_window(pipes: Pipes, in_flight: int) -> None:
    """No more than the wanted number of messages is ever open, and all lines come back."""
    server = Server(pipes, len(MESSAGES))
    server.start()
    seconds, got = driver.exchange(pipes[1], pipes[2], MESSAGES, in_flight)
    server.join()
    assert got == b"".join(MESSAGES)
    assert seconds > 0
    assert server.most_open == in_flight


@pytest.mark.parametrize("in_flight", [1, 64])
def test_exchange_fails_when_the_server_hangs_up(in_flight: int) -> None:
    """The end of the server's output is an error, not an endless loop."""
    server_reads, driver_writes = os.pipe()
    driver_reads, server_writes = os.pipe()
    os.close(server_writes)
    with pytest.raises(driver.ServerGone):
        driver.exchange(driver_writes, driver_reads, MESSAGES[:64], in_flight)
    for end in (server_reads, driver_writes, driver_reads):
        os.close(end)
