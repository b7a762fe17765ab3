"""Era detection: what the probe's answers mean, and what follows from each."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from jackfield.client.client import Client
from jackfield.protocol.errors import ConnectionClosed, NotSupported, PeerError, RegistrationError, RequestTimeout
from jackfield.protocol.limits import Limits
from jackfield.protocol.types import Implementation
from jackfield.transport.process import Stdio
from tests.client.fakes import DISCOVERED, INITIALIZED, Fake, Fault, legacy, modern, text_result

SHORT = Limits(probe=0.05, start=0.2, request_timeout=5, grace=0.2)
META = "io.modelcontextprotocol/"


async def test_modern_server() -> None:
    """A DiscoverResult makes a modern conversation; the probe comes first and says who we are (ERA-S1, META-1)."""
    server = modern()
    async with Client(server, info=Implementation("tester", "7")) as client:
        assert client.revision == "2026-07-28"
        assert client.server == Implementation("fake", "1")
        assert client.capabilities.tools is not None
        assert client.instructions == "Be kind."
    assert server.methods() == ["server/discover"]
    assert server.asked("server/discover")[0]["_meta"] == {
        META + "protocolVersion": "2026-07-28",
        META + "clientInfo": {"name": "tester", "version": "7"},
        META + "clientCapabilities": {},
    }


async def test_server_that_says_who_it_is_in_the_body() -> None:
    """A server of an older draft names itself in the result's body; no name at all is fine too (RES-4)."""
    no_meta = {key: value for key, value in DISCOVERED.items() if key != "_meta"}
    async with Client(modern(server__discover=no_meta | {"serverInfo": {"name": "old", "version": "1"}})) as client:
        assert client.server == Implementation("old", "1")
    async with Client(modern(server__discover=no_meta | {"_meta": {META + "serverInfo": 7}})) as client:
        assert client.server is None


NO_MODERN_ANSWER = {
    "unknown method": Fault(-32601, "Method not found"),
    "invalid params": Fault(-32602, "Invalid request parameters"),
    "invalid request": Fault(-32600, "not initialized"),
    "a code of its own": Fault(-32000, "Bad Request: Server not initialized"),
    "positive code": Fault(7, "what?"),
    "another result": {},
    "a result that is no object": 7,
    "versions of a wrong type": DISCOVERED | {"supportedVersions": "2026-07-28"},
    "an unknown kind of result": DISCOVERED | {"resultType": "riddle"},
    "no result and no error": b'{"jsonrpc":"2.0","id":1}',
    "an error without an id": b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}',
    "an error with a null id": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}',
}


@pytest.mark.parametrize("answer", NO_MODERN_ANSWER.values(), ids=NO_MODERN_ANSWER)
async def test_any_other_answer_leads_to_initialize(answer: Any) -> None:
    """Whatever a legacy server answers to the probe, the handshake follows at once (ERA-S1, ERA-S2, F35)."""
    server = legacy(server__discover=answer)
    async with Client(server, limits=Limits(probe=3600)) as client:  # so that silence cannot be what leads there
        assert client.revision == "2025-11-25"
        assert client.server == Implementation("fake", "1")
        assert client.instructions == "Be kind."
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized"]
    params = server.asked("initialize")[0]
    assert params["protocolVersion"] == "2025-11-25"
    assert params["capabilities"] == {}
    assert params["clientInfo"]["name"] == "jackfield"
    assert "_meta" not in params


async def test_silence_leads_to_initialize() -> None:
    """A server that is silent at the probe is initialized after a short time; nothing is cancelled (F35, CAN-4)."""
    server = legacy(server__discover=Fake.SILENT)
    async with Client(server, limits=SHORT) as client:
        assert client.revision == "2025-11-25"
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized"]


