"""What a running tool call shows to live watchers: progress, streamed output, and activities of its own.

It travels in heartbeats, of which the server keeps the newest alone, so each has the whole: the end of the output, and
every activity with its newest patches. Nothing of it is written to history.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.events import ActivitySnapshot

PROGRESS = "tool-call-progress"
LIVE = "live"
"""The key of a heartbeat's details that has a `ToolLive`; the others are the progress report."""

OUTPUT_CHARACTERS = 16_000
"""Of streamed output: how much of its end a heartbeat carries."""
ACTIVITIES_BYTES = 32_000
"""Bytes of the contents of all activities of a call."""
PATCHES_BYTES = 8_000
"""Bytes of an activity's newest patches that a heartbeat carries beside its content."""

ProgressStatus = Literal["pending", "running", "done", "failed", "cancelled"]


class LiveActivity(Wire):
    """An activity of a call: its content now, and how the newest changes led there."""

    activity_type: str
    content: JsonValue
    version: int
    """How often it has changed."""
    patches: Few[tuple[tuple[JsonValue, ...], ...]] = ()
    """The newest changes, each a JSON Patch. A watcher that has missed an earlier one is shown the content."""


class ToolLive(Wire):
    """What a call has shown so far."""

    attempt: Few[int] = 0
    start: Few[int] = 0
    """How many characters of output came before `text`."""
    text: Few[str] = ""
    activities: Few[tuple[LiveActivity, ...]] = ()
    parent_call_id: Maybe[str] = None
    parent_run_id: Maybe[str] = None
    """Of a call of a sub-agent: the call and the run that started it."""


def progress_snapshot(
    call_id: str,
    tool_name: str,
    status: ProgressStatus,
    report: Mapping[str, JsonValue],
    *,
    thread_id: str,
    run_id: str,
    parent_call_id: str | None = None,
    parent_run_id: str | None = None,
) -> ActivitySnapshot:
    """The progress of a call, with its place in the tree of calls and runs."""
    content: dict[str, JsonValue] = {
        "schema": f"{PROGRESS}.v1",
        "node_id": f"tool_call:{call_id}",
        "parent_node_id": f"run:{run_id}" if parent_call_id is None else f"tool_call:{parent_call_id}",
        "call_id": call_id,
        "tool_name": tool_name,
        "run_id": run_id,
        "thread_id": thread_id,
        "status": status,
        **report,
    }
    if parent_call_id is not None:
        content["parent_call_id"] = parent_call_id
    if parent_run_id is not None:
        content["parent_run_id"] = parent_run_id
    return ActivitySnapshot(message_id=call_id, activity_type=PROGRESS, content=content, replace=True)
