"""`attachment`: a content block from bytes, a file or an address."""

import base64
from pathlib import Path

import pytest

from wakeful import AudioBlock, Base64Source, DocumentBlock, ImageBlock, UrlSource, VideoBlock, attachment

WEBP = b"RIFF\x00\x00\x00\x00WEBP"


def inline(media_type: str, content: bytes) -> Base64Source:
    return Base64Source(media_type=media_type, data=base64.b64encode(content).decode())


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (WEBP, "image/webp"),
    ],
)
def test_the_type_of_a_picture_follows_from_its_first_bytes(content: bytes, media_type: str) -> None:
    assert attachment(content) == ImageBlock(source=inline(media_type, content))


def test_the_type_of_a_file_follows_from_its_name_and_a_document_has_it_as_its_title(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_bytes(b"a,b")
    (tmp_path / "chart.png").write_bytes(b"no png")
    assert attachment(tmp_path / "sales.csv") == DocumentBlock(source=inline("text/csv", b"a,b"), title="sales.csv")
    assert attachment(tmp_path / "chart.png") == ImageBlock(source=inline("image/png", b"no png"))


def test_a_given_type_and_title_win() -> None:
    assert attachment(b"x", media_type="audio/wav") == AudioBlock(source=inline("audio/wav", b"x"))
    assert attachment(b"%PDF-", title="Bill") == DocumentBlock(source=inline("application/pdf", b"%PDF-"), title="Bill")


def test_an_address_is_passed_on_to_the_provider() -> None:
    url = "https://example.org/clip.mp4?size=1"
    assert attachment(url) == VideoBlock(source=UrlSource(url=url))
    assert attachment("https://example.org/1", media_type="image/png") == ImageBlock(
        source=UrlSource(url="https://example.org/1")
    )


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (b"some text", "the type of content of 9 bytes is not known: pass media_type"),
        ("https://example.org/1", "the type of 'https://example.org/1' is not known"),
        ("chart.png", r"'chart.png' is no URL: pass a file as Path\('chart.png'\)"),
        ("https://example.org/rows.json", "is 'application/json', which models cannot read"),
    ],
)
def test_what_a_model_cannot_read_is_refused(source: bytes | str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        attachment(source)
