"""`AgentRun`: the workflow around the loop. Its id is the thread's, so Temporal itself allows one active run a thread.

Signal handlers append a fact and return; one line changes the state; commands become activities, child workflows and
signals, whose ends are facts.
Runs unsandboxed: there is no user code in it, the import rules keep it pure, and recorded histories replay in CI.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from wakeful.contract import names
from wakeful.contract.decisions import Decision
from wakeful.contract.errors import CallerError
from wakeful.contract.inference import RestoreInput, TranscriptTail
from wakeful.contract.requests import RunRequest, parse_decisions, parse_page, parse_point, parse_request
from wakeful.contract.runs import RunResult
from wakeful.contract.state import StateView
from wakeful.contract.subagents import Keeps
from wakeful.contract.views import EventsPage, PointView, StatusView, TranscriptPage
from wakeful.loop.calls.decisions import Apply, Hold, Refuse, judge
from wakeful.loop.machine.advance import advance, begin, opened
from wakeful.loop.machine.commands import CancelChild, Command, Settle, StartChild, StartTask, Stop, Tell
from wakeful.loop.machine.facts import CancelRequested, DecisionsReceived, Fact, LoopBroken, TimePassed, WorkStopped
from wakeful.loop.machine.stages import Cancelling, Done
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.thread.continue_as_new import Carried, pack, pending_commands, size_of, unpack
from wakeful.loop.thread.transcript import transcript_of
from wakeful.loop.thread.views import keeps, status_view
from wakeful_workflows.alarm import Alarm
from wakeful_workflows.children import Children, FamilyCommand
from wakeful_workflows.commands import Resolved, Work, restored
from wakeful_workflows.continue_as_new import CARRY_LIMIT, is_due
from wakeful_workflows.early_activations import Turns
from wakeful_workflows.fork_points import Points
from wakeful_workflows.queries import Before, EventLog, events_page, past_of, transcript_page, unread_page, unread_point
from wakeful_workflows.signals import Signals, single
from wakeful_workflows.visibility import Visibility


# Not `Exception`: that would make nondeterminism fail runs, which must wait for a worker with the right code instead.
# These two are what the SDK raises for a start with arguments that cannot be passed on.
@workflow.defn(name=names.WORKFLOW, sandboxed=False, failure_exception_types=[TypeError, RuntimeError])
class AgentRun(Signals):
    """One run of an agent on a thread. Start it with `{"agent_id": "assistant", "input": "hello"}`."""

    def __init__(self) -> None:
        super().__init__()
        self._outbox: list[Command] = []
        self._state: RunState | None = None
        self._log = EventLog()
        self._work = Work(self._facts.append)
        self._children = Children(self._facts.append)
        self._visibility = Visibility()
        self._turns = Turns()
        self._alarm = Alarm(lambda: self._facts.append(TimePassed()))
        continued = workflow.info().continued_run_id
        self._earlier = Before(continued) if continued else None
        self._points = Points()
        self._restoring: RestoreInput | None = None
        self._is_too_large = False

    @workflow.run
    async def run(self, request: Any = None) -> RunResult:
        if isinstance(request, dict) and names.CARRIED in request:
            self._go_on(unpack(request[names.CARRIED]))
        else:
            await self._begin(_understood(request))
        while True:
            moved = bool(self._facts)
            while self._facts:
                self._take(self._advance(self._current(), self._facts.popleft()))
            state = self._current()
            if moved:
                self._continue_as_new_if_due(state)
            self._visibility.show_ends(state, search_attributes=self._work.settings.search_attributes)
            self._perform()
            self._alarm.keep(state.next_alarm, now=_now())
            self._visibility.show(state, search_attributes=self._work.settings.search_attributes)
            if isinstance(state.stage, Done) and self._is_quiet() and not self._facts:
                return state.stage.result
            await self._until(self._may_go_on)

    async def _begin(self, request: RunRequest) -> None:
        self._visibility.title(request)
        thread_id = workflow.info().workflow_id
        run_id = thread_id if request.family is not None else str(workflow.uuid4())
        transcript = kept = None
        if (past := past_of(request)) is not None:
            self._earlier = Before(past.run_id, past.thread_id)
            self._state = opened(request, thread_id=thread_id, run_id=run_id)
            tail = await self._restored(past)
            transcript, kept = transcript_of(tail), tail.keeps
            self._log = EventLog(before=kept.events if kept else 0)
            self._points = Points(transcript.length)
        self._take(begin(request, thread_id=thread_id, run_id=run_id, transcript=transcript, keeps=kept))
        if request.fork is not None and transcript is not None:
            self._points.begin_at(transcript.mark, self._current())

    async def _restored(self, past: RestoreInput) -> TranscriptTail:
        """What the thread said and kept. A cancellation comes after it, or what was sent meanwhile would be lost."""
        restoring = asyncio.create_task(restored(past))
        self._restoring = past
        while not restoring.done():
            await self._until(restoring.done)
        tail = restoring.result()
        self._restoring = None  # if it fails, nothing was ever said here
        return tail

    def _go_on(self, carried: Carried) -> None:
        """Be the thread that the execution before this one was."""
        self._log = EventLog(before=carried.events)
        self._work.settings = Resolved(carried.search_attributes, carried.budget)
        self._visibility = Visibility(carried.shown, runs=carried.state.runs)
        self._points = Points(carried.state.transcript.length)
        self._take(Advance(carried.state, pending_commands(carried.state)))

    def _advance(self, state: RunState, fact: Fact) -> Advance:
        now = _now()
        try:
            return advance(state, fact, now=now)
        except Exception as error:  # a bug of ours ends the run with its message; it must not hang it
            workflow.logger.exception("the loop broke", extra={"fact": type(fact).__name__})
            broken = f"internal error on {type(fact).__name__}: {type(error).__name__}: {error}"
            return advance(state, LoopBroken(broken), now=now)

    def _take(self, made: Advance) -> None:
        """The one place where the state changes."""
        self._state = made.state
        self._log.append(made.events, made.state.identity, at=_now(), early=self._turns.is_early)
        self._points.take(made)
        self._outbox += made.commands

    def _continue_as_new_if_due(self, state: RunState) -> None:
        """Between any two facts, when nothing is in flight; the next execution starts what was just asked for.

        Work in flight finishes first, and sub-agents go on by themselves. Signals that come meanwhile make the server
        hand this task out again.
        """
        not_started = {command.id for command in self._outbox if not isinstance(command, Stop)}
        is_unfit = isinstance(state.stage, Done | Cancelling) or state.context.compacting is not None
        is_unfit |= any(isinstance(command, FamilyCommand) for command in self._outbox) or not self._is_quiet()
        if is_unfit or not (state.bound <= not_started and is_due(self._work.settings.budget, self._signals)):
            return
        settings, log = self._work.settings, self._log
        carried = Carried(state, log.last, settings.search_attributes, self._visibility.shown, settings.budget)
        try:
            packed = pack(carried)
            size = size_of(packed)
        except Exception:  # a bug of ours must not hang the run, which can go on as it is
            workflow.logger.exception("the state cannot be carried")
            return
        if size <= CARRY_LIMIT:
            workflow.continue_as_new({names.CARRIED: packed})
        if not self._is_too_large:
            workflow.logger.warning("the state is too large to be carried", extra={"bytes": size})
        self._is_too_large = True

    def _perform(self) -> None:
        state, commands = self._current(), self._outbox
        self._outbox = []
        stopped = {command.id for command in commands if isinstance(command, Stop)}
        for command in commands:
            match command:
                case Stop(id=id):
                    self._work.stop(id)
                case _ if command.id in stopped:
                    self._facts.append(WorkStopped(command.id))
                case StartChild() | StartTask() | CancelChild() | Tell() | Settle():
                    self._children.perform(command, state.identity)
                case _:
                    self._work.start(command, state.identity)

    async def _until(self, met: Callable[[], bool]) -> None:
        """Wait. Temporal's own cancellation ends it as a fact like the signal, and closes the thread."""
        try:
            await workflow.wait_condition(lambda: self._is_met(met))
        except asyncio.CancelledError:
            reason = workflow.cancellation_reason()
            if reason is None:  # the worker drops this run from its cache: nothing happened to the run
                raise
            self._facts.append(CancelRequested(reason or None, close=True))
            self._turns.check()

    def _is_met(self, met: Callable[[], bool]) -> bool:
        self._turns.check()
        return met()

    def _may_go_on(self) -> bool:
        return bool(self._facts) or (isinstance(self._current().stage, Done) and self._is_quiet())

    def _is_quiet(self) -> bool:
        """Nothing that was meant for another thread is still on its way."""
        return not (self._children.is_busy or self._work.is_delivering)

    @workflow.update(
        name=names.UPDATE_DECIDE, description='The same as the signal, answered at once: {"status": "applied"}'
    )
    async def decide_and_tell(self, *args: Any) -> dict[str, str]:
        if self._state is None:
            await workflow.wait_condition(lambda: self._state is not None)
        decisions, became = self._judged(args)
        self._signals += 1
        self._facts.append(DecisionsReceived(decisions))
        return {"status": became}

    @decide_and_tell.validator
    def _may_decide(self, *args: Any) -> None:
        """What is refused here leaves no trace in history; whoever sent it gets the reason.

        The first task of an execution brings updates before it begins, and then only the handler can judge them.
        """
        if self._state is not None:
            self._judged(args)

    def _judged(self, args: Sequence[Any]) -> tuple[tuple[Decision, ...], str]:
        """What was decided and what becomes of it, once the facts that came before it are taken in."""
        try:
            decisions = parse_decisions(single(args))
        except CallerError as error:
            raise ApplicationError(f"the decision was not understood: {error}", type="InvalidDecision") from None
        state = self._current()
        for fact in self._facts:
            state = self._advance(state, fact).state
        match judge(state, decisions):
            case Refuse(reason=reason):
                raise ApplicationError(reason, type="DecisionRefused")
            case Hold():
                return decisions, "held"
            case Apply(decisions=()):
                return decisions, "repeated"
            case Apply():
                return decisions, "applied"
            case verdict:
                assert_never(verdict)

    @workflow.query(name=names.QUERY_STATUS, description="Where the run stands and what it waits for")
    def status(self, _nothing: Any = None) -> StatusView:
        return status_view(self._current())

    @workflow.query(name=names.QUERY_TRANSCRIPT, description='The messages so far, in pages: {"after": n}')
    def transcript(self, page: Any = None) -> TranscriptPage:
        if self._restoring is not None:
            return unread_page(self._restoring)
        return transcript_page(self._current(), parse_page(page), earlier=self._earlier)

    @workflow.query(name=names.QUERY_EVENTS, description='What happened, in pages: {"after": seq}')
    def events(self, page: Any = None) -> EventsPage:
        asked = parse_page(page)
        if self._restoring is not None:
            return EventsPage(events=(), last=asked.after, done=False, restoring=True)
        return events_page(self._current(), self._log, asked, earlier=self._earlier)

    @workflow.query(name=names.QUERY_STATE, description="What the thread's agents keep beside the conversation")
    def state(self, _nothing: Any = None) -> StateView:
        return self._current().values.view

    @workflow.query(name=names.QUERY_KEEPS, description="What the thread keeps besides its conversation")
    def keeps(self, _nothing: Any = None) -> Keeps:
        if self._restoring is not None:
            raise ApplicationError("the thread has not read yet what it goes on from")
        return keeps(self._current()).model_copy(update={"events": self._log.last})

    @workflow.query(
        name=names.QUERY_POINT, description='What a fork begins with after so many messages: {"messages": n}'
    )
    def point(self, asked: Any = None) -> PointView:
        if self._restoring is not None:
            return unread_point(self._restoring, parse_point(asked))
        return self._points.find(self._current(), parse_point(asked), earlier=self._earlier)

    def _current(self) -> RunState:
        if self._state is None:
            raise ApplicationError("the run has not begun")
        return self._state


def _understood(request: Any) -> RunRequest:
    try:
        return parse_request(request)
    except CallerError as error:
        message = f"the run request was not understood: {error}"
        raise ApplicationError(message, type="InvalidRequest", non_retryable=True) from None


def _now() -> int:
    return int(workflow.time() * 1000)
