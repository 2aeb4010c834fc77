"""Pictures, documents, audio and video as content blocks: `attachment` makes one from bytes, a file or an address."""

import base64
import mimetypes
from pathlib import Path
from urllib.parse import urlsplit

from wakeful.contract.messages import (
    AudioBlock,
    Base64Source,
    DocumentBlock,
    ImageBlock,
    MediaBlock,
    MediaSource,
    UrlSource,
    VideoBlock,
)

PDF = "application/pdf"

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"%PDF-": PDF,
}
"""How files begin whose type need not be given."""


def attachment(source: bytes | Path | str, *, media_type: str | None = None, title: str | None = None) -> MediaBlock:
    """A picture, a document, audio or video for a model: return it from a tool, alone or in a list with text.

    Args:
        source: the content, a file, or a URL that the model's provider can read.
        media_type: such as `image/png`; by default, it follows from the name of the file or the beginning of its
            content.
        title: of a document; by default, the name of its file.

    Raises:
        ValueError: the type is not known, or models cannot read such content.
        OSError: the file cannot be read.
    """
    made, what = _source(source, media_type)
    kind = made.media_type if isinstance(made, Base64Source) else media_type or _guessed(urlsplit(made.url).path)
    if not kind:
        raise ValueError(f"the type of {what} is not known: pass media_type, such as 'image/png'")
    if title is None and isinstance(source, Path):
        title = source.name
    block = block_of(kind, made, title=title)
    if block is None:
        raise ValueError(
            f"{what} is {kind!r}, which models cannot read; they can read pictures, PDF, text, audio and video: return "
            "its content as text, or as JSON"
        )
    return block


def block_of(media_type: str, source: MediaSource, *, title: str | None = None) -> MediaBlock | None:
    """The content as a model can read it; None if it cannot."""
    match media_type.partition("/")[0]:
        case "image":
            return ImageBlock(source=source)
        case "audio":
            return AudioBlock(source=source)
        case "video":
            return VideoBlock(source=source)
        case "text":
            return DocumentBlock(source=source, title=title)
        case _:
            return DocumentBlock(source=source, title=title) if media_type == PDF else None


def _source(source: bytes | Path | str, media_type: str | None) -> tuple[MediaSource, str]:
    """The source of a block, and how messages name it. Of bytes whose type is not known, the type is empty."""
    if isinstance(source, str):
        if not urlsplit(source).scheme:
            raise ValueError(f"{source!r} is no URL: pass a file as Path({source!r}), and text as it is")
        return UrlSource(url=source), repr(source)
    content, what = (source, f"content of {len(source):,} bytes") if isinstance(source, bytes) else _read(source)
    kind = media_type or (_guessed(source.name) if isinstance(source, Path) else None) or _signed(content) or ""
    return Base64Source(media_type=kind, data=base64.b64encode(content).decode()), what


def _read(path: Path) -> tuple[bytes, str]:
    return path.read_bytes(), f"file {path.name!r}"


def _guessed(name: str) -> str | None:
    return mimetypes.guess_type(name)[0]


def _signed(content: bytes) -> str | None:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES.items() if content.startswith(start)), None)
