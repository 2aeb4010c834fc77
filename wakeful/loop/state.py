"""The whole state of a run as one value, and what a fact makes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, assert_never

from pydantic import JsonValue

from wakeful.context.messages import ContextMessages
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import CompactionMark
from wakeful.contract.decisions import Decision, Refusal
from wakeful.contract.errors import InternalError
from wakeful.contract.events import AgentEvent
from wakeful.contract.inference import InferenceOverrides
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import (
    RunIdentity,
    RunStatus,
    ThreadMode,
    Usage,
)
from wakeful.contract.tools import ToolDescriptor
from wakeful.loop.calls import Batch
from wakeful.loop.commands import Command
from wakeful.loop.facts import Submitted
from wakeful.loop.stages import (
    AwaitingDecisions,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    Idle,
    Inferring,
    Resolving,
    Stage,
)
from wakeful.loop.transcript import Mark, Transcript
from wakeful.loop.transitions import check_run
from wakeful.loop.values import replace

REVISION = 3
"""The rules a new run is pinned to. Raise it with every change of what `advance` does, and branch on it there.

2: an answer that was cut off, has calls nobody can read, broke off, or does not fit its type is followed up.
3: what a decision says has to fit what was asked for, and the tool's parameters where it becomes its arguments.
"""

REMEMBERED = 2000
"""How many ids of messages and of suspensions a thread remembers, to know a repeat; it may live for years."""

P = ParamSpec("P")


@dataclass(frozen=True)
class Compaction:
    """A summary, and the activity that made it."""

    source: str
    mark: CompactionMark


@dataclass(frozen=True)
class ContextState:
    """What a thread knows about its context window."""

    messages: ContextMessages = ContextMessages()
    factor: float = 1.0
    compaction: Compaction | None = None
    compacting: str | None = None
    compactions: int = 0
    pressure: int = 0
    """The size that the newest summary was asked for."""
    skipped_at: int | None = None


@dataclass(frozen=True)
class RunState:
    """Everything a run is. `advance` is the only function that makes the next one."""

    identity: RunIdentity
    stage: Stage
    transcript: Transcript
    revision: int = REVISION
    """The rules the run is pinned to; until its agent is resolved, nothing asks for them."""
    resolved: ResolvedAgent | None = None
    mode: ThreadMode = ThreadMode.RUN
    began: Mark = Mark()
    """The transcript as it was before the run's own messages."""
    runs: int = 1
    inferences: int = 0
    context: ContextState = ContextState()
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    steps: int = 0
    step_open: bool = False
    rounds: int = 0
    continuations: int = 0
    """How often an answer that hit the token limit was gone on with."""
    repairs: int = 0
    """How often the model was asked to correct an answer that does not fit the agent's output type."""
    overrides: InferenceOverrides | None = None
    permissions: tuple[Rule, ...] = ()
    """What was decided for the thread once and for all; it survives its runs."""
    run_permissions: tuple[Rule, ...] = ()
    """What the run itself was begun with; a rule of these goes before the thread's for the same tool."""
    usage: Usage = Usage()
    response: str = ""
    output: JsonValue = None
    queued: tuple[Submitted, ...] = ()
    """Messages for later: the next run's, or, in a run of its own, this one's before it ends."""
    steering: tuple[Submitted, ...] = ()
    """Messages that the model reads at its next step."""
    seen_messages: tuple[str, ...] = ()
    held: tuple[tuple[Decision, ...], ...] = ()
    applied: frozenset[tuple[str, str]] = frozenset()
    """What was decided, by each name of the call, with the decision's id."""
    suspensions: tuple[str, ...] = ()
    """The suspension ids there were: an answer to one question must not fit the next."""
    refusals: tuple[Refusal, ...] = ()

    @property
    def status(self) -> RunStatus:
        return self.stage.status

    @property
    def agent(self) -> ResolvedAgent:
        if self.resolved is None:
            raise InternalError("the agent was needed before it was resolved")
        return self.resolved

    @property
    def batch(self) -> Batch | None:
        """The calls of the current step, while there are any."""
        match self.stage:
            case CallingTools(batch=batch) | AwaitingDecisions(batch=batch) | Cancelling(batch=batch):
                return batch
            case _:
                return None

    @property
    def in_flight(self) -> frozenset[str]:
        """The ids of the commands whose facts are still to come."""
        match self.stage:
            case Resolving(id=id):
                return frozenset({id})
            case Inferring(id=id):
                return frozenset({id})
            case CallingTools(batch=batch):
                return frozenset(call.id for call in batch.running)
            case Cancelling(in_flight=ids):
                return ids
            case AwaitingDecisions() | BetweenSteps() | Idle() | Done():
                return frozenset()
            case _:
                assert_never(self.stage)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The permissions in force besides the agent's own: the thread's, and over them the run's."""
        return tuple({rule.tool: rule for rule in (*self.permissions, *self.run_permissions)}.values())

    @property
    def next_alarm(self) -> int | None:
        """When the next suspended call wants to be looked at although nobody decided; None if none ever does."""
        if self.batch is None or isinstance(self.stage, Cancelling):
            return None
        alarms = [at for call in self.batch.suspended for at in call.alarms]
        return min(alarms, default=None)

    def entering(self, stage: Stage) -> "RunState":
        check_run(self.stage.status, stage.status)
        return replace(self, stage=stage)

    def tool(self, name: str) -> ToolDescriptor | None:
        """What the model means by a tool's name; a frontend tool wins over a registered one."""
        for tool in (*self.frontend_tools, *self.agent.tools):
            if tool.id == name:
                return tool
        return None


@dataclass(frozen=True)
class Advance:
    """What a fact made of a state: the next state, what to do, and what watchers see."""

    state: RunState
    commands: tuple[Command, ...] = ()
    events: tuple[AgentEvent, ...] = ()

    def then(self, move: Callable[Concatenate[RunState, P], "Advance"], *args: P.args, **kwargs: P.kwargs) -> "Advance":
        """Go on from here: one more move, with its commands and events after these."""
        following = move(self.state, *args, **kwargs)
        return Advance(following.state, self.commands + following.commands, self.events + following.events)

    def emitting(self, *events: AgentEvent) -> "Advance":
        return replace(self, events=self.events + events)
