"""`AgentRun`: the workflow around the loop. Its id is the thread's, so Temporal itself allows one active run a thread.

Signal handlers append facts; one line changes the state; commands become activities, child workflows and signals, whose
ends are facts. The workflow runs unsandboxed: it has no user code, the import contract keeps it pure, and recorded
histories replay in CI.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

from wakeful.contract import ids, names
from wakeful.contract.carryover import Carryover, Counters
from wakeful.contract.errors import HOW_TO_DECODE, CallerError
from wakeful.contract.inference import RestoreInput, TranscriptTail
from wakeful.contract.limits import IN_FLIGHT_BYTES
from wakeful.contract.missing import Missing
from wakeful.contract.requests import RunRequest, parse_fork_point, parse_outcomes, parse_page, parse_request
from wakeful.contract.runs import Errored, RunIdentity, RunResult, ThreadMode, status_reason
from wakeful.contract.segments import archived_events
from wakeful.contract.state import StateView
from wakeful.contract.views import (
    EventsPage,
    ForkPointView,
    OutcomesView,
    PermissionsView,
    QueuedPage,
    StatusView,
    TranscriptPage,
)
from wakeful.loop.machine.advance import advance
from wakeful.loop.machine.commands import (
    CancelChild,
    CancelWork,
    Command,
)
from wakeful.loop.machine.facts import (
    CancelRequested,
    ClientFact,
    Fact,
    HistoryReset,
    LoopFailed,
    SignalMalformed,
    TimerFired,
    WorkCancelled,
)
from wakeful.loop.machine.revisions import LATE_MESSAGES
from wakeful.loop.machine.stages import Done
from wakeful.loop.machine.state import Advance, Thread
from wakeful.loop.step.inference import in_lineage
from wakeful.loop.thread.archive import still_valid
from wakeful.loop.thread.continue_as_new import ThreadSnapshot, pending_commands, unpack
from wakeful.loop.thread.opening import begin, opened
from wakeful.loop.thread.transcript import transcript_of
from wakeful.loop.thread.views import carryover, permissions_view, status_view
from wakeful.undecodable import Undecodable, checked
from wakeful_workflows.alarm import Alarm
from wakeful_workflows.archives import Archives
from wakeful_workflows.children import ChildCommand, Children
from wakeful_workflows.closing import close, fail
from wakeful_workflows.commands import Activities, ActivityCommand, priority_of, restore
from wakeful_workflows.continue_as_new import Snapshots, UnseenCancel, is_possible
from wakeful_workflows.early_activations import EarlyActivations
from wakeful_workflows.fork_points import ForkPoints
from wakeful_workflows.history_estimate import CANCEL_REQUEST, HistoryEstimate
from wakeful_workflows.queries import (
    EventLog,
    Predecessor,
    events_page,
    outcomes_view,
    past_of,
    queued_page,
    restoring_fork_point,
    restoring_status,
    restoring_transcript_page,
    transcript_page,
)
from wakeful_workflows.run_log import log_changes, logger
from wakeful_workflows.run_metrics import run_metrics
from wakeful_workflows.run_trace import run_trace
from wakeful_workflows.signals import Signals
from wakeful_workflows.task_changes import report_changes
from wakeful_workflows.tools import failure_code, failure_reason
from wakeful_workflows.visibility import Visibility
from wakeful_workflows.worker_telemetry import worker_telemetry

EVENTS_BEFORE_FIRST_TASK = 3
"""Of an execution that nothing disturbs: it is started, and its first workflow task is scheduled and started."""

NO_REQUEST = RawValue(Payload(metadata={"encoding": b"binary/null"}))


# Not `Exception`: that would make nondeterminism fail runs, which must wait for a worker with the right code instead.
# These two are what the SDK raises for a start with arguments that cannot be passed on.
@workflow.defn(name=names.WORKFLOW, sandboxed=False, failure_exception_types=[TypeError, RuntimeError])
class AgentRun(Signals):
    """A thread and its runs. Start it with `{"agent_id": "assistant", "input": "hello"}`."""

    @workflow.init
    def __init__(self, request: RawValue = NO_REQUEST) -> None:
        super().__init__(HistoryEstimate(size=request.payload.ByteSize()))
        telemetry = worker_telemetry()
        self._trace, self._metrics = run_trace(telemetry.tracing), run_metrics(telemetry.metrics)
        self._pending: list[Command] = []
        self._thread: Thread | None = None
        self._log = EventLog()
        self._activities = Activities(self._facts.append, self._history)
        self._children = Children(self._facts.append, self._history)
        self._visibility = Visibility(self._history)
        self._archives = Archives(self._history)
        self._activations = EarlyActivations()
        self._alarm = Alarm(lambda at: self._facts.append(TimerFired(at)), self._history)
        continued = workflow.info().continued_run_id
        self._earlier = Predecessor(continued) if continued else None
        self._fork_points = ForkPoints()
        self._snapshots = Snapshots()
        self._restoring: RestoreInput | None = None
        self._is_cancelled = False
        """Temporal's own cancel has reached this execution."""
        self._unseen_cancel = UnseenCancel(self._history)
        workflow.register_random_seed_callback(lambda seed: self._facts.append(_reset(seed)))
        given = _decoded(request.payload)
        if isinstance(given, dict) and names.SNAPSHOT in given:
            # Here, since signal handlers and queries may come before `run`.
            self._continue(unpack(given[names.SNAPSHOT]))

    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> RunResult:
        if self._was_reset_to_its_start():
            self._on_reset_to_its_start(_reset(workflow.random_seed()))
        if self._thread is None:
            given = _decoded(request.payload)
            try:
                await self._begin(_parsed(given))
            except CallerError as problem:
                await self._reject(given, Errored(value=str(problem), code=names.MALFORMED_REQUEST))
            except ActivityError as error:
                reason = failure_reason(error) or str(error)
                await self._reject(given, Errored(value=reason, code=failure_code(error)))
        while True:
            news = (self._archives.take_news(), self._activities.worker.take_news(), self._unseen_cancel.take_news())
            has_advanced = any(news) or bool(self._facts)
            self._unseen_cancel.take(self._facts, signals=self._signals, has_news=any(news))
            while self._facts:
                fact = self._facts.popleft()
                self._take(self._advance(self._current(), fact), fact)
            thread = self._current()
            if has_advanced:
                self._continue_as_new_if_due(thread)
            if thread.result is not None:
                self._activities.worker.ask()
            attributes = self._activities.worker.search_attributes or ()
            self._visibility.show_run_ends(thread, attributes)
            self._perform()
            self._alarm.set(thread.next_alarm, now=_now())
            self._visibility.show(thread, attributes, missing=self._still_missing())
            self._visibility.show_closing(thread)
            self._visibility.show_stopping(thread)
            is_left = bool(self._facts or self._pending)
            if isinstance(thread.stage, Done) and self._is_quiet() and not is_left and self._has_archived(thread):
                return close(thread, thread.stage.result, self._visibility, is_cancelled=self._is_cancelled)
            await self._until(self._can_continue)

    async def _begin(self, request: RunRequest) -> None:
        thread_id, request = workflow.info().workflow_id, _counted(request)
        self._visibility.set_title(request)
        run_id = thread_id if request.subagent is not None else str(workflow.uuid4())
        transcript = kept = None
        if (past := past_of(request)) is not None:
            self._earlier = Predecessor(past.run_id, past.thread_id)
            self._thread = opened(request, thread_id=thread_id, run_id=run_id)
            tail = await self._restore(past)
            transcript, kept = transcript_of(tail), tail.carryover
            if kept is not None:
                self._archives = Archives(self._history, kept.segments, number=kept.counters.archives)
            before = kept.counters.events - len(tail.events) if kept and not request.fork else 0
            self._log = EventLog(before, tail.events)
            self._fork_points = ForkPoints(transcript.length)
            if tail.missing:
                self._facts.appendleft(SignalMalformed(names.ACTIVITY_RESTORE, tail.missing))
        self._take(begin(request, thread_id=thread_id, run_id=run_id, transcript=transcript, carryover=kept))
        if request.fork is not None and transcript is not None:
            self._fork_points.add_origin(transcript.position, self._current())

    async def _reject(self, given: object, error: Errored) -> NoReturn:
        """Fail: the request is malformed, or its past cannot be restored. Lists show what was asked for.

        Raises:
            ApplicationError: always.
        """
        worker = self._activities.worker
        worker.ask()
        while worker.is_asking:
            await self._until(lambda: not worker.is_asking)
        asked = given if isinstance(given, dict) else {}
        agent_id = asked.get("agent_id")
        result = RunResult(
            thread_id=workflow.info().workflow_id,
            run_id="",
            agent_id=agent_id if isinstance(agent_id, str) else "",
            status_reason=status_reason(error),
            termination=error,
        )
        if self._metrics is not None:
            self._metrics.on_rejected(result)
        self._visibility.on_run_ended(result)
        self._visibility.show_rejected(result, asked, worker.search_attributes or ())
        fail(result, error)

    async def _restore(self, past: RestoreInput) -> TranscriptTail:
        """What the thread said and kept. A cancellation is handled after it: what arrived meanwhile is not lost."""
        restoring = asyncio.create_task(restore(past, self._history))
        self._restoring = past
        while not restoring.done():
            await self._until(restoring.done)
        tail = restoring.result()
        self._restoring = None  # if it fails, this execution never had a conversation
        return tail

    def _was_reset_to_its_start(self) -> bool:
        """Whether an earlier workflow task stands in history before the first one that this execution completes.

        That is a reset, which chose a new random seed before this object was made; or a task that failed or timed out,
        after which another lineage does no harm. The length depends on how core cuts history, so no command may depend
        on the lineage: it is a part of the tool call ids that the next `infer` activity makes, and history has those.
        """
        return workflow.info().get_current_history_length() > EVENTS_BEFORE_FIRST_TASK + self._signals

    def _on_reset_to_its_start(self, reset: HistoryReset) -> None:
        if self._thread is None:
            self._facts.appendleft(reset)
            return
        self._thread = in_lineage(self._thread, reset.lineage)
        self._pending = list(pending_commands(self._thread))  # in the new lineage

    def _continue(self, snapshot: ThreadSnapshot) -> None:
        """Be the thread that the previous execution was."""
        thread = snapshot.thread
        self._archives = Archives(self._history, snapshot.segments, number=thread.counters.archives)
        self._log = EventLog(thread.counters.events - len(snapshot.events), snapshot.events)
        self._activities.worker.learn(snapshot.search_attributes, snapshot.budget)
        self._activities.agent = thread.run.resolved if thread.run else None
        self._visibility = Visibility(self._history, snapshot.status)
        self._fork_points = ForkPoints(thread.transcript.length)
        self._take(Advance(thread, pending_commands(thread)))

    def _advance(self, thread: Thread, fact: Fact) -> Advance:
        now = _now()
        try:
            return advance(thread, fact, now=now)
        except Exception as error:  # a bug of ours ends the run with its message; it must not block it
            logger.exception("the loop failed", extra={"fact": type(fact).__name__})
            failure = f"internal error on {type(fact).__name__}: {type(error).__name__}: {error}"
            lost = fact if isinstance(fact, ClientFact) else None
            return advance(thread, LoopFailed(failure, lost), now=now)

    def _take(self, made: Advance, fact: Fact | None = None) -> None:
        """The one place where the state changes."""
        if self._trace is not None:
            self._trace.take(self._thread, made, fact)
        if self._metrics is not None:
            self._metrics.take(self._thread, made, fact)
        before, self._thread = self._thread, made.thread
        log_changes(before, made, now=_now())
        report_changes(made)
        self._log.append(made.events, made.thread.identity, at=_now())
        self._fork_points.take(made)
        self._pending += made.commands
        for result in made.ended:
            self._visibility.on_run_ended(result)
        if made.ended and before is not None:
            self._activities.leave_remote_task(before)

    def _continue_as_new_if_due(self, thread: Thread) -> None:
        """Between any two facts, when nothing is in flight; the next execution starts the pending commands.

        Activities in flight finish first; children keep running. If a signal arrives meanwhile, the server hands this
        workflow task out again. What is too large to pass on is archived first.
        """
        worker = self._activities.worker
        # A cancel that came with signals would be left behind, so a thread continues as new with the next other fact.
        # If the history has grown very long, it sets a timer for that.
        is_due = self._history.exceeds(worker.budget, times=2 if self._unseen_cancel.is_possible else 1)
        if not is_due or self._archives.is_busy or isinstance(thread.stage, Done):
            return
        if self._is_cancelled:  # only this execution can close as cancelled
            return
        if self._archives.is_needed(thread, self._log):
            self._archives.start(thread, self._log)
            return
        if not (self._is_quiet() and is_possible(thread, self._pending)):
            return
        segments = self._archives.segments
        snapshot = ThreadSnapshot(
            thread.counting(self._counters(thread)),
            worker.search_attributes,
            self._visibility.status,
            worker.budget,
            segments,
            self._log.since(archived_events(segments)),
        )
        if (packed := self._snapshots.pack(snapshot)) is None:
            return
        if self._unseen_cancel.is_possible:
            self._unseen_cancel.wait()
            return
        if self._metrics is not None:
            self._metrics.on_continue_as_new(thread)
        workflow.continue_as_new({names.SNAPSHOT: packed})

    def _waits_for_archive(self) -> bool:
        """Whether commands wait until an archive is written, because the history has grown long meanwhile.

        A thread whose every step takes longer to archive than to run would otherwise never continue as new.
        """
        budget = self._activities.worker.budget
        is_long = self._archives.is_busy and self._history.exceeds(budget, times=2)
        return is_long and not any(isinstance(command, ChildCommand) for command in self._pending)

    def _has_archived(self, thread: Thread) -> bool:
        """The last act of a thread that will be woken, or has archives: what the wake needs is archived, too."""
        is_kept = thread.mode is ThreadMode.THREAD or bool(self._archives.segments) or self._wakes_run_mode(thread)
        # A last act that is overtaken, such as by a withdrawal of what it was for, must not wake the thread as it was.
        if not (is_kept or self._archives.has_last_act) or self._archives.is_closed(thread):
            return True
        if not self._archives.is_busy:
            self._archives.start(thread, self._log, closes=True)
            self._visibility.mark_closing()
        return False

    def _wakes_run_mode(self, thread: Thread) -> bool:
        """Whether a thread in `run` mode is woken for what came after its end; only its last archive can do that."""
        run, worker = thread.run, self._activities.worker
        revision = run.revision if run is not None and run.resolved is not None else worker.revision
        return thread.has_late and revision >= LATE_MESSAGES

    def _counters(self, thread: Thread) -> Counters:
        return thread.counters.model_copy(update={"events": self._log.last, "archives": self._archives.number})

    def _perform(self) -> None:
        """Perform the pending commands, in order, as long as they have room; cancels wait for nothing."""
        identity, commands, is_held = self._current().identity, self._pending, self._waits_for_archive()
        if commands:
            self._activities.priority = self._children.priority = priority_of(self._current())
            self._children.search_attributes = self._activities.worker.search_attributes or ()
        self._pending = []
        cancelled = {command.id for command in commands if isinstance(command, CancelWork)}
        for command in commands:
            match command:
                case CancelWork(id=id):
                    self._activities.cancel(id)
                case _ if command.id in cancelled:
                    self._facts.append(WorkCancelled(command.id, was_scheduled=False))
                case _ if is_held or not (self._has_room or isinstance(command, CancelChild)):
                    is_held = True
                    self._pending.append(command)
                case _:
                    with self._trace.performing(command) if self._trace is not None else nullcontext():
                        self._start(command, identity)

    def _start(self, command: ChildCommand | ActivityCommand, identity: RunIdentity) -> None:
        if isinstance(command, ChildCommand):
            self._children.perform(command, identity)
        else:
            self._activities.start(command, identity)

    def trace_carryover(self) -> dict[str, Any] | None:
        """What the worker's interceptor passes on in a header when the thread continues as new."""
        return None if self._trace is None else self._trace.carryover()

    @property
    def _has_room(self) -> bool:
        """Whether another command may be performed: a workflow task has a limit for the bytes of all its commands."""
        return self._activities.bytes_in_flight + self._children.bytes_in_flight < IN_FLIGHT_BYTES

    async def _until(self, is_met: Callable[[], bool]) -> None:
        """Wait. Temporal's own cancellation is a fact like the `close` signal."""
        try:
            await workflow.wait_condition(lambda: self._check(is_met))
        except asyncio.CancelledError:
            reason = workflow.cancellation_reason()
            if reason is None:  # the worker evicts this run from its cache: nothing happened to the run
                raise
            self._history.add(CANCEL_REQUEST, size=len(reason.encode()))
            self._facts.append(CancelRequested(reason or None, close=True))
            self._is_cancelled = True
            self._activations.check()

    def _check(self, is_met: Callable[[], bool]) -> bool:
        self._activations.check()
        return is_met()

    def _still_missing(self) -> list[Missing]:
        """What workers lacked for activities that have not ended."""
        self._has_report = False
        self._missing = {id: missing for id, missing in self._missing.items() if self._activities.is_running(id)}
        return list(self._missing.values())

    def _can_continue(self) -> bool:
        has_news = self._archives.has_news or self._activities.worker.has_news or self._unseen_cancel.has_news
        if self._facts or self._has_report or has_news or self._may_perform():
            return True
        return isinstance(self._current().stage, Done) and self._is_quiet() and not self._archives.is_busy

    def _may_perform(self) -> bool:
        """Whether commands have waited for room, or for an archive that has ended, perhaps with nothing to show."""
        return bool(self._pending) and self._has_room and not self._waits_for_archive()

    def _is_quiet(self) -> bool:
        """Nothing for another thread is in flight, nor what the end of a run shows."""
        activities = self._activities
        is_busy = activities.is_delivering or activities.is_cancelling_remotely or activities.worker.is_asking
        return not (self._children.is_busy or is_busy)

    @workflow.query(name=names.QUERY_STATUS, description="The status of the thread and what it waits for")
    def status(self, _nothing: Any = None) -> StatusView:
        view = status_view(self._current())
        return view if self._restoring is None else restoring_status(view)

    @workflow.query(
        name=names.QUERY_OUTCOMES, description='What became of decisions and messages: {"ids": ["…"]}, or all'
    )
    def outcomes(self, request: Any = None) -> OutcomesView:
        return outcomes_view(self._current(), parse_outcomes(request))

    @workflow.query(name=names.QUERY_TRANSCRIPT, description='The messages so far, in pages: {"after": n}')
    def transcript(self, page: Any = None) -> TranscriptPage:
        if self._restoring is not None:
            return restoring_transcript_page(self._restoring)
        return transcript_page(self._current(), parse_page(page), segments=self._archives.segments)

    @workflow.query(name=names.QUERY_EVENTS, description='The events so far, in pages: {"after": seq}')
    def events(self, page: Any = None) -> EventsPage:
        request = parse_page(page)
        if self._restoring is not None:
            return EventsPage(events=(), last=request.after, done=False, restoring=True)
        return events_page(self._current(), self._log, request, segments=self._archives.segments)

    @workflow.query(name=names.QUERY_QUEUED, description='What no run has read yet, in pages: {"after": n}')
    def queued(self, page: Any = None) -> QueuedPage:
        return queued_page(self._restored(), parse_page(page))

    @workflow.query(name=names.QUERY_PERMISSIONS, description="The permission rules that apply")
    def permissions(self, _nothing: Any = None) -> PermissionsView:
        return permissions_view(self._restored())

    @workflow.query(name=names.QUERY_STATE, description="The agent state of the thread")
    def state(self, _nothing: Any = None) -> StateView:
        return self._current().agent_state.view

    @workflow.query(name=names.QUERY_CARRYOVER, description="What the thread keeps besides its conversation")
    def carryover(self, _nothing: Any = None) -> Carryover:
        if self._restoring is not None:
            raise ApplicationError("the thread is still being restored")
        kept = carryover(self._current())
        counters = self._counters(self._current())
        segments = still_valid(self._archives.segments, self._current().transcript)
        return kept.model_copy(update={"counters": counters, "segments": segments})

    @workflow.query(
        name=names.QUERY_FORK_POINT, description='What a fork after so many messages starts with: {"messages": n}'
    )
    def fork_point(self, request: Any = None) -> ForkPointView:
        if self._restoring is not None:
            return restoring_fork_point(self._restoring, parse_fork_point(request))
        return self._fork_points.find(self._current(), parse_fork_point(request), earlier=self._earlier)

    def _restored(self) -> Thread:
        """The thread. While it is being restored, the execution that it continues has it."""
        if self._restoring is not None:
            raise ApplicationError("the thread is still being restored", type=names.NOT_STARTED)
        return self._current()

    @property
    def log_fields(self) -> Mapping[str, str | int]:
        """What every log line about the thread carries."""
        thread_id, thread = workflow.info().workflow_id, self._thread
        if thread is None:
            return {"thread_id": thread_id}
        identity = thread.identity
        step = {"step": thread.counters.steps} if thread.counters.steps else {}
        trace_id = self._trace.trace_id if self._trace is not None else None
        trace = {"trace_id": trace_id} if trace_id is not None else {}
        return {"thread_id": thread_id, "run_id": identity.run_id, "agent_id": identity.agent_id, **step, **trace}

    def _current(self) -> Thread:
        if self._thread is None:
            raise ApplicationError("the run has not started", type=names.NOT_STARTED)
        return self._thread


