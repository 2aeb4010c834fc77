"""Handle the model's answer: execute its calls, ask again where it falls short, or end the run with it."""

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.decisions import SuspensionTicket
from wakeful.contract.events import AgentEvent, ToolCallCancel
from wakeful.contract.gates import Suspend, Verdict
from wakeful.contract.inference import ModelResponse, StopReason
from wakeful.contract.messages import MessageMetadata
from wakeful.contract.runs import Blocked, Errored, NaturalEnd, Stopped, Termination, ThreadMode
from wakeful.contract.transcript import assistant_message
from wakeful.loop.calls.tool_calls import start_batch
from wakeful.loop.machine.events import answer_events, end_step, record_fork_point, run_pause
from wakeful.loop.machine.stages import AwaitingTasks, Inferring
from wakeful.loop.machine.state import Advance, Run, Step, Thread
from wakeful.loop.step import context, stopping
from wakeful.loop.step.hooks import apply_effects, give_answer, invalid_output
from wakeful.loop.step.model_notes import CONTINUE, append_notes, output_note, unexecuted_call_notes
from wakeful.loop.step.steps import next_step
from wakeful.loop.thread.ending import finish
from wakeful.loop.thread.submissions import for_this_run, read_queued


def on_inference_returned(thread: Thread, inferring: Inferring, response: ModelResponse, *, now: int) -> Advance:
    """Handle the answer, and summarise the conversation in the background if it has become too long."""
    if inferring.lineage:
        response = _relabelled(response, inferring.lineage)
    answered = _on_answer(thread, inferring, response, now=now)
    return answered if response.context is None else context.compact_after(answered, thread, response)


def on_history_reset(thread: Thread, lineage: str) -> Thread:
    """Calls from now on have ids in this lineage, also those of an answer that was under way at the reset point.

    Temporal runs the activity of that answer again, with the input that it had: its calls would get the ids, and so the
    idempotency keys, of other calls that the reset has undone.
    """
    thread = in_lineage(thread, lineage)
    if not isinstance(thread.stage, Inferring):
        return thread
    return thread.entering(replace(thread.stage, lineage=lineage))


def in_lineage(thread: Thread, lineage: str) -> Thread:
    """The thread, whose next inference labels the calls of its answer so."""
    return thread.counting(thread.counters.model_copy(update={"lineage": lineage}))


def _relabelled(response: ModelResponse, lineage: str) -> ModelResponse:
    """The answer with the ids that its calls have in this lineage."""
    calls = tuple(call.model_copy(update={"id": ids.relabelled(call.id, lineage)}) for call in response.tool_calls)
    verdicts = {
        ids.relabelled(id, lineage): _relabelled_verdict(verdict, id, lineage)
        for id, verdict in response.verdicts.items()
    }
    return response.model_copy(update={"tool_calls": calls, "verdicts": verdicts})


def _relabelled_verdict(verdict: Verdict, call_id: str, lineage: str) -> Verdict:
    if not isinstance(verdict, Suspend):
        return verdict
    return verdict.model_copy(update={"ticket": _relabelled_ticket(verdict.ticket, call_id, lineage)})


def _relabelled_ticket(ticket: SuspensionTicket, call_id: str, lineage: str) -> SuspensionTicket:
    after = ids.relabelled(call_id, lineage)
    made = {make(call_id): make(after) for make in (ids.suspension_id, ids.permission_suspension_id)}
    id = ticket.suspension.id
    suspension = ticket.suspension.model_copy(update={"id": made.get(id, id)})
    return ticket.model_copy(
        update={"suspension": suspension, "pending": ticket.pending.model_copy(update={"id": after})}
    )


def _on_answer(thread: Thread, inferring: Inferring, response: ModelResponse, *, now: int) -> Advance:
    """Count the answer, apply what hooks request, and then: end, ask again, call tools, or take it as the last."""
    run = thread.current
    recent = stopping.recent_answers_after(run, response) if run.agent.stop_conditions else ()
    step = replace(run.step, recent_answers=recent)
    thread = thread.with_run(replace(run, usage=run.usage.plus(response.usage), step=step))
    if response.skipped:
        return apply_effects(thread, response.effects, source=inferring.id).then(end_step).then(next_step, now=now)
    call_ids = [call.id for call in response.tool_calls]
    if "" in call_ids or len(set(call_ids)) < len(call_ids):
        error = f"inference failed: the answer's tool calls have no distinct ids: {call_ids!r}"
        return finish(thread, Errored(value=error, code="invalid_answer"), now=now)
    if response.context is not None:
        thread = context.with_estimates(thread, response, response.context)
    moved = Advance(thread, events=answer_events(response, duration_ms=max(0, now - inferring.since)))
    if response.effects is not None:
        moved = moved.then(apply_effects, response.effects, source=inferring.id)
    if (end := _end_after(moved.thread, response)) is not None:
        return moved.then(_end_with, response, end, now=now)
    if response.effects is not None and response.effects.retry is not None:
        return moved.then(_retry, response, response.effects.retry, now=now)
    if response.tool_calls:
        return moved.then(start_batch, inferring, response, now=now)
    return moved.then(_on_text, inferring, response, now=now)


