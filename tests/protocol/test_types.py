"""The vocabulary: names on the wire, what is written and what is not, what is kept of a peer's message."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from jackfield.protocol import types as t

STRUCTS = sorted(
    {v for n in t.__all__ if inspect.isclass(v := getattr(t, n)) and issubclass(v, t.Object)}, key=lambda s: s.__name__
)
BLOCKS = [t.TextContent, t.ImageContent, t.AudioContent, t.ResourceLink, t.EmbeddedResource, t.ToolUseContent]
encode = msgspec.json.encode


# --- every value of every struct, built from its own fields

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    Any: json_values,
    Raw: json_values.map(lambda value: Raw(encode(value))),
    UnsetType: st.just(UNSET),
    NoneType: st.none(),
    str: st.text(max_size=8),
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
}


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    if kind in SIMPLE:
        return SIMPLE[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (UnionType, Union):
        if dict[str, Any] in args:  # a sender's encoded `_meta` is read as the dict that it stands for
            args = tuple(arg for arg in args if arg is not Raw)
        return st.one_of([values_of(arg) for arg in args])
    if origin is list:
        return st.lists(values_of(args[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(st.text(max_size=5), values_of(args[1]), max_size=2)
    return structs(kind)


def structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    fields = msgspec.structs.fields(kind)
    required = {field.name: values_of(field.type) for field in fields if field.required}
    optional = {field.name: values_of(field.type) for field in fields if not field.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda members: kind(**members))


SMALLEST: dict[type, Any] = {str: "x", int: 1, float: 0.5, bool: True, Any: None}


def smallest(kind: Any) -> Any:
    """A plain JSON value of a type, with the required members alone."""
    if kind in SMALLEST:
        return SMALLEST[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return args[0]
    if origin in (UnionType, Union):
        return smallest(args[0])
    if origin in (list, dict):
        return origin()
    members = {f.encode_name: smallest(f.type) for f in msgspec.structs.fields(kind) if f.required}
    config = kind.__struct_config__
    return {config.tag_field: config.tag, **members} if config.tag_field else members


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_every_struct_comes_back_as_it_was_written(kind: type[t.Object], data: st.DataObject) -> None:
    """decode(encode(x)) == x for every struct, by the strict decoder and by `read`."""
    value = data.draw(structs(kind))
    wire = encode(value)
    assert msgspec.json.decode(wire, type=kind) == value
    assert t.read(kind, wire) == value


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_only_what_was_set_is_written(kind: type[t.Object]) -> None:
    """A struct with nothing but its required members writes these alone: no null, no default (CF-12)."""
    wire = smallest(kind)
    assert msgspec.json.decode(encode(msgspec.convert(wire, kind))) == wire


@pytest.mark.parametrize("kind", STRUCTS, ids=lambda kind: kind.__name__)
def test_unknown_members_and_nulls_are_tolerated(kind: type[t.Object]) -> None:
    """Unknown members are ignored, and an optional member may be null, save `isError` and the required `_meta` keys."""
    strict = {"isError", "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"}
    optional = {f.encode_name for f in msgspec.structs.fields(kind) if not f.required} - strict
    wire = smallest(kind) | dict.fromkeys(optional) | {"x-unknown": [1]}
    assert isinstance(t.read(kind, encode(wire)), kind)


def test_every_struct_is_exported() -> None:
    """The package gives every struct of its modules, under one name each."""
    found = {
        name
        for module in pkgutil.iter_modules(t.__path__)
        for name, value in vars(importlib.import_module(f"{t.__name__}.{module.name}")).items()
        if inspect.isclass(value) and issubclass(value, t.Object)
    }
    assert found <= set(t.__all__)
    assert len(t.__all__) == len(set(t.__all__))


# --- names and presence on the wire


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (t.Implementation("n", "1", website_url="https://x"), {"name": "n", "version": "1", "websiteUrl": "https://x"}),
        (t.TextContent("a", meta={"k": 1}), {"type": "text", "text": "a", "_meta": {"k": 1}}),
        (t.FormSchema({}, schema="s"), {"type": "object", "properties": {}, "$schema": "s"}),
        (t.IntegerSchema(minimum=1), {"type": "integer", "minimum": 1}),
        (t.ListToolsResult([], next_cursor=""), {"tools": [], "nextCursor": ""}),
        (t.ResultMeta(subscription_id="1"), {"io.modelcontextprotocol/subscriptionId": "1"}),
        (t.Params(meta=Raw(b'{"progressToken":0}')), {"_meta": {"progressToken": 0}}),
        (t.Result(meta=Raw(b'{"a":1}'), result_type="complete"), {"_meta": {"a": 1}, "resultType": "complete"}),
        (
            t.DiscoverResult([], t.ServerCapabilities(), ttl_ms=0),
            {"supportedVersions": [], "capabilities": {}, "ttlMs": 0},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_names_on_the_wire(value: t.Object, wire: dict[str, Any]) -> None:
    """Members are camelCase on the wire, `meta` is `_meta`, and what counts as set although empty is written."""
    assert msgspec.json.decode(encode(value)) == wire


def test_an_empty_capability_is_still_an_offer() -> None:
    """A capability that is present but empty is written as {} and read as present; an absent one is None (ELC-1)."""
    offer = t.ServerCapabilities(tools=t.ToolsCapability(), logging={}, resources=t.ResourcesCapability(subscribe=True))
    assert encode(offer) == b'{"logging":{},"resources":{"subscribe":true},"tools":{}}'
    client = t.read(t.ClientCapabilities, b'{"elicitation":{},"sampling":{"tools":{}},"extensions":{"a/b":{}}}')
    assert client.elicitation == t.ElicitationCapability()
    assert client.sampling == t.SamplingCapability(tools={})
    assert client.extensions == {"a/b": {}}
    assert client.roots is None


def test_null_structured_content_is_not_absent() -> None:
    """Structured content may be null since 2026-07-28, which is told from absence both ways."""
    null, none = b'{"content":[],"structuredContent":null}', b'{"content":[]}'
    assert encode(t.CallToolResult([], Raw(b"null"))) == null
    assert encode(t.CallToolResult([])) == none
    assert t.read(t.CallToolResult, null).structured_content is None
    assert t.read(t.CallToolResult, null).has_structured_content
    assert t.read(t.CallToolResult, none).structured_content is None
    assert not t.read(t.CallToolResult, none).has_structured_content
    assert t.CallToolResult([], 5).has_structured_content


def test_is_error_is_written_only_when_true() -> None:
    """`isError` stands in a result only where the tool failed."""
    assert encode(t.CallToolResult([], is_error=False)) == b'{"content":[]}'
    assert encode(t.CallToolResult([], is_error=True)) == b'{"content":[],"isError":true}'


def test_a_task_without_end_says_so() -> None:
    """`ttl` (2025-11-25) and `ttlMs` (the extension) are required and may be null, so null is written (T25-4, TX-2)."""
    assert b'"ttl":null' in encode(t.Task("1", "working", "a", "b", None))
    assert b'"ttlMs":null' in encode(t.TaskCreatedResult("1", "working", "a", "b", None))
    with pytest.raises(msgspec.ValidationError, match="ttl"):
        t.read(t.Task, b'{"taskId":"1","status":"working","createdAt":"a","lastUpdatedAt":"b"}')


@pytest.mark.parametrize("number", [0, -1, 10**30, "", "0"])
def test_tokens_and_ids_keep_their_type(number: int | str) -> None:
    """Progress tokens and request ids keep value and JSON type, whatever their size (F41)."""
    token = t.read(t.ProgressParams, encode({"progressToken": number, "progress": 1})).progress_token
    cancelled = t.read(t.CancelledParams, encode({"requestId": number})).request_id
    assert (token, cancelled) == (number, number)
    assert type(token) is type(number)


def test_progress_keeps_whole_numbers_whole() -> None:
    """Progress may be a float, and an integer stays one."""
    wire = b'{"progressToken":1,"progress":5,"total":7.5}'
    assert encode(t.read(t.ProgressParams, wire)) == wire


def test_log_levels_are_ordered() -> None:
    """The eight levels of RFC 5424 from debug to emergency, the same in the type and in the order (LOG-1)."""
    assert get_args(t.LogLevel) == t.LOG_LEVELS
    assert t.LOG_LEVELS[0] == "debug"
    assert t.LOG_LEVELS.index("warning") < t.LOG_LEVELS.index("error") < t.LOG_LEVELS.index("emergency")
    with pytest.raises(msgspec.ValidationError, match="level"):
        t.read(t.SetLevelParams, b'{"level":"loud"}')


# --- params and `_meta`


def test_params_leave_their_inner_parts_undecoded() -> None:
    """A call's `_meta`, arguments and answers stay bytes; a `task` of any shape is tolerated (T25-2, TX-8)."""
    wire = b'{"name":"a","arguments":{"x": 1},"_meta":{"y": 2},"inputResponses":null,"requestState":"s","task":7}'
    params = t.read(t.CallToolParams, wire)
    assert bytes(params.arguments) == b'{"x": 1}'
    assert bytes(params.meta) == b'{"y": 2}'
    assert bytes(params.input_responses) == b"null"
    assert params.request_state == "s"
    assert t.CallToolParams("a").arguments is UNSET


