"""The revisions of the protocol, what each of them has, and which one two sides speak."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

from .errors import INVALID_PARAMS, RESOURCE_NOT_FOUND
from .types.content import AudioContent, Content, EmbeddedResource, ResourceContents, ResourceLink, TextContent


class Revision(Struct, frozen=True, kw_only=True):
    """One dated version of the protocol, as the facts in which it differs from others (1.9)."""

    name: str
    era: Literal["legacy", "modern"]
    """`legacy` opens with `initialize`; `modern` says who it is in the `_meta` of each request."""
    http: Literal["sse", "sessions", "stateless"]
    """HTTP+SSE, Streamable HTTP with sessions, or without."""
    batches: bool = False
    """A frame may be an array of messages (BASE-5)."""
    tool_annotations: bool = True
    audio: bool = True
    progress_message: bool = True
    completions_capability: bool = True
    """False: completion needs no capability (CMP-1)."""
    title: bool = True
    """Definitions may have a title for people, and content and definitions a `_meta`."""
    resource_link: bool = True
    output_schema: Literal["object", "any"] | None = "object"
    """What a tool may declare and give as structured content: nothing, objects, or any JSON value (TOOL-4)."""
    completion_context: bool = True
    elicitation: frozenset[str] = frozenset({"form", "url"})
    """The modes that exist (ELC-1)."""
    version_header: bool = True
    """HTTP requests carry MCP-Protocol-Version (LIFE-4)."""
    icons: bool = True
    form_choices: bool = True
    """Forms have titled and multiple choices, and a default on every kind of field (ELC-3, ELC-4)."""
    sampling_tools: bool = True
    """Sampling may use tools, and its messages may hold several blocks (SMP-2, SMP-5)."""
    argument_faults_in_result: bool = True
    """Arguments that do not fit are the tool's error (`isError`), not a JSON-RPC error (TOOL-7)."""
    stream_polling: bool = False
    """A server may close an SSE stream and have the client come back for the rest (LH-3)."""
    core_tasks: bool = False
    """Tasks belong to the protocol itself (T25-1)."""
    resource_missing: int = RESOURCE_NOT_FOUND
    """The error code for a resource that does not exist (RSC-3)."""
    headers: bool = False
    """HTTP requests mirror method, name and marked arguments in headers (HDR-3)."""
    caching: bool = False
    """Lists, reads and discover say how long they stay fresh (CCH-1)."""
    extensions: bool = False
    """Extensions are declared in the capabilities (CAP-4)."""

    @property
    def modern(self) -> bool:
        """Whether this revision is of the modern era."""
        return self.era == "modern"


REVISIONS: Final = (
    Revision(
        name="2026-07-28",
        era="modern",
        http="stateless",
        output_schema="any",
        resource_missing=INVALID_PARAMS,
        headers=True,
        caching=True,
        extensions=True,
    ),
    Revision(
        name="2025-11-25",
        era="legacy",
        http="sessions",
        stream_polling=True,
        core_tasks=True,
    ),
    Revision(
        name="2025-06-18",
        era="legacy",
        http="sessions",
        elicitation=frozenset({"form"}),
        icons=False,
        form_choices=False,
        sampling_tools=False,
        argument_faults_in_result=False,
    ),
    Revision(
        name="2025-03-26",
        era="legacy",
        http="sessions",
        batches=True,
        title=False,
        resource_link=False,
        output_schema=None,
        completion_context=False,
        elicitation=frozenset(),
        version_header=False,
        icons=False,
        form_choices=False,
        sampling_tools=False,
        argument_faults_in_result=False,
    ),
    Revision(
        name="2024-11-05",
        era="legacy",
        http="sse",
        tool_annotations=False,
        audio=False,
        progress_message=False,
        completions_capability=False,
        title=False,
        resource_link=False,
        output_schema=None,
        completion_context=False,
        elicitation=frozenset(),
        version_header=False,
        icons=False,
        form_choices=False,
        sampling_tools=False,
        argument_faults_in_result=False,
    ),
)
"""Every revision, newest first."""

MODERN: Final = tuple(revision for revision in REVISIONS if revision.modern)
LEGACY: Final = tuple(revision for revision in REVISIONS if not revision.modern)

_BY_NAME: Final = {revision.name: revision for revision in REVISIONS}
_BY_NAME["2024-10-07"] = _BY_NAME["2024-11-05"]  # the first draft, which old clients still ask for


def find(name: str) -> Revision | None:
    """The revision of that name, or None. 2024-10-07 is another name of 2024-11-05."""
    return _BY_NAME.get(name)


def negotiate(asked: str) -> Revision:
    """Answer `initialize`: the legacy revision asked for, else the newest legacy one (LIFE-2).

    The modern revision has no handshake, so asking for it here gives the newest legacy one too. Where the client asked
    by an alias, the answer on the wire is the alias: it asked for what it knows.
    """
    revision = find(asked)
    return revision if revision is not None and not revision.modern else LEGACY[0]


def choose(theirs: Iterable[str]) -> Revision | None:
    """The newest revision that the peer lists too (DISC-3): a legacy one only where no modern one is common."""
    common = {revision.name for name in theirs if (revision := find(name))}
    return next((revision for revision in REVISIONS if revision.name in common), None)


def down_level(blocks: list[Content], revision: Revision) -> list[Content]:
    """Content for a peer of that revision (IMPL-3); the very same list where nothing had to change.

    A resource link becomes a text with its name and URI, audio an embedded resource with the same data. Kinds that we
    do not know stay: only their reader can judge them.
    """
    if revision.audio and revision.resource_link:
        return blocks
    if not any(isinstance(block, AudioContent | ResourceLink) for block in blocks):
        return blocks
    return [_down_level(block, place, revision) for place, block in enumerate(blocks)]


def _down_level(block: Content, place: int, revision: Revision) -> Content:
    if isinstance(block, ResourceLink) and not revision.resource_link:
        return TextContent(f"{block.title or block.name}: {block.uri}", block.annotations)
    if isinstance(block, AudioContent) and not revision.audio:
        contents = ResourceContents(f"audio:{place}", block.mime_type, blob=block.data)
        return EmbeddedResource(contents, block.annotations)
    return block
