"""A model of one conversation, walked at random: no answer is lost or given twice, all places come back (R14, R15)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jackfield.protocol.errors import CallError, ConnectionClosed, PeerError
from jackfield.protocol.jsonrpc import Answer, Id, Request, encode
from jackfield.protocol.limits import Limits
from jackfield.transport.connection import Connection
from tests.transport.fakes import FakeChannel, answer, cancel, error, request, settle

IDS = st.sampled_from([1, 2, 3, 4, 5, 6, "1", "2"])
RUNNING, QUEUED = 3, 2


class Handler:
    """One call of `serve`, in the hands of the test."""

    def __init__(self, request: Request) -> None:
        self.id = request.id
        self.stubborn = "stubborn" in bytes(request.params).decode()
        self.outcome: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.over = False


class Conversation(RuleBasedStateMachine):
    """Requests, cancels, answers, both sides' and in any order, a peer that stops reading, and the end."""

    def __init__(self) -> None:
        super().__init__()
        logging.disable(logging.CRITICAL)
        self.loop = asyncio.new_event_loop()
        self.run(self.begin())
        self.handlers: list[Handler] = []
        self.expected: Counter[Id] = Counter()
        """How many answers each id must have had in the end."""
        self.ending: set[Id] = set()
        """Ids that were cancelled and whose handlers may go on."""
        self.asked: dict[int, asyncio.Task[Any]] = {}
        self.late = 0

    async def begin(self) -> None:
        self.channel = FakeChannel()
        limits = Limits(running=RUNNING, queued=QUEUED)
        self.connection = Connection(self.channel, serve=self.serve, limits=limits)

    def run(self, main: Any) -> Any:
        return self.loop.run_until_complete(main)

    def under_way(self, id: Id) -> bool:
        """Whether the peer still waits for an answer to its request `id`."""
        return len(self.channel.answers(id)) < self.expected[id]

    async def serve(self, request: Request, connection: Connection) -> bytes:
        handler = Handler(request)
        self.handlers.append(handler)
        try:
            while True:
                try:
                    return await asyncio.shield(handler.outcome)
                except asyncio.CancelledError:
                    if not handler.stubborn:
                        raise
        finally:
            handler.over = True

    def open(self) -> list[Handler]:
        return [handler for handler in self.handlers if not handler.over and not handler.outcome.done()]

    # ---- what the peer does

    @rule(id=IDS, stubborn=st.booleans())
    def ask(self, id: Id, stubborn: bool) -> None:
        was_under_way, before = self.under_way(id), len(self.channel.sent)
        self.connection.receive(request(id, mode="stubborn" if stubborn else "meek"))
        self.expected[id] += 1
        codes = [message["error"]["code"] for message in self.channel.sent[before:]]
        if codes == [-32603]:
            assert len(self.connection._queue) == QUEUED
        elif codes == [-32600]:
            assert was_under_way or id in self.ending
        else:
            assert codes == []
            assert not was_under_way

    @rule(id=IDS)
    def cancel(self, id: Id) -> None:
        was_under_way, before = self.under_way(id), len(self.channel.sent)
        self.connection.receive(cancel(id))
        assert len(self.channel.sent) == before
        if was_under_way:
            self.expected[id] -= 1
            self.ending.add(id)

    @rule()
    def settle(self) -> None:
        self.run(settle())
        self.ending &= {handler.id for handler in self.handlers if not handler.over}

    @rule()
    def read_nothing(self) -> None:
        self.channel.fill()

    @rule()
    def read_on(self) -> None:
        self.channel.empty()

    # ---- what the handlers do

    @precondition(lambda self: self.open())
    @rule(data=st.data(), how=st.sampled_from(["return", "return", "raise", "cancel"]))
    def finish(self, data: st.DataObject, how: str) -> None:
        handler = data.draw(st.sampled_from(self.open()))
        if how == "return":
            handler.outcome.set_result(encode(Answer(handler.id, "done")))
        elif how == "raise":
            handler.outcome.set_exception(RuntimeError("burst"))
        else:
            handler.stubborn = False
            handler.outcome.cancel()

    # ---- what this side asks

    @rule()
    def ask_peer(self) -> None:
        id = self.connection.new_id()
        self.asked[id] = self.loop.create_task(self.connection.request(id, "roots/list", {}))
        self.run(asyncio.sleep(0))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), fails=st.booleans(), times=st.integers(1, 2))
    def answer(self, data: st.DataObject, fails: bool, times: int) -> None:
        id = data.draw(st.sampled_from(sorted(self.asked)))
        for _ in range(times):
            self.connection.receive(error(id, -1) if fails else answer(id, id))
        self.late += times - 1
        task = self.asked.pop(id)
        [outcome] = self.run(self.gathered(task))
        assert isinstance(outcome, PeerError) if fails else json.loads(bytes(outcome)) == id

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(sorted(self.asked)))
        task = self.asked.pop(id)
        task.cancel()
        [outcome] = self.run(self.gathered(task))
        assert isinstance(outcome, asyncio.CancelledError)
        assert {"requestId": id} in self.channel.notices("notifications/cancelled")
        self.connection.receive(answer(id))
        self.late += 1

    async def gathered(self, *tasks: asyncio.Task[Any]) -> list[Any]:
        return await asyncio.gather(*tasks, return_exceptions=True)

    # ---- what must be so

    @invariant()
    def places_add_up(self) -> None:
        connection = self.connection
        held = len(connection._running) + len(connection._abandoned) + len(connection._answered)
        assert connection._slots == RUNNING - held
        assert 0 <= held <= RUNNING
        assert len(connection._queue) <= QUEUED
        assert not connection._queue or held == RUNNING
        assert connection._queued_bytes == sum(size for _, size in connection._queue.values())

    @invariant()
    def nothing_is_answered_twice(self) -> None:
        for id, wanted in self.expected.items():
            assert len(self.channel.answers(id)) <= wanted
        assert self.connection.late == self.late

    def teardown(self) -> None:
        try:
            self.run(self.end())
        finally:
            self.loop.close()
            logging.disable(logging.NOTSET)

    async def end(self) -> None:
        self.channel.empty()
        self.connection.input_ended(ConnectionClosed("over"))
        outcomes = await self.gathered(*self.asked.values())
        assert all(isinstance(outcome, CallError) for outcome in outcomes)
        quiet = asyncio.create_task(self.connection.quiet())
        while not quiet.done():
            for handler in self.open():
                handler.outcome.set_result(encode(Answer(handler.id, "done")))
            await settle()
        for id, wanted in self.expected.items():
            assert len(self.channel.answers(id)) == wanted, f"{id!r}: {self.channel.answers(id)}"
        assert self.connection._slots == RUNNING
        assert asyncio.all_tasks() == {asyncio.current_task()}


Conversation.TestCase.settings = settings(max_examples=80, stateful_step_count=40)


class TestConversation(Conversation.TestCase):
    """Random interleavings lose no answer, give none twice, and bring every place back (BASE-2, STDIO-4, R15)."""
