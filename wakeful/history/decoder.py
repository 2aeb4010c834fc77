"""The one decoder of workflow history: every history event that Wakeful reads, as a typed moment.

`moment_of` decodes an event, and `Payloads` what it carries. `walk_chain` follows a thread from its newest execution
back. The readers on top of this are `conversation` (cold rebuild), `timeline` (rewind), `latest_execution` (wake),
`replay`, `reader`, and those of `wakeful.client.diagnosis`, `wakeful.client.watching` and the sweep.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from pydantic import JsonValue
from temporalio.api.common.v1 import Payload
from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.converter import DataConverter

from wakeful.contract.errors import CallerError, CannotDecode
from wakeful.contract.requests import read_signal
from wakeful.history.moments import (
    ActivityCompleted,
    ActivityFailed,
    ActivityScheduled,
    AttributesUpserted,
    CancelRequested,
    CancelSent,
    ChildClosed,
    ChildInitiated,
    ChildStarted,
    Closed,
    HistoryMoment,
    MarkerRecorded,
    SignalReceived,
    SignalSent,
    Started,
    TaskCompleted,
    TaskFailed,
    TaskStarted,
    TimerStarted,
)
from wakeful.undecodable import decode_problem, is_permanent

LOCAL_ACTIVITY_MARKER = "core_local_activity"

T = TypeVar("T")


@dataclass(frozen=True)
class ExecutionRef:
    """One execution of a thread; `run_id` is Temporal's."""

    thread_id: str
    run_id: str


_CHILD_CLOSED = frozenset(
    {
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED,
    }
)
_CLOSED = frozenset(
    {
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
        EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
    }
)
_ACTIVITY_FAILED = frozenset(
    {
        EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
        EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
        EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
    }
)


def moment_of(event: HistoryEvent) -> HistoryMoment | None:
    """What an event records; None if no reader needs it. A completed activity has no type: see `Decoder`."""
    id, at = event.event_id, event.event_time.ToMilliseconds()
    return _execution_moment(event, id, at) or _work_moment(event, id, at) or _child_moment(event, id, at)


def _execution_moment(event: HistoryEvent, id: int, at: int) -> HistoryMoment | None:
    """The execution's own life: its start and end, its workflow tasks, signals and cancellation."""
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            started = event.workflow_execution_started_event_attributes
            return Started(
                id,
                at,
                started.workflow_type.name,
                started.workflow_id,
                started.input,
                started.continued_execution_run_id,
                started.original_execution_run_id,
            )
        case EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
            return TaskStarted(id, at)
        case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return TaskCompleted(id, at, event.workflow_task_completed_event_attributes.started_event_id)
        case EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            task = event.workflow_task_failed_event_attributes
            return TaskFailed(id, at, task.cause, task.failure)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            received = event.workflow_execution_signaled_event_attributes
            sender = received.external_workflow_execution.workflow_id
            return SignalReceived(id, at, received.signal_name, received.input, sender, received.identity)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
            cancel = event.workflow_execution_cancel_requested_event_attributes
            return CancelRequested(id, at, cancel.identity, cause=cancel.cause)
        case how if how in _CLOSED:
            return _closed(event, id, at)
        case _:
            return None


def _work_moment(event: HistoryEvent, id: int, at: int) -> HistoryMoment | None:
    """What the execution does itself: activities, timers, markers and search attributes."""
    match event.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            return ActivityScheduled(
                id,
                at,
                scheduled.activity_id,
                scheduled.activity_type.name,
                scheduled.input,
                scheduled.workflow_task_completed_event_id,
                event.user_metadata.summary if event.user_metadata.HasField("summary") else None,
            )
        case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            completed = event.activity_task_completed_event_attributes
            return ActivityCompleted(id, at, completed.scheduled_event_id, "", "", completed.result)
        case how if how in _ACTIVITY_FAILED:
            attributes = attributes_of(event)
            failure = attributes.failure if how != EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED else None
            return ActivityFailed(id, at, attributes.scheduled_event_id, how, failure)
        case EventType.EVENT_TYPE_MARKER_RECORDED:
            return _marker(event, id, at)
        case EventType.EVENT_TYPE_TIMER_STARTED:
            timer = event.timer_started_event_attributes
            return TimerStarted(id, at, timer.timer_id, timer.start_to_fire_timeout.ToTimedelta())
        case EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
            upserted = event.upsert_workflow_search_attributes_event_attributes.search_attributes
            return AttributesUpserted(id, at, tuple(sorted(upserted.indexed_fields)))
        case _:
            return None


