"""What a state looks like from outside: the status and the transcript that queries answer with."""

from itertools import takewhile
from typing import assert_never

from wakeful.contract.budgets import Budget
from wakeful.contract.mail import DeadLetter
from wakeful.contract.messages import Message, MessageMetadata
from wakeful.contract.subagents import Keeps
from wakeful.contract.transcript import assistant_message, tool_message
from wakeful.contract.views import StatusView, ToolCallView, WaitsFor
from wakeful.loop.calls.batch import RunningCall, SettledCall, SuspendedCall
from wakeful.loop.machine.stages import (
    AwaitingBudget,
    AwaitingDecisions,
    AwaitingTasks,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    HandingOver,
    Hooking,
    Idle,
    Inferring,
    Resolving,
)
from wakeful.loop.machine.state import RunState
from wakeful.loop.step.steps import infer_command
from wakeful.loop.subagents import ledger
from wakeful.loop.thread.carryover import fitting

HEAD_LENGTH = 500
"""Characters of a dead letter that a status shows: everybody asks for it, often."""


def status_view(state: RunState) -> StatusView:
    calls = []
    for call in state.batch.calls if state.batch else ():
        suspended = call if isinstance(call, SuspendedCall) else None
        calls.append(
            ToolCallView(
                call_id=call.call.id,
                tool_name=call.call.name,
                status=call.status,
                ticket=suspended.ticket if suspended else None,
                since=suspended.since if suspended else None,
                child=call.child if isinstance(call, RunningCall) else None,
                work_id=call.id if isinstance(call, RunningCall) and call.child else None,
            )
        )
    limit = ledger.tightest(state.budget, state.allowance)
    return StatusView(
        identity=state.identity,
        status=state.status,
        doing=doing(state),
        waits_for=_waits_for(state),
        steps=state.steps,
        usage=state.usage,
        calls=tuple(calls),
        queued=len(state.queued) + len(state.steering),
        runs=state.runs,
        refusals=state.refusals,
        result=state.stage.result if isinstance(state.stage, Done | Idle) else None,
        active_agent=state.active_agent,
        tasks=state.tasks,
        letters=tuple(map(_head, state.letters)),
        spent=ledger.spent(state),
        budget=None if limit == Budget() else limit,
    )


def _head(dead: DeadLetter) -> DeadLetter:
    content = dead.letter.content
    if len(content) <= HEAD_LENGTH:
        return dead
    letter = dead.letter.model_copy(update={"content": content[:HEAD_LENGTH]})
    return dead.model_copy(update={"letter": letter})


def _waits_for(state: RunState) -> WaitsFor | None:
    match state.stage:
        case AwaitingDecisions():
            return WaitsFor.DECISIONS
        case AwaitingTasks():
            return WaitsFor.TASKS
        case AwaitingBudget():
            return WaitsFor.BUDGET
        case _:
            return None


def keeps(state: RunState) -> Keeps:
    """What the thread keeps besides its conversation, as far as it fits, for an execution after this one."""
    undelivered = tuple(DeadLetter(letter=letter, error="it was on its way") for letter in state.outbox)
    kept = Keeps(
        agent_id=state.requested_agent or state.active_agent,
        tasks=state.tasks,
        spawned=state.spawned,
        letters=(*state.letters, *undelivered),
        mail=tuple(later.message for later in state.steering if later.internal),
        permissions=state.permissions,
        state=dict(state.values.thread),
        identity=state.identity,
    )
    return fitting(kept)


def doing(state: RunState) -> str:
    """In a few words, what the run is about."""
    match state.stage:
        case Resolving():
            return f"looking up agent {state.identity.agent_id}"
        case Inferring() as inferring:
            return f"asking {infer_command(state, inferring).model}"
        case CallingTools(batch=batch):
            return f"running {', '.join(call.call.name for call in batch.running)}"
        case AwaitingDecisions(batch=batch):
            return f"waiting for a decision on {', '.join(call.call.name for call in batch.suspended)}"
        case AwaitingTasks():
            return f"waiting for {', '.join(task.name or task.task_id for task in state.running_tasks)}"
        case AwaitingBudget(spent=spent, asked=asked):
            return f"asking its parent for more {spent}" if asked else f"waiting until its tasks leave it some {spent}"
        case Hooking(moments=moments):
            return f"running hooks ({', '.join(moment.value for moment in moments)})"
        case HandingOver(agent_id=agent_id):
            return f"handing over to {agent_id}"
        case BetweenSteps():
            return "between two steps"
        case Cancelling():
            return "stopping what is in flight"
        case Idle():
            return "idle, waiting for a message"
        case Done(result=result):
            return f"ended: {result.status_reason}"
        case _:
            assert_never(state.stage)


def visible_messages(state: RunState) -> tuple[Message, ...]:
    """The transcript, and of the step under way what will not move any more: results up to the first missing one."""
    if state.batch is None:
        return state.transcript.messages
    run_id = state.identity.run_id
    metadata = MessageMetadata(run_id=run_id, step_index=state.steps)
    staged = [assistant_message(state.batch.response, id=state.batch.message_id, metadata=metadata)]
    for call in takewhile(lambda call: isinstance(call, SettledCall), state.batch.calls):
        assert isinstance(call, SettledCall)
        id = f"{run_id}:{state.transcript.length + len(staged) + 1}"
        staged.append(tool_message(call.call.id, call.result, id=id, metadata=metadata))
    return (*state.transcript.messages, *staged)
