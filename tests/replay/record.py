"""Record a history of each kind of run: `python -m tests.replay.record`.

Each story below drives one thread. The newest execution of that thread is recorded, and those that continued as new
before it, each in a file of its own with one line of JSON. Existing files are kept for ever, as they are: they stand
for runs that were asleep when the code changed, and these have to wake up. `kept.sha256` has their digests.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowFailureError, WorkflowHistory

from tests.replay import recorded_app
from tests.support import app, subagent_app
from tests.support.a2a_peer import running_peer
from tests.support.processes import ROOT
from tests.support.remote_app import remote_worker
from tests.support.subagent_app import delegate, holding, plan, send, spawn, written
from tests.support.subagents import ends_in_tree, until_open, until_pending
from tests.support.waiting import until, until_refused, until_status
from wakeful import Agent, FrontendTool, Registry, Rule, RunStatus
from wakeful.client.client import Client
from wakeful.client.start import Handle
from wakeful.client.wake import describe
from wakeful.contract import ids, names
from wakeful.contract.agents import HistoryBudget
from wakeful.contract.archive import SegmentHeader, ThreadClosed
from wakeful.contract.budgets import Budget
from wakeful.contract.decisions import DecisionActionName
from wakeful.contract.mail import AgentMessage, ReturnedMessage, Sender
from wakeful.contract.messages import InputMessage
from wakeful.contract.push import PushConfig, PushState
from wakeful.contract.requests import ScheduledSend, Submission
from wakeful.contract.runs import Adapter, ThreadMode
from wakeful.contract.views import StatusView
from wakeful.history.archive import delete_execution
from wakeful.testing import runtime
from wakeful.worker import WorkerSettings, running_worker

HISTORIES = Path(__file__).parent / "histories"
KEPT = Path(__file__).parent / "kept.sha256"
"""The digests of the recorded histories, in the format of `sha256sum`."""
EVENTS_BUDGET = 100
"""Threads continue as new after so many events."""

Story = Callable[[Client, str], Awaitable[str | None]]
"""Drives the thread with this id until it ends, and returns the id of the thread to record, if that is another one."""


async def one_tool_call(client: Client, thread: str) -> None:
    await client.start("tester", "add", thread_id=thread)


async def parallel_calls(client: Client, thread: str) -> None:
    """Three calls, one of which is suspended."""
    await client.start("parallel", "mixed", thread_id=thread)
    await decide_first(client, thread, "resume", result="go")


async def call_cancelled_by_decision(client: Client, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    await decide_first(client, thread, "cancel", reason="no")


async def malformed_signals(client: Client, thread: str) -> None:
    """An unknown signal, payloads that cannot be parsed, and a decision about a call that does not exist."""
    await client.start("tester", "approve", thread_id=thread)
    await until_status(client, thread, RunStatus.WAITING)
    await client.handle(thread).signal("misspelt", {})
    for signal in (names.SIGNAL_SUBMIT, names.SIGNAL_DECIDE, names.SIGNAL_CHILD_SETTLED, names.SIGNAL_DELIVER):
        await client.handle(thread).signal(signal, 13)
    await client.decide(thread, "9-9", "resume", decision_id="d0")
    await until_refused(client, thread)
    await decide_first(client, thread, "resume")


async def changes(client: Client, thread: str) -> None:
    """Messages are edited and withdrawn, and a rule is revoked, while a call waits for its decision."""
    await client.start("tester", "approve", thread_id=thread, mode=ThreadMode.THREAD)
    await until_status(client, thread, RunStatus.WAITING)
    for id in ("m1", "m2"):
        await client.send(thread, "add", message_id=id)
    await client.edit(thread, "m1", f"hi {'x' * 5_000}", request_id="e1", confirm=True)
    await client.withdraw(thread, ["m2", "m9"], request_id="w1", confirm=True)
    await client.handle(thread).signal(names.SIGNAL_REVOKE, {"tools": ["pay"]})
    await client.handle(thread).signal(names.SIGNAL_EDIT, 13)
    await decide_first(client, thread, "resume")
    await until_runs(client, thread, 2)
    await client.close(thread)


async def frontend_tool(client: Client, thread: str) -> None:
    await client.start("tester", "browse", thread_id=thread, frontend_tools=[FrontendTool(id="open_page")])
    await decide_first(client, thread, "resume", result="hi")


async def cancelled_while_suspended(client: Client, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    await until_status(client, thread, RunStatus.WAITING)
    await client.cancel(thread, reason="enough")


async def cancelled_by_temporal_in_a_tool(client: Client, thread: str) -> None:
    await client.start("tester", "linger", thread_id=thread)
    await until_event(client, thread, "tool_call_ready")
    await client.handle(thread).cancel()


async def decided_twice(client: Client, thread: str) -> None:
    """A call that one person has approved, and that another one denies in a later run."""
    await client.start("tester", "approve", thread_id=thread, mode=ThreadMode.THREAD)
    view = await until_status(client, thread, RunStatus.WAITING)
    call_id = view.pending[0].pending.id
    await client.decide(thread, call_id, "resume", actor="ann", decision_id="d1", confirm=True)
    await until_runs(client, thread, 1)
    await client.send(thread, "approve", message_id="m2")
    await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, call_id, "cancel", actor="bob", decision_id="d2")
    await until_refused(client, thread)
    await decide_first(client, thread, "resume")
    await until_runs(client, thread, 2)
    await client.close(thread)


async def sent_with_settings(client: Client, thread: str) -> None:
    """Messages that bring rules, a budget and frontend tools; one of them while a run waits, and one that steers it."""
    await client.start("tester", "approve", thread_id=thread, mode=ThreadMode.THREAD)
    await until_status(client, thread, RunStatus.WAITING)
    settings: dict[str, Any] = {"budget": Budget(turns=5), "permissions": [Rule(tool="add", behavior="ask")]}
    await client.send(thread, "add", message_id="m1", frontend_tools=[FrontendTool(id="open_page")], **settings)
    await client.send(thread, "add", message_id="m2", on_busy="steer", **settings)
    await decide_first(client, thread, "resume")
    await until(client, thread, lambda view: [waiting.pending.name for waiting in view.pending] == ["add"])
    await decide_first(client, thread, "resume")
    await until_runs(client, thread, 2)
    await client.close(thread)


async def cost_without_prices(client: Client, thread: str) -> None:
    await client.start("tester", "add", thread_id=thread, budget=Budget(cost=1.0), on_error="complete")


async def tool_retried(client: Client, thread: str) -> None:
    await client.start("copying", "Copy the book.", thread_id=thread)


async def closed_while_idle(client: Client, thread: str) -> None:
    await client.send(thread, "add", agent_id="tester", message_id="m1")
    await until_runs(client, thread, 1)
    await client.close(thread, reason="enough")


async def closed_in_a_tool(client: Client, thread: str) -> None:
    await client.start("tester", "linger", thread_id=thread, mode=ThreadMode.THREAD)
    await until_event(client, thread, "tool_call_ready")
    await client.close(thread, reason="enough")


async def archive(client: Client, thread: str) -> str:
    """The archive of a thread that was deleted."""
    header = SegmentHeader(thread_id=f"{thread}-deleted", first_message=0, messages=0, first_event=0, events=0)
    queue = client.task_queue
    handle = await client.temporal.start_workflow(
        names.WORKFLOW_ARCHIVE, args=[header, b""], id=ids.archive_id(header.thread_id, 1, "a"), task_queue=queue
    )
    await handle.signal(names.SIGNAL_THREAD_CLOSED, ThreadClosed(keep_seconds=0.1))
    return handle.id


async def archive_of_an_expired_thread(client: Client, thread: str) -> str:
    """The thread was woken, and closed again, before its archive deleted it; then an operator did."""
    archive_id = await closed_archive(client, thread)
    handle = client.handle(archive_id)
    await handle.signal(names.SIGNAL_THREAD_CLOSED, ThreadClosed(keep_seconds=0, expired_run_id="an earlier one"))
    while not any(event.HasField("activity_task_completed_event_attributes") for event in await events(handle)):
        await asyncio.sleep(0.1)
    await delete_execution(client.temporal, thread, (await client.handle(thread).describe()).run_id)
    while await describe(client.temporal, thread) is not None:
        await asyncio.sleep(0.1)
    await handle.signal(names.SIGNAL_THREAD_CLOSED, ThreadClosed(keep_seconds=0))
    return archive_id


async def woken_for_a_late_message(client: Client, thread: str) -> None:
    """The execution that the archive of the closed one starts."""
    await client.start("tester", "linger", thread_id=thread, mode=ThreadMode.THREAD)
    await until_event(client, thread, "tool_call_ready")
    await client.handle(thread).signal(names.SIGNAL_CLOSE)
    await client.handle(thread).signal(names.SIGNAL_SUBMIT, {"input": [{"id": "late", "content": "add"}]})
    await client.handle(thread).result(follow_runs=False)
    await until_runs(client, thread, 2)
    await client.close(thread)


async def archive_that_wakes_its_thread(client: Client, thread: str) -> str:
    """An operator deletes the thread afterwards."""
    await closed_archive(client, thread)
    closed, archive_id = (await client.handle(thread).describe()).run_id, ids.archive_id(thread, 1, "a")
    header = SegmentHeader(thread_id=thread, first_message=0, messages=0, first_event=0, events=0)
    handle = await client.temporal.start_workflow(
        names.WORKFLOW_ARCHIVE, args=[header, b""], id=archive_id, task_queue=client.task_queue
    )
    await handle.signal(names.SIGNAL_THREAD_CLOSED, ThreadClosed(keep_seconds=0, late_run_id=closed))
    while (woken := (await client.handle(thread).describe()).run_id) == closed:
        await asyncio.sleep(0.1)
    await until_status(client, thread, RunStatus.DONE)
    await client.close(thread)
    await client.result(thread)
    for run_id in (closed, woken):
        await delete_execution(client.temporal, thread, run_id)
    while await describe(client.temporal, thread) is not None:
        await asyncio.sleep(0.1)
    await handle.signal(names.SIGNAL_THREAD_CLOSED, ThreadClosed(keep_seconds=0))
    return archive_id


async def events(handle: Handle) -> Sequence[HistoryEvent]:
    return (await handle.fetch_history()).events


async def closed_archive(client: Client, thread: str) -> str:
    """The archive of a thread that has closed."""
    await client.start("tester", "add", thread_id=thread, mode=ThreadMode.THREAD)
    await until_status(client, thread, RunStatus.DONE)
    await client.close(thread)
    await client.result(thread)
    async for archived in client.temporal.list_workflows(f"WorkflowType = '{names.WORKFLOW_ARCHIVE}'"):
        if ids.archived_thread_id(archived.id) == thread:
            return archived.id
    raise AssertionError("the thread has no archive")


async def max_rounds(client: Client, thread: str) -> None:
    await client.start("short", "for ever", thread_id=thread)


async def unknown_agent(client: Client, thread: str) -> None:
    await client.start("unknown", "hello", thread_id=thread)


async def message_enqueued(client: Client, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    await until_status(client, thread, RunStatus.WAITING)
    await client.submit(thread, "add")
    await decide_first(client, thread, "resume")


async def message_steers(client: Client, thread: str) -> None:
    await client.start("tester", "approve", thread_id=thread)
    await until_status(client, thread, RunStatus.WAITING)
    await client.submit(thread, "be quick", on_busy="steer")
    await decide_first(client, thread, "resume")


async def messages_interrupt_and_roll_back(client: Client, thread: str) -> None:
    await client.send(thread, "approve", agent_id="tester", message_id="m1")
    await until_status(client, thread, RunStatus.WAITING)
    await client.send(thread, "approve", on_busy="interrupt", message_id="m2")
    await until(client, thread, lambda view: view.status is RunStatus.WAITING and view.runs == 2)
    await client.send(thread, "add", on_busy="rollback", message_id="m3")
    await until_runs(client, thread, 3)
    await client.close(thread)


async def tenants(client: Client, thread: str) -> None:
    """Two users of a tenant, a message of another tenant, and a priority that the execution was not started with."""
    owners = {"tenant": "acme", "user": "ann", "metadata": {"order": 7}, "priority": {"priority_key": 2}}
    request = {"agent_id": "tester", "input": "add", "mode": "thread", **owners}
    await client.temporal.start_workflow(names.WORKFLOW, request, id=thread, task_queue=client.task_queue)
    await until_runs(client, thread, 1)
    await client.submit(thread, [InputMessage(content="add", id="m1")], tenant="beta")
    await until_refused(client, thread)
    await client.send(thread, "add", tenant="acme", user="bob", message_id="m2")
    await until_runs(client, thread, 2)
    await client.close(thread)


async def signals_for_one_run(client: Client, thread: str) -> None:
    """A decision and a cancel that name a run which is not the newest one, and then the newest."""
    await client.start("tester", "approve", thread_id=thread, mode=ThreadMode.THREAD)
    view = await until_status(client, thread, RunStatus.WAITING)
    call_id, run_id = view.pending[0].pending.id, view.identity.run_id
    await client.decide(thread, call_id, "resume", run_id="r0", decision_id="d1")
    await client.handle(thread).signal(names.SIGNAL_CANCEL, {"run_id": "r0"})
    await until(client, thread, lambda view: len(view.refusals) == 2)
    await client.decide(thread, call_id, "resume", run_id=run_id, decision_id="d2", confirm=True)
    await until_runs(client, thread, 1)
    await client.send(thread, "approve", message_id="m2", user="bob")
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.handle(thread).signal(names.SIGNAL_CANCEL, {"run_id": view.identity.run_id, "reason": "too late"})
    await until_runs(client, thread, 2)
    await client.close(thread)


async def local_tools(client: Client, thread: str) -> None:
    await client.start("parallel", "glance", thread_id=thread)


async def woken_by_a_message(client: Client, thread: str) -> None:
    await client.run("tester", "add", thread_id=thread)
    await client.send(thread, "hello", message_id="m2")
    await until_runs(client, thread, 2)
    await client.close(thread)


async def continue_as_new(client: Client, thread: str) -> None:
    for number in range(1, 5):
        await client.send(thread, "add", agent_id="tester", message_id=f"m{number}")
        await until_runs(client, thread, number)
    await client.close(thread)


async def fork(client: Client, thread: str) -> None:
    """The fork reads its conversation and its state from the thread that it was forked from."""
    await client.run("tester", "count", thread_id=f"{thread}-origin")
    await client.fork(f"{thread}-origin", at=5, message="add", new_thread_id=thread)


async def rewind(client: Client, thread: str) -> None:
    """The execution that Temporal's reset starts."""
    await client.run("tester", "count", thread_id=thread)
    await client.rewind(thread, to=4, reason="the fifth step was wrong")


