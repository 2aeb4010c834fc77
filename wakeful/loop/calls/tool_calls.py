"""The calls of one step: start them in their mode, and settle, suspend, block or lose each one."""

from typing import assert_never

from pydantic import JsonValue

from wakeful.contract.agents import ToolMode
from wakeful.contract.decisions import ResumeMode
from wakeful.contract.errors import ToolError
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.hooks import Phase
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import TOOL_INTERRUPTED
from wakeful.contract.runs import Suspended
from wakeful.contract.tools import RuntimeKind, RuntimeTool, ToolDescriptor, ToolResult, ToolStatus
from wakeful.loop.calls import gates
from wakeful.loop.calls.batch import Batch, NewCall, ResumingCall, RunningCall
from wakeful.loop.calls.commit import (
    answer,
    batch_of,
    blocked,
    commit,
    done,
    ended,
    fold_in_order,
    move,
    running_call,
    settle_lost,
    settled,
)
from wakeful.loop.calls.suspension import frontend_result, suspend
from wakeful.loop.machine.commands import CallTool
from wakeful.loop.machine.events import end_step, leave_point, run_finish, shown
from wakeful.loop.machine.facts import ToolReturned, WorkFact
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import AwaitingDecisions, CallingTools, Inferring
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.step import handoff
from wakeful.loop.step.hooks import fold
from wakeful.loop.step.model_notes import noting, on_calls
from wakeful.loop.step.steps import next_step
from wakeful.loop.subagents import ledger, mail, start, tasks
from wakeful.loop.thread import ending


def begin_batch(state: RunState, inferring: Inferring, response: ModelResponse, *, now: int) -> Advance:
    calls = tuple(NewCall(call) for call in response.tool_calls)
    batch = Batch(inference_id=inferring.id, message_id=inferring.message_id, response=response, calls=calls)
    return Advance(state.entering(CallingTools(batch))).then(go_on, now=now)


def go_on(state: RunState, *, now: int) -> Advance:
    """Start what may start now; when nothing runs any more, pause for decisions or end the round."""
    moved = fold_in_order(state)
    while (call := _next_to_start(moved.state)) is not None:
        moved = moved.then(_start, call, now=now)
        if not isinstance(moved.state.stage, CallingTools):
            return moved  # a gate ended the run
        moved = moved.then(fold_in_order)
    batch = batch_of(moved.state)
    if batch.running or batch.waiting:
        return moved
    if batch.suspended:
        return moved.then(_pause)
    told = moved.then(commit).then(_note_what_was_not_called, batch.response).then(leave_point)
    return told.then(end_step).then(next_step, now=now)


def _note_what_was_not_called(state: RunState, response: ModelResponse) -> Advance:
    return Advance(noting(state, *on_calls(response)) if state.revision >= 2 else state)


def returned(state: RunState, fact: ToolReturned, *, now: int) -> Advance:
    """A tool gave its result or asked to be suspended, or a gate spoke just before it ran."""
    call, outcome = running_call(state, fact.id), fact.outcome
    if outcome.handoff is not None:
        state = replace(state, requested_agent=outcome.handoff)
    if outcome.blocked is not None:
        stopped = move(state, *blocked(call, outcome.blocked, outcome.effects))
        return stopped.then(ending.block, outcome.blocked, now=now)
    if outcome.result.status is ToolStatus.PENDING:
        # At once: calls after it would have to wait for the decision with what they ask for.
        asked = fold(state, outcome.effects, source=call.call.id)
        return asked.then(suspend, call, outcome.result, now=now, gated=outcome.gated).then(go_on, now=now)
    after = replace(settled(call, outcome.result), effects=outcome.effects)
    return move(state, after, ended(call, outcome.result)).then(go_on, now=now)


def sent(state: RunState, call: RunningCall, fact: WorkFact, *, now: int) -> Advance:
    """A message of the model's has arrived, or cannot."""
    return mail.sent(state, call, fact, now=now).then(go_on, now=now)


