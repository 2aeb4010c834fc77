"""What a running call shows is bounded, and every heartbeat has all of it (B-242)."""

import json

import pytest
from pydantic import JsonValue

from wakeful.contract.runs import RunIdentity
from wakeful.contract.tool_progress import ACTIVITIES_BYTES, LIVE, OUTPUT_CHARACTERS, PATCHES_BYTES
from wakeful_activities.tools.live_output import LiveOutput

ROOT = RunIdentity(thread_id="t", run_id="r", agent_id="a")
CHILD = ROOT.model_copy(update={"parent_tool_call_id": "1-1", "parent_run_id": "r0"})


def live(shown: LiveOutput) -> dict[str, JsonValue]:
    details = shown.details()
    assert details is not None
    found = details[LIVE]
    assert isinstance(found, dict)
    return found


def test_a_call_that_only_reports_progress_heartbeats_the_report_alone() -> None:
    """B-241"""
    shown = LiveOutput(ROOT, 1)
    assert shown.details() is None
    shown.report({"progress": 0.5})
    assert shown.details() == {"progress": 0.5}


def test_a_call_of_a_sub_agent_names_the_call_and_the_run_that_started_it() -> None:
    """B-241"""
    shown = LiveOutput(CHILD, 1)
    assert shown.details() is None
    shown.report({"progress": 0.5})
    parents = {"attempt": 1, "parent_call_id": "1-1", "parent_run_id": "r0"}
    assert shown.details() == {"progress": 0.5, LIVE: parents}


def test_of_long_output_the_end_is_kept_with_how_much_came_before() -> None:
    """B-242"""
    shown = LiveOutput(ROOT, 2)
    shown.stream("a" * 10)
    shown.stream("b" * OUTPUT_CHARACTERS)
    assert live(shown) == {"attempt": 2, "start": 10, "text": "b" * OUTPUT_CHARACTERS}


def test_an_activity_has_its_content_and_the_patches_since_it_was_shown() -> None:
    """B-242"""
    shown = LiveOutput(ROOT, 1)
    shown.show("plan", {"done": 0})
    patches: list[JsonValue] = [{"op": "replace", "path": "/done", "value": 1}]
    shown.patch("plan", tuple(patches))
    plan = {"activity_type": "plan", "content": {"done": 1}, "version": 2, "patches": [patches]}
    assert live(shown)["activities"] == [plan]
    shown.show("plan", {"done": 9})
    assert live(shown)["activities"] == [{"activity_type": "plan", "content": {"done": 9}, "version": 3}]


def test_a_heartbeat_stays_small_whatever_a_tool_shows() -> None:
    """B-242"""
    shown = LiveOutput(ROOT, 1)
    shown.stream("€" * 10 * OUTPUT_CHARACTERS)
    shown.show("log", {"line": ""})
    for number in range(100):
        shown.patch("log", ({"op": "replace", "path": "/line", "value": f"{number}" * 500},))
    with pytest.raises(ValueError, match="activity 'map' does not fit: the activities of a call may have 32,000 bytes"):
        shown.show("map", "x" * ACTIVITIES_BYTES)
    with pytest.raises(ValueError, match="operation 1 of the patch"):
        shown.patch("log", ({"op": "remove", "path": "/missing"},))
    assert len(json.dumps(shown.details(), ensure_ascii=False).encode()) < (
        4 * OUTPUT_CHARACTERS + ACTIVITIES_BYTES + 2 * PATCHES_BYTES
    )
