"""What a watcher has been shown of a running tool call, and what its next heartbeat adds; `live.py` makes records.

A heartbeat has all that a call shows, within bounds, so a watcher that has missed one sees the rest, and how much
is missing.
"""

from collections.abc import Iterator

from pydantic import JsonValue, ValidationError

from wakeful.contract.events import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
    ToolCallStreamDelta,
)
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tool_progress import LIVE, LiveActivity, ProgressStatus, ToolLive, progress_snapshot

_STATUSES: dict[ToolCallOutcome, ProgressStatus] = {
    ToolCallOutcome.SUSPENDED: "pending",
    ToolCallOutcome.SUCCEEDED: "done",
    ToolCallOutcome.FAILED: "failed",
}


_TASK_STATUSES: dict[TaskStatus, ProgressStatus] = {
    TaskStatus.COMPLETED: "done",
    TaskStatus.FAILED: "failed",
    TaskStatus.CANCELLED: "cancelled",
}


class WatchedCall:
    """One call, from its first heartbeat that shows something until its end."""

    def __init__(self, call_id: str, tool_name: str, *, thread_id: str, run_id: str) -> None:
        self.call_id = call_id
        self._tool_name = tool_name
        self._thread_id = thread_id
        self._run_id = run_id
        self._details: JsonValue = None
        self._report: dict[str, JsonValue] = {}
        self._live = ToolLive()
        self._is_reported = False

    def on_heartbeat(self, details: JsonValue) -> list[AgentEvent]:
        """What the heartbeat adds."""
        if details == self._details or not isinstance(details, dict):
            return []
        before, self._details = self._live, details
        report = {key: value for key, value in details.items() if key != LIVE}
        self._live = _live(details.get(LIVE))
        events: list[AgentEvent] = []
        if report and (report != self._report or self._live.attempt != before.attempt):
            self._report, self._is_reported = report, True
            events.append(self._progress("running"))
        return [*events, *self._output(before), *self._activities(before)]

    def on_end(self, event: AgentEvent) -> list[AgentEvent]:
        """The last status of its progress, if this event ends the call and there was any."""
        match event:
            case (
                ToolCallDone(id=self.call_id, outcome=outcome)
                | ToolCallResumed(target_id=self.call_id, outcome=outcome)
            ) if self._is_reported:
                return [self._progress(_STATUSES[outcome])]
            case ToolCallCancel(id=self.call_id) if self._is_reported:
                return [self._progress("cancelled")]
            case _:
                return []

    def on_task_end(self, status: TaskStatus) -> list[AgentEvent]:
        """The last status of its progress, if it is a background task that has ended so and there was any."""
        return [self._progress(_TASK_STATUSES[status])] if self._is_reported else []

    def _progress(self, status: ProgressStatus) -> ActivitySnapshot:
        live = self._live
        return progress_snapshot(
            self.call_id,
            self._tool_name,
            status,
            self._report,
            thread_id=self._thread_id,
            run_id=self._run_id,
            parent_call_id=live.parent_call_id,
            parent_run_id=live.parent_run_id,
        )

    def _output(self, before: ToolLive) -> Iterator[AgentEvent]:
        live, shown = self._live, before.start + len(before.text)
        restarted = before.attempt not in (0, live.attempt) and shown > 0
        shown = 0 if before.attempt != live.attempt else shown
        delta = live.text[max(0, shown - live.start) :]
        if delta or restarted:
            skipped = max(0, live.start - shown)
            yield ToolCallStreamDelta(
                id=self.call_id, name=self._tool_name, delta=delta, skipped=skipped, restarted=restarted
            )

    def _activities(self, before: ToolLive) -> Iterator[AgentEvent]:
        shown = {each.activity_type: each.version for each in before.activities} if _is_same(before, self._live) else {}
        for activity in self._live.activities:
            yield from self._activity(activity, shown.get(activity.activity_type, 0))

    def _activity(self, activity: LiveActivity, shown: int) -> Iterator[AgentEvent]:
        missed = activity.version - shown
        if not missed:
            return
        if shown and missed <= len(activity.patches):
            patch = tuple(operation for patch in activity.patches[-missed:] for operation in patch)
            yield ActivityDelta(message_id=self.call_id, activity_type=activity.activity_type, patch=patch)
        else:
            yield ActivitySnapshot(
                message_id=self.call_id,
                activity_type=activity.activity_type,
                content=activity.content,
                replace=True,
            )


def _is_same(one: ToolLive, other: ToolLive) -> bool:
    """Whether both are of the same attempt."""
    return one.attempt == other.attempt


def _live(written: JsonValue) -> ToolLive:
    try:
        return ToolLive.model_validate({} if written is None else written)
    except ValidationError:
        return ToolLive()  # of another version, or of a worker in another language
