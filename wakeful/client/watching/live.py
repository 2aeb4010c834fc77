"""The records that a watcher yields for one thread: durable ones from queries, provisional ones from heartbeats.

Pure: the watcher reads pages of events and heartbeats of activities. What is shown before history has it is
`provisional`. A reader who concatenates the deltas, drops them at a `stream_reset` and restarts a call's arguments at
its `tool_call_start` ends with the text that is in history, whatever became of the answer.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from wakeful.client.watching.partial_answer import PartialAnswer, answer_in, deltas
from wakeful.client.watching.tool_output import WatchedCall
from wakeful.contract import ids, names
from wakeful.contract.events import (
    ActivitySnapshot,
    AgentEvent,
    ErrorEvent,
    EventRecord,
    InferenceComplete,
    ReasoningDelta,
    ReasoningEncryptedValue,
    RunFinish,
    StepEnd,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
)
from wakeful.contract.remote import REMOTE_TASK, RemoteProgress
from wakeful.contract.streaming import StreamCheckpoint
from wakeful.contract.views import EventsPage

RESTARTED = "the answer was restarted"
REWRITTEN = "the answer changed before it was recorded"
DROPPED = "the answer was dropped"
REWOUND = "rewound"

_DELTAS = (ReasoningDelta, ReasoningEncryptedValue, TextDelta, ToolCallStart, ToolCallDelta)
_ANSWER_ENDS = (InferenceComplete, StepEnd, StepStart, RunFinish)
"""With one of these events, the streaming answer is complete, or was dropped."""


@dataclass(frozen=True)
class ActivityHeartbeat:
    """The newest heartbeat of a pending activity."""

    id: str
    type: str
    details: JsonValue
    at: int
    next_in: float = 0.0
    """How many seconds later another may follow, at the earliest."""
    more: tuple[JsonValue, ...] = ()
    """The rest of its details."""


@dataclass(frozen=True)
class RecordIdentity:
    """The thread, run and agent that provisional records name."""

    thread_id: str = ""
    run_id: str = ""
    agent_id: str = ""
    path: tuple[str, ...] = ()


class LiveRecords:
    """What a watcher has shown of one thread, and what the next page or heartbeat adds."""

    def __init__(self, after: int) -> None:
        self.after = after
        """The number of the last durable event that was shown."""
        self.identity: RecordIdentity | None = None
        self._in_flight: frozenset[str] = frozenset()
        self._shown: PartialAnswer | None = None
        """What was shown of the answer that is streaming."""
        self._held: list[EventRecord] = []
        self._calls: dict[str, WatchedCall] = {}
        """What was shown of the running calls, by their activities."""
        self._remote_task: JsonValue = None
        """What was shown of the task of a remote agent."""

    @property
    def awaits_heartbeats(self) -> bool:
        """Whether an activity is in flight whose heartbeats can be shown."""
        return any(isinstance(ids.parse_work(id), ids.Infer | ids.CallTool) for id in self._in_flight)

    def on_page(self, page: EventsPage) -> list[EventRecord]:
        """The durable records of a page, without what was shown already.

        Records are held back while there are more of them and a part of their answer was shown: only the complete
        answer says whether it extends that part.
        """
        self._held += page.events
        if page.more and self._shown is not None:
            return []
        held, self._held = self._held, []
        self._in_flight = frozenset(page.in_flight)
        records = [each for record in self._concluding(held) for each in self._with_last_progress(record)]
        self._calls = {id: call for id, call in self._calls.items() if id in self._in_flight}
        if held:
            newest = held[-1]
            self.identity = RecordIdentity(newest.thread_id, newest.run_id, newest.agent_id, newest.path)
        return self._numbered(records)

    def on_heartbeat(self, heartbeat: ActivityHeartbeat) -> list[EventRecord]:
        """What a heartbeat adds; nothing if the run does not wait for that activity."""
        if heartbeat.id not in self._in_flight:
            return []
        match ids.parse_work(heartbeat.id):
            case ids.Infer():
                return [*self._on_remote_task(heartbeat), *self._on_checkpoint(heartbeat)]
            case _ if heartbeat.details is None:
                return []
            case ids.CallTool(call_id=call_id):
                call = self._calls.get(heartbeat.id) or self._watched_call(call_id, heartbeat.type)
                self._calls[heartbeat.id] = call
                return self._provisional(call.on_heartbeat(heartbeat.details), at=heartbeat.at)
            case _:
                return []

    def on_rewind(self, last_retained: int, *, at: int) -> EventRecord:
        """The record that says that events after this number are undone; their numbers are used again."""
        self.after = last_retained
        self._in_flight, self._shown, self._held, self._calls = frozenset(), None, [], {}
        [record] = self._provisional([StreamReset(reason=REWOUND)], at=at)
        return record

    def on_error(self, error: ErrorEvent, *, at: int) -> EventRecord:
        """The last record of a thread that ended without a `run_finish` for it."""
        [record] = self._provisional([error], at=at)
        return record

    def _on_remote_task(self, heartbeat: ActivityHeartbeat) -> list[EventRecord]:
        """The task of a remote agent, whenever its state has changed."""
        if heartbeat.type != names.ACTIVITY_CALL_REMOTE or (task := _remote_task(heartbeat.more)) is None:
            return []
        shown, self._remote_task = self._remote_task, task
        if task == shown:
            return []
        event = ActivitySnapshot(message_id=heartbeat.id, activity_type=REMOTE_TASK, content=task, replace=True)
        return self._provisional([event], at=heartbeat.at)

    def _on_checkpoint(self, heartbeat: ActivityHeartbeat) -> list[EventRecord]:
        try:
            checkpoint = StreamCheckpoint.model_validate(heartbeat.details)
        except ValidationError:
            return []  # empty, or of another version
        answer, shown = PartialAnswer.from_checkpoint(checkpoint), self._shown or PartialAnswer()
        if shown.extends(answer):
            return []  # nothing new: half a number is held back, and a restarted attempt has got less far
        events: list[AgentEvent] = []
        if not answer.extends(shown):
            cause = checkpoint.interruptions[-1].cause if checkpoint.interruptions else RESTARTED
            events, shown = [StreamReset(reason=cause)], PartialAnswer()
        events += deltas(shown, answer)
        if events:
            self._shown = answer
        return self._provisional(events, at=heartbeat.at)

    def _concluding(self, records: Sequence[EventRecord]) -> list[EventRecord]:
        """The records; if they end an answer of which a part was shown, with provisional ones for the rest of it."""
        end = next((number for number, record in enumerate(records) if isinstance(record.event, _ANSWER_ENDS)), None)
        if end is None or (shown := self._shown) is None:
            return list(records)
        self._shown = None
        answer, rest = records[:end], records[end:]
        if not isinstance(rest[0].event, InferenceComplete):
            return [*answer, _provisionally(rest[0], StreamReset(reason=DROPPED)), *rest]
        if any(isinstance(record.event, StreamReset) for record in answer):
            return list(records)  # the reader drops what was shown
        cancelled = {record.event.id for record in answer if isinstance(record.event, ToolCallCancel)}
        has_shown_cancelled = not cancelled.isdisjoint(call.id for call in shown.calls)
        if not has_shown_cancelled and answer_in(record.event for record in answer).extends(shown):
            return [*_completing(answer, shown), *rest]
        first = next((number for number, record in enumerate(answer) if isinstance(record.event, _DELTAS)), end)
        return [*records[:first], _provisionally(records[first], StreamReset(reason=REWRITTEN)), *records[first:]]

    def _numbered(self, records: Iterable[EventRecord]) -> list[EventRecord]:
        """The records; provisional ones get the number of the last durable one."""
        numbered: list[EventRecord] = []
        for record in records:
            if not record.provisional:
                self.after = record.seq
            numbered.append(record if record.seq == self.after else record.model_copy(update={"seq": self.after}))
        return numbered

    def _provisional(self, events: Iterable[AgentEvent], *, at: int) -> list[EventRecord]:
        identity = self.identity or RecordIdentity()
        return [
            EventRecord(
                seq=self.after,
                at=at,
                thread_id=identity.thread_id,
                run_id=identity.run_id,
                agent_id=identity.agent_id,
                path=identity.path,
                provisional=True,
                event=event,
            )
            for event in events
        ]

    def _watched_call(self, call_id: str, tool_name: str) -> WatchedCall:
        identity = self.identity or RecordIdentity()
        return WatchedCall(call_id, tool_name, thread_id=identity.thread_id, run_id=identity.run_id)

    def _with_last_progress(self, record: EventRecord) -> list[EventRecord]:
        """The record, after the last progress of the call that it ends."""
        last = [event for call in self._calls.values() for event in call.on_end(record.event)]
        return [*(_provisionally(record, event) for event in last), record]


def _remote_task(details: Iterable[JsonValue]) -> JsonValue:
    """What a heartbeat says of a remote task, if it has one."""
    for each in details:
        try:
            progress = RemoteProgress.model_validate(each)
        except ValidationError:
            continue
        if progress.task_id is None or progress.state is None:
            return None
        shown = {"service", "task_id", "state", "state_since"}
        task: JsonValue = progress.model_dump(mode="json", include=shown)
        return task
    return None


def _provisionally(record: EventRecord, event: AgentEvent) -> EventRecord:
    """A provisional record that goes before a durable one, or replaces it."""
    return record.model_copy(update={"event": event, "provisional": True})


def _completing(answer: Sequence[EventRecord], shown: PartialAnswer) -> Iterator[EventRecord]:
    """The answer's records, with what was not shown yet in place of its deltas.

    Once a part was shown provisionally, all of the answer is; the first of its records that is not a delta says that
    history has it. Otherwise a reader who resumes from a record in the middle would not know which part it has.
    """
    calls = {call.id: call.arguments for call in shown.calls}
    for record in answer:
        match record.event:
            case ReasoningDelta(delta=delta):
                if rest := delta[len(shown.reasoning) :]:
                    yield _provisionally(record, ReasoningDelta(delta=rest))
            case ReasoningEncryptedValue() as encrypted:
                yield _provisionally(record, encrypted)
            case TextDelta(delta=delta):
                if rest := delta[len(shown.text) :]:
                    yield _provisionally(record, TextDelta(delta=rest))
            case ToolCallStart(id=id) as start:
                if id not in calls:
                    yield _provisionally(record, start)
            case ToolCallDelta(id=id, args_delta=delta):
                if rest := delta[len(calls.get(id, "")) :]:
                    yield _provisionally(record, ToolCallDelta(id=id, args_delta=rest))
            case _:
                yield record
