"""Run the calls of a step: start each in its mode, and finish, suspend, block or lose it."""

from typing import assert_never

from pydantic import JsonValue

from wakeful.contract import ids
from wakeful.contract.agents import ToolMode
from wakeful.contract.applied_decisions import AppliedDecision, DecisionChannel
from wakeful.contract.base import replace
from wakeful.contract.decisions import DecisionAction, ResumeMode
from wakeful.contract.errors import ToolError
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.hooks import Phase
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.runs import Blocked, Suspended
from wakeful.contract.tools import RuntimeKind, RuntimeTool, ToolDescriptor, ToolResult, ToolStatus
from wakeful.loop.calls import gates
from wakeful.loop.calls.batch import (
    Batch,
    NewCall,
    ResumingCall,
    RunningCall,
    Startable,
    finished,
)
from wakeful.loop.calls.commit import (
    apply_effects_in_order,
    batch_of,
    commit,
    finish_blocked,
    finish_call,
    finish_failed,
    finish_with,
    move,
    record_decision,
    running_call,
)
from wakeful.loop.calls.suspension import frontend_result, suspend
from wakeful.loop.machine.commands import CallTool
from wakeful.loop.machine.events import emit_state, end_step, record_fork_point, run_pause
from wakeful.loop.machine.facts import ToolReturned, WorkFact
from wakeful.loop.machine.stages import AwaitingDecisions, CallingTools, Inferring
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.step.hooks import apply_effects
from wakeful.loop.step.model_notes import append_notes, unexecuted_call_notes
from wakeful.loop.step.steps import next_step, request_handoff
from wakeful.loop.subagents import ledger, mail, start, tasks, tree
from wakeful.loop.thread import cancelling

TOOL_HOOKS = (Phase.TOOL_GATE, Phase.BEFORE_TOOL_EXECUTE, Phase.AFTER_TOOL_EXECUTE)


def start_batch(thread: Thread, inferring: Inferring, response: ModelResponse, *, now: int) -> Advance:
    """Start the calls of an answer."""
    calls = tuple(NewCall(call) for call in response.tool_calls)
    source = None if inferring.lineage else inferring.id
    batch = Batch(inference_id=source, message_id=inferring.message_id, response=response, calls=calls)
    return continue_batch(thread.entering(CallingTools(batch)), now=now)


def continue_batch(thread: Thread, *, now: int) -> Advance:
    """Start what may start now; when nothing is running any more, pause for decisions or end the round."""
    moved = apply_effects_in_order(thread)
    while (call := _next_to_start(moved.thread)) is not None:
        moved = moved.then(_start, call, now=now)
        if not isinstance(moved.thread.stage, CallingTools):
            return moved  # a gate ended the run
        moved = moved.then(apply_effects_in_order)
    batch = batch_of(moved.thread)
    if batch.running or batch.startable:
        return moved.then(tree.ask_parent) if batch.startable else moved
    if batch.suspended:
        return moved.then(_pause)
    committed = moved.then(commit).then(end_step)
    if batch.response.has_unexecuted_calls:
        committed = committed.then(append_notes, *unexecuted_call_notes(batch.response))
    return committed.then(record_fork_point).then(next_step, now=now)


def on_tool_returned(thread: Thread, fact: ToolReturned, *, now: int) -> Advance:
    """A tool returned its result or suspended, or a gate blocked the call just before it ran."""
    call, outcome = running_call(thread, fact.id), fact.outcome
    if outcome.handoff is not None:
        thread = replace(thread, requested_agent=outcome.handoff)
    if outcome.blocked is not None:
        stopped = finish_blocked(thread, call, outcome.blocked, outcome.result, outcome.effects)
        return stopped.then(cancelling.block, Blocked(value=outcome.blocked, rule=outcome.rule), now=now)
    if outcome.result.status is ToolStatus.PENDING:
        # At once: the effects of the calls after it would otherwise have to wait for the decision.
        requested = apply_effects(thread, outcome.effects, source=call.call.id)
        suspended = requested.then(suspend, call, outcome.result, now=now, gated=outcome.gated)
        return suspended.then(continue_batch, now=now)
    after = replace(finished(call, outcome.result), effects=outcome.effects)
    return finish_with(thread, call, after).then(continue_batch, now=now)


def on_message_sent(thread: Thread, call: RunningCall, fact: WorkFact, *, now: int) -> Advance:
    """A message to another agent was delivered, or could not be."""
    return mail.on_message_sent(thread, call, fact, now=now).then(continue_batch, now=now)


