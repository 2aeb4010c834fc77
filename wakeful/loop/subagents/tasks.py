"""Background tasks of a thread: start them, list them, cancel them. What becomes of them is in `families`."""

import json
import re
from collections.abc import Mapping

from pydantic import JsonValue

from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.events import TaskChanged
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import TASK_NOT_FOUND
from wakeful.contract.subagents import Settled
from wakeful.contract.tasks import RESERVED_TASK_NAMES, Task, TaskContext, TaskStatus, TaskType
from wakeful.contract.tools import RuntimeTool, ToolDescriptor, ToolResult
from wakeful.loop.calls.batch import NewCall, ResumingCall, RunningCall
from wakeful.loop.calls.commit import answer, move
from wakeful.loop.machine.commands import CancelChild, StartTask
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.subagents import start
from wakeful.loop.thread import ending

MAX_RUNNING = 100
"""Tasks that a thread may have running at a time."""

KEPT_ENDED = 50
KEPT_RESULT = 1_000
"""Characters of an ended task's result, and of its error, that the thread keeps; its event has the whole."""

DESCRIPTION_LENGTH = 100

Starting = NewCall | ResumingCall


def spawn(state: RunState, call: Starting, asked: ToolCall, tool: RuntimeTool, *, now: int) -> Advance:
    """Start a sub-agent in the background; the model gets the task's id at once."""
    arguments = _arguments(asked)
    agent_id, name = arguments.get("agent"), arguments.get("name")
    if not isinstance(agent_id, str) or agent_id not in tool.agent_ids:
        known = ", ".join(tool.agent_ids)
        raise ToolError(f"agent must be one of: {known}", kind=ToolErrorKind.INVALID_ARGUMENTS)
    if name is not None and not isinstance(name, str):
        raise ToolError("name must be a text", kind=ToolErrorKind.INVALID_ARGUMENTS)
    prompt = start.prompt_of(asked)
    task = _new_task(state, call, TaskType.SUB_AGENT, prompt, now=now, name=name or None, agent_id=agent_id)
    started = start.start(
        state,
        task.task_id,
        agent_id,
        prompt,
        call_id=call.call.id,
        task_id=task.task_id,
        task_name=task.name,
    )
    return started.then(_begun, call, task)


def run_in_background(state: RunState, call: Starting, asked: ToolCall, tool: ToolDescriptor, *, now: int) -> Advance:
    """Run a tool in the background; the model gets the task's id at once."""
    description = f"{tool.id} {json.dumps(asked.arguments, ensure_ascii=False)}"
    task = _new_task(state, call, TaskType.TOOL, description, now=now)
    return Advance(state, (StartTask(task.task_id, tool, asked),)).then(_begun, call, task)


def _new_task(
    state: RunState,
    call: Starting,
    type: TaskType,
    description: str,
    *,
    now: int,
    name: str | None = None,
    agent_id: str | None = None,
) -> Task:
    running = state.running_tasks
    if len(running) >= MAX_RUNNING:
        raise ToolError(f"{MAX_RUNNING} tasks run already, and no more are started: wait for some, or cancel them")
    if name in RESERVED_TASK_NAMES or (name is not None and re.fullmatch(r"bg_\d+", name)):
        raise ToolError(f"'{name}' is a reserved name", kind=ToolErrorKind.INVALID_ARGUMENTS)
    if name is not None and any(task.name == name for task in running):
        raise ToolError(f"a running task named '{name}' already exists", kind=ToolErrorKind.INVALID_ARGUMENTS)
    identity = state.identity
    context = TaskContext(
        task_id=identity.task.task_id if identity.task else None,
        run_id=identity.run_id,
        call_id=call.call.id,
        agent_id=state.agent.agent_id,
    )
    short = " ".join(description.split())
    return Task(
        task_id=f"bg_{state.spawned}",
        owner_thread_id=identity.thread_id,
        task_type=type,
        name=name,
        description=short if len(short) <= DESCRIPTION_LENGTH else short[: DESCRIPTION_LENGTH - 1] + "…",
        created_at_ms=now,
        parent_context=context,
        agent_id=agent_id,
    )


def _begun(state: RunState, call: Starting, task: Task) -> Advance:
    state = replace(state, tasks=(*state.tasks, task), spawned=state.spawned + 1)
    told: dict[str, JsonValue] = {"task_id": task.task_id, "status": task.status.value}
    if task.name is not None:
        told["name"] = task.name
    if task.agent_id is not None:
        told["agent_id"] = task.agent_id
    result = ToolResult.success(call.call.name, told)
    return answer(state, call, result).emitting(TaskChanged(task=task))


def listed(state: RunState, call: Starting) -> Advance:
    tasks: JsonValue = [_view(task, whole=False) for task in state.tasks]
    return answer(state, call, ToolResult.success(call.call.name, {"tasks": tasks}))


