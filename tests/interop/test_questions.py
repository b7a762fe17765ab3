"""Questions across toolkits: our server asks other people's clients, and their servers ask our client, in both eras."""

import contextlib
import functools
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import peers
from bench.web import Site
from jackfield import Client, ClientQuestion, PeerError, Stdio
from jackfield.client import retrying
from jackfield.servers.planner import example

ERAS = ["modern", "legacy"]
CLIENTS = ["asked_official.py", "asked_fastmcp.py", "asked_typescript.mjs"]
LISTENING = [
    (client, era, over_stdio)
    for client in ("asked_official.py", "asked_typescript.mjs")
    for era, over_stdio in (("modern", True), ("modern", False), ("legacy", True))
]
"""FastMCP's client cannot listen; a legacy one over HTTP would need the stream of GET, which we do not have yet."""
PAGE = "https://example.com/agree"
MOTTO = "resource://motto"

Step = dict[str, Any]

each_era = pytest.mark.parametrize("era", ERAS)
each_transport = pytest.mark.parametrize("transport", ["stdio", "http"])

# ---- our server, their clients

ASKING = [sys.executable, "-m", "jackfield", "run", peers.script("asking_ours.py")]
ENV = os.environ | {"PYTHONPATH": str(peers.ROOT / "src")}

YES = {"action": "accept", "content": {"sure": True, "why": "it rains"}}
BRIEF = {"action": "accept", "content": {"sure": False}}
NO, CANCEL = {"action": "decline"}, {"action": "cancel"}
OUTCOMES = [
    (YES, "a: accept True it rains"),
    (BRIEF, "a: accept False no reason"),
    (NO, "a: decline"),
    (CANCEL, "a: cancel"),
]


def call(tool: str, answer: Any = None, /, **arguments: Any) -> Step:
    """A step of a peer's client: call a tool, and give this answer to whatever is asked."""
    return {"do": "call", "name": tool, "arguments": arguments, "answer": answer or NO}


def peer(script: str) -> list[str]:
    """The command line of a peer's script."""
    return peers.node_script(script) if script.endswith(".mjs") else [peers.python(), peers.script(script)]


