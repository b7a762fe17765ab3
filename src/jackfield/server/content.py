"""What a handler may return besides plain values: pictures, sounds, files, links, and results said in full."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import Any, cast

from msgspec import UNSET, Struct, UnsetType

from ..protocol.types import (
    AudioContent,
    Content,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    UnknownContent,
)

BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent)


class _Data:
    """Bytes with a media type, given directly or read from a file when the result is made."""

    default_type = "application/octet-stream"

    def __init__(
        self, data: bytes | None = None, *, path: str | PathLike[str] | None = None, mime_type: str | None = None
    ) -> None:
        """Give either `data` or `path`; without `mime_type` it is guessed from the path's ending.

        Raises ValueError for both or neither, TypeError for data that is no bytes.
        """
        kind = type(self).__name__
        if (data is None) == (path is None):
            raise ValueError(f"{kind} takes either data or path")
        try:
            self._data = None if data is None else bytes(memoryview(data))
        except TypeError:
            wrong = type(data).__name__
            raise TypeError(f"{kind} takes bytes, not {wrong}; for a file write {kind}(path=...)") from None
        self.path = None if path is None else fspath(path)
        self.mime_type = mime_type or _guessed(self.path) or self.default_type

    def read(self) -> bytes:
        """The bytes. Raises OSError when the file cannot be read."""
        if self._data is not None:
            return self._data
        with open(self.path or "", "rb") as file:
            return file.read()

    def block(self) -> Content:
        """The content block that goes out."""
        raise NotImplementedError


def _guessed(path: str | None) -> str | None:
    if path is None:
        return None
    import mimetypes  # not at the top: few results need it

    return mimetypes.guess_type(path)[0]


class Image(_Data):
    """A picture, as content of a tool's result or a prompt's message."""

    default_type = "image/png"

    def block(self) -> ImageContent:
        """The image block, base64 as the protocol wants it."""
        return ImageContent(data=base64.b64encode(self.read()).decode(), mime_type=self.mime_type)


class Audio(_Data):
    """A sound, as content of a tool's result or a prompt's message; to 2024-11-05 it goes as an embedded resource."""

    default_type = "audio/wav"

    def block(self) -> AudioContent:
        """The audio block, base64 as the protocol wants it."""
        return AudioContent(data=base64.b64encode(self.read()).decode(), mime_type=self.mime_type)


class File(_Data):
    """A file's content as an embedded resource: text types as text, everything else as base64."""

    def __init__(
        self,
        data: bytes | str | None = None,
        *,
        path: str | PathLike[str] | None = None,
        mime_type: str | None = None,
        uri: str | None = None,
    ) -> None:
        """Give `data` or `path`; `uri` names the resource (default: a file: URI of the path)."""
        if isinstance(data, str):
            data, mime_type = data.encode(), mime_type or "text/plain"
        super().__init__(data, path=path, mime_type=mime_type)
        if uri is None and self.path is None:
            raise ValueError("File from data needs a uri")
        self.uri = uri

    def block(self) -> EmbeddedResource:
        """The embedded resource."""
        from pathlib import Path

        uri = self.uri or Path(self.path or "").absolute().as_uri()
        return EmbeddedResource(resource=resource_contents(uri, self.read(), self.mime_type))


_CONTENT = (*BLOCKS, _Data)


def is_text(mime_type: str) -> bool:
    """Tell whether content of this media type is text."""
    plain = mime_type.partition(";")[0].strip().lower()
    return (
        plain.startswith("text/")
        or plain in ("application/json", "application/xml")
        or plain.endswith(("+json", "+xml"))
    )


def resource_contents(uri: str, data: bytes | str, mime_type: str | None) -> ResourceContents:
    """One item of resource contents: str goes as text; bytes too where the type says so and they are UTF-8 (F60)."""
    if isinstance(data, bytes):
        if mime_type is None or not is_text(mime_type):
            return _blob(uri, data, mime_type)
        try:
            data = data.decode()
        except UnicodeDecodeError:
            return _blob(uri, data, mime_type)
    return ResourceContents(uri=uri, text=data, mime_type=mime_type)


def _blob(uri: str, data: bytes, mime_type: str | None) -> ResourceContents:
    return ResourceContents(uri=uri, blob=base64.b64encode(data).decode(), mime_type=mime_type)


class ToolResult(Struct, kw_only=True):
    """A tool's result said in full.

    `content` is what a handler could return as content; `structured_content` any JSON value (UNSET: none), judged by
    the tool's declared output schema; `is_error` marks a failure that the model shall see; `meta` goes out as `_meta`.
    """

    content: Any = None
    structured_content: Any | UnsetType = UNSET
    is_error: bool = False
    meta: dict[str, Any] | None = None


def to_blocks(value: Any) -> list[Content] | None:
    """Make content blocks of `value`, or None where it is no content but data.

    Content is: a block, Image, Audio, File, and a list or tuple that holds one of these, and only such and texts.
    """
    if isinstance(value, BLOCKS):
        return [value]
    if isinstance(value, _Data):
        return [value.block()]
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        if any(isinstance(item, _CONTENT) for item in items) and all(
            isinstance(item, (*_CONTENT, str)) for item in items
        ):
            return list(content_blocks(items))
    return None


def reads_files(value: Any) -> bool:
    """Tell whether making blocks of `value` reads files, which may be slow."""
    if isinstance(value, ToolResult):
        return reads_files(value.content)
    if isinstance(value, list | tuple):
        return any(map(reads_files, value))  # pyright: ignore[reportUnknownArgumentType]
    return isinstance(value, _Data) and value.path is not None


def content_blocks(items: Any) -> Iterable[Content]:
    """Make blocks of a text, content, or a list of them, as `ToolResult.content` and prompt messages take it.

    Raises TypeError for what is none of these.
    """
    if items is None:
        return []
    if isinstance(items, str):
        return [TextContent(text=items)]
    if isinstance(items, BLOCKS):
        return [items]
    if isinstance(items, _Data):
        return [items.block()]
    if isinstance(items, list | tuple):
        return [block for item in cast("Sequence[Any]", items) for block in content_blocks(item)]
    raise TypeError(
        f"{type(items).__name__} is no content; give text, Image, Audio, File, ResourceLink or a content block"
    )