async def every_decision(client: Client, thread: str) -> None:
    """Of five calls two run, one is approved, one is denied, and one expires."""
    await client.start("gated", "five", thread_id=thread)
    view = await until(client, thread, lambda view: len(view.pending) == 3)
    first, second, _third = sorted(ticket.pending.id for ticket in view.pending)
    await client.decide(thread, first, "resume", decision_id="d1", confirm=True)
    await client.decide(thread, second, "cancel", reason="too dear", decision_id="d2")


async def call_blocked_by_a_gate(client: Client, thread: str) -> None:
    await client.start("gated", "unlucky", thread_id=thread)


async def calls_allowed_always(client: Client, thread: str) -> None:
    await client.start("ruled", "again", thread_id=thread)
    view = await until_status(client, thread, RunStatus.WAITING)
    await client.decide(thread, view.pending[0].pending.id, "resume", always=True, decision_id="d1")


async def answers_corrected(client: Client, thread: str) -> None:
    """An answer that hits the token limit, a call that cannot be parsed, and a value of the wrong type."""
    await client.start("clumsy", "what is two and two?", thread_id=thread)


async def delegates(client: Client, thread: str) -> None:
    """Two at once, one of which waits for a decision."""
    signing = plan([("sign", {"what": "it"})], say="signed")
    await client.start("node", written(plan([delegate(signing), delegate(plan(say="quick"))])), thread_id=thread)
    pending = await until_pending(client, thread)
    await client.decide(pending.thread_id, pending.call_id, "resume", decision_id="d1")


