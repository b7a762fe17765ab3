"""Tests of a server as its author would write them: fixtures, failures, and one server for all tests and loops."""

import asyncio
import contextlib
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from jackfield import Client, Context, PeerError, Server, ToolError

opened: list[str] = []


@contextlib.asynccontextmanager
async def shop(server: Server) -> AsyncIterator[dict[str, float]]:
    opened.append("open")
    yield {"tea": 4.5, "cup": 9.0}
    opened.append("closed")


server = Server("shop", lifespan=shop)


@server.tool(read_only=True)
def price(article: str, ctx: Context) -> float:
    """What an article costs."""
    if article not in ctx.state:
        raise ToolError(f"There is no {article}; ask for one of {', '.join(ctx.state)}")
    return ctx.state[article]


@server.tool
async def broken() -> str:
    """Fail."""
    raise RuntimeError("the till is on fire")


@server.resource("shop://{article}")
def article(article: str) -> str | None:
    """What there is to know of an article."""
    return "It is hot." if article == "tea" else None


@pytest_asyncio.fixture(params=["modern", "legacy"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with Client(server, mode=request.param) as client:
        yield client


async def test_a_price(client: Client) -> None:
    """A call through a fixture gives text and structure, in both eras."""
    result = await client.call_tool("price", {"article": "tea"})
    assert result.structured_content == {"result": 4.5}
    assert result.text == "4.5"
    assert not result.is_error


async def test_a_tool_error_is_a_result(client: Client) -> None:
    """What the model shall read is in the result; nothing is raised."""
    result = await client.call_tool("price", {"article": "sugar"})
    assert result.is_error
    assert result.text == "There is no sugar; ask for one of tea, cup"


async def test_a_failure_is_seen_in_the_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    """The cause of a failing tool is not told to the client but stands in the captured log, with its traceback."""
    result = await client.call_tool("broken")
    assert result.is_error
    assert "fire" not in result.text
    assert "the till is on fire" in caplog.text


async def test_what_is_not_there_is_raised(client: Client) -> None:
    """A missing resource is an exception at the client."""
    assert (await client.read_resource("shop://tea")).contents[0].text == "It is hot."
    with pytest.raises(PeerError, match="shop://coffee"):
        await client.read_resource("shop://coffee")


def test_without_a_plugin() -> None:
    """`asyncio.run` does as well, on a loop of its own."""

    async def main() -> list[str]:
        async with Client(server) as client:
            return [tool.name for tool in await client.list_tools()]

    assert asyncio.run(main()) == ["price", "broken"]


@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_every_test_has_a_life_of_its_own(mode: str) -> None:
    """A client that is closed has closed what the lifespan opened, before the next test begins."""
    opened.clear()
    async with Client(server, mode=mode) as client:
        await client.ping()
        assert opened == ["open"]
    assert opened == ["open", "closed"]


def test_a_plain_pytest_run(tmp_path: Path) -> None:
    """A file outside of this project, with warnings as errors and no configuration, passes (the README's way)."""
    (tmp_path / "test_adder.py").write_text(
        textwrap.dedent(
            """
            import pytest
            from jackfield import Client, Server

            server = Server("adder")

            @server.tool
            def add(a: int, b: int) -> int:
                return a + b

            @pytest.mark.asyncio
            @pytest.mark.parametrize("mode", ["modern", "legacy"])
            async def test_add(mode):
                async with Client(server, mode=mode) as client:
                    assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}

            @pytest.mark.asyncio
            async def test_it_is_not_closed():
                client = Client(server)
                await client.connect()
                assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
            """
        ),
        "utf-8",
    )
    scope = ["-o", "asyncio_default_fixture_loop_scope=function"]  # some versions of the plugin warn without it
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", *scope, "test_adder.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