def _decoded(payload: Payload) -> object:
    """What the execution was started with, or the error if it is not JSON.

    Raises:
        Undecodable: the codec could not decode it. That fails the workflow task, so that a worker with the right codec
            takes it: a thread that continues as new must not fail on one that is set up wrongly.
            The same holds for an encoding that is unknown here.
    """
    try:
        return workflow.payload_converter().from_payload(checked(payload))
    except KeyError as error:
        encoding = payload.metadata.get("encoding", b"").decode(errors="replace")
        raise Undecodable(
            f"the execution's input has the encoding {encoding!r}, for which this worker has no codec. {HOW_TO_DECODE}"
        ) from error
    except RuntimeError as error:  # the converter's, around whatever is wrong
        return CallerError(str(error.__cause__ or error))


def _parsed(request: object) -> RunRequest:
    if (problem := ids.thread_id_problem(workflow.info().workflow_id)) is not None:
        raise CallerError(problem)
    try:
        if isinstance(request, CallerError):
            raise request
        return parse_request(request)
    except CallerError as error:
        raise CallerError(f"the run request is malformed: {error}") from error


def _counted(request: RunRequest) -> RunRequest:
    """The request, with what the memo says of the sub-agent's parent."""
    if request.subagent is None or not workflow.memo_value(names.MEMO_COUNTED, False):
        return request
    return request.model_copy(update={"subagent": request.subagent.model_copy(update={"counted": True})})


def _now() -> int:
    return int(workflow.time() * 1000)


def _reset(seed: int) -> HistoryReset:
    return HistoryReset(ids.lineage(seed))
