"""Schedules as lines for a terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime

from wakeful.cli.terminal.text import aligned, printable
from wakeful.client.schedules import ScheduleEntry


def schedule_lines(entries: Sequence[ScheduleEntry]) -> list[str]:
    """A table of schedules; no lines if there are none."""
    if not entries:
        return []
    rows = [("SCHEDULE", "AGENT", "THREAD", "NEXT", "LAST"), *(_row(entry) for entry in entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [aligned(row, widths) for row in rows]


def _row(entry: ScheduleEntry) -> tuple[str, str, str, str, str]:
    paused = f"paused{f': {printable(entry.note)}' if entry.note else ''}"
    return (
        printable(entry.schedule_id),
        printable(entry.agent_id) or "?",
        printable(entry.thread_id) if entry.thread_id else "its own",
        paused if entry.paused else _time(entry.next_at),
        _time(entry.last_at) + (f" {printable(entry.last_thread_id)}" if entry.last_thread_id else ""),
    )


def _time(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" if at else "-"
