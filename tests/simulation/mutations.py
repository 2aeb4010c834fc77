"""What a careless change could do to the system: each constant breaks it while its context lasts."""

import dataclasses
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any
from unittest.mock import patch

from temporalio import workflow
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import RawValue

import wakeful.client.start as starting
import wakeful.client.wake as waking
import wakeful.loop.calls.commit as commit
import wakeful.loop.calls.decisions as loop_decisions
import wakeful.loop.calls.gates as gates
import wakeful.loop.calls.tool_calls as tool_calls
import wakeful.loop.step.hooks as hooks
import wakeful.loop.step.inference as inference
import wakeful.loop.step.steps as steps
import wakeful.loop.subagents.child_events as child_events
import wakeful.loop.subagents.ledger as ledger
import wakeful.loop.thread.continue_as_new as snapshots
import wakeful.loop.thread.opening as opening
import wakeful.loop.thread.submissions as submissions
import wakeful_activities.deliver as deliver
import wakeful_activities.history_cache as history_cache
import wakeful_activities.restore as restoring
import wakeful_activities.sweep.child_ends as child_ends
import wakeful_activities.sweep.orphans as orphans
import wakeful_activities.tools.running_call as running_call
import wakeful_workflows.agent_run as agent_run
import wakeful_workflows.children as child_workflows
import wakeful_workflows.early_activations as early_activations
import wakeful_workflows.signals as signals
import wakeful_workflows.tools as tool_activities
from tests.simulation import people, reader, workers
from tests.simulation.workers import WORKFLOWS
from wakeful.authoring.tool_context import ToolContext
from wakeful.contract import ids, names
from wakeful.contract.archive import SegmentContent
from wakeful.contract.base import replace
from wakeful.contract.carryover import Carryover
from wakeful.contract.errors import ThreadNotFound
from wakeful.contract.gates import Verdict
from wakeful.contract.hooks import HookEffects
from wakeful.contract.mail import AgentMessage, TaskEvent
from wakeful.contract.messages import Role
from wakeful.contract.permissions import Behavior, Rule
from wakeful.contract.requests import parse_decisions
from wakeful.contract.runs import RunResult
from wakeful.contract.segments import archived_messages
from wakeful.contract.subagents import Ancestors, StoppingAncestor
from wakeful.contract.tasks import TaskStarter
from wakeful.history.archive import ArchiveWriter, read_last_archive
from wakeful.history.completed_part import CompletedPart
from wakeful.history.latest_execution import latest_started
from wakeful.loop.calls.batch import NewCall
from wakeful.loop.machine.facts import DecisionsReceived, Fact, MessagesSubmitted
from wakeful.loop.machine.stages import Cancelling, Done
from wakeful.loop.machine.state import Advance, Children, Thread
from wakeful.loop.step.agent_state import AgentState
from wakeful.loop.thread.transcript import Transcript
from wakeful.rpc_errors import describe_execution
from wakeful_activities import AncestorsActivity
from wakeful_activities.other_workers import OtherWorkers
from wakeful_activities.sweep.orphans import OrphanSweep
from wakeful_activities.sweep.resets import ResetSweep
from wakeful_workflows.agent_run import NO_REQUEST
from wakeful_workflows.alarm import Alarm
from wakeful_workflows.archives import Archives
from wakeful_workflows.continue_as_new import UnseenCancel
from wakeful_workflows.early_activations import EarlyActivations
from wakeful_workflows.history_estimate import HistoryEstimate
from wakeful_workflows.visibility import Visibility

DECIDE_NOW = "decide_now"

Apply = Callable[[], AbstractContextManager[Any]]


class _Stack(deque[Fact]):
    def popleft(self) -> Fact:
        return self.pop()


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """Forget to do it."""


async def _nothing_async(*_args: Any, **_kwargs: Any) -> None:
    """Forget to do it."""


