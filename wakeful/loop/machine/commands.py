"""Commands: everything a run can ask for. Each ends as exactly one fact that carries the command's id."""

from dataclasses import dataclass

from wakeful.contract.agents import ResolvedAgent, RetryPolicy
from wakeful.contract.base import Wire
from wakeful.contract.context import ContextMessage
from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.hooks import Moment
from wakeful.contract.inference import InferenceOverrides, Source, TranscriptRef
from wakeful.contract.mail import Letter
from wakeful.contract.messages import ToolCall
from wakeful.contract.permissions import Rule
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import RunResult
from wakeful.contract.state import StateView
from wakeful.contract.subagents import Settled
from wakeful.contract.tools import ToolDescriptor

RESOLVE_ID = "resolve"
SETTLE_ID = "settle"

LOST_WORKERS = 5
"""How many workers may be lost while they wait for one answer."""


@dataclass(frozen=True)
class ResolveAgent:
    agent_id: str
    id: str = RESOLVE_ID
    in_task: bool = False


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
    state: StateView | None = None
    """For hooks."""
    ended: int = 0
    """The step before, if hooks are still to hear of its end."""

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
    state: StateView | None = None
    """For the tool and for hooks."""
    step: int = 0


@dataclass(frozen=True)
class Stop:
    """Stop the work with this id and wait until it has stopped."""

    id: str


@dataclass(frozen=True)
class StartChild:
    """Start a sub-agent under a thread of its own. It is named at once, and tells its end itself."""

    id: str
    request: RunRequest
    name: str
    """What its thread is called by, under its parent's: an agent, or a task's name."""


@dataclass(frozen=True)
class StartTask:
    """Run a tool in the background, in a workflow of its own. It is named at once, and tells its end itself."""

    id: str
    tool: ToolDescriptor
    call: ToolCall


@dataclass(frozen=True)
class CancelChild:
    """Ask a sub-agent or task to stop, with everything below it; it tells when it has."""

    id: str
    thread_id: str
    reason: str | None = None


@dataclass(frozen=True)
class Tell:
    """Signal a thread that is awake."""

    id: str
    thread_id: str
    signal: str
    payload: Wire


@dataclass(frozen=True)
class Deliver:
    """Bring a letter to its thread, awake or not."""

    id: str
    letter: Letter


@dataclass(frozen=True)
class Settle:
    """Tell the owner that this sub-agent has ended, before its workflow does; one who sleeps is woken for a task."""

    owner_thread_id: str
    settled: Settled
    is_task: bool
    id: str = SETTLE_ID


@dataclass(frozen=True)
class RunHooks:
    """Run the hooks that plugins of the agent have for these moments."""

    id: str
    agent: ResolvedAgent
    moments: tuple[Moment, ...]
    step: int
    state: StateView
    response: str = ""
    result: RunResult | None = None


Command = (
    ResolveAgent
    | Infer
    | Compact
    | CallTool
    | Stop
    | StartChild
    | StartTask
    | CancelChild
    | Tell
    | Deliver
    | Settle
    | RunHooks
)
