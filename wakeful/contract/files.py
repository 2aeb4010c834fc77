"""References to the files that tools return: results name them, and the thread's conversation has them."""

from typing import Literal

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.limits import NAME_LENGTH, cut
from wakeful.contract.messages import Base64Source, DocumentBlock, Message


class FileRef(Wire):
    """Where a thread has a file that a tool returned; `client.files` reads it."""

    thread_id: str
    message_id: str
    index: Few[int] = 0
    """Which of the message's files it is, from 0."""
    type: Literal["image", "document", "audio", "video"]
    media_type: Maybe[str] = None
    """Absent of a file that is an address."""
    title: Maybe[str] = None
    tool: Maybe[str] = None
    """Absent of what a background task returned."""
    call_id: Maybe[str] = None


def files_of(message: Message, *, thread_id: str, tool: str | None = None) -> tuple[FileRef, ...]:
    """The files of a message."""
    return tuple(
        FileRef(
            thread_id=thread_id,
            message_id=message.id,
            index=index,
            type=block.type,
            media_type=cut(block.source.media_type, NAME_LENGTH) if isinstance(block.source, Base64Source) else None,
            title=cut(block.title, NAME_LENGTH) if isinstance(block, DocumentBlock) and block.title else None,
            tool=tool,
            call_id=message.tool_call_id,
        )
        for index, block in enumerate(message.media)
    )
