"""Asking a client in the middle of its request: at once where it can be, else by an answer that holds the questions."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..protocol.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    URL_ELICITATION_REQUIRED,
    CannotAsk,
    ConnectionClosed,
    InvalidResult,
    NotSupported,
    PeerError,
    ProtocolError,
    RequestTimeout,
    ToolError,
    Unanswered,
)
from ..protocol.jsonrpc import check_members, repeats_key
from ..protocol.methods import METHODS
from ..protocol.printable import printable
from ..protocol.types import (
    CallToolParams,
    ElicitParams,
    GetPromptParams,
    InputRequest,
    InputRequiredResult,
    Params,
    ReadResourceParams,
)
from ..protocol.wire import MODERN
from .context import Asked, SaidNo
from .peer import Peer
from .questions import AcceptedElicitation, ElicitationRequired, ElicitURL, Question

if TYPE_CHECKING:
    from .context import Context

log = logging.getLogger("jackfield")

MOST_ASKED: Final = 100
"""Questions that one handler may have open."""
MOST_SPENT: Final = 65_536
"""Used states that are remembered; of more than these the oldest are forgotten."""

_decode_responses = msgspec.json.Decoder(dict[str, Raw]).decode


class Answer(Struct, array_like=True):
    """What the client said, and the digest of the very question that it was given to."""

    digest: str
    result: Raw


class State(Struct, array_like=True):
    """What the client keeps for us, sealed, until it has the answers."""

    expires: int
    """In seconds since 1970."""
    answers: dict[str, Answer]
    """Those of earlier rounds."""
    asked: dict[str, str]
    """The digests of what is open, by key."""
    handle: str = ""
    """The parked call that waits for the answers; empty where the handler runs anew."""
    name: str = ""
    """No other state has it."""


_decode_state = msgspec.json.Decoder(State).decode


class Open(Struct):
    """A question that has no answer yet."""

    question: Question
    params: Params
    digest: str


class Round:
    """The questions of one request: the answers that came with it, and what is open when its handler has ended."""

    def __init__(self, state: State | None = None, said: dict[str, Raw] | None = None) -> None:
        """`said` are the answers that came with the request, whatever they were given to."""
        self.said = said or {}
        self.answers = state.answers if state is not None else {}
        self.handle = state.handle if state is not None else ""
        self._state = state
        self.open: dict[str, Open] = {}
        self.fault: BaseException | None = None
        """What the request is answered with, whatever its handler makes of it."""
        self._used: dict[str, int] = {}
        """How often each key was taken; in it are all keys that questions have."""

    @property
    def unfinished(self) -> bool:
        """Whether the handler's own outcome does not count (design: the latch)."""
        return bool(self.open) or self.fault is not None

    def key_of(self, question: Question) -> str:
        """The key of a question: its own, or the running number; a key that comes again is numbered too."""
        key = name = question.key or "question"
        while name in self._used:
            self._used[key] += 1
            name = f"{key}-{self._used[key]}"
        self._used[name] = 1
        return name

    def spend(self, context: Context) -> None:
        """Note that the answers of this request are used. Raises ProtocolError where another request has used them.

        What a process has seen it does not take again; the memory is its own, and as long as a question may take (M01).
        """
        state, self._state = self._state, None
        if state is None:
            return
        spent, now = context.spent, time.time()
        if state.name in spent:
            text = "Invalid requestState: its answers were used already; make the call anew"
            self.fault = ProtocolError(INVALID_PARAMS, text)
            raise self.fault
        spent[state.name] = state.expires
        while len(spent) > MOST_SPENT or spent[next(iter(spent))] < now:
            del spent[next(iter(spent))]

    def add(self, key: str, question: Open) -> None:
        """Note an open question. Raises ToolError where there are too many."""
        if len(self.open) >= MOST_ASKED:
            raise ToolError(f"more than {MOST_ASKED} questions at a time; ask for several things in one form")
        self.open[key] = question