async def sub_agent(client: Client, thread: str) -> str:
    """The child's side: it notifies its parent."""
    await client.run("node", written(plan([delegate(plan([("work", {"what": "its own"})]))])), thread_id=thread)
    return await only_child(client, thread)


async def background_tasks(client: Client, thread: str) -> None:
    """A sub-agent that gets mail from its parent and answers it, and a tool that emits events."""
    scout = plan([("work", {"what": "look", "seconds": 0.5})], [send({"relation": "parent"}, "seen")], say="done")
    steps = (
        [spawn(scout, name="scout"), ("dig", {"where": "garden"})],
        [send({"relation": "child", "name": "scout"}, "go")],
    )
    await client.start("node", written(plan(*steps, [("list_tasks", {})])), thread_id=thread)


async def background_tool(client: Client, thread: str) -> str:
    """The child's side: a `ToolTask`."""
    await client.run("node", written(plan([("dig", {"where": "cellar"})])), thread_id=thread)
    return await only_child(client, thread)


async def descendants_cancelled(client: Client, thread: str) -> None:
    child = plan([holding(), spawn(plan([holding()]))])
    tree = plan([delegate(child), spawn(child), ("linger", {"seconds": 300})])
    await client.start("node", written(tree), thread_id=thread)
    await until_open(client, thread, 6)
    await client.cancel(thread, reason="enough")


