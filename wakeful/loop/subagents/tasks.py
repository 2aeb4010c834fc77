"""Background tasks of a thread: start, list and cancel them. What happens when they end is in `child_events`."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.budgets import Budget
from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.events import TaskChanged
from wakeful.contract.limits import cut
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import TASK_NOT_FOUND
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tasks import RESERVED_TASK_NAMES, Task, TaskContext, TaskStarter, TaskStatus, TaskType
from wakeful.contract.tools import RuntimeTool, ToolDescriptor, ToolResult
from wakeful.loop.calls.batch import ResumingCall, RunningCall, Startable
from wakeful.loop.calls.commit import finish_call, move
from wakeful.loop.machine import revisions
from wakeful.loop.machine.commands import CancelChild, StartTask
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.subagents import start
from wakeful.loop.thread import cancelling

MAX_RUNNING = 100
"""Tasks that a thread may have running at a time."""

KEPT_ENDED = 50
KEPT_RESULT = 1_000
"""Characters of an ended task's result, and of its error, that the thread keeps; its event has the whole."""

DESCRIPTION_LENGTH = 100


def spawn(thread: Thread, call: Startable, executed: ToolCall, tool: RuntimeTool, *, now: int) -> Advance:
    """Start a sub-agent in the background; the model gets the task's id at once."""
    arguments = _arguments(executed)
    agent_id, name = arguments.get("agent"), arguments.get("name")
    if not isinstance(agent_id, str) or agent_id not in tool.agent_ids:
        known = ", ".join(tool.agent_ids)
        raise ToolError(f"agent must be one of: {known}", kind=ToolErrorKind.INVALID_ARGUMENTS)
    if name is not None and not isinstance(name, str):
        raise ToolError("name must be a string", kind=ToolErrorKind.INVALID_ARGUMENTS)
    prompt = start.prompt_of(executed)
    task = _new_task(thread, call, TaskType.SUB_AGENT, prompt, now=now, name=name or None, agent_id=agent_id)
    started = start.start_subagent(
        thread,
        task.task_id,
        agent_id,
        prompt,
        call_id=call.call.id,
        task_id=task.task_id,
        task_name=task.name,
    )
    return started.then(_record, call, task)


def start_background_tool(
    thread: Thread, call: Startable, executed: ToolCall, tool: ToolDescriptor, *, now: int
) -> Advance:
    """Run a tool in the background; the model gets the task's id at once."""
    description = f"{tool.id} {json.dumps(executed.arguments, ensure_ascii=False)}"
    task = _new_task(thread, call, TaskType.TOOL, description, now=now)
    started = StartTask(task.task_id, tool, executed.for_tool, thread.current.metadata)
    return Advance(thread, (started,)).then(_record, call, task)


def _new_task(
    thread: Thread,
    call: Startable,
    type: TaskType,
    description: str,
    *,
    now: int,
    name: str | None = None,
    agent_id: str | None = None,
) -> Task:
    running = thread.children.running
    if len(running) >= MAX_RUNNING:
        raise ToolError(f"{MAX_RUNNING} tasks are running, which is the limit: wait for some to end, or cancel them")
    if name in RESERVED_TASK_NAMES or (name is not None and isinstance(ids.parse_work(name), ids.Task)):
        raise ToolError(f"'{name}' is a reserved name", kind=ToolErrorKind.INVALID_ARGUMENTS)
    if name is not None and any(task.name == name for task in running):
        raise ToolError(f"a running task named '{name}' already exists", kind=ToolErrorKind.INVALID_ARGUMENTS)
    identity = thread.identity
    context = TaskContext(
        task_id=identity.task.task_id if identity.task else None,
        run_id=identity.run_id,
        call_id=call.call.id,
        agent_id=thread.agent.agent_id,
    )
    return Task(
        task_id=ids.work_id(ids.Task(thread.counters.tasks)),
        owner_thread_id=identity.thread_id,
        task_type=type,
        name=name,
        description=cut(" ".join(description.split()), DESCRIPTION_LENGTH),
        created_at_ms=now,
        parent_context=context,
        agent_id=agent_id,
    )


def _record(thread: Thread, call: Startable, task: Task) -> Advance:
    counters = thread.counters.model_copy(update={"tasks": thread.counters.tasks + 1})
    identity, metadata = thread.identity, dict(thread.current.metadata)
    starter = TaskStarter(run_id=identity.run_id, user=identity.user, metadata=metadata)
    if (run := thread.current).revision >= revisions.AUTHORITY_NARROWS:
        rules, deadline = thread.binding, run.budget.deadline
        limit = None if run.budget.limit == Budget() else run.budget.limit
        authority = {"permissions": rules, "budget": limit, "deadline": deadline, "continues": run.budget.continues}
        starter = starter.model_copy(update=authority)
    thread = replace(thread, children=thread.children.starting(task, starter), counters=counters)
    receipt: dict[str, JsonValue] = {"task_id": task.task_id, "status": task.status.value}
    if task.name is not None:
        receipt["name"] = task.name
    if task.agent_id is not None:
        receipt["agent_id"] = task.agent_id
    result = ToolResult.success(call.call.name, receipt)
    return finish_call(thread, call, result).emitting(TaskChanged(task=task))