def _end_after(thread: Thread, response: ModelResponse) -> Termination | None:
    """How the run ends with this answer, if a hook requested an end or a stop condition is met."""
    run = thread.current
    if run.requested_end is not None:
        return run.requested_end
    met = stopping.first_met(run, response) if run.agent.stop_conditions else None
    return None if met is None else Stopped(value=met)


def _end_with(thread: Thread, response: ModelResponse, end: Termination, *, now: int) -> Advance:
    """End the run: the answer's calls are not executed, and the answer is not part of the conversation."""
    run = thread.current
    # A blocked answer is not shown as the run's response either.
    text = "" if isinstance(end, Blocked) else response.text
    ended = thread.with_run(replace(run, requested_end=None, response=text or run.response))
    dropped = Advance(ended, events=_dropped_calls(response, "the run ended"))
    return dropped.then(end_step).then(give_answer).then(finish, end, now=now)


def _retry(thread: Thread, response: ModelResponse, note: str, *, now: int) -> Advance:
    """A hook discards the answer: the model is called again, with a note."""
    step = thread.current.step
    again = thread.with_step(replace(step, rounds=step.rounds + 1))
    dropped = Advance(again, events=_dropped_calls(response, "the model is called again"))
    return dropped.then(end_step).then(append_notes, note).then(next_step, now=now)


def _dropped_calls(response: ModelResponse, reason: str) -> tuple[AgentEvent, ...]:
    """Watchers that have seen the calls arrive must see that they are not executed."""
    return tuple(ToolCallCancel(id=call.id, name=call.name, reason=reason) for call in response.tool_calls)


def _on_text(thread: Thread, inferring: Inferring, response: ModelResponse, *, now: int) -> Advance:
    """An answer without calls: have the model continue or correct it, or take it as the last."""
    answered = _append_answer(thread, inferring, response)
    # Providers reject an empty message inside a conversation; it is kept only as the last one.
    kept = answered if response.text else thread
    again = _ask_again(kept.current, response)
    if again is not None:
        step, notes = again
        noted = end_step(kept.with_step(step)).then(append_notes, *notes)
        continuing = step.continuations > thread.current.step.continuations
        return noted.then(record_fork_point).then(next_step, now=now, continuing=continuing)
    committed = record_fork_point(answered).then(end_step)
    if thread.agent.output and response.output_problem is not None:
        return committed.then(finish, invalid_output(response.output_problem), now=now)
    return committed.then(_end_or_continue, response, now=now)


def _append_answer(thread: Thread, inferring: Inferring, response: ModelResponse) -> Thread:
    run = thread.current
    metadata = MessageMetadata(run_id=thread.identity.run_id, step_index=run.step.number)
    message = assistant_message(response, id=inferring.message_id, metadata=metadata)
    transcript = thread.transcript.appending(message, inferring.id)
    return replace(thread, transcript=transcript, run=replace(run, response=response.text))


def _ask_again(run: Run, response: ModelResponse) -> tuple[Step, tuple[str, ...]] | None:
    """The notes that make the model continue or correct its answer, and what is counted; None if it is the last."""
    step, output = run.step, run.agent.output
    if _is_cut_off(response) and step.continuations < run.agent.max_continuations:
        return replace(step, continuations=step.continuations + 1), (CONTINUE,)
    if response.incomplete_calls and response.stop_reason is not StopReason.MAX_TOKENS:
        return step.with_round(has_failed=True), unexecuted_call_notes(response)
    if output and response.output_problem is not None and step.repairs < output.max_repairs:
        return replace(step, repairs=step.repairs + 1), (output_note(response.output_problem),)
    return None


def _is_cut_off(response: ModelResponse) -> bool:
    """It hit the token limit with some text, or with an incomplete call."""
    return response.stop_reason is StopReason.MAX_TOKENS and bool(response.text or response.incomplete_calls)


def _end_or_continue(thread: Thread, response: ModelResponse, *, now: int) -> Advance:
    """The model is done: end the run, unless messages arrived for it, tasks are running, or work is pending."""
    if thread.mode is ThreadMode.RUN and for_this_run(thread):
        return read_queued(thread).then(next_step, now=now)
    if thread.steering:
        return next_step(thread, now=now)
    if not thread.children.running and not thread.current.holds:
        return finish(thread.with_run(replace(thread.current, output=response.output)), NaturalEnd(), now=now)
    if for_this_run(thread):
        return read_queued(thread).then(next_step, now=now)
    waiting = thread.entering(AwaitingTasks())
    return Advance(waiting, events=(run_pause(waiting, NaturalEnd()),))
