"""Pictures and files: what customers attach, what a tool shows to the model, and how a line of text names them."""

from collections.abc import Sequence
from pathlib import Path

from wakeful import (
    AudioBlock,
    Base64Source,
    Client,
    DocumentBlock,
    FileRef,
    ImageBlock,
    InputMessage,
    Message,
    RunResult,
    TextBlock,
    UrlSource,
    VideoBlock,
    attachment,
    tool,
)

SHELF = ImageBlock(source=UrlSource(url="https://shop.example/shelf.jpg"))
"""A block by hand; `attachment` makes the same of the address."""


def message_with(text: str, files: Sequence[Path]) -> InputMessage:
    """What a customer writes, with photographs, recordings and documents."""
    return InputMessage(content=[TextBlock(text=text), *(attachment(file) for file in files)])


@tool(read_only=True)
def manual(item: str) -> list[object]:
    """Read the manual of an item, and see where it is on the shelf."""
    pages = attachment(f"https://shop.example/manuals/{item}.pdf", title=f"Manual: {item}")
    return [f"The {item} is on the left.", SHELF, pages]


async def shown(client: Client, result: RunResult) -> list[str]:
    """What the tools of a run have returned besides text, such as the pages of manuals."""
    wanted: list[FileRef] = [file for file in result.tool_files if file.tool == "manual"]
    return [words for block in await client.files(wanted) if (words := words_for(block))]


def described(message: Message) -> str:
    """A message as one line: its text, and a name for everything else."""
    return " ".join(words for block in message.content if (words := words_for(block)))


def words_for(block: object) -> str | None:
    match block:
        case TextBlock(text=text):
            return text
        case DocumentBlock(source=source, title=title):
            return f"[{title or 'document'}, {place(source)}]"
        case ImageBlock(source=source):
            return f"[picture, {place(source)}]"
        case AudioBlock(source=source) | VideoBlock(source=source):
            return f"[recording, {place(source)}]"
        case _:
            return None


def place(source: Base64Source | UrlSource) -> str:
    return source.url if isinstance(source, UrlSource) else source.media_type