async def test_late_discover_result_wins_over_a_pending_initialize() -> None:
    """A slow modern server is not taken for a legacy one: its DiscoverResult counts while initialize is unanswered."""
    server = modern(server__discover=Fake.SILENT, initialize=Fake.SILENT)
    connecting = asyncio.create_task(Client(server, limits=SHORT).connect())
    await server.until(lambda: "initialize" in server.methods())
    server.say({"id": server.heard[0]["id"], "result": DISCOVERED})
    await connecting
    assert server.methods() == ["server/discover", "initialize"]


async def test_late_discover_result_after_a_refused_initialize() -> None:
    """A slow modern server that refuses initialize is still waited for."""
    server = modern(server__discover=Fake.SILENT)
    client = Client(server, limits=SHORT)
    connecting = asyncio.create_task(client.connect())
    await server.until(lambda: "initialize" in server.methods())
    await asyncio.sleep(0)  # the refusal comes first
    server.say({"id": server.heard[0]["id"], "result": DISCOVERED})
    await connecting
    assert client.revision == "2026-07-28"


async def test_late_probe_answer_is_ignored_after_the_handshake() -> None:
    """Once initialize was answered the conversation is legacy, whatever the probe brings later (ERA-S2)."""
    server = legacy(server__discover=Fake.SILENT, tools__call=text_result("hi"))
    async with Client(server, limits=SHORT) as client:
        server.say({"id": server.heard[0]["id"], "result": DISCOVERED})
        assert client.revision == "2025-11-25"
        assert (await client.call_tool("a")).text == "hi"


@pytest.mark.parametrize("mode", ["auto", "legacy", "modern"])
async def test_server_that_never_answers(mode: str) -> None:
    """A server that answers nothing is given up after the time of one request (ERA-S3, F3)."""
    server = Fake({"server/discover": Fake.SILENT, "initialize": Fake.SILENT})
    limits = Limits(probe=0.02, request_timeout=0.05)
    with pytest.raises((RequestTimeout, NotSupported), match=r"initialize in time|did not answer server/discover"):
        await Client(server, mode=mode, limits=limits).connect()
    assert server.ends == server.starts == 1


async def test_version_retry() -> None:
    """-32022 names what the server speaks: one more try with a version that both know (DISC-3)."""
    asked: list[str] = []

    def discover(message: dict[str, Any]) -> Any:
        asked.append(message["params"]["_meta"][META + "protocolVersion"])
        return Fault(-32022, "no", {"supported": ["2025-11-25", "2027-01-01"], "requested": "2026-07-28"})

    server = legacy(server__discover=discover)
    async with Client(server) as client:
        assert client.revision == "2025-11-25"
    assert asked == ["2026-07-28"]


@pytest.mark.parametrize(
    ("supported", "why"),
    [(["2099-01-01"], "speaks 2099-01-01"), ([], "speaks nothing"), (["2026-07-28"], "refuses a request in it")],
)
async def test_modern_server_without_a_common_version(supported: list[str], why: str) -> None:
    """No version in common with a modern server is an error that names both; it is not initialized (ERA-S1)."""
    server = legacy(server__discover=Fault(-32022, "no", {"supported": supported, "requested": "2026-07-28"}))
    with pytest.raises(NotSupported, match=why):
        await Client(server).connect()
    assert server.methods() == ["server/discover"]
    assert server.ends == 1


async def test_modern_code_without_usable_data() -> None:
    """-32022 whose data cannot be read is still a modern server's word (ERA-S1)."""
    server = legacy(server__discover=Fault(-32022, "no", "2099"))
    with pytest.raises(NotSupported, match="nothing that can be read"):
        await Client(server).connect()
    assert server.methods() == ["server/discover"]


async def test_modern_server_that_wants_a_capability() -> None:
    """The other modern codes are the modern server's refusal, and no reason to initialize (ERA-S1)."""
    server = legacy(server__discover=Fault(-32021, "sampling needed", {"requiredCapabilities": {"sampling": {}}}))
    with pytest.raises(PeerError, match="sampling needed") as caught:
        await Client(server).connect()
    assert caught.value.code == -32021
    assert server.methods() == ["server/discover"]