def _restarting(counter: str) -> Apply:
    original = snapshots.unpack

    def unpack(packed: dict[str, Any]) -> snapshots.ThreadSnapshot:
        snapshot = original(packed)
        counters = snapshot.thread.counters.model_copy(update={counter: 0})
        return replace(snapshot, thread=snapshot.thread.counting(counters))

    return lambda: patch.object(agent_run, "unpack", unpack)


def _forgetting(forget: Callable[[Thread], Thread]) -> Apply:
    original = snapshots._for_next_execution

    def forgetful(thread: Thread, archived: int, tail_bytes: int) -> Thread:
        return original(forget(thread), archived, tail_bytes)

    return lambda: patch.object(snapshots, "_for_next_execution", forgetful)


def _without_held(thread: Thread) -> Thread:
    return thread if thread.run is None else thread.with_run(replace(thread.run, held=()))


def _submitted_by_anyone(payload: object) -> Fact:
    submitted = signals._submitted(payload)
    assert isinstance(submitted, MessagesSubmitted)
    return replace(submitted, caller=submitted.caller.model_copy(update={"tenant": None}))


def _check_late(activations: EarlyActivations) -> None:
    """The guard fails the task that comes after an early activation, if that task activates the workflow at all."""
    task, length = early_activations._task(), workflow.info().get_current_history_length()
    is_early = getattr(activations, "is_early", False)
    if task == activations._task:
        activations.is_early = is_early or length > activations._length  # type: ignore[attr-defined]
    elif is_early:
        raise early_activations.HandledEarly(names.HANDLED_EARLY)
    else:
        activations._task, activations._length = task, length


def _by_length(_estimate: HistoryEstimate, budget: Any) -> bool:
    return workflow.info().get_current_history_length() >= int(budget.events)


def _by_the_clock(alarm: Alarm, _at: int) -> None:
    alarm._at = alarm._timer = None
    alarm._fire(int(workflow.time() * 1000))


def _only_in_future(alarm: Alarm, at: int | None, *, now: int) -> None:
    _set_alarm(alarm, at if at is None or at > now else None, now=now)


_set_alarm = Alarm.set
_fork_of = restoring.RestoreActivity._fork_of
_start_archive = ArchiveWriter._start
_context = running_call.RunningCall.context
_begin = opening.begin
_passed_on = Thread.passed_on.fget  # type: ignore[attr-defined]  # a property
_pending = snapshots.pending_commands


def _matches_by_length(cached: history_cache._Thread, ref: Any) -> bool:
    return cached.start.length <= int(ref.length) <= cached.length


def _find_ended(thread: Thread, work_id: str) -> Any:
    task = next((task for task in thread.children.tasks if task.task_id == work_id), None)
    calls = thread.batch.running if thread.batch else ()
    return task, next((call for call in calls if call.id == work_id), None)


def _context_of_attempt(call: running_call.RunningCall) -> ToolContext:
    context = _context(call)
    return dataclasses.replace(context, idempotency_key=f"{context.idempotency_key}/{context.attempt}")


_tail = Transcript.tail


def _beginning_with_calls(transcript: Transcript, budget: int, *, at_least: int = 0) -> Transcript:
    tail = _tail(transcript, budget, at_least=at_least)
    results = len(list(takewhile(lambda message: message.role is Role.TOOL, tail.messages)))
    before = tail.position_at(tail.before.length + results)
    assert before is not None
    return Transcript(messages=tail.messages[results:], digest=tail.digest, before=before)


def _without_snapshot(_snapshot: snapshots.ThreadSnapshot) -> Any:
    raise ThreadNotFound("the predecessor")


async def _without_archives(_restoring: restoring.RestoreActivity, thread_id: str, _run_id: str) -> Any:
    raise ThreadNotFound(thread_id)


async def _of_any_execution(temporal: Any, thread_id: str, run_id: str | None = None) -> SegmentContent:
    last = await read_last_archive(temporal, thread_id, run_id)
    return last.model_copy(update={"closed_run_id": None})