def on_tool_failed(thread: Thread, id: str, error: str, *, is_result: bool, now: int) -> Advance:
    """The call's activity failed and does not run again."""
    return finish_failed(thread, running_call(thread, id), error, is_result=is_result).then(continue_batch, now=now)


def call_command(thread: Thread, call: RunningCall) -> CallTool:
    """The command that executes a call."""
    tool, rules, agent = thread.tool(call.call.name), thread.rules, thread.agent
    assert tool is not None  # only a known tool runs
    has_hooks = agent.has_hooks(*TOOL_HOOKS)
    is_judged = bool(agent.gates or agent.permissions or rules or has_hooks or agent.state_keys)
    return CallTool(
        id=call.id,
        tool=tool,
        call=_as_executed(call),
        resume=call.resume,
        ticket=call.ticket,
        agent=agent if is_judged else None,
        permissions=rules,
        questions=thread.questions,
        state=thread.agent_state.view if agent.state_keys or has_hooks else None,
        step=thread.current.step.number if has_hooks else 0,
        live=thread.current.settings.live,
        metadata=thread.current.metadata,
    )


def _next_to_start(thread: Thread) -> Startable | None:
    batch = batch_of(thread)
    if _is_sequential(thread):
        if batch.running:
            return None
        first = next(iter(batch.startable), None)
        return first if first is not None and not _has_to_queue(thread, first) else None
    if len(batch.running) >= thread.agent.max_parallel_calls:
        return None
    resuming = next((call for call in batch.resuming if not _has_to_queue(thread, call)), None)
    if resuming is not None:
        return resuming
    free = (new for new in batch.new if not _has_to_queue(thread, new))
    return gates.first_to_start(thread, free) if batch.response.verdicts else next(free, None)


def _has_to_queue(thread: Thread, call: Startable) -> bool:
    """Messages are sent one after another, so that they arrive in order.

    A call that addresses a task waits until every task that the step has started has its thread id. A call that starts
    a sub-agent waits until the parent has granted it.
    """
    tool = thread.tool(call.call.name)
    kind = tool.runtime.kind if tool is not None and tool.runtime is not None else None
    if kind is RuntimeKind.SEND_MESSAGE and any(other.message is not None for other in batch_of(thread).running):
        return True
    if kind in tree.STARTS_CHILDREN and tree.has_to_wait(thread):
        return True
    addresses_task = kind in (RuntimeKind.SEND_MESSAGE, RuntimeKind.CANCEL_TASK)
    return addresses_task and any(task.thread_id is None for task in thread.children.running)


def _is_sequential(thread: Thread) -> bool:
    return thread.agent.tool_mode is ToolMode.SEQUENTIAL


def _start(thread: Thread, call: Startable, *, now: int) -> Advance:
    if isinstance(call, ResumingCall):
        return _start_again(thread, call, now=now)
    if _is_sequential(thread) and any(not suspended.gated for suspended in batch_of(thread).suspended):
        return finish_call(thread, call, ToolResult.error(call.call.name, TOOL_INTERRUPTED))
    tool = thread.tool(call.call.name)
    if tool is None:
        return finish_call(thread, call, ToolResult.error(call.call.name, f"tool '{call.call.name}' not found"))
    run = thread.current
    if ledger.calls_left(run) == 0:
        refused = thread.with_step(replace(run.step, refused_calls=True))
        reason = "the call was not executed: the run's budget of tool calls is spent"
        return finish_call(refused, call, ToolResult.error(call.call.name, reason))
    thread = thread.with_budget(replace(run.budget, tool_calls=run.budget.tool_calls + 1))
    if batch_of(thread).response.verdicts and (verdict := gates.final_verdict(thread, call)) is not None:
        return _apply_verdict(thread, call, verdict, now=now)
    thread, rule = gates.standing_rule(thread, call.call, now=now) if thread.permissions else (thread, None)
    if rule is not None:
        by_rule = AppliedDecision(action=DecisionAction.RESUME, at=now, channel=DecisionChannel.RULE, rule=rule)
        allowed = record_decision(thread, call.call, by_rule)
        return allowed.then(_start_allowed, call, tool, now=now)
    return _start_allowed(thread, call, tool, now=now)


def _start_allowed(thread: Thread, call: NewCall, tool: ToolDescriptor, *, now: int) -> Advance:
    if tool.frontend:
        return suspend(thread, call, frontend_result(tool, call.call), now=now)
    if _is_performed_here(tool):
        return _perform(thread, call, call.call, tool, now=now)
    return _execute(thread, RunningCall(call.call, id=ids.work_id(ids.CallTool(call.call.id))))


