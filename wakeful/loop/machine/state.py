"""The whole state of a thread as one value, and `Advance`: what a fact makes of it.

`Thread` outlives its runs. Everything that belongs to one run is in `Run`, which is constructed when the run starts, so
that the next run cannot inherit anything by accident.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Concatenate, ParamSpec, assert_never

from pydantic import Field, JsonValue

from wakeful.context.messages import ContextMessages
from wakeful.contract import ids
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import Identical, json_bytes, replace
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.carryover import AgentRules, Counters
from wakeful.contract.context import AgentContext, Compaction
from wakeful.contract.decisions import Decision, Refusal
from wakeful.contract.errors import InternalError
from wakeful.contract.events import AgentEvent
from wakeful.contract.files import FileRef
from wakeful.contract.hooks import FinalAnswer, Hold, RequestChanges
from wakeful.contract.mail import AgentMessage, UndeliveredMessage
from wakeful.contract.outcomes import Outcome
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import (
    CancelReceipt,
    OnError,
    Priority,
    RunIdentity,
    RunResult,
    RunStatus,
    Termination,
    ThreadMode,
    Usage,
    priority_of,
)
from wakeful.contract.settings import RunSettings
from wakeful.contract.stopping import Timeout
from wakeful.contract.subagents import BudgetRequest, SubagentContext
from wakeful.contract.tasks import Task, TaskStarter
from wakeful.contract.tools import ToolDescriptor
from wakeful.contract.users import Users
from wakeful.loop.calls.batch import Batch
from wakeful.loop.machine import revisions
from wakeful.loop.machine.commands import Command
from wakeful.loop.machine.facts import Submitted
from wakeful.loop.machine.revisions import REVISION
from wakeful.loop.machine.stages import (
    AfterRun,
    AwaitingBudget,
    AwaitingDecisions,
    AwaitingTasks,
    BetweenSteps,
    CallingTools,
    Cancelling,
    Done,
    HandingOff,
    Idle,
    Inferring,
    PendingEnd,
    Resolving,
    RunningHooks,
    Stage,
)
from wakeful.loop.machine.transitions import STAGES, check_stage
from wakeful.loop.step.agent_state import AgentState
from wakeful.loop.thread.fork_points import ForkPoint
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition
from wakeful.permissions.authority import RunRules, handing_on, narrowing, policy_rules
from wakeful.permissions.rules import merged

REMEMBERED_SUSPENSIONS = 2000
"""How many ids of suspensions a thread remembers; it may live for years."""

KEPT_RULES = 200
"""How many permission rules a thread keeps of decisions, and a run in all; the oldest that allow are dropped first."""

KEPT_HOLDS = 50
"""How many pieces of pending work keep a run open; the oldest are dropped first."""

KEPT_STARTERS = 20
"""Of how many runs with running tasks a thread knows for whom they acted; metadata may have 8,000 bytes. The end of a
task of an older run begins a run without a user, to which every rule about users that denies or asks applies."""

STARTER_RULES_BYTES = 300_000
"""Of the rules of all of these runs. If there are more, the end of a task begins a run that may call no tool."""

KEPT_FILES = 50
"""References that a run keeps to files of its tools, the newest: its result repeats them, and so does its parent."""

KEPT_CONTEXTS = 4
"""Of how many agents that do not answer now a thread keeps the context messages."""

P = ParamSpec("P")


@dataclass(frozen=True)
class ContextState:
    """The thread's context window."""

    agent_id: str = ""
    """The agent that answers, whose the messages are; empty before the first run."""
    messages: ContextMessages = ContextMessages()
    others: tuple[AgentContext, ...] = ()
    """The messages of agents that answered before, until they answer again; the newest last."""
    token_factor: float = 1.0
    compaction: Compaction | None = None
    compacting: str | None = None
    """The compaction that is in flight."""
    pressure: int = 0
    """The tokens of the conversation when the newest compaction was scheduled."""
    unpaid: Usage = Usage()
    """Of summaries that arrived between two runs: the next run pays for them."""
    skipped_at: int | None = None

    @property
    def by_agent(self) -> tuple[AgentContext, ...]:
        """The messages of every agent that has any, those of the newest agent last."""
        return tuple(each for each in (*self.others, self.messages.as_context(self.agent_id)) if not each.is_empty)

    def for_agent(self, agent_id: str) -> "ContextState":
        """With the messages of this agent; those of the one that answered before are kept for its return."""
        if agent_id == self.agent_id:
            return self
        mine = next((other for other in self.others if other.agent_id == agent_id), AgentContext(agent_id=agent_id))
        others = tuple(each for each in self.by_agent if each.agent_id != agent_id)[-KEPT_CONTEXTS:]
        return replace(self, agent_id=agent_id, messages=ContextMessages.of(mine), others=others)


