"""What a state looks like from outside: the status and the transcript that queries answer with."""

from itertools import takewhile
from typing import assert_never

from wakeful.contract.messages import Message, MessageMetadata
from wakeful.contract.transcript import assistant_message, tool_message
from wakeful.contract.views import StatusView, ToolCallView
from wakeful.loop.calls import SettledCall, SuspendedCall
from wakeful.loop.stages import (
    AwaitingDecisions,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    Idle,
    Inferring,
    Resolving,
)
from wakeful.loop.state import RunState
from wakeful.loop.steps import infer_command


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
            )
        )
    return StatusView(
        identity=state.identity,
        status=state.status,
        doing=doing(state),
        steps=state.steps,
        usage=state.usage,
        calls=tuple(calls),
        queued=len(state.queued) + len(state.steering),
        runs=state.runs,
        refusals=state.refusals,
        result=state.stage.result if isinstance(state.stage, Done | Idle) else None,
    )


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