async def _keeping_existing(writer: ArchiveWriter, archive_id: str, header: Any, part: Any, *_policy: Any) -> str:
    return await _start_archive(writer, archive_id, header, part)


async def _sharing_archives(activity: restoring.RestoreActivity, origin: Any, request: Any) -> Any:
    past = await _fork_of(activity, origin, request)
    segments = (await activity._ask(origin, names.QUERY_CARRYOVER, Carryover)).segments
    shared = tuple(ref for ref in segments if ref.messages <= request.messages)
    return dataclasses.replace(past, segments=shared, messages=past.messages[archived_messages(shared) :])


def _has_completed(execution: WorkflowExecution) -> bool:
    return execution.status is WorkflowExecutionStatus.COMPLETED


_continue_as_new_if_due = agent_run.AgentRun._continue_as_new_if_due


def _continue_with_signals(run: agent_run.AgentRun, thread: Thread) -> None:
    run._unseen_cancel.is_possible = False
    _continue_as_new_if_due(run, thread)


def _continue_with_signals_if_long(run: agent_run.AgentRun, thread: Thread) -> None:
    run._unseen_cancel.is_possible &= not run._history.exceeds(run._activities.worker.budget, times=2)
    _continue_as_new_if_due(run, thread)


async def _none_is_stopping(_activities: AncestorsActivity, _input: Ancestors) -> StoppingAncestor:
    return StoppingAncestor()


_post = child_events._post
_accept_mail = child_events._accept_mail
_final_verdict = gates.final_verdict


def _posting_with(changes: dict[str, object]) -> Callable[..., Advance]:
    """Mail of a task begins a run that is bound by less than the run that started the task."""

    def post(*args: Any, starter: TaskStarter | None = None, **given: Any) -> Advance:
        return _post(*args, starter=starter and starter.model_copy(update=changes), **given)

    return post


def _accepting_with(changes: dict[str, object]) -> Callable[..., Advance]:
    """The same of messages that the task's agent writes."""

    def accept(thread: Thread, mail: AgentMessage | TaskEvent, *args: Any, **given: Any) -> Advance:
        post = _posting_with(changes) if isinstance(mail, AgentMessage) else _post
        with patch.object(child_events, "_post", post):
            return _accept_mail(thread, mail, *args, **given)

    return accept


def _accepting_at_once(*args: Any, waits: bool = False, **given: Any) -> Advance:
    return _accept_mail(*args, **given)


def _apply_with_decisions(thread: Thread, effects: HookEffects | None, *, source: str) -> Advance:
    """What a hook allows is allowed on the thread, as if a person had decided so."""
    applied = hooks.apply_effects(thread, effects, source=source)
    allowed = [rule for rule in effects.permissions if rule.behavior is Behavior.ALLOW] if effects else []
    run = replace(applied.thread.current, always=(*thread.current.always, *(rule.tool for rule in allowed)))
    thread = replace(applied.thread, permissions=(*thread.permissions, *allowed)).with_run(run)
    return replace(applied, thread=thread)


def _asking_in_place_of_denying(thread: Thread) -> tuple[Rule, ...]:
    return tuple(rule.model_copy(update={"behavior": Behavior.ASK}) for rule in _passed_on(thread))


def _start_in_the_background(thread: Thread, new: NewCall) -> Verdict | None:
    tool = thread.tool(new.call.name)
    return None if tool is not None and tool.background else _final_verdict(thread, new)


def _begin_without_starters(*args: Any, carryover: Carryover | None = None, **given: Any) -> Advance:
    return _begin(*args, carryover=carryover and carryover.model_copy(update={"mail_starters": ()}), **given)


def _begin_without_authority(*args: Any, carryover: Carryover | None = None, **given: Any) -> Advance:
    return _begin(*args, carryover=carryover and carryover.model_copy(update={"authority": ()}), **given)


