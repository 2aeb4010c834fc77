"""The timeline of one execution: where the model was called, where runs and children started, what others signalled.

Read from history alone, so any execution that the server still has can be read, whether a worker runs or not.
`conversation` has the messages; this has the workflow tasks, which is where Temporal can reset a thread to.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import JsonValue
from temporalio.api.common.v1 import Payloads as RawPayloads
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from wakeful.contract import ids, names
from wakeful.contract.errors import CallerError
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.mail import TaskEvent
from wakeful.contract.requests import parse_budget_request, parse_child_settled, parse_mail, parse_mail_returned
from wakeful.contract.subagents import CANCELLED_BEFORE_START, FAILED_SILENTLY, TERMINATED, TIMED_OUT
from wakeful.history import moments
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments
from wakeful.history.moments import HistoryMoment

THREAD_SIGNALS = frozenset(
    {names.SIGNAL_CHILD_SETTLED, names.SIGNAL_DELIVER, names.SIGNAL_MAIL_RETURNED, names.SIGNAL_BUDGET_REQUEST}
)
"""The signals that other threads send to a parent or a recipient."""

BACKGROUND_ACTIVITIES = frozenset(
    {
        names.ACTIVITY_DELIVER,
        names.ACTIVITY_COMPACT,
        names.ACTIVITY_RESTORE,
        names.ACTIVITY_ARCHIVE,
        names.ACTIVITY_CANCEL_REMOTE,
    }
)
"""Activities that no step waits for."""

M = TypeVar("M", bound="TimelineEntry")


@dataclass(frozen=True)
class TimelineEntry:
    """Something that happened, at this event."""

    event: int


@dataclass(frozen=True)
class ModelCalled(TimelineEntry):
    """The model was called with a transcript, by the workflow task that was completed with event `task`."""

    task: int
    transcript: TranscriptRef


@dataclass(frozen=True)
class RunStarted(TimelineEntry):
    """A run looked up its agent."""


@dataclass(frozen=True)
class WorkEnded(TimelineEntry):
    """Something ended that a step waited for: an inference, a tool call, a delegate."""

    scheduled: int | None = None
    """The event that scheduled it, if it was an activity."""


@dataclass(frozen=True)
class ChildInitiated(TimelineEntry):
    """A sub-agent or a background task got its thread, by the workflow task that was completed with event `task`."""

    task: int
    thread_id: str
    work_id: str


@dataclass(frozen=True)
class ChildRunning(TimelineEntry):
    """The server has started a child."""

    thread_id: str


@dataclass(frozen=True)
class ChildClosed(TimelineEntry):
    """A child's workflow closed; `error` if it did not complete."""

    thread_id: str
    error: str | None


@dataclass(frozen=True)
class ThreadSignal(TimelineEntry):
    """Another thread signalled this one."""

    signal: str
    payload: JsonValue
    sender: str
    about: str
    """The id of the work or the message that it is about."""


@dataclass(frozen=True)
class MessageSent(TimelineEntry):
    """The thread sent a message to another one."""

    message_id: str


@dataclass
class Timeline:
    """What happened in one execution, in order."""

    execution: ExecutionRef
    predecessor: ExecutionRef | None = None
    """The execution that it continues."""
    successor: str | None = None
    """The execution that it continued as."""
    entries: list[TimelineEntry] = field(default_factory=list)
    tasks: list[tuple[int, int]] = field(default_factory=list)
    """The events with which each workflow task was started and completed."""

    @property
    def run_id(self) -> str:
        return self.execution.run_id

    def of(self, kind: type[M], *, after: int = 0) -> Iterator[M]:
        """Its entries of one kind after an event."""
        return (entry for entry in self.entries if isinstance(entry, kind) and entry.event > after)

    def task_calling(self, call: ModelCalled) -> int:
        """The completion of the workflow task to reset to, so that this model call is made again.

        A task that calls the model may start children as well, and would start them again. So it is the next task if
        that was completed when they were running and the model had not answered: after the reset, the server runs an
        activity again that has not ended.
        """
        started = {child.thread_id for child in self.of(ChildInitiated) if child.task == call.task}
        running = [child.event for child in self.of(ChildRunning, after=call.task) if child.thread_id in started]
        later = self.task_after(max(running)) if started and len(running) == len(started) else None
        answered = (work.event for work in self.of(WorkEnded) if work.scheduled == call.event)
        return call.task if later is None or later > next(answered, later) else later

    def task_after(self, event: int) -> int | None:
        """The completion of the workflow task that handled this event."""
        return next((completed for started, completed in self.tasks if started > event), None)


async def read_timeline(client: Client, execution: ExecutionRef) -> Timeline:
    """Read one execution.

    Raises:
        RPCError: the server does not have it any more, or is unreachable.
    """
    reader = _Reader(client, execution)
    async for moment in read_moments(client, execution):
        await reader.read(moment)
    return reader.timeline


