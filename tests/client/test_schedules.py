"""Schedules: each firing is a thread of its own, or a message to one (B-672). Temporal's trigger makes them fire."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from time import time

import pytest
from temporalio.client import (
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleSpec,
    WorkflowExecutionStatus,
)

from tests.support.processes import wakeful
from tests.support.waiting import BOUND_SECONDS, until
from wakeful import Budget, CallerError, Role
from wakeful.client.client import Client
from wakeful.contract import names

DAILY = ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(days=1))])


@pytest.fixture
async def schedule(client: Client, thread_id: str) -> AsyncIterator[ScheduleHandle]:
    """The schedule of a test, which deletes it at its end."""
    handle = client.temporal.get_schedule_handle(f"s-{thread_id}")
    yield handle
    await handle.delete()


async def fire(schedule: ScheduleHandle, *, times: int = 1) -> str:
    """Fire, and return the id of the workflow that this started, which has the time in seconds."""
    actions = (await schedule.describe()).info.recent_actions
    async with asyncio.timeout(BOUND_SECONDS):
        while actions and int(actions[-1].started_at.timestamp()) == int(time()):
            await asyncio.sleep(0.05)
        await schedule.trigger()
        while len(actions := (await schedule.describe()).info.recent_actions) < times:
            await asyncio.sleep(0.05)
    action = actions[-1].action
    assert isinstance(action, ScheduleActionExecutionStartWorkflow)
    return action.workflow_id


async def test_each_firing_is_a_thread_of_its_own(client: Client, schedule: ScheduleHandle) -> None:
    created = await client.schedules.create("tester", "hi", spec=DAILY, schedule_id=schedule.id, budget=Budget(turns=3))
    assert created == schedule.id
    threads = []
    for times in (1, 2):
        threads.append(fired := await fire(schedule, times=times))
        assert (await client.result(fired)).response == "hello, hi"
    assert len(set(threads)) == 2
    assert all(fired.startswith(f"{schedule.id}-") for fired in threads)


async def test_a_firing_whose_run_ends_in_an_error_completes_if_the_schedule_says_so(
    client: Client, schedule: ScheduleHandle
) -> None:
    address = client.temporal.service_client.config.target_host
    named = ["--id", schedule.id, "--every", "1d", "--on-error", "complete"]
    created = await wakeful("schedule", "create", "unknown", "hi", *named, address=address)
    assert created.out == f"created: schedule {schedule.id}\n", created.err
    fired = await fire(schedule)
    assert (await client.result(fired)).status_reason.startswith("error:agent not found")
    assert (await client.handle(fired).describe()).status is WorkflowExecutionStatus.COMPLETED


async def test_with_a_thread_each_firing_sends_it_the_message_and_wakes_it(
    client: Client, schedule: ScheduleHandle, thread_id: str
) -> None:
    await client.schedules.create("tester", "hi", spec=DAILY, schedule_id=schedule.id, thread_id=thread_id)
    for times in (1, 2):
        firing = await fire(schedule, times=times)
        await until(client, thread_id, lambda view, runs=times: view.runs == runs and view.result is not None)  # type: ignore[misc]  # mypy infers no type for a default
        await client.close(thread_id)
        await client.result(thread_id)
    described = await client.handle(firing).describe()
    sent = [message.id for message in await client.transcript(thread_id) if message.role is Role.USER]
    # The message has an id of the firing's own: a delivery that is repeated has no effect.
    assert (len(sent), sent[-1]) == (2, described.run_id)
    assert (described.workflow_type, described.status) == (names.WORKFLOW_SCHEDULED, WorkflowExecutionStatus.COMPLETED)


async def test_a_firing_whose_thread_cannot_get_the_message_fails_with_the_reason(
    client: Client, schedule: ScheduleHandle
) -> None:
    foreign = f"{schedule.id}-foreign"
    await client.temporal.start_workflow("Other", id=foreign, task_queue="elsewhere")
    await client.schedules.create("tester", "hi", spec=DAILY, schedule_id=schedule.id, thread_id=foreign)
    firing = await fire(schedule)
    with pytest.raises(Exception, match="Workflow execution failed") as raised:
        await client.handle(firing).result()
    assert f"no thread {foreign!r} in this namespace" in str(raised.value.__cause__.__cause__)  # type: ignore[union-attr]  # it has both
    await client.handle(foreign).terminate()


async def test_schedules_are_listed_by_agent_and_deleted(client: Client, schedule: ScheduleHandle) -> None:
    await client.schedules.create(
        "tester", "hi", spec=DAILY, schedule_id=schedule.id, thread_id="a thread", paused=True
    )
    other = await client.schedules.create("parallel", "hi", spec=DAILY, schedule_id=f"{schedule.id}-other")
    async with asyncio.timeout(BOUND_SECONDS):
        while True:  # visibility is eventually consistent
            found = {each.schedule_id: each async for each in client.schedules.list(agent_id="tester")}
            if schedule.id in found:
                break
    entry = found[schedule.id]
    assert (entry.agent_id, entry.thread_id, entry.paused, entry.next_at) == ("tester", "a thread", True, None)
    assert other not in found
    await client.schedules.delete(other)
    with pytest.raises(CallerError, match=f"no schedule '{other}' in this namespace"):
        await client.schedules.delete(other)


async def test_a_schedule_that_is_not_wakeful_s_is_neither_listed_nor_deleted(
    client: Client, schedule: ScheduleHandle
) -> None:
    action = ScheduleActionStartWorkflow("Other", id="other", task_queue="elsewhere")
    await client.temporal.create_schedule(schedule.id, Schedule(action=action, spec=DAILY))
    with pytest.raises(CallerError, match=f"schedule '{schedule.id}' is not Wakeful's: it starts the workflow 'Other'"):
        await client.schedules.delete(schedule.id)
    with pytest.raises(CallerError, match=f"schedule '{schedule.id}' exists: choose another id, or delete it first"):
        await client.schedules.create("tester", "hi", spec=DAILY, schedule_id=schedule.id)


@pytest.mark.parametrize(
    ("spec", "options", "says"),
    [
        (ScheduleSpec(cron_expressions=["never"]), {}, "Temporal refused schedule 'tester': "),
        (DAILY, {"thread_id": "t", "on_error": "complete"}, "on_error is for the thread that a firing starts: "),
        (DAILY, {"schedule_id": "s" * 190}, "has 211 bytes: use at most 200"),
    ],
)
async def test_a_schedule_that_cannot_fire_is_refused(
    client: Client, spec: ScheduleSpec, options: dict[str, object], says: str
) -> None:
    with pytest.raises(CallerError) as raised:
        await client.schedules.create("tester", "hi", spec=spec, **options)  # type: ignore[arg-type]  # a test's
    assert says in str(raised.value)
