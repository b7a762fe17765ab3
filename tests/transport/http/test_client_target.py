"""The description of a server at a URL: what is refused at once, and what is never shown."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import RegistrationError
from jackfield.transport.http.target import Http

URL = "https://example.com:8443/mcp"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1/", "https://example.com:8443/mcp?a=b", "HTTP://[::1]:80/mcp", "http://host/ü"]
)
def test_url_that_is_taken(url: str) -> None:
    """HTTP and HTTPS URLs with a host are targets, as text too."""
    assert Http(url).url == url
    assert repr(Http(url)).split("?")[0].rstrip("')") in repr(Client(url))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ws://example.com/", "begins with http:// or https://, not ws:"),
        ("example.com/mcp", "begins with http:// or https://"),
        ("http:///mcp", "needs a host"),
        ("http://exa mple.com/", "no spaces"),
        ("http://example.com/\r\nHost: evil", "no spaces"),
        ("http://example.com:http/", "cannot be read"),
        ("http://[::1/", "cannot be read"),
        ("http://user:secret@example.com/", "Authorization"),
        ("http://secret@example.com/", "Authorization"),
        (7, "must be a text"),
    ],
)
def test_url_that_is_refused(url: Any, why: str) -> None:
    """Any other URL is refused with the fix, and without what may be secret in it."""
    with pytest.raises(RegistrationError, match=why) as caught:
        Http(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("X-Key", "secret\r\nHost: evil", "one line"),
        ("X-Key", "secret\n", "one line"),
        ("X-Key", "secret\0", "one line"),
        ("X-Key", 7, "one line"),
        ("X Key", "secret", "no name of a header"),
        ("X-Key\r\nX", "secret", "no name of a header"),
        ("", "secret", "no name of a header"),
        ("content-type", "secret", "the client's own"),
        ("Mcp-Session-Id", "secret", "the client's own"),
        ("Accept-Encoding", "secret", "the client's own"),
    ],
)
def test_header_that_is_refused(name: str, value: Any, why: str) -> None:
    """A header that would be two, or that the client itself must say, is refused; its value is not shown (T09)."""
    with pytest.raises(RegistrationError, match=why) as caught:
        Http(URL, headers={name: value})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("a b", "secret"), ("a", "secret; b=c"), ("a", "secret\r\n"), ("a", 7)])
def test_cookie_that_is_refused(name: str, value: Any) -> None:
    """A cookie that would be two, or no cookie, is refused; its value is not shown."""
    with pytest.raises(RegistrationError, match="a cookie's name and value are texts") as caught:
        Http(URL, cookies={name: value})
    assert "secret" not in str(caught.value)


def test_proxy_that_is_refused() -> None:
    """A proxy is an HTTP URL too."""
    with pytest.raises(RegistrationError, match="the proxy begins with http:// or https://, not socks5:"):
        Http(URL, proxy="socks5://user:secret@proxy:1")


def test_secrets_are_not_shown() -> None:
    """Values of headers, cookies and queries, and the proxy's password, are in no repr and no label."""
    target = Http(
        URL + "?key=secret",
        headers={"Authorization": "Bearer secret"},
        cookies={"sid": "secret"},
        proxy="http://user:secret@proxy:3128",
        env_proxies=True,
    )
    assert repr(target) == (
        f"Http({URL!r}, headers=['Authorization'], cookies=['sid'], proxy='http://proxy:3128', env_proxies=True)"
    )
    assert target.label == URL
    assert "secret" not in repr(Client(target))


def test_nothing_heavy_is_imported() -> None:
    """To describe a client for a URL does not import the HTTP library; only connecting does."""
    code = "import sys; from jackfield import Client; Client('http://h/'); print('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
