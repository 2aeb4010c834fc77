"""What the workflow counts of its own history, against the histories that the server has recorded."""

from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory

from tests.replay.test_replay import RECORDED, events_in, history_of, replayer
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget
from wakeful_workflows.history_estimate import TASK, HistoryEstimate

MOST_EVENTS = 1.4
MOST_BYTES = 2.1
"""How much too high the counts are at most; on average of all recordings, 1.06 and 1.44."""


def is_thread(path: Path) -> bool:
    started = events_in(path)[0]["workflowExecutionStartedEventAttributes"]
    return bool(started["workflowType"]["name"] == names.WORKFLOW)


@pytest.fixture
def estimates(monkeypatch: pytest.MonkeyPatch) -> list[HistoryEstimate]:
    """The counts of the workflows that a test replays."""
    made: list[HistoryEstimate] = []
    begin = HistoryEstimate.__init__

    def remember(self: HistoryEstimate, *, size: int = 0) -> None:
        begin(self, size=size)
        made.append(self)

    monkeypatch.setattr(HistoryEstimate, "__init__", remember)
    return made


@pytest.mark.parametrize("path", [path for path in RECORDED if is_thread(path)], ids=lambda path: path.stem)
async def test_the_estimate_is_never_too_low_and_not_much_too_high(
    path: Path, estimates: list[HistoryEstimate]
) -> None:
    history = history_of(events_in(path))
    await replayer().replay_workflow(history)
    (estimate,) = estimates
    events = len(history.events) - TASK * failed_tasks(history)  # a workflow does not see these
    assert events <= estimate.events <= MOST_EVENTS * events
    size = sum(event.ByteSize() for event in history.events[:-1])  # the last one has the result, or the snapshot
    assert size <= estimate.bytes <= MOST_BYTES * size


def failed_tasks(history: WorkflowHistory) -> int:
    failed = (EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT)
    return sum(event.event_type in failed for event in history.events)


@pytest.mark.parametrize(("events", "bytes"), [(0, 1), (4001, 1), (1, 0), (1, 4_000_001)])
def test_a_budget_stays_where_temporal_would_not_yet_suggest_to_continue_as_new(events: int, bytes: int) -> None:
    with pytest.raises(ValueError, match="HistoryBudget"):
        HistoryBudget(events=events, bytes=bytes)


def test_a_budget_of_one_event_is_exceeded_from_the_start() -> None:
    assert HistoryEstimate().exceeds(HistoryBudget(events=1))
    assert not HistoryEstimate().exceeds(HistoryBudget())
    assert HistoryEstimate(size=2_000_000).exceeds(HistoryBudget())
