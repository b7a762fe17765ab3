"""Where an HTTP server listens: the check that it is open to this machine alone unless guarded, and the sockets."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
import sys
from typing import Any

from msgspec import Struct

from ...protocol.errors import RegistrationError
from ...protocol.printable import printable

BACKLOG = 2048
"""Connections that the system keeps until they are accepted."""

_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


class Bind(Struct, frozen=True, kw_only=True):
    """Where to listen, in how many processes, and whether what is served there is guarded."""

    host: str = "127.0.0.1"
    """A name or an address; every address that a name has is listened on."""
    port: int = 8000
    """0 takes a free one."""
    uds: str | None = None
    """The path of a Unix domain socket to listen on in place of host and port; the umask says who may use it."""
    workers: int = 1
    """Processes that serve."""
    protected: bool = False
    """Every request needs a token or other authorization."""
    insecure: bool = False
    """Whoever reaches the address may call, and that is meant."""

    def __post_init__(self) -> None:
        """Raises RegistrationError for numbers that cannot be, and for what this system does not have."""
        for name in ("port", "workers"):
            if type(getattr(self, name)) is not int:
                raise RegistrationError(f"{name} is {getattr(self, name)!r}; it must be a whole number")
        if self.uds == "":
            raise RegistrationError("uds is empty; it is the path of a Unix domain socket")
        if not 0 <= self.port <= 65535:
            raise RegistrationError(f"port is {self.port}; it must be 0 to 65535")
        if self.workers < 1:
            raise RegistrationError(f"workers is {self.workers}; it must be at least 1")
        if self.workers > 1 and not hasattr(os, "fork"):
            raise RegistrationError(f"workers={self.workers} needs `fork`, which this system does not have; use 1")


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches `host`: every address that the name has is a loopback address.

    Raises RegistrationError for a name that has no address.
    """
    return all(_is_loopback(address[0]) for _, address in _addresses(host, 0))


class Listener:
    """The sockets that a server listens on."""

    def __init__(self, bind: Bind) -> None:
        """Listen. Raises RegistrationError where that is refused (T03) or the system does not let us."""
        self.bind = bind
        self.sockets = _listen_everywhere(bind) if bind.uds is None else [_listen_unix(bind.uds)]

    def url(self, path: str) -> str:
        """What a client is told: the address that is really listened on."""
        bind = self.bind
        if bind.uds is not None:
            return f"unix:{bind.uds} (path {path})"
        host = f"[{bind.host}]" if ":" in bind.host else bind.host
        return f"http://{host}:{self.sockets[0].getsockname()[1]}{path}"

    def stop(self) -> None:
        """Stop listening, as far as this process does."""
        for sock in self.sockets:
            sock.close()

    def close(self) -> None:
        """Stop listening, and take the Unix domain socket's file away unless another server has its own there now."""
        self.stop()
        if self.bind.uds is not None:
            _take_away_stale(self.bind.uds)


def _listen_everywhere(bind: Bind) -> list[socket.socket]:
    addresses = _addresses(bind.host, bind.port)
    if not (bind.protected or bind.insecure):
        for _, address in addresses:
            if not _is_loopback(address[0]):
                raise RegistrationError(
                    f"{address[0]} can be reached from other machines and nothing guards this server: set a `token`"
                    " (--token), or `insecure=True` (--insecure) to let everybody in"
                )
    found: list[socket.socket] = []
    missing: OSError | None = None
    port = bind.port
    try:
        for family, address in addresses:
            try:
                # With port 0 the first address finds one, and the others of the name take the same.
                found.append(_listen_on(family, (address[0], port, *address[2:])))
            except OSError as fault:
                if fault.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                missing = fault  # "localhost" has an IPv6 address on machines without IPv6, too
            else:
                port = found[-1].getsockname()[1]
        if not found and missing is not None:
            raise missing
    except OSError as fault:
        for sock in found:
            sock.close()
        raise RegistrationError(f"cannot listen on {bind.host} port {bind.port}: {_reason(fault)}") from fault
    return found


def _addresses(host: str, port: int) -> list[_Address]:
    if not host:
        raise RegistrationError("host is empty; name one, as in 127.0.0.1")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as fault:
        raise RegistrationError(f"host {printable(host)} has no address: {fault}") from fault
    return list(dict.fromkeys((family, address) for family, _, _, _, address in found))


def _is_loopback(address: Any) -> bool:
    parsed = ipaddress.ip_address(str(address).partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_loopback


def _listen_on(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let two processes have the same port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # "::" is IPv6 alone, the same on every system.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def _listen_unix(path: str) -> socket.socket:
    if sys.platform == "win32":
        raise RegistrationError("there are no Unix domain sockets here; use host and port")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _take_away_stale(path)
        sock.bind(path)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as fault:
        sock.close()
        raise RegistrationError(f"cannot listen on {printable(path)}: {_reason(fault)}") from fault
    return sock


def _take_away_stale(path: str) -> None:
    """Remove a socket's file that nobody answers on any more; anything else stays."""
    if sys.platform == "win32":
        return
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect(path)
    except ConnectionRefusedError:
        os.unlink(path)
    except OSError:  # not there, another's, or too busy to answer
        return


def _reason(fault: OSError) -> str:
    if fault.errno == errno.EADDRINUSE:
        return "it is in use already"
    return fault.strerror or str(fault)
