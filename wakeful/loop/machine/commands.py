"""Commands: everything a thread can ask the workflow to do.

A command that schedules an activity or sends a signal ends as exactly one `WorkFact` with its id. A child reports with
`ChildIdAssigned` and then `ChildSettled` or `ChildClosed`. A cancel has no fact of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from wakeful.contract import ids
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import Wire
from wakeful.contract.context import ContextMessage
from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.hooks import LifecyclePhase, RequestChanges
from wakeful.contract.inference import Source, TranscriptRef
from wakeful.contract.mail import AgentMessage
from wakeful.contract.messages import ToolCall
from wakeful.contract.model_settings import InferenceOverrides
from wakeful.contract.permissions import Rule
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import RunResult
from wakeful.contract.state import StateView
from wakeful.contract.subagents import ChildResult
from wakeful.contract.tools import ToolDescriptor
from wakeful.permissions.rules import read_context

NOTIFY_PARENT_ID = ids.work_id(ids.NotifyParent())


@dataclass(frozen=True)
class ResolveAgent:
    id: str
    agent_id: str
    in_task: bool = False
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True)
class Infer:
    """Call the model."""

    id: str
    agent: ResolvedAgent
    step: int
    transcript: TranscriptRef
    appended: tuple[Source, ...]
    frontend_tools: tuple[ToolDescriptor, ...]
    compaction: str | None = None
    token_factor: float | None = None
    context: tuple[ContextMessage, ...] = ()
    overrides: InferenceOverrides | None = None
    continuing: bool = False
    permissions: tuple[Rule, ...] = ()
    questions: tuple[tuple[Rule, ...], ...] = ()
    state: StateView | None = None
    """For hooks."""
    ended_step: int = 0
    """The previous step, if its `step_end` hooks run with this inference."""
    changes: RequestChanges | None = None
    """What hooks and tools requested for this request before it."""
    lineage: str = ""
    live: bool = False
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def is_judged(self) -> bool:
        """Whether gates, hooks or permission rules have to know whose run it is."""
        return bool(self.agent.gates or self.state or read_context(self.agent.permissions, self.permissions))

    @property
    def model(self) -> str:
        """The model that is tried first, by its provider's name for it."""
        return (self.overrides and self.overrides.upstream_model) or self.agent.model.name


@dataclass(frozen=True)
class Compact:
    """Summarise the oldest messages, in the background."""

    id: str
    agent: ResolvedAgent
    transcript: TranscriptRef
    previous: str | None
    token_factor: float
    limit: int | None = None


@dataclass(frozen=True)
class CallTool:
    """Execute a tool call. If a decision resumed it, `call.arguments` are already the arguments to run it with.

    `agent` is set if its gates and hooks are to be asked again just before.
    """

    id: str
    tool: ToolDescriptor
    call: ToolCall
    resume: ToolCallResume | None = None
    ticket: SuspensionTicket | None = None
    agent: ResolvedAgent | None = None
    permissions: tuple[Rule, ...] = ()
    questions: tuple[tuple[Rule, ...], ...] = ()
    state: StateView | None = None
    """For the tool and for hooks."""
    step: int = 0
    live: bool = False
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True)
class CancelWork:
    """Cancel the command with this id; its fact follows when it has stopped."""

    id: str


@dataclass(frozen=True)
class StartChild:
    """Start a sub-agent in a child workflow. It gets its thread id at once, and reports its end itself."""

    id: str
    request: RunRequest
    name: str
    """The readable part of its thread id: its agent. Until revision 2, the name that the model gave the task."""
    counted: bool = False
    """Whether it asks its parent before it starts agents of its own."""


@dataclass(frozen=True)
class StartTask:
    """Run a tool in the background, in a child workflow. It gets its thread id at once, and reports its end itself."""

    id: str
    tool: ToolDescriptor
    call: ToolCall
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True)
class CancelChild:
    """Signal a sub-agent or task to cancel, with all its descendants; it reports when it has stopped."""

    id: str
    thread_id: str
    reason: str | None = None


@dataclass(frozen=True)
class SendSignal:
    """Signal a thread that is running."""

    id: str
    thread_id: str
    signal: str
    payload: Wire


@dataclass(frozen=True)
class DeliverMessage:
    """Deliver a message to a thread, and wake the thread if it is closed."""

    id: str
    message: AgentMessage


@dataclass(frozen=True)
class NotifyParent:
    """Report this sub-agent's result before its workflow completes; a closed parent is woken for a task."""

    parent_thread_id: str
    result: ChildResult
    is_task: bool
    id: str = NOTIFY_PARENT_ID


@dataclass(frozen=True)
class RunHooks:
    """Run the lifecycle hooks of the agent's plugins."""

    id: str
    agent: ResolvedAgent
    phases: tuple[LifecyclePhase, ...]
    step: int
    state: StateView
    response: str = ""
    result: RunResult | None = None
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


Command = (
    ResolveAgent
    | Infer
    | Compact
    | CallTool
    | CancelWork
    | StartChild
    | StartTask
    | CancelChild
    | SendSignal
    | DeliverMessage
    | NotifyParent
    | RunHooks
)
