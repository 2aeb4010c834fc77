"""What queries answer: a status, and pages that stay under every client's limits."""

from enum import StrEnum

from pydantic import JsonValue

from wakeful.contract.applied_decisions import AppliedDecision, DecisionAction
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.carryover import Carryover
from wakeful.contract.decisions import Refusal, SuspensionTicket
from wakeful.contract.events import EventRecord
from wakeful.contract.mail import UndeliveredMessage
from wakeful.contract.messages import Message
from wakeful.contract.outcomes import Outcome, OutcomeStatus
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.runs import RunIdentity, RunResult, RunStatus, ToolCallStatus, Usage
from wakeful.contract.segments import SegmentRef
from wakeful.contract.tasks import Task


class ToolCallView(Wire):
    """A call of the current step."""

    call_id: str
    tool_name: str
    status: ToolCallStatus
    ticket: Maybe[SuspensionTicket] = None
    since: Maybe[int] = None
    child_thread_id: Maybe[str] = None
    """The thread of the sub-agent that the call waits for."""
    work_id: Maybe[str] = None
    """The parent's id for that sub-agent."""
    gated: Few[bool] = False
    """A permission rule, a gate or a hook suspended the call. The thread's memo does not say so."""


class DecidedCall(Wire):
    """A decision about a call of the run. What is long is cut."""

    call_id: str
    tool_name: str
    decision: AppliedDecision


class PendingView(Wire):
    """The calls of a thread that wait for a decision, as lists show them: the thread's memo has it."""

    identity: RunIdentity
    calls: tuple[ToolCallView, ...]
    """Those that fit."""
    cut: Few[tuple[str, ...]] = ()
    """Ids of calls whose ticket is cut; the status of the thread has the whole."""


class WaitingFor(StrEnum):
    """What a run is blocked on."""

    DECISIONS = "decisions"
    TASKS = "tasks"
    BUDGET = "budget"
    PENDING_WORK = "pending_work"


CALLING = "calling"
"""How `StatusView.doing` begins while the run calls a model, whose id follows."""

CALLING_REMOTE = "calling remote agent"
"""The same while another service runs the agent, whose id and address follow."""

HELD_OPEN = "held open"
"""How `StatusView.doing` begins while the run waits for pending work of its plugins or tools."""

ASKING_PARENT = "asking its parent"
"""How `StatusView.doing` begins while the run waits for budget from its parent."""


RESTORING = "reading its earlier conversation"
"""`StatusView.doing` while a woken thread or a fork is being restored."""


class SentKind(StrEnum):
    """What clients and other threads send to a thread."""

    DECISION = "decision"
    MESSAGE = "message"
    CANCEL = "cancel"
    CLOSE = "close"
    CHANGE = "change"
    """A message is withdrawn or edited, or a rule is revoked."""


class Sent(Wire):
    """Something that was sent to a thread: history has it, and no worker has handled it yet."""

    kind: SentKind
    at: int
    """When Temporal received it, in milliseconds since 1970."""
    by: Maybe[str] = None
    """Who sent it: the actor or the user, as the sender states it; else the thread, or the identity of the program."""
    id: Maybe[str] = None
    """Of the decision, the message or the request."""
    target: Maybe[str] = None
    """Of a decision: the call, or its suspension, as the decision names it."""
    action: Maybe[DecisionAction] = None
    """Of a decision."""
    run_id: Maybe[str] = None
    """Of a decision or a cancel: the only run that it is for, if its sender names one."""

    def settles(self, run_id: str, *call: str | None) -> bool:
        """Whether a suspended call needs no other decision: this is one about it, or it ends the run.

        Args:
            run_id: the run that has suspended the call; empty if it is not known.
            call: the call's id, and its suspension's.
        """
        if run_id and self.run_id not in (None, run_id):
            return False
        return self.is_cancel or (self.target is not None and self.target in call)

    @property
    def is_cancel(self) -> bool:
        """Whether it ends a run."""
        return self.kind in (SentKind.CANCEL, SentKind.CLOSE)


