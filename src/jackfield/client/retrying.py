"""Calls that come back with questions: asking what is to be asked, and sending the request again with the answers."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from ..protocol.errors import (
    URL_ELICITATION_REQUIRED,
    InvalidResult,
    LimitExceeded,
    PeerError,
    ProtocolError,
    Unanswered,
)
from ..protocol.methods import Method
from ..protocol.printable import printable
from ..protocol.types import InputRequest, InputRequiredResult, Params
from .questions import ELICIT, ClientQuestion
from .values import encode_value

if TYPE_CHECKING:
    from .session import Asking, Session

FIRST_WAIT: Final = 0.2
"""Seconds before the first retry where nothing was asked (MR-5); each further one waits twice as long."""
LONGEST_WAIT: Final = 10.0
FIRST_VISIT: Final = 2.0
"""Seconds for a page to be done before it is seen whether it is; each further time twice as long."""
LONGEST_VISIT: Final = 60.0


class _Pages(Struct):
    elicitations: list[Raw]


class Retrying:
    """One call that cannot be answered until something was asked. Nothing of it is known to any other call (MR-4)."""

    def __init__(self, session: Session, method: Method, params: Params, asking: Asking | None) -> None:
        """`params` and `asking` are those of the first request; each retry is a request of its own, with its time."""
        self._session = session
        self._method = method
        self._params = params
        self._asking = asking
        self._answering = session.answering
        self._limits = session.answering.limits
        self._name = session.connection.name
        self._taken = 0
        """Questions that came so far."""

    # ---- the modern way: the answer to a request is a question

    async def finish(self, result: InputRequiredResult) -> Any:
        """Ask, and send the request again, until it is answered for good; give that result, marked as `retried`.

        Raises InvalidResult for a question that this client did not say it can be asked (MR-2), for one that is
        malformed, and where nothing changes from round to round; LimitExceeded (limits `rounds`, `questions`);
        Unanswered where a question has no answer; and what `Session.request` raises.
        """
        before: tuple[bytes, dict[str, Raw]] | None = None
        for round in range(self._limits.rounds):
            answers = await self._answer(result)
            if answers and before == (result.raw, answers):
                raise InvalidResult(f"{self._what()} with the same questions as before, whatever the answers")
            before = result.raw, answers
            if not answers:
                await _pause(FIRST_WAIT, LONGEST_WAIT, round)
            again = msgspec.structs.replace(
                self._params,
                input_responses=Raw(encode_value(answers)) if answers else UNSET,
                request_state=result.request_state,
            )
            answer = await self._session.request(self._method, again, self._asking, again=True)
            if not isinstance(answer, InputRequiredResult):
                vars(answer)["retried"] = True
                return answer
            result = answer
        raise self._endless()

    async def _answer(self, result: InputRequiredResult) -> dict[str, Raw]:
        """The answers to all questions of a round; nothing is asked unless everything may be (MR-3)."""
        revision = self._session.revision
        if not revision.modern:
            raise InvalidResult(f"{self._what()} with questions, which revision {revision.name} does not have")
        if result.input_requests is None and result.request_state is None:
            raise InvalidResult(f"{self._what()} with 'input_required', but neither questions nor a state (MR-1)")
        requests = result.input_requests or {}
        self._take(len(requests))
        questions = {key: self._question(key, request) for key, request in requests.items()}
        try:
            return await self._answering.answer_all(questions, revision)
        except ProtocolError as error:
            raise Unanswered(f"{self._name}: {self._method.name}: {error.message}") from (error.__cause__ or error)

    def _question(self, key: str, request: InputRequest) -> ClientQuestion:
        raw = b"{}" if request.params is UNSET else request.params
        try:
            params = self._answering.handlers.read(request.method, raw, self._session.revision)
        except ProtocolError as error:
            raise InvalidResult(
                f"{self._what()} with a question ({printable(key, 80)!r}, {printable(request.method, 80)}) that this "
                f"client cannot be asked: {printable(error.message, 500)}. It can be asked what it has handlers for: "
                "Client(elicit=, elicit_url=, sample=, sample_tools=, roots=)"
            ) from None
        return ClientQuestion(server=self._name, method=request.method, params=params, call=self._subject())

    # ---- the way of 2025-11-25: an error that names pages to visit

    async def visit(self, error: PeerError) -> Any:
        """Ask for each page that the error names, and send the request again when the visits may be done (ELC-8).

        Raises the error itself where the person does not agree, or it names no page that can be visited; else as
        `finish`. A page is asked for once, however often the server names it.
        """
        if self._session.revision.modern:
            raise error
        agreed: set[str] = set()
        for round in range(self._limits.rounds):
            pages = self._pages(error)
            fresh = {id: page for id, page in pages.items() if id not in agreed}
            self._take(len(fresh))
            with self._answering.expecting(pages) as events:
                answers = await self._answering.answer_all(fresh, self._session.revision)
                if not all(_agrees(raw) for raw in answers.values()):
                    raise error
                agreed.update(fresh)
                await _pause(FIRST_VISIT, LONGEST_VISIT, round, events)
            try:
                return await self._session.request(self._method, self._params, self._asking, again=True)
            except PeerError as next_error:
                if next_error.code != URL_ELICITATION_REQUIRED:
                    raise
                error = next_error
        raise self._endless()

    def _pages(self, error: PeerError) -> dict[str, ClientQuestion]:
        pages: dict[str, ClientQuestion] = {}
        try:
            for raw in msgspec.json.decode(encode_value(error.data), type=_Pages).elicitations:
                params: Any = self._answering.handlers.read(ELICIT.name, raw, self._session.revision)
                if params.mode != "url" or not params.elicitation_id:
                    raise error
                if params.elicitation_id in pages:
                    raise error  # two pages, of which one answer would have to be for both
                pages[params.elicitation_id] = ClientQuestion(
                    server=self._name, method=ELICIT.name, params=params, call=self._subject()
                )
        except (msgspec.DecodeError, ProtocolError):
            raise error from None
        if not pages:
            raise error
        return pages

    # ---- both

    def _take(self, more: int) -> None:
        self._taken += more
        if self._taken > self._limits.questions:
            text = f"{self._what()} with more than {self._limits.questions} questions in all (limit `questions`)"
            raise LimitExceeded(text, "questions")

    def _endless(self) -> LimitExceeded:
        text = f"{self._what()} with questions more than {self._limits.rounds} times (limit `rounds`)"
        return LimitExceeded(text, "rounds")

    def _what(self) -> str:
        return f"{self._name} answered {self._method.name}"

    def _subject(self) -> str | None:
        params: Any = self._params
        return getattr(params, "name", None) or getattr(params, "uri", None)


def _agrees(raw: Raw) -> bool:
    return msgspec.json.decode(raw, type=dict[str, Any])["action"] == "accept"


async def _pause(first: float, longest: float, round: int, events: list[asyncio.Event] | None = None) -> None:
    """Wait before a retry, not all callers equally long; not longer than until all `events` are there."""
    seconds = min(first * 2**round, longest) * random.uniform(0.75, 1.25)
    if events is None:
        await asyncio.sleep(seconds)
        return
    try:
        async with asyncio.timeout(seconds):
            for event in events:
                await event.wait()
    except TimeoutError:
        pass  # not every server says so, and asking again tells as well
