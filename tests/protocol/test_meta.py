"""The grammar of `_meta` keys and extension names, and traces in the words of the W3C."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol.errors import RegistrationError
from jackfield.protocol.meta import (
    Trace,
    check_call_meta,
    check_extensions,
    check_meta,
    is_extension,
    key_fault,
    negotiated,
    read_trace,
    trace_of,
)

RESERVED = "io.modelcontextprotocol/"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class TestKeys:
    @pytest.mark.parametrize(
        "key",
        [
            "a",
            "A1",
            "a.b_c-d",
            "com.example/",
            "com.example/x",
            "a/b",
            "x-1.y2/z",
            "ui",
            "mcp/x",
            "com.example.mcp/x",
            "openai/a/b",
        ],
    )
    def test_keys_of_the_grammar(self, key: str) -> None:
        """Labels with dots between them and a slash, or no prefix; then a name, which may be empty (META-6)."""
        assert key_fault(key) is None

    @pytest.mark.parametrize(
        "key",
        [
            "",
            "_a",
            "a_",
            "-a",
            "a b",
            "1a/x",
            "a-/x",
            "a..b/x",
            ".a/x",
            "a./x",
            "/x",
            "a/b/",
            "a//b",
            "a/-b",
            "ä",
            "a\n",
            5,
        ],
    )
    def test_keys_outside_the_grammar(self, key: object) -> None:
        """What begins or ends with another sign, or has a slash too many, is refused and shown (META-6)."""
        fault = key_fault(key)
        assert fault is not None
        assert repr(key) in fault

    @pytest.mark.parametrize(
        "key", [f"{RESERVED}x", "dev.mcp/x", "org.mcp.tools/x", "IO.ModelContextProtocol/x", "io.modelcontextprotocol/"]
    )
    def test_reserved_prefixes(self, key: str) -> None:
        """A prefix whose second label is the protocol's own is for no author (META-6)."""
        assert "keeps to itself" in (key_fault(key) or "")

    def test_keys_of_a_declared_extension(self) -> None:
        """Who speaks an official extension may use the keys that belong to it, and no others (META-6, CAP-4)."""
        own = ["io.modelcontextprotocol/skills"]
        assert key_fault("io.modelcontextprotocol/skills", own) is None
        assert key_fault("io.modelcontextprotocol.skills/digest", own) is None
        assert key_fault("io.modelcontextprotocol.skillset/digest", own) is not None
        assert key_fault("io.modelcontextprotocol/tasks", own) is not None
        assert key_fault("io.modelcontextprotocol.skills/-", own) is not None

    def test_the_definition_is_named(self) -> None:
        """The error at registration names the definition and the key (META-6)."""
        check_meta({"a": 1, "b/c": 2}, "tool 'x'")
        with pytest.raises(RegistrationError, match=r"tool 'x': the key '_b' of `_meta`"):
            check_meta({"a": 1, "_b": 2}, "tool 'x'")


class TestKeysOfACall:
    @pytest.mark.parametrize(
        "meta",
        [
            {"com.example/x": [1]},
            {f"{RESERVED}logLevel": "error"},
            {"traceparent": PARENT, "tracestate": "a=1", "baggage": "k=v"},
        ],
    )
    def test_what_a_caller_may_set(self, meta: dict[str, Any]) -> None:
        """Keys of its own, the log level and the trace (META-2, META-6)."""
        check_call_meta(meta)

    @pytest.mark.parametrize(
        ("key", "value", "why"),
        [
            ("progressToken", 1, "write progress="),
            (f"{RESERVED}protocolVersion", "2026-07-28", "keeps to itself"),
            (f"{RESERVED}subscriptionId", 1, "keeps to itself"),
            (f"{RESERVED}logLevel", "loud", "no log level"),
            (f"{RESERVED}logLevel", ["error"], "no log level"),
            ("traceparent", "00-1-2-01", "W3C format"),
            ("baggage", 5, "W3C format"),
            ("not ok", 1, "outside the grammar"),
        ],
    )
    def test_what_a_caller_may_not_set(self, key: str, value: Any, why: str) -> None:
        """The client's own keys, reserved ones and bad values are a ValueError that names the key (META-6, META-7)."""
        with pytest.raises(ValueError, match=why) as caught:
            check_call_meta({key: value})
        assert key in str(caught.value) or str(value) in str(caught.value)