def _start_again(thread: Thread, call: ResumingCall, *, now: int) -> Advance:
    """Run a call that a decision resumed. A frontend tool that a gate had suspended now waits for the front end."""
    tool, executed = thread.tool(call.call.name), _as_executed(call)
    thread, denial = gates.denial_of_resumed(thread, call, executed, now=now)
    if denial is not None:
        return _block(thread, call, denial, now=now)
    if tool is not None and tool.frontend:
        return suspend(thread, call, frontend_result(tool, executed), now=now)
    if tool is not None and _is_performed_here(tool):
        return _perform(thread, call, executed, tool, now=now)
    id = ids.work_id(ids.CallTool(call.call.id, call.resumes + 1))
    running = RunningCall(
        call.call, id, resumes=call.resumes, resume=call.resume, ticket=call.ticket, edited=call.edited
    )
    return _execute(thread, running)


def _execute(thread: Thread, call: RunningCall) -> Advance:
    return replace(move(thread, call), commands=(call_command(thread, call),))


def _as_executed(call: RunningCall | ResumingCall) -> ToolCall:
    """The call with the arguments that its tool is given; the transcript keeps the model's."""
    arguments: JsonValue = call.edited
    if call.resume and call.ticket and call.ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL:
        arguments = call.resume.result
    elif call.edited is None:
        return call.call.for_tool
    return ToolCall(id=call.call.id, name=call.call.name, arguments=arguments)


def _apply_verdict(thread: Thread, new: NewCall, verdict: Verdict, *, now: int) -> Advance:
    """Do what a gate says instead of running the call."""
    name = new.call.name
    match verdict:
        case Block() as block:
            return _block(thread, new, block, now=now)
        case Suspend(ticket=ticket):
            return suspend(thread, new, ToolResult.suspended(name, ticket), now=now, gated=True)
        case SetResult(result=result) if result.status is ToolStatus.PENDING:
            return suspend(thread, new, result, now=now, gated=True)
        case SetResult(result=result):
            return finish_call(thread, new, result)
        case _:
            assert_never(verdict)


def _block(thread: Thread, call: Startable, block: Block, *, now: int) -> Advance:
    stopped = finish_blocked(thread, call, block.reason, block.result)
    return stopped.then(cancelling.block, Blocked(value=block.reason, rule=block.rule), now=now)


def _is_performed_here(tool: ToolDescriptor) -> bool:
    """Whether a call of the tool has no activity in this workflow."""
    return tool.runtime is not None or tool.background


def _perform(thread: Thread, call: Startable, executed: ToolCall, tool: ToolDescriptor, *, now: int) -> Advance:
    """Perform a call of a runtime tool or a background tool; `executed` has the arguments to use."""
    try:
        if tool.runtime is None:
            return tasks.start_background_tool(thread, call, executed, tool, now=now)
        return _perform_runtime_tool(thread, call, executed, tool.runtime, now=now)
    except ToolError as error:
        return finish_call(thread, call, ToolResult.error(call.call.name, str(error)))


def _perform_runtime_tool(
    thread: Thread, call: Startable, executed: ToolCall, tool: RuntimeTool, *, now: int
) -> Advance:
    match tool.kind:
        case RuntimeKind.DELEGATE:
            return start.delegate(thread, call, executed, tool, now=now)
        case RuntimeKind.SPAWN:
            return tasks.spawn(thread, call, executed, tool, now=now)
        case RuntimeKind.CANCEL_TASK:
            return tasks.cancel_task(thread, call, executed, now=now)
        case RuntimeKind.LIST_TASKS:
            return tasks.list_tasks(thread, call)
        case RuntimeKind.TASK_RESULT:
            return tasks.task_result(thread, call, executed)
        case RuntimeKind.SEND_MESSAGE:
            return mail.send_message(thread, call, executed, tool)
        case RuntimeKind.RECOVER_MESSAGES:
            return mail.recover_messages(thread, call, executed)
        case RuntimeKind.HANDOFF:
            return request_handoff(thread, call, tool)
        case _:
            assert_never(tool.kind)


def _pause(thread: Thread) -> Advance:
    moved = end_step(thread).then(emit_state)  # a step that pauses a second time has ended before
    waiting = moved.thread.entering(AwaitingDecisions(batch_of(thread)))
    return replace(moved, thread=waiting).emitting(run_pause(waiting, Suspended()))
