"""A fleet of workers: the calls that it makes while it has nothing to do, and how it recovers from `kill -9`.

The calls are those that workers make of themselves, without the long polls that every Temporal worker makes. Sleeping
sub-agents are stand-ins: child workflows of the same type, on the same task queue.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator

from temporalio import workflow
from temporalio.api.enums.v1 import TimeoutType
from temporalio.client import Client as TemporalClient
from temporalio.worker import Worker
from temporalio.workflow import ParentClosePolicy

from benchmarks import wakeful_agent
from benchmarks.environment import Environment, WakefulSide, until, worker_process
from benchmarks.plan import Plan
from benchmarks.results import IdleFleet, Recovery, Results
from benchmarks.sampling import progress
from benchmarks.workload import WAKEFUL
from tests.support.counting import counting_client
from wakeful.client.client import Client
from wakeful.contract import names
from wakeful.worker import WorkerSettings, running_worker

CHILDREN_PER_PARENT = 100


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class Sleeper:
    """A thread as far as lists show it: it starts so many like itself, and sleeps."""

    @workflow.run
    async def run(self, children: int) -> None:
        for number in range(children):
            id = f"{workflow.info().workflow_id}/{number}"
            await workflow.start_child_workflow(names.WORKFLOW, 0, id=id, parent_close_policy=ParentClosePolicy.ABANDON)
        await workflow.wait_condition(lambda: False)


async def measure_fleet(env: Environment, plan: Plan, results: Results) -> None:
    """Idle fleets of several sizes, then runs whose worker is killed."""
    for children in plan.sleeping:
        queue = f"sleeping-{children}"
        await _put_to_sleep(env.client, queue, children)
        for workers in plan.fleets:
            progress(f"fleet: {workers} workers, {children} sleeping sub-agents, {plan.idle_seconds} s")
            calls = await _idle_calls(env.address, queue, workers, plan.idle_seconds)
            idle = IdleFleet(workers=workers, children=children, seconds=plan.idle_seconds, calls=dict(calls))
            results.idle_fleets.append(idle)
    results.recovery = Recovery()
    for number in range(plan.fleet_kills):
        progress(f"fleet: kill {number + 1} of {plan.fleet_kills}")
        for seconds, was_in_progress in await _recovery(env, plan.runs_per_kill):
            (results.recovery.in_progress if was_in_progress else results.recovery.sleeping).append(seconds)


async def _put_to_sleep(client: TemporalClient, queue: str, children: int) -> None:
    """Start so many children, a hundred to a parent, and wait until lists show them, and no task is left to do."""
    async with Worker(client, task_queue=queue, workflows=[Sleeper]):
        for parent in range(0, children, CHILDREN_PER_PARENT):
            count = min(CHILDREN_PER_PARENT, children - parent)
            await client.start_workflow(names.WORKFLOW, count, id=f"{queue}-{parent}", task_queue=queue)
        query = f"TaskQueue = '{queue}'"

        async def are_asleep() -> bool:
            listed = [execution.id async for execution in client.list_workflows(query)]
            return len(listed) >= children + -(-children // CHILDREN_PER_PARENT) and not any(
                await asyncio.gather(*map(has_task, listed))
            )

        async def has_task(id: str) -> bool:
            return (await client.get_workflow_handle(id).describe()).raw_description.HasField("pending_workflow_task")

        await until(are_asleep)


async def _idle_calls(address: str, queue: str, workers: int, seconds: float) -> Counter[str]:
    """What the workers call within so many seconds, once each of them has made its first round."""
    async with contextlib.AsyncExitStack() as stack:
        counts = [await stack.enter_async_context(_counted_worker(address, queue, n)) for n in range(workers)]

        async def have_swept() -> bool:
            return all(calls["describe_task_queue"] > 1 for calls in counts)

        await until(have_swept)
        for calls in counts:
            calls.clear()
        await asyncio.sleep(seconds)
        return sum(counts, Counter())


@contextlib.asynccontextmanager
async def _counted_worker(address: str, queue: str, number: int) -> AsyncIterator[Counter[str]]:
    """A worker with a connection and an identity of its own, as if it were a process."""
    client, calls = counting_client(await TemporalClient.connect(address, identity=f"worker-{number}"))
    async with running_worker(client, wakeful_agent.registry, WorkerSettings(task_queue=queue)):
        yield calls


async def _recovery(env: Environment, runs: int) -> list[tuple[float, bool]]:
    """Seconds from a decision to the end of its run, of runs that slept in the cache of a worker that was killed.

    Each with whether the server had handed out a task of it to the killed worker, whose polls it still took for open.
    """
    async with worker_process(WAKEFUL, env.address, "", "", "killed") as pid:
        side = WakefulSide(Client(env.client, task_queue="killed"), pid)
        ids = await asyncio.gather(*(env.suspend(side) for _ in range(runs)))
        async with worker_process(WAKEFUL, env.address, "", "", "killed"):
            os.kill(pid, signal.SIGKILL)
            return list(await asyncio.gather(*(_decided(env.client, side, id) for id in ids)))


async def _decided(client: TemporalClient, side: WakefulSide, id: str) -> tuple[float, bool]:
    before = time.perf_counter()
    await side.decide(id)
    await side.result(id)
    seconds = round(time.perf_counter() - before, 3)
    history = await client.get_workflow_handle(id).fetch_history()
    timeouts = [event.workflow_task_timed_out_event_attributes.timeout_type for event in history.events]
    retried = [event.activity_task_started_event_attributes.attempt > 1 for event in history.events]
    return seconds, TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE in timeouts or any(retried)
