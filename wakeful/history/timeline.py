"""One execution of a thread in moments: where the model was asked, where runs and children began, who said what.

Read from history alone, so that it can be had of any execution that the server still has, whether a worker runs or not.
What the thread said stands in `history`; this says at which workflow task, which is where Temporal can reset it to.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import JsonValue
from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from wakeful.contract import names
from wakeful.contract.errors import CallerError
from wakeful.contract.inference import InferInput, TranscriptRef
from wakeful.contract.mail import TaskEvent
from wakeful.contract.requests import parse_loan, parse_mail, parse_returned, parse_settled
from wakeful.contract.subagents import FAILED_SILENTLY, TERMINATED, TIMED_OUT
from wakeful.history.conversation import DELEGATE

FROM_THREADS = frozenset({names.SIGNAL_SETTLED, names.SIGNAL_DELIVER, names.SIGNAL_RETURNED, names.SIGNAL_LEND})
"""The signals by which other threads speak; the rest is what people say, and what parents tell sub-agents."""

BESIDE_THE_RUN = frozenset({names.ACTIVITY_DELIVER, names.ACTIVITY_COMPACT, names.ACTIVITY_RESTORE})
"""Activities that no step waits for."""

HANDOFF = "handoff-"
"""How the id of the look-up begins that is not a run's first."""

M = TypeVar("M", bound="Moment")


@dataclass(frozen=True)
class Moment:
    """Something that stands in history, at this event."""

    event: int


@dataclass(frozen=True)
class Asked(Moment):
    """The model was asked about a transcript, by the workflow task that was completed with event `task`."""

    task: int
    transcript: TranscriptRef


@dataclass(frozen=True)
class RunBegan(Moment):
    """A run looked up its agent."""


@dataclass(frozen=True)
class WorkEnded(Moment):
    """Something came back that a step waited for: an answer, a tool's result, a delegate's end."""

    asked: int | None = None
    """The event that an activity was scheduled with."""


@dataclass(frozen=True)
class ChildBegan(Moment):
    """A sub-agent or a background task was given its thread, by the workflow task that ended with event `task`."""

    task: int
    thread_id: str
    work_id: str


@dataclass(frozen=True)
class ChildRuns(Moment):
    """The server has started a child."""

    thread_id: str


@dataclass(frozen=True)
class ChildClosed(Moment):
    """A child's workflow closed, and this is how, if it came to no end of its own."""

    thread_id: str
    error: str | None


@dataclass(frozen=True)
class Heard(Moment):
    """Another thread said something."""

    signal: str
    payload: JsonValue
    speaker: str
    about: str
    """The name of the work or the letter that it is about."""


@dataclass(frozen=True)
class LetterSent(Moment):
    """The thread wrote to another one."""

    message_id: str


@dataclass
class Timeline:
    """What one execution went through, in order."""

    run_id: str
    earlier: str | None = None
    """The execution that it went on from."""
    following: str | None = None
    """The execution that it continued as."""
    moments: list[Moment] = field(default_factory=list)
    tasks: list[tuple[int, int]] = field(default_factory=list)
    """The events with which each workflow task was started and completed."""

    def of(self, kind: type[M], *, after: int = 0) -> Iterator[M]:
        """Its moments of one kind that stand after an event."""
        return (moment for moment in self.moments if isinstance(moment, kind) and moment.event > after)

    def task_asking(self, asked: Asked) -> int:
        """The completion of the workflow task from which on the model is asked again.

        A task that asks may start children as well, and would start them again. So it is the next one if that was
        completed when they ran and the model had not answered: the server repeats an activity that has not ended.
        """
        begun = {child.thread_id for child in self.of(ChildBegan) if child.task == asked.task}
        runs = [child.event for child in self.of(ChildRuns, after=asked.task) if child.thread_id in begun]
        later = self.task_after(max(runs)) if begun and len(runs) == len(begun) else None
        answered = (work.event for work in self.of(WorkEnded) if work.asked == asked.event)
        return asked.task if later is None or later > next(answered, later) else later

    def task_after(self, event: int) -> int | None:
        """The completion of the workflow task that has taken in what stands at `event`."""
        return next((completed for started, completed in self.tasks if started > event), None)


async def read_timeline(client: Client, thread_id: str, run_id: str) -> Timeline:
    """Read one execution.

    Raises:
        RPCError: the server does not have it any more, or is away.
    """
    reader = _Reader(client, run_id)
    async for event in client.get_workflow_handle(thread_id, run_id=run_id).fetch_history_events():
        await reader.read(event)
    return reader.timeline


_WITHOUT_A_WORD = {
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED: FAILED_SILENTLY,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED: "it was cancelled from outside before it had begun",
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TIMED_OUT: TIMED_OUT,
    EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED: TERMINATED,
}