async def ask(context: Context, question: Question) -> Any:
    """Ask the client and return what it said.

    Raises CannotAsk where it did not declare what that takes, Unanswered where no answer that counts came from a legacy
    client, and Asked where the handler must run again with the answer.
    """
    peer = context.peer
    revision = peer.speaks
    if context.over:
        raise Unanswered("the request was answered already; nothing can be asked for it any more")
    if not question.can_ask(peer.capabilities, revision):
        raise _cannot_ask(question, peer)
    params = question.params(revision)
    if peer.wire is not MODERN:
        if isinstance(question, ElicitURL):
            context.expect(question.id)
        return await _ask_now(context, question, params)
    if context.round is None:
        context.round = Round()
    found = context.round
    key, digest = found.key_of(question), digest_of(question, params)
    answer = found.answers.get(key)
    if not question.bound and key in found.said:
        answer = found.answers[key] = Answer(digest, found.said[key])
    elif context.call is not None:
        return await context.call.ask(key, Open(question, params, digest))
    if answer is None or answer.digest != digest:
        found.add(key, Open(question, params, digest))
        await asyncio.sleep(0)  # what the handler asks besides, in other tasks, travels in the same round
        raise Asked
    try:
        value = read_answer(question, key, answer.result)
    except ProtocolError as fault:
        found.fault = fault
        raise
    found.spend(context)
    return value


def _cannot_ask(question: Question, peer: Peer) -> CannotAsk:
    needed, revision = question.needs(), peer.speaks
    if not peer.kept:
        return CannotAsk("The client cannot be asked: this server keeps no sessions, which its revision takes.", needed)
    page = isinstance(question, ElicitURL) and "url" not in revision.elicitation
    if page and revision.elicitation:
        return CannotAsk(f"The client cannot be asked: revision {revision.name} has no pages to visit.", needed)
    if revision.name not in METHODS[question.method].revisions and not revision.modern:
        return CannotAsk(f"The client cannot be asked: revision {revision.name} has no {question.method}.", needed)
    text = msgspec.json.encode(needed).decode()
    return CannotAsk(f"The client cannot be asked: it did not declare the capability {text}.", needed)


async def _ask_now(context: Context, question: Question, params: Params) -> Any:
    try:
        raw = await context.link.ask(question.method, params, context.limits.question)
    except NotSupported as fault:
        raise CannotAsk(str(fault), question.needs()) from fault
    except PeerError as fault:
        raise Unanswered(f"The client did not answer the question: {fault}") from fault
    except RequestTimeout as fault:
        raise Unanswered("Nobody answered the question in time (limit `question`).") from fault
    except (ConnectionClosed, InvalidResult) as fault:
        raise Unanswered(f"The question got no answer: {fault}") from fault
    try:
        return _read(question, raw)
    except ValueError as fault:
        raise Unanswered(f"The client's answer does not fit the question: {printable(str(fault), 500)}") from None


def read_answer(question: Question, key: str, raw: Raw) -> Any:
    """The value of a modern client's answer. Raises ProtocolError (-32602) where it does not fit (MR-7, MR-8)."""
    try:
        return _read(question, raw)
    except ValueError as fault:
        text = f"Invalid inputResponses[{printable(key, 80)!r}]: {printable(str(fault), 500)}"
        raise ProtocolError(INVALID_PARAMS, text) from None


class _Content(Struct):
    content: Raw | UnsetType = UNSET


_decode_content = msgspec.json.Decoder(_Content).decode


def _read(question: Question, raw: Raw) -> Any:
    """The value of an answer in which no key is given twice: another reader might take the other one (T08)."""
    if bytes(raw).startswith(b"{"):
        content = _decode_content(raw).content
        for text in (raw, content):
            if text is not UNSET and bytes(text).startswith(b"{") and repeats_key(text):
                raise ValueError("a key is given twice in it")
    return question.read(raw)


def digest_of(question: Question, params: Params) -> str:
    """What tells a question from any other: an answer counts for nothing else."""
    if isinstance(params, ElicitParams) and params.elicitation_id is not None:
        params = msgspec.structs.replace(params, elicitation_id=None)  # made anew each time
    text = msgspec.json.encode((question.method, params), order="deterministic")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


# ---- between two rounds


def reopen(context: Context, params: Any) -> None:
    """Take up the answers that came with a request (MR-3).

    Raises ProtocolError (-32602) for a state that was not sealed for this very request, or whose time is over (MR-6),
    and for answers that are none.
    """
    responses: dict[str, Raw] = {}
    if params.input_responses is not UNSET:
        try:
            responses = _decode_responses(params.input_responses)
            check_members(params.input_responses, "inputResponses")
        except (msgspec.DecodeError, RecursionError) as fault:
            raise ProtocolError(INVALID_PARAMS, f"Invalid inputResponses: {fault}") from None
    if params.request_state is None:
        context.round = Round(said=responses)  # to nothing that we know to have asked: it is asked anew
        return
    state = _opened(context, params.request_state)
    for key, digest in state.asked.items():
        if key in responses:
            state.answers[key] = Answer(digest, responses[key])
    context.round = Round(state, responses)


