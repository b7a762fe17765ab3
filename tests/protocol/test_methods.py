"""The method table: complete, consistent, and able to read what its rows name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from jackfield.protocol import types as t
from jackfield.protocol.errors import InvalidResult
from jackfield.protocol.methods import EXTENSIONS, METHODS, QUESTIONS, Method, exists
from jackfield.protocol.revisions import LEGACY, MODERN, REVISIONS

ROWS = [*METHODS.values(), *(row for table in EXTENSIONS.values() for row in table.values())]
BY_REVISION = {
    "2024-11-05": {
        "initialize",
        "ping",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "sampling/createMessage",
        "roots/list",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/message",
        "notifications/roots/list_changed",
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
    },
}
BY_REVISION["2025-03-26"] = BY_REVISION["2024-11-05"]
BY_REVISION["2025-06-18"] = BY_REVISION["2025-03-26"] | {"elicitation/create"}
BY_REVISION["2025-11-25"] = BY_REVISION["2025-06-18"] | {
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
    "notifications/tasks/status",
    "notifications/elicitation/complete",
}
REMOVED = {
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
    "sampling/createMessage",
    "elicitation/create",
    "roots/list",
    "tasks/get",
    "tasks/result",
    "tasks/list",
    "tasks/cancel",
    "notifications/initialized",
    "notifications/roots/list_changed",
    "notifications/tasks/status",
    "notifications/elicitation/complete",
}
BY_REVISION["2026-07-28"] = (BY_REVISION["2025-11-25"] - REMOVED) | {
    "server/discover",
    "subscriptions/listen",
    "notifications/subscriptions/acknowledged",
}


def name_of(row: Method) -> str:
    return row.name


@pytest.mark.parametrize("revision", REVISIONS, ids=lambda revision: revision.name)
def test_every_revision_has_exactly_its_methods(revision: Any) -> None:
    """The methods of each revision, by name, as its change list has them (part 1.9 of the requirements)."""
    assert {name for name in METHODS if exists(name, revision.name)} == BY_REVISION[revision.name]


def test_removed_methods_are_absent_from_the_modern_revision() -> None:
    """What 2026-07-28 removed is no method there, and neither is one that never was (ERA-V5)."""
    assert not any(exists(name, "2026-07-28") for name in REMOVED)
    assert all(exists(name, "2025-11-25") for name in REMOVED)
    assert not exists("tools/delete", "2025-11-25")
    assert not exists("ping", "2099-01-01")


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_every_row_is_consistent(row: Method) -> None:
    """Params and results derive from their bases, notifications have none, only a server's answer is cached or asks."""
    assert issubclass(row.params, t.Params)
    assert row.request is not row.name.startswith("notifications/")
    assert row.request is (row.result is not None)
    assert row.revisions
    assert row.revisions <= {revision.name for revision in REVISIONS}
    if row.cacheable or row.may_ask:
        assert row.direction == "to_server"
    if row.cacheable:
        assert row.result is not None
        assert issubclass(row.result, t.CacheableResult)


def test_rows_stand_under_their_own_names() -> None:
    """Both tables are keyed by the name of the row, and no extension takes a method that its revision has already."""
    for table in (METHODS, *EXTENSIONS.values()):
        assert all(name == row.name for name, row in table.items())
    for table in EXTENSIONS.values():
        assert not any(exists(name, revision) for name, row in table.items() for revision in row.revisions)


def test_what_may_be_cached() -> None:
    """Discover, the four lists and reads say how long they stay fresh, and nothing else does (CCH-1)."""
    assert {row.name for row in ROWS if row.cacheable} == {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }


def test_what_may_ask() -> None:
    """Only calls, prompts and reads may answer with questions, and their params take the answers (MR-1, MR-3)."""
    asking = {row.name: row for row in ROWS if row.may_ask}
    assert set(asking) == {"tools/call", "prompts/get", "resources/read"}
    for row in ROWS:
        assert ("input_responses" in row.params.__struct_fields__) is (row.name in asking or row.name == "tasks/update")


def test_what_may_be_asked() -> None:
    """The three questions are methods of the client whose types also serve inside a result (MR-2)."""
    assert set(QUESTIONS) == {"elicitation/create", "sampling/createMessage", "roots/list"}
    assert all(METHODS[name].direction == "to_client" for name in QUESTIONS)
    assert all(not exists(name, revision.name) for name in QUESTIONS for revision in MODERN)


def test_who_sends_what() -> None:
    """A server sends requests on legacy wires only, and these are its questions and what goes both ways."""
    legacy = {revision.name for revision in LEGACY}
    from_server = {row.name for row in ROWS if row.request and row.direction != "to_server"}
    assert from_server == {*QUESTIONS, "ping", "tasks/get", "tasks/result", "tasks/list", "tasks/cancel"}
    assert all(METHODS[name].revisions <= legacy for name in from_server)


