"""Commands: everything a run can ask for. Each ends as exactly one fact that carries the command's id."""

from dataclasses import dataclass

from wakeful.contract.agents import ResolvedAgent, RetryPolicy
from wakeful.contract.context import ContextMessage
from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.inference import InferenceOverrides, Source, TranscriptRef
from wakeful.contract.messages import ToolCall
from wakeful.contract.permissions import Rule
from wakeful.contract.tools import ToolDescriptor

RESOLVE_ID = "resolve"

LOST_WORKERS = 5
"""How many workers may be lost while they wait for one answer."""


@dataclass(frozen=True)
class ResolveAgent:
    agent_id: str
    id: str = RESOLVE_ID


@dataclass(frozen=True)
class Infer:
    id: str
    agent: ResolvedAgent
    step: int
    transcript: TranscriptRef
    appended: tuple[Source, ...]
    frontend_tools: tuple[ToolDescriptor, ...]
    compaction: str | None = None
    factor: float | None = None
    context: tuple[ContextMessage, ...] = ()
    overrides: InferenceOverrides | None = None
    continuing: bool = False
    permissions: tuple[Rule, ...] = ()

    @property
    def model(self) -> str:
        """The model that is asked first, by its provider's name for it."""
        return (self.overrides and self.overrides.upstream_model) or self.agent.model.name

    @property
    def attempts(self) -> int:
        """How often it may be tried: each model with its retries, streams that broke off, and lost workers."""
        policy = self.agent.retry or RetryPolicy()
        wanted = self.overrides.fallback_upstream_models if self.overrides else None
        models = 1 + len(self.agent.fallbacks if wanted is None else wanted)
        return (1 + policy.max_retries) * models + policy.max_stream_retries + LOST_WORKERS


@dataclass(frozen=True)
class Compact:
    """Summarise the oldest messages, in the background."""

    id: str
    agent: ResolvedAgent
    transcript: TranscriptRef
    previous: str | None
    factor: float


@dataclass(frozen=True)
class CallTool:
    """Run a tool. When it is resumed, `call.arguments` are already what the decision makes of them.

    `agent` is the one whose gates are asked once more just before; without one there is nobody to ask.
    """

    id: str
    tool: ToolDescriptor
    call: ToolCall
    resume: ToolCallResume | None = None
    ticket: SuspensionTicket | None = None
    agent: ResolvedAgent | None = None
    permissions: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Stop:
    """Stop the work with this id and wait until it has stopped."""

    id: str


Command = ResolveAgent | Infer | Compact | CallTool | Stop