@dataclass(frozen=True)
class Children:
    """The thread's background tasks: all that are running, and the newest that have ended."""

    tasks: tuple[Task, ...] = ()
    starters: tuple[TaskStarter, ...] = ()
    """The runs that started the running ones, if they act for a user or have metadata; the newest last."""

    @property
    def running(self) -> tuple[Task, ...]:
        return tuple(task for task in self.tasks if not task.status.is_terminal)

    def find(self, name: str) -> Task | None:
        """A running task, by its id or else by its name."""
        by_id = (task for task in self.running if task.task_id == name)
        by_name = (task for task in self.running if task.name == name)
        return next(by_id, None) or next(by_name, None)

    def starter_of(self, task: Task) -> TaskStarter | None:
        """For whom the run acted that started the task."""
        return next((each for each in self.starters if each.run_id == task.parent_context.run_id), None)

    def sender_of(self, thread_id: str) -> Task | None:
        """The running task that has this thread, or below which it is."""
        threads = ((task, task.thread_id) for task in self.running)
        found = (task for task, own in threads if own and (own == thread_id or ids.is_descendant(thread_id, own)))
        return next(found, None)

    def starting(self, task: Task, starter: TaskStarter) -> "Children":
        """With one more task."""
        if self.starter_of(task) is not None or starter.is_anyone:
            return Children((*self.tasks, task), self.starters)
        older = (each.without_user for each in self.starters[: 1 - KEPT_STARTERS])
        kept = (*(each for each in older if not each.is_anyone), *self.starters[1 - KEPT_STARTERS :], starter)
        return Children((*self.tasks, task), within_room(kept))

    def after_end(self, tasks: tuple[Task, ...]) -> "Children":
        """With these tasks, after one of them has ended."""
        runs = {task.parent_context.run_id for task in tasks if not task.status.is_terminal}
        return Children(tasks, tuple(starter for starter in self.starters if starter.run_id in runs))


def within_room(starters: Iterable[TaskStarter]) -> tuple[TaskStarter, ...]:
    """The starters, those without tools whose rules find no room beside the rules of the earlier ones."""
    kept, room = list[TaskStarter](), STARTER_RULES_BYTES
    for starter in starters:
        if json_bytes(starter.permissions) > room:
            starter = starter.without_tools
        kept.append(starter)
        room -= json_bytes(starter.permissions)
    return tuple(kept)


@dataclass(frozen=True)
class Mail:
    """The thread's messages to other agents that have not arrived."""

    undelivered: tuple[UndeliveredMessage, ...] = ()
    resending: tuple[AgentMessage, ...] = ()
    """Undelivered messages that are being sent again; the first one is in flight."""
    returning: tuple[AgentMessage, ...] = ()
    """Messages of others that arrived after this thread had ended, and are being returned."""


@dataclass(frozen=True)
class Step:
    """How far a run has come: its steps, and what stop conditions count."""

    number: int = 0
    """The steps that the run has started."""
    is_open: bool = False
    hooks_ran: int = 0
    """The newest step whose `step_end` hooks have run, or are running."""
    rounds: int = 0
    """Steps that called tools, and answers that had to be corrected."""
    failed_rounds: int = 0
    """Rounds in a row in which every tool call failed."""
    continuations: int = 0
    """How often an answer that hit the token limit was continued."""
    repairs: int = 0
    """How often the model had to correct an answer that does not match the agent's output type."""
    recent_answers: tuple[str, ...] = ()
    """Digests of the newest answers, for loop detection."""
    refused_calls: bool = False
    """Tool calls of the newest step were refused because their budget is spent."""

    def with_round(self, *, has_failed: bool) -> "Step":
        """After one more round; `has_failed` if every tool call of it failed, or none was valid."""
        return replace(self, rounds=self.rounds + 1, failed_rounds=self.failed_rounds + 1 if has_failed else 0)


