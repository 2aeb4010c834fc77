"""Where a thread can be rewound to: which workflow task stands for the end of a step, in which execution.

It looks through the thread's executions, from the newest back, until one has the place. What is done there is for
`rewinding`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from wakeful.client.branching.steps import Step
from wakeful.contract.errors import CallerError
from wakeful.contract.inference import TranscriptRef
from wakeful.contract.messages import Message
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.history.timeline import Asked, Moment, RunBegan, Timeline, WorkEnded, read_timeline
from wakeful.rpc_errors import translated

Moments = Sequence[tuple[Timeline, Moment]]


@dataclass(frozen=True)
class Place:
    """A workflow task that the thread can be reset to, as the execution and the event that completed it."""

    run_id: str
    task: int
    messages: int
    """How many messages of the thread stay."""


class Finder:
    """Looks for the place in the thread's executions, from the newest back."""

    def __init__(self, temporal: Client, thread_id: str, messages: Sequence[Message], steps: Sequence[Step]) -> None:
        self._temporal = temporal
        self._thread_id = thread_id
        self._messages = messages
        self._steps = steps
        self.timelines: list[Timeline] = []

    async def find(self, newest: str, to: int, *, is_first: bool) -> Place:
        wanted: str | None = newest
        while wanted is not None:
            self.timelines.insert(0, await self._read(wanted, to))
            moments = [(timeline, moment) for timeline in self.timelines for moment in timeline.moments]
            start = self._run_of(moments, to) if is_first else self._answer_of(moments, to)
            if start is not None:
                return self._after(moments[start + 1 :], to)
            wanted = self.timelines[0].earlier
        if is_first and to == len(self._steps):
            raise CallerError(f"thread {self._thread_id!r} has not asked the model yet: there is nothing to undo")
        raise self._lost(to)

    async def _read(self, run_id: str, to: int) -> Timeline:
        try:
            return await read_timeline(self._temporal, self._thread_id, run_id)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                raise self._lost(to) from error
            raise translated(error, self._thread_id) from error

    def _lost(self, to: int) -> CallerError:
        return CallerError(
            f"step {to} of thread {self._thread_id!r} stands in an execution that Temporal does not keep any more"
        )

    def _answer_of(self, moments: Moments, to: int) -> int | None:
        """Where the model was asked for step `to`: the newest time, since what was rolled back was before."""
        ref = self._ref(self._steps[to - 1])
        found = [n for n, (_, moment) in enumerate(moments) if isinstance(moment, Asked) and moment.transcript == ref]
        return found[-1] if found else None

    def _run_of(self, moments: Moments, to: int) -> int | None:
        """Where the run began that step `to + 1` is of, or, if there is none, the newest run."""
        end: int | None = len(moments)
        if to < len(self._steps):
            end = self._answer_of(moments, to + 1)
        if end is None:
            return None
        return next((n for n in reversed(range(end)) if isinstance(moments[n][1], RunBegan)), None)

    def _after(self, moments: Moments, to: int) -> Place:
        """The next time that the model was asked; or, if the run ended with the step, where that was."""
        ended: Place | None = None
        for timeline, moment in moments:
            match moment:
                case Asked() as asked:
                    return Place(timeline.run_id, timeline.task_asking(asked), asked.transcript.length)
                case WorkEnded(event=event) if (handled := timeline.task_after(event)) is not None:
                    ended = Place(timeline.run_id, handled, self._steps[to - 1].end if to else 0)
                case RunBegan() if ended is not None:
                    return ended
                case _:
                    pass
        raise CallerError(
            f"nothing came after step {to} of thread {self._thread_id!r} that could be undone: "
            f"`wakeful fork` goes on from it in a thread of its own"
        )

    def _ref(self, step: Step) -> TranscriptRef:
        digest = EMPTY_DIGEST
        for message in self._messages[: step.asked]:
            digest = chained(digest, message)
        return TranscriptRef(length=step.asked, digest=digest)
