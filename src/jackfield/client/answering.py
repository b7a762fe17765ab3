"""Answering the questions of a server: runs the handlers of the client's user and makes answers of what they give."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from ..protocol.errors import INTERNAL_ERROR, USER_REJECTED, ConnectionClosed, ProtocolError
from ..protocol.jsonrpc import Answer, Request, encode, refusal
from ..protocol.limits import Limits
from ..protocol.printable import printable
from ..protocol.revisions import Revision
from ..protocol.types import (
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    SamplingBlock,
    TextContent,
    UnknownContent,
)
from ..transport.connection import Connection
from .questions import ELICIT, ROOTS, SAMPLE, ClientQuestion, Handlers, roots_of
from .values import encode_object

log = logging.getLogger("jackfield")

_CANCEL: Final = ElicitResult(action="cancel")
_SOME_MODEL: Final = "unknown"
"""The model's name in the answer of a handler that gives no more than what the model said."""


class Answering:
    """Answers what servers ask of one client.

    Handlers run at the same time, but for plain functions that ask a person: those take turns. A plain function runs on
    a thread, for it may wait (`input()`); Python cannot stop it, so after its time is over, or the question was
    withdrawn, it goes on, unheard.
    Only what a handler says in so many words is a yes: when it fails or takes too long the answer is a cancel.
    """

    def __init__(self, handlers: Handlers, limits: Limits) -> None:
        self.handlers = handlers
        self.limits = limits
        self._lost = 0
        """Threads that nobody waits for any more, and that still wait for somebody."""
        self._charged = 0
        self._newest: tuple[Connection, int] | None = None
        """The newest call when `_charged` began to count."""
        self._turn = asyncio.Lock()
        """Of plain functions one asks a person at a time, or two would read the same terminal."""
        self._tasks: set[asyncio.Task[Raw]] = set()
        self._visits: dict[str, list[asyncio.Event]] = {}

    def close(self) -> None:
        """Withdraw the questions of calls: the client is closed."""
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    # ---- questions that come as requests

    async def serve(self, request: Request, connection: Connection, revision: Revision | None) -> bytes:
        """Answer a legacy server's request; meanwhile the time of our own calls stands still.

        What was not declared gets -32601 or -32602 (ELC-1), a question too many -32603 (limit `questions`), a sample
        that the user rejected -1 (SMP-4).
        """
        try:
            params = self.handlers.read(request.method, request.params, revision)
            if request.method != ROOTS.name:
                self._charge(connection)
            with connection.hold():
                question = ClientQuestion(server=connection.name, method=request.method, params=params)
                return encode(Answer(request.id, await self.answer(question, revision)))
        except ProtocolError as error:
            return refusal(error.code, error.message, request.id)

    def _charge(self, connection: Connection) -> None:
        """Count a question. Raises ProtocolError for more of them than `questions` for each call that is under way."""
        newest = (connection, connection.last_id)
        if self._newest != newest:
            self._newest, self._charged = newest, 0
        if self._charged >= self.limits.questions * max(connection.under_way, 1):
            text = f"this client takes {self.limits.questions} questions for each of its calls (limit `questions`)"
            raise ProtocolError(INTERNAL_ERROR, text)
        self._charged += 1
        if self._lost >= self.limits.questions:
            text = f"{self._lost} functions of this client still wait for earlier answers (limit `questions`)"
            raise ProtocolError(INTERNAL_ERROR, text)

    # ---- questions that come as the answer to a call

    async def answer_all(self, questions: Mapping[str, ClientQuestion], revision: Revision) -> dict[str, Raw]:
        """The answers to the questions of one round, which are asked at the same time (MR-3).

        Raises ProtocolError where one has no answer, which withdraws the others; ConnectionClosed when the client is
        closed.
        """
        tasks: dict[str, asyncio.Task[Raw]] = {}
        fault: BaseException | None = None
        try:
            async with asyncio.TaskGroup() as group:
                for key, question in questions.items():
                    task = tasks[key] = group.create_task(self.answer(question, revision))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        except BaseExceptionGroup as faults:
            fault = faults.exceptions[0]
        if fault is not None:
            raise fault
        if any(task.cancelled() for task in tasks.values()):
            raise ConnectionClosed("the client was closed while a question was open")
        return {key: task.result() for key, task in tasks.items()}

    @contextlib.contextmanager
    def expecting(self, ids: Iterable[str]) -> Generator[list[asyncio.Event]]:
        """Events that are set when the server says that what these visits were for is done (ELC-8)."""
        mine = [(id, asyncio.Event()) for id in ids]
        for id, event in mine:
            self._visits.setdefault(id, []).append(event)
        try:
            yield [event for _, event in mine]
        finally:
            for id, event in mine:
                self._visits[id].remove(event)
                if not self._visits[id]:
                    del self._visits[id]

    def visited(self, id: str) -> None:
        """Note that the visit with this id is done; unknown ones are ignored (ELC-8)."""
        for event in self._visits.get(id, ()):
            event.set()

    # ---- one question

    async def answer(self, question: ClientQuestion, revision: Revision | None) -> Raw:
        """The encoded answer. Raises ProtocolError where sampling or roots have none; an elicitation always has one."""
        if question.method == ELICIT.name:
            return await self._elicit(question)
        handler: Any = self.handlers.sample if question.method == SAMPLE.name else self.handlers.roots
        try:
            if question.method == SAMPLE.name:
                return _sampled(await self._run(handler, question), revision)
            places = (await self._run(handler)) if callable(handler) else handler
            return encode_object(ListRootsResult(roots=roots_of(places)), "the roots")
        except ProtocolError:
            raise
        except Exception as error:
            log.exception("%s: the handler of %s failed", question.server, question.method)
            why = str(error) if isinstance(error, TimeoutError) else "the handler failed"
            raise ProtocolError(INTERNAL_ERROR, f"{question.method} got no answer: {why}") from error

    async def _elicit(self, question: ClientQuestion) -> Raw:
        result = _CANCEL
        try:
            judge = _judge_of(question, self.limits)
            handler = self.handlers.elicit if question.url is None else self.handlers.elicit_url
            assert handler is not None
            result = _elicited(await self._run(handler, question), question, judge)
            return encode_object(result, "the answer")
        except (_Refused, TimeoutError) as error:
            log.warning("%s: a question was cancelled: %s", question.server, printable(str(error), 500))
        except Exception:
            log.exception("%s: a question was cancelled, for its handler failed", question.server)
        return encode_object(_CANCEL, "the answer")

    async def _run(self, handler: Callable[..., Any], *values: Any) -> Any:
        """What the handler gives. Raises whatever it raises, and TimeoutError after its time (limit `question`)."""
        seconds = self.limits.question
        clock = asyncio.timeout(seconds)
        try:
            async with clock:
                if handler in (self.handlers.elicit, self.handlers.elicit_url) and not _is_async(handler):
                    async with self._turn:
                        outcome = await self._on_thread(handler, *values)
                    return (await outcome) if inspect.isawaitable(outcome) else outcome
                if _is_async(handler):
                    return await handler(*values)
                outcome = await self._on_thread(handler, *values)
                return (await outcome) if inspect.isawaitable(outcome) else outcome
        except TimeoutError:
            if clock.expired():
                raise TimeoutError(f"no answer within {seconds:g} s (limit `question`)") from None
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise RuntimeError("the handler was cancelled, though the question was not") from None

    async def _on_thread(self, function: Callable[..., Any], *values: Any) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(value: Any, error: BaseException | None) -> None:
            if future.cancelled():
                self._lost -= 1
            elif error is None:
                future.set_result(value)
            elif isinstance(error, Exception) and not isinstance(error, StopIteration):
                future.set_exception(error)
            else:  # what a future cannot carry, or would end the loop
                future.set_exception(RuntimeError(f"the handler raised {type(error).__name__}"))

        def work() -> None:
            value, error = None, None
            try:
                value = context.run(function, *values)
            except BaseException as fault:
                error = fault
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
                loop.call_soon_threadsafe(deliver, value, error)

        threading.Thread(target=work, name="jackfield-question", daemon=True).start()
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._lost += 1
            raise