def _replacing(owner: object, name: str, value: Any) -> Apply:
    return lambda: patch.object(owner, name, value)


def _together(*replacements: tuple[object, str, Any]) -> Apply:
    """Several changes that only do harm together."""

    def apply() -> ExitStack:
        stack = ExitStack()
        for owner, name, value in replacements:
            change = patch.dict(owner, {name: value}) if isinstance(owner, dict) else patch.object(owner, name, value)
            stack.enter_context(change)
        return stack

    return apply


@workflow.defn(name=names.WORKFLOW, sandboxed=False)
class _RunWithUpdate(agent_run.AgentRun):
    """An agent run that people may decide on by an update."""

    @workflow.init
    def __init__(self, request: RawValue = NO_REQUEST) -> None:
        super().__init__(request)

    @workflow.run
    async def run(self, request: RawValue = NO_REQUEST) -> RunResult:
        return await super().run(request)

    @workflow.update(name=DECIDE_NOW)
    async def decide_now(self, decisions: Any) -> str:
        self._facts.append(DecisionsReceived(parse_decisions(decisions)))
        return "taken"


async def _no_resets(_sweep: ResetSweep) -> dict[str, datetime]:
    return {}


async def _has_newer_execution(sweep: OrphanSweep, child: Any) -> bool:
    newest = await describe_execution(sweep._client, child.id)
    return newest is not None and newest.run_id != child.run_id


@contextmanager
def _careless_release() -> Iterator[None]:
    """The release before does not notice that a newer one has written a snapshot, and drops what it does not know."""

    def read(packed: dict[str, Any]) -> snapshots.ThreadSnapshot:
        snapshot = snapshots.unpack(packed)
        return replace(snapshot, thread=replace(snapshot.thread, queued=()))

    with patch.object(agent_run, "unpack", read):
        yield


async def _give_up(*_args: object, **_options: object) -> timedelta:
    return timedelta(seconds=1)


