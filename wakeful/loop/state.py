"""The whole state of a run as one value. Stages and calls are unions, so that a wrong state cannot be said."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, Concatenate, Literal, ParamSpec, assert_never

from pydantic import Field, JsonValue

from wakeful.context.messages import ContextMessages
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.context import CompactionMark, ContextMessage
from wakeful.contract.decisions import Decision, Refusal, SuspensionTicket, ToolCallResume
from wakeful.contract.errors import InternalError
from wakeful.contract.events import AgentEvent
from wakeful.contract.inference import InferenceOverrides, ModelResponse
from wakeful.contract.messages import ToolCall
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import (
    Cancelled,
    RunIdentity,
    RunResult,
    RunStatus,
    Termination,
    ThreadMode,
    ToolCallStatus,
    Usage,
)
from wakeful.contract.tools import ToolDescriptor, ToolResult
from wakeful.loop.commands import RESOLVE_ID, Command
from wakeful.loop.facts import Submitted
from wakeful.loop.transcript import Mark, Transcript
from wakeful.loop.transitions import check_run, check_tool_call
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
class NewCall:
    call: ToolCall
    kind: Literal["new"] = "new"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.NEW


@dataclass(frozen=True)
class RunningCall:
    """`id` names the work in flight; `grants` counts the decisions that let the call run (again).

    `edited` are the arguments that a decision put in place of the model's; they hold until the next one edits them.
    """

    call: ToolCall
    id: str
    grants: int = 0
    resume: ToolCallResume | None = None
    ticket: SuspensionTicket | None = None
    edited: JsonValue = None
    kind: Literal["running"] = "running"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.RUNNING


@dataclass(frozen=True)
class SuspendedCall:
    """`gated`: a gate asked for it before the tool ran, so other calls of the step go on."""

    call: ToolCall
    ticket: SuspensionTicket
    since: int
    grants: int = 0
    edited: JsonValue = None
    gated: bool = False
    escalated: bool = False
    """Watchers were told that its decision is overdue."""
    kind: Literal["suspended"] = "suspended"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.SUSPENDED

    @property
    def alarms(self) -> tuple[int, ...]:
        """When time alone will do something about it: the milliseconds since 1970 that are still to come."""
        escalates_at = None if self.escalated else self.ticket.escalates_at
        return tuple(at for at in (self.ticket.expires_at, escalates_at) if at is not None)


@dataclass(frozen=True)
class ResumingCall:
    """A suspended call that a decision let go on; where calls run one by one, it waits for its turn."""

    call: ToolCall
    ticket: SuspensionTicket
    resume: ToolCallResume
    grants: int
    edited: JsonValue = None
    kind: Literal["resuming"] = "resuming"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.RESUMING


SettledStatus = Literal[ToolCallStatus.SUCCEEDED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED]


@dataclass(frozen=True)
class SettledCall:
    """`source` is the activity whose recorded result this is; without one the loop itself made the result."""

    call: ToolCall
    status: SettledStatus
    result: ToolResult
    source: str | None = None
    kind: Literal["settled"] = "settled"


Call = Annotated[NewCall | RunningCall | SuspendedCall | ResumingCall | SettledCall, Field(discriminator="kind")]


@dataclass(frozen=True)
class Batch:
    """The tool calls of one step, in the model's order, with the answer that asked for them."""

    inference_id: str
    message_id: str
    response: ModelResponse
    calls: tuple[Call, ...]

    def find(self, target: str) -> Call | None:
        """The call with this id, else the one suspended under this suspension id."""
        for call in self.calls:
            if call.call.id == target:
                return call
        for call in self.calls:
            if isinstance(call, SuspendedCall) and call.ticket.suspension.id == target:
                return call
        return None

    def with_call(self, after: Call) -> "Batch":
        """The batch with one call moved on; an edge that the table does not have is a bug, and loud."""
        moved = []
        for before in self.calls:
            if before.call.id == after.call.id:
                check_tool_call(before.status, after.status)
                moved.append(after)
            else:
                moved.append(before)
        return replace(self, calls=tuple(moved))

    @property
    def running(self) -> tuple[RunningCall, ...]:
        return tuple(call for call in self.calls if isinstance(call, RunningCall))

    @property
    def suspended(self) -> tuple[SuspendedCall, ...]:
        return tuple(call for call in self.calls if isinstance(call, SuspendedCall))

    @property
    def resuming(self) -> tuple[ResumingCall, ...]:
        return tuple(call for call in self.calls if isinstance(call, ResumingCall))

    @property
    def new(self) -> tuple[NewCall, ...]:
        return tuple(call for call in self.calls if isinstance(call, NewCall))

    def before(self, id: str) -> tuple[Call, ...]:
        """The calls that the model asked for before this one."""
        return tuple(takewhile(lambda call: call.call.id != id, self.calls))


@dataclass(frozen=True)
class Resolving:
    id: str = RESOLVE_ID
    kind: Literal["resolving"] = "resolving"
    status = RunStatus.CREATED


@dataclass(frozen=True)
class Inferring:
    """`told` counts the entries that this inference is the first to hear of."""

    id: str
    message_id: str
    since: int
    told: int = 0
    context: tuple[ContextMessage, ...] = ()
    continuing: bool = False
    """The answer before was cut off, and this one goes on with it."""
    kind: Literal["inferring"] = "inferring"
    status = RunStatus.RUNNING


@dataclass(frozen=True)
class CallingTools:
    batch: Batch
    kind: Literal["calling_tools"] = "calling_tools"
    status = RunStatus.RUNNING


@dataclass(frozen=True)
class AwaitingDecisions:
    batch: Batch
    kind: Literal["awaiting_decisions"] = "awaiting_decisions"
    status = RunStatus.WAITING


@dataclass(frozen=True)
class BetweenSteps:
    """A step is committed and the next has not begun; no fact ever meets a run here."""

    kind: Literal["between_steps"] = "between_steps"
    status = RunStatus.RUNNING


class Afterwards(StrEnum):
    """What follows a run that is being cancelled."""

    END = "end"
    NEXT_RUN = "next_run"
    """Somebody interrupted it: their messages are next."""
    ROLL_BACK = "roll_back"
    """The same, and what the cancelled run said and heard is undone."""
    CLOSE = "close"
    """The whole thread ends."""


@dataclass(frozen=True)
class Cancelling:
    """Told to stop, by somebody or by a gate; waiting until what is in flight has stopped."""

    in_flight: frozenset[str]
    batch: Batch | None
    reason: str | None
    then: Afterwards = Afterwards.END
    since: int = 0
    """When the model was asked, if it is its answer that is in flight."""
    termination: Termination = Cancelled()
    """How the run ends when it has stopped; `Blocked` if it was a gate that stopped it."""
    kind: Literal["cancelling"] = "cancelling"
    status = RunStatus.RUNNING


@dataclass(frozen=True)
class Done:
    result: RunResult
    kind: Literal["done"] = "done"
    status = RunStatus.DONE


@dataclass(frozen=True)
class Idle:
    """A thread between two runs; `result` is the last one's."""

    result: RunResult | None = None
    kind: Literal["idle"] = "idle"
    status = RunStatus.DONE


Stage = Annotated[
    Resolving | Inferring | CallingTools | AwaitingDecisions | BetweenSteps | Cancelling | Idle | Done,
    Field(discriminator="kind"),
]


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
