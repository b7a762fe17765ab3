"""The HTTP client's side: one server for the life of a client, and the conversations with it."""

from __future__ import annotations

import asyncio
import io
import logging
from collections.abc import Callable, Mapping
from typing import Final

import aiohttp
from yarl import URL

from ..._version import __version__
from ...protocol.errors import ConnectionClosed, JackfieldError
from ...protocol.headers import Mark
from ...protocol.limits import Limits
from ...protocol.printable import printable
from ..connection import Channel, Connection
from .channel import HttpChannel
from .faults import http_error
from .target import Http

log = logging.getLogger("jackfield")

MOST_REDIRECTS: Final = 3
KEPT_OPEN: Final = 4.0
"""Seconds that an idle connection is kept. Most servers end theirs after five; whoever writes into that end loses."""
LAST_WORDS: Final = 0.5
"""Seconds that what was sent last may take when a conversation ends."""
_LARGE: Final = 2**19
"""From here on a body is sent piece by piece, so that the loop goes on in between."""

Marks = dict[str, tuple[Mark, ...]]


class Endpoint:
    """One server over HTTP, for the life of a client: its sockets, cookies, and which arguments its tools mirror.

    The sockets are closed whenever there is no conversation; the cookies stay. Requests are not bounded here: a
    connection asks `asking` of them at most, and what else there is to say never waits behind these.
    """

    def __init__(self, http: Http, limits: Limits, marks: Marks) -> None:
        self.label = http.label
        self.limits = limits
        self.marks = marks
        self._http = http
        self._url = URL(http.url)
        self._proxy = http.proxy or (_proxy_of_environment(self._url) if http.env_proxies else None)
        self._jar: aiohttp.CookieJar | None = None
        self._session: aiohttp.ClientSession | None = None
        self._links: set[HttpLink] = set()

    async def connect(self, make: Callable[[Channel], Connection]) -> HttpLink:
        """Begin a conversation; one that was there before ends when what is under way in it has ended."""
        if self._session is None:
            self._session = self._open()
        for link in self._links:
            link.retire()
        link = HttpLink(self, make)
        self._links.add(link)
        return link

    def _open(self) -> aiohttp.ClientSession:
        if self._jar is None:
            self._jar = aiohttp.CookieJar(unsafe=True)  # "unsafe": also for a host that is a number
            if self._http.cookies:
                self._jar.update_cookies(dict(self._http.cookies), self._url)
        fixed = {"Accept-Encoding": "identity", "User-Agent": f"jackfield/{__version__}", **self._http.headers}
        head = self.limits.headers
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_OPEN, ssl=self._http.ssl or True),
            headers=fixed,
            cookie_jar=self._jar,
            timeout=aiohttp.ClientTimeout(total=None, connect=self.limits.start),
            auto_decompress=False,
            proxy=self._proxy,
            max_line_size=head,
            max_field_size=head,
        )

    async def send(self, method: str, headers: Mapping[str, str], frame: bytes = b"") -> aiohttp.ClientResponse:
        """Send a request and return the answer's head; the caller closes it. Redirects within the origin are followed.

        Raises HttpError for any other redirect, ConnectionClosed when this was closed, and what aiohttp raises.
        """
        url, redirects = self._url, 0
        while True:
            if self._session is None:
                raise ConnectionClosed(f"the connection to {self.label} was closed")
            body = io.BytesIO(frame) if len(frame) > _LARGE else frame or None
            response = await self._session.request(method, url, data=body, headers=headers, allow_redirects=False)
            if not 300 <= response.status < 400:
                return response
            response.close()
            redirects += 1
            if redirects > MOST_REDIRECTS:
                why = f"it redirects more than {MOST_REDIRECTS} times"
                raise http_error(self.label, response.status, response.headers, why=why)
            url = self._follow(response, url)

    def _follow(self, response: aiohttp.ClientResponse, url: URL) -> URL:
        """Where a redirect leads. Headers, cookies and what is asked for must not leave the origin."""
        status, place = response.status, response.headers.get("Location", "")
        try:
            target = url.join(URL(place))
            shown = printable(str(target.with_query(None).with_fragment(None).with_user(None)), 200)
            same = target.origin() == url.origin() and target.user is None and target.password is None
        except ValueError:
            raise http_error(self.label, status, response.headers, why="it redirects to no URL") from None
        if status not in (307, 308) or not place:
            why = f"it redirects to {shown} in a way that loses the request; use the URL of the server itself"
            raise http_error(self.label, status, response.headers, why=why)
        if not same:
            why = f"it redirects to another origin, {shown}; use that URL if you trust it"
            raise http_error(self.label, status, response.headers, why=why)
        if status == 308:
            self._url = target
        return target

    async def left(self, link: HttpLink) -> None:
        """A conversation has ended; with the last one the sockets go."""
        self._links.discard(link)
        if not self._links and self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def close(self) -> None:
        """End all conversations."""
        await asyncio.gather(*[link.close() for link in self._links])


def _proxy_of_environment(url: URL) -> str | None:
    from urllib.request import getproxies, proxy_bypass

    return None if proxy_bypass(url.host or "") else getproxies().get(url.scheme)


class HttpLink:
    """One conversation over HTTP. It ends by `close` only: no failed request means anything for the next one."""

    def __init__(self, endpoint: Endpoint, make: Callable[[Channel], Connection]) -> None:
        loop = asyncio.get_running_loop()
        self.label = endpoint.label
        self.started = loop.time()
        self.channel = HttpChannel(endpoint.send, endpoint.label, endpoint.limits, endpoint.marks)
        self.connection = make(self.channel)
        self.channel.connection = self.connection
        self._endpoint = endpoint
        self._closing: asyncio.Task[None] | None = None
        self._retiring: asyncio.Task[None] | None = None

    async def awake(self) -> None:
        """Return at once: over HTTP a server cannot be seen to start."""

    def retire(self) -> None:
        """Close this when the requests that are under way have ended: another conversation has taken its place."""
        if self._retiring is None and self._closing is None:
            self._retiring = asyncio.get_running_loop().create_task(self._retire())

    async def _retire(self) -> None:
        await self.channel.quiet()
        await self.close()

    async def close(self) -> None:
        """End the conversation, at the server too (LH-8); return when nothing of it is left."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._closing)
        if self._retiring is not None and self._retiring is not asyncio.current_task():
            await asyncio.wait([self._retiring])

    async def _end(self) -> None:
        try:
            self.connection.leave(ConnectionClosed(f"the connection to {self.label} was closed"))
            await self.channel.finish(LAST_WORDS)
            if (session := self.channel.session_headers()) is not None:
                await self._end_session(session)
        finally:
            self.channel.close()
            await self.channel.quiet()
            await self._endpoint.left(self)

    async def _end_session(self, headers: Mapping[str, str]) -> None:
        """Tell the server that the session is over; one that does not do so, or is gone, may say what it likes."""
        try:
            async with asyncio.timeout(self._endpoint.limits.grace):
                response = await self._endpoint.send("DELETE", headers)
                log.debug("%s: the session ended with HTTP %d", self.label, response.status)
                response.close()
        except (aiohttp.ClientError, OSError, TimeoutError, JackfieldError) as error:
            log.debug("%s: the session could not be ended: %s", self.label, printable(str(error)))
