"""What queries answer: pages small enough for any client, and a status a person can read."""

from enum import StrEnum

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.decisions import Refusal, SuspensionTicket
from wakeful.contract.events import EventRecord
from wakeful.contract.mail import DeadLetter
from wakeful.contract.messages import Message
from wakeful.contract.runs import RunIdentity, RunResult, RunStatus, ToolCallStatus, Usage
from wakeful.contract.subagents import Keeps
from wakeful.contract.tasks import Task


def ticket_name(thread_id: str, call_id: str) -> str:
    """How a pending decision is named where a person reads it and types it back."""
    return f"{thread_id}/{call_id}"


class ToolCallView(Wire):
    """A call of the current step."""

    call_id: str
    tool_name: str
    status: ToolCallStatus
    ticket: Maybe[SuspensionTicket] = None
    since: Maybe[int] = None
    child: Maybe[str] = None
    """The thread of the sub-agent that the call waits for."""
    work_id: Maybe[str] = None
    """What that sub-agent is called by its parent."""


class WaitsFor(StrEnum):
    """What a run waits for that it cannot bring about itself."""

    DECISIONS = "decisions"
    TASKS = "tasks"
    BUDGET = "budget"


class StatusView(Wire):
    """Where a thread's run stands."""

    identity: RunIdentity
    status: RunStatus
    doing: str
    steps: int
    usage: Usage
    runs: int = 1
    """How many runs the thread has had, this one included."""
    waits_for: Maybe[WaitsFor] = None
    calls: Few[tuple[ToolCallView, ...]] = ()
    queued: Few[int] = 0
    refusals: Few[tuple[Refusal, ...]] = ()
    result: Maybe[RunResult] = None
    active_agent: Maybe[str] = None
    """Who answers by now, if the run was handed over."""
    tasks: Few[tuple[Task, ...]] = ()
    """The thread's background tasks: those that run, and the newest of those that ended."""
    letters: Few[tuple[DeadLetter, ...]] = ()
    """Messages to others that could not be delivered; of long ones, the beginning."""
    spent: Spent = Spent()
    """What the run has spent, with everything below it that has ended."""
    budget: Maybe[Budget] = None
    """What it may spend."""

    @property
    def children(self) -> tuple[str, ...]:
        """The threads of the sub-agents and tasks that run for it now."""
        calls = (call.child for call in self.calls)
        tasks = (task.thread_id for task in self.tasks if not task.status.is_terminal)
        return tuple(thread for thread in (*calls, *tasks) if thread is not None)

    @property
    def pending(self) -> tuple[SuspensionTicket, ...]:
        """The decisions the run waits for."""
        return tuple(call.ticket for call in self.calls if call.ticket is not None)


class Earlier(Wire):
    """Where the entries stand that this execution of the thread does not hold: in the one before it."""

    run_id: str
    through: int
    """It holds everything up to this number, itself or further back."""
    digest: Maybe[str] = None
    thread_id: Maybe[str] = None
    """Of a fork: the thread that it was forked from, which has that execution."""


class PointView(Wire):
    """What a thread kept when it had so many messages, or which execution knows; neither, if no step ends there."""

    messages: int
    digest: Few[str] = ""
    keeps: Maybe[Keeps] = None
    earlier: Maybe[Earlier] = None


class TranscriptPage(Wire):
    messages: tuple[Message, ...]
    next: Maybe[int] = None
    """Ask again with `after` = this; absent when there is no more."""
    restoring: Few[bool] = False
    """The thread is just being woken, or was closed meanwhile: all of its conversation stands in `earlier`.

    Only a fork knows by now `through` where.
    """
    earlier: Maybe[Earlier] = None


class EventsPage(Wire):
    events: tuple[EventRecord, ...]
    last: int
    """Ask again with `after` = this."""
    done: bool
    """The thread has ended and no event will follow `last` of the final page."""
    more: Few[bool] = False
    """There are already events after `last`."""
    in_flight: Few[tuple[str, ...]] = ()
    """The activities that the run waits for once `last` has happened, by their ids; only of the final page."""
    restoring: Few[bool] = False
    """The thread is just being woken, and does not know yet where its numbers go on."""
    earlier: Maybe[Earlier] = None