class StatusView(Wire):
    """The status of a thread and its newest run."""

    identity: RunIdentity
    status: RunStatus
    doing: str
    steps: int
    usage: Usage
    runs: int = 1
    """How many runs the thread has had, including this one."""
    waiting_for: Maybe[WaitingFor] = None
    calls: Few[tuple[ToolCallView, ...]] = ()
    decisions: Few[tuple[DecidedCall, ...]] = ()
    """The newest decisions about calls of the run, the newest last; `client.decisions` has all of them."""
    queued: Few[int] = 0
    refusals: Few[tuple[Refusal, ...]] = ()
    result: Maybe[RunResult] = None
    active_agent: Maybe[str] = None
    """The agent that answers now, if the run was handed off."""
    tasks: Few[tuple[Task, ...]] = ()
    """The thread's background tasks: those that are running, and the newest that have ended."""
    undelivered: Few[tuple[UndeliveredMessage, ...]] = ()
    """Messages that could not be delivered; long ones are cut."""
    spent: Spent = Spent()
    """What the run and its ended descendants have spent."""
    budget: Maybe[Budget] = None
    """What the run may spend."""
    metadata: Few[dict[str, JsonValue]] = {}
    """Of the message that began the run."""
    no_more_agents: Maybe[str] = None
    """Why the run may start no more sub-agents: which limit is reached, and where it is set."""
    idle_rules: Few[tuple[str, ...]] = ()
    """Permission rules of its agent that match no tool of the run: they guard nothing."""
    users: Few[tuple[str, ...]] = ()
    """The users who have written to the thread, at most 50, in the order in which they wrote first."""
    more_users: Few[bool] = False
    """There were others, or a release ran the thread before that did not record them; `client.runs` has their runs."""
    unhandled_since: Maybe[int] = None
    """Since when a workflow task has been waiting for a worker, in milliseconds since 1970: what arrived since then is
    not in this status. No query answers it; `client.status` reads it from Temporal."""
    unhandled: Few[tuple[Sent, ...]] = ()
    """What was sent since then, the oldest first: decisions, messages, cancels and changes that no worker has handled.
    `client.status` reads it from history."""

    @property
    def children(self) -> tuple[str, ...]:
        """The threads of its running sub-agents and tasks."""
        calls = (call.child_thread_id for call in self.calls)
        tasks = (task.thread_id for task in self.tasks if not task.status.is_terminal)
        return tuple(thread for thread in (*calls, *tasks) if thread is not None)

    def settled_by(self, call: ToolCallView) -> Sent | None:
        """What no worker has handled yet and settles a suspended call: a decision, or what ends the run."""
        names = (call.call_id, call.ticket.suspension.id if call.ticket is not None else None)
        return next((sent for sent in self.unhandled if sent.settles(self.identity.run_id, *names)), None)

    def child_cancelled_by(self, thread_id: str) -> Sent | None:
        """What no worker has handled yet and ends the run together with this child. A task of an earlier run works on
        after a cancel, and is stopped by a close."""
        run_id = self.identity.run_id
        is_earlier = any(task.thread_id == thread_id and task.parent_context.run_id != run_id for task in self.tasks)
        return next(
            (
                sent
                for sent in self.unhandled
                if sent.is_cancel and sent.settles(run_id) and (sent.kind is SentKind.CLOSE or not is_earlier)
            ),
            None,
        )

    @property
    def pending(self) -> tuple[SuspensionTicket, ...]:
        """The decisions that the run waits for."""
        return tuple(call.ticket for call in self.calls if call.ticket is not None)


class OutcomesView(Wire):
    """What became of decisions and messages, the oldest first; of those that the thread does not know, nothing."""

    outcomes: tuple[Outcome, ...]


class QueuedMessage(Wire):
    """A message or mail that no run has read."""

    message: Message
    status: OutcomeStatus
    """`queued` for the next run, or `steering` for the next step; `unread` once the thread has ended."""
    agent_id: Maybe[str] = None
    """The agent of the run that it starts, if its sender named one."""
    mail: Few[bool] = False
    """It is mail of another agent or a task, and cannot be changed."""


class QueuedPage(Wire):
    messages: tuple[QueuedMessage, ...]
    """In the order in which runs read them: those that steer come first."""
    next: Maybe[int] = None
    """Query again with `after` = this; absent on the last page."""


class RuleScope(StrEnum):
    """Where a permission rule comes from, and for how long it applies."""

    AGENT = "agent"
    """Of the agent's own policy."""
    THREAD = "thread"
    """Added by a decision with `always`; it can be revoked."""
    RUN = "run"
    """Of the request; it ends with the run."""
    HOOK = "hook"
    """Added by a hook or a tool; it ends with the run."""
    ANCESTOR = "ancestor"
    """Of an agent that started this one or handed the run off, or of a request to one."""


class ScopedRule(Wire):
    """A permission rule and its scope."""

    rule: Rule
    scope: RuleScope


class PermissionsView(Wire):
    """The permission rules that apply to the thread's newest run, those of the run last."""

    default_behavior: Behavior
    """For calls that no rule matches."""
    rules: tuple[ScopedRule, ...]
    always: Few[tuple[str, ...]] = ()
    """Those of the thread's rules that decisions of the newest run have added, by their `tool`: they answer what the
    run's own rules ask."""


class EarlierExecution(Wire):
    """The execution that has the entries which this one does not have."""

    run_id: str
    through: int
    """It has everything up to this number, itself or in executions before it."""
    digest: Maybe[str] = None
    thread_id: Maybe[str] = None
    """Of a fork: the thread that it was forked from."""


class ForkPointView(Wire):
    """What a thread had at this many messages, or the execution that knows; neither, if no step ends there."""

    messages: int
    digest: Few[str] = ""
    carryover: Maybe[Carryover] = None
    earlier: Maybe[EarlierExecution] = None


class TranscriptPage(Wire):
    messages: tuple[Message, ...]
    next: Maybe[int] = None
    """Query again with `after` = this; absent on the last page."""
    segments: Few[tuple[SegmentRef, ...]] = ()
    """Instead of messages: the archived segments that hold them, up to number `next`."""
    restoring: Few[bool] = False
    """The thread is being restored, or was closed while it was: `earlier` has the whole conversation.

    Only a fork already knows `earlier.through`.
    """
    earlier: Maybe[EarlierExecution] = None
    """The execution that is being restored."""


class EventsPage(Wire):
    events: tuple[EventRecord, ...]
    last: int
    """Query again with `after` = this."""
    done: bool
    """The thread has ended; no event follows the final page."""
    more: Few[bool] = False
    """There are more events after `last`."""
    in_flight: Few[tuple[str, ...]] = ()
    """The ids of the activities that the run waits for after `last`; only on the final page."""
    restoring: Few[bool] = False
    """The thread is being restored and does not know its next event number yet."""
    segments: Few[tuple[SegmentRef, ...]] = ()
    """Instead of events: the archived segments that hold them, up to number `last`."""
