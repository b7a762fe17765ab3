"""Tools with schemas of their own, arguments that do not fit, and what is refused at registration."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from jackfield import Client, Context, Image, Limits, RegistrationError, Server, ToolError, ToolResult
from jackfield.protocol.types import TextContent
from tests.server.talk import LEGACY, MODERN, Refused, talking, text_of

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1, "x-note": "kept"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "note": {"type": "string"},
        "either": {"anyOf": [{"type": "object"}, {"type": "string"}]},
        "point": {"$ref": "#/$defs/Point"},
        "any": True,
    },
    "required": ["count"],
    "additionalProperties": False,
    "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}},
    "x-vendor": {"keep": ["me", 1.5]},
}

BOUNDED = {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "number", "maximum": 1e300}}}}


def two(a: int, b: int) -> int:
    return a + b


def raw_server(**options: Any) -> Server:
    server = Server("raw", **options)

    async def echo(arguments: dict[str, Any]) -> dict[str, Any]:
        """Give it back."""
        return arguments

    server.add_tool(echo, input_schema=SCHEMA)
    return server


class TestRawInput:
    @pytest.mark.parametrize("revision", [MODERN, *LEGACY])
    async def test_the_schema_is_listed_unmodified(self, revision: str) -> None:
        """The schema that was given is the one that is listed, unknown keywords and all (JS-4, TOOL-3)."""
        async with talking(raw_server(), revision) as talk:
            (tool,) = (await talk.ask("tools/list"))["tools"]
            assert tool["inputSchema"] == SCHEMA
            assert tool["description"] == "Give it back."

    async def test_arguments_that_fit_come_as_they_are(self) -> None:
        """The function gets the very values, and none where there are none (F48, F50)."""
        given = {
            "count": 1.0,
            "note": "[1]",
            "either": '{"a": 1}',
            "any": None,
            "tags": [],
            "point": {"x": 1e300, "y": 0},
        }
        async with talking(raw_server()) as talk:
            assert (await talk.call("echo", given))["structuredContent"] == given

    @pytest.mark.parametrize(
        ("arguments", "paths"),
        [
            (None, ["$"]),
            ({}, ["$"]),
            ({"count": 0}, ["$.count"]),
            ({"count": "1", "tags": [1, "a", 2]}, ["$.count", "$.tags[0]", "$.tags[2]"]),
            ({"count": 1, "more": 1}, ["$"]),
            ({"count": 1, "point": {"x": "1"}}, ["$.point.x"]),
            ({"count": 1, "tags": "[1, 2"}, ["$.tags"]),
        ],
    )
    async def test_arguments_that_do_not_fit_are_named(
        self, arguments: Any, paths: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        """Each fault is told with its place, before the function runs, and logged (TOOL-9, F50)."""
        caplog.set_level(logging.INFO, "jackfield")
        async with talking(raw_server()) as talk:
            result = await talk.call("echo", arguments)
        assert result["isError"]
        assert text_of(result).startswith("Invalid arguments for tool 'echo': $")
        for path in paths:
            assert f"{path}: " in text_of(result)
        assert "tool echo was given arguments that do not fit" in caplog.text

    @pytest.mark.parametrize("arguments", [[], "x", 5, True, "[1]"])
    async def test_arguments_that_are_no_object_are_refused(self, arguments: Any) -> None:
        """Another shape than an object is the tool's failure (F50)."""
        async with talking(raw_server()) as talk:
            result = await talk.call("echo", arguments)
            assert result["isError"]
            assert "arguments must be an object" in text_of(result)

    async def test_json_text_is_opened_where_no_text_is_allowed(self) -> None:
        """Arrays and objects that came as text are decoded, the whole arguments too, unless the server is strict
        (F49).
        """
        sent = {"count": 2, "tags": '["a"]', "point": '{"x": 1.50}', "note": "[1]"}
        wanted = {"count": 2, "tags": ["a"], "point": {"x": 1.5}, "note": "[1]"}
        async with talking(raw_server()) as talk:
            assert (await talk.call("echo", sent))["structuredContent"] == wanted
            assert (await talk.call("echo", '{"count": 3}'))["structuredContent"] == {"count": 3}
        async with talking(raw_server(strict=True)) as talk:
            assert "$.tags" in text_of(await talk.call("echo", sent))
            assert (await talk.call("echo", '{"count": 3}'))["isError"]

    async def test_the_context_stands_beside_the_arguments(self) -> None:
        """A tool with its own schema may want the Context, before or after its one parameter."""
        server = Server("raw")

        def before(ctx: Context, arguments: dict[str, Any]) -> str:
            return f"{ctx.method} {arguments}"

        async def after(arguments: dict[str, Any], *, ctx: Context) -> str:
            return f"{ctx.method} {arguments}"

        server.add_tool(before, input_schema={"type": "object"})
        server.add_tool(after, input_schema={"type": "object"})
        async with talking(server) as talk:
            for name in ("before", "after"):
                assert text_of(await talk.call(name, {"a": 1})) == "tools/call {'a': 1}"

    @pytest.mark.parametrize(
        ("schema", "fault"),
        [
            ({"type": "strin"}, "input_schema"),
            ({"type": "object", "properties": []}, "input_schema"),
            ({"type": "array"}, '"type": "object" at its root'),
            ({}, '"type": "object" at its root'),
            ({"type": "object", "properties": {"a": {"$ref": "https://elsewhere.example/s"}}}, "input_schema"),
        ],
    )
    def test_a_schema_that_is_none_is_refused(self, schema: dict[str, Any], fault: str) -> None:
        """A broken schema, one for no object, or one that points elsewhere is told at registration (TOOL-3, JS-2)."""

        def take(arguments: dict[str, Any]) -> None: ...

        with pytest.raises(RegistrationError, match=f"take: .*{fault}"):
            Server("raw").add_tool(take, input_schema=schema)

    async def test_the_decorator_takes_a_schema_too(self) -> None:
        """`@server.tool(input_schema=...)` is `add_tool(..., input_schema=...)` (JS-4)."""
        server = Server("raw")

        @server.tool(input_schema=SCHEMA)
        def echo(arguments: dict[str, Any]) -> dict[str, Any]:
            return arguments

        async with talking(server) as talk:
            assert (await talk.ask("tools/list"))["tools"][0]["inputSchema"] == SCHEMA
            assert (await talk.call("echo", {"count": 2}))["structuredContent"] == {"count": 2}

    @pytest.mark.parametrize("option", ["input_schema", "output_schema"])
    @pytest.mark.parametrize(
        ("limit", "least"), [("schema_size", 300), ("schema_depth", 3), ("schema_nodes", 4)], ids=lambda each: str(each)
    )
    def test_the_limits_of_the_server_bound_its_schemas(self, option: str, limit: str, least: int) -> None:
        """Each limit of schemas holds at registration, as the server has it, and the error names it (JS-3)."""
        schema = {"type": "object", "properties": {name: {"title": "x" * 40} for name in "abc"}}
        Server("raw", limits=Limits(**{limit: least})).add_tool(lambda given: given, name="t", **{option: schema})
        strict = Server("raw", limits=Limits(**{limit: least - 1 if limit != "schema_size" else 100}))
        with pytest.raises(RegistrationError, match=rf"{option}: .*\(limit `{limit}`\)"):
            strict.add_tool(lambda given: given, name="t", **{option: schema})

    async def test_faults_of_arguments_are_listed_within_the_limits(self) -> None:
        """The schema of a signature is bound too: beyond a limit a bad call is told its first fault alone (JS-3)."""
        found: list[str] = []
        for limits in (Limits(), Limits(schema_nodes=1)):
            server = Server("arguments", limits=limits)
            server.add_tool(two)
            async with talking(server) as talk:
                found.append(text_of(await talk.call("two", {"a": "x", "b": "y"})))
        assert ["$.a" in text and "$.b" in text for text in found] == [True, False]

    async def test_the_deepest_schema_can_be_listed(self) -> None:
        """A schema as deep as the limit allows fits into the list of tools that our own client takes (F57, T13)."""
        deep: dict[str, Any] = {"type": "object"}
        for _ in range(Limits().schema_depth - 1):
            deep = {"not": deep}
        deep["type"] = "object"
        server = Server("raw")
        with pytest.raises(RegistrationError, match="limit `schema_depth`"):
            server.add_tool(lambda given: given, name="t", input_schema={"type": "object", "not": {"not": deep}})
        server.add_tool(lambda given: given, name="t", input_schema=deep)
        async with Client(server) as client:
            assert [tool.name for tool in await client.list_tools()] == ["t"]

    def test_the_function_takes_one_dict(self) -> None:
        """A function of more, fewer, or only named parameters is told how to take its arguments."""

        def none() -> None: ...
        def two(a: dict[str, Any], b: int) -> None: ...
        def named(*, a: dict[str, Any]) -> None: ...

        for fn in (none, two, named):
            with pytest.raises(
                RegistrationError, match=f"{fn.__name__}: with input_schema a tool takes all its arguments"
            ):
                Server("raw").add_tool(fn, input_schema={"type": "object"})