class _Reader:
    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self._kinds: dict[int, str] = {}
        self.timeline = Timeline(run_id)

    async def read(self, event: HistoryEvent) -> None:
        kind = event.event_type
        match kind:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                started = event.workflow_execution_started_event_attributes
                given = await self._json(started.input)
                restored = given.get("restore_from") if isinstance(given, dict) else None
                self.timeline.earlier = started.continued_execution_run_id or _text(restored) or None
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
                continued = event.workflow_execution_continued_as_new_event_attributes
                self.timeline.following = continued.new_execution_run_id
            case EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
                task = event.workflow_task_completed_event_attributes
                self.timeline.tasks.append((task.started_event_id, event.event_id))
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                await self._scheduled(event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                self._ended(event, event.activity_task_completed_event_attributes.scheduled_event_id)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
                self._ended(event, event.activity_task_failed_event_attributes.scheduled_event_id)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
                self._ended(event, event.activity_task_timed_out_event_attributes.scheduled_event_id)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
                self._ended(event, event.activity_task_canceled_event_attributes.scheduled_event_id)
            case _:
                await self._family(event)

    async def _scheduled(self, event: HistoryEvent) -> None:
        scheduled = event.activity_task_scheduled_event_attributes
        kind = scheduled.activity_type.name
        self._kinds[event.event_id] = kind
        if kind == names.ACTIVITY_INFER:
            (asked,) = await self._client.data_converter.decode(scheduled.input.payloads, [InferInput])
            self._add(Asked(event.event_id, scheduled.workflow_task_completed_event_id, asked.transcript))
        elif kind == names.ACTIVITY_RESOLVE_AGENT and not scheduled.activity_id.startswith(HANDOFF):
            self._add(RunBegan(event.event_id))
        elif kind == names.ACTIVITY_DELIVER:
            delivered = await self._json(scheduled.input)
            self._sent(event, delivered.get("payload") if isinstance(delivered, dict) else None)

    def _ended(self, event: HistoryEvent, scheduled: int) -> None:
        if self._kinds.get(scheduled) not in BESIDE_THE_RUN:
            self._add(WorkEnded(event.event_id, scheduled))

    async def _family(self, event: HistoryEvent) -> None:
        """What passes between the thread and others."""
        match event.event_type:
            case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
                child = event.start_child_workflow_execution_initiated_event_attributes
                work_id = _work_id(await self._json(child.input))
                task = child.workflow_task_completed_event_id
                self._add(ChildBegan(event.event_id, task, child.workflow_id, work_id))
            case EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
                runs = event.child_workflow_execution_started_event_attributes.workflow_execution
                self._add(ChildRuns(event.event_id, runs.workflow_id))
            case EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
                told = event.signal_external_workflow_execution_initiated_event_attributes
                if told.signal_name == names.SIGNAL_DELIVER:
                    self._sent(event, await self._json(told.input))
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                heard = event.workflow_execution_signaled_event_attributes
                if heard.signal_name in FROM_THREADS:
                    self._heard(event.event_id, heard.signal_name, await self._json(heard.input))
            case EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED:
                closed = event.child_workflow_execution_completed_event_attributes.workflow_execution
                self._add(ChildClosed(event.event_id, closed.workflow_id, None))
            case kind if kind in _WITHOUT_A_WORD:
                attributes = getattr(event, str(event.WhichOneof("attributes")))
                thread_id: str = attributes.workflow_execution.workflow_id
                self._add(ChildClosed(event.event_id, thread_id, _WITHOUT_A_WORD[kind]))
            case _:
                pass

    def _heard(self, event: int, signal: str, payload: JsonValue) -> None:
        with suppress(CallerError):  # the workflow did not understand it either
            speaker, about = _spoken(signal, payload)
            self._add(Heard(event, signal, payload, speaker, about))
            if signal == names.SIGNAL_SETTLED and about.partition("-")[0].partition(".")[0] == DELEGATE:
                self._add(WorkEnded(event))

    def _sent(self, event: HistoryEvent, letter: JsonValue) -> None:
        if isinstance(letter, dict) and isinstance(id := letter.get("message_id"), str):
            self._add(LetterSent(event.event_id, id))

    def _add(self, moment: Moment) -> None:
        self.timeline.moments.append(moment)

    async def _json(self, payloads: Payloads) -> JsonValue:
        decoded = await self._client.data_converter.decode(payloads.payloads)
        value: JsonValue = decoded[0] if decoded else None
        return value


def _spoken(signal: str, payload: JsonValue) -> tuple[str, str]:
    """Which thread said it, as far as it says so, and which work or letter it is about."""
    match signal:
        case names.SIGNAL_SETTLED:
            settled = parse_settled(payload)
            return settled.thread_id, settled.work_id
        case names.SIGNAL_LEND:
            loan = parse_loan(payload)
            return loan.thread_id, loan.work_id
        case names.SIGNAL_RETURNED:
            letter = parse_returned(payload).letter
            return letter.recipient_thread_id, letter.message_id
        case _:
            mail = parse_mail(payload)
            if isinstance(mail, TaskEvent):
                return mail.thread_id or "", mail.task_id
            return mail.sender.thread_id, mail.message_id


def _work_id(given: JsonValue) -> str:
    """What a child was told that its parent calls it: a sub-agent among its family, a background tool as its task."""
    if not isinstance(given, dict):
        return ""
    family = given.get("family")
    return _text(family.get("work_id")) if isinstance(family, dict) else _text(given.get("task_id"))


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
