"""What a handler can ask in the middle of a request: a form, a page to visit, a model's answer, the client's roots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from ..protocol.asked import check_page, check_tool_use
from ..protocol.errors import URL_ELICITATION_REQUIRED, CannotAsk, ProtocolError, RegistrationError
from ..protocol.printable import printable
from ..protocol.revisions import Revision
from ..protocol.types import (
    AudioContent,
    ClientCapabilities,
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    ListRootsResult,
    ModelPreferences,
    Params,
    Root,
    SamplingBlock,
    SamplingMessage,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from ..protocol.types.reading import read
from .sampling import KINDS, blocks_of, check_preferences, messages_of

if TYPE_CHECKING:
    from typing import Self

    from .forms import Form

T = TypeVar("T")


class AcceptedElicitation(Struct, Generic[T], frozen=True):
    """The person said yes; `data` is what they filled in, None where they were sent to a page."""

    action: ClassVar[Literal["accept"]] = "accept"
    data: T

    def __bool__(self) -> Literal[True]:
        return True


class DeclinedElicitation(Struct, frozen=True):
    """The person said no. False in a condition, so that it is never taken for a yes."""

    action: ClassVar[Literal["decline"]] = "decline"
    data: ClassVar[None] = None

    def __bool__(self) -> Literal[False]:
        return False


class CancelledElicitation(Struct, frozen=True):
    """The person said neither yes nor no. False in a condition, so that it is never taken for a yes."""

    action: ClassVar[Literal["cancel"]] = "cancel"
    data: ClassVar[None] = None

    def __bool__(self) -> Literal[False]:
        return False


ElicitationResult = AcceptedElicitation[T] | DeclinedElicitation | CancelledElicitation
"""What comes of a form or a page (ELC-5)."""


class Question:
    """One question, before it is put in the words of a revision; ask it with `await ctx.ask(question)`."""

    __slots__ = ("key",)

    method: ClassVar[str]
    """What a legacy server sends as a request of its own."""
    bound: bool = True
    """Whether a modern client's answer counts only with the state that it was asked with."""

    def __init__(self, key: str | None) -> None:
        """`key` is the author's own name for the question in the round that it travels in; None: it is numbered."""
        self.key = key

    def keyed(self, key: str) -> Self:
        """The same question under this key, where it has none of its own yet."""
        if self.key is not None:
            return self
        from copy import copy

        twin = copy(self)
        twin.key = key
        return twin

    def needs(self) -> dict[str, Any]:
        """What a client must have declared to be asked this, in the shape of its capabilities (MR-2)."""
        raise NotImplementedError

    def can_ask(self, capabilities: ClientCapabilities, revision: Revision) -> bool:
        """Whether a client that declared `capabilities` and speaks `revision` may be asked this (ELC-1, SMP-2)."""
        raise NotImplementedError

    def params(self, revision: Revision) -> Params:
        """The question in the words of `revision`: the same ones each time.

        Raises CannotAsk where the revision has none for it, RegistrationError where the form is none that is allowed.
        """
        raise NotImplementedError

    def read(self, raw: bytes | Raw) -> Any:
        """The client's result, as the author gets it. Raises ValueError where it is malformed or does not fit."""
        raise NotImplementedError

    def _cannot(self, revision: Revision, what: str) -> CannotAsk:
        return CannotAsk(f"The client cannot be asked: protocol revision {revision.name} has no {what}", self.needs())


class _Answer(Struct):
    """An answer to an elicitation; what `content` is counts on accept alone (F63)."""

    action: Literal["accept", "decline", "cancel"]
    content: Raw | UnsetType = UNSET


def _outcome(raw: bytes | Raw) -> tuple[DeclinedElicitation | CancelledElicitation | None, Raw | UnsetType]:
    """The refusal that the answer is, or None and the content of its yes."""
    try:
        answer = msgspec.json.decode(raw, type=_Answer)
    except msgspec.DecodeError as fault:
        raise ValueError(f"the answer is no elicitation result: {fault}") from None
    if answer.action == "accept":
        return None, answer.content
    return DeclinedElicitation() if answer.action == "decline" else CancelledElicitation(), UNSET


