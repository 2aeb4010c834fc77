"""What becomes of sub-agents and background tasks when the thread that started them is rewound."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import pytest
from temporalio.client import Client as TemporalClient

from tests.replay.test_replay import replayer
from tests.support.subagent_app import Plan, Planner, delegate, events_in, plan, sign, spawn, written
from tests.support.subagents import ends_in_tree, open_in_tree, task_events, until_closed
from tests.support.waiting import BOUND_SECONDS, until, until_status
from wakeful import Agent, CallerError, ModelRequest, ModelResponse, Registry, RunStatus
from wakeful.client.branching import rewind
from wakeful.client.client import Client
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.views import StatusView
from wakeful.worker import WorkerSettings, running_worker

SWEEPS = 4
"""Seconds in which the workers sweep for orphans several times."""


@pytest.fixture
def client(either_subagents: Client) -> Client:
    return either_subagents


def waiting(name: str, *, saying: str = "") -> Plan:
    """A sub-agent that waits for a decision, and then ends."""
    return plan([("sign", {"what": name})], say=f"{name} ended{saying}")


async def task_thread(client: Client, thread_id: str, name: str) -> str:
    """The thread of the newest task with this name, once it waits for its decision."""
    view = await until(client, thread_id, lambda view: _named(view, name) is not None)
    found = _named(view, name)
    assert found is not None
    await until_status(client, found, RunStatus.WAITING)
    return found


def _named(view: StatusView, name: str) -> str | None:
    return next((task.thread_id for task in reversed(view.tasks) if task.name == name), None)


async def resume(client: Client, thread_id: str) -> None:
    """Make the one decision that a thread waits for."""
    (pending,) = (await until_status(client, thread_id, RunStatus.WAITING)).pending
    await client.decide(thread_id, pending.suspension.id, "resume")


@dataclass(frozen=True)
class Tasks:
    before: str
    ended: str
    after: str


async def start_tasks(client: Client, thread_id: str) -> Tasks:
    """A thread after its sixth step, with tasks that were started before and after its third one."""
    turns = plan(
        [spawn(waiting("before"), name="before")],
        [spawn(waiting("ended"), name="ended")],
        [("work", {"what": "third step"})],
        [spawn(waiting("after"), name="after")],
        [("work", {"what": "fifth step"})],
        [("sign", {"what": "sixth step"})],
    )
    await client.start("node", written(turns), thread_id=thread_id)
    await until_status(client, thread_id, RunStatus.WAITING)
    tasks = Tasks(*[await task_thread(client, thread_id, name) for name in ("before", "ended", "after")])
    await resume(client, tasks.ended)
    ended = [TaskStatus.RUNNING, TaskStatus.COMPLETED, TaskStatus.RUNNING]
    await until(client, thread_id, lambda view: [task.status for task in view.tasks] == ended)
    return tasks


async def test_earlier_tasks_keep_running_and_later_ones_are_cancelled(client: Client, thread_id: str) -> None:
    """Also after several orphan sweeps: they cancel none of them, and report none twice."""
    tasks = await start_tasks(client, thread_id)
    rewound = await client.rewind(thread_id, to=3)
    assert (rewound.undone, rewound.cancelled, rewound.resent) == (3, (tasks.after,), 1)
    view = await until(client, thread_id, lambda view: view.status is RunStatus.WAITING and len(view.tasks) == 3)
    assert [(task.task_id, task.status) for task in view.tasks] == [
        ("bg_0", TaskStatus.RUNNING),
        ("bg_1", TaskStatus.COMPLETED),
        ("bg_2", TaskStatus.RUNNING),
    ]
    restarted = await task_thread(client, thread_id, "after")
    assert (view.tasks[0].thread_id, view.tasks[1].thread_id) == (tasks.before, tasks.ended)
    assert restarted != tasks.after
    await asyncio.sleep(SWEEPS)
    assert sorted(await open_in_tree(client, thread_id)) == sorted([thread_id, tasks.before, restarted])
    assert (await ends_in_tree(client, thread_id))[tasks.after] == "cancelled"
    for child in (tasks.before, restarted, thread_id):
        await resume(client, child)
    result = await client.result(thread_id)
    reported = sorted(event["result"]["response"]["say"] for event in task_events(result))
    assert reported == ["after ended", "before ended", "ended ended"]
    await until_closed(client, thread_id)
    await replayer().replay_workflow(await client.handle(thread_id).fetch_history())


async def reset_only(client: Client, thread_id: str, *, to: int) -> None:
    """A rewind by a process that dies as soon as the server has reset the thread."""
    planned = await rewind.plan_rewind(client.reader, thread_id, to=to)
    await rewind._reset(client.temporal, planned, "for a moment")


@pytest.mark.faults
async def test_the_workers_complete_a_rewind_whose_caller_dies(client: Client, thread_id: str) -> None:
    tasks = await start_tasks(client, thread_id)
    await reset_only(client, thread_id, to=3)
    reported = [TaskStatus.RUNNING, TaskStatus.COMPLETED, TaskStatus.RUNNING]
    view = await until(client, thread_id, lambda view: [task.status for task in view.tasks] == reported)
    restarted = await task_thread(client, thread_id, "after")
    assert [task.thread_id for task in view.tasks] == [tasks.before, tasks.ended, restarted]
    assert (await client.result(tasks.after)).status_reason == "cancelled"
    for child in (tasks.before, restarted, thread_id):
        await resume(client, child)
    result = await client.result(thread_id)
    reported = sorted(event["result"]["response"]["say"] for event in task_events(result))
    assert reported == ["after ended", "before ended", "ended ended"]
    await until_closed(client, thread_id)
    await replayer().replay_workflow(await client.handle(thread_id).fetch_history())


@pytest.mark.faults
async def test_the_sweep_sends_the_result_of_a_tool_again_if_the_caller_dies(client: Client, thread_id: str) -> None:
    turns = plan(
        [("dig", {"where": "garden", "seconds": 2})], [("work", {"what": "second"})], [("sign", {"what": "it"})]
    )
    await client.start("node", written(turns), thread_id=thread_id)
    await until(client, thread_id, lambda view: any(task.status.is_terminal for task in view.tasks))
    await until_status(client, thread_id, RunStatus.WAITING)
    await reset_only(client, thread_id, to=2)
    await until(client, thread_id, lambda view: any(task.status.is_terminal for task in view.tasks))
    await resume(client, thread_id)
    await client.result(thread_id)
    kinds = [text.split('"kind":"')[1].split('"')[0] for text in events_in(await client.transcript(thread_id))]
    assert kinds.count("completed") == 1


async def test_a_thread_is_rewound_twice(client: Client, thread_id: str) -> None:
    tasks = await start_tasks(client, thread_id)
    await client.rewind(thread_id, to=3)
    await until(client, thread_id, lambda view: view.status is RunStatus.WAITING and len(view.tasks) == 3)
    restarted = await task_thread(client, thread_id, "after")
    rewound = await client.rewind(thread_id, to=0)
    assert sorted(rewound.cancelled) == sorted([tasks.before, restarted])
    await until(client, thread_id, lambda view: view.status is RunStatus.WAITING and len(view.tasks) == 3)
    started_again = {await task_thread(client, thread_id, name) for name in ("before", "ended", "after")}
    assert not started_again & {tasks.before, tasks.ended, tasks.after, restarted}
    await client.cancel(thread_id)
    assert (await client.result(thread_id)).status_reason == "cancelled"
    await until_closed(client, thread_id)


class Slow(Planner):
    """Takes a second to answer."""

    async def complete(self, request: ModelRequest) -> ModelResponse:
        await asyncio.sleep(1)
        return await super().complete(request)


async def test_a_task_of_the_last_retained_step_keeps_running(temporal: TemporalClient, thread_id: str) -> None:
    """The workflow task that started it also called the model for the next step."""
    node = Agent(id="node", model="slow", tools=[sign], spawns=["node"])
    settings = WorkerSettings(task_queue="slow-subagents", sweep_interval=timedelta(seconds=1))
    async with running_worker(temporal, Registry(agents=[node], models={"slow": Slow()}), settings):
        client = Client(temporal, task_queue="slow-subagents")
        turns = plan([spawn(waiting("first"), name="first")], [("sign", {"what": "second"})])
        await client.start("node", written(turns), thread_id=thread_id)
        child = await task_thread(client, thread_id, "first")
        rewound = await client.rewind(thread_id, to=1)
        assert (rewound.undone, rewound.cancelled) == (1, ())
        view = await until(client, thread_id, lambda view: view.status is RunStatus.WAITING)
        assert [task.thread_id for task in view.tasks] == [child]
        await client.cancel(thread_id)
        await until_closed(client, thread_id)


async def test_a_delegate_whose_call_is_undone_is_cancelled(client: Client, thread_id: str) -> None:
    """Its result is not taken for that of the delegate which the same call starts again, live or from history."""
    turns = plan([("work", {"what": "first"})], [delegate(waiting("delegate", saying=" at last" * 1000))])
    await client.start("node", written(turns), thread_id=thread_id)
    view = await until(client, thread_id, lambda view: bool(view.children))
    (child,) = view.children
    await until_status(client, child, RunStatus.WAITING)
    rewound = await client.rewind(thread_id, to=1)
    assert rewound.cancelled == (child,)
    view = await until(client, thread_id, lambda view: bool(view.children))
    (restarted,) = view.children
    assert restarted != child
    assert (await client.result(child)).status_reason == "cancelled"
    await resume(client, restarted)
    assert "delegate ended at last" in (await client.result(thread_id)).response
    await until_closed(client, thread_id)


async def test_a_task_that_was_terminated_is_still_reported(client: Client, thread_id: str) -> None:
    """By the rewind or by the sweep: the rewound thread does not wait forever."""
    tasks = await start_tasks(client, thread_id)
    await client.handle(tasks.before).terminate()
    await until(client, thread_id, lambda view: view.tasks[0].status is TaskStatus.FAILED)
    await client.rewind(thread_id, to=3)
    view = await until(client, thread_id, lambda view: bool(view.tasks) and view.tasks[0].status is TaskStatus.FAILED)
    assert view.tasks[0].error == "it was terminated"
    await client.cancel(thread_id)
    await until_closed(client, thread_id)


async def test_events_of_a_background_tool_are_sent_again(client: Client, thread_id: str) -> None:
    turns = plan(
        [("dig", {"where": "garden", "seconds": 2})],
        [("work", {"what": "second"})],
        [("work", {"what": "third"})],
        [("sign", {"what": "it"})],
    )
    await client.start("node", written(turns), thread_id=thread_id)
    await until(client, thread_id, lambda view: any(task.status.is_terminal for task in view.tasks))
    await until_status(client, thread_id, RunStatus.WAITING)
    await client.rewind(thread_id, to=2)
    await until_status(client, thread_id, RunStatus.WAITING)
    await resume(client, thread_id)
    await client.result(thread_id)
    kinds = sorted(text.split('"kind":"')[1].split('"')[0] for text in events_in(await client.transcript(thread_id)))
    assert kinds == ["completed", "custom", "custom"]


async def test_a_sub_agent_is_not_rewound_by_itself(client: Client, thread_id: str) -> None:
    await client.start("node", written(plan([delegate(waiting("delegate"))])), thread_id=thread_id)
    (child,) = (await until(client, thread_id, lambda view: bool(view.children))).children
    await until_status(client, child, RunStatus.WAITING)
    with pytest.raises(CallerError, match=f"is a sub-agent's: rewind its root '{thread_id}', or fork it"):
        await client.rewind(child, to=0)
    await client.cancel(thread_id)
    await until_closed(client, thread_id)


async def test_a_cancel_reaches_tasks_that_a_rewind_retained(client: Client, thread_id: str) -> None:
    tasks = await start_tasks(client, thread_id)
    await client.rewind(thread_id, to=3)
    await until(client, thread_id, lambda view: view.status is RunStatus.WAITING and len(view.tasks) == 3)
    await client.cancel(thread_id)
    async with asyncio.timeout(BOUND_SECONDS):
        assert (await client.result(thread_id)).status_reason == "cancelled"
    await until_closed(client, thread_id)
    assert (await ends_in_tree(client, thread_id))[tasks.before] == "cancelled"


async def test_an_undone_task_does_not_wake_the_thread(client: Client, thread_id: str) -> None:
    """A thread that is rewound to the end of its first run is closed, and the cancelled task does not wake it."""
    await client.run("node", written(plan(say="first")), thread_id=thread_id)
    await client.send(thread_id, written(plan([spawn(waiting("later"), name="later")])))
    child = await task_thread(client, thread_id, "later")
    rewound = await client.rewind(thread_id, to=1)
    assert rewound.cancelled == (child,)
    assert (await client.result(child)).status_reason == "cancelled"
    assert "first" in (await client.result(thread_id)).response
    assert (await client.handle(thread_id).describe()).run_id == rewound.run_id
