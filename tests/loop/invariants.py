"""A run under watch: after every fact it is held against the invariants, whatever the order of the facts."""

from dataclasses import dataclass, field

from tests.loop.driving import carry
from tests.loop.invariants_answers import Answers
from tests.loop.invariants_children import Kin
from tests.loop.invariants_hooks import Hooks
from tests.loop.provider_rules import may_be_sent_anywhere
from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.decisions import Decision, SuspensionTicket, ToolCallResume
from wakeful.contract.events import (
    AgentEvent,
    DecisionOverdue,
    RunFinish,
    RunStart,
    ToolCallCancel,
    ToolCallDone,
    ToolCallOutcome,
    ToolCallReady,
    ToolCallResumed,
)
from wakeful.contract.gates import Block, Verdict
from wakeful.contract.inference import Rewind
from wakeful.contract.messages import Message, Role
from wakeful.contract.requests import RunRequest
from wakeful.contract.runs import Blocked, OnBusy, RunStatus, ThreadMode, Usage
from wakeful.contract.transcript import EMPTY_DIGEST, assistant_message, chained, tool_message
from wakeful.loop.calls.batch import SuspendedCall
from wakeful.loop.calls.deadlines import DEADLINE
from wakeful.loop.machine.advance import advance, begin
from wakeful.loop.machine.commands import CallTool, CancelWork, Command, Infer, SendSignal
from wakeful.loop.machine.facts import (
    AgentResolved,
    ChildClosed,
    ChildSettled,
    DecisionsReceived,
    Delivered,
    Fact,
    HooksReturned,
    InferenceReturned,
    LoopFailed,
    MessagesSubmitted,
    TimerFired,
    ToolReturned,
    WorkCancelled,
    WorkFailed,
)
from wakeful.loop.machine.stages import AwaitingTasks, Done, Idle
from wakeful.loop.machine.state import Advance, Thread

WORK = AgentResolved | HooksReturned | InferenceReturned | Delivered | ToolReturned | WorkFailed | WorkCancelled


