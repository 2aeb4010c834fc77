"""What a run exchanges with its sub-agents and background tasks, besides mail: contexts, results and budgets."""

from typing import Literal

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.files import FileRef
from wakeful.contract.ids import child_message_id
from wakeful.contract.mail import task_event_text, written_by_wakeful
from wakeful.contract.messages import MediaBlock, Message
from wakeful.contract.names import TOOL_DELEGATE
from wakeful.contract.runs import (
    BehaviorRequested,
    Blocked,
    Cancelled,
    CancelReceipt,
    NaturalEnd,
    RunResult,
    Stopped,
    TaskRef,
    status_reason,
)
from wakeful.contract.tasks import TaskStatus
from wakeful.contract.tools import ToolCallInput, ToolDescriptor, ToolResult


class SubagentContext(Written):
    """The part of a start request that a parent adds for its sub-agent."""

    path: tuple[str, ...]
    """The threads from the root to the parent."""
    work_id: str
    """The parent's id for it, which it reports its end under."""
    task_id: Maybe[str] = None
    """The background task of the parent that it is; absent of a delegate."""
    name: Maybe[str] = None
    """The parent's name for the task."""
    within: Maybe[TaskRef] = None
    """Of a delegate: the background task that it belongs to."""
    allowance: Maybe[Budget] = None
    """What it may spend on its parent's account before it has to ask for more."""
    deadline: Maybe[int] = None
    """Milliseconds since 1970 at which the wall time of the whole tree is spent."""
    counted: Few[bool] = False
    """The parent counts the agents of its tree, and is asked before the sub-agent starts one. The workflow's memo says
    it, and never a request: an older worker would refuse that."""


CLOSED_SILENTLY = "it closed without reporting a result"
FAILED_SILENTLY = "it failed without reporting why"
TERMINATED = "it was terminated"
TIMED_OUT = "it exceeded its workflow timeout"
CANCELLED_BEFORE_START = "it was cancelled before it started"
"""Reported in place of a child that closed without signalling its parent."""

EndStatus = Literal[TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED]


class ChildResult(Wire):
    """What the `child_settled` signal brings: how a sub-agent or a background task ended."""

    work_id: str
    thread_id: str
    agent_id: Maybe[str] = None
    name: Maybe[str] = None
    """The owner's name for the task."""
    status: EndStatus
    result: Maybe[JsonValue] = None
    error: Maybe[str] = None
    run_id: Maybe[str] = None
    steps: int = 0
    spent: Spent = Spent()
    receipt: Maybe[CancelReceipt] = None
    media: Few[tuple[MediaBlock, ...]] = ()
    """The files of its answer, such as those of a remote agent, or of a background tool's result."""
    files: Few[tuple[FileRef, ...]] = ()
    """Where those are that its tools and those of its sub-agents returned."""


_READ_OF_FILES = {"type", "media_type", "title", "tool"}
"""What the model of the caller reads of the files of a sub-agent's tools. Ids would be of no use to it."""


def child_result(work_id: str, result: RunResult, *, name: str | None = None) -> ChildResult:
    """How a sub-agent's run ended, as reported to its parent; a typed answer is included as data."""
    status, error = _outcome(result)
    data: dict[str, JsonValue] = {
        "agent_id": result.agent_id,
        "status": status.value if error is None else f"{status.value}: {error}",
        "response": result.response,
        "steps": result.steps,
    }
    if result.output is not None:
        data["output"] = {"raw": result.output}
    is_completed = status is TaskStatus.COMPLETED
    files = result.tool_files if is_completed else ()
    if files:
        data["files"] = [file.model_dump(mode="json", include=_READ_OF_FILES) for file in files]
    return ChildResult(
        work_id=work_id,
        thread_id=result.thread_id,
        agent_id=result.agent_id,
        name=name,
        status=status,
        result=data,
        error=error,
        run_id=result.run_id,
        steps=result.steps,
        spent=result.spent or Spent(),
        receipt=result.receipt,
        media=result.artifacts if is_completed else (),
        files=files,
    )