def _child_moment(event: HistoryEvent, id: int, at: int) -> HistoryMoment | None:
    """What the execution has to do with other workflows."""
    match event.event_type:
        case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
            child = event.start_child_workflow_execution_initiated_event_attributes
            task = child.workflow_task_completed_event_id
            return ChildInitiated(id, at, child.workflow_type.name, child.workflow_id, child.input, task)
        case EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
            running = event.child_workflow_execution_started_event_attributes.workflow_execution
            return ChildStarted(id, at, running.workflow_id)
        case how if how in _CHILD_CLOSED:
            return ChildClosed(id, at, attributes_of(event).workflow_execution.workflow_id, how)
        case EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
            sent = event.signal_external_workflow_execution_initiated_event_attributes
            return SignalSent(id, at, sent.signal_name, sent.input, sent.workflow_execution.workflow_id)
        case EventType.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
            external = event.request_cancel_external_workflow_execution_initiated_event_attributes
            return CancelSent(id, at, external.workflow_execution.workflow_id)
        case _:
            return None


def _marker(event: HistoryEvent, id: int, at: int) -> ActivityCompleted | MarkerRecorded:
    marker = event.marker_recorded_event_attributes
    if marker.marker_name != LOCAL_ACTIVITY_MARKER or "result" not in marker.details:
        return MarkerRecorded(id, at, marker.marker_name)
    recorded = json.loads(marker.details["data"].payloads[0].data)
    return ActivityCompleted(id, at, None, recorded["activity_id"], recorded["activity_type"], marker.details["result"])


def local_activity_end(event: HistoryEvent) -> int | None:
    """When the local activity of a marker ended: the workflow's time from there on, later than its task's start.

    In milliseconds since 1970; None for any other event, and if the SDK has recorded no time.
    """
    marker = event.marker_recorded_event_attributes
    if marker.marker_name != LOCAL_ACTIVITY_MARKER:
        return None
    ended = json.loads(marker.details["data"].payloads[0].data).get("complete_time")
    return None if ended is None else int(ended["seconds"]) * 1000 + int(ended["nanos"]) // 1_000_000


def _closed(event: HistoryEvent, id: int, at: int) -> Closed:
    closed = Closed(id, at, event.event_type)
    match event.event_type:
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            continued = event.workflow_execution_continued_as_new_event_attributes
            return replace(closed, continued_as=continued.new_execution_run_id)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED:
            terminated = event.workflow_execution_terminated_event_attributes
            return replace(closed, identity=terminated.identity, reason=terminated.reason)
        case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
            return replace(closed, failure=event.workflow_execution_failed_event_attributes.failure)
        case _:
            return closed


def attributes_of(event: HistoryEvent) -> Any:
    """The attributes of an event, in the one of many generated classes that its type has; None for an unknown type."""
    field = event.WhichOneof("attributes")
    return getattr(event, field) if field is not None else None


class Decoder:
    """Decodes the events of one execution, in order: a completed activity has the type it was scheduled with."""

    def __init__(self) -> None:
        self._scheduled: dict[int, ActivityScheduled] = {}

    def decode(self, event: HistoryEvent) -> HistoryMoment | None:
        moment = moment_of(event)
        match moment:
            case ActivityScheduled():
                self._scheduled[moment.event_id] = moment
            case ActivityCompleted(scheduled=int(scheduled)) if (known := self._scheduled.get(scheduled)) is not None:
                return replace(moment, activity_id=known.activity_id, activity_type=known.activity_type)
        return moment


