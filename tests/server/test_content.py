"""Content: pictures, sounds, files and links as blocks, and what counts as content at all."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jackfield import Audio, File, Image, ResourceLink, ToolResult
from jackfield.protocol.types import EmbeddedResource, ImageContent, ResourceContents, TextContent, UnknownContent
from jackfield.server.content import content_blocks, is_text, reads_files, resource_contents, to_blocks

PNG = b"\x89PNG\r\n\x1a\n"


def sent(block: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(block))


class TestData:
    def test_an_image_is_base64_with_its_type(self) -> None:
        """Bytes go out in base64; a picture is image/png unless it says otherwise."""
        data = base64.b64encode(PNG).decode()
        assert sent(Image(PNG).block()) == {"type": "image", "data": data, "mimeType": "image/png"}
        assert sent(Image(PNG, mime_type="image/webp").block())["mimeType"] == "image/webp"
        assert sent(Audio(b"RIFF").block()) == {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}

    @pytest.mark.parametrize("view", [bytearray, memoryview])
    def test_other_kinds_of_bytes_are_bytes(self, view: Any) -> None:
        """Whatever is bytes-like is taken, and copied: it may change later."""
        data = bytearray(PNG)
        image = Image(view(data))
        data[0] = 0
        assert image.read() == PNG

    def test_a_path_gives_the_type_by_its_ending(self, tmp_path: Path) -> None:
        """Without a type the file's ending says it; the file is read when the block is made."""
        path = tmp_path / "a.jpg"
        image = Image(path=path)
        assert image.mime_type == "image/jpeg"
        path.write_bytes(b"later")
        assert base64.b64decode(image.block().data) == b"later"
        assert Image(path=str(tmp_path / "no-ending")).mime_type == "image/png"

    def test_a_missing_file_is_an_os_error(self, tmp_path: Path) -> None:
        """A file that cannot be read is told when the block is made."""
        with pytest.raises(OSError, match=r"gone\.png"):
            Image(path=tmp_path / "gone.png").block()

    @pytest.mark.parametrize("kind", [Image, Audio, File])
    def test_either_data_or_path(self, kind: Any) -> None:
        """Both or neither is an error that says so."""
        for given in ({}, {"data": b"x", "path": "x"}):
            with pytest.raises(ValueError, match=f"{kind.__name__} takes either data or path"):
                kind(**given)

    @pytest.mark.parametrize("data", ["chart.png", 5, Path("chart.png")])
    def test_a_path_is_no_picture(self, data: Any) -> None:
        """A path in the place of the data is told, with how to write it."""
        with pytest.raises(TypeError, match=r"Image takes bytes, not .*; for a file write Image\(path=\.\.\.\)"):
            Image(data)


class TestFile:
    def test_text_is_text_and_the_rest_is_base64(self, tmp_path: Path) -> None:
        """A file of a text type that is UTF-8 goes as text, everything else as a blob (F60)."""
        (tmp_path / "a.json").write_text('{"a": "ü"}', "utf-8")
        block = sent(File(path=tmp_path / "a.json").block())
        assert block == {
            "type": "resource",
            "resource": {
                "uri": (tmp_path / "a.json").as_uri(),
                "mimeType": "application/json",
                "text": '{"a": "ü"}',
            },
        }
        (tmp_path / "b.txt").write_bytes(b"\xff\xfe")
        assert sent(File(path=tmp_path / "b.txt").block())["resource"]["blob"] == "//4="

    def test_data_needs_a_name(self) -> None:
        """A file that is only data needs a URI; a str is plain text unless it says otherwise."""
        with pytest.raises(ValueError, match="File from data needs a uri"):
            File(b"x")
        assert sent(File("héllo", uri="x://a").block())["resource"] == {
            "uri": "x://a",
            "mimeType": "text/plain",
            "text": "héllo",
        }
        assert sent(File(b"x", uri="x://a").block())["resource"] == {
            "uri": "x://a",
            "mimeType": "application/octet-stream",
            "blob": "eA==",
        }

    def test_a_relative_path_is_made_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The URI of a file is a file: URI of its whole path."""
        monkeypatch.chdir(tmp_path)
        Path("a b.txt").write_text("x")
        assert File(path="a b.txt").block().resource.uri == (tmp_path / "a b.txt").as_uri()


@pytest.mark.parametrize(
    ("mime_type", "text"),
    [
        ("text/plain", True),
        ("TEXT/HTML; charset=utf-8", True),
        ("application/json", True),
        ("application/problem+json", True),
        ("image/svg+xml", True),
        ("application/octet-stream", False),
        ("image/png", False),
        ("application/jsonx", False),
    ],
)
def test_which_types_are_text(mime_type: str, text: bool) -> None:
    """text/*, JSON and XML are text, whatever parameters they have."""
    assert is_text(mime_type) is text


def test_bytes_without_a_type_are_a_blob() -> None:
    """Nobody guesses that bytes of no stated type are text (F60)."""
    assert resource_contents("x://a", b"plain", None) == ResourceContents("x://a", blob="cGxhaW4=")


LINK = ResourceLink("x://a", "a")


class TestBlocks:
    @pytest.mark.parametrize(
        ("value", "types"),
        [
            (TextContent("a"), ["text"]),
            (Image(PNG), ["image"]),
            (Audio(b"a"), ["audio"]),
            (File(b"a", uri="x://a"), ["resource"]),
            (LINK, ["resource_link"]),
            (EmbeddedResource(ResourceContents("x://a", text="a")), ["resource"]),
            (UnknownContent(b'{"type":"hologram","x":1}'), ["hologram"]),
            ([Image(PNG), "and text", LINK], ["image", "text", "resource_link"]),
            ((LINK,), ["resource_link"]),
        ],
    )
    def test_what_is_content(self, value: Any, types: list[str]) -> None:
        """Blocks, our own kinds of data, and lists of them with texts between are content."""
        blocks = to_blocks(value)
        assert blocks is not None
        assert [sent(block)["type"] for block in blocks] == types

    @pytest.mark.parametrize(
        "value", ["text", 1, None, {}, [], ["text"], [{"type": "text", "text": "a"}], [LINK, 1], {"a": LINK}]
    )
    def test_what_is_data(self, value: Any) -> None:
        """Texts, plain values, lists without a block, and lists of blocks and other things are data."""
        assert to_blocks(value) is None

    def test_content_said_in_full_may_be_text(self) -> None:
        """What a ToolResult or a message takes as content: a text, content, nested lists of them, or nothing."""
        assert list(content_blocks(None)) == []
        assert list(content_blocks("a")) == [TextContent("a")]
        assert list(content_blocks(["a", ["b", LINK]])) == [TextContent("a"), TextContent("b"), LINK]

    @pytest.mark.parametrize("value", [1, {"type": "text"}, [LINK, 2.5], object()])
    def test_content_said_in_full_is_nothing_else(self, value: Any) -> None:
        """Anything else is a TypeError that says what content is."""
        with pytest.raises(TypeError, match="is no content; give text, Image"):
            list(content_blocks(value))


def test_only_paths_are_read_from_disk() -> None:
    """What has to be read from a file, at whatever depth, is known before it is read."""
    assert reads_files([["a", File(path="x")]])
    assert reads_files(ToolResult(content=[Image(path="x")]))
    assert not reads_files([Image(PNG), "a", LINK, {"a": 1}])
    assert not reads_files(ImageContent("", "image/png"))
