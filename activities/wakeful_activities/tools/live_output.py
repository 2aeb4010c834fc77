"""Collect what a running call shows to live watchers, from any thread, as the details of its next heartbeat."""

import threading
from collections.abc import Mapping

from pydantic import JsonValue

from wakeful.contract.base import json_bytes
from wakeful.contract.json_patch import patched
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tool_progress import (
    ACTIVITIES_BYTES,
    LIVE,
    OUTPUT_CHARACTERS,
    PATCHES_BYTES,
    LiveActivity,
    ToolLive,
)


class LiveOutput:
    """The newest progress report of a call, the end of its output, and its activities; bounded in size."""

    def __init__(self, identity: RunIdentity, attempt: int) -> None:
        self._lock = threading.Lock()
        self._report: Mapping[str, JsonValue] | None = None
        self._live = ToolLive(
            attempt=attempt, parent_call_id=identity.parent_tool_call_id, parent_run_id=identity.parent_run_id
        )
        self._has_live = identity.parent_tool_call_id is not None
        """Whether heartbeats have more than the report."""

    def report(self, report: Mapping[str, JsonValue]) -> None:
        with self._lock:
            self._report = report

    def stream(self, text: str) -> None:
        """Append to the output; of long output only the end is kept."""
        with self._lock:
            whole = self._live.text + text
            kept = whole[-OUTPUT_CHARACTERS:]
            start = self._live.start + len(whole) - len(kept)
            self._change(text=kept, start=start)

    def show(self, activity_type: str, content: JsonValue) -> None:
        """Replace an activity.

        Raises:
            ValueError: the activities are too large together.
        """
        with self._lock:
            before = self._find(activity_type)
            self._put(LiveActivity(activity_type=activity_type, content=content, version=before.version + 1))

    def patch(self, activity_type: str, patch: tuple[JsonValue, ...]) -> None:
        """Change an activity.

        Raises:
            ValueError: the patch does not fit it, or the activities are too large together.
        """
        with self._lock:
            before = self._find(activity_type)
            patches = [*before.patches, patch]
            while patches and sum(map(json_bytes, patches)) > PATCHES_BYTES:
                del patches[0]
            self._put(
                LiveActivity(
                    activity_type=activity_type,
                    content=patched(before.content, patch),
                    version=before.version + 1,
                    patches=tuple(patches),
                )
            )

    def details(self) -> dict[str, JsonValue] | None:
        """The details of a heartbeat; None if nothing was shown."""
        with self._lock:
            if self._report is None and not (self._live.text or self._live.activities):
                return None
            live: JsonValue = self._live.model_dump(mode="json")
            return {**(self._report or {}), **({LIVE: live} if self._has_live else {})}

    def _find(self, activity_type: str) -> LiveActivity:
        none = LiveActivity(activity_type=activity_type, content={}, version=0)
        return next((each for each in self._live.activities if each.activity_type == activity_type), none)

    def _put(self, activity: LiveActivity) -> None:
        others = tuple(each for each in self._live.activities if each.activity_type != activity.activity_type)
        size = sum(json_bytes(each.content) for each in (*others, activity))
        if size > ACTIVITIES_BYTES:
            raise ValueError(
                f"activity {activity.activity_type!r} does not fit: the activities of a call may have "
                f"{ACTIVITIES_BYTES:,} bytes together, and would have {size:,}"
            )
        self._change(activities=(*others, activity))

    def _change(self, **changed: object) -> None:
        self._live = self._live.model_copy(update=changed)
        self._has_live = True
