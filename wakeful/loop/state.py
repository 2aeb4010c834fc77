"""The whole state of a run as one value. Stages and calls are unions, so that a wrong state cannot be said."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Concatenate, Literal, ParamSpec

from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.decisions import Decision, Refusal, SuspensionTicket, ToolCallResume
from wakeful.contract.errors import InternalError
from wakeful.contract.events import AgentEvent
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import RunIdentity, RunResult, RunStatus, ToolCallStatus, Usage
from wakeful.contract.tools import ToolDescriptor, ToolResult
from wakeful.loop.commands import RESOLVE_ID, Command
from wakeful.loop.facts import Submitted
from wakeful.loop.transcript import Transcript
from wakeful.loop.transitions import check_run, check_tool_call

REVISION = 1
"""The rules a new run is pinned to. Raise it with every change of what `advance` does, and branch on it there."""

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class NewCall:
    call: ToolCall

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.NEW


@dataclass(frozen=True, slots=True)
class RunningCall:
    """`id` names the work in flight; `grants` counts the decisions that let the call run again."""

    call: ToolCall
    id: str
    grants: int = 0

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.RUNNING


@dataclass(frozen=True, slots=True)
class SuspendedCall:
    call: ToolCall
    ticket: SuspensionTicket
    since: int
    grants: int = 0

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.SUSPENDED


@dataclass(frozen=True, slots=True)
class ResumingCall:
    """A suspended call that a decision let go on."""

    call: ToolCall
    ticket: SuspensionTicket
    resume: ToolCallResume
    grants: int

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.RESUMING


SettledStatus = Literal[ToolCallStatus.SUCCEEDED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED]


@dataclass(frozen=True, slots=True)
class SettledCall:
    """`source` is the activity whose recorded result this is; without one the loop itself made the result."""

    call: ToolCall
    status: SettledStatus
    result: ToolResult
    source: str | None = None


Call = NewCall | RunningCall | SuspendedCall | ResumingCall | SettledCall


@dataclass(frozen=True, slots=True)
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
    def new(self) -> tuple[NewCall, ...]:
        return tuple(call for call in self.calls if isinstance(call, NewCall))


@dataclass(frozen=True, slots=True)
class Resolving:
    status = RunStatus.CREATED


@dataclass(frozen=True, slots=True)
class Inferring:
    id: str
    message_id: str
    since: int
    status = RunStatus.RUNNING


@dataclass(frozen=True, slots=True)
class CallingTools:
    batch: Batch
    status = RunStatus.RUNNING


@dataclass(frozen=True, slots=True)
class AwaitingDecisions:
    batch: Batch
    status = RunStatus.WAITING


@dataclass(frozen=True, slots=True)
class BetweenSteps:
    """A step is committed and the next has not begun; no fact ever meets a run here."""

    status = RunStatus.RUNNING


@dataclass(frozen=True, slots=True)
class Cancelling:
    """Told to stop, waiting until what is in flight has stopped."""

    in_flight: frozenset[str]
    batch: Batch | None
    reason: str | None
    status = RunStatus.RUNNING


@dataclass(frozen=True, slots=True)
class Done:
    result: RunResult
    status = RunStatus.DONE


Stage = Resolving | Inferring | CallingTools | AwaitingDecisions | BetweenSteps | Cancelling | Done


@dataclass(frozen=True, slots=True)
class RunState:
    """Everything a run is. `advance` is the only function that makes the next one."""

    identity: RunIdentity
    stage: Stage
    transcript: Transcript
    revision: int = REVISION
    resolved: ResolvedAgent | None = None
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    steps: int = 0
    step_open: bool = False
    rounds: int = 0
    usage: Usage = Usage()
    response: str = ""
    queued: tuple[Submitted, ...] = ()
    seen_messages: frozenset[str] = frozenset()
    held: tuple[tuple[Decision, ...], ...] = ()
    applied: frozenset[tuple[str, str]] = frozenset()
    """What was decided, by each name of the call, with the decision's id."""
    suspensions: frozenset[str] = frozenset()
    """Every suspension id there ever was: an answer to one question must not fit the next."""
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
            case Resolving():
                return frozenset({RESOLVE_ID})
            case Inferring(id=id):
                return frozenset({id})
            case CallingTools(batch=batch):
                return frozenset(call.id for call in batch.running)
            case Cancelling(in_flight=ids):
                return ids
            case AwaitingDecisions() | BetweenSteps() | Done():
                return frozenset()

    def entering(self, stage: Stage) -> "RunState":
        check_run(self.stage.status, stage.status)
        return replace(self, stage=stage)

    def tool(self, name: str) -> ToolDescriptor | None:
        """What the model means by a tool's name; a frontend tool wins over a registered one."""
        for tool in (*self.frontend_tools, *self.agent.tools):
            if tool.id == name:
                return tool
        return None


@dataclass(frozen=True, slots=True)
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
