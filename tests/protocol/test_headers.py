"""Headers that repeat a request: their values, what the client sends, and what the server refuses."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from jackfield.protocol.errors import HEADER_MISMATCH, ProtocolError
from jackfield.protocol.headers import (
    Mark,
    decode_value,
    encode_value,
    mirrors,
    verify_marks,
    verify_request,
)

Json = dict[str, Any]
REVISION = "2026-07-28"
MARKS = (
    Mark("Region", ("region",), "string"),
    Mark("Count", ("count",), "integer"),
    Mark("Dry", ("dry",), "boolean"),
    Mark("Zone", ("place", "zone"), "string"),
)
LARGEST = 2**53 - 1

texts = st.text() | st.text(alphabet="=?base64 \tSGVsbG8\r\né")
arguments = st.fixed_dictionaries(
    {},
    optional={
        "region": st.none() | texts,
        "count": st.none() | st.integers(-LARGEST, LARGEST),
        "dry": st.none() | st.booleans(),
        "place": st.none() | st.fixed_dictionaries({}, optional={"zone": st.none() | texts}),
        "note": texts,
    },
)


def wrapped(data: bytes | str) -> str:
    data = data if isinstance(data, bytes) else data.encode()
    return f"=?base64?{base64.b64encode(data).decode()}?="


def received(headers: dict[str, str]) -> dict[str, str]:
    """Headers as a server sees them: lower-case names, outer spaces gone."""
    return {name.lower(): value.strip(" \t") for name, value in headers.items()}


def sent(method: str, params: Json, marks: tuple[Mark, ...] = ()) -> dict[str, str]:
    return mirrors(method, json.dumps(params).encode(), marks)


def headers_of(method: str, name: str | None = None) -> dict[str, str]:
    found = {"mcp-protocol-version": REVISION, "mcp-method": method}
    return found if name is None else {**found, "mcp-name": name}


def refused(check: Any, *details: Any) -> str:
    with pytest.raises(ProtocolError) as caught:
        check(*details)
    assert caught.value.code == HEADER_MISMATCH
    return caught.value.message


def refused_call(headers: dict[str, str], given: Any, *marks: Mark) -> str:
    return refused(verify_marks, headers, marks or MARKS, json.dumps(given).encode())


class TestValues:
    @given(texts)
    def test_every_text_comes_back(self, text: str) -> None:
        """What is encoded decodes to the same text (ENC-1, ENC-2, ENC-4)."""
        assert decode_value(encode_value(text)) == text

    @given(texts)
    def test_what_is_encoded_is_a_legal_header(self, text: str) -> None:
        """No line end, control character, other script or outer space ever stands in a header (ENC-2, T10)."""
        value = encode_value(text)

        assert all(" " <= character <= "~" for character in value)
        assert value == value.strip()

    @pytest.mark.parametrize(
        ("value", "header"),
        [
            ("us-west1", "us-west1"),
            ("us west 1", "us west 1"),
            ("", ""),
            (42, "42"),
            (-7, "-7"),
            (LARGEST, "9007199254740991"),
            (True, "true"),
            (False, "false"),
            ("=?base64?open", "=?base64?open"),
            ("open?=", "open?="),
        ],
    )
    def test_plain_values_stand_as_they_are(self, value: Any, header: str) -> None:
        """Texts of visible characters and inner spaces, decimals, true and false are not wrapped (ENC-1, ENC-3)."""
        assert encode_value(value) == header

    @pytest.mark.parametrize(
        "value",
        [
            *("Hello, 世界", " padded ", " a", "a ", "a\nb", "a\r\nb", "\ta", "a\tb", "a\x7fb", "a\x00"),
            *("=?base64?SGVsbG8=?=", "=?base64??=", "=?base64?=", "=?base64?a\r\nb?="),
        ],
    )
    def test_all_others_are_wrapped(self, value: str) -> None:
        """Other characters, tabs, outer spaces and what looks wrapped are sent as base64 of UTF-8 (ENC-2, ENC-3)."""
        assert encode_value(value) == wrapped(value)

    @pytest.mark.parametrize("value", [LARGEST + 1, -LARGEST - 1, 10**400, "\ud800"])
    def test_what_no_header_can_say(self, value: Any) -> None:
        """Integers beyond 2**53 - 1 and half a surrogate pair are no value of a header (XH-1)."""
        with pytest.raises(ValueError):
            encode_value(value)

    @pytest.mark.parametrize(
        "header",
        [
            *("=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?SGVs bG8=?=", "=?base64?SGVsbG8==?="),
            *("=?base64?SGVsbG8=SGVsbG8=?=", "=?base64?é?=", wrapped(b"\xff"), wrapped(b"\xed\xa0\x80")),
            *("é", "a\x01b", "a\nb"),
        ],
    )
    def test_what_cannot_be_decoded(self, header: str) -> None:
        """No padding, foreign characters, no UTF-8, or characters that must be wrapped: refused (ENC-4)."""
        with pytest.raises(ValueError):
            decode_value(header)

    @pytest.mark.parametrize(
        ("header", "text"),
        [
            ("=?base64?SGVsbG8=?=", "Hello"),
            ("=?base64??=", ""),
            ("\t =?base64?SGVsbG8=?= ", "Hello"),
            ("  Hello\t", "Hello"),
            ("a\tb", "a\tb"),
            ("SGVsbG8=", "SGVsbG8="),
            ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
            ("SGVsbG8=?=", "SGVsbG8=?="),
            ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
            ("=?base64?=", "=?base64?="),
        ],
    )
    def test_what_is_decoded(self, header: str, text: str) -> None:
        """Outer spaces and tabs go; a value that lacks either marker is literal (HDR-1, ENC-4)."""
        assert decode_value(header) == text


class TestMirrors:
    def test_each_method_repeats_what_it_names(self) -> None:
        """Mcp-Method is in every request, Mcp-Name where the method names something (HDR-3)."""
        assert sent("tools/list", {"name": "x"}) == {"Mcp-Method": "tools/list"}
        assert sent("tools/call", {"name": "add"}) == {"Mcp-Method": "tools/call", "Mcp-Name": "add"}
        assert sent("prompts/get", {"name": "é"})["Mcp-Name"] == wrapped("é")
        assert sent("resources/read", {"uri": "a://b", "name": "x"})["Mcp-Name"] == "a://b"
        assert sent("tools/call", {"name": 5}) == {"Mcp-Method": "tools/call"}

    def test_marked_arguments(self) -> None:
        """A marked argument has its own header, taken from its place alone (XH-4)."""
        given = {"region": "eu west", "count": 42, "dry": False, "place": {"zone": "ö", "region": "no"}, "x": 1}

        assert sent("tools/call", {"name": "t", "arguments": given}, MARKS) == {
            "Mcp-Method": "tools/call",
            "Mcp-Name": "t",
            "Mcp-Param-Region": "eu west",
            "Mcp-Param-Count": "42",
            "Mcp-Param-Dry": "false",
            "Mcp-Param-Zone": wrapped("ö"),
        }

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"region": None, "place": None},
            {"place": {}, "count": LARGEST + 1},
            {"place": "text", "region": [1], "count": 1.5, "dry": {}},
            [],
            "text",
            None,
        ],
    )
    def test_no_header_for_what_is_not_there(self, given: Any) -> None:
        """Absent and null arguments, and those that no header can repeat, have none (XH-1, XH-4)."""
        headers = sent("tools/call", {"name": "t", "arguments": given}, MARKS)

        assert headers == {"Mcp-Method": "tools/call", "Mcp-Name": "t"}

    def test_a_mark_never_takes_the_place_of_another_header(self) -> None:
        """A mark called Method is Mcp-Param-Method, and the method stays what it is (XH-4)."""
        headers = sent("tools/call", {"name": "t", "arguments": {"m": "x"}}, (Mark("Method", ("m",), "string"),))

        assert headers["Mcp-Method"] == "tools/call"
        assert headers["Mcp-Param-Method"] == "x"

    @pytest.mark.parametrize("method", ["a\r\nX: y", "é", " a", "a\t"])
    def test_a_method_that_is_no_header(self, method: str) -> None:
        """A method of such a name is not sent (T10)."""
        with pytest.raises(ValueError, match="method"):
            mirrors(method, b"{}")

    @given(st.sampled_from(["tools/call", "prompts/get", "resources/read"]), texts, arguments)
    def test_the_server_takes_what_the_client_says(self, method: str, name: str, given: Json) -> None:
        """Every request of our client passes the server's check (HDR-2, XH-4, XH-5)."""
        params = {"name": name, "uri": name, "arguments": given}
        headers = received(sent(method, params, MARKS)) | {"mcp-protocol-version": REVISION}

        verify_request(headers, REVISION, method, name)
        verify_marks(headers, MARKS if method == "tools/call" else (), json.dumps(given).encode())


