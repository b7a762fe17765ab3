"""The two eras' ways on the wire: stamps, HTTP status, and definitions for older revisions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from jackfield.protocol.revisions import REVISIONS, find
from jackfield.protocol.types import (
    CallToolResult,
    Icon,
    Implementation,
    ListToolsResult,
    Prompt,
    PromptArgument,
    Resource,
    ResourceTemplate,
    Result,
    ServerCapabilities,
    Tool,
    ToolAnnotations,
)
from jackfield.protocol.types.content import Annotations
from jackfield.protocol.wire import LEGACY, MODERN, SERVER_INFO, Stamp, fit

INFO = Implementation("server", "1.0", title="Server")
STAMP = Stamp.of(INFO)
SHOWN = {"name": "server", "version": "1.0", "title": "Server"}


def sent(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


class TestStamp:
    def test_a_modern_result_says_its_kind_and_its_server(self) -> None:
        """A plain result gets `resultType` and the server's identity in `_meta` (RES-1, RES-4)."""
        result = Result()
        MODERN.stamp(result, STAMP)
        assert sent(result) == {"resultType": "complete", "_meta": {SERVER_INFO: SHOWN}}

    @pytest.mark.parametrize("meta", [{"a/b": 1}, Raw(b'{"a/b":1}')])
    def test_own_metadata_stays_beside_the_identity(self, meta: Any) -> None:
        """A result's own `_meta`, as a dict or encoded, is kept; another `resultType` too (RES-3)."""
        result = CallToolResult([], meta=meta, result_type="task")
        MODERN.stamp(result, STAMP)
        assert sent(result) == {"content": [], "resultType": "task", "_meta": {SERVER_INFO: SHOWN, "a/b": 1}}

    def test_a_stamp_does_not_change_the_metadata_of_others(self) -> None:
        """The dict that an author gave is not written to."""
        meta = {"a/b": 1}
        MODERN.stamp(Result(meta=meta), STAMP)
        assert meta == {"a/b": 1}

    def test_what_can_be_cached_says_for_how_long(self) -> None:
        """A cacheable result is stale at once and private unless it says otherwise; any other says nothing (CCH-1)."""
        plain, said = ListToolsResult([]), ListToolsResult([], ttl_ms=5, cache_scope="public")
        for result in (plain, said):
            MODERN.stamp(result, STAMP)
        assert (sent(plain)["ttlMs"], sent(plain)["cacheScope"]) == (0, "private")
        assert (sent(said)["ttlMs"], sent(said)["cacheScope"]) == (5, "public")

    def test_a_legacy_result_is_plain(self) -> None:
        """On legacy wires there is no kind, no identity and no hint; own metadata stays (RES-5)."""
        result = ListToolsResult([], ttl_ms=5, cache_scope="public", result_type="complete", meta={"a/b": 1})
        LEGACY.stamp(result, STAMP)
        assert sent(result) == {"tools": [], "_meta": {"a/b": 1}}

    def test_a_second_stamp_changes_nothing(self) -> None:
        """A result that was stamped already looks the same after another stamp."""
        result = CallToolResult([])
        MODERN.stamp(result, STAMP)
        first = sent(result)
        MODERN.stamp(result, STAMP)
        assert sent(result) == first


class TestStatus:
    @pytest.mark.parametrize(
        ("code", "modern", "legacy"),
        [
            (-32700, 400, 400),
            (-32600, 400, 400),
            (-32601, 404, 200),
            (-32602, 200, 200),
            (-32603, 200, 200),
            (-32020, 400, 200),
            (-32021, 400, 200),
            (-32022, 400, 200),
            (-32002, 200, 200),
            (42, 200, 200),
        ],
    )
    def test_the_status_that_goes_with_an_error(self, code: int, modern: int, legacy: int) -> None:
        """Each JSON-RPC error has its HTTP status in each era."""
        assert (MODERN.http_status(code), LEGACY.http_status(code)) == (modern, legacy)

    def test_what_a_disconnect_means(self) -> None:
        """Hanging up cancels a modern request and no legacy one."""
        assert (MODERN.era, MODERN.disconnect_cancels) == ("modern", True)
        assert (LEGACY.era, LEGACY.disconnect_cancels) == ("legacy", False)


ICONS = [Icon("https://x.example/i.png")]
OBJECT, ARRAY = {"type": "object"}, {"type": "array"}
FULL = Tool(
    "t",
    {"type": "object"},
    title="T",
    description="D",
    output_schema=OBJECT,
    annotations=ToolAnnotations(read_only_hint=True),
    icons=ICONS,
    meta={"a/b": 1},
)
ALL = {"name", "inputSchema", "title", "description", "outputSchema", "annotations", "icons", "_meta"}


class TestFit:
    @pytest.mark.parametrize(
        ("revision", "gone"),
        [
            ("2026-07-28", set()),
            ("2025-11-25", set()),
            ("2025-06-18", {"icons"}),
            ("2025-03-26", {"icons", "title", "_meta", "outputSchema"}),
            ("2024-11-05", {"icons", "title", "_meta", "outputSchema", "annotations"}),
        ],
    )
    def test_a_tool_has_what_the_revision_knows(self, revision: str, gone: set[str]) -> None:
        """Members that a revision lacks are left out, and nothing else (LIFE-4)."""
        found = find(revision)
        assert found is not None
        assert sent(fit(FULL, found)).keys() == ALL - gone
        assert (fit(FULL, found) is FULL) is (not gone)
        assert sent(FULL).keys() == ALL

    def test_an_output_schema_for_no_object_is_modern(self) -> None:
        """A legacy revision gets only output schemas for objects: its content can be nothing else (TOOL-4)."""
        tool = Tool("t", OBJECT, output_schema=ARRAY)
        shown = {revision.name: fit(tool, revision).output_schema for revision in REVISIONS}
        assert shown == dict.fromkeys(shown) | {"2026-07-28": ARRAY}

    @pytest.mark.parametrize("revision", REVISIONS, ids=lambda revision: revision.name)
    def test_other_definitions(self, revision: Any) -> None:
        """Prompts with their arguments, resources, templates, identities and capabilities are fitted alike (CMP-1)."""
        prompt = Prompt("p", title="P", arguments=[PromptArgument("a", title="A", description="D")], icons=ICONS)
        resource = Resource("x://a", "a", title="A", annotations=Annotations(priority=1.0), icons=ICONS, meta={})
        template = ResourceTemplate("x://{a}", "a", title="A", annotations=Annotations(priority=1.0))
        info = Implementation("s", "1", title="S", website_url="https://x.example", icons=ICONS)
        offer = ServerCapabilities(completions={}, logging={})
        shown = [sent(fit(each, revision)).keys() for each in (prompt, resource, template, info, offer)]
        title = {"title"} if revision.title else set()
        icons = {"icons"} if revision.icons else set()
        meta = {"_meta"} if revision.title else set()
        assert shown == [
            {"name", "arguments"} | title | icons,
            {"uri", "name", "annotations"} | title | icons | meta,
            {"uriTemplate", "name", "annotations"} | title,
            {"name", "version"} | title | icons | ({"websiteUrl"} if revision.icons else set()),
            {"logging"} | ({"completions"} if revision.completions_capability else set()),
        ]
        (argument,) = sent(fit(prompt, revision))["arguments"]
        assert argument.keys() == {"name", "description"} | title
        assert prompt.arguments is not None
        assert prompt.arguments[0].title == "A"
