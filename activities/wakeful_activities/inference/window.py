"""One request's view of a long conversation: the summary of its past, and as much of the rest as fits the window."""

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.context.compaction import history_tokens, summary_message
from wakeful.context.messages import Emitted
from wakeful.context.tokens import message_tokens, messages_tokens, scaled
from wakeful.context.window import fit
from wakeful.contract.context import CompactionMark, ContextPolicy, ContextReport
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.tools import ToolDescriptor


@dataclass(frozen=True)
class Window:
    """A policy, with what is known about the thread it is applied to."""

    policy: ContextPolicy
    mark: CompactionMark | None
    factor: float

    def is_enough(self, start: int, messages: Sequence[Message]) -> bool:
        """Whether older messages than these would not be shown anyway."""
        if self.mark is not None and start <= self.mark.through:
            return True
        return scaled(messages_tokens(messages), self.factor) >= self.policy.max_context_tokens

    def view(
        self,
        start: int,
        messages: Sequence[Message],
        tools: Sequence[ToolDescriptor],
        instructions: str,
        emitted: Emitted,
    ) -> tuple[tuple[Message, ...], ContextReport]:
        """What the model is shown of the conversation, whose first known entry is number `start`."""
        history = tuple(messages)
        has_more_before = start > 0
        if self.mark is not None and start <= self.mark.through:
            history = (summary_message(self.mark), *history[self.mark.through - start :])
            has_more_before = False
        prompt = Message(id="", role=Role.SYSTEM, content=(TextBlock(text=instructions),))
        reserved = message_tokens(prompt) + messages_tokens(emitted.messages)
        view = fit(history, tools, self.policy, factor=self.factor, reserved=reserved, has_more_before=has_more_before)
        report = ContextReport(
            estimated_tokens=view.estimated_tokens,
            history_tokens=history_tokens(history, factor=self.factor),
            dropped=view.dropped,
            cut=view.cut,
        )
        return view.messages, report
