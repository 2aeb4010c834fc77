"""What a thread takes along when its workflow continues as new: everything, except old messages.

Old messages stay in the history of the execution that heard them. The newest go along, packed, as many as fit a
budget; their place in the chain of digests goes along too, so a worker can prove that what it reads back is whole.
"""

import base64
import zlib
from dataclasses import dataclass
from typing import Any, assert_never

from pydantic import TypeAdapter
from pydantic_core import to_json

from wakeful.contract.agents import HistoryBudget
from wakeful.contract.messages import Message
from wakeful.contract.runs import RunStatus
from wakeful.loop.calls.batch import RunningCall
from wakeful.loop.calls.tool_calls import call_command
from wakeful.loop.machine.commands import Command, ResolveAgent
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.replace import replace
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
from wakeful.loop.step.handoff import look_up_command
from wakeful.loop.step.hooks import hooks_command
from wakeful.loop.step.steps import infer_command
from wakeful.loop.subagents.mail import first_letter, send_command

TAIL_BYTES = 256_000
"""How much of the newest conversation goes along, before it is packed."""


@dataclass(frozen=True)
class Carried:
    """A thread between two executions of its workflow; no work is in flight."""

    state: RunState
    events: int
    search_attributes: bool
    shown: RunStatus | None
    budget: HistoryBudget


_CARRIED = TypeAdapter(Carried)
_MESSAGES = TypeAdapter(tuple[Message, ...])


def pack(carried: Carried) -> dict[str, Any]:
    """The JSON that the next execution starts with."""
    state = _to_carry(carried.state)
    messages = _MESSAGES.dump_json(state.transcript.messages)
    bare = replace(state, transcript=replace(state.transcript, messages=()))
    packed: dict[str, Any] = _CARRIED.dump_python(replace(carried, state=bare), mode="json")
    # Sorted: a set has another order in another process, and one history must have one continuation.
    packed["state"]["applied"] = sorted(packed["state"]["applied"])
    packed["messages"] = base64.b64encode(zlib.compress(messages)).decode()
    return packed


def size_of(packed: dict[str, Any]) -> int:
    """Bytes that it takes in history: Temporal's converter writes it the same way."""
    return len(to_json(packed))


def unpack(packed: dict[str, Any]) -> Carried:
    carried = _CARRIED.validate_python({key: value for key, value in packed.items() if key != "messages"})
    messages = _MESSAGES.validate_json(zlib.decompress(base64.b64decode(packed["messages"])))
    transcript = replace(carried.state.transcript, messages=messages)
    return replace(carried, state=replace(carried.state, transcript=transcript))


def pending_commands(state: RunState) -> tuple[Command, ...]:
    """The commands of a state that was carried: what it waits for has not been started, but for its sub-agents."""
    return (*_pending(state), *first_letter(state))


def _call_again(state: RunState, call: RunningCall) -> Command:
    return call_command(state, call) if call.letter is None else send_command(call.id, call.letter)


def _pending(state: RunState) -> tuple[Command, ...]:
    match state.stage:
        case Resolving(id=id):
            return (ResolveAgent(state.identity.agent_id, id=id, in_task=state.identity.task is not None),)
        case Inferring() as inferring:
            return (infer_command(state, inferring),)
        case HandingOver() as handing:
            return (look_up_command(state, handing),)
        case Hooking() as hooking:
            return (hooks_command(state, hooking),)
        case CallingTools(batch=batch):
            return tuple(_call_again(state, call) for call in batch.running if call.by == "activity" or call.letter)
        case AwaitingDecisions() | AwaitingTasks() | AwaitingBudget() | BetweenSteps() | Cancelling() | Idle() | Done():
            return ()
        case _:
            assert_never(state.stage)


def _to_carry(state: RunState) -> RunState:
    """The state with its transcript cut to the newest entries, and sources that the next execution can follow."""
    told = state.stage.told if isinstance(state.stage, Inferring) else 0
    return replace(
        state,
        transcript=state.transcript.tail(TAIL_BYTES, at_least=told),
        queued=tuple(_carried_source(submitted) for submitted in state.queued),
        steering=tuple(_carried_source(submitted) for submitted in state.steering),
    )


def _carried_source(submitted: Submitted) -> Submitted:
    return replace(submitted, source=f"carried:{submitted.message.id}", group=f"carried:{submitted.group}")
