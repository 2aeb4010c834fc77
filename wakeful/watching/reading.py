"""What a thread has said and done, read from every execution of it that still has a part."""

from datetime import timedelta
from functools import reduce

from temporalio.client import Client

from wakeful.asking import query
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.messages import Message
from wakeful.contract.requests import MAX_PAGE
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.contract.views import EventsPage, TranscriptPage


async def read_messages(
    temporal: Client, thread_id: str, *, run_id: str | None = None, through: int | None = None
) -> list[Message]:
    """The thread's messages from its first execution on, up to number `through`; a fork's begin in its origin.

    Raises:
        WakefulError: it is a fork, and its origin was rolled back to before the place that it was forked at.
    """
    messages: list[Message] = []
    after: int | None = 0
    while after is not None and (through is None or len(messages) < through):
        asked = {"after": after, "limit": MAX_PAGE}
        page = await query(temporal, thread_id, names.QUERY_TRANSCRIPT, TranscriptPage, asked, run_id=run_id)
        if (earlier := page.earlier) is not None:
            whose = earlier.thread_id or thread_id
            messages = await read_messages(temporal, whose, run_id=earlier.run_id, through=earlier.through)
            if earlier.thread_id and reduce(chained, messages, EMPTY_DIGEST) != earlier.digest:
                raise WakefulError(
                    f"thread {thread_id!r} begins with messages of {whose!r} that were rolled back there"
                )
        messages += page.messages
        after = page.next
    return messages[:through]


async def read_events(
    temporal: Client, thread_id: str, *, after: int, run_id: str | None, within: timedelta | None = None
) -> EventsPage:
    """One page of what happened after event number `after`, as one execution has it."""
    # As many as a page holds: a closed execution is replayed for every page.
    asked = {"after": after, "limit": MAX_PAGE}
    return await query(temporal, thread_id, names.QUERY_EVENTS, EventsPage, asked, run_id=run_id, within=within)
