"""Fold a model's answer: make the calls it asks for, ask again where it falls short, or end the run with it."""

from wakeful.contract.events import AgentEvent, ToolCallCancel
from wakeful.contract.inference import ModelResponse, StopReason
from wakeful.contract.messages import MessageMetadata
from wakeful.contract.runs import Blocked, Errored, NaturalEnd, Stopped, Termination, ThreadMode
from wakeful.contract.transcript import assistant_message
from wakeful.loop.calls.tool_calls import begin_batch
from wakeful.loop.machine.events import end_step, heard, leave_point, run_finish
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import AwaitingTasks, Inferring
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.step.context import learn
from wakeful.loop.step.hooks import fold
from wakeful.loop.step.model_notes import CONTINUE, noting, on_calls, on_output
from wakeful.loop.step.steps import next_step
from wakeful.loop.step.stopping import failed_rounds_after, said_after, stopping
from wakeful.loop.thread.ending import finish
from wakeful.loop.thread.submissions import for_this_run, read, reading_queued


def returned(state: RunState, inferring: Inferring, response: ModelResponse, *, now: int) -> Advance:
    """Fold the model's answer: its calls are to be made, it falls short of something, or it was the last word."""
    counted = replace(state, usage=state.usage.plus(response.usage), said=said_after(state, response))
    if response.unasked:
        return fold(counted, response.effects, source=inferring.id).then(end_step).then(next_step, now=now)
    ids = [call.id for call in response.tool_calls]
    if "" in ids or len(set(ids)) < len(ids):
        error = f"inference failed: the model's tool calls need ids that differ, got {ids!r}"
        return finish(counted, Errored(value=error), now=now)
    events = heard(response, duration_ms=max(0, now - inferring.since))
    told = Advance(counted, events=events).then(learn, response).then(fold, response.effects, source=inferring.id)
    if (end := told.state.wanted_end or _stop(told.state, response, now=now)) is not None:
        # What it asked for is not done, and the answer is not part of the conversation.
        # What is blocked is not shown as the run's last word either.
        said = "" if isinstance(end, Blocked) else response.text
        over = replace(told.state, wanted_end=None, response=said or told.state.response)
        dropped = replace(told, state=over).emitting(*_dropped(response, "the run ended"))
        return dropped.then(end_step).then(finish, end, now=now)
    if response.effects is not None and response.effects.retry is not None:
        again = noting(replace(told.state, rounds=told.state.rounds + 1), response.effects.retry)
        dropped = replace(told, state=again).emitting(*_dropped(response, "the model is asked again"))
        return dropped.then(end_step).then(next_step, now=now)
    if response.tool_calls:
        return told.then(begin_batch, inferring, response, now=now)
    return told.then(_fold_words, inferring, response, now=now)


def _dropped(response: ModelResponse, reason: str) -> tuple[AgentEvent, ...]:
    """Whoever saw the calls come has to know that they are not made."""
    return tuple(ToolCallCancel(id=call.id, name=call.name, reason=reason) for call in response.tool_calls)


def _stop(state: RunState, response: ModelResponse, *, now: int) -> Termination | None:
    met = stopping(state, response, now=now)
    return None if met is None else Stopped(value=met)


def _fold_words(state: RunState, inferring: Inferring, response: ModelResponse, *, now: int) -> Advance:
    """An answer without calls: have the model go on with it or put it right, or take it as the last word."""
    said = _saying(state, inferring, response)
    # Providers refuse an empty message in the midst of a conversation; only as the last word it is kept.
    kept = said if response.text else state
    again = _asking_again(kept, response) if state.revision >= 2 else None
    if again is not None:
        continuing = again.continuations > state.continuations
        return leave_point(again).then(end_step).then(next_step, now=now, continuing=continuing)
    if state.agent.output and response.output_problem is not None:
        error = f"the answer does not fit the agent's output type: {response.output_problem}"
        return leave_point(said).then(end_step).then(finish, Errored(value=error), now=now)
    return leave_point(said).then(end_step).then(_end_or_go_on, response, now=now)


def _saying(state: RunState, inferring: Inferring, response: ModelResponse) -> RunState:
    metadata = MessageMetadata(run_id=state.identity.run_id, step_index=state.steps)
    message = assistant_message(response, id=inferring.message_id, metadata=metadata)
    return replace(state, transcript=state.transcript.appending(message, inferring.id), response=response.text)


def _asking_again(state: RunState, response: ModelResponse) -> RunState | None:
    """The state with what the model is told of its answer's failing, as long as the agent lets it have another try."""
    if _is_cut_off(response) and state.continuations < state.agent.max_continuations:
        return noting(replace(state, continuations=state.continuations + 1), CONTINUE)
    if response.incomplete_calls and response.stop_reason is not StopReason.MAX_TOKENS:
        failed = failed_rounds_after(state, ())
        return noting(replace(state, rounds=state.rounds + 1, failed_rounds=failed), *on_calls(response))
    output, problem = state.agent.output, response.output_problem
    if output and problem is not None and state.repairs < output.max_repairs:
        return noting(replace(state, repairs=state.repairs + 1), on_output(problem))
    return None


def _is_cut_off(response: ModelResponse) -> bool:
    """It hit the token limit with something said, or with a call half written."""
    return response.stop_reason is StopReason.MAX_TOKENS and bool(response.text or response.incomplete_calls)


def _end_or_go_on(state: RunState, response: ModelResponse, *, now: int) -> Advance:
    """The model has nothing more to do: end, unless messages for this very run came meanwhile, which it reads first.

    While background tasks run, the run is not over: what they tell goes on with it.
    """
    if state.mode is ThreadMode.RUN and state.queued:
        return next_step(replace(read(state, state.queued), queued=()), now=now)
    if state.steering:
        return next_step(state, now=now)
    if not state.running_tasks:
        return finish(replace(state, output=response.output), NaturalEnd(), now=now)
    if for_this_run(state):
        return next_step(reading_queued(state), now=now)
    waiting = state.entering(AwaitingTasks())
    return Advance(waiting, events=(run_finish(waiting, NaturalEnd()),))