DECISIONS_BY_UPDATE = _together(
    (WORKFLOWS, names.WORKFLOW, _RunWithUpdate),
    (reader._WORKFLOWS, names.WORKFLOW, _RunWithUpdate),
    (people, "UPDATES", (DECIDE_NOW,)),
)
NO_GUARD = _replacing(EarlyActivations, "check", _nothing)
NEWEST_FACT_FIRST = _replacing(signals, "deque", _Stack)
IDS_FROM_OUTSIDE = _replacing(workflow, "uuid4", uuid.uuid4)
ALARM_BY_THE_CLOCK = _together((EarlyActivations, "check", _check_late), (Alarm, "_on_timer", _by_the_clock))
OVERDUE_ALARM_DROPPED = _replacing(Alarm, "set", _only_in_future)
CONTINUE_BY_LENGTH = _together((EarlyActivations, "check", _check_late), (HistoryEstimate, "exceeds", _by_length))
CONTINUE_IN_FLIGHT = _replacing(
    agent_run, "is_possible", lambda thread, _pending: not isinstance(thread.stage, Done | Cancelling)
)
NEWER_STATE_ACCEPTED = _replacing(workers, "older_release", _careless_release)
UNREGISTERED_IS_A_FACT = _replacing(tool_activities, "ActivityNotRegistered", ValueError)
OLDER_WORKERS_END_RUNS = _replacing(OtherWorkers, "leave", _give_up)
STEPS_RESTART = _restarting("steps")
SUBMISSIONS_RESTART = _restarting("submissions")
TASKS_RESTART = _restarting("tasks")
EVENTS_RESTART = _restarting("events")
QUEUED_FORGOTTEN = _forgetting(lambda thread: replace(thread, queued=()))
STEERING_FORGOTTEN = _forgetting(lambda thread: replace(thread, steering=()))
HELD_FORGOTTEN = _forgetting(_without_held)
PERMISSIONS_FORGOTTEN = _forgetting(lambda thread: replace(thread, permissions=()))
OUTCOMES_FORGOTTEN = _forgetting(lambda thread: replace(thread, outcomes=()))
TASKS_FORGOTTEN = _forgetting(lambda thread: replace(thread, children=Children()))
OTHER_TENANTS_READ = _replacing(signals, "_PARSERS", {**signals._PARSERS, names.SIGNAL_SUBMIT: _submitted_by_anyone})
OTHER_USERS_STEER = _replacing(submissions, "_is_for", lambda *_args: True)
MAIL_OF_OTHER_TENANTS_READ = _replacing(child_events, "_is_of_other_tenant", lambda *_args: False)
STATE_FORGOTTEN = _forgetting(lambda thread: replace(thread, agent_state=AgentState()))
PENDING_FORGOTTEN = _replacing(agent_run, "pending_commands", lambda _thread: ())
PENDING_TWICE = _replacing(agent_run, "pending_commands", lambda thread: _pending(thread) * 2)
DIGEST_IGNORED = _replacing(history_cache._Thread, "matches", _matches_by_length)
DECISION_REPEATED = _replacing(loop_decisions, "was_applied", lambda *_args: False)
MESSAGE_REPEATED = _replacing(submissions, "is_accepted", lambda _thread, _id: False)
END_NOT_REPORTED = _replacing(child_workflows, "notify_parent", _nothing_async)
END_TAKEN_TWICE = _replacing(child_events, "_find", _find_ended)
CANCEL_STAYS_HERE = _replacing(child_workflows.Children, "_cancel", _nothing_async)
ROLLBACK_KEEPS_MESSAGES = _replacing(Transcript, "rewound", lambda transcript, _position: transcript)
EFFECTS_RETRIED = _replacing(tool_activities, "_ONCE_HERE", tool_activities._REPEATABLE_HERE)
KEY_OF_THE_ATTEMPT = _replacing(running_call.RunningCall, "context", _context_of_attempt)
NO_SWEEP = _replacing(OrphanSweep, "sweep", _nothing_async)
FAILED_IS_TERMINATED = _together(
    (deliver, "has_ended", _has_completed),
    (child_ends, "has_ended", _has_completed),
    (orphans, "has_ended", _has_completed),
)
CANCEL_LEFT_BEHIND = _replacing(agent_run.AgentRun, "_continue_as_new_if_due", _continue_with_signals)
CANCEL_LEFT_BEHIND_IN_A_LONG_HISTORY = _replacing(
    agent_run.AgentRun, "_continue_as_new_if_due", _continue_with_signals_if_long
)
SIGNALS_NEVER_SETTLE = _replacing(UnseenCancel, "wait", _nothing)
END_NOT_MARKED = _replacing(Visibility, "mark_ended", _nothing)
WOKEN_THREADS_NOT_SWEPT = _replacing(ResetSweep, "_find_resets", _no_resets)
WOKEN_IS_RESET = _replacing(OrphanSweep, "_was_reset", _has_newer_execution)
CARRYOVER_IGNORED = _replacing(agent_run, "begin", lambda *args, **given: _begin(*args, **given | {"carryover": None}))
INTERRUPTED_CALLS_LEFT_OPEN = _replacing(restoring, "_interrupted_calls", lambda _messages: [])
READER_LOOKS_AHEAD = _replacing(reader, "completed_part", lambda events: CompletedPart(events, len(events)))
RESET_NOT_NOTICED = _replacing(ids, "lineage", lambda _seed: "")
ROLLBACK_UNDONE = _replacing(agent_run, "still_valid", lambda segments, _transcript: segments)
RESTORE_NEEDS_ITS_PREDECESSOR = _replacing(restoring.RestoreActivity, "_deleted", _without_archives)
LOSS_NOT_NOTICED = _replacing(restoring, "read_last_archive", _of_any_execution)
WAKE_NAMES_WHAT_STARTED = _replacing(
    waking, "latest_started", lambda temporal, thread_id, run_id, **_how: latest_started(temporal, thread_id, run_id)
)
RESULTS_AFTER_AN_ARCHIVE = _replacing(Transcript, "tail", _beginning_with_calls)
SNAPSHOT_NOT_READ = _replacing(restoring, "_of_snapshot", _without_snapshot)
ARCHIVES_LEFT_BEHIND = _replacing(starting, "end_archive", _nothing_async)
LAST_ACT_TOO_EARLY = _replacing(
    Archives, "is_closed", lambda archives, _thread: archives._closing is not None and not archives.is_busy
)
LAST_ACT_OVERTAKEN = _replacing(Archives, "has_last_act", property(lambda _archives: False))
EARLIER_LAST_ARCHIVE_KEPT = _replacing(ArchiveWriter, "_start", _keeping_existing)
FORK_SHARES_ARCHIVES = _replacing(restoring.RestoreActivity, "_fork_of", _sharing_archives)
# An archive would else wake the thread in the client's place.
_LATE_NOT_KEPT = (Thread, "takes_late", property(lambda _thread: False))
CLOSING_NOT_NOTICED = _together((waking, "is_closing", lambda _described: False), _LATE_NOT_KEPT)
UNREAD_NOT_NOTICED = _together((waking, "_came_too_late", _nothing_async), _LATE_NOT_KEPT)
NO_WAIT_FOR_AN_ARCHIVE = _replacing(agent_run.AgentRun, "_waits_for_archive", lambda _run: False)
RESET_NOT_NOTICED_BY_A_WAKE = _replacing(restoring._Past, "in_lineage", lambda past, _lineage: past)
ANSWER_KEEPS_ITS_LINEAGE = _replacing(inference, "on_history_reset", inference.in_lineage)
ANCESTORS_NOT_LOOKED_AT = _replacing(AncestorsActivity, "find_stopping_ancestor", _none_is_stopping)
RULES_NOT_PASSED_ON = _replacing(Thread, "passed_on", property(lambda _thread: ()))
RULES_LOST_BY_A_WAKE = _replacing(agent_run, "begin", _begin_without_authority)
NO_RULES: dict[str, object] = {"permissions": (), "run_id": ""}
RULES_LOST_BY_A_TASK = _replacing(child_events, "_post", _posting_with(NO_RULES))
RULES_LOST_BY_MAIL = _replacing(child_events, "_accept_mail", _accepting_with(NO_RULES))
RULES_LOST_BY_WAKING_MAIL = _replacing(restoring, "REVISION", 0)
BUDGET_LOST_BY_MAIL = _replacing(child_events, "_accept_mail", _accepting_with({"budget": None}))
UNREAD_MAIL_UNBOUND = _replacing(agent_run, "begin", _begin_without_starters)
RULES_OF_HOOKS_LOST_BY_A_TASK = _replacing(ledger, "narrowing", lambda rules, _added: rules)
HOOKS_DECIDE = _together(
    (commit, "apply_effects", _apply_with_decisions),
    (inference, "apply_effects", _apply_with_decisions),
    (tool_calls, "apply_effects", _apply_with_decisions),
)
UNRETURNED_MAIL_BEGINS_A_RUN = _replacing(child_events, "_accept_mail", _accepting_at_once)
DENIALS_ASKED = _replacing(Thread, "passed_on", property(_asking_in_place_of_denying))
DENIED_TASKS_START = _replacing(gates, "final_verdict", _start_in_the_background)
RULES_LOST_BY_A_HANDOFF = _replacing(steps, "handing_on", lambda before, _agent: before)
QUESTIONS_VOID = _replacing(Thread, "questions", property(lambda _thread: ()))
BUDGET_SPENT_AGAIN = _replacing(ledger, "after_run", lambda thread: thread)
NO_ALLOWANCE = _replacing(ledger, "share", _nothing)
HELD_COMMANDS_FORGOTTEN = _replacing(agent_run.AgentRun, "_may_perform", lambda _run: False)