def list_tasks(thread: Thread, call: Startable) -> Advance:
    tasks: JsonValue = [_view(task, with_result=False) for task in thread.children.tasks]
    return finish_call(thread, call, ToolResult.success(call.call.name, {"tasks": tasks}))


def task_result(thread: Thread, call: Startable, executed: ToolCall) -> Advance:
    wanted = _arguments(executed).get("task")
    if not isinstance(wanted, str):
        raise ToolError("missing 'task'", kind=ToolErrorKind.INVALID_ARGUMENTS)
    task = thread.children.find(wanted) or _find_ended(thread, wanted)
    if task is None:
        raise ToolError(f"{TASK_NOT_FOUND}: {wanted}")
    return finish_call(thread, call, ToolResult.success(call.call.name, _view(task, with_result=True)))


def _find_ended(thread: Thread, name: str) -> Task | None:
    """The newest with this id or name."""
    return next((task for task in reversed(thread.children.tasks) if name in (task.task_id, task.name)), None)


def _view(task: Task, *, with_result: bool) -> JsonValue:
    fields = {"task_id", "name", "task_type", "agent_id", "description", "status", "error"}
    view: JsonValue = task.model_dump(mode="json", include=fields | {"result"} if with_result else fields)
    return view


def _arguments(call: ToolCall) -> Mapping[str, JsonValue]:
    return call.arguments if isinstance(call.arguments, dict) else {}


def cancel_task(thread: Thread, call: Startable, executed: ToolCall, *, now: int) -> Advance:
    """Cancel a task of this thread with its descendants, or the run itself; the receipt comes when it has stopped."""
    target = _arguments(executed).get("target")
    if not isinstance(target, dict):
        raise ToolError("missing 'target'", kind=ToolErrorKind.INVALID_ARGUMENTS)
    match target.get("relation"):
        case "self":
            return _cancel_self(thread, call, now=now)
        case "child":
            name = target.get("name")
            if not isinstance(name, str):
                raise ToolError("child requires 'name'", kind=ToolErrorKind.INVALID_ARGUMENTS)
            return _cancel_child(thread, call, name)
        case str(other):
            raise ToolError(f"unknown relation '{other}'", kind=ToolErrorKind.INVALID_ARGUMENTS)
        case _:
            raise ToolError("missing 'target.relation'", kind=ToolErrorKind.INVALID_ARGUMENTS)


def _cancel_self(thread: Thread, call: Startable, *, now: int) -> Advance:
    """A delegate inside a task cancels that task, which is its ancestor, and ends without waiting for it."""
    running = _waiting(call, awaits="self")
    moved = move(thread, running)
    task, identity = thread.identity.task, thread.identity
    if task is not None and not identity.is_task:
        reason = f"cancelled by {thread.agent.agent_id}, which is part of it"
        moved = replace(moved, commands=(CancelChild(running.id, task.thread_id, reason),))
    return moved.then(cancelling.cancel_self, call.call.id, now=now)


def _cancel_child(thread: Thread, call: Startable, name: str) -> Advance:
    task = thread.children.find(name)
    if task is None or task.thread_id is None:
        return finish_call(thread, call, ToolResult.success(call.call.name, _not_found(name)))
    cancel = CancelChild(task.task_id, task.thread_id, f"cancelled by {thread.agent.agent_id}")
    return replace(move(thread, _waiting(call, awaits=task.task_id)), commands=(cancel,))


def cancel_receipt(task: Task, child: ChildResult) -> JsonValue:
    """What `cancel_task` returns when the task has stopped; one that had ended by itself counts as not found."""
    if child.status is not TaskStatus.CANCELLED:
        return _not_found(task.task_id)
    descendants = child.receipt.cancelled if child.receipt else ()
    return {"status": "accepted", "root_task_id": task.task_id, "cancelled_count": len(descendants) + 1}


def _not_found(name: str) -> JsonValue:
    return {"status": "failed", "root_task_id": name, "cancelled_count": 0, "error": TASK_NOT_FOUND}


def _waiting(call: Startable, *, awaits: str) -> RunningCall:
    resumes = call.resumes if isinstance(call, ResumingCall) else 0
    id = ids.work_id(ids.CancelTask(call.call.id))
    return RunningCall(call.call, id, resumes=resumes, awaits=awaits, by="runtime")


def record_end(thread: Thread, task: Task, child: ChildResult, *, now: int) -> Advance:
    """Record how a task ended; the oldest ended tasks are dropped."""
    after = task.model_copy(
        update={
            "status": child.status,
            "result": _cut(child.result),
            "error": child.error and cut(child.error, KEPT_RESULT),
            "completed_at_ms": now,
        }
    )
    others = [after if known.task_id == task.task_id else known for known in thread.children.tasks]
    ended = [known for known in others if known.status.is_terminal]
    dropped = {known.task_id for known in ended[: max(0, len(ended) - KEPT_ENDED)]}
    kept = tuple(known for known in others if known.task_id not in dropped)
    return Advance(replace(thread, children=thread.children.after_end(kept)), events=(TaskChanged(task=after),))


def _cut(result: JsonValue) -> JsonValue:
    text = json.dumps(result, ensure_ascii=False)
    if len(text) <= KEPT_RESULT:
        return result
    return {"cut": text[:KEPT_RESULT] + "…", "note": "the task's event had the whole result"}