class TestExtensions:
    @pytest.mark.parametrize(
        ("id", "good"),
        [
            ("com.example/colours", True),
            ("io.modelcontextprotocol/ui", True),
            ("example/x.y", True),
            ("colours", False),
            ("com.example/", False),
            ("/colours", False),
            ("com.example/a/b", False),
            ("com..example/a", False),
            ("", False),
            (None, False),
        ],
    )
    def test_names(self, id: object, good: bool) -> None:
        """A name has a prefix, one slash and a name (CAP-4)."""
        assert is_extension(id) is good

    def test_settings_are_taken_as_they_are_now(self) -> None:
        """The settings are copied as JSON, so that changing the dict later changes nothing that was declared."""
        settings: dict[str, Any] = {"a": (1, {"b": None})}
        found = check_extensions({"com.example/x": settings, "com.example/y": {}})
        settings["a"] = 2
        assert found == {"com.example/x": {"a": [1, {"b": None}]}, "com.example/y": {}}

    @pytest.mark.parametrize(
        ("extensions", "why"),
        [
            (["com.example/x"], "is a dict of names and settings"),
            ("com.example/x", "is a dict of names and settings"),
            ({"x": {}}, "'x' has no name of the form 'prefix/name'"),
            ({"com.example/x": True}, "'com.example/x' are no JSON object"),
            ({"com.example/x": None}, "'com.example/x' are no JSON object"),
            ({"com.example/x": {"a": object()}}, "'com.example/x' are no JSON object"),
            ({"com.example/x": {"a": "\ud800"}}, "'com.example/x' are no JSON object"),
        ],
    )
    def test_what_cannot_be_declared(self, extensions: object, why: str) -> None:
        """A bad name, or settings that are no object, is an error at once, which names it (CAP-4)."""
        with pytest.raises(RegistrationError, match=why):
            check_extensions(extensions)

    def test_both_must_have_declared_it(self) -> None:
        """One side alone is nothing, and settings that are no object declare nothing (CAP-4)."""
        own = {"a/x": {"mine": 1}, "a/y": {}, "a/z": {}}
        assert negotiated(own, {"a/x": {"theirs": 1}, "a/z": True, "a/other": {}}) == {"a/x": {"theirs": 1}}
        assert negotiated(own, None) == {}
        assert negotiated(None, {"a/x": {}}) == {}