async def test_discover_that_lists_legacy_versions_only() -> None:
    """A server that answers discover but speaks only older revisions is initialized with the best of them (ERA-S1)."""
    server = legacy(
        server__discover=DISCOVERED | {"supportedVersions": ["2025-03-26", "2025-06-18"]},
        initialize=INITIALIZED | {"protocolVersion": "2025-06-18"},
    )
    async with Client(server) as client:
        assert client.revision == "2025-06-18"
    assert server.asked("initialize")[0]["protocolVersion"] == "2025-06-18"


async def test_server_that_exits_on_the_probe() -> None:
    """A legacy server that ends when it hears the probe is started again and initialized directly (ERA-S2)."""
    server = legacy(server__discover=Fake.EXIT)
    async with Client(server) as client:
        assert client.revision == "2025-11-25"
    assert server.starts == server.ends == 2
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized"]


async def test_server_that_always_exits() -> None:
    """A server that ends whatever it hears is started twice, no more, and its end is the error."""
    server = Fake({"server/discover": Fake.EXIT, "initialize": Fake.EXIT})
    with pytest.raises(ConnectionClosed, match="exit code 1"):
        await Client(server).connect()
    assert server.starts == server.ends == 2


async def test_era_is_remembered_until_it_is_contradicted() -> None:
    """What a target was found to be is known to its next client; when it refuses that, it is probed anew (ERA-S4)."""
    server = legacy()
    for _ in range(2):
        async with Client(server):
            pass
    assert server.methods().count("server/discover") == 1
    server.heard.clear()
    server.answers = modern().answers
    for _ in range(2):
        async with Client(server) as client:
            assert client.revision == "2026-07-28"
    assert server.methods() == ["initialize", "server/discover", "server/discover"]


@pytest.mark.parametrize(("mode", "revision"), [("modern", "2026-07-28"), ("2026-07-28", "2026-07-28")])
async def test_forced_modern(mode: str, revision: str) -> None:
    """`mode` forces the modern era, or one revision of it: no handshake is ever tried."""
    async with Client(modern(), mode=mode) as client:
        assert client.revision == revision
    server = legacy()
    with pytest.raises(NotSupported, match=r"not a server of that era: .*method not found \(-32601\).*mode='auto'"):
        await Client(server, mode=mode).connect()
    assert server.methods() == ["server/discover"]


