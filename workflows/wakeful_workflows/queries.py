"""The events of an execution, and pages that any client can take: far under the server's limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel

from wakeful.contract.events import AgentEvent, EventRecord, Handoff, RunStart
from wakeful.contract.inference import RestoreInput
from wakeful.contract.requests import PageRequest, PointRequest, RunRequest
from wakeful.contract.runs import RunIdentity
from wakeful.contract.views import Earlier, EventsPage, PointView, TranscriptPage
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import RunState
from wakeful.loop.thread.views import visible_messages

PAGE_BYTES = 500_000

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Before:
    """The execution that this one goes on from."""

    run_id: str
    thread_id: str | None = None
    """Of a fork: whose it is."""

    def holding(self, through: int, digest: str | None = None) -> Earlier:
        return Earlier(run_id=self.run_id, through=through, digest=digest, thread_id=self.thread_id)


def fitting(items: Sequence[M]) -> tuple[M, ...]:
    """The first items that fit a page; at least one, so that asking on always gets on."""
    taken: list[M] = []
    size = 0
    for item in items:
        size += len(item.model_dump_json())
        if taken and size > PAGE_BYTES:
            break
        taken.append(item)
    return tuple(taken)


class EventLog:
    """What happened in this execution; `before` events stand in earlier ones. It is never written to history."""

    def __init__(self, before: int = 0) -> None:
        self.before = before
        self.has_early = False
        """The run has come further, but only because a query made it: nobody is told before its task has said so."""
        self._said: list[tuple[int, RunIdentity, AgentEvent]] = []
        self._speaker: RunIdentity | None = None

    @property
    def last(self) -> int:
        return self.before + len(self._said)

    def append(self, events: Sequence[AgentEvent], identity: RunIdentity, *, at: int, early: bool = False) -> None:
        """Number the events. What stands before a `run_start` is still said by the run before."""
        self.has_early |= early
        if self.has_early:
            return  # the task is done again from history, in a run that begins anew
        for event in events:
            if isinstance(event, RunStart) or self._speaker is None:
                self._speaker = event.identity if isinstance(event, RunStart) and event.identity else identity
            if isinstance(event, Handoff):
                self._speaker = self._speaker.model_copy(update={"agent_id": event.to_agent})
            self._said.append((at, self._speaker, event))

    def page(self, asked: PageRequest) -> tuple[EventRecord, ...]:
        start = max(0, asked.after - self.before)
        said = self._said[start : start + asked.limit]
        first = self.before + start + 1
        return fitting(
            [
                EventRecord(
                    seq=seq,
                    at=at,
                    thread_id=speaker.thread_id,
                    run_id=speaker.run_id,
                    agent_id=speaker.agent_id,
                    path=(*speaker.path[1:], speaker.thread_id) if speaker.path else (),
                    event=event,
                )
                for seq, (at, speaker, event) in enumerate(said, first)
            ]
        )


def transcript_page(state: RunState, asked: PageRequest, *, earlier: Before | None) -> TranscriptPage:
    """The messages after `asked.after`, or where an `earlier` execution has them."""
    before, messages = state.transcript.before, visible_messages(state)
    if asked.after < before.length and earlier:
        place = earlier.holding(before.length, before.digest)
        return TranscriptPage(messages=(), next=before.length, earlier=place)
    start = asked.after - before.length
    taken = fitting(messages[start : start + asked.limit])
    end = asked.after + len(taken)
    return TranscriptPage(messages=taken, next=end if end < before.length + len(messages) else None)


def events_page(state: RunState, log: EventLog, asked: PageRequest, *, earlier: Before | None) -> EventsPage:
    """The events after `asked.after`, or where an `earlier` execution has them."""
    if asked.after < log.before and earlier:
        return EventsPage(events=(), last=asked.after, done=False, earlier=earlier.holding(log.before))
    taken = log.page(asked)
    # Whoever asks for more than there ever was has seen what a rewind has undone.
    last = min(asked.after + len(taken), log.last)
    if last < log.last:
        return EventsPage(events=taken, last=last, done=False, more=True)
    if log.has_early:
        return EventsPage(events=taken, last=last, done=False)
    in_flight = tuple(sorted(state.in_flight))
    return EventsPage(events=taken, last=last, done=isinstance(state.stage, Done), in_flight=in_flight)


def past_of(request: RunRequest) -> RestoreInput | None:
    """What a thread goes on from, if it is not new."""
    if (fork := request.fork) is not None:
        return RestoreInput(run_id=fork.run_id, thread_id=fork.thread_id, messages=fork.messages, digest=fork.digest)
    return RestoreInput(run_id=request.restore_from) if request.restore_from is not None else None


def unread_page(past: RestoreInput) -> TranscriptPage:
    """Where the conversation stands."""
    return TranscriptPage(messages=(), restoring=True, earlier=_place(past))


def unread_point(past: RestoreInput, asked: PointRequest) -> PointView:
    """Who knows what was kept in it."""
    return PointView(messages=asked.messages, earlier=_place(past))


def _place(past: RestoreInput) -> Earlier:
    return Before(past.run_id, past.thread_id).holding(past.messages or 0, past.digest)
