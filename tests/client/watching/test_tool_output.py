"""What a live watcher sees of a running call: each piece of output once, activities as they change, and its end."""

import pytest
from pydantic import JsonValue

from wakeful.client.watching.tool_output import WatchedCall
from wakeful.contract.events import (
    ActivityDelta,
    ActivitySnapshot,
    AgentEvent,
    StepEnd,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
    ToolCallStreamDelta,
)
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolResult
from wakeful_activities.tools.live_output import LiveOutput

ROOT = RunIdentity(thread_id="t", run_id="r", agent_id="a")


def call() -> WatchedCall:
    return WatchedCall("2-1", "build", thread_id="t", run_id="r")


def delta(text: str, *, skipped: int = 0, restarted: bool = False) -> ToolCallStreamDelta:
    return ToolCallStreamDelta(id="2-1", name="build", delta=text, skipped=skipped, restarted=restarted)


def statuses(events: list[AgentEvent]) -> list[JsonValue]:
    contents = [event.content for event in events if isinstance(event, ActivitySnapshot)]
    return [content["status"] for content in contents if isinstance(content, dict)]


def test_each_piece_of_output_is_shown_once_and_what_was_missed_is_counted() -> None:
    """B-242"""
    running, shown = LiveOutput(ROOT, 1), call()
    running.stream("one ")
    assert shown.on_heartbeat(running.details()) == [delta("one ")]
    assert shown.on_heartbeat(running.details()) == []
    running.stream("two ")
    running.stream("three")
    assert shown.on_heartbeat(running.details()) == [delta("two three")]
    running.stream("x" * 20_000)
    assert shown.on_heartbeat(running.details()) == [delta("x" * 16_000, skipped=4_000)]
    assert call().on_heartbeat(running.details()) == [delta("x" * 16_000, skipped=4_013)]


def test_output_starts_over_when_the_call_runs_again() -> None:
    """B-242"""
    first, second, shown = LiveOutput(ROOT, 1), LiveOutput(ROOT, 2), call()
    first.stream("lost")
    shown.on_heartbeat(first.details())
    second.stream("again")
    assert shown.on_heartbeat(second.details()) == [delta("again", restarted=True)]


def test_an_activity_is_shown_whole_and_then_by_its_changes_unless_one_was_missed() -> None:
    """B-242"""
    running, shown = LiveOutput(ROOT, 1), call()
    running.show("plan", {"done": 0})
    whole = ActivitySnapshot(message_id="2-1", activity_type="plan", content={"done": 0}, replace=True)
    assert shown.on_heartbeat(running.details()) == [whole]
    changes: list[JsonValue] = [{"op": "replace", "path": "/done", "value": value} for value in (1, 2)]
    for change in changes:
        running.patch("plan", (change,))
    patch = ActivityDelta(message_id="2-1", activity_type="plan", patch=tuple(changes))
    assert shown.on_heartbeat(running.details()) == [patch]
    late = ActivitySnapshot(message_id="2-1", activity_type="plan", content={"done": 2}, replace=True)
    assert call().on_heartbeat(running.details()) == [late]
    retried = LiveOutput(ROOT, 2)
    retried.show("plan", {"done": 0})
    assert shown.on_heartbeat(retried.details()) == [whole]


def test_an_activity_that_begins_with_a_patch_is_shown_whole() -> None:
    """B-242"""
    running = LiveOutput(ROOT, 1)
    running.patch("plan", ({"op": "add", "path": "/done", "value": 1},))
    whole = ActivitySnapshot(message_id="2-1", activity_type="plan", content={"done": 1}, replace=True)
    assert call().on_heartbeat(running.details()) == [whole]


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (ToolCallDone(id="2-1", result=ToolResult.success("build", 1), outcome=ToolCallOutcome.SUCCEEDED), "done"),
        (ToolCallDone(id="2-1", result=ToolResult.error("build", "no"), outcome=ToolCallOutcome.FAILED), "failed"),
        (ToolCallDone(id="2-1", result=ToolResult.suspended("build"), outcome=ToolCallOutcome.SUSPENDED), "pending"),
        (ToolCallResumed(target_id="2-1", result=1, outcome=ToolCallOutcome.SUCCEEDED), "done"),
        (ToolCallCancel(id="2-1", name="build", reason="the run ended"), "cancelled"),
    ],
)
def test_the_progress_of_a_call_ends_with_its_last_status(end: AgentEvent, status: str) -> None:
    """B-241"""
    shown = call()
    assert shown.on_end(end) == [], "it has reported nothing"
    assert statuses(shown.on_heartbeat({"progress": 0.5})) == ["running"]
    assert statuses(shown.on_end(end)) == [status]
    assert shown.on_end(StepEnd()) == []


def test_the_progress_of_a_call_has_its_place_in_the_tree() -> None:
    """B-241"""
    identity = ROOT.model_copy(update={"parent_tool_call_id": "1-1", "parent_run_id": "r0"})
    running = LiveOutput(identity, 1)
    running.report({"message": "half way", "loaded": 1, "total": 2})
    [event] = call().on_heartbeat(running.details())
    assert event == ActivitySnapshot(
        message_id="2-1",
        activity_type="tool-call-progress",
        content={
            "schema": "tool-call-progress.v1",
            "node_id": "tool_call:2-1",
            "parent_node_id": "tool_call:1-1",
            "call_id": "2-1",
            "tool_name": "build",
            "run_id": "r",
            "thread_id": "t",
            "status": "running",
            "message": "half way",
            "loaded": 1,
            "total": 2,
            "parent_call_id": "1-1",
            "parent_run_id": "r0",
        },
        replace=True,
    )


@pytest.mark.parametrize("details", [7, "beat", {"live": {"start": "x"}}, {"live": 7}])
def test_details_of_another_worker_that_cannot_be_read_show_nothing(details: JsonValue) -> None:
    assert call().on_heartbeat(details) == []
