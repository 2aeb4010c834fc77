"""Let time pass for one thread of a test."""

from datetime import timedelta

from temporalio.testing import TimeSkipper

from wakeful.client.client import Client


async def skip_time(client: Client, thread_id: str, by: timedelta | float) -> None:
    """Advance the clock of a thread by a time, or by seconds, and wait until what was due has happened.

    Its timers fire and its activities are retried as they would have been; a tool that runs takes its own time.
    """
    await TimeSkipper(client.temporal).fast_forward(client.temporal.get_workflow_handle(thread_id), by)