@dataclass(frozen=True)
class AgentCount:
    """How many agents a run and its descendants have started, and what is left of those that its parent granted."""

    started: int = 0
    """Those that the run has started itself, and those that it has granted to its sub-agents."""
    granted: int = 0
    """Of a sub-agent: how many it may start, or grant, before it asks its parent again."""
    is_asking: bool = False
    """The parent was asked and has not answered yet."""
    refused: str | None = None
    """Why the parent grants no more; it is final."""
    requests: tuple[BudgetRequest, ...] = ()
    """Of sub-agents that wait for an answer."""


@dataclass(frozen=True)
class Ledger:
    """What a run may spend, what its sub-agents hold of it, and what those that ended have spent."""

    limit: Budget = Budget()
    """By the request and the agent, for the run and its descendants."""
    allowance: Budget | None = None
    """Of a sub-agent: what its parent lets it spend in all."""
    reserved: tuple[tuple[str, Budget], ...] = ()
    """What running sub-agents may spend, by their work ids."""
    requests: tuple[BudgetRequest, ...] = ()
    """Sub-agents that asked for more while the parent was being asked."""
    descendants: Spent = Spent()
    """What sub-agents that have ended spent."""
    deadline: int | None = None
    """When the wall time of the run, or of the whole tree, is spent: milliseconds since 1970."""
    continues: tuple[str, ...] = ()
    """The earlier runs whose budget the run spends, because ends of their tasks have begun it."""
    tool_calls: int = 0
    """Tool calls that the run has started."""
    agents: AgentCount = AgentCount()


@dataclass(frozen=True)
class TaskWork:
    """What checks of one workflow task have taken. All its facts have the time at which it started."""

    at: int = 0
    schemas: int = 0
    patterns: frozenset[str] = frozenset()
    """Those of schemas that have been compiled, once for all checks."""
    rules: int = 0


@dataclass(frozen=True)
class BeforeRun:
    """What the thread was before a run, as far as a rollback of the run restores it."""

    agent_id: str
    active_agent: str | None
    requested_agent: str | None
    agent_state: AgentState
    permissions: tuple[Rule, ...]
    context: ContextState
    frontend_tools: tuple[ToolDescriptor, ...] | None = None
    """None if the run was started before messages could change them."""
    handed_over: tuple[AgentRules, ...] = ()