def lost(state: RunState, id: str, reason: str, *, now: int) -> Advance:
    """The tool's worker was lost and the call may not run again: the model is told, and decides."""
    return settle_lost(state, running_call(state, id), reason).then(go_on, now=now)


def call_command(state: RunState, call: RunningCall) -> CallTool:
    """Run a call's tool, with the arguments that its decision, if it had one, makes of it."""
    tool, rules = state.tool(call.call.name), state.rules
    assert tool is not None  # only a known tool runs
    agent = state.agent
    has_hooks = agent.has_hooks(Phase.TOOL_GATE, Phase.BEFORE_TOOL_EXECUTE, Phase.AFTER_TOOL_EXECUTE)
    is_asked = bool(agent.gates or agent.permissions or rules or has_hooks or agent.state_keys)
    return CallTool(
        id=call.id,
        tool=tool,
        call=_as_it_runs(call),
        resume=call.resume,
        ticket=call.ticket,
        agent=agent if is_asked else None,
        permissions=rules,
        state=state.values.view if agent.state_keys or has_hooks else None,
        step=state.steps if has_hooks else 0,
    )


def _next_to_start(state: RunState) -> NewCall | ResumingCall | None:
    batch, one_by_one = batch_of(state), _one_by_one(state)
    if one_by_one and batch.running:
        return None
    if one_by_one:
        first = next(iter(batch.waiting), None)
        return first if first is not None and not _has_to_queue(state, first) else None
    resuming = next((call for call in batch.resuming if not _has_to_queue(state, call)), None)
    if resuming is not None:
        return resuming
    free = tuple(new for new in batch.new if not _has_to_queue(state, new))
    return gates.first_to_start(state, free) if batch.response.verdicts else next(iter(free), None)


def _has_to_queue(state: RunState, new: NewCall | ResumingCall) -> bool:
    """Messages go one after another, so that they arrive in the order they were written in.

    What is for a task waits until the tasks that the step has started have their names.
    """
    tool = state.tool(new.call.name)
    kind = tool.runtime.kind if tool is not None and tool.runtime is not None else None
    if kind is RuntimeKind.SEND_MESSAGE and any(call.letter is not None for call in batch_of(state).running):
        return True
    is_for_a_task = kind in (RuntimeKind.SEND_MESSAGE, RuntimeKind.CANCEL_TASK)
    return is_for_a_task and any(task.thread_id is None for task in state.running_tasks)


def _one_by_one(state: RunState) -> bool:
    return state.agent.tool_mode is ToolMode.SEQUENTIAL


def _start(state: RunState, call: NewCall | ResumingCall, *, now: int) -> Advance:
    if isinstance(call, ResumingCall):
        return _start_again(state, call, now=now)
    if _one_by_one(state) and any(not suspended.gated for suspended in batch_of(state).suspended):
        return _settle_unstarted(state, call, TOOL_INTERRUPTED)
    tool = state.tool(call.call.name)
    if tool is None:
        return _settle_unstarted(state, call, f"tool '{call.call.name}' not found")
    if ledger.calls_left(state) == 0:
        refused = replace(state, refused_calls=True)
        return _settle_unstarted(refused, call, "the call was not made: the budget of tool calls is spent")
    state = replace(state, calls_made=state.calls_made + 1)
    if (verdict := gates.final_verdict(state, call)) is not None:
        return _intercept(state, call, verdict, now=now)
    if tool.frontend:
        return suspend(state, call, frontend_result(tool, call.call), now=now)
    if is_performed_here(tool):
        return perform(state, call, call.call, tool, now=now)
    return _run(state, RunningCall(call.call, id=f"tool-{call.call.id}"))


