"""Recorded histories replay on the code of today: runs that were asleep when it changed can wake up."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.common import RawValue
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from tests.replay.record import HISTORIES, KEPT, STORIES, digest_line, recordings
from wakeful.contract import names
from wakeful.contract.runs import RunResult
from wakeful.loop.machine.facts import Fact
from wakeful.loop.machine.state import Advance, Thread
from wakeful_workflows import A2aPush, AgentRun, ScheduledMessage, ThreadArchive, ToolTask
from wakeful_workflows.agent_run import NO_REQUEST

RECORDED = sorted(HISTORIES.glob("*.json"))
ONE_CALL = HISTORIES / "one_tool_call.json"

Event = dict[str, Any]

COMMANDS = {
    "activityTaskScheduledEventAttributes": "activityType",
    "startChildWorkflowExecutionInitiatedEventAttributes": "workflowType",
}
"""The events whose names the SDK compares with those of the code's commands; it does not compare names of signals."""


def events_in(path: Path) -> list[Event]:
    events: list[Event] = json.loads(path.read_text())["events"]
    return events


def history_of(events: list[Event]) -> WorkflowHistory:
    workflow_id = events[0]["workflowExecutionStartedEventAttributes"]["workflowId"]
    return WorkflowHistory.from_json(workflow_id, {"events": events})


def replayer(*workflows: type) -> Replayer:
    ours = (AgentRun, ToolTask, ThreadArchive, ScheduledMessage, A2aPush)
    return Replayer(workflows=workflows or ours, data_converter=pydantic_data_converter)


async def replay(events: list[Event], *workflows: type) -> None:
    await replayer(*workflows).replay_workflow(history_of(events))


def recorded(key: str, *where: str) -> Iterator[Any]:
    """The values in this place of the attributes that all recorded events have under this key."""
    for event in (event for path in RECORDED for event in events_in(path)):
        if key in event:
            value = event[key]
            for name in where:
                value = value[name]
            yield value


def recorded_activities() -> Iterator[str]:
    """The names of all recorded activities; those of local activities are in markers."""
    yield from recorded("activityTaskScheduledEventAttributes", "activityType", "name")
    for payloads in recorded("markerRecordedEventAttributes", "details", "data", "payloads"):
        yield json.loads(base64.b64decode(payloads[0]["data"]))["activity_type"]


def test_every_story_is_recorded_and_every_recording_has_a_story() -> None:
    assert all(recordings(story) for story in STORIES)
    assert sorted(path for story in STORIES for path in recordings(story)) == RECORDED


def test_every_recording_is_kept_as_it_was_recorded() -> None:
    """Runs that were asleep at any earlier time have such histories, and have to wake up."""
    assert sorted(KEPT.read_text().splitlines(keepends=True)) == sorted(map(digest_line, RECORDED))


def test_the_recordings_have_every_workflow_activity_and_signal() -> None:
    started = set(recorded("workflowExecutionStartedEventAttributes", "workflowType", "name"))
    received = set(recorded("workflowExecutionSignaledEventAttributes", "signalName"))
    sent = set(recorded("signalExternalWorkflowExecutionInitiatedEventAttributes", "signalName"))
    assert started == {value for name, value in vars(names).items() if name.startswith("WORKFLOW")}
    assert set(recorded_activities()) >= {value for name, value in vars(names).items() if name.startswith("ACTIVITY_")}
    assert received > {value for name, value in vars(names).items() if name.startswith("SIGNAL_")} > sent


@pytest.mark.parametrize(
    "event_type",
    [
        "WORKFLOW_EXECUTION_CANCEL_REQUESTED",
        "WORKFLOW_EXECUTION_COMPLETED",
        "WORKFLOW_EXECUTION_CONTINUED_AS_NEW",
        "WORKFLOW_EXECUTION_SIGNALED",
        "ACTIVITY_TASK_CANCELED",
        "ACTIVITY_TASK_FAILED",
        "CHILD_WORKFLOW_EXECUTION_COMPLETED",
        "CHILD_WORKFLOW_EXECUTION_TERMINATED",
        "EXTERNAL_WORKFLOW_EXECUTION_SIGNALED",
        "MARKER_RECORDED",
        "TIMER_CANCELED",
        "TIMER_FIRED",
        "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
    ],
)
def test_the_recordings_have_every_type_of_event_that_a_run_can_meet(event_type: str) -> None:
    assert f"EVENT_TYPE_{event_type}" in {event["eventType"] for path in RECORDED for event in events_in(path)}


def test_the_recordings_have_a_retried_activity_and_a_reset() -> None:
    assert max(recorded("activityTaskStartedEventAttributes", "attempt")) > 1
    assert "WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW" in recorded("workflowTaskFailedEventAttributes", "cause")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_history_replays(path: Path) -> None:
    await replay(events_in(path))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
async def test_a_recorded_history_with_another_last_command_does_not_replay(path: Path) -> None:
    """The whole history is compared with the code, up to its last activity or child."""
    events = events_in(path)
    last, key = [(event, key) for event in events for key in COMMANDS if key in event][-1]
    last[key][COMMANDS[key]]["name"] = "renamed"
    with pytest.raises(NondeterminismError):
        await replay(events)


@pytest.mark.parametrize("name", ["ACTIVITY_RESOLVE_AGENT", "ACTIVITY_INFER"])
async def test_code_that_renames_an_activity_does_not_replay(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(names, name, "renamed")
    with pytest.raises(NondeterminismError):
        await replay(events_in(ONE_CALL))


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Reversing(AgentRun):
    """Performs the commands of each fact in another order."""

    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> RunResult:
        return await super().run(request)

    def _advance(self, thread: Thread, fact: Fact) -> Advance:
        made = super()._advance(thread, fact)
        return replace(made, commands=made.commands[::-1])


async def test_code_that_schedules_parallel_calls_in_another_order_does_not_replay() -> None:
    await replay(events_in(ONE_CALL), Reversing)  # never two commands at once
    with pytest.raises(NondeterminismError):
        await replay(events_in(HISTORIES / "parallel_calls.json"), Reversing)


@pytest.mark.parametrize("number", [1, 2])
async def test_a_history_whose_server_clock_stepped_back_replays(number: int) -> None:
    """Workflow time then stands still between two workflow tasks, and that is not mistaken for an early activation."""
    events = events_in(ONE_CALL)
    tasks = [event for event in events if event["eventType"].endswith("WORKFLOW_TASK_STARTED")]
    before = datetime.fromisoformat(tasks[number - 1]["eventTime"][:26])
    tasks[number]["eventTime"] = (before - timedelta(milliseconds=3)).isoformat() + "Z"
    await replay(events)
