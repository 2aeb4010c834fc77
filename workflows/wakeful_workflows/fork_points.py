"""The fork points of this execution. Kept in memory only, so they cost nothing in history."""

from wakeful.contract.base import replace
from wakeful.contract.messages import Role
from wakeful.contract.requests import ForkPointRequest
from wakeful.contract.views import ForkPointView
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.thread.fork_points import ForkPoint
from wakeful.loop.thread.transcript import TranscriptPosition
from wakeful_workflows.queries import Predecessor


class ForkPoints:
    """What the thread kept at the end of each step; earlier executions have those of the first `base` messages."""

    def __init__(self, base: int = 0) -> None:
        self._base = base
        self._runs: int | None = None
        self._first: ForkPoint | None = None
        """Where the newest run started, as long as the thread has no answers."""
        # By digest: after a rollback, a different conversation may be as long as before.
        self._known: dict[TranscriptPosition, ForkPoint] = {}

    def take(self, made: Advance) -> None:
        thread = made.thread
        runs = thread.counters.runs
        if runs != self._runs:
            if self._runs is not None and thread.run is not None:
                # A rollback undoes what earlier executions have; what is said instead is only here.
                self._base = min(self._base, thread.run.started_at_position.length)
            if thread.run is not None and not _has_answers(thread, thread.transcript.position):
                self._first = thread.fork_point
            self._runs = runs
        self._known.update({point.position: point for point in made.fork_points})

    def add_origin(self, position: TranscriptPosition, thread: Thread) -> None:
        """A fork knows what it started with, without asking its origin."""
        self._known[position] = replace(thread.fork_point, position=position)

    def find(self, thread: Thread, request: ForkPointRequest, *, earlier: Predecessor | None) -> ForkPointView:
        """The fork point after these messages, or the `earlier` execution that has it."""
        position = thread.transcript.position_at(request.messages)
        if position is not None and request.digest not in (None, position.digest):
            return ForkPointView(messages=request.messages)
        if position is not None and position in self._known:
            return _view(position, self._known[position])
        if request.messages <= self._base and earlier is not None:
            return ForkPointView(messages=request.messages, earlier=earlier.holding(self._base))
        if position is not None and self._first is not None and not _has_answers(thread, position):
            return _view(position, self._first)
        return ForkPointView(messages=request.messages)


def _view(position: TranscriptPosition, point: ForkPoint) -> ForkPointView:
    return ForkPointView(messages=position.length, digest=position.digest, carryover=point.carryover)


def _has_answers(thread: Thread, position: TranscriptPosition) -> bool:
    transcript = thread.transcript
    before = transcript.messages[: position.length - transcript.before.length]
    return transcript.before.length > 0 or any(message.role is Role.ASSISTANT for message in before)
