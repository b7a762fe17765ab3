"""Finding out what a server at a URL speaks: what each HTTP status says of its era, and what says nothing of it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ..protocol.errors import (
    INVALID_PARAMS,
    UNSUPPORTED_VERSION,
    HttpError,
    InvalidResult,
    NotSupported,
    PeerError,
)
from ..protocol.printable import printable
from ..protocol.revisions import LEGACY, Revision, find
from ..transport.http.target import Http
from .era import MODERN_CODES, Greeting, supported_by
from .link import Link
from .session import Session

_NO_EVIDENCE: Final = (401, 403, 407, 408, 425, 429)
"""Refusals by whoever stands before the server, or for a while: the same in either era (ERA-H1, ERA-H3)."""
_NOT_HERE: Final = (400, 404, 405)
"""What servers answer to `initialize` that have it nowhere, or at another place."""
_MOST_KNOWN: Final = 1024

legacy_urls: OrderedDict[str, None] = OrderedDict()
"""URLs whose server was found to be legacy; not probed again until it refuses the handshake (ERA-H2)."""


class HttpGreeting(Greeting):
    """Probes with `server/discover`, then tries the handshake unless the answer shows a modern server (ERA-H1).

    A 404 with -32601 tells in general that a modern server does not know the method. It does not for this one method,
    which every modern server has (DISC-1), so the handshake is tried then, too: a modern server refuses it as well.
    """

    tries = 2  # some servers refuse the first request, naming the very revision it was in (DISC-3)
    _probed: object = None
    """What `server/discover` was answered with, for the error."""

    @property
    def patience(self) -> float:
        """How long an answer to the probe may take; a URL does not have to start first."""
        return self._plan.limits.request_timeout

    async def _find_out(self, link: Link) -> Session:
        url = self._url()
        if url in legacy_urls:
            try:
                return await self._initialize(link, LEGACY[0])
            except (PeerError, NotSupported, InvalidResult, HttpError) as error:
                if isinstance(error, PeerError | HttpError):
                    self._judge(error)
                legacy_urls.pop(url, None)  # it is not what it was: look again
        found = await self._discover(link, self._wanted[0])
        if isinstance(found, Session):
            return found
        self._probed = found
        return await self._initialize(link, found if isinstance(found, Revision) else LEGACY[0])

    def _remember(self, session: Session) -> None:
        url = self._url()
        legacy_urls.pop(url, None)
        if not session.revision.modern:
            legacy_urls[url] = None
            if len(legacy_urls) > _MOST_KNOWN:
                legacy_urls.popitem(last=False)

    async def _modern_only(self, link: Link) -> Session:
        found = await self._discover(link, self._wanted[0])
        if isinstance(found, Session):
            return found
        raise self._not_modern(link, f"server/discover was answered with: {found}")

    def _url(self) -> str:
        assert isinstance(self._plan.target, Http)
        return self._plan.target.url

    def _speak(self, link: Link, revision: Revision | None) -> None:
        from ..transport.http.client import HttpLink

        assert isinstance(link, HttpLink)
        link.channel.revision = revision

    def _judge(self, error: PeerError | HttpError) -> int | None:
        """As said; failures of the server or on the way, redirects and refused credentials say nothing (ERA-H3)."""
        status = error.status or 200
        code = error.code if isinstance(error, PeerError) else None
        if code in MODERN_CODES:
            return code
        if code == INVALID_PARAMS and _names_modern(error):
            return UNSUPPORTED_VERSION  # some drafts had no code of its own for that
        if status >= 500 or 300 <= status < 400 or status in _NO_EVIDENCE:
            raise error
        return code

    def _refused(self, link: Link, error: PeerError | HttpError) -> NotSupported:
        text = str(super()._refused(link, error))
        if self._probed is not None:
            text += f"; server/discover was answered with: {printable(str(self._probed), 500)}"
        if error.status in _NOT_HERE:
            text += "; the transport of 2024-11-05, HTTP with two endpoints (HTTP+SSE), is not spoken yet"
        return NotSupported(text)


def _names_modern(error: PeerError | HttpError) -> bool:
    found = [find(name) for name in supported_by(error)]
    return any(revision is not None and revision.modern for revision in found)
