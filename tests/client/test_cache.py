"""Tests of the client's fresh answers."""

import msgspec
import pytest

from jackfield.client.cache import READ, Cache
from jackfield.protocol.types import ListToolsResult, ReadResourceResult, keep

SIZE = 1000


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> Cache:
    return Cache(clock, SIZE)


def listed(ttl: int | None, text: bytes = b'{"tools":[]}') -> ListToolsResult:
    result = ListToolsResult([], ttl_ms=ttl)
    keep(result, msgspec.Raw(text))
    return result


def test_an_answer_is_found_until_its_time_is_over(cache: Cache, clock: Clock) -> None:
    """What may be kept for two seconds is found for less than two, and then no more (CCH-3)."""
    cache.keep("tools/list", None, listed(2000), cache.turn)
    clock.now += 1.999
    assert cache.find("tools/list", None) == b'{"tools":[]}'
    clock.now += 0.001
    assert cache.find("tools/list", None) is None


@pytest.mark.parametrize("ttl", [None, 0, -1])
def test_an_answer_that_may_not_be_kept_is_not(cache: Cache, ttl: int | None) -> None:
    """No time, none at all, or less than none: the answer is stale at once (CCH-3)."""
    cache.keep("tools/list", None, listed(ttl), cache.turn)
    assert cache.find("tools/list", None) is None


def test_pages_are_kept_apart_and_dropped_together(cache: Cache) -> None:
    """Each cursor has its own page; one that is no good any more takes them all along (CCH-6)."""
    cache.keep("tools/list", None, listed(9000, b"{1}"), cache.turn)
    cache.keep("tools/list", "2", listed(9000, b"{2}"), cache.turn)
    assert (cache.find("tools/list", None), cache.find("tools/list", "2")) == (b"{1}", b"{2}")
    cache.pages("tools/list")
    assert (cache.find("tools/list", None), cache.find("tools/list", "2")) == (None, None)


def test_a_changed_list_is_forgotten_and_others_are_not(cache: Cache) -> None:
    """The news that resources changed drops both of their lists, whatever their time, and no other (CCH-5)."""
    for method in ("tools/list", "resources/list", "resources/templates/list"):
        cache.keep(method, None, listed(9000), cache.turn)
    cache.changed("resources")
    assert cache.find("tools/list", None) is not None
    assert cache.find("resources/list", None) is None
    assert cache.find("resources/templates/list", None) is None


def test_an_updated_resource_is_forgotten_with_what_is_below_it(cache: Cache) -> None:
    """An update of one URI drops it and its parts, and no neighbour whose name begins alike (CCH-5)."""
    for uri in ("file:///a", "file:///a/b", "file:///ab"):
        result = ReadResourceResult([], ttl_ms=9000)
        keep(result, msgspec.Raw(b"{}"))
        cache.keep(READ, uri, result, cache.turn)
    cache.updated("file:///a")
    assert [cache.find(READ, uri) for uri in ("file:///a", "file:///a/b", "file:///ab")] == [None, None, b"{}"]


def test_an_answer_that_was_on_its_way_when_the_list_changed_is_not_kept(cache: Cache) -> None:
    """An answer may be of before the change that was heard of after it was asked for."""
    turn = cache.turn
    cache.changed("tools")
    cache.keep("tools/list", None, listed(9000), turn)
    assert cache.find("tools/list", None) is None


def test_the_least_used_make_room(cache: Cache) -> None:
    """The cache never grows over its size: what was not looked at for longest goes first."""
    for cursor in "123":
        cache.keep("tools/list", cursor, listed(9000, b"x" * 300), cache.turn)
    assert cache.find("tools/list", "1") is not None
    cache.keep("tools/list", "4", listed(9000, b"x" * 300), cache.turn)
    assert [cache.find("tools/list", cursor) is not None for cursor in "1234"] == [True, False, True, True]


def test_what_is_larger_than_the_cache_drops_nothing(cache: Cache) -> None:
    """An answer for which there can be no room is not kept, and costs no other its place."""
    cache.keep("tools/list", None, listed(9000), cache.turn)
    cache.keep("prompts/list", None, listed(9000, b"x" * (SIZE + 1)), cache.turn)
    assert cache.find("tools/list", None) is not None
    assert cache.find("prompts/list", None) is None
