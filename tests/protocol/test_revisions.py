"""Which revision two sides speak, what each one has, and content for the older ones."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackfield.protocol import types as t
from jackfield.protocol.revisions import LEGACY, MODERN, REVISIONS, Revision, choose, down_level, find, negotiate

NAMES = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


def revision(name: str) -> Revision:
    found = find(name)
    assert found is not None
    return found


def names_with(fact: str) -> list[str]:
    return [row.name for row in REVISIONS if getattr(row, fact)]


def test_the_revisions_are_listed_newest_first() -> None:
    """All five are there, newest first; one is modern, four are legacy."""
    assert [row.name for row in REVISIONS] == NAMES
    assert [row.name for row in MODERN] == NAMES[:1]
    assert [row.name for row in LEGACY] == NAMES[1:]
    assert all(row.modern for row in MODERN)
    assert not any(row.modern for row in LEGACY)


@pytest.mark.parametrize(
    ("fact", "names"),
    [
        ("batches", ["2025-03-26"]),
        ("tool_annotations", NAMES[:4]),
        ("audio", NAMES[:4]),
        ("progress_message", NAMES[:4]),
        ("completions_capability", NAMES[:4]),
        ("title", NAMES[:3]),
        ("resource_link", NAMES[:3]),
        ("output_schema", NAMES[:3]),
        ("completion_context", NAMES[:3]),
        ("elicitation", NAMES[:3]),
        ("version_header", NAMES[:3]),
        ("icons", NAMES[:2]),
        ("form_choices", NAMES[:2]),
        ("sampling_tools", NAMES[:2]),
        ("argument_faults_in_result", NAMES[:2]),
        ("stream_polling", ["2025-11-25"]),
        ("core_tasks", ["2025-11-25"]),
        ("headers", NAMES[:1]),
        ("caching", NAMES[:1]),
        ("extensions", NAMES[:1]),
    ],
)
def test_which_revisions_have_what(fact: str, names: list[str]) -> None:
    """Each feature belongs to the revisions that the change lists give it (part 1.9 of the requirements)."""
    assert names_with(fact) == names


def test_the_facts_that_are_no_yes_or_no() -> None:
    """Output schemas, elicitation modes, the kind of HTTP and the code for a missing resource, by revision."""
    assert [row.output_schema for row in REVISIONS] == ["any", "object", "object", None, None]
    both = frozenset({"form", "url"})
    assert [row.elicitation for row in REVISIONS] == [both, both, {"form"}, frozenset(), frozenset()]
    assert [row.http for row in REVISIONS] == ["stateless", "sessions", "sessions", "sessions", "sse"]
    assert [row.resource_missing for row in REVISIONS] == [-32602, -32002, -32002, -32002, -32002]


def test_a_revision_is_found_by_its_name() -> None:
    """Names are exact; 2024-10-07 is another name of 2024-11-05, and anything else is unknown."""
    assert [revision(name).name for name in NAMES] == NAMES
    assert revision("2024-10-07").name == "2024-11-05"
    for unknown in ("", "2026-7-28", "v999.0.0", "DRAFT-2026-v1", "2025-11-25 "):
        assert find(unknown) is None


def test_revisions_cannot_be_changed() -> None:
    """The table is the same for everybody."""
    with pytest.raises(AttributeError):
        REVISIONS[0].name = "mine"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        ("2024-10-07", "2024-11-05"),
        ("2026-07-28", "2025-11-25"),
        ("1.0", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_initialize_gets_what_it_asked_for_or_the_newest(asked: str, answer: str) -> None:
    """A known legacy revision is granted, anything else gets the newest legacy one, never a modern one (LIFE-2)."""
    assert negotiate(asked).name == answer


@given(asked=st.sampled_from([*NAMES, "2024-10-07"]) | st.text())
def test_initialize_never_ends_in_the_modern_era(asked: str) -> None:
    """Whatever is asked for, the handshake agrees on a legacy revision (LIFE-2)."""
    assert negotiate(asked) in LEGACY


@dataclass
class Choice:
    theirs: list[str]
    ours: str | None


@pytest.mark.parametrize(
    "choice",
    [
        Choice(["2026-07-28"], "2026-07-28"),
        Choice(["2025-11-25", "2026-07-28", "2024-11-05"], "2026-07-28"),
        Choice(["2024-11-05", "2025-06-18", "2099-01-01"], "2025-06-18"),
        Choice(["2024-10-07"], "2024-11-05"),
        Choice(["2099-01-01"], None),
        Choice([], None),
    ],
    ids=lambda choice: ",".join(choice.theirs) or "none",
)
def test_a_client_chooses_the_newest_common_revision(choice: Choice) -> None:
    """Of a server's list, in any order, the modern one wins, then the newest legacy one (DISC-3)."""
    chosen = choose(choice.theirs)
    assert (chosen.name if chosen else None) == choice.ours


AUDIO = t.AudioContent("AAAA", "audio/wav", t.Annotations(["user"]))
LINK = t.ResourceLink("plan://1", "plan", title="The plan")
OTHERS: list[t.Content] = [
    t.TextContent("a"),
    t.ImageContent("AAAA", "image/png"),
    t.EmbeddedResource(t.ResourceContents("a:b", text="c")),
    t.UnknownContent(b'{"type":"hologram"}'),
]


def test_audio_for_the_oldest_revision() -> None:
    """Before 2025-03-26 audio becomes an embedded resource with the same data, media type and annotations (IMPL-3)."""
    (block,) = down_level([AUDIO], revision("2024-11-05"))
    assert block == t.EmbeddedResource(t.ResourceContents("audio:0", "audio/wav", blob="AAAA"), t.Annotations(["user"]))
    assert down_level([AUDIO], revision("2025-03-26")) == [AUDIO]


def test_resource_links_for_older_revisions() -> None:
    """Before 2025-06-18 a resource link becomes a text with its title, or else its name, and its URI (IMPL-3)."""
    for name in ("2024-11-05", "2025-03-26"):
        assert down_level([LINK], revision(name)) == [t.TextContent("The plan: plan://1")]
    untitled = t.ResourceLink("plan://1", "plan")
    assert down_level([untitled], revision("2024-11-05")) == [t.TextContent("plan: plan://1")]
    assert down_level([LINK], revision("2025-06-18")) == [LINK]


@pytest.mark.parametrize("row", REVISIONS, ids=lambda row: row.name)
def test_content_that_every_revision_has_stays_as_it_is(row: Revision) -> None:
    """Where nothing has to change the very same list comes back; unknown kinds stay too (IMPL-3, design rule 7)."""
    assert down_level(OTHERS, row) is OTHERS
    mixed = [*OTHERS, LINK, AUDIO]
    assert down_level(mixed, row)[: len(OTHERS)] == OTHERS
    assert len(mixed) == len(OTHERS) + 2
