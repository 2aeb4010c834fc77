"""How long a worker with an empty cache takes to read a long conversation, against reading every execution's history.

That is what an inference waits for first on such a worker. With archives, it reads the newest execution's history and
the archived segments. Without them, it would have to read the histories of all executions, which a server deletes when
their retention ends. Both have to give the conversation that the last inference refers to.
"""

import time
from collections.abc import Coroutine
from dataclasses import replace
from functools import reduce
from typing import Any

from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from benchmarks.environment import Environment
from benchmarks.plan import KB, Plan
from benchmarks.results import Rebuild, Results
from benchmarks.sampling import progress
from benchmarks.workload import WAKEFUL
from wakeful.contract.inference import InferInput
from wakeful.contract.messages import Message
from wakeful.contract.names import ACTIVITY_INFER
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.history.conversation import read_conversation
from wakeful.history.decoder import ExecutionRef, Payloads, read_moments
from wakeful.history.moments import ActivityScheduled
from wakeful_activities.history_cache import HistoryCache


async def measure_rebuild(env: Environment, plan: Plan, results: Results) -> None:
    """Both, alternately."""
    side = next(side for side in env.sides if side.name == WAKEFUL)
    progress(f"rebuild: {plan.rebuild_steps} steps of {plan.rebuild_size} bytes, running")
    thread_id = await env.run(side, steps=plan.rebuild_steps, size=plan.rebuild_size)
    executions = await _chain(env.client, thread_id)
    last = await _last_inference(env.client, executions[0])
    rebuild = Rebuild(
        steps=plan.rebuild_steps,
        kilobytes=plan.rebuild_size // KB,
        messages=last.transcript.length,
        executions=len(executions),
        segments=len(await env.archives(thread_id)),
    )
    for repeat in range(plan.repeat + 1):
        progress(f"rebuild: {repeat} of {plan.repeat}")
        histories = await _milliseconds(_from_histories(env.client, executions, last))
        archives = await _milliseconds(_from_archives(env.client, executions[0], last))
        if repeat:  # the first repeat warms up
            rebuild.histories.append(histories)
            rebuild.archives.append(archives)
    results.rebuild = rebuild


async def _chain(client: Client, thread_id: str) -> list[ExecutionRef]:
    """The executions of a thread, newest first."""
    found = list[ExecutionRef]()
    run_id: str | None = (await client.get_workflow_handle(thread_id).describe()).run_id
    while run_id:
        found.append(ExecutionRef(thread_id, run_id))
        async for event in client.get_workflow_handle(thread_id, run_id=run_id).fetch_history_events(page_size=1):
            run_id = event.workflow_execution_started_event_attributes.continued_execution_run_id
            break
    return found


async def _last_inference(client: Client, execution: ExecutionRef) -> InferInput:
    payloads, last = Payloads(client.data_converter), None
    async for moment in read_moments(client, execution):
        if isinstance(moment, ActivityScheduled) and moment.activity_type == ACTIVITY_INFER:
            last = moment
    if last is None:
        raise RuntimeError(f"execution {execution.run_id!r} has no inference")
    return await payloads.value(last.input, InferInput)


async def _from_archives(client: Client, execution: ExecutionRef, last: InferInput) -> list[Message]:
    """As the activity does it."""
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info, workflow_id=execution.thread_id, workflow_run_id=execution.run_id, workflow_type=None
    )
    transcript = await environment.run(HistoryCache(client).transcript, last)
    return list(transcript.since(0))


async def _from_histories(client: Client, executions: list[ExecutionRef], last: InferInput) -> list[Message]:
    messages, start = list[Message](), None
    for execution in executions:
        before, own = (await read_conversation(client, execution)).entries()
        messages = [*own[: None if start is None else start - before.length], *messages]
        start = before.length
    if reduce(chained, messages, EMPTY_DIGEST) != last.transcript.digest:
        raise RuntimeError("the histories do not have the conversation of the last inference")
    return messages


async def _milliseconds(rebuilding: Coroutine[Any, Any, list[Message]]) -> float:
    before = time.perf_counter()
    await rebuilding
    return round((time.perf_counter() - before) * 1000, 4)