def _opened(context: Context, text: str) -> State:
    refused = ProtocolError(INVALID_PARAMS, "Invalid requestState: it is not one that was given for this request")
    if len(text) > context.limits.state:
        raise refused
    try:
        state = _decode_state(context.sealer.open(text, _bound(context)))
    except (ValueError, RecursionError) as fault:
        log.warning(
            "%s: a requestState was refused: %s. Processes behind one address need the same state_keys, and one name",
            context.method,
            fault,
        )
        raise refused from None
    if state.expires < time.time():
        text = "Invalid requestState: its time is over (limit `question`); make the call anew"
        raise ProtocolError(INVALID_PARAMS, text)
    return state


def conclude(context: Context, fault: BaseException) -> InputRequiredResult | BaseException:
    """What a request is answered with whose handler ended with `fault` after it had asked, or wanted to."""
    found = context.round
    if isinstance(fault, ElicitationRequired):
        return _pages_first(context, fault)
    if found is None:
        return fault
    if found.fault is not None:
        return found.fault
    if isinstance(fault, CannotAsk | SaidNo):
        return fault  # so that nobody is asked in vain
    return _questions(context, found) if found.open else fault


def _questions(context: Context, found: Round) -> InputRequiredResult | ProtocolError:
    """The answer that holds what is open (MR-1, MR-2), and the sealed state that gives the answers their meaning."""
    asked = {key: each.digest for key, each in found.open.items()}
    answers = {key: answer for key, answer in found.answers.items() if key not in asked}
    expires = int(time.time() + context.limits.question)
    state = State(expires, answers, asked, found.handle, os.urandom(12).hex())
    text = context.sealer.seal(msgspec.json.encode(state), _bound(context))
    if len(text) > context.limits.state:
        said = f"the answers so far take {len(text)} bytes, more than a client is given to keep (limit `state`)"
        return ProtocolError(INTERNAL_ERROR, said)
    requests = {
        key: InputRequest(each.question.method, Raw(msgspec.json.encode(each.params)))
        for key, each in found.open.items()
    }
    return InputRequiredResult(input_requests=requests or None, request_state=text)


def _pages_first(context: Context, fault: ElicitationRequired) -> InputRequiredResult | BaseException:
    """Pages that a person has to visit before the call: an error up to 2025-11-25 (ELC-8), questions after that."""
    peer, pages = context.peer, fault.pages
    revision = peer.speaks
    for page in pages:
        if not page.can_ask(peer.capabilities, revision):
            return _cannot_ask(page, peer)
    if peer.wire is not MODERN:
        for page in pages:
            context.expect(page.id)
        data = {"elicitations": [page.params(revision) for page in pages]}
        return ProtocolError(URL_ELICITATION_REQUIRED, str(fault), data)
    found = context.round = context.round or Round()
    for page in pages:
        params = page.params(revision)
        key, digest = found.key_of(page), digest_of(page, params)
        answer = found.answers.get(key)
        if answer is None or answer.digest != digest:
            found.add(key, Open(page, params, digest))
            continue
        try:
            said = read_answer(page, key, answer.result)
        except ProtocolError as wrong:
            return wrong
        if not isinstance(said, AcceptedElicitation):
            return ToolError(f"The user did not agree to visit a page that this call needs: {page.message}")
    return _questions(context, found)  # where all was agreed to, only the state: the client comes back later (MR-5)


def _bound(context: Context) -> bytes:
    """What a state is good for: this principal's very request to this server (MR-6). `_meta` is no part of it."""
    what: Any = None
    if context.method == "tools/call":
        call = msgspec.json.decode(context.raw, type=CallToolParams)
        arguments = b"{}" if call.arguments is UNSET else call.arguments
        what = call.name, msgspec.json.decode(arguments) or {}  # null counts as empty
    elif context.method == "prompts/get":
        prompt = msgspec.json.decode(context.raw, type=GetPromptParams)
        what = prompt.name, prompt.arguments or {}
    elif context.method == "resources/read":
        what = msgspec.json.decode(context.raw, type=ReadResourceParams).uri
    who = context.server_name, context.link.principal
    text = msgspec.json.encode((who, context.method, what), order="deterministic")
    return hashlib.blake2b(text, digest_size=32).digest()
