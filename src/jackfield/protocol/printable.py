"""Text from a peer made fit for a log line or a terminal."""

from __future__ import annotations


def printable(text: str | bytes, limit: int = 200) -> str:
    """One line of about `limit` characters at most; bytes are read as UTF-8, what is cut off is counted at the end.

    What controls a terminal, hides or turns text around is written as escapes.
    """
    if isinstance(text, bytes):
        whole = len(text)
        shown = text[: 4 * limit].decode("utf-8", "backslashreplace")[:limit]
        cut = whole - len(shown.encode()) if whole > len(shown) else 0
        unit = "bytes"
    else:
        shown, cut, unit = text[:limit], len(text) - limit, "characters"
    line = "".join([c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in shown])
    return f"{line}… ({cut} more {unit})" if cut > 0 else line
