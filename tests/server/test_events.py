"""Events on their way: the bus between replicas, and who may hear what."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from jackfield import Event, Limits, LocalBus, RegistrationError
from jackfield.server import subscriptions
from tests.server.ears import LISTS, about, hearing, listed, shop
from tests.server.talk import LEGACY, MODERN, text_of


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was told something can be told more at once."""
    monkeypatch.setattr(subscriptions, "_PAUSE", 0)


def noop() -> str:
    return ""


class TestAccess:
    async def test_access_is_checked_for_each_event_and_listener(self) -> None:
        """`may_hear` is asked about each event of each listener, who is named; a no leaves it untold (T06)."""
        asked: list[Any] = []

        def may_hear(event: Any, listener: Any) -> bool:
            asked.append((event.kind, event.uri, listener.principal, listener.client.name, listener.revision))
            return event.uri != "shop://stock/secret"

        server = shop(may_hear=may_hear)
        async with hearing(server) as ear, hearing(server, LEGACY[0]) as old:
            id, _ = await ear.listen(resourceSubscriptions=["shop://stock"])
            await old.ask("resources/subscribe", {"uri": "shop://stock/secret"})
            server.notify_resource_updated("shop://stock/secret")
            server.notify_resource_updated("shop://stock/open")
            server.notify_tools_changed()
            assert await ear.told() == about("shop://stock/open", id)
            assert await old.told() == listed("tools")
        assert sorted(asked, key=str) == [
            ("resource", "shop://stock/open", "local", "test", MODERN),
            ("resource", "shop://stock/secret", "local", "test", LEGACY[0]),
            ("resource", "shop://stock/secret", "local", "test", MODERN),
            ("tools", None, "local", "test", LEGACY[0]),
        ]

    async def test_a_check_may_take_its_time(self) -> None:
        """A coroutine function is awaited, and its answer counts."""

        async def may_hear(event: Any, listener: Any) -> bool:
            await asyncio.sleep(0)
            return event.kind == "prompts"

        server = shop(may_hear=may_hear)
        async with hearing(server) as ear:
            id, _ = await ear.listen(**LISTS)
            server.notify_tools_changed()
            server.notify_prompts_changed()
            assert await ear.told() == listed("prompts", id)

    async def test_a_check_that_fails_is_a_no(self, caplog: pytest.LogCaptureFixture) -> None:
        """What `may_hear` raises counts as a no, and is logged once."""

        def may_hear(event: Any, listener: Any) -> bool:
            if event.kind == "tools":
                raise RuntimeError("no database")
            return True

        server = shop(may_hear=may_hear)
        async with hearing(server) as ear, hearing(server, LEGACY[0]) as old:
            id, _ = await ear.listen(**LISTS)
            for _ in range(3):
                server.notify_tools_changed()
                server.notify_prompts_changed()
                assert await ear.told() == listed("prompts", id)
                assert await old.told() == listed("prompts")
        assert "no database" in caplog.text
        assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1

    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    @pytest.mark.parametrize("fault", [SystemExit, asyncio.CancelledError])
    async def test_a_check_ends_nothing(
        self, revision: str, fault: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        """SystemExit, and a cancellation that is not ours, count as a no; server and stream go on (L1)."""

        async def may_hear(event: Any, listener: Any) -> bool:
            if event.kind == "tools":
                raise fault
            return True

        server = shop(may_hear=may_hear)
        async with hearing(server, revision) as ear:
            id = (await ear.listen(**LISTS))[0] if revision == MODERN else None
            server.notify_tools_changed()
            server.notify_prompts_changed()
            assert await ear.told() == listed("prompts", id)
        assert caplog.text.count("may_hear failed") == 1

    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    async def test_what_must_not_be_heard_counts_for_nothing(self, revision: str) -> None:
        """Where many events wait, only those that may be heard count as a change of what lies above them (L3)."""
        server = shop(limits=Limits(watched=5), may_hear=lambda event, listener: "secret" not in (event.uri or ""))
        async with hearing(server, revision) as ear:
            id = None
            if revision == MODERN:
                id, _ = await ear.listen(resourceSubscriptions=["shop://stock"], toolsListChanged=True)
            else:
                await ear.ask("resources/subscribe", {"uri": "shop://stock"})
            for number in range(20):
                server.notify_resource_updated(f"shop://stock/secret/{number}")
            server.notify_tools_changed()
            assert await ear.told() == listed("tools", id)
            server.notify_resource_updated("shop://stock/open")
            assert await ear.told() == about("shop://stock/open", id)

    async def test_what_may_be_heard_is_taken_together(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However slowly the peer reads, its events are asked about, so that what it may hear counts for what it
        watches.
        """
        monkeypatch.setattr(subscriptions, "_PAUSE", 60)
        asked: asyncio.Queue[Any] = asyncio.Queue()
        server = shop(limits=Limits(watched=2), may_hear=lambda event, listener: asked.put_nowait(event) is None)
        async with hearing(server, LEGACY[0]) as ear:
            await ear.ask("resources/subscribe", {"uri": "shop://stock"})
            server.notify_tools_changed()
            assert await ear.told() == listed("tools")
            for number in range(5):
                server.notify_resource_updated(f"shop://stock/{number}")
                while (await asked.get()).uri != f"shop://stock/{number}":
                    pass
            await ear.settled()
            (session,) = server._engine.hub._sessions.values()
            assert [event.uri for event in session._untold] == ["shop://stock/0", "shop://stock/1", "shop://stock"]

    async def test_a_slow_check_is_not_waited_for_endlessly(self, caplog: pytest.LogCaptureFixture) -> None:
        """Changes below a watched resource that come faster than they are judged are dropped, and that is logged; all
        else waits.
        """
        go = asyncio.Event()

        async def may_hear(event: Any, listener: Any) -> bool:
            return await go.wait()

        server = shop(limits=Limits(watched=2), may_hear=may_hear)
        async with hearing(server) as ear:
            id, _ = await ear.listen(resourceSubscriptions=["shop://stock"], toolsListChanged=True)
            for number in range(5):
                server.notify_resource_updated(f"shop://stock/{number}")
            server.notify_resource_updated("shop://stock")
            server.notify_tools_changed()
            await ear.settled()
            go.set()
            assert [await ear.told() for _ in range(4)] == [
                about("shop://stock/0", id),
                about("shop://stock/1", id),
                about("shop://stock", id),
                listed("tools", id),
            ]
        assert caplog.text.count("more waits for may_hear than limit `watched`") == 1

    async def test_a_check_ends_with_its_stream(self) -> None:
        """Nobody goes on asking for a subscription that is cancelled."""
        ended = asyncio.Event()

        async def may_hear(event: Any, listener: Any) -> bool:
            try:
                return await asyncio.Event().wait()
            finally:
                ended.set()

        server = shop(may_hear=may_hear)
        async with hearing(server) as ear:
            id, _ = await ear.listen(**LISTS)
            server.notify_tools_changed()
            await ear.settled()
            ear.cancel(id)
            await asyncio.wait_for(ended.wait(), 10)

    def test_a_check_must_be_callable(self) -> None:
        """What cannot be called is refused when the server is made."""
        with pytest.raises(RegistrationError, match="may_hear=True cannot be called"):
            shop(may_hear=True)  # type: ignore[arg-type]


class Far:
    """A bus whose events arrive on a thread of its own, as from another machine."""

    def __init__(self) -> None:
        self.published: list[Any] = []
        self.hearing: list[Any] = []
        self.ended = 0

    def publish(self, event: Any) -> None:
        self.published.append(event)
        for hear in self.hearing:
            threading.Thread(target=hear, args=(event,)).start()

    def subscribe(self, hear: Any) -> Any:
        self.hearing.append(hear)

        def end() -> None:
            self.hearing.remove(hear)
            self.ended += 1

        return end


class TestBus:
    async def test_servers_that_share_a_bus_hear_each_other(self) -> None:
        """What one replica tells reaches the listeners of the other, from whatever thread the bus calls."""
        bus = Far()
        one, other = shop(bus=bus), shop(bus=bus)
        async with hearing(one) as near, hearing(other) as far, hearing(other, LEGACY[0]) as old:
            first, _ = await near.listen(toolsListChanged=True)
            second, _ = await far.listen(toolsListChanged=True)
            one.notify_tools_changed()
            assert await near.told() == listed("tools", first)
            assert await far.told() == listed("tools", second)
            assert await old.told() == listed("tools")
            assert len(bus.hearing) == 2
        assert bus.ended == 2
        assert not bus.hearing

    async def test_putting_a_server_together_tells_nothing(self) -> None:
        """Registering is told only while the server lives; what its author tells always goes to the bus."""
        bus = Far()
        server = shop(bus=bus)
        assert bus.published == []
        server.notify_tools_changed()
        async with hearing(server):
            server.add_prompt(noop)
        server.remove_prompt("noop")
        assert [event.kind for event in bus.published] == ["tools", "prompts"]

    @pytest.mark.parametrize("fault", [ConnectionError, SystemExit])
    async def test_a_bus_that_fails_fails_no_tool(
        self, fault: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        """What `publish` raises, SystemExit too, and what ending a subscription raises, is logged; the call goes on."""

        class Broken(Far):
            def publish(self, event: Any) -> None:
                raise fault("the broker is gone")

            def subscribe(self, hear: Any) -> Any:
                return "no function"

        server = shop(bus=Broken())
        async with hearing(server) as ear:
            assert text_of(await ear.call("buy")) == "bought"
            server.add_tool(noop)
        assert "the broker is gone" in caplog.text
        assert "could not end" in caplog.text

    async def test_a_bus_that_cannot_be_subscribed_to(self) -> None:
        """A server that would be deaf does not start, and says why; the next conversation tries again."""

        class Late(Far):
            ready = False

            def subscribe(self, hear: Any) -> Any:
                if not self.ready:
                    raise ConnectionError("no broker yet")
                return super().subscribe(hear)

        bus = Late()
        server = shop(bus=bus)
        with pytest.raises(ConnectionError, match="no broker yet"):
            async with hearing(server):
                pass
        bus.ready = True
        async with hearing(server) as ear:
            id, _ = await ear.listen(**LISTS)
            server.notify_tools_changed()
            assert await ear.told() == listed("tools", id)

    @pytest.mark.parametrize(
        "event",
        [
            "tools",
            None,
            Event("roots"),  # type: ignore[arg-type]
            Event([]),  # type: ignore[arg-type]
            Event("tools", "shop://stock"),
            Event("resource"),
            Event("resource", 5),  # type: ignore[arg-type]
            Event("resource", "shop://stock/\ud800"),
            Event("resource", "shop://stock/" + "x" * 2**17),
        ],
    )
    async def test_strange_events_of_a_bus_reach_nobody(self, event: Any, caplog: pytest.LogCaptureFixture) -> None:
        """What is no event is logged once, told to nobody, and never raised into the bus (L2)."""
        bus = Far()
        server = shop(bus=bus)
        async with hearing(server) as ear, hearing(server, LEGACY[0]) as old:
            id, _ = await ear.listen(**LISTS, resourceSubscriptions=["shop://stock"])
            await old.ask("resources/subscribe", {"uri": "shop://stock"})
            (hear,) = bus.hearing
            for _ in range(2):
                hear(event)
            hear(Event("tools"))
            assert await ear.told() == listed("tools", id)
            assert await old.told() == listed("tools")
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "what is no event" in record.getMessage()
        assert len(record.getMessage()) < 500

    def test_what_is_no_bus(self) -> None:
        """An object without the two methods, or with coroutine functions in their place, is refused at once."""

        class Deaf:
            def publish(self, event: Any) -> None: ...

        class Waiting(Far):
            async def publish(self, event: Any) -> None: ...  # type: ignore[override]

        for bus, text in (
            (Deaf(), "has no method 'subscribe'"),
            (Waiting(), "'publish' of .* is a coroutine function"),
        ):
            with pytest.raises(RegistrationError, match=text):
                shop(bus=bus)  # type: ignore[arg-type]

    async def test_a_hearer_that_fails_does_not_stop_the_others(self, caplog: pytest.LogCaptureFixture) -> None:
        """The usual bus passes an event on to all, and is left by those who end their subscription."""
        bus = LocalBus()
        heard: list[Any] = []

        def fail(event: Any) -> None:
            raise SystemExit("deaf")

        bus.subscribe(fail)
        end = bus.subscribe(heard.append)
        bus.publish(Event("tools"))
        end()
        end()
        bus.publish(Event("prompts"))
        assert heard == [Event("tools")]
        assert "deaf" in caplog.text
        assert {record.levelno for record in caplog.records} == {logging.ERROR}
