"""The context window in the loop: what inferences report about it, and when the conversation is compacted.

Compaction runs in the background: the run continues meanwhile, and if it fails, requests are only longer. The
transcript is never rewritten; a summary is a mark on it.
"""

from wakeful.context.compaction import should_compact
from wakeful.context.tokens import calibrated
from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.context import Compaction
from wakeful.contract.inference import ModelResponse
from wakeful.loop.machine.commands import Compact
from wakeful.loop.machine.facts import CompactionReturned, WorkFact
from wakeful.loop.machine.state import Advance, ContextState, Thread


def on_answer(thread: Thread, response: ModelResponse) -> Advance:
    """Take what an inference reports about the window, and schedule a compaction if the policy asks for one."""
    policy, report = thread.agent.context, response.context
    if policy is None or report is None:
        return Advance(thread)
    factor = calibrated(thread.context.token_factor, report.estimated_tokens, response.usage.prompt_tokens)
    context = replace(thread.context, token_factor=factor)
    if context.compacting or not should_compact(report.history_tokens, policy, skipped_at=context.skipped_at):
        return Advance(replace(thread, context=context))
    counters = thread.counters.model_copy(update={"compactions": thread.counters.compactions + 1})
    command = Compact(
        id=ids.work_id(ids.Compact(counters.compactions)),
        agent=thread.agent,
        transcript=thread.transcript.ref,
        previous=context.compaction.source if context.compaction else None,
        token_factor=factor,
    )
    context = replace(context, compacting=command.id, pressure=report.history_tokens)
    return Advance(replace(thread, context=context, counters=counters), (command,))


def on_compaction_ended(thread: Thread, fact: WorkFact) -> Advance:
    """The summary is there, or was discarded, or failed; either way the next compaction may start."""
    context = replace(thread.context, compacting=None)
    if isinstance(fact, CompactionReturned) and fact.mark is not None:
        context = replace(context, compaction=Compaction(source=fact.id, mark=fact.mark), skipped_at=None)
    else:
        context = replace(context, skipped_at=context.pressure)
    return Advance(replace(thread, context=context))


def after_rewind(context: ContextState, length: int) -> ContextState:
    """A summary of messages that were removed is removed, too."""
    compaction = context.compaction
    return replace(context, compaction=None) if compaction and compaction.mark.through > length else context
