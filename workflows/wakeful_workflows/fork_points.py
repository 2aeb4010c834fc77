"""Where this execution can be forked: the ends of its steps. Kept in memory only, so it costs nothing in history."""

from dataclasses import replace

from wakeful.contract.messages import Role
from wakeful.contract.requests import PointRequest
from wakeful.contract.views import PointView
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.thread.fork_points import Point
from wakeful.loop.thread.transcript import Mark
from wakeful_workflows.queries import Before


class Points:
    """What the thread kept at the end of each step; the first `base` messages are those of earlier executions."""

    def __init__(self, base: int = 0) -> None:
        self._base = base
        self._runs: int | None = None
        self._first: Point | None = None
        """Where the newest run began of those that nobody had been answered before."""
        # By digest: after a rollback a conversation may be as long as before, and another one.
        self._known: dict[Mark, Point] = {}

    def take(self, made: Advance) -> None:
        state = made.state
        if state.runs != self._runs:
            if self._runs is not None:
                # A rollback undoes what earlier executions have, and what is said instead is only here.
                self._base = min(self._base, state.began.length)
            if state.runs and not _has_answers(state, state.transcript.mark):
                self._first = state.point
            self._runs = state.runs
        self._known.update({point.mark: point for point in made.points})

    def begin_at(self, mark: Mark, state: RunState) -> None:
        """A fork knows by itself what it began with."""
        self._known[mark] = replace(state.point, mark=mark)

    def find(self, state: RunState, asked: PointRequest, *, earlier: Before | None) -> PointView:
        """The point after these messages, or where an `earlier` execution has it."""
        mark = state.transcript.mark_at(asked.messages)
        if mark is not None and asked.digest not in (None, mark.digest):
            return PointView(messages=asked.messages)
        if mark is not None and mark in self._known:
            return _view(mark, self._known[mark])
        if asked.messages <= self._base and earlier is not None:
            return PointView(messages=asked.messages, earlier=earlier.holding(self._base))
        if mark is not None and self._first is not None and not _has_answers(state, mark):
            return _view(mark, self._first)
        return PointView(messages=asked.messages)


def _view(mark: Mark, point: Point) -> PointView:
    return PointView(messages=mark.length, digest=mark.digest, keeps=point.keeps)


def _has_answers(state: RunState, mark: Mark) -> bool:
    transcript = state.transcript
    before = transcript.messages[: mark.length - transcript.before.length]
    return transcript.before.length > 0 or any(message.role is Role.ASSISTANT for message in before)
