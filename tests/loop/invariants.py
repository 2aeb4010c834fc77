"""A thread that is checked against the invariants after every fact."""

from dataclasses import dataclass, field

from tests.loop.conversation import Conversation, entries_of
from tests.loop.driving import after_continue_as_new
from tests.loop.invariants_children import ChildChecks
from tests.loop.invariants_decisions import DecisionChecks
from tests.loop.invariants_hooks import HookChecks
from tests.loop.invariants_outcomes import check_outcomes
from tests.loop.provider_rules import check_every_provider
from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.decisions import Decision, SuspensionTicket, ToolCallResume
from wakeful.contract.events import (
    AgentEvent,
    DecisionOverdue,
    RunFinish,
    RunStart,
    ToolCallCancel,
    ToolCallDecided,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallReady,
    ToolCallResumed,
)
from wakeful.contract.gates import Block, Verdict
from wakeful.contract.inference import Rewind
from wakeful.contract.messages import Message, Role
from wakeful.contract.outcomes import OutcomeStatus
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Blocked, OnBusy, RunStatus, ThreadMode, Usage
from wakeful.contract.transcript import EMPTY_DIGEST, assistant_message, chained, tool_message
from wakeful.loop.calls.batch import SuspendedCall
from wakeful.loop.calls.deadlines import DEADLINE
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.commands import CallTool, CancelWork, Command, Infer, SendSignal
from wakeful.loop.machine.facts import (
    AgentResolved,
    ChildClosed,
    ChildSettled,
    DecisionsReceived,
    Delivered,
    EditRequested,
    Fact,
    HooksReturned,
    InferenceReturned,
    LoopFailed,
    MessagesSubmitted,
    RevocationRequested,
    TimerFired,
    ToolReturned,
    WorkCancelled,
    WorkFailed,
)
from wakeful.loop.machine.stages import AwaitingTasks, Done, Idle
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.thread.opening import begin

WORK = AgentResolved | HooksReturned | InferenceReturned | Delivered | ToolReturned | WorkFailed | WorkCancelled