def _outcome(result: RunResult) -> tuple[EndStatus, str | None]:
    match result.termination:
        case NaturalEnd() | BehaviorRequested():
            return TaskStatus.COMPLETED, None
        case Cancelled():
            return TaskStatus.CANCELLED, None
        case Stopped(value=value):
            detail = f" ({value.detail})" if value.detail else ""
            return TaskStatus.FAILED, f"stopped: {value.code}{detail}"
        case Blocked(value=reason):
            return TaskStatus.FAILED, f"blocked: {reason}"
        case other:
            return TaskStatus.FAILED, status_reason(other).removeprefix("error:")


def delegate_result(tool_name: str, child: ChildResult, *, timed_out: bool = False) -> ToolResult:
    """The result of calling a delegate. Its data has the answer as `output.text`, too; the model reads it once."""
    name = child.agent_id or tool_name.removeprefix(TOOL_DELEGATE)
    if child.status is TaskStatus.COMPLETED:
        read = ToolResult.success(tool_name, child.result).text
        result = ToolResult.success(tool_name, child.result, message=read)
    elif timed_out:
        result = ToolResult.error(tool_name, f"delegation to {name} timed out")
    elif child.status is TaskStatus.CANCELLED:
        result = ToolResult.error(tool_name, f"delegation to {name} cancelled")
    else:
        result = ToolResult.error(tool_name, f"delegation to {name} failed: {child.error or 'no reason was reported'}")
    metadata: dict[str, JsonValue] = {"child_thread_id": child.thread_id}
    if child.run_id is not None:
        metadata["child_run_id"] = child.run_id
    data = _with_text(child.result)
    return result.model_copy(update={"data": data, "metadata": metadata, "media": () if timed_out else child.media})


def _with_text(result: JsonValue) -> JsonValue:
    """What a sub-agent reported, with its answer as the text of its output, beside typed output as `raw`."""
    if not isinstance(result, dict) or "response" not in result:
        return result
    output = result.get("output")
    return {**result, "output": {"text": result["response"], **(output if isinstance(output, dict) else {})}}


def child_result_message(child: ChildResult) -> Message:
    """The one terminal event of a background task, as its owner's model reads it."""
    details: dict[str, JsonValue] = {}
    if child.status is TaskStatus.COMPLETED:
        details["result"] = child.result
    elif child.status is TaskStatus.FAILED:
        details["error"] = child.error or "no reason was reported"
    text = task_event_text(child.status.value, child.work_id, name=child.name, **details)
    # A task that was never started has no thread; its work id is unique among its owner's messages, too.
    message = written_by_wakeful(child_message_id(child.thread_id or child.work_id), text)
    return message.model_copy(update={"content": (*message.content, *child.media)}) if child.media else message


class ToolTaskInput(Wire):
    """What the workflow of a background tool is started with."""

    owner_thread_id: str
    task_id: str
    tool: ToolDescriptor
    input: ToolCallInput


class BudgetRequest(Wire):
    """What the `budget_request` signal brings: a child has spent its allowance, or wants to start agents."""

    work_id: str
    thread_id: str
    spent: Spent
    agents: Few[int] = 0
    """How many agents it wants to start; if any, it asks for nothing else."""


class BudgetGrant(Wire):
    """What the `budget_grant` signal brings: the child's new total allowance, or that there is no more."""

    allowance: Maybe[Budget] = None
    refused: Maybe[str] = None
    """Which budget is spent; of agents, why it may not start as many as it wanted."""
    agents: Maybe[int] = None
    """How many agents it may start now; None if it asked for something else."""


class Ancestors(Wire):
    """What `find_stopping_ancestor` is given: the threads above one that is about to start a sub-agent."""

    thread_ids: tuple[str, ...]


class StoppingAncestor(Wire):
    """What it finds: the highest of them that stops its descendants; None if none does."""

    thread_id: Maybe[str] = None
