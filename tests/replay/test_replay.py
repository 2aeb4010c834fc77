"""Histories recorded by earlier code replay on today's. What a sleeping run did is done again, event for event."""

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from tests.replay.record import HISTORIES, STORIES
from wakeful_workflows import AgentRun, ToolTask

RECORDED = sorted(HISTORIES.glob("*.json"))


def test_every_kind_of_run_is_recorded() -> None:
    assert {path.stem for path in RECORDED} >= {story.__name__ for story in STORIES}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    await replayer().replay_workflow(WorkflowHistory.from_json(path.stem, path.read_text()))


@pytest.mark.parametrize(
    ("was", "becomes"), [('"name": "infer"', '"name": "think"'), ('"name": "add"', '"name": "sum"')]
)
async def test_renaming_an_activity_would_be_noticed(was: str, becomes: str) -> None:
    text = (HISTORIES / "natural_end.json").read_text()
    assert was in text
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(WorkflowHistory.from_json("natural_end", text.replace(was, becomes)))


def replayer() -> Replayer:
    return Replayer(workflows=[AgentRun, ToolTask], data_converter=pydantic_data_converter)


@pytest.mark.parametrize("number", [1, 2])
async def test_a_server_whose_clock_stepped_back_leaves_a_run_that_replays(number: int) -> None:
    """Workflow time then stands still between two tasks; that is not a query's doing."""
    history = json.loads((HISTORIES / "natural_end.json").read_text())
    tasks = [event for event in history["events"] if event["eventType"].endswith("WORKFLOW_TASK_STARTED")]
    before = datetime.fromisoformat(tasks[number - 1]["eventTime"][:26])
    tasks[number]["eventTime"] = (before - timedelta(milliseconds=3)).isoformat() + "Z"
    await replayer().replay_workflow(WorkflowHistory.from_json("natural_end", json.dumps(history)))
