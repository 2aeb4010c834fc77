"""What a thread has said and done, read from every execution of it that still has a part."""

from collections.abc import AsyncIterator

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.service import RPCError

from wakeful.asking import query, translated
from wakeful.contract import names
from wakeful.contract.events import EventRecord
from wakeful.contract.messages import Message
from wakeful.contract.requests import MAX_PAGE
from wakeful.contract.views import EventsPage, TranscriptPage

_STATE_MAY_CHANGE = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    }
)


async def read_messages(
    temporal: Client, thread_id: str, *, run_id: str | None = None, through: int | None = None
) -> list[Message]:
    """The thread's messages from its first execution on, up to number `through`."""
    messages: list[Message] = []
    after: int | None = 0
    while after is not None and (through is None or len(messages) < through):
        asked = {"after": after, "limit": MAX_PAGE}
        page = await query(temporal, thread_id, names.QUERY_TRANSCRIPT, TranscriptPage, asked, run_id=run_id)
        if (earlier := page.earlier) is not None:
            messages = await read_messages(temporal, thread_id, run_id=earlier.run_id, through=earlier.through)
        messages += page.messages
        after = page.next
    return messages[:through]


async def read_events(temporal: Client, thread_id: str, *, after: int, run_id: str | None) -> EventsPage:
    """One page of what happened after event number `after`, as one execution has it."""
    # As many as a page holds: a closed execution is replayed for every page.
    asked = {"after": after, "limit": MAX_PAGE}
    return await query(temporal, thread_id, names.QUERY_EVENTS, EventsPage, asked, run_id=run_id)


async def watch_events(temporal: Client, thread_id: str, *, after: int) -> AsyncIterator[EventRecord]:
    """Events as they come. History's long poll wakes the watcher, and queries bring the events."""
    run_id: str | None = await _execution_after(temporal, thread_id, after)
    while run_id is not None:
        following: str | None = None
        try:
            handle = temporal.get_workflow_handle(thread_id, run_id=run_id)
            history = handle.fetch_history_events(wait_new_event=True)
            while True:
                await history.fetch_next_page()
                # Every change of a run's state is made in a workflow task, so nothing else is worth a query;
                # and however many came at once, one query has what they made.
                changes = [event for event in history.current_page or () if event.event_type in _STATE_MAY_CHANGE]
                while changes:
                    page = await read_events(temporal, thread_id, after=after, run_id=run_id)
                    for record in page.events:
                        yield record
                    after = page.last
                    if page.done:
                        return
                    if not page.more:
                        break
                for event in changes:
                    continued = event.workflow_execution_continued_as_new_event_attributes
                    following = continued.new_execution_run_id or following
                if history.next_page_token is None:
                    break
        except RPCError as error:
            raise translated(error, thread_id) from error
        run_id = following


async def _execution_after(temporal: Client, thread_id: str, after: int) -> str:
    """The execution of the thread that has event number `after + 1`, or will have it."""
    try:
        described = await temporal.get_workflow_handle(thread_id).describe()
    except RPCError as error:
        raise translated(error, thread_id) from error
    run_id = described.run_id
    while (earlier := (await read_events(temporal, thread_id, after=after, run_id=run_id)).earlier) is not None:
        run_id = earlier.run_id
    return run_id