class Payloads:
    """Decodes payloads with the data converter and codec of a client.

    It is exactly as lenient as the workflow: what that refuses is a `CallerError` here. What could be decoded later, as
    when a key service does not answer, raises the codec's own error.
    """

    def __init__(self, converter: DataConverter) -> None:
        self._converter = converter

    async def json(self, payloads: RawPayloads) -> JsonValue:
        """The one payload as JSON; None if there is none.

        Raises:
            CallerError: it cannot be decoded, or there are several.
        """
        value: JsonValue = await self.signal(payloads, lambda given: given)
        return value

    async def signal(self, payloads: RawPayloads, parse: Callable[[Any], T]) -> T:
        """What a signal says.

        Raises:
            CallerError: it is malformed, and the workflow has refused it.
        """
        return read_signal(await self._raw(payloads), self._converter.payload_converter.from_payload, parse)

    async def _raw(self, payloads: RawPayloads) -> list[Payload]:
        """What the codec and the payload store make of them."""
        try:
            raw = await self._converter.decode(payloads.payloads, [RawValue] * len(payloads.payloads))
        except Exception as error:
            if not is_permanent(error):
                raise
            raise CallerError(f"the payload codec cannot decode it ({type(error).__name__})") from error
        return [value.payload for value in raw]

    async def value(self, payloads: RawPayloads, kind: type[T]) -> T:
        """The one payload as a value of this type.

        Raises:
            CallerError: it is not one.
        """
        raw = await self._raw(payloads)
        convert = self._converter.payload_converter.from_payload
        value: T = read_signal(raw, lambda payload: convert(payload, kind), lambda value: value)
        return value

    def check_codec(self, error: CallerError, subject: str) -> None:
        """Tell a payload that only this client cannot decode from one that is malformed.

        Raises:
            CannotDecode: the codec is missing, or has another key.
        """
        cause = error.__cause__
        if isinstance(cause, Exception) and (reason := decode_problem(self._converter, cause)) is not None:
            raise CannotDecode(subject, reason) from error

    async def text(self, payload: Payload | None) -> str:
        """A payload of Temporal UI's metadata; empty if it cannot be decoded."""
        if payload is None:
            return ""
        try:
            (text,) = await self._converter.decode([payload], [str])
        except Exception:  # without the codec there is no summary, and nothing else depends on it
            return ""
        return str(text)


async def read_moments(
    client: Client, execution: ExecutionRef, *, page_size: int | None = None
) -> AsyncIterator[HistoryMoment]:
    """The moments of one execution, in order.

    Raises:
        RPCError: the server does not have the execution any more, or is unreachable.
    """
    decoder = Decoder()
    handle = client.get_workflow_handle(execution.thread_id, run_id=execution.run_id)
    async for event in handle.fetch_history_events(page_size=page_size):
        if (moment := decoder.decode(event)) is not None:
            yield moment


def moments_of(events: Sequence[HistoryEvent]) -> list[HistoryMoment]:
    """The moments of these events."""
    decoder = Decoder()
    return [moment for event in events if (moment := decoder.decode(event)) is not None]


class HasPredecessor(Protocol):
    """What a reader returns for one execution."""

    @property
    def predecessor(self) -> ExecutionRef | None: ...


E = TypeVar("E", bound=HasPredecessor)


async def walk_chain(read: Callable[[ExecutionRef], Awaitable[E]], newest: ExecutionRef) -> AsyncIterator[E]:
    """Read a thread's executions, from the newest back, for as long as the caller wants more."""
    wanted: ExecutionRef | None = newest
    while wanted is not None:
        execution = await read(wanted)
        yield execution
        wanted = execution.predecessor
