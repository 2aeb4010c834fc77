"""Agents and tools that run in the background, and what they report to their parent."""

import asyncio
import json

import pytest

from tests.support.journal import Journal
from tests.support.subagent_app import delegate, events_in, holding, plan, spawn, written
from tests.support.subagents import ends_in_tree, open_in_tree, task_events, until_closed, until_open
from tests.support.waiting import until, until_status
from wakeful.client.client import Client
from wakeful.contract.events import RunFinish, RunStart
from wakeful.contract.runs import OnBusy, RunStatus, ThreadMode
from wakeful.contract.tasks import TaskStatus, TaskType


async def test_a_background_agent_reports_to_its_parent_once(client: Client, thread_id: str) -> None:
    """I-09, B-535, B-537; the run waits for its tasks and continues: one run, cumulative steps (H-19)."""
    result = await client.run("node", written(plan([spawn(plan(say="found it"), name="scout")])), thread_id=thread_id)
    (event,) = task_events(result)
    assert event["kind"] == "completed"
    assert event["result"]["response"]["say"] == "found it"
    assert result.steps == 3
    (task,) = (await client.status(thread_id)).tasks
    assert (task.task_id, task.name, task.task_type) == ("bg_0", "scout", TaskType.SUB_AGENT)
    assert task.status is TaskStatus.COMPLETED
    assert task.parent_context.agent_id == "node"


async def test_a_run_with_running_tasks_pauses_and_continues(client: Client, thread_id: str) -> None:
    """B-040, B-539; awaken: run_finish_signals_awaiting_tasks_in_result, waiting_state_not_overwritten_by_done"""
    await client.run("node", written(plan([spawn(plan())])), thread_id=thread_id)
    records = [record.event async for record in client.watch(thread_id)]
    pauses = [event for event in records if isinstance(event, RunFinish)]
    assert [(pause.termination.type, pause.result and pause.result.status_reason) for pause in pauses] == [
        ("natural_end", "awaiting_tasks"),
        ("natural_end", "natural"),
    ]
    assert sum(isinstance(event, RunStart) for event in records) == 2


async def test_a_background_tool_reports_its_events_and_its_result(client: Client, thread_id: str) -> None:
    """B-535, B-536: custom events come before the terminal one."""
    result = await client.run("node", written(plan([("dig", {"where": "garden"})])), thread_id=thread_id)
    texts = [json.loads(text) for text in events_in(await client.transcript(thread_id))]
    assert [(text["kind"], text.get("event_type")) for text in texts] == [
        ("custom", "started"),
        ("custom", "half"),
        ("completed", None),
    ]
    assert texts[-1] == {"kind": "completed", "task_id": "bg_0", "result": {"found": "garden"}}
    assert result.status_reason == "natural"


async def test_task_events_wait_while_their_parent_waits_for_a_decision(client: Client, thread_id: str) -> None:
    """B-338; awaken: background_events_buffer_while_suspended_until_decision_arrives"""
    await client.start("node", written(plan([spawn(plan()), ("sign", {"what": "it"})])), thread_id=thread_id)
    await until(client, thread_id, lambda view: any(task.status.is_terminal for task in view.tasks))
    view = await until_status(client, thread_id, RunStatus.WAITING)
    assert not events_in(await client.transcript(thread_id))
    (pending,) = view.pending
    await client.decide(thread_id, pending.suspension.id, "resume")
    assert [event["kind"] for event in task_events(await client.result(thread_id))] == ["completed"]


async def test_a_run_that_waits_for_its_tasks_takes_messages(client: Client, thread_id: str) -> None:
    plans = written(plan([spawn(plan([holding()]), name="slow")]))
    await client.start("node", plans, thread_id=thread_id, mode=ThreadMode.THREAD)
    await until(client, thread_id, lambda view: view.doing == "waiting for slow")
    await client.send(thread_id, written(plan([("work", {"what": "this first"})])))
    view = await until(client, thread_id, lambda view: view.steps == 4 and view.doing == "waiting for slow")
    assert view.runs == 1
    await client.send(thread_id, written(plan(say="never mind")), on_busy=OnBusy.INTERRUPT)
    view = await until(client, thread_id, lambda view: view.runs == 2 and view.status is RunStatus.DONE)
    assert [task.status for task in view.tasks] == [TaskStatus.CANCELLED]
    assert not await _running_children(client, thread_id)


