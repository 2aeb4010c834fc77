"""The context window in the loop: what the model will be shown of a long thread, and when its past is summarised.

Summarising is work in the background: the run goes on meanwhile, and a thread whose summary fails is only longer. The
log is never rewritten; a summary is a mark on it.
"""

from wakeful.context.compaction import should_compact
from wakeful.context.tokens import calibrated
from wakeful.contract.inference import ModelResponse
from wakeful.loop.machine.commands import Compact
from wakeful.loop.machine.facts import CompactionReturned, WorkFact
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.state import Advance, Compaction, ContextState, RunState


def learn(state: RunState, response: ModelResponse) -> Advance:
    """Take what an inference found out about the window, and begin a summary when the policy asks for one."""
    policy, report = state.agent.context, response.context
    if policy is None or report is None:
        return Advance(state)
    factor = calibrated(state.context.factor, report.estimated_tokens, response.usage.prompt_tokens)
    context = replace(state.context, factor=factor)
    if context.compacting or not should_compact(report.history_tokens, policy, skipped_at=context.skipped_at):
        return Advance(replace(state, context=context))
    number = context.compactions + 1
    command = Compact(
        id=f"compact-{number}",
        agent=state.agent,
        transcript=state.transcript.ref,
        previous=context.compaction.source if context.compaction else None,
        factor=factor,
    )
    context = replace(context, compacting=command.id, compactions=number, pressure=report.history_tokens)
    return Advance(replace(state, context=context), (command,))


def ended(state: RunState, fact: WorkFact) -> Advance:
    """A summary is there, or did not come; either way the next may begin."""
    context = replace(state.context, compacting=None)
    if isinstance(fact, CompactionReturned) and fact.mark is not None:
        compaction = Compaction(fact.id, fact.mark)
        return Advance(replace(state, context=replace(context, compaction=compaction, skipped_at=None)))
    return Advance(replace(state, context=replace(context, skipped_at=context.pressure)))


def after_rewind(context: ContextState, length: int) -> ContextState:
    """A summary of messages that were undone goes with them."""
    compaction = context.compaction
    return replace(context, compaction=None) if compaction and compaction.mark.through > length else context
