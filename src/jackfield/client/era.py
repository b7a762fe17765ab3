"""Finding out what a server speaks: the probe with `server/discover`, the handshake, and which of the two counts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final
from weakref import WeakSet

import msgspec
from msgspec import Raw, Struct

from ..protocol.errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    ConnectionClosed,
    HttpError,
    InvalidResult,
    NotSupported,
    PeerError,
    RegistrationError,
    RequestTimeout,
)
from ..protocol.jsonrpc import ErrorObject
from ..protocol.limits import Limits
from ..protocol.methods import METHODS
from ..protocol.printable import printable
from ..protocol.revisions import LEGACY, MODERN, REVISIONS, Revision, choose, find
from ..protocol.types import DiscoverResult, InitializeParams, InitializeResult, Params, ResultMeta
from .link import Link, Target
from .session import Facts, Hello, Session, request_meta
from .values import encode_value

DISCOVER: Final = METHODS["server/discover"]
INITIALIZE: Final = METHODS["initialize"]
MODERN_CODES: Final = (UNSUPPORTED_VERSION, HEADER_MISMATCH, MISSING_CAPABILITY)
"""What only a modern server says; such a server must not be sent `initialize` (ERA-S1)."""

_legacy: WeakSet[Any] = WeakSet()
"""Targets that were found to be legacy: they are not probed again until they refuse the handshake (ERA-S4)."""


def wanted_by(mode: str) -> tuple[Revision, ...]:
    """The revisions that a mode allows, newest first. Raises RegistrationError for a mode that there is not."""
    if mode == "auto":
        return REVISIONS
    if mode in ("modern", "legacy"):
        return MODERN if mode == "modern" else LEGACY
    if revision := find(mode):
        return (revision,)
    names = ", ".join([repr(revision.name) for revision in REVISIONS])
    raise RegistrationError(f"mode={mode!r}: it is 'auto', 'modern', 'legacy' or a revision: {names}")


class Plan(Struct, frozen=True):
    """All that connecting to a server takes."""

    target: Target
    mode: str
    hello: Hello
    limits: Limits
    reach: Callable[[], Awaitable[Link]]
    """Starts the target, where it is one to start, and begins a conversation with it."""


async def agree(greeting: Greeting) -> Session:
    """Start the target and agree with it on a revision.

    Whatever is raised (ConnectionClosed, RequestTimeout, NotSupported, PeerError, HttpError, InvalidResult), and when
    the caller is cancelled, nothing of the target is left running (F3).
    """
    try:
        return await greeting.agree()
    except BaseException:
        if greeting.link is not None:
            await greeting.link.close()
        raise


class Greeting:
    """One attempt to agree with a server that is started, or runs in this process."""

    tries = 1
    """How often `server/discover` is sent with the same revision."""

    def __init__(self, plan: Plan) -> None:
        self.link: Link | None = None
        self._plan = plan
        self._wanted = wanted_by(plan.mode)

    async def agree(self) -> Session:
        link = await self._open()
        if not self._wanted[0].modern:
            return await self._initialize(link, self._wanted[0])
        if self._plan.mode != "auto":
            return await self._modern_only(link)
        session = await self._find_out(link)
        self._remember(session)
        return session

    async def _open(self) -> Link:
        self.link = await self._plan.reach()
        return self.link

    # ---- what differs over HTTP

    @property
    def patience(self) -> float:
        """How long an answer to the probe may take in all; a process may start slowly."""
        return self._plan.limits.start + self._plan.limits.request_timeout

    def _remember(self, session: Session) -> None:
        (_legacy.discard if session.revision.modern else _legacy.add)(self._plan.target)

    def _speak(self, link: Link, revision: Revision | None) -> None:
        """Note the revision of the messages that follow; None while there is none, as at the handshake."""

    def _judge(self, error: PeerError | HttpError) -> int | None:
        """The code of a refusal, None where it was no message; raises what says nothing of the server's era."""
        return error.code if isinstance(error, PeerError) else None

    # ---- the whole way of mode "auto"

    async def _find_out(self, link: Link) -> Session:
        if self._plan.target in _legacy:
            try:
                return await self._initialize(link, LEGACY[0])
            except (PeerError, NotSupported, InvalidResult):
                pass  # it is not what it was: look again
        try:
            return await self._probe(link)
        except ConnectionClosed:
            # Some legacy servers exit on what they do not know. One that exits for another reason will do so again.
            await link.close()
            return await self._initialize(await self._open(), LEGACY[0])

    async def _probe(self, link: Link) -> Session:
        refused: asyncio.Future[ErrorObject] = asyncio.get_running_loop().create_future()
        probe = asyncio.create_task(self._discover(link, self._wanted[0]))
        link.connection.unmatched = lambda error: None if refused.done() else refused.set_result(error)
        silence = asyncio.create_task(self._silence(link))
        try:
            await asyncio.wait([probe, silence, refused], return_when=asyncio.FIRST_COMPLETED)
            link.connection.unmatched = None
            if not probe.done():
                return await (self._initialize(link, LEGACY[0]) if refused.done() else self._race(link, probe))
            found = probe.result()
            if isinstance(found, Session):
                return found
            return await self._initialize(link, found if isinstance(found, Revision) else LEGACY[0])
        finally:
            link.connection.unmatched = None
            await _drop(probe, silence)

    async def _silence(self, link: Link) -> None:
        """Return when a server that has not answered the probe is taken for one that does not know it."""
        limits = self._plan.limits
        try:
            async with asyncio.timeout_at(link.started + limits.start):
                await link.awake()
        except TimeoutError:
            return
        await asyncio.sleep(limits.probe)

    async def _race(self, link: Link, probe: asyncio.Task[Session | Revision | Exception]) -> Session:
        """Initialize a server that is silent so far; a DiscoverResult that still comes first wins."""
        handshake = asyncio.create_task(self._initialize(link, LEGACY[0]))
        pending: set[asyncio.Task[Any]] = {probe, handshake}
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in (probe, handshake):
                    if task in done and task.exception() is None and isinstance(found := task.result(), Session):
                        return found
                if handshake in done and isinstance(handshake.exception(), RequestTimeout):
                    break
            if probe.done():
                probe.result()  # raises if the server is modern, but not to be talked to
            return handshake.result()  # raises: it is no session
        finally:
            await _drop(handshake)

    # ---- server/discover

    async def _modern_only(self, link: Link) -> Session:
        """ERA-S3: a server that is not modern is told from one that is, and never waited for without end."""
        probe = asyncio.create_task(self._discover(link, self._wanted[0]))
        silence = asyncio.create_task(self._silence(link))
        try:
            await asyncio.wait([probe, silence], return_when=asyncio.FIRST_COMPLETED)
            why: object = "it did not answer server/discover in time (limit `probe`)"
            if probe.done():
                found = probe.result()
                if isinstance(found, Session):
                    return found
                why = f"server/discover was answered with: {found}"
        finally:
            await _drop(probe, silence)
        raise self._not_modern(link, why)

    def _not_modern(self, link: Link, why: object) -> NotSupported:
        return NotSupported(
            f"mode={self._plan.mode!r}, but {link.label} is not a server of that era: {why}. mode='auto' also "
            "tries the handshake of the older revisions"
        )

    async def _discover(self, link: Link, asked: Revision) -> Session | Revision | Exception:
        """Ask a server what it speaks, once with each revision that it names (DISC-3).

        Returns the session of a modern server, the revision of one that names only older ones, or what shows that it is
        no modern server. Raises NotSupported or PeerError for a modern one that we cannot talk to, or ConnectionClosed.
        """
        plan, tried = self._plan, list[str]()
        while tried.count(asked.name) < self.tries:
            tried.append(asked.name)
            self._speak(link, asked)
            params = Params(meta=Raw(encode_value(request_meta(asked, plan.hello))))
            answer: DiscoverResult | None = None
            try:
                answer = DISCOVER.decode_result(await self._ask(link, DISCOVER.name, params, self.patience))
            except InvalidResult as error:
                return error
            except (PeerError, HttpError) as error:
                code = self._judge(error)
                if code not in MODERN_CODES:
                    return error
                if code != UNSUPPORTED_VERSION:
                    raise
                supported = supported_by(error)
            else:
                supported = answer.supported_versions if answer else []
            common = self._choose(supported)
            if common is None:
                raise NotSupported(self._nothing_common(link, supported))
            if not common.modern:
                return common
            if answer is not None:
                self._speak(link, common)
                return Session(link, common, plan.hello, _facts(answer))
            asked = common
        raise NotSupported(f"{link.label} says that it speaks {asked.name}, and refuses a request in it")

    # ---- initialize

    async def _initialize(self, link: Link, asked: Revision) -> Session:
        """Shake hands (LIFE-1, LIFE-2). A server that refuses the revision but names others is asked again (LIFE-5)."""
        plan = self._plan
        self._speak(link, None)
        params = InitializeParams(
            protocol_version=asked.name, capabilities=plan.hello.capabilities(False), client_info=plan.hello.info
        )
        try:
            raw = await self._ask(link, INITIALIZE.name, params)
        except (PeerError, HttpError) as error:
            self._judge(error)
            other = self._choose([name for name in supported_by(error) if (it := find(name)) and not it.modern])
            if other is None or other is asked:
                raise self._refused(link, error) from error
            params.protocol_version = other.name
            raw = await self._ask(link, INITIALIZE.name, params)
        result: InitializeResult = INITIALIZE.decode_result(raw)
        revision = self._choose([result.protocol_version])
        offered = find(result.protocol_version)
        if offered is not None and offered.modern:
            raise NotSupported(
                f"{link.label} answered initialize with {offered.name}, a revision that has no handshake: a server of "
                "it answers server/discover, and an older one names its own revision"
            )
        if revision is None:
            raise NotSupported(self._nothing_common(link, [result.protocol_version]))
        self._speak(link, revision)
        await link.connection.notify("notifications/initialized", {})
        facts = Facts(result.server_info, result.capabilities, result.instructions)
        return Session(link, revision, plan.hello, facts)

    def _refused(self, link: Link, error: PeerError | HttpError) -> NotSupported:
        text = f"{link.label} refused the handshake: {printable(str(error))}"
        if self._plan.mode != "auto":
            text += f" (mode={self._plan.mode!r}; mode='auto' also tries the newer revisions)"
        return NotSupported(text)

    # ---- both

    async def _ask(self, link: Link, method: str, params: Params, timeout: float | None = None) -> Raw:
        connection = link.connection
        return await connection.request(
            connection.new_id(),
            method,
            Raw(encode_value(params)),
            timeout=timeout,
            cancellable=False,  # never for initialize (CAN-4), and a legacy server may stumble over one before it
        )

    def _choose(self, names: Iterable[str]) -> Revision | None:
        return choose([name for name in names if find(name) in self._wanted])

    def _nothing_common(self, link: Link, theirs: Iterable[str]) -> str:
        named = printable(", ".join(theirs) or "nothing that can be read")
        ours = ", ".join([revision.name for revision in self._wanted])
        return f"{link.label} speaks {named}; this client (mode={self._plan.mode!r}) speaks {ours}"


class _Supported(Struct):
    supported: list[str] = []


def supported_by(error: PeerError | HttpError) -> list[str]:
    """The versions that a refusal names (DISC-4, LIFE-5); none where its data is of another shape."""
    if isinstance(error, HttpError):
        return []
    try:
        return msgspec.convert(error.data, _Supported).supported
    except msgspec.ValidationError:
        return []


def _facts(result: DiscoverResult) -> Facts:
    server = result.server_info
    try:
        server = msgspec.convert(result.meta or {}, ResultMeta).server_info or server
    except msgspec.ValidationError:
        pass  # who it is is its own word anyway (META-5)
    return Facts(server, result.capabilities, result.instructions)


async def _drop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel what still runs and look at what ended, so that no fault is reported as forgotten."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
