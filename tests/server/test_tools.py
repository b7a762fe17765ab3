"""Tools: calls, results in every form, failures, and schemas that are given."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypedDict
from uuid import UUID

import pytest

from jackfield import (
    Audio,
    Client,
    Context,
    File,
    Image,
    ProtocolError,
    ResourceLink,
    Server,
    ToolError,
    ToolResult,
)
from jackfield.protocol.types import CallToolResult, TextContent
from tests.server.talk import LEGACY, MODERN, REVISIONS, Refused, talking, text_of

STAMP = {"io.modelcontextprotocol/serverInfo": {"name": "tools", "version": "0"}}


async def result_of(fn: Callable[..., Any], revision: str = MODERN, arguments: Any = None, **options: Any) -> Any:
    """What a call of the tool `fn` gives, without the stamp of the modern wire."""
    server = Server("tools")
    server.add_tool(fn, name="t", **options)
    async with talking(server, revision) as talk:
        result = await talk.call("t", arguments)
    if revision == MODERN:
        assert result.pop("resultType") == "complete"
        assert result.pop("_meta") == STAMP
    return result


@dataclass
class Point:
    x: int
    y: int


class Person(TypedDict):
    name: str


class Color(Enum):
    RED = "red"


class TestResults:
    @pytest.mark.parametrize("kind", ["async", "def"])
    @pytest.mark.parametrize("revision", REVISIONS)
    async def test_a_typed_value_is_structured_and_text(self, kind: str, revision: str) -> None:
        """A typed value goes as structured content, where the revision has it, and its JSON as text
        (TOOL-5, TOOL-4).
        """

        async def later(a: int) -> Point:
            return Point(a, 2)

        def plain(a: int) -> Point:
            return Point(a, 2)

        result = await result_of(later if kind == "async" else plain, revision, {"a": 1})
        structured = {} if revision in ("2025-03-26", "2024-11-05") else {"structuredContent": {"x": 1, "y": 2}}
        assert result == {"content": [{"type": "text", "text": '{"x":1,"y":2}'}], **structured}

    @pytest.mark.parametrize("revision", [MODERN, "2025-11-25", "2025-06-18"])
    async def test_a_value_that_is_no_object_is_wrapped(self, revision: str) -> None:
        """A number, list or choice is wrapped in both eras, in the schema and in the result; the text is the bare
        value.
        """

        def number() -> int:
            return 3

        def numbers() -> list[int]:
            return [1, 2]

        def choice() -> Literal["a"]:
            return "a"

        for fn, value, text in ((number, 3, "3"), (numbers, [1, 2], "[1,2]"), (choice, "a", '"a"')):
            result = await result_of(fn, revision)
            assert result == {"content": [{"type": "text", "text": text}], "structuredContent": {"result": value}}

    async def test_text_is_text(self) -> None:
        """A str, annotated or not, is a text block and nothing else."""

        def said() -> str:
            return '{"not": "structured"}'

        for fn in (said, lambda: '{"not": "structured"}'):
            assert await result_of(fn) == {"content": [{"type": "text", "text": '{"not": "structured"}'}]}

    async def test_nothing_is_no_content(self) -> None:
        """None is an empty list of content."""

        def nothing() -> None:
            return None

        for fn in (nothing, lambda: None):
            assert await result_of(fn) == {"content": []}

    @pytest.mark.parametrize("revision", [MODERN, "2025-11-25", "2024-11-05"])
    async def test_a_value_without_annotation(self, revision: str) -> None:
        """Without an annotation an object is structured content, and any value is where the revision has that
        (TOOL-5).
        """
        found = [await result_of(lambda value=value: value, revision) for value in ({"a": 1}, [1], 2.5, True)]
        assert [text_of(each) for each in found] == ['{"a":1}', "[1]", "2.5", "true"]
        structured = [each.get("structuredContent", "none") for each in found]
        assert (
            structured
            == {
                MODERN: [{"a": 1}, [1], 2.5, True],
                "2025-11-25": [{"a": 1}, "none", "none", "none"],
                "2024-11-05": ["none"] * 4,
            }[revision]
        )

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            (datetime(2026, 1, 2, tzinfo=timezone.utc), "2026-01-02T00:00:00Z"),  # noqa: UP017
            (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (Decimal("1.10"), "1.10"),
            (b"\x00\xff", "AP8="),
            ({3}, [3]),
            (Point(1, 2), {"x": 1, "y": 2}),
            (2**60, 2**60),
            (10**30, 10**30),
            (Color.RED, "red"),
            (Path("a"), "a"),
            ({1: "one"}, {"1": "one"}),
        ],
    )
    async def test_python_values_have_one_json_form(self, value: Any, shown: Any) -> None:
        """Dates, UUIDs, decimals, bytes, sets, dataclasses, large integers: one form each, every digit kept (F57)."""
        assert (await result_of(lambda: value))["structuredContent"] == shown
        if type(value) is not dict:

            def typed():  # type: ignore[no-untyped-def]
                return value

            typed.__annotations__["return"] = type(value)
            result = await result_of(typed)
            assert result["structuredContent"] == (shown if type(value) is Point else {"result": shown})

    async def test_content_is_content(self) -> None:
        """Pictures, files, links, blocks and lists of them with texts between go out as they are, with no structure."""

        def many() -> list[Image | str | TextContent | ResourceLink | File]:
            return [Image(b"a"), "and", TextContent("more"), ResourceLink("x://a", "a"), File(b"b", uri="x://b")]

        kinds = ["image", "text", "text", "resource_link", "resource"]
        for fn in (many, lambda: tuple(many())):
            result = await result_of(fn)
            assert result.keys() == {"content"}
            assert [block["type"] for block in result["content"]] == kinds

    async def test_a_list_of_content_may_be_empty(self) -> None:
        """A tool that promises content and has none gives an empty list; one that promises nothing gives a value."""

        def pictures() -> list[Image]:
            return []

        assert await result_of(pictures) == {"content": []}
        assert (await result_of(lambda: [*()]))["structuredContent"] == []

    async def test_a_file_is_read_on_a_thread(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A slow disk does not freeze the server: files are read on a thread, for async tools too."""
        (tmp_path / "a.txt").write_text("from disk", "utf-8")
        names = []
        read = File.read

        def noted(self: File) -> bytes:
            names.append(threading.current_thread().name)
            return read(self)

        monkeypatch.setattr(File, "read", noted)

        async def later() -> list[str | File]:
            return ["see", File(path=tmp_path / "a.txt")]

        assert (await result_of(later))["content"][1]["resource"]["text"] == "from disk"
        assert names == ["jackfield-handler"]

    @pytest.mark.parametrize("revision", REVISIONS)
    async def test_older_revisions_get_content_that_they_know(self, revision: str) -> None:
        """Audio becomes a resource and a link a text where the revision has neither (IMPL-3)."""
        result = await result_of(lambda: [Audio(b"a"), ResourceLink("x://a", "a")], revision)
        audio = "resource" if revision == "2024-11-05" else "audio"
        link = "text" if revision in ("2025-03-26", "2024-11-05") else "resource_link"
        assert [block["type"] for block in result["content"]] == [audio, link]

    async def test_a_result_said_in_full(self) -> None:
        """ToolResult says content, structure, failure and `_meta`; the server's stamp stands beside that (RES-4)."""
        server = Server("tools")

        @server.tool
        async def full() -> ToolResult:
            return ToolResult(content=["a", Image(b"b")], structured_content={"c": 1}, is_error=True, meta={"x/y": 1})

        async with talking(server) as talk:
            result = await talk.call("full")
            assert result["_meta"] == {**STAMP, "x/y": 1}
            assert [block["type"] for block in result["content"]] == ["text", "image"]
            assert (result["structuredContent"], result["isError"]) == ({"c": 1}, True)
        async with talking(server, LEGACY[0]) as talk:
            assert (await talk.call("full"))["_meta"] == {"x/y": 1}

    async def test_structure_alone_is_text_too(self) -> None:
        """A ToolResult without content shows its structure as text; null is a structure (TOOL-5)."""
        assert await result_of(lambda: ToolResult(structured_content=None)) == {
            "content": [{"type": "text", "text": "null"}],
            "structuredContent": None,
        }
        assert await result_of(lambda: ToolResult()) == {"content": []}

    async def test_a_result_of_the_protocol_passes(self) -> None:
        """A CallToolResult, as a client got it elsewhere, goes on as it is, checked like any other."""

        def passed() -> CallToolResult:
            return CallToolResult([TextContent("a")], structured_content={"b": 1}, meta={"c/d": 2})

        server = Server("tools")
        server.add_tool(passed)
        async with talking(server, LEGACY[0]) as talk:
            wanted = {"content": [{"type": "text", "text": "a"}], "structuredContent": {"b": 1}, "_meta": {"c/d": 2}}
            assert await talk.call("passed") == wanted

    async def test_what_a_def_returns_to_be_awaited_is_awaited(self) -> None:
        """A `def` tool that returns a coroutine is as good as an async one; so is one with a Context."""

        async def later(a: int) -> int:
            return a + 1

        def plain(a: int) -> int:
            return later(a)  # type: ignore[return-value]

        def with_context(ctx: Context, a: int) -> int:
            return later(a)  # type: ignore[return-value]

        for fn in (plain, with_context):
            assert (await result_of(fn, arguments={"a": 1}))["structuredContent"] == {"result": 2}


