"""The tiny server: two tools, their bounds and their errors."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from jackfield import Client
from jackfield.servers.tiny import HIGHEST, LOWEST, server


@pytest.fixture(params=["legacy", "modern"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A client of the tiny server."""
    async with Client(server, mode=request.param) as connected:
        yield connected


async def test_lists_its_tools_in_the_order_of_registration(client: Client):
    """`add` comes first, and its schemas state the range of 32 bits."""
    add, word_count = await client.list_tools()
    assert (add.name, word_count.name) == ("add", "word_count")
    bounds = {"type": "integer", "minimum": LOWEST, "maximum": HIGHEST}
    assert add.input_schema["required"] == ["a", "b"]
    for name in ("a", "b"):
        assert bounds.items() <= add.input_schema["properties"][name].items()
    assert add.output_schema is not None
    assert bounds.items() <= add.output_schema["properties"]["result"].items()


@pytest.mark.parametrize(("a", "b"), [(2, 40), (HIGHEST, 0), (LOWEST, HIGHEST), (LOWEST, 0), (-1, HIGHEST)])
async def test_adds(client: Client, a: int, b: int):
    """The sum comes as text and as structured content."""
    result = await client.call_tool("add", {"a": a, "b": b})
    assert result.text == str(a + b)
    assert result.structured_content == {"result": a + b}


@pytest.mark.parametrize(("a", "b"), [(HIGHEST, 1), (LOWEST, -1)])
async def test_a_sum_beyond_the_range_is_an_error(client: Client, a: int, b: int):
    """A sum that the output schema does not allow is the tool's error, and its text says the sum."""
    result = await client.call_tool("add", {"a": a, "b": b})
    assert result.is_error
    assert str(a + b) in result.text


@pytest.mark.parametrize("a", [HIGHEST + 1, LOWEST - 1, True, "2", 2.5, None])
async def test_only_integers_of_32_bits_are_added(client: Client, a: object):
    """An argument outside of the range or of another type is the tool's error, and its text names the argument."""
    result = await client.call_tool("add", {"a": a, "b": 1})
    assert result.is_error
    assert "$.a" in result.text


@pytest.mark.parametrize(("text", "words"), [("", 0), ("one", 1), ("  two\n words ", 2)])
async def test_counts_words(client: Client, text: str, words: int):
    """Words are what white space separates."""
    assert (await client.call_tool("word_count", {"text": text})).text == str(words)


async def test_a_missing_argument_is_named(client: Client):
    """`word_count` without text is the tool's error, and its text names the argument (TOOL-7)."""
    result = await client.call_tool("word_count", {})
    assert result.is_error
    assert "text" in result.text
