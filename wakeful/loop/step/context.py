"""The context window in the loop: what inferences report about it, and when the conversation is compacted.

Compaction runs in the background: the run continues meanwhile, and if it fails, requests are only longer. The
transcript is never rewritten; a summary is a mark on it.
"""

from wakeful.context.compaction import should_compact
from wakeful.context.tokens import calibrated
from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.context import Compaction, CompactionMark, ContextReport
from wakeful.contract.inference import ModelResponse
from wakeful.contract.runs import ThreadMode, Usage
from wakeful.loop.machine.commands import Compact
from wakeful.loop.machine.facts import CompactionReturned, WorkFact
from wakeful.loop.machine.stages import AfterRun, Done, Idle, PendingEnd, RunningHooks
from wakeful.loop.machine.state import Advance, ContextState, Thread
from wakeful.loop.thread.transcript import Transcript


def with_estimates(thread: Thread, response: ModelResponse, report: ContextReport) -> Thread:
    """The thread with its token estimates corrected by what the provider has counted."""
    counted = None if response.usage.estimated else response.usage.prompt_tokens
    factor = calibrated(thread.context.token_factor, report.estimated_tokens, counted)
    return replace(thread, context=replace(thread.context, token_factor=factor))


def compact_after(answered: Advance, asked: Thread, response: ModelResponse) -> Advance:
    """Schedule a compaction after an answer, if the policy asks for one and another step may use the summary.

    Args:
        answered: what the answer has led to.
        asked: the thread that the model was asked about; workers know this transcript, and not yet the answer.
    """
    thread, policy, report = answered.thread, asked.agent.context, response.context
    context = thread.context
    if report is None or context.compacting or _is_over(thread):
        return answered
    if not should_compact(report, policy, skipped_at=context.skipped_at):
        return answered
    counters = thread.counters.model_copy(update={"compactions": thread.counters.compactions + 1})
    command = Compact(
        id=ids.work_id(ids.Compact(counters.compactions)),
        agent=asked.agent,
        transcript=asked.transcript.ref,
        previous=context.compaction.source if context.compaction else None,
        token_factor=context.token_factor if policy else 1.0,
        limit=report.limit,
    )
    context = replace(context, compacting=command.id, pressure=report.history_tokens)
    thread = replace(thread, context=context, counters=counters)
    return replace(answered, thread=thread, commands=(command, *answered.commands))


def _is_over(thread: Thread) -> bool:
    """Whether the thread ends with the run that has just ended, or is ending."""
    match thread.stage:
        case Done():
            return True
        case RunningHooks(ending=PendingEnd(then=then)):
            return then is AfterRun.CLOSE or (then is AfterRun.END and thread.mode is ThreadMode.RUN)
        case _:
            return False


def on_compaction_ended(thread: Thread, fact: WorkFact) -> Advance:
    """The summary is there, or was discarded, or failed; either way the next compaction may start."""
    context = replace(thread.context, compacting=None)
    if not isinstance(fact, CompactionReturned):
        return Advance(replace(thread, context=replace(context, skipped_at=context.pressure)))
    if fact.mark is None:
        context = replace(context, skipped_at=context.pressure)
    elif fits(fact.mark, thread.transcript):
        context = replace(context, compaction=Compaction(source=fact.id, mark=fact.mark), skipped_at=None)
    return Advance(_paying(replace(thread, context=context), fact.usage))


def fits(mark: CompactionMark, transcript: Transcript) -> bool:
    """Whether the transcript still has the messages that the mark covers: a rollback may have removed them."""
    if mark.through < transcript.before.length:
        return True  # an earlier execution has them; a rollback of them would have moved `before`
    position = transcript.position_at(mark.through)
    return position is not None and mark.digest in ("", position.digest)


def _paying(thread: Thread, usage: Usage) -> Thread:
    """The thread after a summary was paid for: by the run under way, or else by the next one."""
    if thread.run is None or isinstance(thread.stage, Idle | Done):
        return replace(thread, context=replace(thread.context, unpaid=thread.context.unpaid.plus(usage)))
    return thread.with_run(replace(thread.run, usage=thread.run.usage.plus(usage)))


def rolled_back(context: ContextState, before: ContextState, length: int) -> ContextState:
    """The window before the run, with what is still true: a summary of messages that are left, and what was paid."""
    compaction = context.compaction if context.compaction else before.compaction
    if compaction is not None and compaction.mark.through > length:
        compaction = before.compaction
    return replace(
        before,
        compaction=compaction,
        token_factor=context.token_factor,
        compacting=context.compacting,
        unpaid=context.unpaid,
    )
