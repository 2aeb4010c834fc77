"""Facts: everything that can happen to a thread. `advance` learns about the world only through them."""

from dataclasses import dataclass
from typing import Literal

from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import Few, Maybe
from wakeful.contract.carryover import UnreadMessage
from wakeful.contract.context import CompactionMark
from wakeful.contract.decisions import Decision
from wakeful.contract.files import FileRef
from wakeful.contract.hooks import HookEffects
from wakeful.contract.inference import ModelResponse, Source
from wakeful.contract.mail import AgentMessage, TaskEvent
from wakeful.contract.messages import InputMessage
from wakeful.contract.runs import NO_USAGE, OnBusy, RunMode, Usage
from wakeful.contract.settings import Caller, RunSettings
from wakeful.contract.subagents import BudgetGrant, BudgetRequest, ChildResult
from wakeful.contract.tasks import TaskStarter
from wakeful.contract.tools import ToolOutcome


@dataclass(frozen=True)
class AgentResolved:
    """The agent, and the revision of the loop that its run is pinned to."""

    id: str
    agent: ResolvedAgent
    revision: int = 1
    unpriced: tuple[str, ...] = ()
    """The agent's models that have no price."""


@dataclass(frozen=True)
class InferenceReturned:
    id: str
    response: ModelResponse


@dataclass(frozen=True)
class ToolReturned:
    id: str
    outcome: ToolOutcome


@dataclass(frozen=True)
class CompactionReturned:
    """A summary, or None if it would have saved too little; either way it was paid for."""

    id: str
    mark: CompactionMark | None
    usage: Usage = NO_USAGE


@dataclass(frozen=True)
class HooksReturned:
    id: str
    effects: HookEffects


@dataclass(frozen=True)
class Delivered:
    """A signal or a message has reached its recipient."""

    id: str


@dataclass(frozen=True)
class WorkFailed:
    """A command failed for good."""

    id: str
    error: str
    was_scheduled: bool = True
    """Whether history has the command's input."""
    is_result: bool = False
    """Of a tool call: the tool raised the error, or never ran, and the model reads it. Else the outcome is unknown."""
    code: str = ""
    """What kind of failure it was, in one word."""


@dataclass(frozen=True)
class WorkCancelled:
    """A command was cancelled before it had a result."""

    id: str
    was_scheduled: bool = True
    """Whether history has the command's input."""


WorkFact = (
    AgentResolved
    | InferenceReturned
    | ToolReturned
    | CompactionReturned
    | HooksReturned
    | Delivered
    | WorkFailed
    | WorkCancelled
)
"""How a command ended; `id` is the command's."""


@dataclass(frozen=True)
class ChildIdAssigned:
    """A sub-agent or task is being started, with this thread id."""

    id: str
    thread_id: str


@dataclass(frozen=True)
class ChildSettled:
    """A sub-agent or task ended and reported its result."""

    result: ChildResult


@dataclass(frozen=True)
class ChildClosed:
    """A sub-agent or task could not be started, or closed without reporting: no result will follow."""

    id: str
    reason: str


@dataclass(frozen=True)
class MailReceived:
    mail: AgentMessage | TaskEvent


@dataclass(frozen=True)
class MailReturned:
    """A message of this thread came back: its recipient had ended."""

    message: AgentMessage
    error: str


@dataclass(frozen=True)
class UndeliveredRequested:
    """Send the undelivered messages again, or drop them."""

    action: Literal["replay", "clear"]


@dataclass(frozen=True)
class BudgetRequested:
    request: BudgetRequest


@dataclass(frozen=True)
class BudgetGranted:
    grant: BudgetGrant


@dataclass(frozen=True)
class DecisionsReceived:
    decisions: tuple[Decision, ...]
    tenant: str | None = None
    run_id: str | None = None
    """The only run that they are for."""


@dataclass(frozen=True)
class MessagesSubmitted:
    messages: tuple[InputMessage, ...]
    on_busy: OnBusy = OnBusy.ENQUEUE
    agent_id: str | None = None
    run_mode: RunMode | None = None
    caller: Caller = Caller()
    settings: RunSettings = RunSettings()


class Submitted(UnreadMessage):
    """An accepted message that is not in the transcript yet. Those of one `group` start one run together."""

    source: Source
    internal: Few[bool] = False
    """It is mail: no person asked for the run that it starts."""
    passive: Few[bool] = False
    """It is read with the next step, but is no reason for one."""
    deadline: Maybe[int] = None
    """Of mail of a task: when the wall time of the run that it begins is spent."""
    funds: Few[tuple[str, ...]] = ()
    """Of mail of a task: the earlier runs whose budget the run spends that it begins."""
    files: Few[tuple[FileRef, ...]] = ()
    """Of the end of a background agent: where the files are that its tools returned."""
    late: Few[bool] = False
    """It came after the close, or after the end of a run without a next one: the thread is woken for it."""
    starter: Few[str] = ""
    """Of mail of a task: the run that started the task, which the run that it begins acts for."""

    @property
    def begins_for(self) -> TaskStarter | None:
        """Of mail of a task: the run that started the task, as `TaskStarter.on_mail` has written it here."""
        if not self.starter:
            return None
        authority = {name: value for name, value in self if name in TaskStarter.model_fields}
        return TaskStarter(run_id=self.starter, continues=self.funds[1:], **authority)


@dataclass(frozen=True)
class WithdrawalRequested:
    """Withdraw messages that no run has read."""

    message_ids: tuple[str, ...]
    request_id: str | None = None
    tenant: str | None = None


@dataclass(frozen=True)
class EditRequested:
    """Replace a message that no run has read by this one, which has the same id."""

    message: InputMessage
    request_id: str | None = None
    tenant: str | None = None


@dataclass(frozen=True)
class RevocationRequested:
    """Revoke permission rules of the thread, by their `tool`; or, with `inherited`, those of its ancestors."""

    tools: tuple[str, ...]
    request_id: str | None = None
    tenant: str | None = None
    inherited: bool = False
    actor: str | None = None
    reason: str | None = None


ChangeFact = WithdrawalRequested | EditRequested | RevocationRequested
"""What clients ask a thread to change of what it has accepted before."""

ClientFact = DecisionsReceived | MessagesSubmitted | ChangeFact
"""What clients send and can ask the outcome of."""


@dataclass(frozen=True)
class CancelRequested:
    """Cancel the run, or, with `close`, end the whole thread."""

    reason: str | None = None
    close: bool = False
    run_id: str | None = None
    """Of a cancel: the only run that it is for."""


@dataclass(frozen=True)
class SignalMalformed:
    signal: str
    reason: str


@dataclass(frozen=True)
class TimerFired:
    """The time of an alarm has come."""

    at: int
    """The time that the alarm was set to, in milliseconds since 1970."""


@dataclass(frozen=True)
class HistoryReset:
    """Someone reset the execution to an earlier point, and what follows is a new lineage."""

    lineage: str


@dataclass(frozen=True)
class LoopFailed:
    """Our own code raised: the run ends with the error instead of hanging."""

    error: str
    lost: ClientFact | None = None
    """What it raised on, if that was sent by a client: it is refused."""


LateChildFact = (
    ChildSettled | ChildClosed | MailReceived | MailReturned | UndeliveredRequested | BudgetRequested | BudgetGranted
)
"""What other threads cause, also after the run has ended."""

ChildFact = ChildIdAssigned | LateChildFact
"""What other threads cause."""

SignalFact = ClientFact | CancelRequested | SignalMalformed | TimerFired | LoopFailed
"""What clients, timers and our own bugs cause."""

Fact = WorkFact | ChildFact | SignalFact | HistoryReset