class TestTrace:
    def test_the_parts(self) -> None:
        """A trace has its id, the step before, and whether that is recorded (TRC-1)."""
        found = trace_of({"traceparent": PARENT, "tracestate": "a=1,b@c=x y", "baggage": "k=v;p=1", "other": "x"})
        assert found == Trace(PARENT, "a=1,b@c=x y", "k=v;p=1")
        assert (found.trace_id, found.parent_id) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
        assert found.sampled is True
        assert trace_of({"traceparent": f"{PARENT[:-2]}02"}) == Trace(f"{PARENT[:-2]}02")
        assert Trace(f"{PARENT[:-2]}02").sampled is False

    def test_what_goes_on_to_others(self) -> None:
        """Baggage, which anybody may have filled, is no part of what is handed on (TRC-1)."""
        assert Trace(PARENT, "a=1", "secret=1").carrier == {"traceparent": PARENT, "tracestate": "a=1"}
        assert Trace(PARENT).carrier == {"traceparent": PARENT}

    def test_baggage_alone(self) -> None:
        """Baggage needs no trace; a trace state without one says nothing (TRC-1)."""
        found = trace_of({"tracestate": "a=1", "baggage": "k=v"})
        assert found == Trace(baggage="k=v")
        assert (found.trace_id, found.parent_id, found.sampled, found.carrier) == (None, None, False, {})
        assert trace_of({"tracestate": "a=1"}) is None
        assert trace_of({}) is None

    @pytest.mark.parametrize(
        "value",
        [
            "",
            PARENT.upper(),
            PARENT[:-1],
            f"{PARENT}-more",
            f" {PARENT}",
            f"{PARENT}\n",
            f"ff{PARENT[2:]}",
            f"00-{'0' * 32}-b7ad6b7169203331-01",
            f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
            PARENT.replace("0af", "0ag"),
            PARENT.replace("-", "_"),
            f"01{PARENT[2:]}more",
            f"01{PARENT[2:]}-{'x' * 9000}",
            5,
            None,
            [PARENT],
            PARENT.encode(),
        ],
    )
    def test_a_parent_that_is_none(self, value: object) -> None:
        """Another length, sign, version or an id of zeros counts as absent, and so does its state (TRC-1)."""
        assert trace_of({"traceparent": value, "tracestate": "a=1"}) is None

    def test_a_later_version_of_a_parent(self) -> None:
        """Of a version to come the known part is read, whatever follows it (TRC-1)."""
        later = f"01{PARENT[2:]}-what.comes"
        assert trace_of({"traceparent": later}) == Trace(later)
        assert Trace(later).trace_id == PARENT[3:35]

    @pytest.mark.parametrize(
        ("state", "good"),
        [
            ("a=1", True),
            ("1tenant@vendor=x-y z!", True),
            (" a=1 ,, b=2\t,", True),
            (",".join([f"k{n}=v" for n in range(32)]), True),
            (f"a={'x' * 256}", True),
            (",".join([f"k{n}=v" for n in range(33)]), False),
            (f"a={'x' * 257}", False),
            (",".join([f"{n}{'k' * 250}={'v' * 250}" for n in range(20)]), False),
            ("a=1,a=2", False),
            ("A=1", False),
            ("a", False),
            ("a=", False),
            ("a=b=c", False),
            ("a=\x7f", False),
            ("a=ä", False),
            ("", False),
            (",", False),
            (7, False),
        ],
    )
    def test_the_state(self, state: object, good: bool) -> None:
        """A state that has no W3C format, or over 32 members or 8192 characters, counts as absent (TRC-1)."""
        assert trace_of({"traceparent": PARENT, "tracestate": state}) == Trace(PARENT, str(state) if good else None)

    @pytest.mark.parametrize(
        ("baggage", "good"),
        [
            ("k=v", True),
            ("k=", True),
            ("k = v%20w , l=2;p;q = 3", True),
            (",".join([f"k{n}=v" for n in range(64)]), True),
            (f"k={'v' * 8190}", True),
            (",".join([f"k{n}=v" for n in range(65)]), False),
            (f"k={'v' * 8191}", False),
            ("k", False),
            ("k=v w", False),
            ('k="v"', False),
            ("k=v;", False),
            ("k=v,,l=w", False),
            ("k(=v", False),
            ("k=ä", False),
            ("k=v\r\nX-Other: 1", False),
            ("", False),
            ({"k": "v"}, False),
        ],
    )
    def test_the_baggage(self, baggage: object, good: bool) -> None:
        """Baggage that has no W3C format, or over 64 members or 8192 characters, counts as absent (TRC-1)."""
        assert trace_of({"baggage": baggage}) == (Trace(baggage=str(baggage)) if good else None)

    @given(st.dictionaries(st.sampled_from(["traceparent", "tracestate", "baggage"]), st.text() | st.integers()))
    def test_nothing_is_a_fault(self, values: dict[str, object]) -> None:
        """Whatever stands there, reading raises nothing, and what is read stays what it was (TRC-1)."""
        found = trace_of(values)
        if found is not None:
            kept = {"traceparent": found.traceparent, "tracestate": found.tracestate, "baggage": found.baggage}
            assert trace_of(kept) == found

    @pytest.mark.parametrize("long", ["a" * 8192, "a=b," * 2048, "a=b;" * 2048, "k=" + "," * 8190, "\t" * 8192])
    def test_hostile_values_end(self, long: str) -> None:
        """Long values that nearly fit take no longer than they are (TRC-1)."""
        assert trace_of({"traceparent": long, "tracestate": long, "baggage": long}) is None

    def test_from_the_bytes_of_meta(self) -> None:
        """It is read from `_meta` as it came; what is no object has none (TRC-1)."""
        assert read_trace(f'{{"traceparent":"{PARENT}","x":1,"baggage":[1]}}'.encode()) == Trace(PARENT)
        assert read_trace(b'{"traceparent":null}') is None
        assert read_trace(b"[1]") is None
        assert read_trace(b"") is None