def test_request_meta_tells_absent_from_mistyped() -> None:
    """A required `_meta` key that is absent is UNSET, and one of another type does not decode."""
    assert t.read(t.RequestMeta, b"{}").version is UNSET
    assert t.read(t.RequestMeta, b"{}").client_capabilities is UNSET
    for key in ("protocolVersion", "clientCapabilities", "clientInfo", "logLevel"):
        with pytest.raises(msgspec.ValidationError, match=key):
            t.read(t.RequestMeta, encode({f"io.modelcontextprotocol/{key}": 1}))


def test_request_meta_reads_all_its_keys() -> None:
    """Version, client, capabilities, log level, token and trace context are read by their names."""
    name = "io.modelcontextprotocol/"
    wire = {
        f"{name}protocolVersion": "2026-07-28",
        f"{name}clientInfo": {"name": "c", "version": "1"},
        f"{name}clientCapabilities": {},
        f"{name}logLevel": "info",
        "progressToken": "p",
        "traceparent": "00-a",
    }
    expected = t.RequestMeta(
        version="2026-07-28",
        client_info=t.Implementation("c", "1"),
        client_capabilities=t.ClientCapabilities(),
        log_level="info",
        progress_token="p",
        traceparent="00-a",
    )
    assert t.read(t.RequestMeta, encode(wire)) == expected


