"""Icons: which addresses of pictures may be given out, and which of a peer's may be shown."""

from __future__ import annotations

from collections.abc import Iterable

from .errors import RegistrationError
from .printable import printable
from .types import Icon


def is_safe(src: str) -> bool:
    """Whether an icon's address is an https URL or a data URI, and nothing else in disguise (ICO-1)."""
    start = src[:8].lower()
    return (
        src.isprintable() and " " not in src and (start.startswith("data:") or (start == "https://" and len(src) > 8))
    )


def check_icons(icons: Iterable[Icon] | None, label: str) -> None:
    """Check the icons of a definition, called `label`. Raises RegistrationError, which names the address (ICO-1)."""
    for icon in icons or ():
        if not is_safe(icon.src):
            raise RegistrationError(
                f"{label}: an icon is at {printable(icon.src, 80)!r}; it must be an https: or data: URI (ICO-1)"
            )


def safe_icons(icons: Iterable[Icon] | None) -> list[Icon]:
    """The icons of a peer that a host may show, in their order; those at any other address are left out (ICO-1).

    Whoever fetches one sends no credentials and follows no redirect to another origin, and looks at the bytes before it
    believes the type: an address of the right kind makes no picture safe.
    """
    return [icon for icon in icons or () if is_safe(icon.src)]
