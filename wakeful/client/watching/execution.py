"""One execution of a thread, as Temporal has it: its history tells when there is news, its activities what they say.

Reading it adds nothing to history. What the news is, the thread itself is asked: that is the watcher's part.
"""

import sys
from collections.abc import Sequence
from datetime import timedelta

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import JsonValue
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistoryEventFilterType

from wakeful.client.watching.live import Pending
from wakeful.client.watching.retrying import Patience
from wakeful.history.decoder import Closed, TaskCompleted, TaskStarted, moment_of

GLANCE = timedelta(seconds=2)
"""How long a look at pending activities may take: the next one shows more anyway."""

_CLOSED_BY_ITSELF = (
    WorkflowExecutionStatus.COMPLETED,
    WorkflowExecutionStatus.CONTINUED_AS_NEW,
    WorkflowExecutionStatus.FAILED,
    WorkflowExecutionStatus.CANCELED,
)
"""With a workflow task that is completed: all of it is firm."""

_CLOSED_FROM_OUTSIDE = (
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
)


class Execution:
    """An execution that is followed to its end."""

    def __init__(self, temporal: Client, thread_id: str, run_id: str, patience: Patience) -> None:
        self.run_id = run_id
        self.closing: Closed | None = None
        """Its last event, once it is closed."""
        self.firm = 0
        """When its newest workflow task began of those that are completed: what it tells of later times may change.

        A worker that does not know the execution answers a question by replaying it, and goes on into a task that is
        lost with another worker (SDK 1.35); the task that is done instead may come to something else.
        """
        self._temporal = temporal
        self._handle = temporal.get_workflow_handle(thread_id, run_id=run_id)
        self._patience = patience
        self._begun = (0, 0)
        self._length = 0
        self._next: bytes | None = None
        self._is_changed = False

    @property
    def successor(self) -> str | None:
        """The execution that it has continued as."""
        return self.closing.continued_as or None if self.closing is not None else None

    @property
    def never_began(self) -> bool:
        """It was closed before any worker had done something for it, and nobody can answer for it."""
        return self.closing is not None and self.firm == 0

    async def open(self) -> None:
        """Look at it for the first time, and wait until a worker has begun it."""
        described = await self._patience.get(self._handle.describe)
        self._length = described.history_length or 0
        if described.status not in _CLOSED_BY_ITSELF:
            await self.changed()
            return
        self.firm = sys.maxsize
        closing = WorkflowHistoryEventFilterType.CLOSE_EVENT
        history = self._handle.fetch_history_events(event_filter_type=closing)
        await self._patience.get(history.fetch_next_page)
        self._note(history.current_page or ())

    async def changed(self) -> None:
        """Wait until its state may have changed since the last time; no longer, once it is closed.

        Every change of a run's state is made in a workflow task, so nothing else is worth a question; and however many
        came at once, one question has what they made.
        """
        while self.closing is None:
            events = await self._patience.get(self._read_on)
            self._note(events)
            if self._is_changed and (not events or events[-1].event_id >= self._length):
                break
        self._is_changed = False

    async def _read_on(self) -> Sequence[HistoryEvent]:
        """The next events, as soon as there are any. What was read is remembered only when it is here."""
        history = self._handle.fetch_history_events(wait_new_event=True, next_page_token=self._next)
        await history.fetch_next_page()
        self._next = history.next_page_token
        return history.current_page or ()

    def _note(self, events: Sequence[HistoryEvent]) -> None:
        for event in events:
            match moment_of(event):
                case TaskStarted(event_id=id, at=at):
                    self._begun = (id, at)
                case TaskCompleted(started=started):
                    self._is_changed = True
                    if started == self._begun[0]:
                        # A server's clock may step back; a workflow's stands still meanwhile. Both sides use whole
                        # milliseconds, and may round up there and down here.
                        self.firm = max(self.firm, self._begun[1] + 1)
                case Closed(how=how) as closed:
                    self.closing = closed
                    if how not in _CLOSED_FROM_OUTSIDE:
                        self.firm = sys.maxsize
                case _:
                    pass

    async def pending(self) -> list[Pending]:
        """What the activities that it waits for have said with their newest heartbeats.

        Raises:
            RPCError: Temporal did not answer.
        """
        described = await self._handle.describe(rpc_timeout=GLANCE)
        return [
            Pending(activity.activity_id, activity.activity_type.name, said, _millis(activity.last_heartbeat_time))
            for activity in described.raw_description.pending_activities
            for said in await self._said(activity)
        ]

    async def _said(self, activity: PendingActivityInfo) -> list[JsonValue]:
        if not activity.HasField("heartbeat_details"):
            return []
        try:
            return (await self._temporal.data_converter.decode(activity.heartbeat_details.payloads))[:1]
        except Exception:  # written by another version, or with a key that this client does not have
            return []


def _millis(time: Timestamp) -> int:
    return time.ToMilliseconds()