@dataclass(frozen=True)
class Run:
    """Everything that belongs to one run."""

    number: int
    started_at_position: TranscriptPosition
    """The transcript before the run's own messages."""
    before: BeforeRun | None = None
    """The rest of the thread; absent from snapshots of the first two formats."""
    started_at: int = 0
    """Milliseconds since 1970."""
    alarmed_at: int = 0
    """The time of the newest alarm that has gone off: no rule of the loop reads the clock instead."""
    revision: int = REVISION
    """The revision that the run is pinned to, once its agent is resolved."""
    resolved: ResolvedAgent | None = None
    settings: RunSettings = RunSettings()
    """What the message set that began it, except what has a place of its own: rules, budget and frontend tools."""
    permissions: tuple[Rule, ...] = ()
    """Rules for this run, of its request and of hooks; one replaces the thread's for the same tool, except a denial."""
    requested: tuple[Rule, ...] = ()
    """Those of its request, whatever hooks have added since."""
    authority: tuple[Rule, ...] = ()
    """What ancestors, and agents that handed the run off, deny or ask about: nothing that allows replaces it."""
    always: tuple[str, ...] = ()
    """The rules of the thread that decisions of this run have added, with `always`: they answer its own rules."""
    step: Step = Step()
    budget: Ledger = Ledger()
    usage: Usage = Usage()
    response: str = ""
    output: JsonValue = None
    held: tuple[tuple[Decision, ...], ...] = ()
    """Batches of decisions whose calls have not suspended yet."""
    task_work: Annotated[TaskWork, Field(exclude=True)] = field(default=TaskWork(), compare=False)
    """Of the newest workflow task that checked something. No snapshot has it: the next execution has other tasks."""
    read_mail: tuple[str, ...] = ()
    """Ids of the mail that the run has read."""
    requested_end: Termination | None = None
    """How hooks or a tool want the run to end before its next step."""
    answer: FinalAnswer | None = None
    """The answer with which they want it to end, if it is to end as completed."""
    next_request: RequestChanges | None = None
    """What they change in the next request."""
    holds: tuple[Hold, ...] = ()
    """Pending work that keeps the run open when its model is done."""
    has_deactivated: bool = False
    """The `on_deactivate` hooks of the agent that hands the run off have run."""
    receipt: CancelReceipt | None = None
    """Which descendants were cancelled with the run."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    """Of the message that began it; its user is in the thread's identity."""
    tool_files: tuple[FileRef, ...] = ()
    """Where the files are that its tools and those of its sub-agents returned, the newest last."""

    def with_files(self, *files: FileRef) -> "Run":
        """With these files, too."""
        return replace(self, tool_files=(*self.tool_files, *files)[-KEPT_FILES:]) if files else self

    def task_work_at(self, now: int) -> TaskWork:
        """What checks have taken of the workflow task that started at this time."""
        return self.task_work if self.task_work.at == now else TaskWork(at=now)

    @property
    def agent(self) -> ResolvedAgent:
        if self.resolved is None:
            raise InternalError("the agent was needed before it was resolved")
        return self.resolved

    @property
    def timeouts(self) -> tuple[int, ...]:
        """When the agent's `timeout` conditions will be met, if they are not yet."""
        conditions = self.resolved.stop_conditions if self.resolved else ()
        ends = (self.timeout_at(condition) for condition in conditions if isinstance(condition, Timeout))
        return tuple(at for at in ends if at > self.alarmed_at)

    def timeout_at(self, condition: Timeout) -> int:
        return self.started_at + max(1, round(condition.seconds * 1000))


