"""The event log of an execution, and the pages that queries answer with: far under the server's limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from wakeful.contract.base import Wire, json_bytes
from wakeful.contract.errors import InternalError
from wakeful.contract.events import AgentEvent, EventRecord, Handoff, RunStart
from wakeful.contract.inference import RestoreInput
from wakeful.contract.outcomes import remembered_id
from wakeful.contract.requests import ForkPointRequest, OutcomesRequest, PageRequest, RunRequest
from wakeful.contract.runs import RunIdentity, RunStatus
from wakeful.contract.segments import (
    SegmentRef,
    archived_events,
    archived_messages,
    holding_events,
    holding_messages,
)
from wakeful.contract.views import (
    RESTORING,
    EarlierExecution,
    EventsPage,
    ForkPointView,
    OutcomesView,
    QueuedPage,
    StatusView,
    TranscriptPage,
)
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.views import queued_messages, visible_messages

PAGE_BYTES = 500_000
MAX_SEGMENTS = 100
"""References on one page."""

M = TypeVar("M", bound=Wire)


@dataclass(frozen=True)
class Predecessor:
    """The execution that this one continues."""

    run_id: str
    thread_id: str | None = None
    """Of a fork: whose it is."""

    def holding(self, through: int, digest: str | None = None) -> EarlierExecution:
        return EarlierExecution(run_id=self.run_id, through=through, digest=digest, thread_id=self.thread_id)


def fitting(items: Sequence[M]) -> tuple[M, ...]:
    """The first items that fit a page; at least one, so that every page makes progress."""
    taken: list[M] = []
    size = 0
    for item in items:
        size += json_bytes(item)
        if taken and size > PAGE_BYTES:
            break
        taken.append(item)
    return tuple(taken)


class EventLog:
    """The events that are not archived; `before` are. Kept in memory, and passed on by continue-as-new."""

    def __init__(self, before: int = 0, carried: tuple[EventRecord, ...] = ()) -> None:
        self.before = before
        self._carried = carried
        """Those of earlier executions."""
        self._new: list[tuple[int, RunIdentity, AgentEvent]] = []
        self._identity: RunIdentity | None = None

    @property
    def last(self) -> int:
        return self.before + len(self._carried) + len(self._new)

    def since(self, number: int, limit: int | None = None) -> tuple[EventRecord, ...]:
        """At most `limit` events after this number, as far as they are here."""
        start = max(0, number - self.before)
        end = len(self._carried) + len(self._new) if limit is None else start + limit
        skipped = len(self._carried)
        new = self._new[max(0, start - skipped) : max(0, end - skipped)]
        first = self.before + max(start, skipped) + 1
        return (*self._carried[start:end], *(_record(seq, *noted) for seq, noted in enumerate(new, first)))

    def append(self, events: Sequence[AgentEvent], identity: RunIdentity, *, at: int) -> None:
        """Number the events. Those before a `run_start` belong to the run before."""
        for event in events:
            if isinstance(event, RunStart) or self._identity is None:
                self._identity = event.identity if isinstance(event, RunStart) and event.identity else identity
            if isinstance(event, Handoff):
                self._identity = self._identity.model_copy(update={"agent_id": event.to_agent})
            self._new.append((at, self._identity, event))

    def page(self, request: PageRequest) -> tuple[EventRecord, ...]:
        return fitting(self.since(request.after, request.limit))


def _record(seq: int, at: int, identity: RunIdentity, event: AgentEvent) -> EventRecord:
    return EventRecord(
        seq=seq,
        at=at,
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        agent_id=identity.agent_id,
        path=(*identity.path[1:], identity.thread_id) if identity.path else (),
        event=event,
    )


def outcomes_view(thread: Thread, request: OutcomesRequest) -> OutcomesView:
    """What became of these decisions and messages, or of all that the thread remembers."""
    if request.ids is None:
        return OutcomesView(outcomes=thread.outcomes)
    ids = frozenset(map(remembered_id, request.ids))
    return OutcomesView(outcomes=tuple(outcome for outcome in thread.outcomes if outcome.id in ids))


def queued_page(thread: Thread, request: PageRequest) -> QueuedPage:
    """What no run has read, after number `request.after`."""
    waiting = queued_messages(thread)
    taken = fitting(waiting[request.after : request.after + request.limit])
    end = request.after + len(taken)
    return QueuedPage(messages=taken, next=end if end < len(waiting) else None)


def transcript_page(thread: Thread, request: PageRequest, *, segments: tuple[SegmentRef, ...]) -> TranscriptPage:
    """The messages after `request.after`, or the segments that hold them."""
    before, messages = thread.transcript.before, visible_messages(thread)
    if request.after < before.length:
        held = holding_messages(segments, request.after, before.length)[:MAX_SEGMENTS]
        if not held:
            raise InternalError(f"messages {request.after + 1} to {before.length} are not archived")
        end = min(before.length, archived_messages(held))
        return TranscriptPage(messages=(), next=end, segments=held)
    start = request.after - before.length
    taken = fitting(messages[start : start + request.limit])
    end = request.after + len(taken)
    return TranscriptPage(messages=taken, next=end if end < before.length + len(messages) else None)


def events_page(thread: Thread, log: EventLog, request: PageRequest, *, segments: tuple[SegmentRef, ...]) -> EventsPage:
    """The events after `request.after`, or the segments that hold them."""
    if request.after < log.before:
        held = holding_events(segments, request.after)[:MAX_SEGMENTS]
        # After a restore that could not read all events, there is a gap between the archived ones and these.
        end = min(log.before, archived_events(held)) if held else log.before
        return EventsPage(events=(), last=end, done=False, more=True, segments=held)
    taken = log.page(request)
    # A watcher that asks for more than there ever was has seen events that a rewind has undone.
    last = min(request.after + len(taken), log.last)
    if last < log.last:
        return EventsPage(events=taken, last=last, done=False, more=True)
    in_flight = tuple(sorted(thread.in_flight))
    return EventsPage(events=taken, last=last, done=isinstance(thread.stage, Done), in_flight=in_flight)


def past_of(request: RunRequest) -> RestoreInput | None:
    """What a woken or forked thread has to read first."""
    if (fork := request.fork) is not None:
        return RestoreInput(
            run_id=fork.run_id,
            thread_id=fork.thread_id,
            messages=fork.messages,
            digest=fork.digest,
            tenant=request.tenant,
        )
    if request.restore_from is None:
        return None
    return RestoreInput(run_id=request.restore_from, tenant=request.tenant)


def restoring_status(view: StatusView) -> StatusView:
    """A thread that is being restored is about to start its next run; it is not idle."""
    return view.model_copy(update={"status": RunStatus.CREATED, "doing": RESTORING})


def restoring_transcript_page(past: RestoreInput) -> TranscriptPage:
    """While the thread is being restored, the earlier execution has the conversation."""
    return TranscriptPage(messages=(), restoring=True, earlier=_earlier(past))


def restoring_fork_point(past: RestoreInput, request: ForkPointRequest) -> ForkPointView:
    """While the thread is being restored, the earlier execution knows the fork points."""
    return ForkPointView(messages=request.messages, earlier=_earlier(past))


def _earlier(past: RestoreInput) -> EarlierExecution:
    return Predecessor(past.run_id, past.thread_id).holding(past.messages or 0, past.digest)
