"""Build a model request: the part of the conversation that fits the window, context messages, tools and settings."""

from collections.abc import Sequence
from dataclasses import dataclass

from temporalio import activity

from wakeful.authoring.hook_requests import HookRequests
from wakeful.context.compaction import summary_message
from wakeful.context.messages import PlacedMessages, by_place, place
from wakeful.context.rejected import without_rejected
from wakeful.context.tokens import messages_tokens, request_tokens, scaled, text_tokens
from wakeful.context.window import beginning_with_user, cut_message, fit, shortened
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import CompactionMark, ContextMessage, ContextPolicy, ContextReport
from wakeful.contract.inference import InferInput, ModelRequest
from wakeful.contract.mail import with_escaped_tags
from wakeful.contract.messages import Message
from wakeful.contract.model_settings import InferenceOverrides, ModelSettings
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity
from wakeful.contract.tools import ToolDescriptor
from wakeful.permissions.rules import hidden_tools, run_context
from wakeful_activities.history_cache import CachedTranscript, HistoryCache

QUOTED_CHARS = 4_000
"""What a request that would begin with an answer quotes of the user's message before it."""


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
        requests = HookRequests()
        if input.changes is not None:
            requests.change_request(input.changes)
            overrides = requests.overrides.over(overrides)
        return cls(input.context, input.permissions, overrides, requests)


@dataclass(frozen=True)
class BuiltRequest:
    """A request for any of the agent's models, and its size."""

    request: ModelRequest
    report: ContextReport | None
    history: tuple[Message, ...]
    """The conversation as the request would include it if no hook had rewritten it."""
    factor: float
    """The calibrated factor of token estimates."""

    @property
    def tokens(self) -> int:
        """The estimate for the whole request. Counting takes time, so do it only where it is needed."""
        return scaled(request_tokens(self.request), self.factor)


async def build_request(
    cache: HistoryCache, input: InferInput, agent: ResolvedAgent, shape: RequestShape, *, limit: int | None = None
) -> BuiltRequest:
    """Build the request. Without a context policy it includes the whole conversation, from its summary on.

    Args:
        limit: the most tokens of the request, if the provider has rejected a longer one.
    """
    context = run_context(identity_of(input, agent), await cache.metadata(input.metadata))
    hidden = hidden_tools(agent.permissions, shape.permissions, context=context)
    known = sorted(tools_by_id(input, agent).items())
    tools = tuple(tool for id, tool in known if id not in hidden and shape.requests.shows(id))
    emitted, report, rewritten = by_place(shape.context), None, shape.requests.messages
    mark = await cache.mark(input.compaction) if input.compaction else None
    policy, factor = (agent.context or ContextPolicy()).limited(limit), input.token_factor or 1.0
    if agent.context is None and limit is None:
        start = mark.through if mark else 0
        history = _whole(await cache.transcript(input, is_enough=lambda newest: newest.start <= start), mark)
    else:
        window, reserved = _Window(policy, mark, factor, limit), _reserved_tokens(agent.instructions, emitted)
        transcript = await cache.transcript(input, is_enough=window.is_enough)
        leading = () if window.uses_mark(transcript) else await cache.leading(transcript)
        history, report = window.view(transcript, leading, tools, reserved)
        if rewritten is not None:
            view = fit(rewritten, tools, policy, factor=factor, reserved=reserved)
            rewritten = view.messages
            # The token factor is learned from the request that is sent; compaction depends on the thread's own size.
            sent = {"estimated_tokens": view.estimated_tokens, "dropped": view.dropped, "cut": view.cut}
            report = report.model_copy(update=sent)
    overrides, read = shape.overrides, history if rewritten is None else rewritten
    request = ModelRequest(
        model=agent.model.name,
        instructions=agent.instructions,
        messages=place((), without_rejected(tuple(map(with_escaped_tags, read))), emitted),
        tools=tools,
        settings=ModelSettings(**{name: getattr(overrides, name) for name in ModelSettings.model_fields}),
        output=agent.output,
        prompt_cache=not input.continuing and overrides.prompt_cache is not False and policy.enable_prompt_cache,
    )
    return BuiltRequest(request, report, history, factor)


def tools_by_id(input: InferInput, agent: ResolvedAgent) -> dict[str, ToolDescriptor]:
    """The tools that the model may call; the front end brings only those that may replace the agent's."""
    return {tool.id: tool for tool in (*agent.tools, *input.frontend_tools)}


def identity_of(input: InferInput, agent: ResolvedAgent) -> RunIdentity:
    """The run; if nothing of the agent asks whose it is, only what Temporal says of it."""
    info = activity.info()
    return input.identity or RunIdentity(
        thread_id=info.workflow_id or "", run_id=info.workflow_run_id or "", agent_id=agent.agent_id
    )


def _whole(known: CachedTranscript, mark: CompactionMark | None) -> tuple[Message, ...]:
    """The whole conversation, from its summary on if it has one."""
    if mark is None:
        return known.since(0)
    rest = (summary_message(mark), *known.since(mark.through))
    return beginning_with_user(rest, lambda: known.before(mark.through), chars=QUOTED_CHARS)


@dataclass(frozen=True)
class _Window:
    """A context policy, applied to one thread."""

    policy: ContextPolicy
    mark: CompactionMark | None
    factor: float
    limit: int | None = None

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
        tail = known.since(newest)
        if self.limit is not None:  # a single message may be longer than the model's window
            tail = tuple(cut_message(shortened(message), self.limit * 2) for message in tail)
        view = fit((*head, *tail), tools, self.policy, factor=self.factor, reserved=reserved)
        dropped = view.dropped + newest - first
        chars = min(QUOTED_CHARS, self.policy.max_input_tokens // 2)
        messages = beginning_with_user(view.messages, lambda: known.before(first + dropped), chars=chars)
        added = messages_tokens(messages) - messages_tokens(view.messages)
        report = ContextReport(
            estimated_tokens=view.estimated_tokens + scaled(added, self.factor),
            history_tokens=scaled(messages_tokens(head) + known.tokens_since(first), self.factor),
            dropped=dropped,
            cut=view.cut,
            limit=self.limit,
        )
        return messages, report


def _reserved_tokens(instructions: str, emitted: PlacedMessages) -> int:
    """The tokens of what every request includes: the instructions and the context messages."""
    return text_tokens(instructions) + messages_tokens(emitted.messages)
