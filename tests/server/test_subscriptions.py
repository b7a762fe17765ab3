"""Who hears of changes, over the wire: subscriptions of modern clients and sessions of legacy ones."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from msgspec import UNSET

from jackfield import Context, Limits, Server
from jackfield.server import subscriptions, watching
from tests.server.ears import LISTS, about, hearing, listed, shop
from tests.server.talk import LEGACY, MODERN, Refused, text_of


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was told something can be told more at once."""
    monkeypatch.setattr(subscriptions, "_PAUSE", 0)


def noop() -> str:
    return ""


class TestListen:
    @pytest.mark.parametrize("id", [7, "7", 0, "", "a b"])
    async def test_the_acknowledgement_comes_first(self, id: int | str) -> None:
        """The first message says what will be told, and carries the request's id in its own JSON type, as does each
        that follows (SUB-1, SUB-2, SUB-3, META-7).
        """
        server = shop()
        async with hearing(server) as ear:
            got, honoured = await ear.listen(id=id, **LISTS, resourceSubscriptions=["shop://stock", "shop://stock"])
            assert type(got) is type(id)
            assert honoured == LISTS | {"resourceSubscriptions": ["shop://stock"]}
            server.notify_tools_changed()
            server.notify_prompts_changed()
            server.notify_resources_changed()
            server.notify_resource_updated("shop://stock")
            assert [await ear.told() for _ in range(4)] == [
                listed("tools", id),
                listed("prompts", id),
                listed("resources", id),
                about("shop://stock", id),
            ]
            assert ear.frames[0]["method"] == "notifications/subscriptions/acknowledged"

    async def test_only_what_is_offered_is_acknowledged(self) -> None:
        """Kinds that the server does not have, and `taskIds` of an extension that it does not speak, are dropped from
        the acknowledgement and never told (SUB-2, CAP-3).
        """
        server = Server("bare")
        wanted = {"resourceSubscriptions": ["a:b"], "taskIds": ["1"], **LISTS}
        async with hearing(server) as ear:
            assert (await ear.listen(**wanted))[1] == {}
            server.add_tool(noop)
            id, honoured = await ear.listen(**wanted | {"promptsListChanged": False})
            assert honoured == {"toolsListChanged": True}
            server.notify_prompts_changed()
            server.notify_resource_updated("a:b")
            server.notify_tools_changed()
            assert await ear.told() == listed("tools", id)

    async def test_each_subscription_gets_its_own(self) -> None:
        """Several subscriptions of one client are told what each asked for, and nothing else (SUB-4)."""
        server = shop()
        async with hearing(server) as one, hearing(server) as other:
            first, _ = await one.listen(toolsListChanged=True)
            second, _ = await one.listen(toolsListChanged=True, resourceSubscriptions=["shop://stock"])
            third, _ = await other.listen(id="x", promptsListChanged=True, resourcesListChanged=False)
            server.notify_prompts_changed()
            server.notify_tools_changed()
            server.notify_resources_changed()
            server.notify_resource_updated("shop://stock")
            assert [await one.told() for _ in range(3)] == [
                listed("tools", first),
                listed("tools", second),
                about("shop://stock", second),
            ]
            assert await other.told() == listed("prompts", third)
            await one.settled()
            assert len(one.heard) == 5
            assert len(other.heard) == 2

    async def test_what_lies_below_a_watched_resource_counts(self) -> None:
        """Of a change below a watched URI the URI below is told; one that only begins alike is another (RSC-6)."""
        server = shop()
        async with hearing(server) as ear:
            id, _ = await ear.listen(resourceSubscriptions=["shop://stock", "file:///home/"])
            for uri in ("shop://stocks/1", "shop://stock-2", "shop://", "file:///home", "file:///homer/x"):
                server.notify_resource_updated(uri)
            for uri in ("shop://stock/1", "file:///home/a/b", "shop://stock"):
                server.notify_resource_updated(uri)
            assert [await ear.told() for _ in range(3)] == [
                about("shop://stock/1", id),
                about("file:///home/a/b", id),
                about("shop://stock", id),
            ]

    async def test_nothing_is_told_after_a_cancellation(self) -> None:
        """A cancelled subscription is told nothing more, its request gets no answer, and its place is free (SUB-5)."""
        server = shop(limits=Limits(listens=1))
        async with hearing(server) as ear:
            id, _ = await ear.listen(toolsListChanged=True)
            server.notify_tools_changed()
            ear.cancel(id)
            await ear.settled()
            assert len(ear.frames) == 1
            again, _ = await ear.listen(toolsListChanged=True)
            server.notify_tools_changed()
            assert await ear.told() == listed("tools", again)
            assert len(ear.frames) == 3

    async def test_subscriptions_of_one_principal_are_bounded(self) -> None:
        """One more than limit `listens` is refused with the limit's name; those that are open stay (SUB-7)."""
        server = shop(limits=Limits(listens=2))
        async with hearing(server) as ear:
            ids = [(await ear.listen(toolsListChanged=True))[0] for _ in range(2)]
            with pytest.raises(Refused, match="limit `listens`") as refused:
                await ear.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
            assert refused.value.code == -32603
            server.notify_tools_changed()
            assert [await ear.told() for _ in ids] == [listed("tools", id) for id in ids]

    @pytest.mark.parametrize("uri", ["stock", "", "shop://a b", "x:" + "y" * 2**18])
    async def test_what_is_no_uri_cannot_be_watched(self, uri: str) -> None:
        """A subscription to what is no URI is refused as invalid params (RSC-6)."""
        async with hearing(shop()) as ear:
            with pytest.raises(Refused, match="this is no URI") as refused:
                await ear.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a:b", uri]}})
            assert refused.value.code == -32602
            assert not ear.heard

    @pytest.mark.parametrize("uris", [["a:1", "a:2", "a:3"], ["a:" + "x" * 600], ["a:1"] * 3])
    async def test_watched_resources_are_bounded(self, uris: list[str]) -> None:
        """More URIs than limit `watched`, be it the same one, or as many of great length, are refused with its name."""
        async with hearing(shop(limits=Limits(watched=2))) as ear:
            with pytest.raises(Refused, match="limit `watched`") as refused:
                await ear.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
            assert refused.value.code == -32602

    @pytest.mark.parametrize("filler", [{"more": "x" * 5000}, {"taskIds": ["a"] * 2000}])
    async def test_large_requests_are_refused(self, filler: dict[str, Any]) -> None:
        """A request stays as long as its subscription, so that one with much else than URIs is refused (H1)."""
        async with hearing(shop(limits=Limits(watched=16))) as ear:
            with pytest.raises(Refused, match="limit `watched`") as refused:
                await ear.ask("subscriptions/listen", {"notifications": filler})
            assert refused.value.code == -32602

    async def test_task_ids_are_not_read(self) -> None:
        """`taskIds` belong to an extension: whatever they are, they are no fault, and nothing is told of them."""
        async with hearing(shop()) as ear:
            assert (await ear.listen(toolsListChanged=True, taskIds={"a": [1]}))[1] == {"toolsListChanged": True}

    async def test_an_open_subscription_keeps_little_of_its_request(self) -> None:
        """Once it is open, only what is watched and acknowledged is left of the params (H1)."""
        kept: list[Any] = []

        async def look(params: Any, ctx: Context, next: Any) -> Any:
            kept.append((params, ctx))
            return await next(params, ctx)

        server = shop(middleware=[look])
        async with hearing(server) as ear:
            await ear.listen(toolsListChanged=True, taskIds=["a"] * 100, resourceSubscriptions=["shop://stock"] * 100)
            params, context = kept[-1]
            assert params.notifications.resource_subscriptions == ["shop://stock"]
            assert (params.notifications.task_ids, params.meta, context.raw) == (UNSET, UNSET, b"{}")

    async def test_all_subscriptions_of_a_principal_share_a_bound(self) -> None:
        """Streams and sessions of one principal watch at most 16 times limit `watched` together; who ends one, or is
        gone, makes room (H1).
        """
        server = shop(limits=Limits(watched=2))
        async with hearing(server) as ear, hearing(server, LEGACY[0]) as old:
            ids = [(await ear.listen(resourceSubscriptions=[f"a:{each}", "a:b"]))[0] for each in range(15)]
            async with hearing(server, LEGACY[0]) as other:
                for uri in ("a:1", "a:2"):
                    await other.ask("resources/subscribe", {"uri": uri})
                for asked in (
                    ear.ask("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a:b"]}}),
                    old.ask("resources/subscribe", {"uri": "a:b"}),
                ):
                    with pytest.raises(Refused, match="16 times limit `watched`") as refused:
                        await asked
                    assert refused.value.code == -32603
                assert await other.ask("resources/subscribe", {"uri": "a:1"}) == {}
            for uri in ("a:1", "a:2"):
                assert await old.ask("resources/subscribe", {"uri": uri}) == {}
            ear.cancel(ids[0])
            await ear.settled()
            assert (await ear.listen(resourceSubscriptions=["a:1", "a:2"]))[1] == {
                "resourceSubscriptions": ["a:1", "a:2"]
            }

    async def test_all_requests_of_a_principal_share_a_bound(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The requests of all open subscriptions together have a bound too, in bytes (H1)."""
        monkeypatch.setattr(watching, "_SIZE", 10_000)
        async with hearing(shop()) as ear:
            await ear.listen(toolsListChanged=True, more="x" * 6000)
            with pytest.raises(Refused, match="10000 bytes") as refused:
                await ear.ask("subscriptions/listen", {"notifications": {"more": "x" * 6000}})
            assert refused.value.code == -32603
            assert (await ear.listen(toolsListChanged=True))[1] == {"toolsListChanged": True}

    async def test_params_that_do_not_fit_are_refused(self) -> None:
        """A filter that is missing or of other types is -32602, and no subscription (SUB-1)."""
        async with hearing(shop()) as ear:
            for params in ({}, {"notifications": []}, {"notifications": {"toolsListChanged": "yes"}}):
                with pytest.raises(Refused) as refused:
                    await ear.ask("subscriptions/listen", params)
                assert refused.value.code == -32602
            assert not ear.heard

    async def test_legacy_clients_have_no_such_method(self) -> None:
        """`subscriptions/listen` is of the modern era alone (ERA-V5)."""
        async with hearing(shop(), LEGACY[0]) as ear:
            with pytest.raises(Refused, match="Method not found"):
                await ear.ask("subscriptions/listen", {"notifications": {}})


class TestBursts:
    async def test_a_burst_is_told_once(self) -> None:
        """Equal events of one moment are told once to each listener, in both eras."""
        server = shop()
        async with hearing(server) as ear, hearing(server, LEGACY[0]) as old:
            id, _ = await ear.listen(**LISTS)
            for _ in range(1000):
                server.notify_tools_changed()
            server.notify_prompts_changed()
            assert [await ear.told(), await ear.told()] == [listed("tools", id), listed("prompts", id)]
            assert [await old.told(), await old.told()] == [listed("tools"), listed("prompts")]

    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    async def test_after_telling_there_is_a_pause(self, revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """What changes again and again just after it was told is told once more, when the pause is over."""
        monkeypatch.setattr(subscriptions, "_PAUSE", 0.4)
        server = shop()
        async with hearing(server, revision) as ear:
            id = (await ear.listen(**LISTS))[0] if revision == MODERN else None
            server.notify_tools_changed()
            assert await ear.told() == listed("tools", id)
            for _ in range(5):
                server.notify_tools_changed()
                await asyncio.sleep(0)
            server.notify_prompts_changed()
            assert [await ear.told(), await ear.told()] == [listed("tools", id), listed("prompts", id)]

    async def test_a_flood_is_kept_short(self) -> None:
        """Where more changes below a watched resource than can wait, the resource itself counts as changed; all else
        is told all the same.
        """
        server = shop(limits=Limits(watched=10))
        async with hearing(server) as ear:
            id, _ = await ear.listen(resourceSubscriptions=["shop://stock", "shop://other"], toolsListChanged=True)
            for number in range(5000):
                server.notify_resource_updated(f"shop://stock/{number}")
                assert len(server._engine.hub._fresh) < 256
            server.notify_resource_updated("shop://other")
            server.notify_tools_changed()
            told = [await ear.told()]
            while told[-1] != listed("tools", id):
                told.append(await ear.told())
            assert told[:10] == [about(f"shop://stock/{number}", id) for number in range(10)]
            assert told[10:] == [about("shop://stock", id), about("shop://other", id), listed("tools", id)]

    async def test_any_thread_may_tell(self) -> None:
        """Events of many threads at once all arrive (each at least once)."""
        server = shop()
        uris = [f"shop://stock/{number}" for number in range(400)]

        def tell(some: list[str]) -> None:
            for uri in some:
                server.notify_resource_updated(uri)
                server.notify_tools_changed()

        async with hearing(server) as ear:
            id, _ = await ear.listen(resourceSubscriptions=["shop://stock"], toolsListChanged=True)
            await asyncio.gather(*(asyncio.to_thread(tell, uris[start::4]) for start in range(4)))
            waiting = {about(uri)[1]["uri"] for uri in uris} | {None}
            while waiting:
                waiting.discard((await ear.told())[1].get("uri"))
            assert all(message["params"]["_meta"].popitem()[1] == id for message in ear.heard)


class TestTelling:
    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    async def test_handlers_tell_through_their_context(self, revision: str) -> None:
        """`ctx.notify_*` works in `async def` and, from its thread, in `def` handlers."""
        server = shop()

        @server.tool
        def shuffle(ctx: Context) -> str:
            ctx.notify_tools_changed()
            ctx.notify_prompts_changed()
            ctx.notify_resources_changed()
            return "shuffled"

        async with hearing(server, revision) as ear:
            id = None
            if revision == MODERN:
                id, _ = await ear.listen(**LISTS, resourceSubscriptions=["shop://stock"])
            else:
                await ear.ask("resources/subscribe", {"uri": "shop://stock"})
            assert text_of(await ear.call("buy")) == "bought"
            assert await ear.told() == about("shop://stock/apples", id)
            assert text_of(await ear.call("shuffle")) == "shuffled"
            assert {(await ear.told())[0] for _ in range(3)} == {
                f"{kind}/list_changed" for kind in ("tools", "prompts", "resources")
            }

    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    async def test_registering_tells_by_itself(self, revision: str) -> None:
        """Once the server is live, what is added or taken out is told, and the list has it (TOOL-11, F80)."""
        server = shop()
        async with hearing(server, revision) as ear:
            id = (await ear.listen(**LISTS))[0] if revision == MODERN else None
            for change, kind in (
                (lambda: server.add_tool(noop), "tools"),
                (lambda: server.remove_tool("noop"), "tools"),
                (lambda: server.add_prompt(noop), "prompts"),
                (lambda: server.remove_prompt("noop"), "prompts"),
                (lambda: server.add_resource("a:b", noop), "resources"),
                (lambda: server.remove_resource("a:b"), "resources"),
                (lambda: server.add_resource("a:{b}", lambda b: b, name="a"), "resources"),
                (lambda: server.remove_resource("a:{b}"), "resources"),
            ):
                change()
                assert await ear.told() == listed(kind, id)
            server.add_tool(noop)
            assert await ear.told() == listed("tools", id)
            assert [tool["name"] for tool in (await ear.ask("tools/list"))["tools"]] == ["buy", "noop"]

    @pytest.mark.parametrize("uri", ["stock", "", "shop://a b", "shop://\ud800", "x:" + "y" * 2**18])
    async def test_what_is_no_uri_cannot_have_changed(self, uri: str) -> None:
        """`notify_resource_updated` of what is no URI is a ValueError, for its author to see."""
        with pytest.raises(ValueError, match="is no URI"):
            shop().notify_resource_updated(uri)

    async def test_nobody_need_listen(self) -> None:
        """Telling is fine before, between and after conversations, when nobody hears it."""
        server = shop()
        server.notify_tools_changed()
        async with hearing(server) as ear:
            server.notify_tools_changed()
            id, _ = await ear.listen(**LISTS)
        server.notify_tools_changed()
        async with hearing(server) as ear:
            await ear.listen(**LISTS, id=id)
            await ear.settled()
            assert len(ear.heard) == 1

    async def test_the_kinds_are_declared(self) -> None:
        """Where a kind is offered its changes are told, and both eras are told so (CAP-2, RSC-1)."""
        wanted = {
            "logging": {},
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
        }
        async with hearing(shop()) as ear:
            assert (await ear.ask("server/discover"))["capabilities"] == wanted
        async with hearing(Server("bare")) as ear:
            assert (await ear.ask("server/discover"))["capabilities"] == {"logging": {}}
        async with hearing(shop(), LEGACY[-1]) as ear:
            assert ear.frames[0]["result"]["capabilities"] == wanted


class TestSessions:
    @pytest.mark.parametrize("revision", LEGACY)
    async def test_a_session_watches_resources(self, revision: str) -> None:
        """A session is told of the resources that it watches, and of what lies below them, until it stops (RSC-6)."""
        server = shop()
        async with hearing(server, revision) as ear:
            for uri in ("shop://stock", "shop://else"):
                assert await ear.ask("resources/subscribe", {"uri": uri}) == {}
            for uri in ("shop://new", "shop://stock", "shop://stock/1", "shop://else"):
                server.notify_resource_updated(uri)
            told = [await ear.told() for _ in range(3)]
            assert told == [about(uri) for uri in ("shop://stock", "shop://stock/1", "shop://else")]
            assert await ear.ask("resources/unsubscribe", {"uri": "shop://stock"}) == {}
            for uri in ("shop://stock", "shop://stock/1", "shop://else"):
                server.notify_resource_updated(uri)
            assert await ear.told() == about("shop://else")

    async def test_nothing_is_told_after_unsubscribing(self) -> None:
        """What was not told yet when a session stopped watching a resource is not told any more (RSC-6)."""
        server = shop()
        async with hearing(server, LEGACY[0]) as ear:
            await ear.ask("resources/subscribe", {"uri": "shop://stock"})
            server.notify_resource_updated("shop://stock")
            server.notify_tools_changed()
            ear.send("resources/unsubscribe", {"uri": "shop://stock"})
            assert await ear.told() in (listed("tools"), about("shop://stock"))
            await ear.settled()
            answered = next(place for place, message in enumerate(ear.frames) if message.get("id") == 3)
            late = [each.get("method") for each in ear.frames[answered:]]
            assert "notifications/resources/updated" not in late
            assert "notifications/tools/list_changed" in [each["method"] for each in ear.heard]

    async def test_initializing_again_keeps_what_is_watched(self) -> None:
        """A second `initialize` renews who the client is; the session goes on, with its subscriptions (L10)."""
        asked: list[Any] = []
        server = shop(may_hear=lambda event, listener: asked.append(listener) is None)
        async with hearing(server, LEGACY[0]) as ear:
            await ear.ask("resources/subscribe", {"uri": "shop://stock"})
            again = {"protocolVersion": LEGACY[1], "capabilities": {}, "clientInfo": {"name": "new", "version": "2"}}
            await ear.ask("initialize", again)
            server.notify_resource_updated("shop://stock")
            assert await ear.told() == about("shop://stock")
            assert [(each.client.name, each.revision) for each in asked] == [("new", LEGACY[1])]

    async def test_unsubscribing_from_what_was_not_watched(self) -> None:
        """It is no error to stop watching what was not watched."""
        async with hearing(shop(), LEGACY[0]) as ear:
            assert await ear.ask("resources/unsubscribe", {"uri": "shop://stock"}) == {}

    async def test_a_resource_need_not_exist_to_be_watched(self) -> None:
        """A resource can be watched before there is one: its coming is a change too."""
        server = shop()
        async with hearing(server, LEGACY[0]) as ear:
            assert await ear.ask("resources/subscribe", {"uri": "shop://later"}) == {}
            server.notify_resource_updated("shop://later")
            assert await ear.told() == about("shop://later")

    async def test_a_session_cannot_watch_everything(self) -> None:
        """No URI and one too many are refused, with the limit's name; what was watched still is (RSC-6)."""
        server = shop(limits=Limits(watched=2))
        async with hearing(server, LEGACY[0]) as ear:
            with pytest.raises(Refused, match="no URI: stock") as refused:
                await ear.ask("resources/subscribe", {"uri": "stock"})
            assert refused.value.code == -32602
            for uri in ("a:1", "a:2", "a:2"):
                await ear.ask("resources/subscribe", {"uri": uri})
            with pytest.raises(Refused, match="limit `watched`") as refused:
                await ear.ask("resources/subscribe", {"uri": "a:3"})
            assert refused.value.code == -32602
            server.notify_resource_updated("a:3")
            server.notify_resource_updated("a:1")
            assert await ear.told() == about("a:1")

    async def test_without_resources_nothing_can_be_watched(self) -> None:
        """A server without resources has no such methods (CAP-3)."""
        server = Server("bare")
        server.add_tool(noop)
        async with hearing(server, LEGACY[0]) as ear:
            for method in ("resources/subscribe", "resources/unsubscribe"):
                with pytest.raises(Refused, match="Method not found"):
                    await ear.ask(method, {"uri": "a:b"})

    async def test_a_session_is_told_of_what_was_declared(self) -> None:
        """Only initialized sessions are told of lists, and only of the kinds they were told of (LIFE-3, CAP-3)."""
        server = Server("bare")
        server.add_tool(noop)
        async with hearing(server, LEGACY[0], ready=False) as ear:
            server.notify_tools_changed()
            await ear.settled()
            assert not ear.heard
            ear.notify("notifications/initialized", {})
            server.add_prompt(noop)
            server.add_resource("a:b", noop)
            server.notify_tools_changed()
            assert await ear.told() == listed("tools")

    async def test_a_modern_client_is_told_nothing_unasked(self) -> None:
        """Without a subscription nothing of this reaches a modern client (SUB-4)."""
        server = shop()
        async with hearing(server) as ear, hearing(server, LEGACY[0]) as old:
            ear.notify("notifications/initialized", {})
            server.notify_tools_changed()
            assert await old.told() == listed("tools")
            await ear.settled()
            assert not ear.heard

    async def test_a_session_that_ended_is_told_nothing_and_forgotten(self) -> None:
        """Sessions come and go without being kept, whatever they watched, and none is told anything then."""
        asked: list[str] = []
        server = shop(may_hear=lambda event, listener: asked.append(event.kind) is None)
        async with hearing(server, LEGACY[0]) as stays:
            for _ in range(5):
                async with hearing(server, LEGACY[0]) as ear:
                    await ear.ask("resources/subscribe", {"uri": "shop://stock"})
                    server.notify_resource_updated("shop://stock")
                    assert await ear.told() == about("shop://stock")
            server.notify_tools_changed()
            assert await stays.told() == listed("tools")
            await stays.settled()
            assert asked == ["resource"] * 5 + ["tools"]
            gc.collect()
            assert len(server._engine.hub._sessions) == 1
            assert await stays.ask("resources/subscribe", {"uri": "shop://else"}) == {}
            assert list(server._engine.hub._index._watchers) == ["shop://else"]