class Elicit(Question, Generic[T]):
    """A form for the person; the answer is an `ElicitationResult[T]` (ELC-2).

    Never ask for passwords, keys, tokens or card data by a form: a page (`ElicitURL`) is for those (ELC-6).
    """

    __slots__ = ("_form", "bound", "message", "schema")
    method = "elicitation/create"

    def __init__(
        self, message: str, schema: type[T] | dict[str, Any], *, key: str | None = None, bound: bool = True
    ) -> None:
        """`schema` is the type of the answer: a class with fields, a single kind of value, or a `requestedSchema`.

        With the last the answer's `data` is a dict. Without `bound` an answer under this `key` counts by itself,
        whatever it was given to: for what a client may as well say beforehand, never for a consent. Raises TypeError
        for a message that is no text, ValueError without `bound` and `key`.
        """
        super().__init__(key)
        if not bound and key is None:
            raise ValueError("a question that is not bound needs a key: its answer is known by nothing else")
        self.bound = bound
        self.message = _text(message, "message")
        self.schema = schema
        self._form: Form[Any] | None = None

    def __repr__(self) -> str:
        return f"Elicit({self.message!r}, {self.schema!r})"

    @property
    def form(self) -> Form[Any]:
        """The form. Raises RegistrationError, naming the field, where the protocol does not allow it (ELC-3, ELC-6)."""
        if self._form is None:
            from .forms import form_of

            self._form = form_of(self.schema)
        return self._form

    def needs(self) -> dict[str, Any]:
        """See `Question.needs`."""
        return {"elicitation": {"form": {}}}

    def can_ask(self, capabilities: ClientCapabilities, revision: Revision) -> bool:
        """See `Question.can_ask`; a client that names no mode has forms only (ELC-1)."""
        offered = capabilities.elicitation
        if offered is None or "form" not in revision.elicitation:
            return False
        return offered.form is not None or offered.url is None

    def params(self, revision: Revision) -> ElicitParams:
        """See `Question.params`; a form is what is meant where no mode is named (ELC-1)."""
        if "form" not in revision.elicitation:
            raise self._cannot(revision, "forms")
        schema = self.form.schema
        self._check_message(schema)
        if not revision.form_choices:
            from ..protocol.forms import fit_form

            try:
                schema = fit_form(schema, revision)
            except ValueError as fault:
                raise CannotAsk(f"The client cannot be shown this form: {fault}", self.needs()) from None
        return ElicitParams(message=self.message, requested_schema=schema)

    def _check_message(self, schema: dict[str, Any]) -> None:
        from ..protocol.secret_fields import message_field, secret_field

        if secret_field(message_field(self.message, schema)) is not None:
            raise RegistrationError(
                f"the form {self.message!r} asks for a secret, and a form must not (ELC-6); have the person enter it "
                "on a page of yours, with ElicitURL"
            )

    def read(self, raw: bytes | Raw) -> ElicitationResult[T]:
        """See `Question.read`; content counts only on accept, and may be absent where nothing is required (F63)."""
        refusal, content = _outcome(raw)
        if refusal is not None:
            return refusal
        try:
            given = None if content is UNSET else msgspec.json.decode(content, type=dict[str, Any] | None)
        except msgspec.DecodeError:
            raise ValueError("the content of the answer is no object") from None
        return AcceptedElicitation(self.form.read(given or {}))


