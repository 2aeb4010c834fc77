"""The status of a thread as lines for a terminal."""

from collections.abc import Sequence
from time import time

from wakeful.cli.terminal.decision_lines import timed_decision_text
from wakeful.cli.terminal.pending_lines import descendant_lines, pending_lines
from wakeful.cli.terminal.result_lines import budget_text, ended_as, is_more_than_own, spent_text
from wakeful.cli.terminal.text import continued, counted, printable, shell_command, short
from wakeful.client.approvals import PendingDecision, pending_decisions, pending_of
from wakeful.client.diagnosis.wording import ago, sent_text
from wakeful.client.thread_reader import ThreadReader
from wakeful.contract.tasks import Task
from wakeful.contract.views import StatusView


def status_lines(thread_id: str, view: StatusView) -> list[str]:
    """The run itself, with the commands that answer each pending decision."""
    agent, active = view.identity.agent_id, view.active_agent
    handed_off = f", handed off to {printable(active)}" if active is not None and active != agent else ""
    lines = [
        f"thread   {thread_id}",
        f"agent    {printable(agent)}{handed_off}",
        f"status   {view.status.value}: {printable(view.doing)}",
        f"steps    {view.steps}    tokens {view.usage.total_tokens or 0}",
    ]
    if view.unhandled_since is not None:
        why = shell_command("why", ids=[thread_id])
        arrived = ago(view.unhandled_since, int(time() * 1000))
        lines.append(f"worker   none has handled what arrived {arrived}: {why}")
    now = int(time() * 1000)
    lines += [f"sent     {printable(sent_text(each, now))}: no worker has handled it yet" for each in view.unhandled]
    for call in view.calls:
        child = f"  in thread {printable(call.child_thread_id)}" if call.child_thread_id else ""
        lines.append(f"call     {call.call_id}  {short(call.tool_name)}  {call.status.value}{child}")
    for pending in pending_of(view):
        lines += pending_lines(pending)
    for decided in view.decisions:
        about = f"{decided.call_id}  {short(decided.tool_name)}"
        lines.append(f"decided  {about}  {timed_decision_text(decided.decision)}")
    for refusal in view.refusals:
        lines.append(f"refused  {printable(refusal.signal)}: {printable(refusal.reason)}")
    if view.result is not None:
        if view.result.status_reason != "natural":
            lines.append(f"ended    {printable(ended_as(view.result))}")
        lines.append(f"answer   {continued(view.result.response)}")
    return lines


def related_lines(thread_id: str, view: StatusView, descendants: Sequence[PendingDecision] = ()) -> list[str]:
    """What connects the thread to others: its tenant and user, its fork's origin, budget, tasks, mail, and its
    descendants' decisions."""
    identity = view.identity
    owners = {"tenant": identity.tenant, "user": identity.user}
    lines = [f"{label:<8} {printable(name)}" for label, name in owners.items() if name is not None]
    if (origin := identity.forked_from) is not None:
        lines.append(f"forked   from {printable(origin.thread_id)} after step {origin.step}")
    if view.budget is not None:
        still = ", without running sub-agents" if view.children else ""
        lines.append(f"budget   {budget_text(view.spent, view.budget)}{still}")
    elif is_more_than_own(view.spent, view.usage, view.steps):
        lines.append(f"spent    {spent_text(view.spent)}, with sub-agents that have ended")
    lines += [f"task     {_task_text(task)}" for task in view.tasks]
    if view.undelivered:
        number = counted(len(view.undelivered), "undelivered message")
        lines.append(f"mail     {number}: {shell_command('undelivered', ids=[thread_id])}")
    for pending in descendants:
        lines += descendant_lines(pending)
    return lines


async def read_related_lines(reader: ThreadReader, thread_id: str, view: StatusView) -> list[str]:
    """`related_lines`, with the decisions of descendants; they are looked for only if there are children."""
    if not view.children:
        return related_lines(thread_id, view)
    pending = [each async for each in pending_decisions(reader, thread_id=thread_id)]
    return related_lines(thread_id, view, [each for each in pending if each.thread_id != thread_id])


def _task_text(task: Task) -> str:
    name = f" ({task.name})" if task.name else ""
    about = f"  {task.description}" if task.description else ""
    error = f": {task.error}" if task.error else ""
    return short(f"{task.task_id}{name}  {task.agent_id or 'tool'}  {task.status.value}{error}{about}")
