"""Read the files that tools returned from the conversations that have them: results only refer to them."""

from collections.abc import Iterable

from wakeful.client.thread_reader import ThreadReader
from wakeful.client.watching.reading import read_messages
from wakeful.contract.files import FileRef
from wakeful.contract.messages import MediaBlock


async def find_files(reader: ThreadReader, refs: Iterable[FileRef]) -> dict[FileRef, MediaBlock]:
    """Those of the files that their threads have: a rollback removes files from a thread.

    Raises:
        ThreadNotFound: one of the threads has been deleted.
    """
    by_thread: dict[str, list[FileRef]] = {}
    for ref in refs:
        by_thread.setdefault(ref.thread_id, []).append(ref)
    found: dict[FileRef, MediaBlock] = {}
    for thread_id, wanted in by_thread.items():
        media = {message.id: message.media for message in await read_messages(reader, thread_id)}
        found |= {
            ref: media[ref.message_id][ref.index] for ref in wanted if ref.index < len(media.get(ref.message_id, ()))
        }
    return found
