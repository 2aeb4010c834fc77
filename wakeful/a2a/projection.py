"""What the events of a thread and its delegates say about its runs and the messages that began them. Pure.

It is the same for a task that is read once and for one that is followed: both are a fold of the thread's events, so a
server that has just started shows exactly what the last one did.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from wakeful.contract.decisions import ClientDecisions, SuspensionTicket
from wakeful.contract.events import (
    ChildStarted,
    ErrorEvent,
    EventRecord,
    FinishSummary,
    MessageEdited,
    MessageReceived,
    MessagesRead,
    MessagesWithdrawn,
    RunFinish,
    RunStart,
    StepStart,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallResumed,
)
from wakeful.contract.messages import MediaBlock, Message
from wakeful.contract.runs import Adapter, Cancelled, Errored, RunIdentity, RunStatus, Termination


class Phase(Enum):
    """How far a run has come."""

    CREATED = auto()
    RUNNING = auto()
    PAUSED = auto()
    DONE = auto()


@dataclass
class RunRecord:
    """One run of a thread."""

    identity: RunIdentity
    at: int
    """When its phase changed, in milliseconds since 1970."""
    message_ids: list[str]
    """The messages that it has read, in their order."""
    phase: Phase = Phase.CREATED
    summary: FinishSummary | None = None
    termination: Termination | None = None
    files: tuple[MediaBlock, ...] | None = None
    """The files that its tools returned; None until they are read, of a run that has ended."""

    @property
    def is_over_a2a(self) -> bool:
        """Whether a message that came over A2A began it."""
        return self.identity.adapter is Adapter.A2A


@dataclass
class ThreadRecord:
    """One thread: its runs, its messages, and what its newest run waits for."""

    position: int = 0
    """The number of the newest event."""
    runs: list[RunRecord] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    received_at: dict[str, int] = field(default_factory=dict)
    withdrawn: dict[str, int] = field(default_factory=dict)
    """Messages that were withdrawn before a run read them, and when."""
    pending: dict[str, SuspensionTicket] = field(default_factory=dict)
    """The suspended calls of the newest run, by call id."""
    gated: set[str] = field(default_factory=set)
    """Those of them that a permission rule, a gate or a hook has suspended."""
    delegates: dict[str, str] = field(default_factory=dict)
    """The threads of the sub-agents that calls of the newest run wait for, by call id."""
    all_delegates: set[str] = field(default_factory=set)
    """The same of all its calls, also of those that have ended."""

    def copy(self) -> "ThreadRecord":
        """A record of its own, which can take other events."""
        copied = {name: copy(value) for name, value in vars(self).items()}
        runs = [replace(run, message_ids=list(run.message_ids)) for run in self.runs]
        return ThreadRecord(**{**copied, "runs": runs})

    @property
    def newest(self) -> RunRecord | None:
        return self.runs[-1] if self.runs else None

    def run_of(self, message_id: str) -> RunRecord | None:
        """The run that read a message; of one that was read again after a rollback, the last."""
        return next((run for run in reversed(self.runs) if message_id in run.message_ids), None)

    def on_record(self, record: EventRecord) -> None:
        """Take the next event of the thread."""
        self.position = max(self.position, record.seq)
        match record.event:
            case MessageReceived(message=message) | MessageEdited(message=message):
                self.messages[message.id] = message
                self.received_at.setdefault(message.id, record.at)
            case MessagesWithdrawn(message_ids=ids):
                self.withdrawn |= dict.fromkeys(ids, record.at)
            case MessagesRead(message_ids=ids) if self.newest is not None:
                self.newest.message_ids += ids
            case RunStart() as start:
                self._on_run_start(start, record.at)
            case StepStart() if self.newest is not None and self.newest.phase is Phase.CREATED:
                self.newest.phase, self.newest.at = Phase.RUNNING, record.at
            case RunFinish() as finish:
                self._on_run_finish(finish, record.at)
            case ErrorEvent(message=message):
                self.end(Errored(value=message), record.at)
            case _:
                self._on_call_event(record)

    def end(self, termination: Termination, at: int) -> None:
        """The newest run has ended from outside, and says nothing itself."""
        if self.newest is not None and self.newest.phase is not Phase.DONE:
            self.newest.phase, self.newest.termination, self.newest.at = Phase.DONE, termination, at
            self.pending.clear()
            self.delegates.clear()

    def _on_run_start(self, start: RunStart, at: int) -> None:
        run = self.newest
        if run is not None and run.identity.run_id == start.run_id and run.phase is not Phase.DONE:
            run.phase, run.at = Phase.RUNNING, at  # it continues after a pause
            return
        if start.identity is not None:
            self.runs.append(RunRecord(start.identity, at, list(start.message_ids)))
        self.pending.clear()
        self.delegates.clear()

    def _on_run_finish(self, finish: RunFinish, at: int) -> None:
        run = self.newest
        if run is None or run.identity.run_id != finish.run_id:
            return
        run.at, run.summary = at, finish.result
        if finish.result is not None and finish.result.status is RunStatus.WAITING:
            run.phase = Phase.PAUSED
            return
        run.phase, run.termination = Phase.DONE, Cancelled() if finish.rolled_back else finish.termination
        self.pending.clear()
        self.delegates.clear()

    def _on_call_event(self, record: EventRecord) -> None:
        match record.event:
            case ChildStarted(call_id=str(call_id), agent_id=str(), thread_id=thread_id):
                self.delegates[call_id] = thread_id
                self.all_delegates.add(thread_id)
            case ToolCallDone(id=id, outcome=ToolCallOutcome.SUSPENDED) as done if done.result.suspension is not None:
                self.pending[id] = done.result.suspension
                (self.gated.add if done.gated else self.gated.discard)(id)
            case ToolCallDone(id=id) | ToolCallCancel(id=id) | ToolCallResumed(target_id=id):
                self.pending.pop(id, None)
                self.delegates.pop(id, None)
            case _:
                pass


@dataclass(frozen=True)
class WaitingCall:
    """A suspended call that a run waits for: its own, or one of a delegate."""

    thread_id: str
    ticket: SuspensionTicket
    gated: bool = False

    @property
    def is_about_auth(self) -> bool:
        """Whether the call waits for a permission, or a remote agent behind it for a sign-in."""
        return self.ticket.is_about_auth

    @property
    def is_question(self) -> bool:
        """Whether the tool asks for a value. Else it is asked whether the call may run."""
        return self.ticket.is_question(gated=self.gated)


class TreeRecord:
    """A thread and the delegates that its calls have started, at any depth.

    Args:
        decisions: what the clients who are shown the thread's tasks may decide.
    """

    def __init__(self, thread_id: str, decisions: ClientDecisions) -> None:
        self.thread_id = thread_id
        self.decisions = decisions
        self.threads: dict[str, ThreadRecord] = {thread_id: ThreadRecord()}

    @property
    def root(self) -> ThreadRecord:
        return self.threads[self.thread_id]

    @property
    def positions(self) -> dict[str, int]:
        """The number of the newest event of each thread."""
        return {thread_id: thread.position for thread_id, thread in self.threads.items()}

    def thread(self, thread_id: str) -> ThreadRecord:
        return self.threads.setdefault(thread_id, ThreadRecord())

    def on_record(self, record: EventRecord) -> None:
        """Take the next event of the thread or of one of its descendants."""
        self.thread(record.path[-1] if record.path else self.thread_id).on_record(record)

    def waiting(self) -> list[WaitingCall]:
        """The calls that the newest run waits for, the oldest of each thread first."""
        return list(self._waiting(self.thread_id))

    def _waiting(self, thread_id: str) -> Iterator[WaitingCall]:
        thread = self.threads.get(thread_id)
        if thread is None or thread.newest is None:
            return
        if thread.newest.phase is Phase.PAUSED:
            yield from (WaitingCall(thread_id, ticket, id in thread.gated) for id, ticket in thread.pending.items())
        for delegate in thread.delegates.values():
            yield from self._waiting(delegate)