@dataclass
class Watched:
    """Feeds facts to a run and asserts what must hold of every run; each check names the invariant it holds."""

    request: RunRequest
    state: Thread = field(init=False)
    now: int = 0
    issued: dict[str, Command] = field(default_factory=dict)
    returned: set[str] = field(default_factory=set)
    abandoned: frozenset[str] = frozenset()
    usage: Usage = field(default_factory=Usage)

    answers: Answers = field(default_factory=Answers)
    kin: Kin = field(default_factory=Kin)
    hooks: Hooks = field(default_factory=Hooks)
    ready: dict[str, None] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    executions: dict[str, int] = field(default_factory=dict)
    grants: dict[str, int] = field(default_factory=dict)
    continuations: int = 0

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    forbidden: set[str] = field(default_factory=set)
    overdue: set[str] = field(default_factory=set)

    active: bool = False
    step_open: bool = False
    run_id: str = ""
    ended: set[str] = field(default_factory=set)

    entries: dict[str, Message] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    may_undo: bool = False

    def __post_init__(self) -> None:
        begun = begin(self.request, thread_id="t1", run_id="r1")
        assert begun == begin(self.request, thread_id="t1", run_id="r1")
        for index, message in enumerate(begun.thread.transcript.messages):
            self.entries[f"input:{index}"] = message
        self.thread = begun.thread
        self._check(begun.thread, begun)

    def feed(self, fact: Fact, *, after: int = 1) -> None:
        before = self.thread
        self.now += after
        moved = advance(before, fact, now=self.now)
        if self.now % 4 == 0:
            assert moved == advance(before, fact, now=self.now), "advance is a function of its arguments"
        self._remember(before, fact)
        self.thread = moved.thread
        self._check(before, moved)
        for told in self.kin.follow_up(moved):
            self.feed(told)
        if isinstance(fact, TimerFired):
            assert moved.thread.next_alarm is None or moved.thread.next_alarm > self.now, "what is due is done"

    def crash(self) -> None:
        """All that is left of the run is what goes along when its workflow continues as new."""
        before, after = self.thread, carry(self.thread)
        on_the_way = (*after.queued, *after.steering)
        as_before = replace(after, queued=before.queued, steering=before.steering, transcript=before.transcript)
        assert as_before == before
        assert (after.transcript.messages, after.transcript.ref) == (before.transcript.messages, before.transcript.ref)
        self.entries |= {str(submitted.source): submitted.message for submitted in on_the_way}
        self.told = []
        for message in after.transcript.messages:
            self.told.append(chained(self.told[-1] if self.told else EMPTY_DIGEST, message))
        self.thread = after

    @property
    def names(self) -> list[str]:
        """The names a decision may use, the newest last: of calls, and of what is suspended."""
        calls = self.thread.batch.suspended if self.thread.batch else ()
        return ["nobody", *sorted(self.answers.answered), *self.ready, *(call.ticket.suspension.id for call in calls)]

    def send(self, decisions: tuple[Decision, ...]) -> None:
        """Send a batch of decisions, tagged so that each is known when it is applied."""
        self.feed(DecisionsReceived(self.answers.send(self.thread, decisions)))

    def _remember(self, before: Thread, fact: Fact) -> None:
        """What the world knows of a fact, by its own books."""
        if (message_id := self.kin.told(before, fact)) is not None:
            self.accepted.add(message_id)
        ended = fact.result.work_id if isinstance(fact, ChildSettled) else getattr(fact, "id", "")
        if isinstance(fact, ChildSettled | ChildClosed) and ended in before.in_flight - self.kin.tasks:
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
                self.forbidden |= {said.reason for said in fact.response.verdicts.values() if isinstance(said, Block)}
                self.dropped |= {broken.call_id for broken in fact.response.interruptions if broken.call_id}
            if isinstance(fact, ToolReturned) and isinstance(command, CallTool):
                self.entries[fact.id] = tool_message(command.call.id, fact.outcome.result)
                self.forbidden.add(fact.outcome.blocked or "")
            effects = self.hooks.asked(fact)
            self.forbidden.add((effects.block or "") if effects else "")
        if isinstance(fact, LoopFailed):
            self.abandoned |= before.in_flight
        if isinstance(fact, MessagesSubmitted) and not isinstance(before.stage, Done):
            if _is_refused(before, fact):
                return
            self.may_undo |= fact.on_busy is OnBusy.ROLLBACK
            number = before.counters.submissions + 1
            for index, written in enumerate(fact.messages):
                message = written.as_message(ids.submitted_message_id(number, index))
                self.accepted.add(message.id)
                self.entries[ids.source(ids.FromSubmit(number, index))] = message

    def _check(self, before: Thread, moved: Advance) -> None:
        for command in moved.commands:
            self._command(before, command)
        for event in moved.events:
            self._event(before, event)
        for resuming in self.thread.batch.resuming if self.thread.batch else ():
            if resuming.resume.actor != DEADLINE:
                self._granted(resuming.call.id, resuming.resume, resuming.ticket)
        self.answers.are_applied_as_a_whole()
        self._reaches_waiting_or_done(before, moved)
        self._in_flight()
        if moved.thread.transcript is not before.transcript:
            self._pairs_calls_with_results()
            may_be_sent_anywhere(moved.thread.transcript.messages)
        assert {rule.tool for rule in moved.thread.permissions} == self.answers.allowed
        self._loses_no_message(before)
        self.hooks.check(before, moved)
        assert self.thread.current.usage == self.usage
        for suspended in self.thread.batch.suspended if self.thread.batch else ():
            assert self.answers.suspended_as[suspended.ticket.suspension.id] == suspended.call.id
        assert (self.active, self.step_open) == (
            self.thread.status not in (RunStatus.WAITING, RunStatus.DONE),
            self.thread.current.step.is_open,
        )

    def _command(self, before: Thread, command: Command) -> None:
        if isinstance(command, CancelWork):
            assert command.id in before.in_flight | self.kin.started | self.issued.keys()
            return
        if self.kin.issued(command, self.thread):
            return
        assert command.id not in self.issued, "a command's id never comes back"
        self.issued[command.id] = command
        if isinstance(command, CallTool):
            self._runs_once_a_grant(command.call.id, command)
        if isinstance(command, Infer):
            self._can_be_read_back(command)
            self.continuations += command.continuing
            assert self.continuations <= command.agent.max_continuations

    def _runs_once_a_grant(self, id: str, command: CallTool) -> None:
        """I-04"""
        runs = self.executions[id] = self.executions.get(id, 0) + 1
        assert id not in self.settled
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
        """A decision let the call run, at once or when it is its turn."""
        tag = int(resume.actor or "")
        if self.grants.get(id) != tag:
            self.grants[id] = tag
            self.answers.applied(tag, id, ticket.suspension.id, ticket)

    def _can_be_read_back(self, command: Infer) -> None:
        """What all inferences were told, put together, is the transcript the command names."""
        for source in command.appended:
            if isinstance(source, Rewind):
                del self.told[source.rewind :]
                continue
            message = source if isinstance(source, Message) else self.entries[source]
            self.told.append(chained(self.told[-1] if self.told else EMPTY_DIGEST, message))
        assert (len(self.told), self.told[-1]) == (command.transcript.length, command.transcript.digest)
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
                assert event.suspension_id not in self.overdue, "watchers are told once"
                self.overdue.add(event.suspension_id)
            case "task_changed" | "child_started":
                assert not isinstance(before.stage, Done)
            case "signal_refused":
                assert isinstance(before.stage, Done | Idle) or self.run_id not in self.ended, "the end comes last"
            case _:
                assert self.active
                self._call_event(before, event)

    def _run_starts(self, event: RunStart) -> None:
        """A run that paused goes on; one that ended never does, and the next has another id."""
        assert not self.active
        assert event.run_id not in self.ended
        assert event.run_id == self.run_id or self.run_id in {*self.ended, ""}
        if event.run_id != self.run_id:
            self.usage, self.continuations = Usage(), 0
        self.active, self.run_id = True, event.run_id

    def _run_finishes(self, event: RunFinish) -> None:
        assert (self.active, self.step_open, self.run_id) == (True, False, event.run_id)
        self.active = False
        if isinstance(event.termination, Blocked) and not event.termination.value.startswith("handoff"):
            assert event.termination.value in self.forbidden
        if event.result is not None and event.result.status is RunStatus.DONE:
            assert self.ready.keys() == self.settled
            self.kin.run_finishes(event, self.thread)
            self.ended.add(event.run_id)

    def _call_event(self, before: Thread, event: AgentEvent) -> None:
        """I-07: every call that is ready is done, resumed or cancelled once."""
        if isinstance(event, ToolCallReady):
            self.ready[event.id] = None
        if event.event_type not in ("tool_call_done", "tool_call_resumed", "tool_call_cancel"):
            return
        id = event.target_id if isinstance(event, ToolCallResumed) else getattr(event, "id", "")
        if isinstance(event, ToolCallCancel) and id in self.dropped:
            assert id not in self.ready, "a call that was dropped is never made"
            return
        assert id in self.ready
        assert id not in self.settled
        if isinstance(event, ToolCallDone) and event.outcome is ToolCallOutcome.SUSPENDED:
            self.answers.suspended(id, event)
        else:
            self.settled.add(id)
        if isinstance(event, ToolCallResumed) and isinstance(event.result, dict) and "tag" in event.result:
            tag = event.result["tag"]
            assert isinstance(tag, int)
            self.answers.applied(tag, id, _suspension_id(before, id))

    def _reaches_waiting_or_done(self, before: Thread, moved: Advance) -> None:
        """I-02, I-06"""
        state = moved.thread
        if isinstance(before.stage, Done):
            assert (state.stage, state.transcript) == (before.stage, before.transcript)
            assert all(isinstance(command, SendSignal) for command in moved.commands), "a letter goes back"
        elif isinstance(state.stage, Idle):
            assert (state.queued, state.current.held, state.in_flight) == ((), (), frozenset())
            assert state.stage.closing or all(later.passive for later in state.steering)
        elif isinstance(state.stage, AwaitingTasks):
            assert state.children.running
            assert (state.in_flight, state.current.held, state.steering) == (frozenset(), (), ())
        elif state.status is RunStatus.WAITING:
            assert state.batch is not None
            assert state.batch.suspended
            assert (state.in_flight, state.current.held) == (frozenset(), ())
        elif state.status is not RunStatus.DONE:
            waits = state.batch.running if state.batch else ()
            nameless = any(task.thread_id is None for task in state.children.running)
            awaited = any(call.awaits in self.kin.tasks for call in waits)
            assert state.in_flight or awaited or nameless, "something will come back"
        if any(isinstance(command, Infer) for command in moved.commands):
            assert self.ready.keys() == self.settled, "no model turn happens while a call is unsettled"

    def _in_flight(self) -> None:
        expected = self.issued.keys() - self.returned - self.abandoned - self.kin.tasks
        assert self.thread.in_flight - self.kin.tasks == expected
        running = {task.task_id for task in self.thread.children.running}
        assert self.thread.in_flight & self.kin.tasks <= running

    def _pairs_calls_with_results(self) -> None:
        """I-03, H-04: every call has one result, right after the answer that asked for it, in call order."""
        expected: list[str] = []
        for message in self.thread.transcript.messages:
            if message.role is Role.TOOL:
                assert expected.pop(0) == message.tool_call_id
            else:
                assert expected == []
                expected = [call.id for call in message.tool_calls]
        assert expected == []

    def _loses_no_message(self, before: Thread) -> None:
        """Every message that was taken is read, waits, or was undone by somebody who asked for that."""
        read = {message.id for message in self.thread.transcript.messages}
        waiting = [submitted.message.id for submitted in (*self.thread.steering, *self.thread.queued)]
        gone = {message.id for message in before.transcript.messages} - read
        assert not gone or self.may_undo
        self.undone |= gone
        assert self.accepted <= {*read, *waiting, *self.undone}
        assert len(waiting) == len({*waiting, *read} - read)
        assert len(read) == len(self.thread.transcript.messages)
        if isinstance(self.thread.stage, Done):
            passive = {later.message.id for later in self.thread.steering if later.passive or later.internal}
            assert [id for id in self.thread.stage.result.unread if id not in passive] == [
                id for id in waiting if id not in passive
            ]


def _is_refused(before: Thread, fact: MessagesSubmitted) -> bool:
    if isinstance(before.stage, Idle):
        return before.stage.closing
    is_busy = not isinstance(before.stage, AwaitingTasks)
    return (fact.on_busy is OnBusy.REJECT and (is_busy or bool(fact.overrides))) or _only_joins(before, fact)


def _only_joins(before: Thread, fact: MessagesSubmitted) -> bool:
    """Messages with overrides for a run that others began are refused."""
    joins = fact.on_busy is OnBusy.STEER or (fact.on_busy is OnBusy.ENQUEUE and before.mode is ThreadMode.RUN)
    return joins and bool(fact.messages and fact.overrides)


def _suspension_id(before: Thread, call_id: str) -> str | None:
    """The name under which the call waited, unless it began to wait with this very fact."""
    found = before.batch.find(call_id) if before.batch else None
    return found.ticket.suspension.id if isinstance(found, SuspendedCall) else None