class TestVerifyRequest:
    @pytest.mark.parametrize("name", ["add", "  add\t", "=?base64?YWRk?=", " =?base64?YWRk?="])
    def test_what_says_the_same(self, name: str) -> None:
        """A padded or wrapped value says what it stands for (HDR-1, HDR-2)."""
        headers = {**headers_of(" tools/call ", name), "mcp-protocol-version": f"{REVISION} "}

        verify_request(headers, REVISION, "tools/call", "add")

    @pytest.mark.parametrize("header", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
    @pytest.mark.parametrize("value", [None, "", "other", "ADD", "TOOLS/CALL", "=?base64?YQ?=", "add, add"])
    def test_one_that_differs(self, header: str, value: str | None) -> None:
        """One header that is missing, undecodable or different is refused, and named with both values (HDR-3, T09)."""
        headers: Any = {**headers_of("tools/call", "add"), header.lower(): value}
        if value is None:
            del headers[header.lower()]

        message = refused(verify_request, headers, REVISION, "tools/call", "add")

        expected = {"MCP-Protocol-Version": REVISION, "Mcp-Method": "tools/call", "Mcp-Name": "add"}[header]
        assert header in message
        assert f"'{expected}'" in message
        assert ("is missing" if value is None else f"'{value}'") in message

    @given(
        st.sampled_from(["tools/call", "prompts/get", "resources/read"]),
        texts,
        st.sampled_from(["version", "method", "name", "headers"]),
        texts,
    )
    def test_any_disagreement(self, method: str, name: str, field: str, other: str) -> None:
        """Whichever field of the body differs from the headers, the request is refused (T09)."""
        headers = received(mirrors(method, json.dumps({"name": name, "uri": name}).encode()))
        headers["mcp-protocol-version"] = REVISION
        body = {"version": REVISION, "method": method, "name": name}
        if field == "headers":
            headers["mcp-name"] = encode_value(name + "x")
        else:
            # A method with another kind of name, or none, may not pass either.
            body[field] = other if other.strip(" \t") != body[field].strip(" \t") else other + "x"

        refused(verify_request, headers, body["version"], body["method"], body["name"])

    @pytest.mark.parametrize("name", ["=?base64?SGVsbG8=?=", " a", "a ", "é", "a\x01"])
    def test_equal_is_not_the_same(self, name: str) -> None:
        """A raw value that a proxy reads otherwise is refused, though it equals the name in the body (ENC-4, T09)."""
        assert "Mcp-Name" in refused(verify_request, headers_of("tools/call", name), REVISION, "tools/call", name)

    def test_other_methods_have_no_name(self) -> None:
        """Mcp-Name counts for the methods that name something alone; there it needs a name in the body (HDR-3)."""
        verify_request(headers_of("tasks/get", "t1"), REVISION, "tasks/get", None)
        verify_request(headers_of("tools/call"), REVISION, "tools/call", None)

        assert "absent" in refused(verify_request, headers_of("tools/call", "x"), REVISION, "tools/call", None)

    def test_what_is_shown_is_printable(self) -> None:
        """Values of a peer are cut and escaped in the message."""
        message = refused(verify_request, headers_of("\x1b[31m" + "a" * 9999), REVISION, "tools/list", None)

        assert message.isprintable()
        assert len(message) < 600


class TestVerifyMarks:
    @given(arguments, st.sampled_from(MARKS), st.data())
    def test_any_disagreement(self, given: Json, mark: Mark, data: st.DataObject) -> None:
        """A header that is added, left out or changed is refused, whatever the other fields say (XH-5, T09)."""
        headers = received(sent("tools/call", {"name": "t", "arguments": given}, MARKS))
        name = mark.header.lower()
        if name not in headers:
            headers[name] = data.draw(st.just("") | texts.map(encode_value))
        elif data.draw(st.booleans()):
            del headers[name]
        else:
            headers[name] = encode_value(decode_value(headers[name]) + "1")

        message = refused_call(headers, given)

        assert mark.header in message
        assert ".".join(mark.path) in message

    @pytest.mark.parametrize("body", ["42", "42.0", "4.2e1"])
    @pytest.mark.parametrize("header", ["42", "42.0", " 42.000 ", "4.2e1", "420e-1", "=?base64?NDI=?="])
    def test_numbers_compare_by_value(self, header: str, body: str) -> None:
        """42.0 is 42, in the header and in the body (HDR-2)."""
        verify_marks({"mcp-param-count": header}, (MARKS[1],), f'{{"count":{body}}}'.encode())

    @pytest.mark.parametrize(
        "header",
        ["43", "42.1", "42.0000000000000000001", "4_2", "0x2a", "٤٢", "+42", "42 2", "", "inf", "nan", "1e999"],
    )
    def test_other_numbers(self, header: str) -> None:
        """What is no number, or not quite that one, is refused (HDR-2)."""
        assert "Mcp-Param-Count" in refused_call({"mcp-param-count": header}, {"count": 42}, MARKS[1])

    def test_numbers_are_not_rounded(self) -> None:
        """Two numbers that are one as floats are two (HDR-2)."""
        refused_call({"mcp-param-count": f"{LARGEST}.1"}, {"count": LARGEST}, MARKS[1])

    @pytest.mark.parametrize(
        ("value", "header"), [(True, "True"), (True, "1"), (False, "0"), (False, ""), ("1", "1.0")]
    )
    def test_booleans_and_texts_compare_as_text(self, value: Any, header: str) -> None:
        """Booleans are true and false, in small letters, and digits in a text are no number (HDR-2)."""
        refused_call({"mcp-param-x": header}, {"x": value}, Mark("X", ("x",), "boolean"))

    @pytest.mark.parametrize("value", [7, True, "seven"])
    @pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
    def test_the_header_says_what_the_body_says(self, value: Any, kind: str) -> None:
        """A value of another type than declared passes with its own header: its type is the tool's to judge (XH-5)."""
        mark = Mark("X", ("x",), kind)

        verify_marks({"mcp-param-x": encode_value(value)}, (mark,), json.dumps({"x": value}).encode())
        assert "is missing" in refused_call({}, {"x": value}, mark)

    @pytest.mark.parametrize("value", [LARGEST + 1, -LARGEST - 1, 1e300, 10**30, 1.5, [], ["a"], {}, {"a": 1}])
    @pytest.mark.parametrize("headers", [{}, {"mcp-param-count": "1"}, {"mcp-param-count": str(LARGEST + 1)}])
    def test_what_no_header_can_repeat(self, value: Any, headers: dict[str, str]) -> None:
        """Numbers beyond 2**53 - 1 or with a fraction, arrays and objects are refused, header or not (XH-1)."""
        assert "no header can repeat" in refused_call(headers, {"count": value}, MARKS[1])

    @pytest.mark.parametrize("given", ['{"region":"eu"}', [], 5, {"place": '{"zone":"a"}'}, {"place": ["a"]}])
    def test_what_might_be_mended_on_the_way(self, given: Any) -> None:
        """A text where an object belongs could hide a value from the comparison, so it is refused (XH-5, T09)."""
        refused_call({}, given)

    @pytest.mark.parametrize("given", [UNSET, b"null", b"{}", Raw(b'{"region":null,"place":null}'), b'{"place":{}}'])
    def test_nothing_said_nothing_expected(self, given: Any) -> None:
        """Absent and null arguments need no header, and none may be there (XH-5)."""
        verify_marks({"mcp-param-other": "x", "mcp-method": "tools/call"}, MARKS, given)

        for header in ("", "null", "eu"):
            message = refused(verify_marks, {"mcp-param-region": header}, MARKS, given)
            assert f"'{header}'" in message
            assert "absent" in message

    def test_an_empty_text_has_an_empty_header(self) -> None:
        """An empty value is a value: its header is there, and empty (ENC-3)."""
        verify_marks({"mcp-param-region": ""}, MARKS, b'{"region":""}')
        refused_call({}, {"region": ""})

    @pytest.mark.parametrize("leaf", [b"1e999", b"9" * 5000, b'"\\ud800"', b'"\xff"'])
    def test_what_cannot_be_read(self, leaf: bytes) -> None:
        """A value that is no JSON after all is refused, not an error of ours."""
        refused(verify_marks, {"mcp-param-region": "x"}, MARKS, b'{"region":' + leaf + b"}")

    def test_no_marks_no_work(self) -> None:
        """Headers that no mark names are ignored (HDR-4)."""
        verify_marks({"mcp-param-region": "x"}, (), b"no JSON")
