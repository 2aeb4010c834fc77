"""Build a model request: the part of the conversation that fits the window, context messages, tools and settings."""

from collections.abc import Sequence
from dataclasses import dataclass

from wakeful.authoring.hook_requests import HookRequests
from wakeful.context.compaction import summary_message
from wakeful.context.messages import PlacedMessages, by_place, place
from wakeful.context.tokens import message_tokens, messages_tokens, scaled
from wakeful.context.window import fit
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import CompactionMark, ContextMessage, ContextPolicy, ContextReport
from wakeful.contract.inference import InferInput, ModelRequest
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.model_settings import InferenceOverrides, ModelSettings
from wakeful.contract.permissions import Rule
from wakeful.contract.tools import ToolDescriptor
from wakeful.permissions.rules import hidden_tools
from wakeful_activities.history_cache import CachedTranscript, HistoryCache


@dataclass(frozen=True)
class RequestShape:
    """What a request consists of besides the conversation."""

    context: tuple[ContextMessage, ...]
    permissions: tuple[Rule, ...]
    overrides: InferenceOverrides
    """Completed by the agent's own settings."""
    requests: HookRequests
    """What hooks change in this request: the tools it includes, and the conversation."""

    @classmethod
    def of(cls, input: InferInput, agent: ResolvedAgent) -> "RequestShape":
        overrides = (input.overrides or InferenceOverrides()).over(agent.settings or ModelSettings())
        return cls(input.context, input.permissions, overrides, HookRequests())


@dataclass(frozen=True)
class BuiltRequest:
    """A request for any of the agent's models, and its size."""

    request: ModelRequest
    report: ContextReport | None
    history: tuple[Message, ...]
    """The conversation as the request would include it if no hook had rewritten it."""


async def build_request(
    cache: HistoryCache, input: InferInput, agent: ResolvedAgent, shape: RequestShape, *, squeeze: float = 1.0
) -> BuiltRequest:
    """Build the request.

    Args:
        squeeze: cut the conversation to what would fit if token estimates were this much too low.
    """
    hidden = hidden_tools(agent.permissions, shape.permissions)
    known = sorted(tools_by_id(input, agent).items())
    tools = tuple(tool for id, tool in known if id not in hidden and shape.requests.shows(id))
    emitted, report, rewritten = by_place(shape.context), None, shape.requests.messages
    if agent.context is None:
        history = (await cache.transcript(input)).since(0)
    else:
        mark = await cache.mark(input.compaction) if input.compaction else None
        window = _Window(agent.context, mark, (input.token_factor or 1.0) * squeeze)
        reserved = _reserved_tokens(agent.instructions, emitted)
        transcript = await cache.transcript(input, is_enough=window.is_enough)
        leading = () if window.uses_mark(transcript) else await cache.leading(transcript)
        history, report = window.view(transcript, leading, tools, reserved)
        if rewritten is not None:
            view = fit(rewritten, tools, agent.context, factor=window.factor, reserved=reserved)
            rewritten = view.messages
            # The token factor is learned from the request that is sent; compaction depends on the thread's own size.
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
    return BuiltRequest(request, report if squeeze == 1.0 else None, history)


def tools_by_id(input: InferInput, agent: ResolvedAgent) -> dict[str, ToolDescriptor]:
    """The tools that the model may call; the front end's take precedence over the agent's."""
    return {tool.id: tool for tool in (*agent.tools, *input.frontend_tools)}


@dataclass(frozen=True)
class _Window:
    """A context policy, applied to one thread."""

    policy: ContextPolicy
    mark: CompactionMark | None
    factor: float

    def is_enough(self, known: CachedTranscript) -> bool:
        """Whether the request could not include older messages than these."""
        if self.uses_mark(known):
            return True
        return scaled(known.tokens_since(known.start), self.factor) >= self.policy.max_context_tokens

    def uses_mark(self, known: CachedTranscript) -> bool:
        """Whether the request includes a summary instead of the oldest messages, leading system messages included."""
        return self.mark is not None and known.start <= self.mark.through

    def view(
        self, known: CachedTranscript, leading: tuple[Message, ...], tools: Sequence[ToolDescriptor], reserved: int
    ) -> tuple[tuple[Message, ...], ContextReport]:
        """The part of the conversation that the request includes, after its `leading` system messages.

        It reads only messages that could be included: a request costs the same in a long thread as in a short one.
        """
        head, first = leading, max(known.start, len(leading))
        if self.mark is not None and self.uses_mark(known):
            head, first = (summary_message(self.mark),), self.mark.through
        fits = known.newest(int(self.policy.max_context_tokens / self.factor))
        newest = max(first, min(fits, known.length - self.policy.min_recent_messages))
        view = fit(
            (*head, *known.since(newest)),
            tools,
            self.policy,
            factor=self.factor,
            reserved=reserved,
        )
        report = ContextReport(
            estimated_tokens=view.estimated_tokens,
            history_tokens=scaled(messages_tokens(head) + known.tokens_since(first), self.factor),
            dropped=view.dropped + newest - first,
            cut=view.cut,
        )
        return view.messages, report


def _reserved_tokens(instructions: str, emitted: PlacedMessages) -> int:
    """The tokens of what every request includes: the instructions and the context messages."""
    prompt = Message(id="", role=Role.SYSTEM, content=(TextBlock(text=instructions),))
    return message_tokens(prompt) + messages_tokens(emitted.messages)