class TestUnsendable:
    @pytest.mark.parametrize("revision", [MODERN, LEGACY[0]])
    @pytest.mark.parametrize("kind", ["typed", "untyped", "text", "content", "meta"])
    async def test_what_is_no_json_is_the_tools_failure(
        self, kind: str, revision: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Lone surrogates, NaN, endless nesting, foreign objects: `isError` with the tool's name, never silence
        (F57).
        """
        deep: list[Any] = []
        for _ in range(10_000):
            deep = [deep]

        def typed(n: int) -> dict[str, Any]:
            return {"a": ["\ud800", float("nan"), float("-inf"), deep, object()][n]}

        def untyped(n: int):  # type: ignore[no-untyped-def]
            return typed(n)

        def text(n: int) -> str:
            return f"{n}\udfff"

        def content(n: int) -> list[TextContent | Image]:
            return [TextContent("\ud800"), Image(b"a", mime_type="\ud800")]

        def meta(n: int) -> ToolResult:
            return ToolResult(content="a", meta={"a": [object(), deep, "\ud800"][n % 3]})

        server = Server("tools")
        server.add_tool({f.__name__: f for f in (typed, untyped, text, content, meta)}[kind])
        async with talking(server, revision) as talk:
            for n in range(5):
                result = await talk.call(kind, {"n": n})
                assert result["isError"], n
                assert f"Tool '{kind}'" in text_of(result)
                assert ("resultType" in result) is (revision == MODERN)
        assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 5

    @pytest.mark.parametrize("mode", ["modern", "legacy"])
    async def test_a_result_that_is_too_deep_is_the_tools_failure(self, mode: Any) -> None:
        """Our own client can read every answer: what is deeper than a frame may be is told as that (F57, T13)."""
        server = Server("tools")

        def nested(n: int):  # type: ignore[no-untyped-def]
            return json.loads("[" * n + "]" * n)

        def said(n: int) -> ToolResult:
            return ToolResult(structured_content=nested(n))

        def typed(n: int) -> dict:  # type: ignore[type-arg]
            return {"a": nested(n - 1)}

        for fn in (nested, said, typed):
            server.add_tool(fn)
        async with Client(server, mode=mode) as client:
            for name in ("nested", "said", "typed"):
                assert not (await client.call_tool(name, {"n": 62})).is_error
                result = await client.call_tool(name, {"n": 63})
                assert result.is_error
                assert result.text == f"Tool '{name}' gave a result that is nested too deeply"

    async def test_a_result_of_another_type_is_the_tools_failure(self, caplog: pytest.LogCaptureFixture) -> None:
        """None from a tool that promises an object is `isError`, without structured content (F54, S06)."""

        def lost() -> dict[str, int]:
            return None  # type: ignore[return-value]

        result = await result_of(lost)
        assert result["isError"]
        assert "structuredContent" not in result
        assert text_of(result) == "Tool 't' gave a result that does not fit its output schema"
        assert "NoneType is no object" in caplog.text

    async def test_an_error_text_that_cannot_be_sent(self) -> None:
        """A ToolError whose text is no Unicode is still answered, with the tool's name."""

        def fail() -> None:
            raise ToolError("bad \ud800")

        result = await result_of(fail)
        assert result["isError"]
        assert "Tool 't'" in text_of(result)


class TestFailures:
    @pytest.mark.parametrize("revision", [MODERN, *LEGACY])
    async def test_a_tool_error_is_for_the_model(self, revision: str, caplog: pytest.LogCaptureFixture) -> None:
        """ToolError becomes `isError` with just its text, and is nothing for the log (TOOL-7)."""

        def fail() -> int:
            raise ToolError("Try an even number.")

        caplog.set_level(logging.DEBUG, "jackfield")
        result = await result_of(fail, revision)
        assert result == {"content": [{"type": "text", "text": "Try an even number."}], "isError": True}
        assert "even number" not in caplog.text

    @pytest.mark.parametrize("kind", ["async", "def"])
    @pytest.mark.parametrize(
        "fault",
        [
            OSError("/secret"),
            SystemExit("secret"),
            BaseExceptionGroup("secret", [SystemExit("secret"), ToolError("secret")]),
            StopIteration("secret"),
            asyncio.CancelledError("secret"),
            RecursionError("secret"),
        ],
        ids=lambda fault: type(fault).__name__,
    )
    async def test_any_other_failure_tells_the_name_alone(
        self, kind: str, fault: BaseException, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Whatever else is raised is `isError` with the tool's name; the cause is in no message, at whatever level of
        logs, and the server lives (TOOL-7, LOG-4, O03).
        """
        server = Server("tools")

        async def later() -> int:
            raise fault

        def plain() -> int:
            raise fault

        server.add_tool(later if kind == "async" else plain, name="t")
        async with talking(server) as talk:
            for _ in range(2):
                result = await talk.call("t", log_level="debug")
                assert (text_of(result), result["isError"]) == ("Tool 't' failed", True)
            assert "secret" not in json.dumps(talk.frames)
        assert sum("tool t" in record.message for record in caplog.records) == 2
        if not isinstance(fault, asyncio.CancelledError):
            assert "Traceback" in caplog.text

    async def test_several_tool_errors_are_told_together(self) -> None:
        """A group that holds nothing but ToolErrors tells each text; one with anything else tells none."""

        async def fail(mixed: bool) -> None:
            async def part(text: str) -> None:
                raise ToolError(text)

            async with asyncio.TaskGroup() as group:
                group.create_task(part("one"))
                group.create_task(part("two"))
                if mixed:
                    group.create_task(asyncio.to_thread(open, "/nowhere/at/all"))

        assert text_of(await result_of(fail, arguments={"mixed": False})) == "one\ntwo"
        group = ExceptionGroup("a", [ToolError("one"), ExceptionGroup("b", [ToolError("two"), ToolError("three")])])

        def nested() -> None:
            raise group

        assert text_of(await result_of(nested)) == "one\ntwo\nthree"

        def mixed() -> None:
            raise ExceptionGroup("a", [ToolError("one"), OSError("secret")])

        assert text_of(await result_of(mixed)) == "Tool 't' failed"

    @pytest.mark.parametrize("kind", ["async", "def"])
    async def test_a_protocol_error_is_one(self, kind: str) -> None:
        """ProtocolError becomes a JSON-RPC error with its code, message and data (BASE-7)."""
        error = ProtocolError(42, "not now", {"when": ["later"]})

        async def later() -> int:
            raise error

        def plain() -> int:
            raise error

        with pytest.raises(Refused) as caught:
            await result_of(later if kind == "async" else plain)
        assert (caught.value.code, caught.value.message, caught.value.data) == (42, "not now", {"when": ["later"]})

    async def test_an_unknown_tool_is_invalid_params(self) -> None:
        """A tool that is not there is a JSON-RPC error that names it (TOOL-7)."""
        async with talking(Server("tools")) as talk:
            with pytest.raises(Refused, match="Method not found: tools/call") as caught:
                await talk.call("t")
            assert caught.value.code == -32601
        server = Server("tools")
        server.add_tool(lambda: 1, name="other")
        async with talking(server) as talk:
            with pytest.raises(Refused, match="Unknown tool: t") as caught:
                await talk.call("t")
            assert caught.value.code == -32602
