"""Make the request: the conversation as it fits the window, what is told besides, the tools, and the settings."""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from wakeful.authoring.hook_requests import Wishes
from wakeful.context.compaction import summary_message
from wakeful.context.messages import Emitted, by_place, place
from wakeful.context.tokens import message_tokens, messages_tokens, scaled
from wakeful.context.window import fit
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import CompactionMark, ContextMessage, ContextPolicy, ContextReport
from wakeful.contract.inference import InferenceOverrides, InferInput, ModelRequest, ModelSettings
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.permissions import Rule
from wakeful.contract.tools import ToolDescriptor
from wakeful.permissions.rules import hidden_tools
from wakeful_activities.history_cache import Conversation, Memory


@dataclass(frozen=True)
class Shape:
    """What a request is made of besides the conversation."""

    context: tuple[ContextMessage, ...]
    """What the model is told with it."""
    permissions: tuple[Rule, ...]
    overrides: InferenceOverrides
    """With the agent's own settings where nobody wants it otherwise."""
    wishes: Wishes
    """What hooks want of this one request: the tools it shows, and the conversation."""

    @classmethod
    def of(cls, input: InferInput, agent: ResolvedAgent) -> "Shape":
        overrides = (input.overrides or InferenceOverrides()).over(agent.settings or ModelSettings())
        return cls(input.context, input.permissions, overrides, Wishes())


@dataclass(frozen=True)
class Prepared:
    """A request for no model in particular, how it fits the window, and the call ids that its thread has used."""

    request: ModelRequest
    report: ContextReport | None
    call_ids: Set[str]
    history: tuple[Message, ...]
    """The conversation as the request would show it if no hook had rewritten it."""


async def prepare(
    memory: Memory, input: InferInput, agent: ResolvedAgent, shape: Shape, *, squeeze: float = 1.0
) -> Prepared:
    """The request.

    Args:
        squeeze: cut the conversation to what would fit if estimates were this much too low.
    """
    hidden = hidden_tools(agent.permissions, shape.permissions)
    known = sorted(tools_by_id(input, agent).items())
    tools = tuple(tool for id, tool in known if id not in hidden and shape.wishes.shows(id))
    emitted, report, rewritten = by_place(shape.context), None, shape.wishes.messages
    if agent.context is None:
        conversation = await memory.transcript(input)
        history = conversation.since(0)
    else:
        mark = await memory.mark(input.compaction) if input.compaction else None
        window = Window(agent.context, mark, (input.factor or 1.0) * squeeze)
        conversation = await memory.transcript(input, enough=window.is_enough)
        history, report = window.view(conversation, tools, agent.instructions, emitted)
        if rewritten is not None:
            reserved = _reserved(agent.instructions, emitted)
            view = fit(rewritten, tools, agent.context, factor=window.factor, reserved=reserved)
            rewritten = view.messages
            # The factor is learnt from the request that was sent, and the summary is due by the thread's own size.
            sent = {"estimated_tokens": view.estimated_tokens, "dropped": view.dropped, "cut": view.cut}
            report = report.model_copy(update=sent)
    overrides = shape.overrides
    request = ModelRequest(
        model=agent.model.name,
        instructions=agent.instructions,
        messages=place((), history if rewritten is None else rewritten, emitted),
        tools=tools,
        settings=ModelSettings(**{name: getattr(overrides, name) for name in ModelSettings.model_fields}),
        output=agent.output,
        prompt_cache=not input.continuing and (agent.context is None or agent.context.enable_prompt_cache),
    )
    return Prepared(request, report if squeeze == 1.0 else None, conversation.call_ids, history)


def tools_by_id(input: InferInput, agent: ResolvedAgent) -> dict[str, ToolDescriptor]:
    """By id; the front end's go before the agent's own."""
    return {tool.id: tool for tool in (*agent.tools, *input.frontend_tools)}


def _reserved(instructions: str, emitted: Emitted) -> int:
    prompt = Message(id="", role=Role.SYSTEM, content=(TextBlock(text=instructions),))
    return message_tokens(prompt) + messages_tokens(emitted.messages)


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