NUMBERS = {"type": "array", "items": {"type": "number"}}
NAMED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class TestOutput:
    @pytest.mark.parametrize("revision", [MODERN, *LEGACY])
    async def test_a_given_output_schema_is_listed_where_it_can_be_kept(self, revision: str) -> None:
        """An object schema is listed from 2025-06-18 on, any other only in the modern revision (TOOL-4, JS-4)."""
        server = Server("output")
        server.add_tool(lambda: {"name": "a"}, name="named", output_schema=NAMED)
        server.add_tool(lambda: [1, 2], name="numbers", output_schema=NUMBERS)
        async with talking(server, revision) as talk:
            named, numbers = (await talk.ask("tools/list"))["tools"]
            results = await talk.call("named"), await talk.call("numbers")
        objects, anything = revision in (MODERN, "2025-11-25", "2025-06-18"), revision == MODERN
        assert named.get("outputSchema") == (NAMED if objects else None)
        assert numbers.get("outputSchema") == (NUMBERS if anything else None)
        assert results[0].get("structuredContent") == ({"name": "a"} if objects else None)
        assert results[1].get("structuredContent") == ([1, 2] if anything else None)
        assert [text_of(result) for result in results] == ['{"name":"a"}', "[1,2]"]

    @pytest.mark.parametrize(
        "value",
        [
            {"name": 1},
            {},
            "text",
            None,
            [],
            Image(b"a"),
            TextContent("a"),
            ToolResult(content="a"),
            ToolResult(structured_content={"name": None}),
        ],
    )
    async def test_a_result_that_does_not_fit_is_the_tools_failure(
        self, value: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """What breaks the declared schema, or lacks structure, is `isError` that names the tool (TOOL-5, F54)."""
        server = Server("output")
        server.add_tool(lambda: value, name="t", output_schema=NAMED)
        async with talking(server) as talk:
            result = await talk.call("t")
        assert result["isError"]
        assert text_of(result) == "Tool 't' gave a result that does not fit its output schema"
        assert "tool t: the result does not fit its output schema: " in caplog.text

    async def test_a_typed_tool_may_say_its_result_in_full(self) -> None:
        """What a typed tool returns as a ToolResult is checked against the schema that its annotation declares
        (TOOL-5).
        """
        server = Server("output")
        results: list[Any] = [
            ToolResult(content="nice", structured_content={"result": 3}),
            ToolResult(structured_content={"result": "3"}),
            ToolResult(content="nothing"),
        ]

        @server.tool
        def typed(n: int) -> int:
            return results[n]

        async with talking(server) as talk:
            found = [await talk.call("typed", {"n": n}) for n in range(3)]
        assert (text_of(found[0]), found[0]["structuredContent"]) == ("nice", {"result": 3})
        assert [result.get("isError") for result in found] == [None, True, True]

    async def test_an_error_is_not_checked(self) -> None:
        """A failure reaches the caller whole, its structure too, whatever the schema says (F54)."""
        server = Server("output")
        failed = ToolResult(content="no", structured_content={"code": 7}, is_error=True)
        server.add_tool(lambda: failed, name="t", output_schema=NAMED)
        async with talking(server) as talk:
            result = await talk.call("t")
        assert (text_of(result), result["structuredContent"], result["isError"]) == ("no", {"code": 7}, True)

    def test_a_broken_output_schema_is_refused(self) -> None:
        """An output schema that is none is told at registration, with the function's name (JS-2)."""

        def give() -> None: ...

        with pytest.raises(RegistrationError, match="give: output_schema: "):
            Server("output").add_tool(give, output_schema={"type": "strin"})


class TestArguments:
    async def test_none_and_null_are_no_arguments(self) -> None:
        """Missing and null arguments count as empty (F50)."""
        server = Server("arguments")

        @server.tool
        def greet(name: str = "you") -> str:
            return f"hello {name}"

        async with talking(server) as talk:
            assert text_of(await talk.call("greet")) == "hello you"
            assert text_of(await talk.ask("tools/call", {"name": "greet", "arguments": None})) == "hello you"
            assert text_of(await talk.call("greet", {"name": "null"})) == "hello null"

    async def test_each_fault_is_named_and_the_server_lives(self, caplog: pytest.LogCaptureFixture) -> None:
        """Arguments that do not fit are `isError` with every place, in every revision, and logged (TOOL-7, F50)."""
        caplog.set_level(logging.INFO, "jackfield")
        server = Server("arguments")

        @server.tool
        def add(a: int, b: int, c: list[str]) -> int:
            raise AssertionError("the tool runs")

        for revision in (MODERN, *LEGACY):
            async with talking(server, revision) as talk:
                for _ in range(2):
                    result = await talk.call("add", {"a": "x", "c": [1, "a"]})
                    assert result["isError"]
                    for place in ("$.a", '"b"', "$.c[0]"):
                        assert place in text_of(result)
        assert "tool add was given arguments that do not fit" in caplog.text

    @pytest.mark.parametrize("number", ["1e400", "1e5000", "1e1000000", "1" * 4301, "1" * 400])
    @pytest.mark.parametrize("tool", ["whole", "fractions", "raw"])
    async def test_numbers_out_of_range_in_json_text_are_a_fault_of_the_parameter(self, tool: str, number: str) -> None:
        """Whatever number JSON text holds, the call is answered soon and the parameter is named (F49, T13)."""
        server = Server("arguments")
        server.add_tool(lambda arguments: len(arguments), name="raw", input_schema=BOUNDED)

        @server.tool
        def whole(x: list[int]) -> int:
            raise ToolError(f"$.x has {len(str(x[0]))} digits")

        @server.tool
        def fractions(x: list[float]) -> int:
            return len(x)

        async with talking(server) as talk:
            result = await talk.call(tool, {"x": f"[{number}]"})
            assert result["isError"]
            assert "$.x" in text_of(result)

    async def test_a_log_line_of_bad_arguments_cannot_be_forged(self, caplog: pytest.LogCaptureFixture) -> None:
        """What a caller put into names of the arguments is escaped in the log, on one line (O02)."""
        server = Server("arguments")

        @server.tool
        def count(of: dict[str, int]) -> int:
            return len(of)

        caplog.set_level(logging.INFO, "jackfield")
        forged = "a\u2028ERROR:root:all is lost\u202e\x9b2J"
        async with talking(server) as talk:
            assert (await talk.call("count", {"of": {forged: "x"}}))["isError"]
        (line,) = [record.getMessage() for record in caplog.records if "do not fit" in record.getMessage()]
        assert "all is lost" in line
        assert line.isprintable()

    async def test_one_switch_for_leniency(self) -> None:
        """JSON text where a list is wanted is decoded, unless the server is strict; a str stays letter for letter
        (F48, F49).
        """

        def join(parts: list[str], by: str) -> str:
            return by.join(parts)

        for strict in (False, True):
            server = Server("arguments", strict=strict)
            server.add_tool(join)
            async with talking(server) as talk:
                result = await talk.call("join", {"parts": '["a", "b"]', "by": "[]"})
                if strict:
                    assert "$.parts" in text_of(result)
                else:
                    assert text_of(result) == "a[]b"

    async def test_malformed_params_are_a_protocol_error(self) -> None:
        """A call without a name, or with a name that is none, is -32602 (TOOL-7)."""
        server = Server("arguments")
        server.add_tool(lambda: 1, name="t")
        async with talking(server) as talk:
            for params in ({}, {"name": 5}, {"name": None}, {"arguments": {}}):
                with pytest.raises(Refused, match="Invalid params for tools/call") as caught:
                    await talk.ask("tools/call", params)
                assert caught.value.code == -32602

    async def test_an_error_of_the_mended_call_is_the_tools(self) -> None:
        """A ToolError in the body is not mistaken for a fault of the arguments."""
        server = Server("arguments")

        @server.tool
        def fail(parts: list[str]) -> None:
            raise ToolError(f"no {parts}")

        async with talking(server) as talk:
            assert text_of(await talk.call("fail", {"parts": '["a"]'})) == "no ['a']"


@pytest.mark.parametrize("pattern", ["^(?=.*b)a+$", "("])
def test_a_pattern_that_is_not_checked_is_told_of(pattern: str) -> None:
    """An author whose schema has a pattern that cannot be checked in linear time is warned at registration (S01)."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    with pytest.warns(UserWarning, match="input_schema: .*pattern is not checked"):
        Server("odd").add_tool(lambda arguments: "ran", name="odd", input_schema=schema)