async def sub_agent_cancelled(client: Client, thread: str) -> str:
    """The child's side: its parent cancels it."""
    await client.start("node", written(plan([delegate(plan([holding()]))])), thread_id=thread)
    await until_open(client, thread, 2)
    child = await only_child(client, thread)
    await until_event(client, child, "tool_call_ready")
    await client.cancel(thread, reason="enough")
    await client.result(thread)
    return child


async def sub_agent_terminated(client: Client, thread: str) -> None:
    """The parent's side: the server reports the end of a child that has not signalled."""
    await client.start("node", written(plan([delegate(plan([holding()]))])), thread_id=thread)
    await until_open(client, thread, 2)
    await client.handle(await only_child(client, thread)).terminate()


async def run_cancels_a_task_and_itself(client: Client, thread: str) -> None:
    first = [spawn(plan([holding()]), name="leaf"), spawn(plan([holding()]), name="other")]
    leaf = ("cancel_task", {"target": {"relation": "child", "name": "leaf"}})
    itself = ("cancel_task", {"target": {"relation": "self"}})
    await client.start("node", written(plan(first, [leaf], [itself])), thread_id=thread)


async def mail_to_a_closed_thread(client: Client, thread: str) -> str:
    """The recipient's side: the execution that the message has woken."""
    await client.run("node", written(plan(say="first")), thread_id=thread)
    to = send({"relation": "agent", "thread_id": thread}, "wake up")
    await client.run("node", written(plan([to])), thread_id=f"{thread}-sender")
    await until_runs(client, thread, 2)
    await client.close(thread)
    return thread