@dataclass
class CheckedRun:
    """Feeds facts to a thread and asserts what must hold for every thread."""

    request: RunRequest
    state: Thread = field(init=False)
    now: int = 0
    issued: dict[str, Command] = field(default_factory=dict)
    returned: set[str] = field(default_factory=set)
    abandoned: frozenset[str] = frozenset()
    usage: Usage = field(default_factory=Usage)

    decisions: DecisionChecks = field(default_factory=DecisionChecks)
    subagents: ChildChecks = field(default_factory=ChildChecks)
    hooks: HookChecks = field(default_factory=HookChecks)
    ready: dict[str, None] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    executions: dict[str, int] = field(default_factory=dict)
    grants: dict[str, int] = field(default_factory=dict)
    continuations: int = 0

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    block_reasons: set[str] = field(default_factory=set)
    overdue: set[str] = field(default_factory=set)

    active: bool = False
    step_open: bool = False
    run_id: str = ""
    ended: set[str] = field(default_factory=set)

    entries: dict[str, Message] = field(default_factory=dict)
    digests: list[str] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    may_undo: bool = False
    allowed_before: set[str] = field(default_factory=set)
    watched: Conversation = field(default_factory=Conversation)

    def __post_init__(self) -> None:
        first = begin(self.request, thread_id="t1", run_id="r1")
        assert first == begin(self.request, thread_id="t1", run_id="r1")
        for index, message in enumerate(first.thread.transcript.messages):
            self.entries[f"input:{index}"] = message
        self.thread = first.thread
        self._check(first.thread, first)

    def feed(self, fact: Fact, *, after: int = 1) -> None:
        before = self.thread
        self.now += after
        moved = advance(before, fact, now=self.now)
        if self.now % 4 == 0:
            assert moved == advance(before, fact, now=self.now), "advance is a function of its arguments"
        self._remember(before, fact)
        self.thread = moved.thread
        self._check(before, moved)
        for following in self.subagents.follow_up(moved):
            self.feed(following)
        if isinstance(fact, TimerFired):
            assert moved.thread.next_alarm is None or moved.thread.next_alarm > fact.at, (
                "an alarm that is due was handled"
            )

    def continue_as_new(self) -> None:
        """The thread continues in its next execution, with what the snapshot passes to it."""
        before, after = self.thread, after_continue_as_new(self.thread)
        unread = (*after.queued, *after.steering)
        as_before = replace(after, queued=before.queued, steering=before.steering, transcript=before.transcript)
        assert as_before == before
        assert (after.transcript.messages, after.transcript.ref) == (before.transcript.messages, before.transcript.ref)
        self.entries |= {str(submitted.source): submitted.message for submitted in unread}
        self.digests = []
        for message in after.transcript.messages:
            self.digests.append(chained(self.digests[-1] if self.digests else EMPTY_DIGEST, message))
        self.thread = after

    @property
    def names(self) -> list[str]:
        """The names that a decision may use, the newest last: ids of calls and of suspensions."""
        calls = self.thread.batch.suspended if self.thread.batch else ()
        return ["unknown", *sorted(self.decisions.decided), *self.ready, *(call.ticket.suspension.id for call in calls)]

    def send(self, decisions: tuple[Decision, ...]) -> None:
        """Send a batch of decisions, each with a tag by which it is recognised when it is applied."""
        self.feed(DecisionsReceived(self.decisions.send(self.thread, decisions)))

    def _remember(self, before: Thread, fact: Fact) -> None:
        """Record what the fact must cause."""
        if (message_id := self.subagents.message_id(before, fact)) is not None:
            self.accepted.add(message_id)
        ended = fact.result.work_id if isinstance(fact, ChildSettled) else getattr(fact, "id", "")
        if isinstance(fact, ChildSettled | ChildClosed) and ended in before.in_flight - self.subagents.tasks:
            self.returned.add(ended)
        if isinstance(fact, WORK) and fact.id in before.in_flight:
            assert fact.id not in self.returned
            self.returned.add(fact.id)
            command = self.issued[fact.id]
            if isinstance(fact, InferenceReturned):
                self.usage = self.usage.plus(fact.response.usage)
                self.entries[fact.id] = assistant_message(fact.response)
                self.verdicts = fact.response.verdicts
                self.order = [call.id for call in fact.response.tool_calls]
                self.block_reasons |= {
                    verdict.reason for verdict in fact.response.verdicts.values() if isinstance(verdict, Block)
                }
                self.dropped |= {broken.call_id for broken in fact.response.interruptions if broken.call_id}
            if isinstance(fact, ToolReturned) and isinstance(command, CallTool):
                self.entries[fact.id] = tool_message(command.call.id, fact.outcome.result)
                self.block_reasons.add(fact.outcome.blocked or "")
            effects = self.hooks.effects_of(fact)
            self.block_reasons.add((effects.block or "") if effects else "")
        if isinstance(fact, LoopFailed):
            self.abandoned |= before.in_flight
        if isinstance(fact, EditRequested):
            source = ids.source(ids.FromSubmit(before.counters.submissions + 1, 0))
            self.entries[source] = fact.message.as_message("")
        if isinstance(fact, RevocationRequested):
            self.decisions.allowed.difference_update(fact.tools)
            self.allowed_before.difference_update(fact.tools)
        if isinstance(fact, MessagesSubmitted):
            if _is_refused(before, fact):
                return
            self.may_undo |= fact.on_busy is OnBusy.ROLLBACK
            number = before.counters.submissions + 1
            for index, submitted in enumerate(fact.messages):
                message = submitted.as_message(ids.submitted_message_id(number, index))
                self.accepted.add(message.id)
                self.entries[ids.source(ids.FromSubmit(number, index))] = message

    def _check(self, before: Thread, moved: Advance) -> None:
        for command in moved.commands:
            self._command(before, command)
        for event in moved.events:
            self._event(before, event)
            self.watched.add(event)
        if moved.events or moved.thread.transcript is not before.transcript:
            assert self.watched.entries == entries_of(self.thread.transcript.messages), "events have the conversation"
        for resuming in self.thread.batch.resuming if self.thread.batch else ():
            if resuming.resume.actor != DEADLINE:
                self._granted(resuming.call.id, resuming.resume, resuming.ticket)
        self.decisions.check_batches()
        self.decisions.check_records(self.thread)
        self._reaches_waiting_or_done(before, moved)
        self._in_flight()
        if moved.thread.transcript is not before.transcript:
            self._pairs_calls_with_results()
            check_every_provider(moved.thread.transcript.messages)
            self._names_messages_of_results()
        assert {rule.tool for rule in moved.thread.permissions} == self.decisions.allowed
        self._loses_no_message(before)
        if moved.thread.outcomes is not before.outcomes or moved.thread.stage is not before.stage:
            check_outcomes(moved.thread)
        self.hooks.check(before, moved)
        assert self.thread.current.usage == self.usage
        for suspended in self.thread.batch.suspended if self.thread.batch else ():
            assert self.decisions.suspended_as[suspended.ticket.suspension.id] == suspended.call.id
        assert (self.active, self.step_open) == (
            self.thread.status not in (RunStatus.WAITING, RunStatus.DONE),
            self.thread.current.step.is_open,
        )

    def _command(self, before: Thread, command: Command) -> None:
        if isinstance(command, CancelWork):
            assert command.id in before.in_flight | self.subagents.started | self.issued.keys()
            return
        if self.subagents.issued(command, self.thread):
            return
        assert command.id not in self.issued, "a command's id is never used twice"
        self.issued[command.id] = command
        if isinstance(command, CallTool):
            self._runs_once_per_grant(command.call.id, command)
        if isinstance(command, Infer):
            self._transcript_is_complete(command)
            self.continuations += command.continuing
            assert self.continuations <= command.agent.max_continuations

    def _runs_once_per_grant(self, id: str, command: CallTool) -> None:
        """I-04"""
        runs = self.executions[id] = self.executions.get(id, 0) + 1
        assert id not in self.finished
        if command.resume is None or command.ticket is None:
            assert (command.resume, command.ticket, runs) == (None, None, 1)
            earlier = self.order[: self.order.index(id)]
            assert id not in self.verdicts or any(earlier_id in self.executions for earlier_id in earlier)
        elif command.resume.actor == DEADLINE:
            assert command.ticket.expires_at is not None
            assert command.ticket.expires_at <= self.now
        else:
            self._granted(id, command.resume, command.ticket)

    def _granted(self, id: str, resume: ToolCallResume, ticket: SuspensionTicket) -> None:
        """A decision allowed the call to run, at once or after the calls before it."""
        tag = int(resume.actor or "")
        if self.grants.get(id) != tag:
            self.grants[id] = tag
            self.decisions.applied(tag, id, ticket.suspension.id, ticket)

    def _transcript_is_complete(self, command: Infer) -> None:
        """What all inference requests appended, put together, is the transcript that the command names."""
        for source in command.appended:
            if isinstance(source, Rewind):
                del self.digests[source.rewind :]
                continue
            message = source if isinstance(source, Message) else self.entries[source]
            self.digests.append(chained(self.digests[-1] if self.digests else EMPTY_DIGEST, message))
        assert (len(self.digests), self.digests[-1]) == (command.transcript.length, command.transcript.digest)
        assert command.transcript == self.thread.transcript.ref

    def _event(self, before: Thread, event: AgentEvent) -> None:
        """I-07"""
        match event.event_type:
            case "run_start":
                assert isinstance(event, RunStart)
                self._run_starts(event)
            case "run_finish":
                assert isinstance(event, RunFinish)
                self._run_finishes(event)
            case "step_start" | "step_end":
                assert (self.active, self.step_open) == (True, event.event_type == "step_end")
                self.step_open = not self.step_open
            case "decision_overdue":
                assert isinstance(event, DecisionOverdue)
                assert event.suspension_id not in self.overdue, "its event is emitted once"
                self.overdue.add(event.suspension_id)
            case "task_changed" | "child_started" | "mail_received":
                assert not isinstance(before.stage, Done)
            case "message_received" | "messages_withdrawn" | "message_edited" | "rules_revoked":
                pass  # also after the end: the execution that wakes the thread continues with it
            case "signal_refused":
                assert isinstance(before.stage, Done | Idle) or self.run_id not in self.ended, "the end comes last"
            case _:
                assert self.active
                self._call_event(before, event)

    def _run_starts(self, event: RunStart) -> None:
        """A run that paused continues; one that ended never does, and the next one has another id."""
        assert not self.active
        assert event.run_id not in self.ended
        assert event.run_id == self.run_id or self.run_id in {*self.ended, ""}
        if event.run_id != self.run_id:
            self.usage, self.continuations = Usage(), 0
            self.allowed_before = set(self.decisions.allowed)
        self.active, self.run_id = True, event.run_id

    def _run_finishes(self, event: RunFinish) -> None:
        assert (self.active, self.step_open, self.run_id) == (True, False, event.run_id)
        self.active = False
        if event.rolled_back:
            self.decisions.allowed = set(self.allowed_before)
        if isinstance(event.termination, Blocked) and not event.termination.value.startswith("handoff"):
            assert event.termination.value in self.block_reasons
        if event.result is not None and event.result.status is RunStatus.DONE:
            assert self.ready.keys() == self.finished
            self.subagents.run_finishes(event, self.thread)
            self.ended.add(event.run_id)

    def _call_event(self, before: Thread, event: AgentEvent) -> None:
        """I-07: every call that is ready is done, resumed or cancelled exactly once."""
        if isinstance(event, ToolCallReady):
            self.ready[event.id] = None
        if isinstance(event, ToolCallDecided):
            self.decisions.recorded(event)
        if event.event_type not in ("tool_call_done", "tool_call_resumed", "tool_call_cancel"):
            return
        id = event.target_id if isinstance(event, ToolCallResumed) else getattr(event, "id", "")
        if isinstance(event, ToolCallCancel) and id in self.dropped:
            assert id not in self.ready, "a call that was dropped never runs"
            return
        assert id in self.ready
        assert id not in self.finished
        if isinstance(event, ToolCallDone) and event.outcome is ToolCallOutcome.SUSPENDED:
            self.decisions.suspended(id, event)
        else:
            self.finished.add(id)
        if isinstance(event, ToolCallResumed) and isinstance(event.result, dict) and "tag" in event.result:
            tag = event.result["tag"]
            assert isinstance(tag, int)
            self.decisions.applied(tag, id, _suspension_id(before, id))

    def _reaches_waiting_or_done(self, before: Thread, moved: Advance) -> None:
        """I-02, I-06"""
        state = moved.thread
        if isinstance(before.stage, Done):
            assert isinstance(state.stage, Done), "the end comes last"
            before_unread, unread = before.stage.result.unread, state.stage.result.unread
            assert state.stage.result == before.stage.result.model_copy(update={"unread": unread})
            withdrawn = {outcome.id for outcome in state.outcomes if outcome.status is OutcomeStatus.WITHDRAWN}
            assert set(before_unread) - withdrawn <= set(unread)
            assert state.transcript == before.transcript
            assert all(isinstance(command, SendSignal) for command in moved.commands), "a message is returned"
        elif isinstance(state.stage, Idle):
            assert (state.queued, state.current.held, state.in_flight) == ((), (), frozenset())
            assert state.stage.closing or all(later.passive for later in state.steering)
        elif isinstance(state.stage, AwaitingTasks):
            assert state.children.running or state.current.holds
            assert (state.in_flight, state.current.held, state.steering) == (frozenset(), (), ())
        elif state.status is RunStatus.WAITING:
            assert state.batch is not None
            assert state.batch.suspended
            assert (state.in_flight, state.current.held) == (frozenset(), ())
        elif state.status is not RunStatus.DONE:
            running = state.batch.running if state.batch else ()
            unassigned = any(task.thread_id is None for task in state.children.running)
            awaited = any(call.awaits in self.subagents.tasks for call in running)
            assert state.in_flight or awaited or unassigned, "a fact will follow"
        if any(isinstance(command, Infer) for command in moved.commands):
            assert self.ready.keys() == self.finished, "the model is not called while a call is unfinished"

    def _in_flight(self) -> None:
        expected = self.issued.keys() - self.returned - self.abandoned - self.subagents.tasks
        assert self.thread.in_flight - self.subagents.tasks == expected
        running = {task.task_id for task in self.thread.children.running}
        assert self.thread.in_flight & self.subagents.tasks <= running

    def _pairs_calls_with_results(self) -> None:
        """I-03, H-04: every call has one result, right after the answer that has it, in call order."""
        expected: list[str] = []
        for message in self.thread.transcript.messages:
            if message.role is Role.TOOL:
                assert expected.pop(0) == message.tool_call_id
            else:
                assert expected == []
                expected = [call.id for call in message.tool_calls]
        assert expected == []

    def _names_messages_of_results(self) -> None:
        """B-702: `tool_call_done` names the message that has the call's result, whatever became of the call."""
        named = self.watched.result_ids
        for message in self.thread.transcript.messages:
            if message.tool_call_id in named:
                assert message.id == named[message.tool_call_id]

    def _loses_no_message(self, before: Thread) -> None:
        """Every accepted message is read, is queued, was undone by a rollback, or was withdrawn."""
        read = {message.id for message in self.thread.transcript.messages}
        waiting = [submitted.message.id for submitted in (*self.thread.steering, *self.thread.queued)]
        removed = {message.id for message in before.transcript.messages} - read
        assert not removed or self.may_undo
        self.undone |= removed
        withdrawn = {outcome.id for outcome in self.thread.outcomes if outcome.status is OutcomeStatus.WITHDRAWN}
        assert self.accepted <= {*read, *waiting, *self.undone, *withdrawn}
        assert withdrawn.isdisjoint({*read, *waiting})
        assert len(waiting) == len({*waiting, *read} - read)
        assert len(read) == len(self.thread.transcript.messages)
        if isinstance(self.thread.stage, Done):
            late = {later.message.id for later in (*self.thread.steering, *self.thread.queued) if later.late}
            passive = late | {later.message.id for later in self.thread.steering if later.passive or later.internal}
            assert [id for id in self.thread.stage.result.unread if id not in passive] == [
                id for id in waiting if id not in passive
            ]


def _is_refused(before: Thread, fact: MessagesSubmitted) -> bool:
    if isinstance(before.stage, Done):
        return fact.on_busy is OnBusy.REJECT
    if isinstance(before.stage, Idle):
        return before.stage.closing and fact.on_busy is OnBusy.REJECT
    is_busy = not isinstance(before.stage, AwaitingTasks)
    return (fact.on_busy is OnBusy.REJECT and (is_busy or bool(fact.settings.overrides))) or _only_joins(before, fact)


def _only_joins(before: Thread, fact: MessagesSubmitted) -> bool:
    """Messages with overrides that would join a run are refused."""
    joins = fact.on_busy is OnBusy.STEER or (fact.on_busy is OnBusy.ENQUEUE and before.mode is ThreadMode.RUN)
    return joins and bool(fact.messages and fact.settings.overrides)


def _suspension_id(before: Thread, call_id: str) -> str | None:
    """The id of the call's suspension, unless this fact suspended it."""
    found = before.batch.find(call_id) if before.batch else None
    return found.ticket.suspension.id if isinstance(found, SuspendedCall) else None