def test_a_wrong_trace_context_refuses_nothing() -> None:
    """Trace members of any type are read, so that they can be ignored (TRC-1)."""
    assert t.read(t.RequestMeta, b'{"traceparent":1,"tracestate":[],"baggage":{}}').traceparent == 1


@pytest.mark.parametrize("content", [b"", b',"content":null', b',"content":{}'])
def test_a_decline_needs_no_content(content: bytes) -> None:
    """Decline and cancel are read with content absent, null or empty (F63)."""
    assert t.read(t.ElicitResult, b'{"action":"decline"' + content + b"}").action == "decline"
    assert t.read(t.ElicitResult, b'{"action":"cancel"' + content + b"}").action == "cancel"


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string", "format": "email"}, t.StringSchema),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, t.StringSchema),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, t.StringSchema),
        ({"type": "number", "default": 1}, t.NumberSchema),
        ({"type": "integer", "minimum": 1}, t.IntegerSchema),
        ({"type": "boolean", "default": True}, t.BooleanSchema),
        ({"type": "array", "items": {"type": "string", "enum": ["a"]}, "maxItems": 1}, t.MultiSelectSchema),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, t.MultiSelectSchema),
    ],
)
def test_form_fields_of_every_kind(schema: dict[str, Any], kind: type) -> None:
    """Each kind of form field is read as its struct and written back unchanged (ELC-2, ELC-3)."""
    form = t.read(t.FormSchema, encode({"type": "object", "properties": {"f": schema}}))
    assert type(form.properties["f"]) is kind
    assert msgspec.json.decode(encode(form.properties["f"])) == schema


