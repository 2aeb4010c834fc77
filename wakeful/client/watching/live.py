"""An answer while it comes, beside the events that stay: what of it is shown, and what is left to show in the end.

Pure: it is given what an activity's heartbeat says and what queries bring, and makes the records of one thread. Where
both come from is the watcher's business. What it shows early is `provisional`; whatever becomes of the answer, whoever
puts the deltas together, forgets them at a `stream_reset` and begins a call anew at its `tool_call_start` ends with
the text that is in history.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from wakeful.client.watching.partial_answer import Draft, added, whole
from wakeful.contract.events import (
    ActivitySnapshot,
    AgentEvent,
    EventRecord,
    InferenceComplete,
    ReasoningDelta,
    RunFinish,
    StepEnd,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
)
from wakeful.contract.streaming import StreamCheckpoint
from wakeful.contract.views import EventsPage

INFERENCE = re.compile(r"infer-")
TOOL_CALL = re.compile(r"tool(?:\.\d+)?-(?P<call_id>.*)", re.DOTALL)
PROGRESS = "tool-call-progress"

BEGUN_AGAIN = "the answer was begun again"
REWRITTEN = "the answer was changed before it was kept"
DROPPED = "the answer was dropped"
REWOUND = "rewound"

_DELTAS = (ReasoningDelta, TextDelta, ToolCallStart, ToolCallDelta)
_ENDS = (InferenceComplete, StepEnd, StepStart, RunFinish)
"""With one of them, the answer that was under way is whole, or has come to nothing."""


@dataclass(frozen=True)
class Pending:
    """What Temporal says of an activity that a thread waits for."""

    id: str
    type: str
    said: JsonValue
    """Its newest heartbeat."""
    at: int


@dataclass(frozen=True)
class Speaker:
    """Whose words a provisional record brings."""

    thread_id: str
    run_id: str
    agent_id: str
    path: tuple[str, ...] = ()


class Live:
    """What a watcher has shown of one thread, and what the next page or heartbeat adds to it."""

    def __init__(self, after: int) -> None:
        self.after = after
        """The last durable event that was shown."""
        self.speaker: Speaker | None = None
        self._in_flight: frozenset[str] = frozenset()
        self._shown: Draft | None = None
        """What was shown of the answer that is under way."""
        self._held: list[EventRecord] = []
        self._progress: dict[str, JsonValue] = {}

    @property
    def awaited(self) -> frozenset[str]:
        """The activities whose heartbeats are worth looking at."""
        return frozenset(id for id in self._in_flight if INFERENCE.match(id) or TOOL_CALL.match(id))

    def heard(self, page: EventsPage) -> list[EventRecord]:
        """The durable records of a page, without what was shown already.

        Records are held back while there are more of them and part of their answer was shown: only the whole of it
        tells whether it continues that.
        """
        self._held += page.events
        if page.more and self._shown is not None:
            return []
        held, self._held = self._held, []
        self._in_flight = frozenset(page.in_flight)
        self._progress = {id: said for id, said in self._progress.items() if id in self._in_flight}
        if held:
            newest = held[-1]
            self.speaker = Speaker(newest.thread_id, newest.run_id, newest.agent_id, newest.path)
        return self._numbered(self._concluded(held))

    def seen(self, pending: Pending) -> list[EventRecord]:
        """What the heartbeat of an activity adds; nothing, if the run does not wait for it."""
        if pending.id not in self._in_flight or pending.said is None:
            return []
        if INFERENCE.match(pending.id):
            return self._drafted(pending)
        if (named := TOOL_CALL.match(pending.id)) and self._progress.get(pending.id) != pending.said:
            self._progress[pending.id] = pending.said
            return self._provisional([self._snapshot(named["call_id"], pending)], at=pending.at)
        return []

    def rewound(self, after: int, *, at: int) -> EventRecord:
        """What tells that nothing after this event stands any more; the numbers after it are used again."""
        self.after = after
        self._in_flight, self._shown, self._held, self._progress = frozenset(), None, [], {}
        [forgetting] = self._provisional([StreamReset(reason=REWOUND)], at=at)
        return forgetting

    def _drafted(self, pending: Pending) -> list[EventRecord]:
        try:
            came = StreamCheckpoint.model_validate(pending.said)
        except ValidationError:
            return []  # one that says nothing, or of another version
        draft, shown = Draft.of(came), self._shown or Draft()
        if shown.continues(draft):
            return []  # what half a number means may have to wait; an attempt that begins again says the same so far
        events: list[AgentEvent] = []
        if not draft.continues(shown):
            cause = came.interruptions[-1].cause if came.interruptions else BEGUN_AGAIN
            events, shown = [StreamReset(reason=cause)], Draft()
        events += added(shown, draft)
        if events:
            self._shown = draft
        return self._provisional(events, at=pending.at)

    def _concluded(self, records: Sequence[EventRecord]) -> list[EventRecord]:
        """The records, with provisional ones in between if they end an answer of which a part was shown."""
        end = next((number for number, record in enumerate(records) if isinstance(record.event, _ENDS)), None)
        if end is None or (shown := self._shown) is None:
            return list(records)
        self._shown = None
        answer, rest = records[:end], records[end:]
        if not isinstance(rest[0].event, InferenceComplete):
            return [*answer, _before(rest[0], StreamReset(reason=DROPPED)), *rest]
        if any(isinstance(record.event, StreamReset) for record in answer):
            return list(records)  # who sees it forgets what was shown
        dropped = {record.event.id for record in answer if isinstance(record.event, ToolCallCancel)}
        if dropped.isdisjoint(call.id for call in shown.calls) and whole(record.event for record in answer).continues(
            shown
        ):
            return [*_completed(answer, shown), *rest]
        first = next((number for number, record in enumerate(answer) if isinstance(record.event, _DELTAS)), end)
        return [*records[:first], _before(records[first], StreamReset(reason=REWRITTEN)), *records[first:]]

    def _numbered(self, records: Iterable[EventRecord]) -> list[EventRecord]:
        """The records, those that are provisional with the number of the last one that is not."""
        numbered: list[EventRecord] = []
        for record in records:
            if not record.provisional:
                self.after = record.seq
            numbered.append(record if record.seq == self.after else record.model_copy(update={"seq": self.after}))
        return numbered

    def _provisional(self, events: Iterable[AgentEvent], *, at: int) -> list[EventRecord]:
        who = self.speaker or Speaker("", "", "")
        return [
            EventRecord(
                seq=self.after,
                at=at,
                thread_id=who.thread_id,
                run_id=who.run_id,
                agent_id=who.agent_id,
                path=who.path,
                provisional=True,
                event=event,
            )
            for event in events
        ]

    def _snapshot(self, call_id: str, pending: Pending) -> ActivitySnapshot:
        who = self.speaker or Speaker("", "", "")
        said = pending.said if isinstance(pending.said, dict) else {}
        content: JsonValue = {
            "schema": f"{PROGRESS}.v1",
            "node_id": f"tool_call:{call_id}",
            "parent_node_id": f"run:{who.run_id}",
            "call_id": call_id,
            "tool_name": pending.type,
            "run_id": who.run_id,
            "thread_id": who.thread_id,
            "status": "running",
            **said,
        }
        return ActivitySnapshot(message_id=call_id, activity_type=PROGRESS, content=content, replace=True)


def _before(record: EventRecord, event: AgentEvent) -> EventRecord:
    """A provisional record in front of one that is not, or in its place."""
    return record.model_copy(update={"event": event, "provisional": True})


def _completed(answer: Sequence[EventRecord], shown: Draft) -> Iterator[EventRecord]:
    """The answer's records, with what was not shown yet in the place of its words.

    Once a part of it was shown without being in history, all of it comes so, and the first of its records that is not
    a delta says that it is: whoever goes on from a record in the middle would otherwise not know what it has.
    """
    calls = {call.id: call.arguments for call in shown.calls}
    for record in answer:
        match record.event:
            case ReasoningDelta(delta=delta):
                if left := delta[len(shown.reasoning) :]:
                    yield _before(record, ReasoningDelta(delta=left))
            case TextDelta(delta=delta):
                if left := delta[len(shown.text) :]:
                    yield _before(record, TextDelta(delta=left))
            case ToolCallStart(id=id) as start:
                if id not in calls:
                    yield _before(record, start)
            case ToolCallDelta(id=id, args_delta=delta):
                if left := delta[len(calls.get(id, "")) :]:
                    yield _before(record, ToolCallDelta(id=id, args_delta=left))
            case _:
                yield record
