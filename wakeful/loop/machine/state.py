"""The whole state of a run as one value, and what a fact makes of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, assert_never

from pydantic import JsonValue

from wakeful.context.messages import ContextMessages
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.context import CompactionMark
from wakeful.contract.decisions import Decision, Refusal
from wakeful.contract.errors import InternalError
from wakeful.contract.events import AgentEvent
from wakeful.contract.inference import InferenceOverrides
from wakeful.contract.mail import DeadLetter, Letter
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import CancelReceipt, RunIdentity, RunStatus, Termination, ThreadMode, Usage
from wakeful.contract.subagents import Loan
from wakeful.contract.tasks import Task
from wakeful.contract.tools import ToolDescriptor
from wakeful.loop.calls.batch import Batch
from wakeful.loop.machine.commands import Command
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import (
    AwaitingBudget,
    AwaitingDecisions,
    AwaitingTasks,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    HandingOver,
    Hooking,
    Idle,
    Inferring,
    Resolving,
    Stage,
)
from wakeful.loop.machine.transitions import check_run
from wakeful.loop.step.agent_state import Values
from wakeful.loop.thread.fork_points import Point
from wakeful.loop.thread.transcript import Mark, Transcript

REVISION = 4
"""The rules a new run is pinned to. Raise it with every change of what `advance` does, and branch on it there.

2: an answer that was cut off, has calls nobody can read, broke off, or does not fit its type is followed up.
3: what a decision says has to fit what was asked for, and the tool's parameters where it becomes its arguments.
4: watchers are told the thread of a sub-agent or task as soon as it has one.
"""

REMEMBERED = 2000
"""How many ids of messages and of suspensions a thread remembers, to know a repeat; it may live for years."""

KEPT_RULES = 200
"""How many permissions a thread remembers of decisions, and a run of its hooks; the oldest are forgotten."""

P = ParamSpec("P")


def letter_id(letter: Letter) -> str:
    """The name of the work that sends a dead letter again."""
    return f"letter-{letter.message_id}"


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
    work_id: str | None = None
    """Of a sub-agent: what its parent calls it, and is told its end under."""
    tasks: tuple[Task, ...] = ()
    """The thread's background tasks: all that run, and the newest of those that ended."""
    spawned: int = 0
    """How many tasks the thread has ever had: the next one's number."""
    active_agent: str | None = None
    """Who answers on the thread by now, if it was handed over; it survives its runs."""
    requested_agent: str | None = None
    """Who is to go on with the run from its next step."""
    handoffs: int = 0
    letters: tuple[DeadLetter, ...] = ()
    """Messages to others that could not be delivered."""
    returning: tuple[Letter, ...] = ()
    """Letters that came too late and are on their way back."""
    outbox: tuple[Letter, ...] = ()
    """Dead letters that are being sent again; the first one is on its way."""
    calls_made: int = 0
    """Tool calls of the run, for its budget."""
    budget: Budget = Budget()
    """What the run may spend, with everything it starts, by its request and its agent."""
    allowance: Budget | None = None
    """Of a sub-agent: what its parent lets it spend, in all."""
    lent: tuple[tuple[str, Budget], ...] = ()
    """What the sub-agents that run may spend, by their work ids."""
    loans: tuple[Loan, ...] = ()
    """Sub-agents that asked for more while the parent was asked itself."""
    below: Spent = Spent()
    """What the sub-agents of the run that have ended have spent."""
    deadline: int | None = None
    """When the wall time of the run, or of the whole tree, is spent."""
    receipt: CancelReceipt | None = None
    """What was stopped below the run when it was cancelled."""

    values: Values = Values()
    """What the agents keep beside the conversation."""
    wanted_end: Termination | None = None
    """How hooks want the run to end, at its next step."""
    hooked: int = 0
    """The step whose end hooks have heard of."""
    has_left: bool = False
    """The agent that hands the run over has heard of it."""
    hookings: int = 0
    """How often hooks had an activity of their own, for its name."""
    began_at: int = 0
    """When the run began, in milliseconds since 1970."""
    failed_rounds: int = 0
    """Rounds in a row in which every tool call failed."""
    said: tuple[str, ...] = ()
    """Digests of the newest answers."""
    refused_calls: bool = False
    """Calls were not made because the budget for them is spent."""

    def find_task(self, name: str) -> Task | None:
        """A task that runs, by its id or else by its name."""
        by_id = (task for task in self.running_tasks if task.task_id == name)
        by_name = (task for task in self.running_tasks if task.name == name)
        return next(by_id, None) or next(by_name, None)

    @property
    def running_tasks(self) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if not task.status.is_terminal)

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
            case Inferring(id=id) | HandingOver(id=id) | Hooking(id=id):
                return frozenset({id})
            case CallingTools(batch=batch):
                return frozenset(call.id for call in batch.running if call.awaits is None)
            case Cancelling(in_flight=ids):
                return ids
            case AwaitingDecisions() | AwaitingTasks() | AwaitingBudget() | BetweenSteps() | Idle() | Done():
                return frozenset()
            case _:
                assert_never(self.stage)

    @property
    def bound(self) -> frozenset[str]:
        """What is in flight and would be lost if the execution ended here; sub-agents have workflows of their own."""
        named = {call.id for call in self.batch.running if call.child is not None} if self.batch else set()
        sending = {letter_id(letter) for letter in self.outbox[:1]}
        return (self.in_flight - named - {task.task_id for task in self.running_tasks}) | sending

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The permissions in force besides the agent's own: the thread's, and over them the run's."""
        return tuple({rule.tool: rule for rule in (*self.permissions, *self.run_permissions)}.values())

    @property
    def point(self) -> Point:
        """What a fork from here begins with."""
        agent_id = self.requested_agent or self.active_agent or self.identity.agent_id
        return Point(self.transcript.mark, agent_id, self.values, self.permissions, self.run_permissions, self.spawned)

    @property
    def next_alarm(self) -> int | None:
        """When time alone will do something to the run; None if it never does."""
        if isinstance(self.stage, Cancelling | Idle | Done):
            return None
        if isinstance(self.stage, Hooking) and self.stage.ending is not None:
            return None  # it is ending already, and a limit that has passed would ring for ever
        alarms = [] if self.deadline is None else [self.deadline]
        if self.batch is not None:
            alarms += [at for suspended in self.batch.suspended for at in suspended.alarms]
            alarms += [at for call in self.batch.running if (at := call.expires_at) is not None and not call.timed_out]
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
    points: tuple[Point, ...] = ()
    """The steps that have ended."""

    def then(self, move: Callable[Concatenate[RunState, P], "Advance"], *args: P.args, **kwargs: P.kwargs) -> "Advance":
        """Go on from here: one more move, with its commands and events after these."""
        following = move(self.state, *args, **kwargs)
        commands, events = self.commands + following.commands, self.events + following.events
        return Advance(following.state, commands, events, self.points + following.points)

    def emitting(self, *events: AgentEvent) -> "Advance":
        return replace(self, events=self.events + events)