# --- content blocks


@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)
def test_a_block_names_its_kind(kind: Any) -> None:
    """Each block is written with the `type` that it also shows as an attribute, and read by it."""
    wire = smallest(kind)
    block = t.decode_block(encode(wire))
    assert type(block) is kind
    assert block.type == wire["type"]


UNKNOWN = b'{"type":"hologram","depth": 1.50}'


def test_unknown_content_is_kept_in_a_tool_result() -> None:
    """One block of an unknown kind costs neither the others nor the rest of the result, and keeps its bytes."""
    wire = b'{"content":[{"type":"text","text":"a"},' + UNKNOWN + b'],"isError":true,"structuredContent":{"b":1}}'
    result = t.read(t.CallToolResult, wire)
    assert type(result) is t.CallToolResult
    assert result == t.CallToolResult([t.TextContent("a"), t.UnknownContent(UNKNOWN)], {"b": 1}, True)
    unknown = result.content[1]
    assert isinstance(unknown, t.UnknownContent)
    assert (unknown.type, unknown.raw, unknown["depth"]) == ("hologram", UNKNOWN, 1.5)
    assert result.raw == wire
    assert msgspec.json.decode(encode(result)) == msgspec.json.decode(wire)


def test_unknown_content_is_kept_in_prompts_and_samples() -> None:
    """Messages of a prompt and what a model said keep blocks of unknown kinds, single or in a list."""
    prompt = t.read(t.GetPromptResult, b'{"messages":[{"role":"user","content":' + UNKNOWN + b'}],"description":"d"}')
    assert prompt == t.GetPromptResult([t.PromptMessage("user", t.UnknownContent(UNKNOWN))], "d")
    single = t.read(t.CreateMessageResult, b'{"role":"assistant","model":"m","content":' + UNKNOWN + b"}")
    assert single.content == t.UnknownContent(UNKNOWN)
    several = t.read(t.CreateMessageResult, b'{"role":"assistant","model":"m","content":[' + UNKNOWN + b"]}")
    assert several.content == [t.UnknownContent(UNKNOWN)]


def test_unknown_content_inside_a_tool_result_block() -> None:
    """A tool_result block keeps its own form when one of its blocks is of an unknown kind."""
    block = t.decode_block(b'{"type":"tool_result","toolUseId":"1","content":[' + UNKNOWN + b"]}")
    assert block == t.ToolResultContent("1", [t.UnknownContent(UNKNOWN)])


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b'{"type":"text","text":5}', "text"),
        (b'{"type":"image","data":"x"}', "image"),
        (b'{"type":"tool_result","content":5}', "tool_result"),
        (b'{"text":"no kind"}', ""),
        (b'{"type":7}', ""),
        (b"5", ""),
        (b"null", ""),
        (b'"text"', ""),
        (b'{"type":"text","text":"\\ud800"}', ""),
    ],
)
def test_blocks_that_do_not_fit_are_unknown_content(raw: bytes, kind: str) -> None:
    """A block of a known kind with another body, or no object at all, becomes UnknownContent with its bytes."""
    first, second = t.decode_blocks([raw, b'{"type":"text","text":"a"}'])
    assert isinstance(first, t.UnknownContent)
    assert (first.type, first.raw) == (kind, raw)
    assert second == t.TextContent("a")


@given(value=json_values)
def test_decoding_a_block_never_raises(value: Any) -> None:
    """Whatever JSON stands where a block should be, `decode_block` gives a block that has a kind."""
    assert isinstance(t.decode_block(encode(value)).type, str)


# --- what is kept


def test_results_keep_their_bytes() -> None:
    """A result that was read has its exact bytes, unknown members too; one built here has none; == ignores them."""
    wire = b'{ "content": [], "surprise": 1.0 }'
    result = t.read(t.CallToolResult, wire)
    assert result.raw == wire
    assert t.CallToolResult([]).raw == b""
    assert result == t.CallToolResult([])
    assert encode(result) == b'{"content":[]}'