async def undelivered_mail(client: Client, thread: str) -> None:
    """The model lists the message and sends it again; then a person does; then another one is returned."""
    undelivered = [send({"relation": "agent", "thread_id": "unknown"}, "hello?"), ("recover_failed_messages", {})]
    resend = [("recover_failed_messages", {"action": "replay"})]
    await client.start("node", written(plan(undelivered, resend)), thread_id=thread, mode=ThreadMode.THREAD)
    await until(client, thread, lambda view: view.status is RunStatus.DONE and len(view.undelivered) == 1)
    await client.recover_undelivered(thread, "replay")
    message = AgentMessage(
        message_id="msg_returned",
        sender=Sender(agent_id="node", thread_id=thread),
        content="too late",
        relation="agent",
        recipient_thread_id="ended",
    )
    returned = ReturnedMessage(message=message, error=names.RECIPIENT_UNAVAILABLE)
    await client.handle(thread).signal(names.SIGNAL_MAIL_RETURNED, returned)
    await until(client, thread, lambda view: len(view.undelivered) == 2)
    await client.recover_undelivered(thread, "clear")
    await until(client, thread, lambda view: not view.undelivered)
    await client.close(thread)


async def handoff(client: Client, thread: str) -> None:
    steps = plan([("handoff_to_back", {})], [("work", {"what": "as the other"})])
    await client.start("front", written(steps), thread_id=thread)


async def budget_spent(client: Client, thread: str) -> None:
    """Sub-agents ask for more budget until the tree has none left."""
    greedy = plan(*[[("work", {"what": f"{n}"})] for n in range(12)])
    tree = plan([spawn(greedy), delegate(plan([delegate(greedy)]))], [delegate(greedy)])
    await client.start("node", written(tree), thread_id=thread, budget=Budget(tokens=1500))


async def budget_requested(client: Client, thread: str) -> str:
    """The child's side: it asks its parent for more budget."""
    greedy = plan(*[[("work", {"what": f"{n}"})] for n in range(12)])
    await client.start("node", written(plan([delegate(greedy)])), thread_id=thread, budget=Budget(tokens=900))
    await client.result(thread)
    return await only_child(client, thread)


