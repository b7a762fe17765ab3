"""Which icons may be given out and shown."""

from __future__ import annotations

import pytest

from jackfield.protocol.errors import RegistrationError
from jackfield.protocol.icons import check_icons, safe_icons
from jackfield.protocol.types import Icon

GOOD = ["https://x.example/i.png", "HTTPS://x.example/i.svg?a=b#c", "data:image/png;base64,AA==", "Data:,x"]
BAD = [
    "",
    "i.png",
    "//x.example/i.png",
    "http://x.example/i.png",
    "https:i.png",
    "https://",
    "javascript:alert(1)",
    "file:///etc/passwd",
    "ftp://x.example/i.png",
    "ws://x.example/",
    "blob:https://x.example/1",
    " https://x.example/i.png",
    "java\nscript:alert(1)",
    "https://x.example/i.png\r\nCookie: a",
    "https://x.example/\u202egnp.i",
]


def test_a_host_shows_https_and_data_only() -> None:
    """Icons of other schemes, or with hidden signs in the address, are left out, the others kept in order (ICO-1)."""
    icons = [Icon(src, "image/png", ["48x48"]) for src in GOOD[:2] + BAD + GOOD[2:]]
    shown = safe_icons(icons)
    assert [icon.src for icon in shown] == GOOD
    assert shown[0] is icons[0]
    assert safe_icons(None) == []


@pytest.mark.parametrize("src", BAD)
def test_an_author_gives_https_and_data_only(src: str) -> None:
    """Another address is an error at registration that names the definition (ICO-1)."""
    with pytest.raises(RegistrationError, match=r"tool 'x': an icon is at .* it must be an https: or data: URI"):
        check_icons([Icon(GOOD[0]), Icon(src)], "tool 'x'")
    check_icons([Icon(src) for src in GOOD], "tool 'x'")
    check_icons(None, "tool 'x'")
