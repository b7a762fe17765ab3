"""How an event finds those who want it, and what they may hold."""

from __future__ import annotations

import pytest

from jackfield import Event, Limits
from jackfield.server.events import Listener
from jackfield.server.listeners import Subscription
from jackfield.server.watching import Index


def watching(index: Index, *uris: str, kinds: tuple[str, ...] = ()) -> Subscription:
    one = Subscription(Listener("somebody", None, "2026-07-28"), kinds, index)
    index.join(one, uris)
    return one


class TestFinding:
    @pytest.mark.parametrize(
        ("watched", "uri"),
        [
            ("a://b", "a://b"),
            ("a://b", "a://b/"),
            ("a://b", "a://b/c/d"),
            ("a://b/", "a://b/"),
            ("a://b/", "a://b/c"),
            ("a://b/", "a://b//c"),
            ("a:/", "a://b"),
            ("a://", "a://b"),
            ("a://b?c=/", "a://b?c=/d"),
        ],
    )
    def test_what_lies_below(self, watched: str, uri: str) -> None:
        """A watched URI is met by itself and by what follows it after a slash (RSC-6)."""
        index = Index(Limits())
        one = watching(index, watched)
        other = watching(index, "x://other")
        assert index.above(uri) == [watched]
        assert list(index.of(Event("resource", uri))) == [one]
        assert one.wants(Event("resource", uri))
        assert not other.wants(Event("resource", uri))

    @pytest.mark.parametrize(
        ("watched", "uri"), [("a://b", "a://bc"), ("a://b/", "a://b"), ("a://b/c", "a://b"), ("a://b", "a://b?c/d")]
    )
    def test_what_does_not_lie_below(self, watched: str, uri: str) -> None:
        """What only begins alike, or lies above, is another resource (RSC-6)."""
        index = Index(Limits())
        one = watching(index, watched)
        assert not index.of(Event("resource", uri))
        assert not one.wants(Event("resource", uri))

    def test_each_is_found_once(self) -> None:
        """Who watches several URIs that an event lies below gets it once, as does each who wants it."""
        index = Index(Limits())
        one, other = watching(index, "a://b", "a://b/c", "a://b/"), watching(index, "a://b/c")
        assert sorted(map(id, index.of(Event("resource", "a://b/c")))) == sorted(map(id, (one, other)))

    def test_kinds(self) -> None:
        """Lists are found by their kind."""
        index = Index(Limits())
        one = watching(index, kinds=("tools", "prompts"))
        assert list(index.of(Event("tools"))) == [one]
        assert not index.of(Event("resources"))

    def test_only_lengths_that_are_watched_are_looked_up(self) -> None:
        """A URI of very many segments costs no more than its length: prefixes that nobody can watch are not made."""

        class Counting(str):
            made = 0

            def __getitem__(self, key: object) -> str:
                Counting.made += 1
                return super().__getitem__(key)  # type: ignore[index]

        index = Index(Limits())
        watching(index, "a://b", "a://other")
        assert index.above(Counting("a://b/" + "/" * 2**16)) == ["a://b"]
        assert Counting.made < 10


class TestAccounts:
    def test_who_leaves_leaves_nothing(self) -> None:
        """What was watched and counted is gone with its listeners, in whatever order they go."""
        index = Index(Limits())
        one, other = watching(index, "a:b", "a:c", kinds=("tools",)), watching(index, "a:c")
        index.watch(one, ["a:d", "a:b"])
        index.unwatch(one, "a:c")
        index.unwatch(one, "a:c")
        assert (index._accounts["somebody"].uris, index._accounts["somebody"].size) == (3, 9)
        index.leave(one)
        index.leave(one)
        assert index.above("a:b") == []
        index.leave(other)
        assert not index
        assert (index._watchers, index._lengths, index._accounts) == ({}, {}, {})

    def test_who_has_left_cannot_watch(self) -> None:
        """A listener that ended while it asked for more watches nothing."""
        index = Index(Limits())
        one = watching(index, "a:b")
        index.clear()
        index.watch(one, ["a:c"])
        assert not one.uris
        assert not index._accounts