@pytest.mark.parametrize("name", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_forced_legacy_revision(name: str) -> None:
    """`mode` may name a legacy revision: that is what initialize asks for, without a probe (LIFE-1)."""
    server = legacy(initialize=lambda message: INITIALIZED | {"protocolVersion": message["params"]["protocolVersion"]})
    async with Client(server, mode=name) as client:
        assert client.revision == name
    assert server.methods() == ["initialize", "notifications/initialized"]


@pytest.mark.parametrize(
    ("offered", "why"),
    [
        ("2025-11-25", "speaks 2025-11-25; this client .mode='2025-06-18'. speaks 2025-06-18"),
        ("1999-01-01", "speaks 1999-01-01; this client .mode='2025-06-18'. speaks 2025-06-18"),
        ("2026-07-28", "answered initialize with 2026-07-28, a revision that has no handshake"),
    ],
)
async def test_forced_revision_that_the_server_does_not_speak(offered: str, why: str) -> None:
    """An offer of another revision than the forced one ends the attempt (LIFE-2)."""
    server = legacy(initialize=INITIALIZED | {"protocolVersion": offered})
    with pytest.raises(NotSupported, match=why):
        await Client(server, mode="2025-06-18").connect()
    assert server.ends == 1


async def test_forced_legacy_on_a_modern_only_server() -> None:
    """A refused handshake is an error that says how to reach the server."""
    with pytest.raises(NotSupported, match=r"refused the handshake: .*\(-32601\).*mode='auto'"):
        await Client(modern(), mode="legacy").connect()


@pytest.mark.parametrize("offered", ["2024-11-05", "2024-10-07", "2025-03-26", "2025-06-18"])
async def test_any_legacy_offer_is_accepted(offered: str) -> None:
    """Asked for the newest legacy revision, a server may offer any older one (LIFE-2)."""
    async with Client(legacy(initialize=INITIALIZED | {"protocolVersion": offered})) as client:
        assert client.revision == offered.replace("2024-10-07", "2024-11-05")


@pytest.mark.parametrize(
    ("offered", "why"),
    [
        ("2026-07-28", "answered initialize with 2026-07-28, a revision that has no handshake"),
        ("2030-01-01", "speaks 2030-01-01; this client .* speaks 2026-07-28, 2025-11-25"),
    ],
)
async def test_offer_that_is_refused(offered: str, why: str) -> None:
    """The modern revision is never taken from a handshake, which it does not have; an unknown one neither (LIFE-2)."""
    server = legacy(initialize=INITIALIZED | {"protocolVersion": offered})
    with pytest.raises(NotSupported, match=why):
        await Client(server).connect()
    assert "notifications/initialized" not in server.methods()


async def test_handshake_refused_for_its_version() -> None:
    """A server that refuses the revision and names its own is asked once more (LIFE-5)."""

    def initialize(message: dict[str, Any]) -> Any:
        if message["params"]["protocolVersion"] != "2024-11-05":
            return Fault(-32602, "Unsupported protocol version", {"supported": ["2024-11-05"], "requested": "x"})
        return INITIALIZED | {"protocolVersion": "2024-11-05"}

    async with Client(legacy(initialize=initialize)) as client:
        assert client.revision == "2024-11-05"


async def test_cancelled_while_connecting() -> None:
    """Who gives up connecting finds nothing left running; initialize is never cancelled (F3, F39, CAN-4)."""
    server = legacy(initialize=Fake.SILENT)
    client = Client(server)
    for round in range(1, 4):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await client.connect()
        assert server.starts == server.ends == round
    assert "notifications/cancelled" not in server.methods()


def test_unknown_mode() -> None:
    """A mode that there is not is refused at once, with the list of those that there are."""
    with pytest.raises(
        RegistrationError, match="mode='2025': it is 'auto', 'modern', 'legacy' or a revision: '2026-07-28'"
    ):
        Client(modern(), mode="2025")


SILENT_LEGACY = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells that the server has read the probe")
async def test_silent_process() -> None:
    """A process that read the probe and says nothing is initialized soon, not when its time to start is over (F35)."""
    async with Client(Stdio(sys.executable, "-c", SILENT_LEGACY), limits=Limits(probe=0.1, start=600)) as client:
        assert client.revision == "2025-06-18"


async def test_process_that_starts_slowly() -> None:
    """The probe's clock begins with the first sign of life, so a slow start is not taken for silence."""
    slow = SILENT_LEGACY.replace("import json, sys", "import json, sys, time\ntime.sleep(0.5)").replace(
        'if message["method"] == "initialize"', "if True"
    )
    stdio = Stdio(sys.executable, "-c", slow)
    heard: list[str] = []
    stdio.args = (stdio.args[0], stdio.args[1] + "    print(message['method'], file=sys.stderr, flush=True)\n")
    stdio.stderr = heard.append
    async with Client(stdio, limits=Limits(probe=0.2)) as client:
        assert client.revision == "2025-06-18"
    assert heard[:2] == ["server/discover", "initialize"]


async def test_process_that_exits_on_the_probe() -> None:
    """A real process that dies of the probe is started again (ERA-S2)."""
    fragile = SILENT_LEGACY.replace(
        "    if message", "    if 'discover' in message['method']: sys.exit(1)\n    if message"
    )
    async with Client(Stdio(sys.executable, "-c", fragile)) as client:
        assert client.revision == "2025-06-18"