class ElicitURL(Question):
    """A page for the person to visit; the answer is an `ElicitationResult[None]`.

    A yes says that they will open it, not that they are done there (ELC-7). Who opens it must turn out to be who asked,
    and the URL itself must hold no secret and nothing personal: it passes through the client.
    """

    __slots__ = ("id", "message", "url")
    method = "elicitation/create"

    def __init__(self, message: str, url: str, *, key: str | None = None, id: str | None = None) -> None:
        """`id` names the visit on revision 2025-11-25 (None: one is made).

        Raises ValueError for a URL that is not https, or http on this machine, or that has a user or password (ELC-7).
        """
        super().__init__(key)
        self.message = _text(message, "message")
        self.url = _text(url, "url")
        check_page(url)
        if id is None:
            from os import urandom

            id = urandom(16).hex()
        self.id = id

    def __repr__(self) -> str:
        return f"ElicitURL({self.message!r}, {self.url!r})"

    def needs(self) -> dict[str, Any]:
        """See `Question.needs`."""
        return {"elicitation": {"url": {}}}

    def can_ask(self, capabilities: ClientCapabilities, revision: Revision) -> bool:
        """See `Question.can_ask`; this mode must have been named (ELC-1)."""
        offered = capabilities.elicitation
        return "url" in revision.elicitation and offered is not None and offered.url is not None

    def params(self, revision: Revision) -> ElicitParams:
        """See `Question.params`; the id is for 2025-11-25 alone (ELC-8)."""
        if "url" not in revision.elicitation:
            raise self._cannot(revision, "pages to visit")
        id = None if revision.modern else self.id
        return ElicitParams(message=self.message, mode="url", url=self.url, elicitation_id=id)

    def read(self, raw: bytes | Raw) -> ElicitationResult[None]:
        """See `Question.read`; a page's answer has no content."""
        refusal, _ = _outcome(raw)
        return AcceptedElicitation(None) if refusal is None else refusal


class ElicitationRequired(ProtocolError):
    """Raised in a handler that can only go on once the person has visited these pages (ELC-8).

    2025-11-25 has an error of its own for it; later clients are asked like by `ctx.elicit_url`.
    """

    def __init__(self, *pages: ElicitURL) -> None:
        """Raises TypeError without a page, or for another kind of question."""
        if not pages or not all(isinstance(page, ElicitURL) for page in pages):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("ElicitationRequired takes one or more ElicitURL")
        super().__init__(URL_ELICITATION_REQUIRED, "; ".join(page.message for page in pages))
        self.pages = pages