_CLOSED = {
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: FAILED_SILENTLY,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: CANCELLED_BEFORE_START,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: TIMED_OUT,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: TERMINATED,
}


class _Reader:
    def __init__(self, client: Client, execution: ExecutionRef) -> None:
        self._payloads = Payloads(client.data_converter)
        self._activity_types: dict[int, str] = {}
        self.timeline = Timeline(execution)

    async def read(self, moment: HistoryMoment) -> None:
        event = moment.event_id
        match moment:
            case moments.Started():
                given = await self._json(moment.input)
                restored = given.get("restore_from") if isinstance(given, dict) else None
                if run_id := moment.continued_run_id or _text(restored):
                    self.timeline.predecessor = ExecutionRef(self.timeline.execution.thread_id, run_id)
            case moments.Closed(continued_as=run_id):
                self.timeline.successor = run_id or None
            case moments.TaskCompleted(started=started):
                self.timeline.tasks.append((started, event))
            case moments.ActivityScheduled():
                await self._on_scheduled(moment)
            case moments.ActivityCompleted(scheduled=int(scheduled)) | moments.ActivityFailed(scheduled=scheduled):
                if self._activity_types.get(scheduled) not in BACKGROUND_ACTIVITIES:
                    self._add(WorkEnded(event, scheduled))
            case moments.ChildInitiated():
                work_id = _work_id(await self._json(moment.input))
                self._add(ChildInitiated(event, moment.task, moment.thread_id, work_id))
            case moments.ChildStarted(thread_id=thread_id):
                self._add(ChildRunning(event, thread_id))
            case moments.ChildClosed(thread_id=thread_id, how=how):
                self._add(ChildClosed(event, thread_id, _CLOSED.get(how)))
            case moments.SignalSent(signal=names.SIGNAL_DELIVER):
                self._on_sent(event, await self._json(moment.input))
            case moments.SignalReceived(signal=signal) if signal in THREAD_SIGNALS:
                await self._on_signal(event, signal, moment.input)
            case _:
                pass

    async def _on_scheduled(self, moment: moments.ActivityScheduled) -> None:
        event = moment.event_id
        self._activity_types[event] = moment.activity_type
        if moment.activity_type in names.INFERENCES:
            input = await self._payloads.value(moment.input, InferInput)
            self._add(ModelCalled(event, moment.task, input.transcript))
        elif isinstance(ids.parse_work(moment.activity_id), ids.Resolve):
            self._add(RunStarted(event))
        elif moment.activity_type == names.ACTIVITY_DELIVER:
            delivery = await self._json(moment.input)
            self._on_sent(event, delivery.get("payload") if isinstance(delivery, dict) else None)

    async def _json(self, input: RawPayloads) -> JsonValue:
        """The value; None if it cannot be decoded, so that one bad entry does not hide the others."""
        with suppress(CallerError):
            return await self._payloads.json(input)
        return None

    async def _on_signal(self, event: int, signal: str, input: RawPayloads) -> None:
        with suppress(CallerError):  # the workflow rejected it, too
            payload = await self._payloads.json(input)
            sender, about = _sender(signal, payload)
            self._add(ThreadSignal(event, signal, payload, sender, about))
            if signal == names.SIGNAL_CHILD_SETTLED and isinstance(ids.parse_work(about), ids.Delegate):
                self._add(WorkEnded(event))

    def _on_sent(self, event: int, message: JsonValue) -> None:
        if isinstance(message, dict) and isinstance(id := message.get("message_id"), str):
            self._add(MessageSent(event, id))

    def _add(self, entry: TimelineEntry) -> None:
        self.timeline.entries.append(entry)


def _sender(signal: str, payload: JsonValue) -> tuple[str, str]:
    """Which thread sent a signal, as far as it says so, and which work or message it is about."""
    match signal:
        case names.SIGNAL_CHILD_SETTLED:
            child = parse_child_settled(payload)
            return child.thread_id, child.work_id
        case names.SIGNAL_BUDGET_REQUEST:
            request = parse_budget_request(payload)
            return request.thread_id, request.work_id
        case names.SIGNAL_MAIL_RETURNED:
            message = parse_mail_returned(payload).message
            return message.recipient_thread_id, message.message_id
        case _:
            mail = parse_mail(payload)
            if isinstance(mail, TaskEvent):
                return mail.thread_id or "", mail.task_id
            return mail.sender.thread_id, mail.message_id


def _work_id(given: JsonValue) -> str:
    """The parent's id for a child, from the child's input: a sub-agent's context, or a background tool's task."""
    if not isinstance(given, dict):
        return ""
    context = given.get("subagent")
    return _text(context.get("work_id")) if isinstance(context, dict) else _text(given.get("task_id"))


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
