"""What a server can ask of a client: the functions that answer, what they declare, and how a question looks to them."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import msgspec
from msgspec import Raw, Struct

from ..protocol.errors import INVALID_PARAMS, METHOD_NOT_FOUND, ProtocolError, RegistrationError
from ..protocol.methods import METHODS, exists
from ..protocol.printable import printable
from ..protocol.revisions import Revision
from ..protocol.types import (
    ClientCapabilities,
    CreateMessageParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitParams,
    ElicitResult,
    FormSchema,
    Params,
    Result,
    Root,
    RootsCapability,
    SamplingBlock,
    SamplingCapability,
)

ELICIT: Final = METHODS["elicitation/create"]
SAMPLE: Final = METHODS["sampling/createMessage"]
ROOTS: Final = METHODS["roots/list"]


class ClientQuestion(Struct, frozen=True, kw_only=True):
    """What a server asks in the middle of a request, as a handler is given it.

    All text in it is the server's own word: show it as such, with control characters taken out.
    """

    server: str
    """Who asks: a name for people, of one line (ELC-6)."""
    method: str
    """`elicitation/create`, `sampling/createMessage` or `roots/list`."""
    params: ElicitParams | CreateMessageParams | Params
    """All that the server said."""
    call: str | None = None
    """The tool, prompt or URI whose request the question belongs to; None where a legacy server does not tell."""

    @property
    def message(self) -> str:
        """What to show the person; "" for a question to the model, and for roots."""
        return self.params.message if isinstance(self.params, ElicitParams) else ""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the form to fill in; {} where there is no form."""
        return (self.params.requested_schema or {}) if isinstance(self.params, ElicitParams) else {}

    @property
    def fields(self) -> FormSchema | None:
        """The fields of the form, by name; None where there is no form, or one that the protocol has no word for."""
        try:
            return msgspec.convert(self.schema, FormSchema)
        except msgspec.ValidationError:
            return None

    @property
    def url(self) -> str | None:
        """The page to visit: show it whole, and open it only after a yes (ELC-7); None where there is none."""
        return self.params.url if isinstance(self.params, ElicitParams) and self.params.mode == "url" else None


Elicited = dict[str, Any] | bool | ElicitResult | None
OnElicit = Callable[[ClientQuestion], Elicited | Awaitable[Elicited]]
Sampled = CreateMessageResult | str | SamplingBlock | list[SamplingBlock] | None
OnSample = Callable[[ClientQuestion], Sampled | Awaitable[Sampled]]
Place = str | os.PathLike[str] | Root
Places = list[Place] | tuple[Place, ...]
Roots = Places | Callable[[], Places | Awaitable[Places]]


class Handlers(Struct, frozen=True, kw_only=True):
    """The functions of a client's user that answer questions; None where it has none, and is not asked."""

    elicit: OnElicit | None = None
    elicit_url: OnElicit | None = None
    sample: OnSample | None = None
    sample_tools: bool = False
    """Whether `sample` can give the model tools."""
    roots: Roots | None = None

    def __post_init__(self) -> None:
        """Raises RegistrationError for what cannot answer."""
        for name in ("elicit", "elicit_url", "sample"):
            handler = getattr(self, name)
            if handler is not None and not callable(handler):
                raise RegistrationError(f"Client({name}={handler!r}): it is a function that takes the question")
        if self.sample_tools and self.sample is None:
            raise RegistrationError("Client(sample_tools=True) says what `sample` can do; give that too")
        if self.roots is not None and not callable(self.roots):
            try:
                roots_of(self.roots)
            except (TypeError, ValueError) as error:
                raise RegistrationError(f"Client(roots=...): {error}") from None

    def capabilities(self, modern: bool, extensions: dict[str, Any] | None) -> ClientCapabilities:
        """What a server may ask (CAP-1, ELC-1); that its roots have changed a client says on legacy wires only."""
        forms: dict[str, Any] | None = {} if self.elicit else None
        pages: dict[str, Any] | None = {} if self.elicit_url else None
        return ClientCapabilities(
            elicitation=ElicitationCapability(forms, pages) if self.elicit or self.elicit_url else None,
            sampling=SamplingCapability(tools={} if self.sample_tools else None) if self.sample else None,
            roots=None if self.roots is None else RootsCapability(None if modern else True),
            extensions=extensions,
        )

    def read(
        self, method: str, raw: bytes | Raw, revision: Revision | None
    ) -> ElicitParams | CreateMessageParams | Params:
        """The params of a question that may be asked.

        `revision` is None before one is agreed on: then nothing may be. Raises ProtocolError: -32601 for what was not
        declared at all, -32602 for a mode that was not (ELC-1), tools that were not (SMP-2), and params that do not
        fit.
        """
        offered = {ELICIT.name: self.elicit or self.elicit_url, SAMPLE.name: self.sample, ROOTS.name: self.roots}
        known = revision is not None and (revision.modern or exists(method, revision.name))
        if offered.get(method) is None or not known:
            raise ProtocolError(METHOD_NOT_FOUND, f"this client has no method {printable(method)}")
        try:
            params = METHODS[method].decode_params(raw)
            if isinstance(params, ElicitParams):
                self._check_elicit(params, revision)
            elif isinstance(params, CreateMessageParams):
                self._check_sample(params)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ProtocolError(INVALID_PARAMS, f"{method}: {error}") from None
        return params

    def _check_elicit(self, params: ElicitParams, revision: Revision | None) -> None:
        mode = params.mode or "form"
        missing = (self.elicit_url if mode == "url" else self.elicit) is None
        if missing or (revision is not None and mode not in revision.elicitation):
            raise ValueError(f"this client did not declare the mode {mode!r}")
        if mode == "url" and params.url is None:
            raise ValueError("the mode 'url' takes a `url`")
        if mode == "form" and params.requested_schema is None:
            raise ValueError("a form takes a `requestedSchema`")

    def _check_sample(self, params: CreateMessageParams) -> None:
        from ..protocol.asked import check_tool_use

        if not self.sample_tools and (params.tools is not None or params.tool_choice is not None):
            raise ValueError("this client did not declare `sampling.tools`")
        if params.max_tokens < 1:
            raise ValueError("`maxTokens` must be above 0")
        check_tool_use(params.messages)


def retried(result: Result) -> bool:
    """Whether questions, or a state, stood before this result: such a one is not kept (MR-9, CCH-4)."""
    return "retried" in vars(result)


def roots_of(places: Any) -> list[Root]:
    """Roots from paths, file URIs and Roots (ROOT-1). Raises TypeError or ValueError, naming the place that is none."""
    if not isinstance(places, list | tuple):
        raise TypeError(f"roots are a list of paths, file URIs or Roots, and not {places!r}")
    return [_root(place) for place in cast("Places", places)]


def _root(place: Place) -> Root:
    if isinstance(place, Root):
        _check_uri(place.uri)
        return place
    text = os.fspath(place)
    if isinstance(place, str) and ("://" in text or text[:5].lower() == "file:"):
        _check_uri(text)
        return Root(text)
    from pathlib import Path

    return Root(Path(os.path.abspath(text)).as_uri())


def _check_uri(uri: str) -> None:
    from urllib.parse import unquote

    if uri[:7].lower() != "file://":
        raise ValueError(f"{uri!r} is no root; it must be a path or a URI that begins with file://")
    if ".." in unquote(uri).replace("\\", "/").split("/"):
        raise ValueError(f"{uri!r} is no root; it must not hold '..'")
