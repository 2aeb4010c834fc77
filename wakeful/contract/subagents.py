"""What passes between a run and the sub-agents and tasks it has started, besides letters."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.mail import DeadLetter, task_event_text
from wakeful.contract.messages import Message, Role, TextBlock, Visibility
from wakeful.contract.names import TOOL_DELEGATE
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import (
    BehaviorRequested,
    Blocked,
    Cancelled,
    CancelReceipt,
    NaturalEnd,
    RunIdentity,
    RunResult,
    Stopped,
    TaskRef,
    status_reason,
)
from wakeful.contract.tasks import Task, TaskStatus
from wakeful.contract.tools import ToolCallInput, ToolDescriptor, ToolResult, ToolStatus


class Family(Written):
    """Where a sub-agent stands: written by its parent into the request that starts it."""

    path: tuple[str, ...]
    """The threads from the root to the parent."""
    work_id: str
    """What the parent calls it: the child tells its end under this name."""
    task_id: Maybe[str] = None
    """It is this background task of its parent; a delegate is none."""
    name: Maybe[str] = None
    """What its parent calls the task."""
    within: Maybe[TaskRef] = None
    """Of a delegate: the background task that it is a part of."""
    allowance: Maybe[Budget] = None
    """What it may spend, on its parent's account, before it has to ask for more."""
    deadline: Maybe[int] = None
    """Milliseconds since 1970: when the wall time of the whole tree is spent."""


SETTLED_ID = "settled:"
"""How the id of the message begins that tells a task's end."""

WITHOUT_A_WORD = "it has ended without a word"
FAILED_SILENTLY = "it failed and could not say why"
TERMINATED = "it was terminated from outside"
TIMED_OUT = "it ran into a timeout from outside"
"""What is told of a child that did not tell its end itself."""

EndStatus = Literal[TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED]


class Settled(Wire):
    """What a child tells its owner when it has ended, under the name that the owner gave it."""

    work_id: str
    thread_id: str
    agent_id: Maybe[str] = None
    name: Maybe[str] = None
    """What the owner calls the task."""
    status: EndStatus
    result: Maybe[JsonValue] = None
    error: Maybe[str] = None
    run_id: Maybe[str] = None
    steps: int = 0
    spent: Spent = Spent()
    receipt: Maybe[CancelReceipt] = None


def settled_run(work_id: str, result: RunResult, *, name: str | None = None) -> Settled:
    """How a sub-agent's run came out, as its owner is told; an answer with a type of its own is there as data, too."""
    status, error = _outcome(result)
    data: dict[str, JsonValue] = {
        "agent_id": result.agent_id,
        "status": status.value if error is None else f"{status.value}: {error}",
        "response": result.response,
        "steps": result.steps,
    }
    if result.output is not None:
        data["output"] = {"raw": result.output}
    return Settled(
        work_id=work_id,
        thread_id=result.thread_id,
        agent_id=result.agent_id,
        name=name,
        status=status,
        result=data,
        error=error,
        run_id=result.run_id,
        steps=result.steps,
        spent=result.tree or Spent(),
        receipt=result.receipt,
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


def delegate_result(tool_name: str, settled: Settled, *, timed_out: bool = False) -> ToolResult:
    """What a model reads of the delegate it has called."""
    name = settled.agent_id or tool_name.removeprefix(TOOL_DELEGATE)
    if settled.status is TaskStatus.COMPLETED:
        result = ToolResult.success(tool_name, settled.result)
    elif timed_out:
        result = ToolResult.error(tool_name, f"delegation to {name} timed out")
    elif settled.status is TaskStatus.CANCELLED:
        result = ToolResult.error(tool_name, f"delegation to {name} cancelled")
    else:
        result = ToolResult.error(tool_name, f"delegation to {name} failed: {settled.error or 'it did not say why'}")
    if result.status is ToolStatus.ERROR:
        result = result.model_copy(update={"data": settled.result})
    metadata: dict[str, JsonValue] = {"child_thread_id": settled.thread_id}
    if settled.run_id is not None:
        metadata["child_run_id"] = settled.run_id
    return result.model_copy(update={"metadata": metadata})


def settled_message(settled: Settled) -> Message:
    """The one terminal event of a background task, as its owner's model reads it."""
    told: dict[str, JsonValue] = {}
    if settled.status is TaskStatus.COMPLETED:
        told["result"] = settled.result
    elif settled.status is TaskStatus.FAILED:
        told["error"] = settled.error or "it did not say why"
    text = task_event_text(settled.status.value, settled.work_id, name=settled.name, **told)
    return Message(
        # A task that was never started has no thread; its id is unique among the messages of its owner too.
        id=f"{SETTLED_ID}{settled.thread_id or settled.work_id}",
        role=Role.USER,
        content=(TextBlock(text=text),),
        visibility=Visibility.INTERNAL,
    )


class ToolTaskInput(Wire):
    """What the workflow of a background tool is started with."""

    owner_thread_id: str
    task_id: str
    tool: ToolDescriptor
    input: ToolCallInput


class Loan(Wire):
    """What the `lend` signal brings: a child has spent its allowance and asks for more."""

    work_id: str
    thread_id: str
    spent: Spent


class Grant(Wire):
    """What the `grant` signal brings: what a child may spend in all from now on, or that there is nothing more."""

    allowance: Maybe[Budget] = None
    refused: Maybe[str] = None
    """Which budget is spent."""


class Keeps(Wire):
    """What a thread keeps besides its conversation: a new execution of a closed thread goes on with it."""

    agent_id: Maybe[str] = None
    """Who answers by now, if it was handed over."""
    tasks: Few[tuple[Task, ...]] = ()
    spawned: int = 0
    letters: Few[tuple[DeadLetter, ...]] = ()
    mail: Few[tuple[Message, ...]] = ()
    """What came too late for its last run to read."""
    permissions: Few[tuple[Rule, ...]] = ()
    state: Few[dict[str, JsonValue]] = {}
    """What its agents keep for as long as the thread lives."""
    run_state: Few[dict[str, JsonValue]] = {}
    """Only for a fork, which goes on within a run: what its agents kept for this run."""
    run_permissions: Few[tuple[Rule, ...]] = ()
    """The same for permissions."""
    identity: Maybe[RunIdentity] = None
    """Whose it was; a sub-agent that is woken still knows its parent."""
    events: Few[int] = 0
    """How many events the thread has had: the next one goes on from there."""


def _is_true(value: bool) -> bool:
    return value


class DeliverInput(Wire):
    """What the activity is given that reaches a thread whether it is awake or not."""

    thread_id: str
    signal: str
    payload: JsonValue
    agent_id: Maybe[str] = None
    """Who is to answer, if the thread is new."""
    wake: Annotated[bool, Field(exclude_if=_is_true)] = True
    """Bring it also to a thread that sleeps."""
