"""Schedules as `wakeful schedule list` prints them."""

from datetime import UTC, datetime

from wakeful.cli.terminal.schedule_lines import schedule_lines
from wakeful.client.schedules import ScheduleEntry

SIX = datetime(2026, 11, 17, 6, tzinfo=UTC)


def test_a_schedule_is_listed_with_its_next_and_its_last_firing() -> None:
    entries = [
        ScheduleEntry(schedule_id="audit", agent_id="auditor", next_at=SIX, last_at=SIX, last_thread_id="audit-2026"),
        ScheduleEntry(schedule_id="stock", agent_id="buyer", thread_id="bar", paused=True, note="holidays"),
    ]
    assert schedule_lines(entries) == [
        "SCHEDULE  AGENT    THREAD   NEXT                  LAST",
        "audit     auditor  its own  2026-11-17 06:00 UTC  2026-11-17 06:00 UTC audit-2026",
        "stock     buyer    bar      paused: holidays      -",
    ]
    assert schedule_lines([]) == []