def test_list_items_keep_their_bytes() -> None:
    """Every tool, resource, template, prompt and root of a list has its own exact bytes (JS-4)."""
    cases: list[tuple[Any, str, bytes]] = [
        (t.ListToolsResult, "tools", b'{"name":"a","inputSchema":{"x-mine":1.0},"new":[]}'),
        (t.ListResourcesResult, "resources", b'{"uri":"a:b","name":"n","new":1e2}'),
        (t.ListResourceTemplatesResult, "resourceTemplates", b'{"uriTemplate":"a:{b}","name":"n", "new":1}'),
        (t.ListPromptsResult, "prompts", b'{"name":"p","new":{"a": "b"}}'),
        (t.ListRootsResult, "roots", b'{"uri":"file:///a","new":null}'),
    ]
    for kind, member, item in cases:
        wire = b'{"' + member.encode() + b'":[' + item + b"," + item + b'],"nextCursor":"c"}'
        page = t.read(kind, wire)
        items = getattr(page, "resource_templates" if member == "resourceTemplates" else member)
        assert type(page) is kind
        assert [found.raw for found in items] == [item, item]
        assert page.raw == wire
        assert getattr(page, "next_cursor", "c") == "c"


def test_one_bad_tool_does_not_spoil_the_list() -> None:
    """An item of a page that does not fit is left out and named with its place and fault; the others stay (F76)."""
    page = t.read(t.ListToolsResult, b'{"tools":[{"name":"bad"},{"name":"good","inputSchema":{}},5]}')
    assert [tool.name for tool in page.tools] == ["good"]
    first, second = page.dropped
    assert first.startswith("tools[0]: ")
    assert "inputSchema" in first
    assert second.startswith("tools[2]: ")
    assert t.read(t.ListToolsResult, b'{"tools":[]}').dropped == []


def test_a_bad_root_spoils_the_answer() -> None:
    """Roots are an answer to a question of ours, so one that does not fit is refused, not left out (MR-7)."""
    with pytest.raises(msgspec.ValidationError, match="uri"):
        t.read(t.ListRootsResult, b'{"roots":[{"uri":5}]}')


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        (t.CallToolResult, b"{}"),
        (t.CallToolResult, b'{"content":5}'),
        (t.CallToolResult, b'{"content":[' + UNKNOWN + b'],"isError":"yes"}'),
        (t.ListToolsResult, b'{"tools":{}}'),
        (t.GetPromptResult, b'{"messages":[{"role":"king","content":' + UNKNOWN + b"}]}"),
        (t.ReadResourceResult, b'{"contents":[5]}'),
        (t.InitializeResult, b'{"protocolVersion":"x"}'),
    ],
)
def test_what_does_not_fit_is_refused(kind: type, wire: bytes) -> None:
    """Outside blocks and list items a result that does not fit its type raises, and names the place."""
    with pytest.raises(msgspec.ValidationError):
        t.read(kind, wire)


def test_an_older_discover_answer_still_names_its_server() -> None:
    """A server of an older draft names itself in the body of its discover result; that is read."""
    wire = b'{"supportedVersions":["2026-07-28"],"capabilities":{},"serverInfo":{"name":"s","version":"1"}}'
    assert t.read(t.DiscoverResult, wire).server_info == t.Implementation("s", "1")


def test_each_result_knows_its_kind() -> None:
    """The value of `resultType` that a result stands for is an attribute of its type."""
    kinds = [t.Result.kind, t.CallToolResult.kind, t.InputRequiredResult.kind, t.TaskCreatedResult.kind]
    assert kinds == ["complete", "complete", "input_required", "task"]


def test_answers_to_questions_stay_undecoded() -> None:
    """Questions and answers inside results and params are bytes until their method is known (MR-2, MR-3)."""
    asked = t.read(t.InputRequiredResult, b'{"inputRequests":{"k":{"method":"roots/list"}},"requestState":"s"}')
    assert asked.input_requests == {"k": t.InputRequest("roots/list")}
    given_back = t.read(t.UpdateTaskParams, b'{"taskId":"1","inputResponses":{"k":{"action": "cancel"}}}')
    assert given_back.input_responses == {"k": Raw(b'{"action": "cancel"}')}
