"""One execution of a thread as Temporal shows it: when its history has changed, and what its activities heartbeat.

Reading it adds nothing to history. The watcher reads the events of the thread itself.
"""

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle, WorkflowHistoryEventFilterType

from wakeful.client.watching.live import ActivityHeartbeat
from wakeful.client.watching.retrying import Retrier
from wakeful.history.decoder import local_activity_end, moment_of
from wakeful.history.moments import Closed, TaskCompleted, TaskStarted
from wakeful.history.pending_task import pending_task

DESCRIBE_TIMEOUT = timedelta(seconds=2)
"""How long one poll of the pending activities may take: the next poll shows more anyway."""

_CLOSED_BY_WORKFLOW = (
    WorkflowExecutionStatus.COMPLETED,
    WorkflowExecutionStatus.CONTINUED_AS_NEW,
    WorkflowExecutionStatus.FAILED,
    WorkflowExecutionStatus.CANCELED,
)
"""A completed workflow task closed the execution, so all its events are confirmed."""

_CLOSED_FROM_OUTSIDE = (
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
)


class Execution:
    """An execution that a watcher follows until it closes."""

    def __init__(self, temporal: Client, thread_id: str, run_id: str, retrier: Retrier) -> None:
        self.run_id = run_id
        self.closed: Closed | None = None
        """Its last event, once it is closed."""
        self.confirmed_until = 0
        """When its newest completed workflow task started, or its last local activity ended: later events may change.

        A worker that does not have the execution in its cache answers a query by replaying it, and runs on into a
        workflow task that another worker may have lost (SDK 1.35); the retry of that task may decide otherwise.
        """
        self._temporal = temporal
        self._handle = temporal.get_workflow_handle(thread_id, run_id=run_id)
        self._retrier = retrier
        self.was_just_handled = False
        """A workflow task has been completed since the execution was opened, by a worker that then has it in memory."""
        self.is_followed = False
        """It was watched while it was open."""
        self._task_started = (0, 0)
        self._last_event = 0
        self._history_length = 0
        self._next_page: bytes | None = None
        self._has_changed = False

    @property
    def successor(self) -> str | None:
        """The execution that it has continued as."""
        return self.closed.continued_as or None if self.closed is not None else None

    @property
    def has_started(self) -> bool:
        """A worker has completed a workflow task for it: before that, it cannot be read."""
        return self.confirmed_until > 0

    async def open(self) -> None:
        """Read it for the first time."""
        described = await self._retrier.call(self._handle.describe)
        self._history_length = described.history_length or 0
        if described.status not in _CLOSED_BY_WORKFLOW:
            while self.closed is None and self._last_event < self._history_length:
                self._on_events(await self._retrier.call(self._read_next_page))
            self._has_changed = False
            return
        self.confirmed_until = sys.maxsize
        closing = WorkflowHistoryEventFilterType.CLOSE_EVENT
        history = self._handle.fetch_history_events(event_filter_type=closing)
        await self._retrier.call(history.fetch_next_page)
        self._on_events(history.current_page or ())

    async def wait_for_change(self) -> None:
        """Wait until its state may have changed since the last time; return at once when it is closed.

        Only a workflow task changes the state of a run, so only a completed one is worth a query, and after several
        that came together one query is enough.
        """
        while self.closed is None:
            events = await self._retrier.call(self._read_next_page)
            self._on_events(events)
            if self._has_changed and (not events or events[-1].event_id >= self._history_length):
                break
        self._has_changed, self.was_just_handled, self.is_followed = False, self.closed is None, True

    async def _read_next_page(self) -> Sequence[HistoryEvent]:
        """Long-poll for the next events. The page token advances only when they have arrived, so a retry is safe."""
        history = self._handle.fetch_history_events(wait_new_event=True, next_page_token=self._next_page)
        await history.fetch_next_page()
        self._next_page = history.next_page_token
        return history.current_page or ()

    def _on_events(self, events: Sequence[HistoryEvent]) -> None:
        for event in events:
            self._last_event = event.event_id
            if (ended := local_activity_end(event)) is not None:
                # A completed task has recorded it. Events after it have the time of its end, or a later one.
                self._has_changed, self.confirmed_until = True, max(self.confirmed_until, ended + 1)
            match moment_of(event):
                case TaskStarted(event_id=id, at=at):
                    self._task_started = (id, at)
                case TaskCompleted(started=started):
                    self._has_changed = True
                    if started == self._task_started[0]:
                        # The server's clock may step back, while a workflow's stands still. Both round to
                        # milliseconds, one up and the other down.
                        self.confirmed_until = max(self.confirmed_until, self._task_started[1] + 1)
                case Closed(how=how) as closed:
                    self.closed = closed
                    if how not in _CLOSED_FROM_OUTSIDE:
                        self.confirmed_until = sys.maxsize
                case _:
                    pass

    async def waits_for_worker(self) -> bool:
        """Whether a workflow task of it has been waiting for a worker for longer than a task that was just scheduled.

        Raises:
            RPCError: Temporal did not answer.
        """
        task = pending_task(await self._handle.describe(rpc_timeout=DESCRIBE_TIMEOUT))
        return task is not None and not task.is_started and not task.is_new

    async def read_heartbeats(self) -> list[ActivityHeartbeat]:
        """The newest heartbeats of its pending activities.

        Raises:
            RPCError: Temporal did not answer.
        """
        return await read_heartbeats(self._temporal, self._handle)


async def read_heartbeats(temporal: Client, handle: WorkflowHandle[Any, Any]) -> list[ActivityHeartbeat]:
    """The newest heartbeats of a workflow's pending activities.

    Raises:
        RPCError: Temporal did not answer.
    """
    described = await handle.describe(rpc_timeout=DESCRIBE_TIMEOUT)
    return [
        heartbeat
        for activity in described.raw_description.pending_activities
        for heartbeat in await _heartbeats(temporal, activity)
    ]


async def _heartbeats(temporal: Client, activity: PendingActivityInfo) -> list[ActivityHeartbeat]:
    """The newest heartbeat of an activity, if it has one that can be read."""
    if not activity.HasField("heartbeat_details"):
        return []
    try:
        decoded = await temporal.data_converter.decode(activity.heartbeat_details.payloads)
    except Exception:  # another version wrote it, or this client does not have the key of the codec
        return []
    if not decoded:
        return []
    details, *more = decoded
    next_in = decoded[-1] if isinstance(decoded[-1], float) else 0.0
    id, type = activity.activity_id, activity.activity_type.name
    return [ActivityHeartbeat(id, type, details, _millis(activity), next_in, tuple(more))]


def _millis(activity: PendingActivityInfo) -> int:
    heartbeat: Timestamp = activity.last_heartbeat_time
    return heartbeat.ToMilliseconds()
