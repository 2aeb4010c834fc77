"""Where a thread can be reset to so that a step is its last: the execution, and the workflow task after the step.

`rewind` resets the thread there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.branching.steps import Step
from wakeful.contract.errors import CallerError
from wakeful.contract.inference import TranscriptRef
from wakeful.contract.messages import Message
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.history.decoder import ExecutionRef, walk_chain
from wakeful.history.timeline import ModelCalled, RunStarted, Timeline, TimelineEntry, WorkEnded, read_timeline
from wakeful.rpc_errors import error_of

Entries = Sequence[tuple[Timeline, TimelineEntry]]


@dataclass(frozen=True)
class ResetPoint:
    """A workflow task that the thread can be reset to: the execution, and the event that completed the task."""

    run_id: str
    task: int
    messages: int
    """How many messages of the thread are retained."""


class ResetPointFinder:
    """Searches the thread's executions, from the newest back, until one has the step."""

    def __init__(self, temporal: Client, thread_id: str, messages: Sequence[Message], steps: Sequence[Step]) -> None:
        self._temporal = temporal
        self._thread_id = thread_id
        self._messages = messages
        self._steps = steps
        self.timelines: list[Timeline] = []

    async def find(self, newest: str, to: int, *, is_first: bool) -> ResetPoint:
        read = partial(self._read, to)
        async for timeline in walk_chain(read, ExecutionRef(self._thread_id, newest)):
            self.timelines.insert(0, timeline)
            entries = [(timeline, entry) for timeline in self.timelines for entry in timeline.entries]
            start = self._run_of(entries, to) if is_first else self._model_call_of(entries, to)
            if start is not None:
                return self._after(entries[start + 1 :], to)
        if is_first and to == len(self._steps):
            raise CallerError(f"thread {self._thread_id!r} has not called the model yet: there is nothing to undo")
        raise self._deleted(to)

    async def _read(self, to: int, execution: ExecutionRef) -> Timeline:
        try:
            return await read_timeline(self._temporal, execution)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise self._deleted(to) from error
            raise error_of(error, self._thread_id) from error

    def _deleted(self, to: int) -> CallerError:
        return CallerError(f"Temporal has deleted the execution that has step {to} of thread {self._thread_id!r}")

    def _model_call_of(self, entries: Entries, to: int) -> int | None:
        """The index of step `to`'s model call, or None. The newest match counts: an earlier one was rolled back."""
        ref = self._ref(self._steps[to - 1])
        found = [
            n for n, (_, entry) in enumerate(entries) if isinstance(entry, ModelCalled) and entry.transcript == ref
        ]
        return found[-1] if found else None

    def _run_of(self, entries: Entries, to: int) -> int | None:
        """The start of the run of step `to + 1`, or of the newest run if there is no such step."""
        end: int | None = len(entries)
        if to < len(self._steps):
            end = self._model_call_of(entries, to + 1)
        if end is None:
            return None
        return next((n for n in reversed(range(end)) if isinstance(entries[n][1], RunStarted)), None)

    def _after(self, entries: Entries, to: int) -> ResetPoint:
        """Where the model was called next; or, if the run ended with the step, where it ended."""
        ended: ResetPoint | None = None
        for timeline, entry in entries:
            match entry:
                case ModelCalled() as call:
                    return ResetPoint(timeline.run_id, timeline.task_calling(call), call.transcript.length)
                case WorkEnded(event=event) if (handled := timeline.task_after(event)) is not None:
                    ended = ResetPoint(timeline.run_id, handled, self._steps[to - 1].end if to else 0)
                case RunStarted() if ended is not None:
                    return ended
                case _:
                    pass
        raise CallerError(
            f"there is nothing after step {to} of thread {self._thread_id!r} to undo: "
            f"use `wakeful fork` to continue from it in a new thread"
        )

    def _ref(self, step: Step) -> TranscriptRef:
        digest = reduce(chained, self._messages[: step.start], EMPTY_DIGEST)
        return TranscriptRef(length=step.start, digest=digest)