def outcomes(client: str, era: str, server: list[str], steps: list[Step], **variables: str) -> list[dict[str, Any]]:
    """What a peer's client saw that did these steps at a server of ours, given by its URL or its command line."""
    command = [*peer(client), era, json.dumps(steps), *server]
    done = subprocess.run(command, env=ENV | variables, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FORMS = [call(name, answer, name="a") for name in ("resolved", "asked", "blocking") for answer, _ in OUTCOMES]
STEPS = [
    *FORMS,
    {"do": "prompt", "name": "letter", "arguments": {"name": "a"}, "answer": YES},
    {"do": "resource", "name": "note://a", "answer": YES},
    call("needed", YES, name="a"),
    call("needed", NO, name="a"),
    call("twice", YES, name="a"),
    call("thinks"),
    call("looks"),
    call("visits", {"action": "accept"}),
    call("demands"),
]


@functools.cache
def everything(client: str, era: str, url: str | None) -> list[dict[str, Any]]:
    """What a peer's client saw at our asking server, where it can listen with what it heard at the end."""
    listens = (client, era, url is None) in LISTENING
    steps = [*STEPS, {"do": "listen", "name": MOTTO, "calls": ["touch", "grow", "touch"]}] if listens else STEPS
    return outcomes(client, era, ASKING if url is None else [url], steps)


@pytest.mark.parametrize("client", CLIENTS)
@each_era
@each_transport
def test_our_server_asks_a_peers_client(client: str, era: str, transport: str, asking: str) -> None:
    """Bodies that ask by Resolve, by `ctx.elicit` and by `ctx.sync.elicit` are answered alike: yes, no and cancel."""
    said = iter(everything(client, era, asking if transport == "http" else None))
    for text in [text for _ in range(3) for _, text in OUTCOMES]:
        assert answered(next(said)) == (text, False, ["Overwrite a?"])
    for _ in ("prompt", "resource"):
        assert answered(next(said)) == ("a: accept True it rains", False, ["Overwrite a?"])
    assert answered(next(said)) == ("a: True it rains", False, ["Overwrite a?"])
    text, failed, _ = answered(next(said))
    assert (failed, "declined" in text) == (True, True)
    assert answered(next(said)) == ("accept accept accept", False, ["Forget a?", "Overwrite a?", "Really a?"])
    model = next(said)
    assert (model["text"], model["asked"][0]["messages"][0]["content"]["text"]) == ("Paris", "The capital of France?")
    assert next(said)["text"] == "file:///work"
    page = next(said)
    assert (page["text"], page["asked"][0]["mode"], page["asked"][0]["url"]) == ("accept", "url", PAGE)
    demanded = next(said)  # an error that the client's user sees in the one era, a question in the other
    assert demanded["code"] == -32042 if era == "legacy" else demanded["failed"]


@pytest.mark.parametrize(("client", "era", "over_stdio"), LISTENING)
def test_a_peers_client_listens_to_our_server(client: str, era: str, over_stdio: bool, asking: str) -> None:
    """It hears of a resource and of the list of tools, each as it changes (SUB-1, SUB-3, RSC-6, TOOL-11)."""
    heard = everything(client, era, None if over_stdio else asking)[-1]["heard"]
    assert heard == [f"resource {MOTTO}", "tools", f"resource {MOTTO}"]


def answered(outcome: dict[str, Any]) -> tuple[str, bool, list[str]]:
    """The text of a result, whether it is a failure, and what was asked for it, sorted."""
    for question in outcome["asked"]:
        assert question["requestedSchema"]["required"] == ["sure"]
    return outcome["text"], outcome["failed"], sorted(question["message"] for question in outcome["asked"])


@pytest.mark.parametrize("client", CLIENTS)
@each_era
def test_our_planner_asks_a_peers_client(client: str, era: str, tmp_path: Path) -> None:
    """A saved plan is kept when the person says no, or yes to the question but not to overwriting."""

    def save(name: str, answer: Any = None) -> Step:
        return call("save_plan", answer, plan={**example.plan(), "name": name}, request=example.request())

    agreed, not_agreed = [{"action": "accept", "content": {"overwrite": value}} for value in (True, False)]
    steps = [save("One"), save("Two", NO), save("Three", CANCEL), save("Four", not_agreed), save("Five", agreed)]
    steps.insert(-1, {"do": "resource", "name": f"plan://{example.PLAN_ID}"})
    planner = [sys.executable, "-m", "jackfield", "run", "planner"]
    said = outcomes(client, era, planner, steps, PLAN_STORE=str(tmp_path))
    told = [json.loads(each["text"]) for each in said]
    assert told.pop(-2)["name"] == "One"
    assert [receipt["saved"] for receipt in told] == [True, False, False, False, True]
    assert [len(each["asked"]) for each in said] == [0, 1, 1, 1, 0, 1]
    assert json.loads((tmp_path / f"{example.PLAN_ID}.json").read_text("utf-8"))["name"] == "Five"


# ---- our client, their servers


@pytest.fixture(scope="module")
def sites() -> Iterator[dict[str, str]]:
    """The URLs of the peers' asking servers over HTTP, each started when it is first wanted."""
    with contextlib.ExitStack() as stack:

        class Started(dict[str, str]):
            def __missing__(self, script: str) -> str:
                self[script] = stack.enter_context(Site([*peer(script), "http"])).url
                return self[script]

        yield Started()


class Person:
    """Who sits at our client: gives what was decided before, and remembers the questions."""

    def __init__(self) -> None:
        self.answer: Any = False
        self.asked: list[str] = []

    def elicit(self, question: ClientQuestion) -> Any:
        """Fill in a form."""
        assert question.server == "asking"
        assert question.schema["required"] == ["sure"]
        self.asked.append(question.message)
        return self.answer

    def visit(self, question: ClientQuestion) -> Any:
        """Agree to a page."""
        self.asked.append(question.url or "")
        return True

    async def ask(self, client: Client, tool: str, answer: Any = False, /, **arguments: Any) -> tuple[str, list[str]]:
        """The text of a tool's result, and what was asked for it, sorted."""
        self.answer, self.asked = answer, []
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.text
        return result.text, sorted(self.asked)


@contextlib.asynccontextmanager
async def joined(
    script: str, era: str, transport: str, sites: dict[str, str], root: Path
) -> AsyncIterator[tuple[Client, Person]]:
    """Our client at a peer's server, and who sits there."""
    person = Person()
    target: Any = sites[script] if transport == "http" else Stdio(*peer(script))
    handlers: dict[str, Any] = {"elicit": person.elicit, "elicit_url": person.visit, "roots": [root]}
    async with Client(target, mode=era, sample=lambda question: "Paris", **handlers) as client:
        yield client, person


async def check_forms(client: Client, person: Person, tool: str) -> None:
    """A form is answered with a yes, a yes that leaves a default standing, a no and a cancel."""
    for answer, text in [
        ({"sure": True, "why": "it rains"}, "a: accept True it rains"),
        ({"sure": False}, "a: accept False no reason"),
        (False, "a: decline"),
        (None, "a: cancel"),
    ]:
        assert await person.ask(client, tool, answer, name="a") == (text, ["Overwrite a?"])


@pytest.mark.parametrize("script", ["asking_official.py", "asking_typescript.mjs"])
@each_era
@each_transport
async def test_a_peers_server_asks_our_client(
    script: str, era: str, transport: str, sites: dict[str, str], tmp_path: Path
) -> None:
    """Forms, two at once, the model, roots and pages are asked for, and answered in either era (MR-3, ELC-7, SMP-3)."""
    async with joined(script, era, transport, sites, tmp_path) as (client, person):
        await check_forms(client, person, "resolved")
        both = ("accept accept", ["Forget a?", "Overwrite a?"])
        assert await person.ask(client, "twice", {"sure": True}, name="a") == both
        assert await person.ask(client, "thinks") == ("Paris", [])
        assert await person.ask(client, "looks") == (tmp_path.as_uri(), [])
        assert await person.ask(client, "visits") == ("accept", [PAGE])


@each_era
@each_transport
async def test_fastmcp_asks_our_client(era: str, transport: str, sites: dict[str, str], tmp_path: Path) -> None:
    """FastMCP asks in the body of a tool in the one era, and by what the tool returns in the other."""
    async with joined("asking_fastmcp.py", era, transport, sites, tmp_path) as (client, person):
        await check_forms(client, person, "asked" if era == "legacy" else "returned")


@each_transport
async def test_a_peers_body_asks_our_client(
    transport: str, sites: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A legacy server that asks in the body of a tool, or by the error -32042, is answered (ELC-8)."""
    monkeypatch.setattr(retrying, "FIRST_VISIT", 0)
    async with joined("asking_official.py", "legacy", transport, sites, tmp_path) as (client, person):
        await check_forms(client, person, "asked")
        assert await person.ask(client, "demands", done=True) == ("visited", [PAGE])


@each_era
async def test_a_client_of_ours_that_cannot_be_asked(era: str) -> None:
    """A server of the official SDK sees that there is no handler, and says so (CAP-1, ERR-2)."""
    async with Client(Stdio(*peer("asking_official.py")), mode=era) as client:
        with pytest.raises(PeerError, match="did not declare") as caught:
            await client.call_tool("resolved", {"name": "a"})
        assert caught.value.code == -32021


LISTENED = [
    ("asking_official.py", "modern", "stdio"),
    ("asking_official.py", "modern", "http"),
    ("asking_typescript.mjs", "modern", "stdio"),
    ("asking_typescript.mjs", "modern", "http"),
    ("asking_typescript.mjs", "legacy", "stdio"),
]


@pytest.mark.parametrize(("script", "era", "transport"), LISTENED)
async def test_our_client_listens_to_a_peers_server(
    script: str, era: str, transport: str, sites: dict[str, str], tmp_path: Path
) -> None:
    """It hears of a resource and of the list of tools, each as it changes (SUB-2, SUB-3, RSC-6, TOOL-11)."""
    heard: list[tuple[str, str | None]] = []
    async with joined(script, era, transport, sites, tmp_path) as (client, _):
        async with client.listen(tools=True, uris=[MOTTO]) as events:
            acknowledged = events.acknowledged
            for tool in ("touch", "grow", "touch"):
                await client.call_tool(tool)
                event = await anext(events)
                heard.append((event.kind, event.uri))
        assert (await client.call_tool("touch")).text == "touched"
    assert acknowledged is not None
    assert (acknowledged.tools, acknowledged.uris) == (True, (MOTTO,))
    assert heard == [("resource", MOTTO), ("tools", None), ("resource", MOTTO)]
