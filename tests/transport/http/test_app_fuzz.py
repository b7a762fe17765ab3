"""Whatever comes over HTTP is answered, and the server lives."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.asgi import MODERN, USUAL, Call, message, meta, modern, session

from .lab import Lab

TEXT = st.text(st.characters(max_codepoint=255), max_size=40)
USUAL_VALUES = {
    "host": ["localhost", "evil.example", "[::1]:80"],
    "origin": ["null", "http://localhost", "https://app.example"],
    "accept": ["*/*", "application/json", "text/event-stream;q=0"],
    "content-type": ["application/json", "text/plain", "application/json;charset=utf-8"],
    "content-length": ["5", "-1", "99999999999"],
    "content-encoding": ["gzip", "identity"],
    "authorization": ["Bearer x", "Bearer", "Basic eDp5"],
    "mcp-protocol-version": [MODERN, "2025-11-25", "2025-03-26", "v999.0.0", "1999-01-01"],
    "mcp-session-id": ["known", "unknown"],
    "mcp-method": ["tools/call", "tools/list"],
    "mcp-name": ["add", "=?base64?YWRk?="],
    "sec-fetch-site": ["cross-site", "none"],
    "access-control-request-method": ["POST"],
    "access-control-request-headers": ["mcp-param-x, x"],
}
HEADERS = st.dictionaries(st.sampled_from(sorted(USUAL_VALUES)), st.integers(0, 5) | TEXT, max_size=8)
BODIES = st.binary(max_size=60) | st.sampled_from(
    [
        message("tools/list"),
        message("tools/list", {"_meta": meta()}),
        message("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta()}),
        message("tools/call", {"name": "report", "arguments": {"steps": 2}, "_meta": meta(progressToken=1)}),
        message("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}),
        message("notifications/cancelled", {"requestId": 1}, None),
        message("ping", "protocolVersion"),
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"protocolVersion":'
        + b"[" * 50
        + b"]" * 50
        + b"}}}",
        b"[]",
    ]
)
STATUSES = {200, 202, 400, 401, 403, 404, 405, 406, 413, 415, 421}


@given(
    st.sampled_from(["POST", "POST", "POST", "GET", "DELETE", "OPTIONS"]),
    st.booleans(),
    HEADERS,
    BODIES,
    st.sampled_from([{}, {"cors": "*"}, {"loopback": True, "token": "x"}, {"stateless": True}]),
)
@settings(max_examples=300)
async def test_whatever_comes_is_answered(
    method: str, usual: bool, given_headers: dict[str, Any], body: bytes, options: dict[str, Any]
) -> None:
    """Any headers with any body get one whole answer with a status of the table, and the next call is served (T14)."""
    lab = Lab()
    app = lab.server.http_app(**options)
    plain = {"authorization": "Bearer x", "host": "localhost"}
    id = "none" if "stateless" in options else await session(app, **plain)
    headers = dict(USUAL) if usual else {}
    for name, value in given_headers.items():
        choices = USUAL_VALUES[name]
        headers[name] = value if isinstance(value, str) else choices[value % len(choices)]
    if headers.get("mcp-session-id") == "known":
        headers["mcp-session-id"] = id
    call = await Call(app, method, headers=[(n, v) for n, v in headers.items()], body=body).end()
    assert call.ended
    assert call.status in STATUSES
    assert call.headers["content-length"] == str(len(call.body))
    assert (await modern(app, "tools/list", **plain).end()).status == 200