async def test_a_thread_that_ended_is_woken_by_its_task(client: Client, thread_id: str) -> None:
    """I-09: a run that was stopped leaves its tasks running; the result of the last one starts a run of its own."""
    plans = written(plan([spawn(plan([("work", {"what": "late", "seconds": 1.5})], say="late"))], [("explode", {})]))
    await client.start("limited", plans, thread_id=thread_id)
    first = await client.result(thread_id)
    assert first.status_reason == "stopped:max_rounds"
    async with asyncio.timeout(30):
        while not events_in(await client.transcript(thread_id)):
            await asyncio.sleep(0.2)
    view = await until_status(client, thread_id, RunStatus.DONE)
    assert view.identity.origin.value == "internal"
    assert [task.status for task in view.tasks] == [TaskStatus.COMPLETED]
    assert len(events_in(await client.transcript(thread_id))) == 1
    await client.handle(thread_id).cancel()


async def test_task_ids_never_repeat_in_a_thread(client: Client, thread_id: str) -> None:
    """H-09: also after the thread was closed and woken."""
    await client.run("node", written(plan([spawn(plan()), spawn(plan())])), thread_id=thread_id)
    await client.send(thread_id, written(plan([spawn(plan())])))
    view = await until(client, thread_id, lambda view: len(view.tasks) == 3 and view.status is RunStatus.DONE)
    assert [task.task_id for task in view.tasks] == ["bg_0", "bg_1", "bg_2"]
    await client.handle(thread_id).cancel()


async def test_a_parent_that_continues_as_new_gets_the_results_of_all_its_children(
    usual_subagents: Client, restless_subagents: Client, thread_id: str
) -> None:
    """Ten background children, and a parent that keeps working and continues as new at every step."""
    client = restless_subagents
    children = [spawn(plan([("work", {"what": f"w{n}", "seconds": 0.5})], say=f"child {n}")) for n in range(10)]
    busy = [[("work", {"what": f"busy {n}", "seconds": 0.3})] for n in range(5)]
    result = await client.run("node", written(plan(children, *busy)), thread_id=thread_id)
    reported = [event["result"]["response"]["say"] for event in task_events(result)]
    assert sorted(reported) == [f"child {n}" for n in range(10)]
    texts = events_in(await client.transcript(thread_id))
    assert len(texts) == len({json.loads(text)["task_id"] for text in texts}) == 10
    executions = [execution async for execution in client.temporal.list_workflows(f"WorkflowId = '{thread_id}'")]
    assert len(executions) > 3
    del usual_subagents


@pytest.mark.parametrize("how", ["signal", "temporal"])
async def test_cancel_reaches_all_descendants_and_nothing_else(
    client: Client, thread_id: str, journal: Journal, how: str
) -> None:
    """H-10, I-10"""
    other = f"{thread_id}-other"
    await client.start("node", written(plan([spawn(plan([holding(4)]))])), thread_id=other)
    subtree = plan([delegate(plan([holding(), spawn(plan([holding()]))])), ("linger", {"seconds": 300})])
    await client.start("node", written(plan([delegate(subtree), spawn(subtree)])), thread_id=thread_id)
    await journal.until("hold", "began", count=5)
    await journal.until("linger", "began", count=2)
    await (client.cancel(thread_id, reason="enough") if how == "signal" else client.handle(thread_id).cancel())
    result = await client.result(thread_id)
    assert result.status_reason == "cancelled"
    await until_closed(client, thread_id)
    ends = await ends_in_tree(client, thread_id)
    assert set(ends.values()) == {"cancelled"}
    assert result.receipt is not None
    assert set(result.receipt.cancelled) == set(ends) - {thread_id}
    assert journal.said("hold").count("stopped") == 4
    assert journal.said("linger").count("stopped") == 2
    assert (await client.result(other)).status_reason == "natural"


async def test_children_that_a_reset_has_undone_are_cancelled(usual_subagents: Client, thread_id: str) -> None:
    """Reset to before the child was started: the run starts another one, and the sweep cancels the old one."""
    client = usual_subagents
    await client.start("node", written(plan([spawn(plan([holding()]), name="old")])), thread_id=thread_id)
    await until_open(client, thread_id, 2)
    (old,) = [id for id in await open_in_tree(client, thread_id) if id != thread_id]
    await _reset_to_start(client, thread_id)
    async with asyncio.timeout(60):
        while old in await open_in_tree(client, thread_id):
            await asyncio.sleep(0.2)
    assert (await ends_in_tree(client, thread_id))[old] == "cancelled"
    view = await until(client, thread_id, lambda view: bool(view.children))
    assert view.children != (old,)
    await client.cancel(thread_id)
    await until_closed(client, thread_id)


async def _reset_to_start(client: Client, thread_id: str) -> None:
    from temporalio.api.common.v1 import WorkflowExecution
    from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest

    described = await client.handle(thread_id).describe()
    await client.temporal.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.temporal.namespace,
            workflow_execution=WorkflowExecution(workflow_id=thread_id, run_id=described.run_id),
            workflow_task_finish_event_id=4,
            reason="a test",
            request_id=thread_id,
        )
    )


async def _running_children(client: Client, root: str) -> list[str]:
    return [id for id in await open_in_tree(client, root) if id != root]