def test_a_method_is_offered_by_its_capability() -> None:
    """A side answers what it declared, an empty declaration included, and what needs none."""
    some = t.ServerCapabilities(tools=t.ToolsCapability(), completions={}, resources=t.ResourcesCapability())
    offered = {
        name for name, row in METHODS.items() if row.request and row.direction != "to_client" and row.offered(some)
    }
    assert offered == {
        "initialize",
        "server/discover",
        "ping",
        "subscriptions/listen",
        "tools/list",
        "tools/call",
        "completion/complete",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
    for flag in (False, None):
        caps = t.ServerCapabilities(resources=t.ResourcesCapability(subscribe=flag))
        assert not METHODS["resources/subscribe"].offered(caps)
    assert METHODS["resources/subscribe"].offered(t.ServerCapabilities(resources=t.ResourcesCapability(subscribe=True)))
    assert METHODS["tasks/list"].offered(t.ServerCapabilities(tasks=t.TasksCapability(list={})))
    assert not METHODS["tasks/list"].offered(t.ServerCapabilities(tasks=t.TasksCapability()))


def test_questions_are_offered_by_the_clients_capabilities() -> None:
    """What a server asks needs the client's declaration."""
    client = t.ClientCapabilities(elicitation=t.ElicitationCapability())
    assert [name for name in QUESTIONS if METHODS[name].offered(client)] == ["elicitation/create"]


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_every_capability_is_one_that_exists(row: Method) -> None:
    """The capability of each row is a member of the side's capabilities."""
    if row.capability is None:
        return
    side = t.ClientCapabilities if row.direction == "to_client" else t.ServerCapabilities
    member, _, inner = row.capability.partition(".")
    assert member in side.__struct_fields__
    structs = {"resources": t.ResourcesCapability, "tasks": t.TasksCapability}
    assert not inner or inner in structs[member].__struct_fields__


# --- reading


def test_params_are_read_by_one_decoder_for_each_row() -> None:
    """`decode_params` is made once per row, takes bytes and Raw, and names the place of a fault."""
    row = METHODS["tools/call"]
    assert row.decode_params is row.decode_params
    for wire in (b'{"name":"a"}', msgspec.Raw(b'{"name":"a"}')):
        assert row.decode_params(wire) == t.CallToolParams("a")
    with pytest.raises(msgspec.ValidationError, match=r"\$\.name"):
        row.decode_params(b'{"name":1}')
    assert METHODS["tools/list"].decode_params(b"{}") == t.PaginatedParams()


def test_an_answer_is_read_by_its_row_and_keeps_its_bytes() -> None:
    """A result without `resultType`, or that is "complete", is the row's own result (RES-2)."""
    for wire in (b'{"content":[]}', b'{"content":[],"resultType":"complete"}', b'{"content":[],"resultType":null}'):
        result = METHODS["tools/call"].decode_result(wire)
        assert type(result) is t.CallToolResult
        assert result.raw == wire
    assert METHODS["ping"].decode_result(b"{}") == t.Result()


def test_an_answer_that_asks_is_read_where_the_method_may_ask() -> None:
    """`input_required` gives InputRequiredResult from the three methods that may ask, even beside `content` (MR-1)."""
    wire = b'{"resultType":"input_required","requestState":"s","content":[]}'
    for name in ("tools/call", "prompts/get", "resources/read"):
        assert METHODS[name].decode_result(wire) == t.InputRequiredResult(
            request_state="s", result_type="input_required"
        )
    with pytest.raises(InvalidResult, match="input_required"):
        METHODS["tools/list"].decode_result(b'{"resultType":"input_required","tools":[]}')


@pytest.mark.parametrize("kind", ["task", "partial", ""])
def test_an_answer_of_an_unknown_kind_is_refused(kind: str) -> None:
    """A `resultType` that the method has no word for is no result, however complete the rest looks (RES-2)."""
    wire = msgspec.json.encode({"resultType": kind, "content": []})
    with pytest.raises(InvalidResult, match=f"tools/call.*resultType '{kind}'"):
        METHODS["tools/call"].decode_result(wire)


@pytest.mark.parametrize("wire", [b"{}", b"[]", b"5", b'{"content":5}', b'{"content":[],"resultType":5}'])
def test_an_answer_that_does_not_fit_is_refused(wire: bytes) -> None:
    """An answer of another shape gives InvalidResult that names the method."""
    with pytest.raises(InvalidResult, match="tools/call"):
        METHODS["tools/call"].decode_result(wire)


def test_a_notification_has_no_answer() -> None:
    """Asking a notification's row to read an answer is refused."""
    with pytest.raises(InvalidResult, match="notifications/message"):
        METHODS["notifications/message"].decode_result(b"{}")