@dataclass(frozen=True)
class Thread:
    """Everything a thread is. `advance` is the only function that makes the next one."""

    identity: RunIdentity
    """The newest run's; before the first run, what that will be."""
    seed: str
    """What the run ids of this chain of executions are made of."""
    stage: Stage
    transcript: Transcript
    run: Run | None = None
    """The newest run: under way, or ended if the thread is idle or done. None before the first."""
    parent: SubagentContext | None = None
    """Of a sub-agent: its parent's instructions; None once the parent has been notified of the end."""
    mode: ThreadMode = ThreadMode.RUN
    on_error: OnError = OnError.FAIL
    counters: Counters = Counters()
    context: ContextState = ContextState()
    frontend_tools: tuple[ToolDescriptor, ...] = ()
    agent_state: AgentState = AgentState()
    permissions: tuple[Rule, ...] = ()
    """What decisions with `always` have allowed."""
    authority: tuple[Rule, ...] = ()
    """Of a sub-agent, and its forks: what its ancestors deny or ask about, in every run."""
    handed_over: tuple[AgentRules, ...] = ()
    """What the agents deny or ask about that handed the thread off to the one that answers now."""
    inherited_permissions: tuple[Rule, ...] = ()
    """Of a fork: the rules of the run that its first run continues."""
    inherited_requested: tuple[Rule, ...] = ()
    """Those of them that its request had set."""
    inherited_metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    """Of a fork: the metadata of that run."""
    restored_revision: int = 0
    """Of a thread that was woken, until it has a run: the revision of the release that restored it."""
    inherited_agents: int = 0
    """Of a thread that was woken: how many agents the tree of its last run had started."""
    expire_after: float | None = None
    """Seconds that the thread may be idle, if its request says so; else its agent says it."""
    users: Users = Users()
    """Who has written to the thread, also what was rolled back or withdrawn since: its history has that."""
    own_priority: Priority | None = None
    """What the request says of `priority`."""
    active_agent: str | None = None
    """The agent that answers on the thread now, if it was handed off."""
    requested_agent: str | None = None
    """The agent that takes over with the next step."""
    queued: tuple[Submitted, ...] = ()
    """Messages for the next run, or, in run mode, for this one before it ends."""
    steering: tuple[Submitted, ...] = ()
    """Messages that the model reads in its next step."""
    outcomes: tuple[Outcome, ...] = ()
    """What became of the newest decisions and messages; also to recognise a repeat."""
    suspensions: tuple[str, ...] = ()
    """Ids of the newest suspensions: a decision for one must never fit another."""
    refusals: tuple[Refusal, ...] = ()
    children: Children = Children()
    mail: Mail = Mail()

    @property
    def current(self) -> Run:
        """The newest run. Raises if the thread never had one."""
        if self.run is None:
            raise InternalError("a run was needed before the thread had one")
        return self.run

    @property
    def agent(self) -> ResolvedAgent:
        return self.current.agent

    @property
    def status(self) -> RunStatus:
        return STAGES[self.stage.kind]

    @property
    def batch(self) -> Batch | None:
        """The tool calls of the current step, while there are any."""
        match self.stage:
            case CallingTools(batch=batch) | AwaitingDecisions(batch=batch) | Cancelling(batch=batch):
                return batch
            case _:
                return None

    @property
    def in_flight(self) -> frozenset[str]:
        """The ids of the commands whose facts the stage waits for."""
        match self.stage:
            case Resolving(id=id) | Inferring(id=id) | HandingOff(id=id) | RunningHooks(id=id):
                return frozenset({id})
            case CallingTools(batch=batch):
                return frozenset(call.id for call in batch.running if call.awaits is None)
            case Cancelling(in_flight=in_flight):
                return in_flight
            case AwaitingDecisions() | AwaitingTasks() | AwaitingBudget() | BetweenSteps() | Idle() | Done():
                return frozenset()
            case _:
                assert_never(self.stage)

    @property
    def bound_to_execution(self) -> frozenset[str]:
        """Commands in flight whose facts would be lost if the execution ended now; children outlive it."""
        delegates = {call.id for call in self.batch.running if call.child_thread_id} if self.batch else set()
        resending = {ids.work_id(ids.ResendMessage(message.message_id)) for message in self.mail.resending[:1]}
        return (self.in_flight - delegates - {task.task_id for task in self.children.running}) | resending

    @property
    def result(self) -> RunResult | None:
        """The result of the last run, while none is under way."""
        return self.stage.result if isinstance(self.stage, Done | Idle) else None

    @property
    def is_closing(self) -> bool:
        """Whether the thread is being closed, as soon as what is in flight has stopped."""
        match self.stage:
            case Idle(closing=closing):
                return closing
            case Cancelling(then=then):
                return then is AfterRun.CLOSE
            case RunningHooks(ending=PendingEnd(then=then)):
                return then is AfterRun.CLOSE
            case _:
                return False

    @property
    def is_ending(self) -> bool:
        """Whether no run of this execution will read what comes now: the thread is closing, or its only run ends."""
        last = (AfterRun.END, AfterRun.CLOSE) if self.mode is ThreadMode.RUN else (AfterRun.CLOSE,)
        match self.stage:
            case Cancelling(then=then) | RunningHooks(ending=PendingEnd(then=then)):
                return then in last
            case Done():
                return True
            case _:
                return self.is_closing

    @property
    def takes_late(self) -> bool:
        """Whether the thread is woken for what comes now, once its workflow has closed."""
        is_pinned = self.run is not None and self.run.revision < revisions.LATE_MESSAGES
        return self.is_ending and (self.mode is ThreadMode.THREAD or not is_pinned)

    @property
    def has_late(self) -> bool:
        """Whether messages or mail have come too late for this execution, so that the thread is to be woken."""
        return any(later.late for later in (*self.steering, *self.queued))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The permission rules on top of the agent's: the thread's, overridden by the run's."""
        run = self.current
        if run.revision < revisions.AUTHORITY_NARROWS:
            return merged((*self.permissions, *run.permissions))
        return merged(self.run_rules.ordered)

    @property
    def inherited_rules(self) -> tuple[Rule, ...]:
        """What ancestors, and agents that handed the thread off, deny or ask about."""
        return self.run.authority if self.run else self.authority

    @property
    def own_rules(self) -> tuple[Rule, ...]:
        """The run's rules that are not its ancestors'."""
        return self._not_inherited(self.run.permissions if self.run else self.inherited_permissions)

    @property
    def requested_rules(self) -> tuple[Rule, ...]:
        """Those of the run's rules that its request has set."""
        return self._not_inherited(self.run.requested if self.run else self.inherited_requested)

    def _not_inherited(self, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        return _others(Identical(rules), Identical(self.authority)) if self.authority else rules

    @property
    def questions(self) -> tuple[tuple[Rule, ...], ...]:
        """What the request and the ancestors ask about, whatever else allows it, except a decision with `always`."""
        return () if self.current.revision < revisions.AUTHORITY_NARROWS else self.run_rules.questions

    @property
    def run_rules(self) -> RunRules:
        """The same rules, by whose they are; before the first run, those that it begins with."""
        own, requested = self.own_rules, self.requested_rules
        if self.run is not None and self.run.revision < revisions.HOOKS_ANSWER_NO_REQUEST:
            requested = own
        added = _others(Identical(own), Identical(requested)) if own is not requested else ()
        return RunRules(self.inherited_rules, self.permissions, requested, added, self.run.always if self.run else ())

    @property
    def binding(self) -> tuple[Rule, ...]:
        """What the request, hooks and ancestors deny or ask about; the agent's own rules are its own in every run."""
        return narrowing(self.current.authority, self.current.requested, self.current.permissions)

    @property
    def passed_on(self) -> tuple[Rule, ...]:
        """The rules that hold for every sub-agent that the run starts."""
        run = self.current
        if run.revision < revisions.AUTHORITY_NARROWS:
            return tuple(rule for rule in run.permissions if rule.behavior is not Behavior.ALLOW)
        return narrowing(run.authority, policy_rules(run.agent), run.requested, run.permissions)

    @property
    def handed_on(self) -> tuple[AgentRules, ...]:
        """The same as `handed_over`, once the handoff that was requested last has happened."""
        run = self.run
        if run is None or run.resolved is None or self.requested_agent in (None, run.resolved.agent_id):
            return self.handed_over
        if run.revision < revisions.AUTHORITY_NARROWS:
            return self.handed_over
        return handing_on(self.handed_over, run.resolved)

    @property
    def priority(self) -> Priority:
        """How Temporal orders the tasks of the thread."""
        of_agent = self.run.resolved.priority if self.run and self.run.resolved else None
        return priority_of(self.own_priority, self.identity.tenant, of_agent=of_agent)

    @property
    def before_run(self) -> BeforeRun:
        """What a rollback of a run that starts now restores."""
        return BeforeRun(
            agent_id=self.identity.agent_id,
            active_agent=self.active_agent,
            requested_agent=self.requested_agent,
            agent_state=self.agent_state,
            permissions=self.permissions,
            context=self.context,
            frontend_tools=self.frontend_tools,
            handed_over=self.handed_over,
        )

    @property
    def fork_point(self) -> ForkPoint:
        """What a fork from here starts with."""
        return ForkPoint(
            position=self.transcript.position,
            agent_id=self.requested_agent or self.active_agent or self.identity.agent_id,
            agent_state=self.agent_state,
            permissions=self.permissions,
            authority=self.authority,
            handed_over=self.handed_on,
            run_permissions=self.own_rules,
            run_requested=self.requested_rules,
            run_metadata=self.run.metadata if self.run else self.inherited_metadata,
            identity=self.identity,
            counters=self.counters,
            compaction=self.context.compaction,
            frontend_tools=self.frontend_tools,
            context=self.context.by_agent,
            users=self.users,
        )

    @property
    def next_alarm(self) -> int | None:
        """When a timer has to fire, in milliseconds since 1970; None if time alone changes nothing."""
        if isinstance(self.stage, Idle):
            return self.expires_at
        if isinstance(self.stage, Cancelling | Done):
            return None
        if isinstance(self.stage, RunningHooks) and self.stage.ending is not None:
            return None  # the run is ending already, and a deadline that has passed would fire forever
        run = self.current
        alarms = [at for at in (run.budget.deadline, *run.timeouts) if at is not None]
        if self.batch is not None:
            alarms += [at for suspended in self.batch.suspended for at in suspended.alarms]
            alarms += [at for call in self.batch.running if (at := call.expires_at) is not None and not call.timed_out]
        return min(alarms, default=None)

    @property
    def expires_at(self) -> int | None:
        """When an idle thread deletes itself; a sub-agent is deleted with its root."""
        if not isinstance(self.stage, Idle) or not self.stage.since or self.stage.closing or self.children.running:
            return None
        of_agent = self.run.resolved.expire_after_seconds if self.run and self.run.resolved else None
        seconds = self.expire_after or of_agent
        if seconds is None or self.identity.parent_thread_id is not None:
            return None
        return self.stage.since + max(1, round(seconds * 1000))

    @property
    def is_expired(self) -> bool:
        """Whether the thread is to be deleted once it is closed: it has expired, and nothing has arrived since."""
        return isinstance(self.stage, Done) and self.stage.expired and not (self.queued or self.steering)

    def tool(self, name: str) -> ToolDescriptor | None:
        """The tool that the model means by a name."""
        brought = next((tool for tool in self.frontend_tools if tool.id == name), None)
        own = next((tool for tool in self.agent.tools if tool.id == name), None)
        return brought if own is None or (brought is not None and self._may_replace(name)) else own

    @property
    def offered_frontend_tools(self) -> tuple[ToolDescriptor, ...]:
        """Those of the frontend tools that the model may call: not those of which the agent has one of its own."""
        own = {tool.id for tool in self.agent.tools}
        return tuple(tool for tool in self.frontend_tools if tool.id not in own or self._may_replace(tool.id))

    def _may_replace(self, name: str) -> bool:
        return self.current.revision < revisions.OWN_TOOLS_STAY or name in self.agent.replaceable_tools

    def has_started(self, task: Task) -> bool:
        """Whether the newest run started the task."""
        return task.parent_context.run_id == self.identity.run_id

    def entering(self, stage: Stage) -> "Thread":
        """The thread in this stage. The only way to change the stage: the table has to allow it."""
        check_stage(self.stage.kind, stage.kind)
        return replace(self, stage=stage)

    def with_run(self, run: Run) -> "Thread":
        return replace(self, run=run)

    def with_step(self, step: Step) -> "Thread":
        return replace(self, run=replace(self.current, step=step))

    def with_budget(self, budget: Ledger) -> "Thread":
        return replace(self, run=replace(self.current, budget=budget))

    def counting(self, counters: Counters) -> "Thread":
        return replace(self, counters=counters)


@lru_cache(maxsize=64)
def _others(rules: Identical[tuple[Rule, ...]], known: Identical[tuple[Rule, ...]]) -> tuple[Rule, ...]:
    """Those of the rules that are not among the known ones: found once, and not for each call of a step."""
    excluded = frozenset(known.value)
    return tuple(rule for rule in rules.value if rule not in excluded)


@dataclass(frozen=True)
class Advance:
    """What a fact makes of a thread: the next state, the commands to perform, and the events for watchers."""

    thread: Thread
    commands: tuple[Command, ...] = ()
    events: tuple[AgentEvent, ...] = ()
    fork_points: tuple[ForkPoint, ...] = ()
    """Where steps ended."""
    ended: tuple[RunResult, ...] = ()
    """The runs that ended."""

    def then(self, move: Callable[Concatenate[Thread, P], "Advance"], *args: P.args, **kwargs: P.kwargs) -> "Advance":
        """One more move from here, with its commands and events after these."""
        following = move(self.thread, *args, **kwargs)
        return Advance(
            following.thread,
            self.commands + following.commands,
            self.events + following.events,
            self.fork_points + following.fork_points,
            self.ended + following.ended,
        )

    def emitting(self, *events: AgentEvent) -> "Advance":
        return replace(self, events=self.events + events)
