"""Facts: everything that can happen to a run. The loop knows the world only through them."""

from dataclasses import dataclass
from typing import Literal

from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.budgets import Budget
from wakeful.contract.context import CompactionMark
from wakeful.contract.decisions import Decision
from wakeful.contract.hooks import HookEffects
from wakeful.contract.inference import InferenceOverrides, ModelResponse, Source
from wakeful.contract.mail import Letter, TaskEvent
from wakeful.contract.messages import Message
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import OnBusy
from wakeful.contract.subagents import Grant, Loan, Settled
from wakeful.contract.tools import ToolOutcome
from wakeful.loop.machine.commands import RESOLVE_ID


@dataclass(frozen=True)
class AgentResolved:
    """The agent, and the revision of the rules that its run was resolved under; old histories tell none."""

    agent: ResolvedAgent
    id: str = RESOLVE_ID
    revision: int = 1


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
    """A summary, or none if it would have saved too little."""

    id: str
    mark: CompactionMark | None


@dataclass(frozen=True)
class WorkFailed:
    """Work failed for good. Of a tool this means that nobody knows what it did: a tool's own errors are results."""

    id: str
    error: str


@dataclass(frozen=True)
class WorkStopped:
    """Work was stopped before it came to anything."""

    id: str


@dataclass(frozen=True)
class HooksReturned:
    id: str
    effects: HookEffects


@dataclass(frozen=True)
class Told:
    """A signal or a letter has reached its thread."""

    id: str


WorkFact = (
    AgentResolved
    | InferenceReturned
    | ToolReturned
    | CompactionReturned
    | HooksReturned
    | Told
    | WorkFailed
    | WorkStopped
)
"""How a command ended; `id` is the command's."""


@dataclass(frozen=True)
class ChildNamed:
    """A sub-agent or task is being started under this thread."""

    id: str
    thread_id: str


@dataclass(frozen=True)
class ChildSettled:
    """A sub-agent or task has ended, and said how."""

    settled: Settled


@dataclass(frozen=True)
class ChildGone:
    """A sub-agent or task could not be started, or was ended from outside; it will never say anything."""

    id: str
    reason: str


@dataclass(frozen=True)
class MailReceived:
    mail: Letter | TaskEvent


@dataclass(frozen=True)
class LetterReturned:
    letter: Letter
    error: str


@dataclass(frozen=True)
class LettersWanted:
    """Somebody wants the dead letters sent again, or forgotten."""

    action: Literal["replay", "clear"]


@dataclass(frozen=True)
class LoanAsked:
    loan: Loan


@dataclass(frozen=True)
class Granted:
    grant: Grant


@dataclass(frozen=True)
class DecisionsReceived:
    decisions: tuple[Decision, ...]


@dataclass(frozen=True)
class Submitted:
    """A message on its way into the transcript. Those of one `group` came together and are one run's input."""

    message: Message
    source: Source
    group: str = ""
    agent_id: str | None = None
    overrides: InferenceOverrides | None = None
    permissions: tuple[Rule, ...] = ()
    budget: Budget | None = None
    internal: bool = False
    """It is from a task or another agent: a run that it begins is nobody's wish."""
    passive: bool = False
    """It is read when there is a next step, and is no reason for one."""


@dataclass(frozen=True)
class MessagesSubmitted:
    messages: tuple[Submitted, ...]
    on_busy: OnBusy = OnBusy.ENQUEUE


@dataclass(frozen=True)
class CancelRequested:
    """Stop the run, or, with `close`, the whole thread."""

    reason: str | None = None
    close: bool = False


@dataclass(frozen=True)
class SignalNotUnderstood:
    signal: str
    reason: str


@dataclass(frozen=True)
class TimePassed:
    """The time of the next alarm has come, or a little more."""


@dataclass(frozen=True)
class LoopBroken:
    """Our own code raised: the run ends with the message instead of hanging."""

    error: str


LateFamilyFact = ChildSettled | ChildGone | MailReceived | LetterReturned | LettersWanted | LoanAsked | Granted
"""What other threads bring about, also when the run has ended."""

FamilyFact = ChildNamed | LateFamilyFact
"""What other threads bring about."""

SignalFact = DecisionsReceived | MessagesSubmitted | CancelRequested | SignalNotUnderstood | TimePassed | LoopBroken
"""What people, time and our own failings bring about."""

Fact = WorkFact | FamilyFact | SignalFact
