"""Read the messages and events of a thread, from every execution of it that still has a part."""

from datetime import timedelta
from functools import reduce

from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.client.queries import query
from wakeful.contract import names
from wakeful.contract.errors import NoAnswer, WakefulError
from wakeful.contract.messages import Message
from wakeful.contract.requests import MAX_PAGE
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.contract.views import EventsPage, TranscriptPage
from wakeful.history.archive import ArchiveReader
from wakeful.history.latest_execution import started_before
from wakeful.rpc_errors import error_of


async def read_messages(
    temporal: Client, thread_id: str, *, run_id: str | None = None, through: int | None = None
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
            page = await query(temporal, thread_id, names.QUERY_TRANSCRIPT, TranscriptPage, request, run_id=run_id)
        except NoAnswer:
            if (before := await _started_before(temporal, thread_id, run_id)) is None:
                raise
            return await read_messages(temporal, thread_id, run_id=before, through=through)
        if (earlier := page.earlier) is not None:
            owner = earlier.thread_id or thread_id
            end = through if page.restoring and not earlier.thread_id else earlier.through
            messages = await read_messages(temporal, owner, run_id=earlier.run_id, through=end)
            digest = earlier.digest if earlier.thread_id else None
            if digest is not None and reduce(chained, messages, EMPTY_DIGEST) != digest:
                raise WakefulError(
                    f"thread {thread_id!r} begins with messages of {owner!r} that were rolled back there"
                )
        if page.segments and page.next is not None:
            messages += await ArchiveReader(temporal).messages(page.segments, after=after, through=page.next)
        messages += page.messages
        after = page.next
    return messages[:through]


async def _started_before(temporal: Client, thread_id: str, run_id: str | None) -> str | None:
    """The execution that has the conversation of one that does not answer because it never started."""
    if run_id is None:
        try:
            run_id = (await temporal.get_workflow_handle(thread_id).describe()).run_id
        except RPCError as error:
            raise error_of(error, thread_id) from error
    return await started_before(temporal, thread_id, run_id)


async def read_events(
    temporal: Client, thread_id: str, *, after: int, run_id: str | None, within: timedelta | None = None
) -> EventsPage:
    """One page of what happened after event number `after`, as one execution has it."""
    # As many as a page holds: a worker replays a closed execution for every page.
    request = {"after": after, "limit": MAX_PAGE}
    page = await query(temporal, thread_id, names.QUERY_EVENTS, EventsPage, request, run_id=run_id, within=within)
    if not page.segments:
        return page
    archived = await ArchiveReader(temporal).events(page.segments[:1], after=after)
    return EventsPage(events=tuple(archived), last=page.segments[0].events, done=False, more=True)
