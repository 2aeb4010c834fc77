"""Start sub-agents: as a call that waits for them (delegates), or as background tasks."""

from pydantic import JsonValue, ValidationError

from wakeful.contract.errors import ToolError, ToolErrorKind
from wakeful.contract.events import ActivitySnapshot, ChildStarted
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import TOOL_DELEGATE
from wakeful.contract.permissions import Behavior
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Origin
from wakeful.contract.subagents import Family
from wakeful.contract.tools import RuntimeKind, RuntimeTool
from wakeful.loop.calls.batch import NewCall, ResumingCall, RunningCall
from wakeful.loop.calls.commit import batch_of, move
from wakeful.loop.machine.commands import CancelChild, Command, StartChild
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import Cancelling, Done
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.subagents import ledger

STARTS_CHILDREN = (RuntimeKind.DELEGATE, RuntimeKind.SPAWN)
PROGRESS = "tool-call-progress"

STARTED_SINCE_REVISION = 4
"""An older run has numbered its events without these."""


def prompt_of(call: ToolCall) -> str:
    """What the sub-agent is asked.

    Raises:
        ToolError: there is nothing to ask.
    """
    prompt = call.arguments.get("prompt") if isinstance(call.arguments, dict) else None
    if not isinstance(prompt, str):
        raise ToolError('missing required field "prompt"', kind=ToolErrorKind.INVALID_ARGUMENTS)
    if not prompt.strip():
        raise ToolError("prompt must not be empty", kind=ToolErrorKind.INVALID_ARGUMENTS)
    return prompt.strip()


def delegate(state: RunState, call: NewCall | ResumingCall, asked: ToolCall, tool: RuntimeTool, *, now: int) -> Advance:
    """Start the sub-agent that a call waits for."""
    agent_id = tool.agent_id or ""
    grants = call.grants if isinstance(call, ResumingCall) else 0
    work_id = f"child-{call.call.id}" if not grants else f"child.{grants + 1}-{call.call.id}"
    started = start(state, work_id, agent_id, prompt_of(asked), call_id=call.call.id)
    running = RunningCall(
        call.call,
        work_id,
        grants=grants,
        by="sub_agent",
        expires_at=now + round(state.agent.delegate_timeout_seconds * 1000),
    )
    return started.then(move, running, progress(call.call, "running", f"delegating to {agent_id}"))


def start(
    state: RunState,
    work_id: str,
    agent_id: str,
    prompt: str,
    *,
    call_id: str,
    task_id: str | None = None,
    task_name: str | None = None,
) -> Advance:
    """Start a sub-agent with one message and nothing else of its parent's; it is told where it stands.

    Raises:
        ToolError: there are too many levels of sub-agents already, or the message is too long.
    """
    identity, limit = state.identity, state.agent.max_depth
    path = (*identity.path, identity.thread_id)
    if len(path) > limit:
        raise ToolError(f"no sub-agent was started: {limit} levels of them are the limit (max_depth)")
    allowance = ledger.share(state, among=_about_to_start(state))
    family = Family(
        path=path,
        work_id=work_id,
        task_id=task_id,
        name=task_name,
        within=None if task_id else identity.task,
        allowance=allowance,
        deadline=state.deadline,
    )
    try:
        request = RunRequest(
            agent_id=agent_id,
            input=prompt,
            parent_thread_id=identity.thread_id,
            parent_run_id=identity.run_id,
            parent_tool_call_id=call_id,
            session_id=identity.session_id,
            origin=Origin.SUBAGENT,
            permissions=tuple(rule for rule in state.run_permissions if rule.behavior is Behavior.DENY),
            family=family,
        )
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise ToolError(f"no sub-agent was started: {wrong}") from error
    lending = state if allowance is None else ledger.lending(state, work_id, allowance)
    return Advance(lending, (StartChild(work_id, request, task_name or agent_id),))


def _about_to_start(state: RunState) -> int:
    """How many calls of the step start a sub-agent and have not done so, this one included."""
    batch = batch_of(state)
    names = [*(new.call.name for new in batch.new), *(call.call.name for call in batch.resuming)]
    tools = [state.tool(name) for name in names]
    kinds = [tool.runtime.kind for tool in tools if tool is not None and tool.runtime is not None]
    return max(1, sum(kind in STARTS_CHILDREN for kind in kinds))


def named(state: RunState, work_id: str, thread_id: str) -> Advance:
    """The state that knows the thread of the sub-agent or task that is being started.

    A run that is being stopped has told its work to stop before that had a name, and has to say it again.
    """
    commands: tuple[Command, ...] = ()
    if isinstance(state.stage, Cancelling) and work_id in state.in_flight:
        commands = (CancelChild(work_id, thread_id, state.stage.reason),)
    tasks = tuple(
        task.model_copy(update={"thread_id": thread_id}) if task.task_id == work_id else task for task in state.tasks
    )
    state = replace(state, tasks=tasks)
    for call in state.batch.running if state.batch else ():
        if call.id == work_id:
            state = move(state, replace(call, child=thread_id)).state
    return Advance(state, commands, _started(state, work_id, thread_id))


def _started(state: RunState, work_id: str, thread_id: str) -> tuple[ChildStarted, ...]:
    """What watchers are told; nothing after the end, and nothing of work that nobody waits for any more."""
    if state.revision < STARTED_SINCE_REVISION or isinstance(state.stage, Done):
        return ()
    started = ChildStarted(work_id=work_id, thread_id=thread_id)
    for call in state.batch.running if state.batch else ():
        if call.id == work_id:
            agent_id = call.call.name.removeprefix(TOOL_DELEGATE)
            return (started.model_copy(update={"call_id": call.call.id, "agent_id": agent_id}),)
    for task in state.running_tasks:
        if task.task_id == work_id:
            return (started.model_copy(update={"agent_id": task.agent_id}),)
    return ()


def progress(call: ToolCall, status: str, message: str) -> ActivitySnapshot:
    """What watchers see of a call that waits for its sub-agent."""
    content: JsonValue = {"call_id": call.id, "tool_name": call.name, "status": status, "message": message}
    return ActivitySnapshot(message_id=call.id, activity_type=PROGRESS, content=content, replace=True)