async def agents_granted(client: Client, thread: str) -> None:
    """The root grants agents to its sub-agents until its limit is reached."""
    child = plan([delegate(plan()), delegate(plan())])
    await client.start("node", written(plan([delegate(child)])), thread_id=thread, budget=Budget(agents=2))


async def agents_requested(client: Client, thread: str) -> str:
    """The child's side: it asks its parent for agents, looks whether a thread above stops, and is refused some."""
    await agents_granted(client, thread)
    await client.result(thread)
    (child,) = (await client.tree(thread)).children
    return child.thread_id


async def time_spent(client: Client, thread: str) -> None:
    """A timer ends the run."""
    await client.start("node", written(plan([holding()])), thread_id=thread, budget=Budget(seconds=1))


async def woken_by_a_task(client: Client, thread: str) -> None:
    """The second execution of a thread whose first one ended before its task."""
    late = plan([("work", {"what": "late", "seconds": 1.5})])
    await client.run("limited", written(plan([spawn(late)])), thread_id=thread)
    await until(client, thread, lambda view: view.identity.origin.value == "internal" and view.status is RunStatus.DONE)
    await client.close(thread)


async def mail_begins_a_run(client: Client, thread: str) -> None:
    """A run with rules and a budget has ended when its background agent writes to the thread."""
    late = plan([("work", {"what": "late", "seconds": 1.0})], [send({"relation": "parent"}, "seen")])
    bound: dict[str, Any] = {"permissions": [Rule(tool="sign", behavior="deny")], "budget": Budget(turns=9)}
    request = written(plan([spawn(late)]))
    await client.start("limited", request, thread_id=thread, mode=ThreadMode.THREAD, user="ann", **bound)
    await until(client, thread, lambda view: view.runs > 1 and view.status is RunStatus.DONE and not view.children)
    await client.close(thread)


async def rules_lifted(client: Client, thread: str) -> str:
    """The child's side: an operator lifts what its parent's request denies and asks, while its call is suspended."""
    signing = plan([("sign", {"what": "it"})], [("work", {"what": "more"})], say="signed")
    rules = [Rule(tool="work", behavior="deny"), Rule(tool="hold", behavior="ask")]
    await client.start("node", written(plan([delegate(signing)])), thread_id=thread, permissions=rules)
    pending = await until_pending(client, thread)
    lifting = {"inherited": True, "actor": "ann", "reason": "she has called", "request_id": "v1"}
    await client.handle(pending.thread_id).signal(names.SIGNAL_REVOKE, {"tools": ["work", "dig"], **lifting})
    await client.decide(pending.thread_id, pending.call_id, "resume", decision_id="d1")
    return pending.thread_id


async def continue_as_new_with_children(client: Client, thread: str) -> None:
    """Children outlive the execution that started them."""
    children = [spawn(plan([("work", {"what": f"w{n}", "seconds": 2.0})])) for n in range(3)]
    busy = [[("work", {"what": f"busy {n}", "seconds": 0.1})] for n in range(12)]
    await client.start("node", written(plan(children, *busy)), thread_id=thread)


async def hooks(client: Client, thread: str) -> None:
    """Hooks in every phase, and six steps with a tool call."""
    await client.start("hooked", "6", thread_id=thread)


async def agent_state(client: Client, thread: str) -> None:
    """Two calls write the same exclusive key; the later one is rejected."""
    await client.start("tallying", "claim it", thread_id=thread)


async def scheduled_message(client: Client, thread: str) -> str:
    """A firing of a schedule, which sends the thread its message."""
    submission = Submission(input="add", agent_id="tester")
    firing, input = f"firing-{thread}", ScheduledSend(thread_id=thread, submission=submission)
    queue = client.task_queue
    await client.temporal.start_workflow(names.WORKFLOW_SCHEDULED, input, id=firing, task_queue=queue)
    return firing