def result_of(state: RunState, call: Starting, asked: ToolCall) -> Advance:
    wanted = _arguments(asked).get("task")
    if not isinstance(wanted, str):
        raise ToolError("missing 'task'", kind=ToolErrorKind.INVALID_ARGUMENTS)
    task = state.find_task(wanted) or _find_ended(state, wanted)
    if task is None:
        raise ToolError(f"{TASK_NOT_FOUND}: {wanted}")
    return answer(state, call, ToolResult.success(call.call.name, _view(task, whole=True)))


def _find_ended(state: RunState, name: str) -> Task | None:
    """The newest of those with this id or name."""
    return next((task for task in reversed(state.tasks) if name in (task.task_id, task.name)), None)


def _view(task: Task, *, whole: bool) -> JsonValue:
    shown = {"task_id", "name", "task_type", "agent_id", "description", "status", "error"}
    view: JsonValue = task.model_dump(mode="json", include=shown | {"result"} if whole else shown)
    return view


def _arguments(call: ToolCall) -> Mapping[str, JsonValue]:
    return call.arguments if isinstance(call.arguments, dict) else {}


def cancel_task(state: RunState, call: Starting, asked: ToolCall, *, now: int) -> Advance:
    """Cancel a task of this run with everything below it, or the run itself; the answer comes when it has stopped."""
    target = _arguments(asked).get("target")
    if not isinstance(target, dict):
        raise ToolError("missing 'target'", kind=ToolErrorKind.INVALID_ARGUMENTS)
    match target.get("relation"):
        case "self":
            return _cancel_self(state, call, now=now)
        case "child":
            name = target.get("name")
            if not isinstance(name, str):
                raise ToolError("child requires 'name'", kind=ToolErrorKind.INVALID_ARGUMENTS)
            return _cancel_child(state, call, name)
        case str(other):
            raise ToolError(f"unknown relation '{other}'", kind=ToolErrorKind.INVALID_ARGUMENTS)
        case _:
            raise ToolError("missing 'target.relation'", kind=ToolErrorKind.INVALID_ARGUMENTS)


def _cancel_self(state: RunState, call: Starting, *, now: int) -> Advance:
    """A delegate within a task cancels that task, which is above it, and ends without waiting for it."""
    running = _waiting(call, f"cancel-{call.call.id}", awaits="self")
    moved = move(state, running)
    task, identity = state.identity.task, state.identity
    if task is not None and not identity.is_task:
        reason = f"cancelled by {state.agent.agent_id}, which is a part of it"
        moved = replace(moved, commands=(CancelChild(running.id, task.thread_id, reason),))
    return moved.then(ending.cancel_self, call.call.id, now=now)


def _cancel_child(state: RunState, call: Starting, name: str) -> Advance:
    task = state.find_task(name)
    if task is None or task.thread_id is None:
        receipt: JsonValue = {
            "status": "failed",
            "root_task_id": name,
            "cancelled_count": 0,
            "error": TASK_NOT_FOUND,
        }
        return answer(state, call, ToolResult.success(call.call.name, receipt))
    running = _waiting(call, f"cancel-{call.call.id}", awaits=task.task_id)
    cancel = CancelChild(task.task_id, task.thread_id, f"cancelled by {state.agent.agent_id}")
    return replace(move(state, running), commands=(cancel,))


def cancel_receipt(task: Task, settled: Settled) -> JsonValue:
    """What `cancel_task` answers when the task has stopped; one that had ended by itself meanwhile was not found."""
    if settled.status is not TaskStatus.CANCELLED:
        return {"status": "failed", "root_task_id": task.task_id, "cancelled_count": 0, "error": TASK_NOT_FOUND}
    below = settled.receipt.cancelled if settled.receipt else ()
    return {"status": "accepted", "root_task_id": task.task_id, "cancelled_count": len(below) + 1}


def _waiting(call: Starting, id: str, *, awaits: str) -> RunningCall:
    grants = call.grants if isinstance(call, ResumingCall) else 0
    return RunningCall(call.call, id, grants=grants, awaits=awaits, by="runtime")


def ended(state: RunState, task: Task, settled: Settled, *, now: int) -> Advance:
    """The task with how it came out; the oldest of those that ended are forgotten."""
    after = task.model_copy(
        update={
            "status": settled.status,
            "result": _kept(settled.result),
            "error": _kept_error(settled.error),
            "completed_at_ms": now,
        }
    )
    others = [after if known.task_id == task.task_id else known for known in state.tasks]
    over = [known for known in others if known.status.is_terminal]
    forgotten = {known.task_id for known in over[: max(0, len(over) - KEPT_ENDED)]}
    kept = tuple(known for known in others if known.task_id not in forgotten)
    return Advance(replace(state, tasks=kept), events=(TaskChanged(task=after),))


def _kept(result: JsonValue) -> JsonValue:
    written = json.dumps(result, ensure_ascii=False)
    if len(written) <= KEPT_RESULT:
        return result
    return {"cut": written[:KEPT_RESULT] + "…", "note": "the whole result was in the task's event"}


def _kept_error(error: str | None) -> str | None:
    return error if error is None or len(error) <= KEPT_RESULT else error[:KEPT_RESULT] + "…"
