"""Fold a model's answer: make the calls it asks for, or end the run when it asks for nothing more."""

import json

from wakeful.contract.events import (
    AgentEvent,
    InferenceComplete,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStart,
)
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import MessageMetadata
from wakeful.contract.runs import Errored, NaturalEnd, ThreadMode
from wakeful.contract.transcript import assistant_message
from wakeful.loop.compacting import learn
from wakeful.loop.ending import finish
from wakeful.loop.inbox import read
from wakeful.loop.reports import end_step
from wakeful.loop.state import Advance, Inferring, RunState
from wakeful.loop.steps import next_step
from wakeful.loop.tool_calls import begin_batch
from wakeful.loop.values import replace


def returned(state: RunState, inferring: Inferring, response: ModelResponse, *, now: int) -> Advance:
    """Fold the model's answer: its calls are to be made, or it was the last word."""
    counted = replace(state, usage=state.usage.plus(response.usage))
    ids = [call.id for call in response.tool_calls]
    if "" in ids or len(set(ids)) < len(ids):
        error = f"inference failed: the model's tool calls need ids that differ, got {ids!r}"
        return finish(counted, Errored(value=error), now=now)
    told = Advance(counted, events=_told(response, duration_ms=max(0, now - inferring.since))).then(learn, response)
    if response.tool_calls:
        return told.then(begin_batch, inferring, response, now=now)
    return told.then(_say, inferring, response).then(_end_or_go_on, now=now)


def _told(response: ModelResponse, *, duration_ms: int) -> tuple[AgentEvent, ...]:
    events: list[AgentEvent] = []
    if response.reasoning:
        events.append(ReasoningDelta(delta=response.reasoning))
    if response.text:
        events.append(TextDelta(delta=response.text))
    for call in response.tool_calls:
        events.append(ToolCallStart(id=call.id, name=call.name))
        written = json.dumps(call.arguments, separators=(",", ":"), ensure_ascii=False)
        events.append(ToolCallDelta(id=call.id, args_delta=written))
        events.append(ToolCallReady(id=call.id, name=call.name, arguments=call.arguments))
    events.append(InferenceComplete(model=response.model, usage=response.usage, duration_ms=duration_ms))
    return tuple(events)


def _say(state: RunState, inferring: Inferring, response: ModelResponse) -> Advance:
    metadata = MessageMetadata(run_id=state.identity.run_id, step_index=state.steps)
    message = assistant_message(response, id=inferring.message_id, metadata=metadata)
    transcript = state.transcript.appending(message, inferring.id)
    return end_step(replace(state, transcript=transcript, response=response.text))


def _end_or_go_on(state: RunState, *, now: int) -> Advance:
    """The model has nothing more to do: end, unless messages for this very run came meanwhile, which it reads first."""
    if state.mode is ThreadMode.RUN and state.queued:
        state = replace(read(state, state.queued), queued=())
    elif not state.steering:
        return finish(state, NaturalEnd(), now=now)
    return next_step(state, now=now)