async def a2a_push(client: Client, thread: str) -> str:
    """Push notifications to two webhooks: one is down at first, and the config of the other is deleted."""
    push, queue = ids.push_id(thread), client.task_queue
    closed = await asyncio.start_server(_accept, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    task = PushConfig(
        id="kept", task_id="task", message_id="m1", url=f"http://127.0.0.1:{port}/", token="t", private=True
    )
    other = task.model_copy(update={"id": "deleted", "token": None})
    await client.send(thread, "approve", agent_id="tester", message_id="m1", adapter=Adapter.A2A)
    state = PushState(thread_id=thread)
    await client.temporal.start_workflow(
        names.WORKFLOW_A2A_PUSH,
        state,
        id=push,
        task_queue=queue,
        start_signal=names.SIGNAL_SET_PUSH,
        start_signal_args=[task],
    )
    handle = client.temporal.get_workflow_handle(push)
    await handle.signal(names.SIGNAL_SET_PUSH, other)
    await until_status(client, thread, RunStatus.WAITING)
    async with await asyncio.start_server(_accept, "127.0.0.1", port):
        while EventType.EVENT_TYPE_TIMER_STARTED not in [event.event_type for event in await events(handle)]:
            await asyncio.sleep(0.1)
        await handle.signal(names.SIGNAL_DELETE_PUSH, other.ref)
        await decide_first(client, thread, "resume", result="go")
        await handle.result()
    return push


async def _accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A webhook that accepts everything."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


async def compaction(client: Client, thread: str) -> None:
    for number in range(1, 7):
        await client.send(thread, f"message {number}", agent_id="summarizing", message_id=f"m{number}")
        await until_runs(client, thread, number)
    await client.close(thread)


async def stream_interrupted(client: Client, thread: str) -> None:
    """The connection fails in the middle of an answer, and the next attempt continues it."""
    await client.start("breaking", "count", thread_id=thread)


async def stream_interrupted_by_a_worker(client: Client, thread: str) -> None:
    """A worker stops in the middle of an answer, and another one continues it."""
    settings = WorkerSettings(task_queue=thread, graceful_shutdown=timedelta(seconds=0.5))
    client = Client(client.temporal, task_queue=thread)
    async with running_worker(client.temporal, recorded_app.registry, settings):
        await client.start("hanging", "count", thread_id=thread)
        await until_event(client, thread, "text_delta", live=True)
    async with running_worker(client.temporal, recorded_app.registry, settings):
        await client.result(thread)


async def missing_on_a_worker(client: Client, thread: str) -> None:
    """A worker that does not know the agent reports so, and leaves the run to another one."""
    client, settings = Client(client.temporal, task_queue=thread), WorkerSettings(task_queue=thread)
    async with running_worker(client.temporal, Registry(agents=[Agent(id="other")]), settings):
        await client.start("tester", "add", thread_id=thread)
        while names.SIGNAL_MISSING not in await signals_of(client, thread):
            await asyncio.sleep(0.1)
    async with running_worker(client.temporal, app.registry, settings):
        await client.result(thread)


async def remote_agent(client: Client, thread: str) -> None:
    """A remote agent asks a question, and gets its answer in the next step."""
    async with running_peer() as peer, remote_worker(client.temporal, thread, peer) as there:
        await there.start("remote", "ask Which city?", thread_id=thread)
        await decide_first(there, thread, "resume", result="Rome")
        await there.result(thread)


async def remote_agent_cancelled(client: Client, thread: str) -> None:
    """Its service is told of the cancel, and then its call is cancelled."""
    async with running_peer() as peer, remote_worker(client.temporal, thread, peer) as there:
        await there.start("remote", "work hard", thread_id=thread)
        await peer.until(lambda peer: bool(peer.ledger))
        await there.cancel(thread, reason="enough")
        with suppress(WorkflowFailureError):
            await there.handle(thread).result()


async def signals_of(client: Client, thread: str) -> list[str]:
    return [
        event.workflow_execution_signaled_event_attributes.signal_name for event in await events(client.handle(thread))
    ]


async def until_runs(client: Client, thread: str, runs: int) -> StatusView:
    """Wait until the thread has finished this many runs."""
    return await until(client, thread, lambda view: view.status is RunStatus.DONE and view.runs == runs)


async def until_event(client: Client, thread: str, event_type: str, *, live: bool = False) -> None:
    async for record in client.watch(thread, live=live):
        if record.event.event_type == event_type:
            return
    raise AssertionError(f"thread {thread!r} ended without an event {event_type!r}")


async def decide_first(
    client: Client, thread: str, action: DecisionActionName, *, result: str | None = None, reason: str | None = None
) -> None:
    """Wait until a call of the thread is suspended, and decide it."""
    view = await until_status(client, thread, RunStatus.WAITING)
    call_id = view.pending[0].pending.id
    await client.decide(thread, call_id, action, result=result, reason=reason, decision_id="d1")


async def only_child(client: Client, thread: str) -> str:
    (child,) = set(await ends_in_tree(client, thread)) - {thread}
    return child


GROUPS: tuple[tuple[Registry, tuple[Story, ...]], ...] = (
    (
        app.registry,
        (
            one_tool_call,
            parallel_calls,
            call_cancelled_by_decision,
            malformed_signals,
            changes,
            frontend_tool,
            decided_twice,
            sent_with_settings,
            cost_without_prices,
            cancelled_while_suspended,
            cancelled_by_temporal_in_a_tool,
            closed_while_idle,
            closed_in_a_tool,
            archive,
            archive_of_an_expired_thread,
            woken_for_a_late_message,
            archive_that_wakes_its_thread,
            max_rounds,
            unknown_agent,
            message_enqueued,
            message_steers,
            messages_interrupt_and_roll_back,
            local_tools,
            tenants,
            signals_for_one_run,
            woken_by_a_message,
            continue_as_new,
            fork,
            rewind,
            every_decision,
            call_blocked_by_a_gate,
            calls_allowed_always,
            answers_corrected,
            hooks,
            agent_state,
            scheduled_message,
            a2a_push,
            missing_on_a_worker,
            remote_agent,
            remote_agent_cancelled,
        ),
    ),
    (
        subagent_app.registry,
        (
            delegates,
            sub_agent,
            background_tasks,
            background_tool,
            descendants_cancelled,
            sub_agent_cancelled,
            sub_agent_terminated,
            run_cancels_a_task_and_itself,
            mail_to_a_closed_thread,
            undelivered_mail,
            handoff,
            budget_spent,
            budget_requested,
            agents_granted,
            agents_requested,
            time_spent,
            woken_by_a_task,
            mail_begins_a_run,
            rules_lifted,
            continue_as_new_with_children,
        ),
    ),
    (recorded_app.registry, (compaction, stream_interrupted, stream_interrupted_by_a_worker, tool_retried)),
)
STORIES = tuple(story for _, stories in GROUPS for story in stories)


def recordings(story: Story) -> list[Path]:
    """The files of a story, one for each execution."""
    name = story.__name__
    return sorted([*HISTORIES.glob(f"{name}.json"), *HISTORIES.glob(f"{name}.[0-9]*.json")])


async def record(stories: Sequence[Story], registry: Registry) -> None:
    missing = [story for story in stories if not recordings(story)]
    if not missing:
        return
    settings = WorkerSettings(history_budget=HistoryBudget(events=EVENTS_BUDGET), new_run_patience=timedelta())
    async with runtime(registry, settings=settings) as client:
        for story in missing:
            name = story.__name__
            thread = await story(client, name) or name
            with suppress(WorkflowFailureError):  # of a run that ended in an error, or was cancelled
                await client.temporal.get_workflow_handle(thread).result()
            histories = await histories_of(client, thread)
            for number, history in enumerate(histories, start=1):
                file = f"{name}.json" if len(histories) == 1 else f"{name}.{number}.json"
                (HISTORIES / file).write_text(one_line(history))
                keep(HISTORIES / file)
                print(f"{file}: {len(history.events)} events", flush=True)


def keep(path: Path) -> None:
    """Note the digest of a new recording: from now on it is kept as it is."""
    with KEPT.open("a") as kept:
        kept.write(digest_line(path))


def digest_line(path: Path) -> str:
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"


async def histories_of(client: Client, thread: str) -> list[WorkflowHistory]:
    """The thread's newest execution, after those that continued as new before it."""
    histories = [await client.handle(thread).fetch_history()]
    while run_id := histories[0].events[0].workflow_execution_started_event_attributes.continued_execution_run_id:
        histories.insert(0, await client.handle(thread, run_id=run_id).fetch_history())
    return histories


def one_line(history: WorkflowHistory) -> str:
    written = json.dumps(json.loads(history.to_json()), separators=(",", ":")) + "\n"
    return written.replace(f"{ROOT}/", "")  # stack traces have the paths of the machine that recorded them


async def main() -> None:
    HISTORIES.mkdir(exist_ok=True)
    for registry, stories in GROUPS:
        await record(stories, registry)


if __name__ == "__main__":
    asyncio.run(main())
    os._exit(0)  # Temporal's native threads may abort a regular exit