def _start_again(state: RunState, call: ResumingCall, *, now: int) -> Advance:
    """Run a call that a decision let go on. A frontend tool that a gate had held back is now the front end's."""
    tool = state.tool(call.call.name)
    if tool is not None and tool.frontend:
        return suspend(state, call, frontend_result(tool, _as_it_runs(call)), now=now)
    if tool is not None and is_performed_here(tool):
        return perform(state, call, _as_it_runs(call), tool, now=now)
    # The count stands before the call id, which a model chose: no other call can come to the same work id.
    id = f"tool.{call.grants + 1}-{call.call.id}"
    running = RunningCall(call.call, id, grants=call.grants, resume=call.resume, ticket=call.ticket, edited=call.edited)
    return _run(state, running)


def _run(state: RunState, call: RunningCall) -> Advance:
    return replace(move(state, call), commands=(call_command(state, call),))


def _as_it_runs(call: RunningCall | ResumingCall) -> ToolCall:
    """The call with the arguments that the tool is given; in the transcript stand the model's."""
    arguments: JsonValue = call.edited
    if call.resume and call.ticket and call.ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL:
        arguments = call.resume.result
    elif call.edited is None:
        return call.call
    return call.call.model_copy(update={"arguments": arguments})


def _intercept(state: RunState, new: NewCall, verdict: Verdict, *, now: int) -> Advance:
    """Do with a call what a gate says, in place of running it."""
    name = new.call.name
    match verdict:
        case Block(reason=reason):
            return move(state, *blocked(new, reason)).then(ending.block, reason, now=now)
        case Suspend(ticket=ticket):
            return suspend(state, new, ToolResult.suspended(name, ticket), now=now, gated=True)
        case SetResult(result=result) if result.status is ToolStatus.PENDING:
            return suspend(state, new, result, now=now, gated=True)
        case SetResult(result=result):
            return move(state, settled(new, result), done(new.call, result))
        case _:
            assert_never(verdict)


def _settle_unstarted(state: RunState, new: NewCall, message: str) -> Advance:
    result = ToolResult.error(new.call.name, message)
    return move(state, settled(new, result), done(new.call, result))


def _pause(state: RunState) -> Advance:
    ended_step = end_step(state).then(shown)  # a step that pauses once more has ended before
    waiting = ended_step.state.entering(AwaitingDecisions(batch_of(state)))
    return replace(ended_step, state=waiting).emitting(run_finish(waiting, Suspended()))


def is_performed_here(tool: ToolDescriptor) -> bool:
    """Whether a call of it has no activity in the run's own workflow."""
    return tool.runtime is not None or tool.background


def perform(
    state: RunState, call: NewCall | ResumingCall, asked: ToolCall, tool: ToolDescriptor, *, now: int
) -> Advance:
    """Do what the call asks for; `asked` has the arguments that a decision may have put in place of the model's."""
    try:
        if tool.runtime is None:
            return tasks.run_in_background(state, call, asked, tool, now=now)
        return _perform(state, call, asked, tool.runtime, now=now)
    except ToolError as error:
        return answer(state, call, ToolResult.error(call.call.name, str(error)))


def _perform(state: RunState, call: NewCall | ResumingCall, asked: ToolCall, tool: RuntimeTool, *, now: int) -> Advance:
    match tool.kind:
        case RuntimeKind.DELEGATE:
            return start.delegate(state, call, asked, tool, now=now)
        case RuntimeKind.SPAWN:
            return tasks.spawn(state, call, asked, tool, now=now)
        case RuntimeKind.CANCEL_TASK:
            return tasks.cancel_task(state, call, asked, now=now)
        case RuntimeKind.LIST_TASKS:
            return tasks.listed(state, call)
        case RuntimeKind.TASK_RESULT:
            return tasks.result_of(state, call, asked)
        case RuntimeKind.SEND_MESSAGE:
            return mail.send(state, call, asked)
        case RuntimeKind.RECOVER_MESSAGES:
            return mail.recover(state, call, asked)
        case RuntimeKind.HANDOFF:
            return handoff.request(state, call, tool)
        case _:
            assert_never(tool.kind)