def _is_async(handler: Any) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


class _Refused(Exception):
    """Why a question is cancelled though no handler failed."""


Judge = Callable[[dict[str, Any]], dict[str, Any]]
"""Gives the content of a yes with its defaults filled in; raises _Refused where it does not fit."""


def _judge_of(question: ClientQuestion, limits: Limits) -> Judge | None:
    """How a yes is judged; None where it has no content. Raises _Refused for what no person must be asked."""
    from ..protocol.forms import filled, secret_field
    from ..protocol.secret_fields import message_field

    if question.url is not None:
        from ..protocol.asked import check_page

        try:
            check_page(question.url)
        except ValueError as error:
            raise _Refused(str(error)) from None
        return None
    schema = question.schema
    for each in (schema, {"properties": schema.get("$defs")}, message_field(question.message, schema)):
        if (field := secret_field(each)) is not None:
            raise _Refused(f"its form asks for a secret, in the field {field!r}; a form must not (ELC-6)")
    find = _finder(schema, limits)
    fields = schema.get("properties")

    def judge(content: dict[str, Any]) -> dict[str, Any]:
        if isinstance(fields, dict) and (alien := content.keys() - fields.keys()):
            raise _Refused(f"the form has no field {min(alien)!r}")
        whole = filled(schema, content)
        if wrong := find(whole):
            raise _Refused(f"what was filled in does not fit the form: {'; '.join(wrong)}")
        return whole

    return judge


