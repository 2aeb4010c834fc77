"""Start sub-agents: delegates, which a tool call waits for, and those that run as background tasks."""

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.errors import InvalidValue, ToolError, ToolErrorKind
from wakeful.contract.events import ActivitySnapshot, ChildStarted
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import TOOL_DELEGATE
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Adapter, Origin, RunMode
from wakeful.contract.subagents import SubagentContext
from wakeful.contract.tool_progress import ProgressStatus, progress_snapshot
from wakeful.contract.tools import RuntimeTool
from wakeful.loop.calls.batch import ResumingCall, RunningCall, Startable
from wakeful.loop.calls.commit import move
from wakeful.loop.machine import revisions
from wakeful.loop.machine.commands import CancelChild, Command, StartChild
from wakeful.loop.machine.stages import Cancelling, Done
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.subagents import ledger, tree


def prompt_of(call: ToolCall) -> str:
    """The prompt for the sub-agent.

    Raises:
        ToolError: there is none.
    """
    prompt = call.arguments.get("prompt") if isinstance(call.arguments, dict) else None
    if not isinstance(prompt, str):
        raise ToolError('missing required field "prompt"', kind=ToolErrorKind.INVALID_ARGUMENTS)
    if not prompt.strip():
        raise ToolError("prompt must not be empty", kind=ToolErrorKind.INVALID_ARGUMENTS)
    return prompt.strip()


def delegate(thread: Thread, call: Startable, executed: ToolCall, tool: RuntimeTool, *, now: int) -> Advance:
    """Start the sub-agent that a call waits for."""
    agent_id = tool.agent_id or ""
    resumes = call.resumes if isinstance(call, ResumingCall) else 0
    work_id = ids.work_id(ids.Delegate(call.call.id, resumes + 1))
    started = start_subagent(thread, work_id, agent_id, prompt_of(executed), call_id=call.call.id)
    running = RunningCall(
        call.call,
        work_id,
        resumes=resumes,
        by="subagent",
        expires_at=now + round(thread.agent.delegate_timeout_seconds * 1000),
    )
    shown = progress(thread, call.call, "running", f"delegating to {agent_id}")
    return started.then(move, running, shown)


def start_subagent(
    thread: Thread,
    work_id: str,
    agent_id: str,
    prompt: str,
    *,
    call_id: str,
    task_id: str | None = None,
    task_name: str | None = None,
) -> Advance:
    """Start a sub-agent with one message and nothing else of its parent's conversation.

    Raises:
        ToolError: the tree is too deep or has too many agents, or the prompt is too long.
    """
    identity, limit, run = thread.identity, thread.agent.max_depth, thread.current
    path = (*identity.path, identity.thread_id)
    if len(path) > limit:
        raise ToolError(f"no sub-agent was started: a tree may have at most {limit} levels of them (max_depth)")
    if (problem := tree.problem(thread)) is not None:
        raise ToolError(f"no sub-agent was started: {problem}")
    allowance = ledger.share(run, among=max(1, tree.about_to_start(thread)))
    context = SubagentContext(
        path=path,
        work_id=work_id,
        task_id=task_id,
        name=task_name,
        within=None if task_id else identity.task,
        allowance=allowance,
        deadline=run.budget.deadline,
    )
    try:
        request = RunRequest(
            agent_id=agent_id,
            input=prompt,
            parent_thread_id=identity.thread_id,
            parent_run_id=identity.run_id,
            parent_tool_call_id=call_id,
            session_id=identity.session_id,
            tenant=identity.tenant,
            user=identity.user,
            metadata=dict(run.metadata),
            priority=thread.own_priority,
            origin=Origin.SUBAGENT,
            # What gates forbid in a scheduled run, its sub-agents must not do either.
            run_mode=None if identity.run_mode is RunMode.FOREGROUND else identity.run_mode,
            adapter=None if identity.adapter is Adapter.INTERNAL else identity.adapter,
            permissions=thread.passed_on,
            subagent=context,
            live=run.settings.live,
        )
    except InvalidValue as error:
        raise ToolError(f"no sub-agent was started: {error.fields[0]}") from error
    reserving = thread.with_budget(ledger.reserve(run.budget, work_id, allowance))
    # A codec encrypts what a model writes, but not ids: a task's name must not be in one.
    name = task_name if run.revision < revisions.TASK_NAMES_ARE_CONTENT else None
    command = StartChild(work_id, request, name or agent_id, counted=tree.is_counted(thread))
    return Advance(tree.counting_start(reserving), (command,))


def assign_thread_id(thread: Thread, work_id: str, thread_id: str) -> Advance:
    """Record the thread id of a sub-agent or task that is being started.

    A run that is being cancelled has cancelled the work before it had a thread, and has to cancel the thread, too.
    """
    commands: tuple[Command, ...] = ()
    if isinstance(thread.stage, Cancelling) and work_id in thread.in_flight:
        commands = (CancelChild(work_id, thread_id, thread.stage.reason),)
    tasks = tuple(
        task.model_copy(update={"thread_id": thread_id}) if task.task_id == work_id else task
        for task in thread.children.tasks
    )
    thread = replace(thread, children=replace(thread.children, tasks=tasks))
    for call in thread.batch.running if thread.batch else ():
        if call.id == work_id:
            thread = move(thread, replace(call, child_thread_id=thread_id)).thread
    return Advance(thread, commands, _child_started(thread, work_id, thread_id))


def _child_started(thread: Thread, work_id: str, thread_id: str) -> tuple[ChildStarted, ...]:
    """The event for watchers; none after the run's end, and none for work that nothing waits for any more."""
    if isinstance(thread.stage, Done):
        return ()
    for call in thread.batch.running if thread.batch else ():
        if call.id == work_id:
            agent_id = _delegate_of(thread, call.call.name)
            return (ChildStarted(work_id=work_id, thread_id=thread_id, call_id=call.call.id, agent_id=agent_id),)
    for task in thread.children.running:
        if task.task_id == work_id:
            return (ChildStarted(work_id=work_id, thread_id=thread_id, agent_id=task.agent_id),)
    return ()


def _delegate_of(thread: Thread, tool_name: str) -> str:
    """The agent that a tool calls: its name may spell the id differently."""
    tool = thread.tool(tool_name)
    named = tool.runtime.agent_id if tool is not None and tool.runtime is not None else None
    return named or tool_name.removeprefix(TOOL_DELEGATE)


def progress(thread: Thread, call: ToolCall, status: ProgressStatus, message: str) -> ActivitySnapshot:
    """What watchers see of a call that waits for its sub-agent."""
    identity = thread.identity
    return progress_snapshot(
        call.id,
        call.name,
        status,
        {"message": message},
        thread_id=identity.thread_id,
        run_id=identity.run_id,
        parent_call_id=identity.parent_tool_call_id,
        parent_run_id=identity.parent_run_id,
    )
