"""Where the runner listens, and what it refuses to listen on."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from jackfield.protocol.errors import RegistrationError
from jackfield.transport.http.bind import Bind, Listener, is_loopback

LAN = "192.0.2.7"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some names have addresses that they would not have here."""
    known = {
        "lan.test": [LAN],
        "both.test": ["127.0.0.1", LAN],
        "here.test": ["127.0.0.1", "127.0.0.2"],
        "mapped.test": [f"::ffff:{LAN}"],
        "link.test": ["fe80::1%1"],
        "absent.test": [LAN],
    }
    usual = socket.getaddrinfo

    def look_up(host: str, port: Any, *args: Any, **more: Any) -> Any:
        found: list[Any] = []
        for address in known.get(host, [host]):
            found += usual(address, port, *args, **more)
        return found

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", LAN, f"::ffff:{LAN}", "lan.test", "both.test", "mapped.test", "0"])
def test_what_others_reach_needs_a_guard(host: str, names: None) -> None:
    """Listening beyond this machine without a guard is refused with a line that names every way out (T03)."""
    assert not is_loopback(host)
    with pytest.raises(RegistrationError) as caught:
        Listener(Bind(host=host, port=0))
    message = str(caught.value)
    assert "\n" not in message
    for way in ("`token`", "--token", "insecure=True", "--insecure"):
        assert way in message


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "here.test", "::1", "::ffff:127.0.0.1"])
def test_what_only_this_machine_reaches_needs_none(host: str, names: None) -> None:
    """Every loopback address, and a name that has no other, is no matter for a guard (T03)."""
    assert is_loopback(host)


@pytest.mark.parametrize("guard", ["protected", "insecure"])
def test_a_guard_or_the_wish_lets_others_in(guard: str, names: None) -> None:
    """With a token or on purpose an address of the network is tried; this one belongs to nobody (T03)."""
    with pytest.raises(RegistrationError, match=r"^cannot listen on absent.test port 0: ") as caught:
        Listener(Bind(host="absent.test", port=0, **{guard: True}))
    assert "token" not in str(caught.value)


@pytest.mark.parametrize("host", ["localhost", "here.test"])
def test_a_name_is_listened_on_at_each_address(host: str, names: None) -> None:
    """All addresses of a name take connections on the same port, which is told as the name."""
    with closing(Listener(Bind(host=host, port=0))) as listener:
        ports = {sock.getsockname()[1] for sock in listener.sockets}
        assert listener.url("/mcp") == f"http://{host}:{ports.pop()}/mcp"
        assert not ports
        for sock in listener.sockets:
            socket.create_connection(sock.getsockname()[:2]).close()


def test_an_address_of_ip_version_6_is_told_in_brackets() -> None:
    """The announcement is a URL that clients take (RFC 3986)."""
    try:
        listener = Listener(Bind(host="::1", port=0))
    except RegistrationError as fault:
        pytest.skip(f"no IPv6 here: {fault}")
    with closing(listener):
        assert listener.url("/x") == f"http://[::1]:{listener.sockets[0].getsockname()[1]}/x"


def test_a_port_that_is_in_use_is_said() -> None:
    """A second server on one port is refused in one line."""
    with closing(Listener(Bind(port=0))) as listener:
        port = listener.sockets[0].getsockname()[1]
        with pytest.raises(RegistrationError, match=f"cannot listen on 127.0.0.1 port {port}: it is in use already"):
            Listener(Bind(port=port))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": -1}, "port is -1; it must be 0 to 65535"),
        ({"port": 65536}, "port is 65536; it must be 0 to 65535"),
        ({"workers": 0}, "workers is 0; it must be at least 1"),
        ({"host": ""}, "host is empty; name one, as in 127.0.0.1"),
        ({"host": "no such\x1b name"}, "host no such"),
        ({"host": "x" * 300}, "has no address"),
    ],
)
def test_what_cannot_be_listened_on(options: dict[str, Any], words: str) -> None:
    """A number or a name that cannot be is refused with what is wrong."""
    with pytest.raises(RegistrationError) as caught:
        Listener(Bind(**options))
    assert words in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_several_workers_need_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system cannot fork, more than one worker is refused and one is not."""
    monkeypatch.delattr(os, "fork")
    with pytest.raises(RegistrationError, match="workers=2 needs `fork`"):
        Bind(workers=2)
    assert Bind(workers=1).workers == 1


# ---- Unix domain sockets


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a socket, short enough for every system."""
    monkeypatch.chdir(tmp_path)
    return "s"


def test_a_unix_socket_needs_no_guard(place: str) -> None:
    """It takes connections, is told with the endpoint's path, and its file is gone in the end (T03)."""
    with closing(Listener(Bind(uds=place))) as listener:
        assert listener.url("/mcp") == "unix:s (path /mcp)"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(place)
    assert not os.path.exists(place)


def test_what_a_dead_server_left_is_taken_over(place: str) -> None:
    """A socket's file that nobody answers on is replaced."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(place)
    Listener(Bind(uds=place)).close()
    assert not os.path.exists(place)


def test_a_living_server_keeps_its_socket(place: str) -> None:
    """A second server on one path is refused, and the first one still answers."""
    with closing(Listener(Bind(uds=place))):
        with pytest.raises(RegistrationError, match="cannot listen on s: it is in use already"):
            Listener(Bind(uds=place))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(place)


def test_a_file_is_no_socket(place: str) -> None:
    """A file that stands at the path is left as it is."""
    Path(place).write_text("mine")
    with pytest.raises(RegistrationError, match="in use"):
        Listener(Bind(uds=place))
    assert Path(place).read_text() == "mine"


def test_a_socket_that_took_the_place_stays(place: str) -> None:
    """Who ends takes no file away that another server has put there meanwhile."""
    first = Listener(Bind(uds=place))
    for sock in first.sockets:
        sock.close()  # as while requests are still being answered
    with closing(Listener(Bind(uds=place))):
        first.close()
        assert os.path.exists(place)
    assert not os.path.exists(place)


def test_a_path_that_cannot_be(tmp_path: Path) -> None:
    """A folder that is not there is said."""
    with pytest.raises(RegistrationError, match="No such file or directory"):
        Listener(Bind(uds=str(tmp_path / "x" / "s")))
