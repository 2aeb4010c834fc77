"""One request's view of a long conversation: the summary of its past, and as much of the rest as fits the window."""

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.context.compaction import summary_message
from wakeful.context.messages import Emitted
from wakeful.context.tokens import message_tokens, messages_tokens, scaled
from wakeful.context.window import fit
from wakeful.contract.context import CompactionMark, ContextPolicy, ContextReport
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.tools import ToolDescriptor
from wakeful_activities.memory import Conversation


@dataclass(frozen=True)
class Window:
    """A policy, with what is known about the thread it is applied to."""

    policy: ContextPolicy
    mark: CompactionMark | None
    factor: float

    def is_enough(self, known: Conversation) -> bool:
        """Whether older messages than these would not be shown anyway."""
        if self.mark is not None and known.start <= self.mark.through:
            return True
        return scaled(known.tokens_since(known.start), self.factor) >= self.policy.max_context_tokens

    def view(
        self, known: Conversation, tools: Sequence[ToolDescriptor], instructions: str, emitted: Emitted
    ) -> tuple[tuple[Message, ...], ContextReport]:
        """What the model is shown of the conversation.

        Only as much of it is looked at as could be shown: a request costs the same in a long thread as in a short one.
        """
        first = known.start
        summary: tuple[Message, ...] = ()
        if self.mark is not None and known.start <= self.mark.through:
            first, summary = self.mark.through, (summary_message(self.mark),)
        fits = known.newest(int(self.policy.max_context_tokens / self.factor))
        newest = max(first, min(fits, known.length - self.policy.min_recent_messages))
        history = (*summary, *known.since(newest))
        prompt = Message(id="", role=Role.SYSTEM, content=(TextBlock(text=instructions),))
        view = fit(
            history,
            tools,
            self.policy,
            factor=self.factor,
            reserved=message_tokens(prompt) + messages_tokens(emitted.messages),
            has_more_before=newest > 0 and not (summary and newest == first),
        )
        report = ContextReport(
            estimated_tokens=view.estimated_tokens,
            history_tokens=scaled(messages_tokens(summary) + known.tokens_since(first), self.factor),
            dropped=view.dropped + newest - first,
            cut=view.cut,
        )
        return view.messages, report
