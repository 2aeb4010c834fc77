"""Read the messages and events of a thread, from every execution of it that still has a part."""

from datetime import timedelta
from functools import reduce

from wakeful.client.queries import query
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract import names
from wakeful.contract.errors import NotStarted, WakefulError
from wakeful.contract.messages import Message
from wakeful.contract.requests import MAX_PAGE
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.contract.views import EventsPage, TranscriptPage
from wakeful.history.latest_execution import started_before


async def read_messages(
    reader: ThreadReader, thread_id: str, *, run_id: str | None = None, through: int | None = None
) -> list[Message]:
    """The thread's messages from its first execution on, up to number `through`; a fork's begin in its origin.

    Raises:
        WakefulError: it is a fork, and its origin was rolled back to before the fork point.
    """
    messages = list[Message]()
    after: int | None = 0
    while after is not None and (through is None or len(messages) < through):
        request = {"after": after, "limit": MAX_PAGE}
        try:
            page = await reader.query(thread_id, names.QUERY_TRANSCRIPT, TranscriptPage, request, run_id=run_id)
        except NotStarted as error:
            if (before := await started_before(reader.temporal, thread_id, error.run_id)) is None:
                raise
            return await read_messages(reader, thread_id, run_id=before, through=through)
        if (earlier := page.earlier) is not None:
            owner = earlier.thread_id or thread_id
            end = through if page.restoring and not earlier.thread_id else earlier.through
            messages = await read_messages(reader, owner, run_id=earlier.run_id, through=end)
            digest = earlier.digest if earlier.thread_id else None
            if digest is not None and reduce(chained, messages, EMPTY_DIGEST) != digest:
                raise WakefulError(
                    f"thread {thread_id!r} begins with messages of {owner!r} that were rolled back there"
                )
        if page.segments and page.next is not None:
            messages += await reader.archives.messages(page.segments, after=after, through=page.next)
        messages += page.messages
        after = page.next
    return messages[:through]


async def read_events(reader: ThreadReader, thread_id: str, *, after: int, run_id: str | None) -> EventsPage:
    """One page of what happened after event number `after`, as one execution has it."""
    request = {"after": after, "limit": MAX_PAGE}
    page = await reader.query(thread_id, names.QUERY_EVENTS, EventsPage, request, run_id=run_id)
    return await _with_archived(reader, page, after)


async def ask_for_events(
    reader: ThreadReader, thread_id: str, *, after: int, run_id: str, within: timedelta
) -> EventsPage:
    """The same, as a worker has it in memory.

    Raises:
        NoAnswer: no worker answered `within` this time.
    """
    name, request = names.QUERY_EVENTS, {"after": after, "limit": MAX_PAGE}
    page = await query(reader.temporal, thread_id, name, EventsPage, request, run_id=run_id, within=within)
    return await _with_archived(reader, page, after)


async def _with_archived(reader: ThreadReader, page: EventsPage, after: int) -> EventsPage:
    if not page.segments:
        return page
    archived = await reader.archives.events(page.segments[:1], after=after)
    return EventsPage(events=tuple(archived), last=page.segments[0].events, done=False, more=True)