def _finder(schema: dict[str, Any], limits: Limits) -> Callable[[dict[str, Any]], list[str]]:
    """What finds the places where content does not fit (ELC-5).

    Some servers send forms that the protocol does not allow. Those are judged as the JSON Schema that they are.
    """
    from ..protocol.forms import check_form, problems

    try:
        check_form(schema, None)
        return functools.partial(problems, schema)
    except ValueError:
        from ..protocol.schema import InvalidSchema, Schema

    try:
        compiled = Schema(schema, limits)
        compiled.compile()
    except InvalidSchema as error:
        raise _Refused(f"its form is no schema: {error}") from None
    return lambda content: [problem.path for problem in compiled.errors(content)]


def _elicited(given: Any, question: ClientQuestion, judge: Judge | None) -> ElicitResult:
    """The answer that the handler means (ELC-5). Raises _Refused for what means none."""
    meta: Any = None
    if isinstance(given, ElicitResult):
        meta = given.meta
        if given.action == "accept":
            given = True if judge is None or given.content is None else given.content
        else:
            given = False if given.action == "decline" else None
    if given is None or given is False:
        return ElicitResult(action="cancel" if given is None else "decline", meta=meta)
    if judge is None:
        if given is not True:
            raise _Refused(f"the handler gave a {type(given).__name__}, and not True, False or None")
        return ElicitResult(action="accept", meta=meta)
    if given is True:
        given = {}
    try:  # a dict, a struct, a dataclass or a model; dates and choices as the texts that they are in JSON
        content: Any = msgspec.json.decode(encode_object(given, "the answer"))
    except (TypeError, ValueError) as error:
        kind = type(given).__name__
        raise _Refused(
            f"the handler gave a {kind}, and not a dict, True, False, None or ElicitResult ({error})"
        ) from None
    return ElicitResult(action="accept", content=judge(content), meta=meta)


def _sampled(given: Any, revision: Revision | None) -> Raw:
    """The model's answer. Raises ProtocolError (-1) where it was rejected (SMP-4), TypeError for what is none."""
    if given is None:
        raise ProtocolError(USER_REJECTED, "the user rejected the sampling request")
    if isinstance(given, CreateMessageResult):
        result = msgspec.structs.replace(given, result_type=None)
    else:
        content = TextContent(given) if isinstance(given, str) else given
        result = CreateMessageResult(role="assistant", content=content, model=_SOME_MODEL, stop_reason="endTurn")
    blocks: list[Any] = result.content if isinstance(result.content, list) else [result.content]
    if not blocks or not all(isinstance(block, SamplingBlock | UnknownContent) for block in blocks):
        raise TypeError("the handler must give a CreateMessageResult, a text, a content block or a list of these")
    if isinstance(result.content, list) and len(blocks) == 1:
        result.content = blocks[0]
    elif revision is not None and not revision.sampling_tools and len(blocks) > 1:
        raise TypeError(f"an answer has one block in revision {revision.name}, not {len(blocks)}")
    return encode_object(result, "the answer")