class Sample(Question):
    """An answer of the client's model; the answer is a `CreateMessageResult` (SMP-1, SMP-3).

    2026-07-28 marks sampling as deprecated: new servers call a model of their own.
    """

    __slots__ = ("_params", "_tooled")
    method = "sampling/createMessage"

    def __init__(
        self,
        messages: Any,
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: ModelPreferences | None = None,
        include_context: Literal["none", "thisServer", "allServers"] | None = None,
        metadata: dict[str, Any] | None = None,
        tools: Sequence[Tool] | None = None,
        tool_choice: ToolChoice | Literal["auto", "required", "none"] | None = None,
        key: str | None = None,
    ) -> None:
        """`messages` are a SamplingMessage, a text or other content (said by the user), or a list of these.

        Raises TypeError for what is no message, ValueError for an option out of its range and where a call of a tool
        is not answered by the very next message, or that holds anything but such answers (SMP-2).
        """
        super().__init__(key)
        said = messages_of(messages)
        check_tool_use(said)
        check_preferences(model_preferences)
        if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"max_tokens is {max_tokens!r}; it must be a whole number above 0")
        if temperature is not None and not math.isfinite(temperature):
            raise ValueError(f"temperature is {temperature!r}; it must be a finite number")
        if include_context not in (None, "none", "thisServer", "allServers"):
            raise ValueError(f"include_context is {include_context!r}; it must be none, thisServer or allServers")
        if include_context in ("thisServer", "allServers"):
            import warnings

            text = f"include_context={include_context!r} is deprecated: put what the model shall know into the messages"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        if isinstance(tool_choice, str):
            tool_choice = ToolChoice(tool_choice)
        if tool_choice is not None and tool_choice.mode not in (None, "auto", "required", "none"):
            raise ValueError(f"tool_choice is {tool_choice.mode!r}; it must be auto, required or none")
        self._params = CreateMessageParams(
            messages=said,
            max_tokens=max_tokens,
            system_prompt=system_prompt,
            temperature=temperature,
            stop_sequences=None if stop_sequences is None else list(stop_sequences),
            model_preferences=model_preferences,
            include_context=include_context,
            metadata=metadata,
            tools=None if tools is None else list(tools),
            tool_choice=tool_choice,
        )
        spoken = any(isinstance(block, ToolUseContent | ToolResultContent) for one in said for block in blocks_of(one))
        self._tooled = tools is not None or tool_choice is not None or spoken

    def __repr__(self) -> str:
        return f"Sample({self._params.messages!r}, max_tokens={self._params.max_tokens!r})"

    @property
    def _contextual(self) -> bool:
        return self._params.include_context in ("thisServer", "allServers")

    def needs(self) -> dict[str, Any]:
        """See `Question.needs`."""
        parts: dict[str, Any] = {}
        if self._contextual:
            parts["context"] = {}
        if self._tooled:
            parts["tools"] = {}
        return {"sampling": parts}

    def can_ask(self, capabilities: ClientCapabilities, revision: Revision) -> bool:
        """See `Question.can_ask`; before 2025-11-25 there was nothing more to declare than sampling itself (SMP-2)."""
        offered = capabilities.sampling
        if offered is None:
            return False
        if not revision.sampling_tools:
            return not self._tooled
        return not (self._tooled and offered.tools is None) and not (self._contextual and offered.context is None)

    def params(self, revision: Revision) -> CreateMessageParams:
        """See `Question.params`; before 2025-11-25 a message holds one block, so several become messages (SMP-5)."""
        if revision.sampling_tools:
            return self._params
        if self._tooled:
            raise self._cannot(revision, "tools in sampling")
        single = [
            SamplingMessage(message.role, block) for message in self._params.messages for block in blocks_of(message)
        ]
        if not revision.audio and any(isinstance(message.content, AudioContent) for message in single):
            raise self._cannot(revision, "audio")
        return msgspec.structs.replace(self._params, messages=single)

    def read(self, raw: bytes | Raw) -> CreateMessageResult:
        """See `Question.read`; blocks of kinds that we do not know are kept."""
        try:
            result = read(CreateMessageResult, raw)
        except msgspec.DecodeError as fault:
            raise ValueError(f"the answer is no sampling result: {fault}") from None
        said = result.content if isinstance(result.content, list) else [result.content]
        for block in said:
            if isinstance(block, UnknownContent):
                if not block.type or block.type in KINDS:
                    raise ValueError(f"the answer has {printable(block.type) or 'a'} content that does not fit")
            elif not isinstance(block, SamplingBlock):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"the answer has {block.type} content, which no model says")
            elif isinstance(block, ToolUseContent) and not self._params.tools:
                raise ValueError(f"the answer calls the tool {printable(block.name)!r}, but none was offered")
        return result


class ListRoots(Question):
    """The places that the client works in; the answer is a list of Root (ROOT-1).

    They are advice, no access control. 2026-07-28 marks roots as deprecated: new servers take places as arguments.
    """

    __slots__ = ()
    method = "roots/list"

    def __init__(self, *, key: str | None = None) -> None:
        super().__init__(key)

    def __repr__(self) -> str:
        return "ListRoots()"

    def needs(self) -> dict[str, Any]:
        """See `Question.needs`."""
        return {"roots": {}}

    def can_ask(self, capabilities: ClientCapabilities, revision: Revision) -> bool:
        """See `Question.can_ask`."""
        return capabilities.roots is not None

    def params(self, revision: Revision) -> Params:
        """See `Question.params`; there is nothing to say."""
        return Params()

    def read(self, raw: bytes | Raw) -> list[Root]:
        """See `Question.read`; a root that is no file URI is malformed."""
        try:
            roots = read(ListRootsResult, raw).roots
        except msgspec.DecodeError as fault:
            raise ValueError(f"the answer is no list of roots: {fault}") from None
        for root in roots:
            if not root.uri[:7].lower() == "file://":
                raise ValueError(f"the root {printable(root.uri)!r} is no file URI")
        return roots


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the {what} must be a text, not {type(value).__name__}")
    return value
