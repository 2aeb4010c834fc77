"""What must hold at the end of every schedule. `I-…` are the invariants of `docs/behaviours.md`."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from temporalio.client import WorkflowQueryFailedError

from tests.loop.provider_rules import check_every_provider
from tests.simulation.audit import Audit, auditing
from tests.simulation.authority import Authority
from tests.simulation.continuity import (
    AppliedDecisions,
    cancelled_children,
    is_cancelled,
    lost_by_snapshot,
    read_out_of_order,
    rolled_back,
    several_keys,
)
from tests.simulation.core import Core, completed_part, replayed
from tests.simulation.ends import end_problem, reported_result
from tests.simulation.execution import Execution
from tests.simulation.growth import growth_problem
from tests.simulation.machines import StrictDifference
from tests.simulation.people import Change, Sent
from tests.simulation.server import TERMINATED
from tests.simulation.service import CONVERTER
from tests.simulation.workers import WORKFLOWS, retrieve
from tests.simulation.workload import INTRUDING, MISSING_AGENT, TENANT
from tests.simulation.world import Stuck, World
from wakeful.contract import names
from wakeful.contract.errors import WakefulError
from wakeful.contract.events import (
    AgentEvent,
    RunFinish,
    RunStart,
    SignalRefused,
    StepEnd,
    StepStart,
    ToolCallCancel,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
)
from wakeful.contract.ids import child_message_id
from wakeful.contract.messages import Message, Role
from wakeful.contract.outcomes import OutcomeStatus, remembered_id
from wakeful.contract.runs import RunResult, Suspended
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.loop.machine.stages import Idle
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.views import carryover

NOT_FOUND = b"no worker had it"
"""In the last words about what every worker lacked."""


class Violated(Exception):
    """An invariant does not hold."""


@dataclass
class Observed:
    """What the replay of a thread's executions shows of it."""

    thread: Thread | None = None
    """Its last state."""
    is_restoring: bool = False
    outcomes: set[str] = field(default_factory=set)
    """Ids of the messages and decisions whose outcome it ever knew."""
    calls: dict[str, str] = field(default_factory=dict)
    """The tool and the arguments of every call of its models, also of those that a reset has undone."""
    applied: AppliedDecisions = field(default_factory=AppliedDecisions)
    stages: set[str] = field(default_factory=set)
    events: list[tuple[int, AgentEvent]] = field(default_factory=list)
    is_open: bool = True


def check(world: World) -> dict[str, Observed]:
    """Every check that reads; `check_closed` follows once everything is closed."""
    seen = observe(world)
    check_nothing_waits_forever(world, seen)
    check_messages(world, seen)
    check_effects(world)
    check_tenants(world, seen)
    check_verbs(world)
    check_older_workers(world)
    if problem := growth_problem(world.server):
        raise Violated(problem)
    check_transcripts(world, seen)
    for thread_id, observed in seen.items():
        if observed.applied.undone:
            raise Violated(f"{thread_id}: {observed.applied.undone}")
        if thread_id not in world.people.disturbed:
            check_events(thread_id, observed)
            check_order(thread_id, observed, world)
    return seen


def check_older_workers(world: World) -> None:
    """A worker that lacks an agent, a tool or a plugin has ended no run and no call: another worker has it."""
    for execution in world.server.executions:
        for event in execution.history:
            written = event.SerializeToString()
            if NOT_FOUND in written and f"agent not found: {MISSING_AGENT!r}".encode() not in written:
                before = written[: written.index(NOT_FOUND)].decode(errors="replace")
                raise Violated(f"{execution.workflow_id} has not found its worker: {before[-120:]}")


def observe(world: World) -> dict[str, Observed]:
    """Replay every execution from its history alone, strictly: the same commands with the same inputs."""
    seen: dict[str, Observed] = defaultdict(Observed)
    difference: StrictDifference | None = None
    deleted = (each.workflow_id for each in world.server.executions if each.run_id in world.server.deleted)
    authority = Authority(world.people.given, shortened=frozenset(deleted))
    for execution in world.server.executions:
        if not execution.previous_started:
            continue
        observed, audit = seen[execution.workflow_id], Audit()
        try:
            with auditing(audit, authority):
                core = _replay(execution, observed, strict=world.options.strict)
        except StrictDifference as error:
            difference = difference or StrictDifference(f"{execution.workflow_id} {execution.run_id[:4]}: {error}")
            core = _replay(execution, observed, strict=False)
        _take_last(core, observed, execution)
        if problem := end_problem(core, execution):
            raise Violated(f"{execution.workflow_id} {problem}")
        core.evict()
        _check_audit(execution, observed, audit)
    if difference is not None:
        raise difference
    if problem := authority.overspent(world.people.disturbed):
        raise Violated(problem)
    return seen


def _replay(execution: Execution, observed: Observed, *, strict: bool) -> Core:
    def note(core: Core) -> None:
        thread = getattr(core.workflow, "_thread", None)
        if isinstance(thread, Thread):
            observed.outcomes |= {outcome.id for outcome in thread.outcomes}
            observed.applied.note(thread.outcomes, execution.resets)
            observed.stages.add(thread.stage.kind)

    return replayed(
        execution.workflow_id,
        execution.run_id,
        completed_part(execution.history),
        WORKFLOWS,
        CONVERTER,
        strict=strict,
        observe=note,
    )


def _check_audit(execution: Execution, observed: Observed, audit: Audit) -> None:
    if audit.problem:
        raise Violated(f"{execution.workflow_id}: {audit.problem}")
    for call_id, call in audit.calls.items():
        if (before := observed.calls.setdefault(call_id, call)) != call:
            raise Violated(f"{execution.workflow_id} has two calls with the id {call_id}: {before} and {call}")
    if execution.status != TERMINATED and (left := audit.stopped.keys() - cancelled_children(execution)):
        raise Violated(f"{execution.workflow_id} has stopped without a cancel of {min(left)}")


def _take_last(core: Core, observed: Observed, execution: Execution) -> None:
    thread = getattr(core.workflow, "_thread", None)
    observed.is_open = execution.is_open
    if not isinstance(thread, Thread):
        return
    observed.is_restoring = core.workflow._restoring is not None
    if observed.is_restoring:
        return
    observed.thread = thread
    if lost := lost_by_snapshot(thread, execution):
        raise Violated(f"{execution.workflow_id} has continued as new without its {lost}")
    log = core.workflow._log
    carried = log.before + len(log._carried)
    observed.events += [(carried + number, event) for number, (_, _, event) in enumerate(log._new, start=1)]


def check_nothing_waits_forever(world: World, seen: dict[str, Observed]) -> None:
    """I-02: with nothing due any more, an open thread is idle; everything else has ended."""
    for execution in world.server.open:
        if execution.workflow_type == names.WORKFLOW_ARCHIVE:
            continue
        thread = seen[execution.workflow_id].thread
        if execution.workflow_type == names.WORKFLOW_TOOL_TASK:
            raise Stuck(f"{execution.workflow_id} is a background tool that never ended")
        if thread is None or not isinstance(thread.stage, Idle):
            stage = thread.stage if thread is not None else "not started"
            raise Stuck(f"{execution.workflow_id} waits for something that never comes: {stage}")
    for thread_id, observed in seen.items():
        for task in observed.thread.children.running if observed.thread and observed.is_open else ():
            child = world.server.current.get(task.thread_id or "")
            if child is None or not child.is_open:
                raise Stuck(f"{thread_id} counts {task.task_id} as running, but {task.thread_id} is closed")


def check_messages(world: World, seen: dict[str, Observed]) -> None:
    """Every accepted message has exactly one outcome, or a visible refusal; none is read twice."""
    for sent in world.people.sent:
        observed = seen.get(sent.thread_id)
        if not sent.is_accepted or observed is None or sent.thread_id in world.people.disturbed:
            continue
        if sent.message_id and sent.message_id not in observed.outcomes:
            raise Violated(f"{sent.thread_id} does not know what became of message {sent.message_id}")
    for change in world.people.changes:
        observed = seen.get(change.sent.thread_id)
        if observed is not None and observed.thread is not None and change.sent.thread_id not in world.people.disturbed:
            _check_change(change, observed.thread)
    for thread_id, observed in seen.items():
        if observed.thread is not None and thread_id not in world.people.disturbed:
            _check_outcomes(thread_id, observed.thread)
        sent_without_id = [sent for sent in world.people.sent if sent.thread_id == thread_id and not sent.message_id]
        if thread_id not in world.people.disturbed:
            _check_plain_messages(thread_id, sent_without_id, observed)
        messages = observed.thread.transcript.messages if observed.thread else ()
        repeated = [id for id, times in Counter(message.id for message in messages).items() if times > 1]
        if repeated:
            raise Violated(f"{thread_id} has read {repeated} twice")
        texts = Counter(message.text for message in messages if message.role is Role.USER)
        twice = [sent.text for sent in world.people.sent if texts[sent.text] > 1]
        if twice:
            raise Violated(f"{thread_id} has read {twice} twice")


def _check_outcomes(thread_id: str, thread: Thread) -> None:
    """A message is where its outcome says: in the conversation, or waiting, in a closed thread until it is woken."""
    waiting = {remembered_id(later.message.id) for later in (*thread.queued, *thread.steering)}
    carried = {remembered_id(unread.message.id) for unread in carryover(thread).unread}
    read = {remembered_id(message.id) for message in thread.transcript.messages}
    for outcome in thread.outcomes:
        match outcome.status:
            case OutcomeStatus.UNREAD if outcome.id not in carried:
                raise Violated(f"{thread_id} has closed without {outcome.id}, which no run has read")
            case OutcomeStatus.QUEUED | OutcomeStatus.STEERING if outcome.id not in waiting:
                raise Violated(f"{thread_id} has lost {outcome.id}, which waits for a run")
            case OutcomeStatus.WITHDRAWN if outcome.id in waiting | read:
                raise Violated(f"{thread_id} has {outcome.id}, which was withdrawn")
            case OutcomeStatus.READ if outcome.id not in read and not thread.transcript.before.length:
                raise Violated(f"{thread_id} has lost {outcome.id}, which a run has read")
            case _:
                pass


def _check_change(change: Change, thread: Thread) -> None:
    """A withdrawal that was confirmed is the outcome of its message; no run reads a text that was replaced."""
    if not change.is_applied:
        return
    id, where = change.sent.message_id, change.sent.thread_id
    status = next((outcome.status for outcome in thread.outcomes if outcome.id == id and outcome.is_message), None)
    if change.text is None and status not in (None, OutcomeStatus.WITHDRAWN):
        raise Violated(f"{where} has confirmed that {id} is withdrawn, but it is {status}")
    if change.text is not None and any(message.text == change.sent.text for message in thread.transcript.messages):
        raise Violated(f"{where} has read {id} as it was before an edit that it has confirmed")


def _check_plain_messages(thread_id: str, sent: list[Sent], observed: Observed) -> None:
    """Messages without an id are numbered: there is an outcome for each, or a refusal."""
    known = sum(id.startswith("submit:") for id in observed.outcomes)
    events = (event for _, event in observed.events)
    refused = sum(isinstance(event, SignalRefused) and event.signal == names.SIGNAL_SUBMIT for event in events)
    if len(sent) > known + refused:
        raise Violated(f"{thread_id}: {len(sent)} messages without an id, but {known} outcomes, {refused} refusals")


def check_order(thread_id: str, observed: Observed, world: World) -> None:
    """Messages that wait for their turn are read in the order in which they came."""
    executions = [execution for execution in world.server.executions if execution.workflow_id == thread_id]
    if observed.thread and (read := read_out_of_order(observed.thread, world.people.sent, executions)):
        raise Violated(f"{thread_id} has read its messages in another order than they came: {read}")


def check_effects(world: World) -> None:
    """I-04: a tool body runs once per call and grant, and again only if its worker was lost and it may repeat."""
    if several := several_keys(world.outside.effects):
        raise Violated(f"one call has several idempotency keys: {several}")
    runs: Counter[tuple[str, str]] = Counter()
    attempts: Counter[tuple[str, str, int]] = Counter()
    for effect in world.outside.effects:
        runs[effect.key, effect.grant] += 1
        attempts[effect.key, effect.grant, effect.attempt] += 1
        if effect.tool == "pay" and runs[effect.key, effect.grant] > 1:
            raise Violated(f"{effect.thread_id} paid twice for {effect.call_id}")
        if attempts[effect.key, effect.grant, effect.attempt] > 1:
            raise Violated(f"{effect.thread_id} ran {effect.call_id} twice for one grant")


def check_tenants(world: World, seen: dict[str, Observed]) -> None:
    """Every thread belongs to the tenant, every tool knows for whom it runs, and no model reads another tenant."""
    if world.outside.strangers:
        raise Violated(f"a tool does not know for whom it runs: {world.outside.strangers[0]}")
    for thread_id, observed in seen.items():
        if observed.thread is not None and observed.thread.identity.tenant != TENANT:
            raise Violated(f"{thread_id} belongs to {observed.thread.identity.tenant!r}")
    for thread_id, messages in world.outside.prompts:
        if any(INTRUDING in message.text for message in messages):
            raise Violated(f"{thread_id} has read a message of another tenant")


def check_verbs(world: World) -> None:
    """Every call of a client verb has ended, with an answer or with one of our errors."""
    for asked in world.people.asked:
        if not asked.task.done():
            raise Stuck(f"a client never gets its answer to: {asked.key}")
        error = None if asked.task.cancelled() else asked.task.exception()
        if error is not None and not isinstance(error, WakefulError | WorkflowQueryFailedError):
            raise Violated(f"{asked.key} raised {type(error).__name__}: {error}") from error
    for worker in world.alive:
        if worker.sweeping is not None and worker.sweeping.done():
            retrieve(worker.sweeping)


def check_transcripts(world: World, seen: dict[str, Observed]) -> None:
    """I-03: what is stored, and what models were shown, is valid for every provider."""
    if world.outside.invalid_requests:
        raise Violated(f"a model was shown an invalid conversation: {world.outside.invalid_requests[0]}")
    for thread_id, observed in seen.items():
        messages = observed.thread.transcript.messages if observed.thread else ()
        if observed.thread is not None and observed.thread.transcript.before.length == 0:
            check_conversation(thread_id, messages)  # else a part of it is archived, and read later
        undone = rolled_back(observed.thread) if observed.thread else []
        if undone:
            raise Violated(f"{thread_id} still has {undone}, which it has rolled back")
        tasks = observed.thread.children.tasks if observed.thread else ()
        numbered = Counter(task.task_id for task in tasks)
        if twice := [id for id, times in numbered.items() if times > 1]:
            raise Violated(f"{thread_id} has several tasks with the id {twice[0]}")
        ends = Counter(message.id for message in messages)
        for task in tasks:
            if task.thread_id and ends[child_message_id(task.thread_id)] > 1:
                raise Violated(f"{thread_id} has read the end of {task.task_id} twice")


def check_events(thread_id: str, observed: Observed) -> None:
    """I-07: numbers without gaps; run_start first, run_finish last; steps and calls balanced."""
    numbers = [number for number, _ in observed.events]
    if numbers != list(range(numbers[0], numbers[0] + len(numbers)) if numbers else []):
        raise Violated(f"{thread_id}: the events have the numbers {numbers}")
    is_active = is_in_step = False
    ready: dict[str, None] = {}
    for number, event in observed.events:
        match event:
            case RunStart():
                _expect(not is_active, thread_id, number, "run_start in an active run")
                is_active = True
            case RunFinish(termination=termination):
                _expect(is_active, thread_id, number, "run_finish without run_start")
                is_active = False
                is_in_step &= isinstance(termination, Suspended)
                if not isinstance(termination, Suspended):
                    _expect(not ready, thread_id, number, f"calls {list(ready)} have no end")
            case StepStart():
                _expect(not is_in_step, thread_id, number, "step_start in a step")
                is_in_step = True
            case StepEnd():
                _expect(is_in_step, thread_id, number, "step_end without step_start")
                is_in_step = False
            case ToolCallReady(id=id):
                ready[id] = None
            case ToolCallDone(id=id) | ToolCallCancel(id=id):
                ready.pop(id, None)
            case ToolCallResumed(target_id=id):
                ready.pop(id, None)
            case _:
                pass


def _expect(holds: bool, thread_id: str, number: int, problem: str) -> None:
    if not holds:
        raise Violated(f"{thread_id}, event {number}: {problem}")


def check_conversation(thread_id: str, messages: Iterable[Message]) -> None:
    """I-03: providers send system messages apart."""
    try:
        check_every_provider([message for message in messages if message.role is not Role.SYSTEM])
    except AssertionError as error:
        raise Violated(f"{thread_id} stores an invalid conversation: {error}") from error


def check_transcript(thread_id: str, observed: Observed, read: list[Message]) -> None:
    """A reader gets the conversation that the thread has, with what is archived of it."""
    assert observed.thread is not None
    check_conversation(thread_id, read)
    if reduce(chained, read[: observed.thread.transcript.length], EMPTY_DIGEST) != observed.thread.transcript.digest:
        raise Violated(f"a reader of {thread_id} got another conversation than the digest says")
    transcript = observed.thread.transcript
    wanted = [(message.id, message.text) for message in transcript.messages]
    found = [(message.id, message.text) for message in read[transcript.before.length :]]
    if found != wanted:
        raise Violated(f"a reader of {thread_id} got {found} instead of {wanted}")


def check_alarms(world: World) -> None:
    """With nothing due, no time that a thread waits for has passed."""
    for execution in world.server.open:
        thread = world.people.thread_of(execution, is_current=True)
        if thread is None or thread.run is None or execution.task is not None or execution.timers:
            continue  # a timer that was started late fires late
        alarm = thread.next_alarm
        if alarm is not None and alarm <= world.server.now:
            late = world.server.now - alarm
            raise Violated(
                f"{execution.workflow_id} has missed an alarm: its time was {late} ms ago, and no timer fires"
            )


def orphans(world: World) -> list[Execution]:
    """Open children whose parent was closed from outside, and was not woken since."""
    found = []
    for child in world.server.open:
        parent = world.server.current.get(child.parent.workflow_id) if child.parent else None
        if parent is not None and parent.status == TERMINATED:
            found.append(child)
    return found


def check_swept(world: World, before: list[Execution]) -> None:
    """A sweep has cancelled every child that was an orphan when it began, and still is."""
    left = [child.workflow_id for child in before if child in orphans(world) and not is_cancelled(child)]
    if left:
        raise Violated(f"{left[0]} is an orphan, and no sweep has cancelled it")


def check_watchers(world: World) -> None:
    """A watcher gets every event once, in order, as history has it."""
    if not world.people.watched:
        return
    seen = observe(world)
    for thread_id, records in world.people.watched.items():
        if thread_id in world.people.disturbed or thread_id not in seen:
            continue
        events = dict(seen[thread_id].events)
        shown = [record.seq for record in records]
        if shown != list(range(1, len(shown) + 1)):
            raise Violated(f"a watcher of {thread_id} got the events {shown}")
        wrong = [record.seq for record in records if events.get(record.seq) != record.event]
        if wrong:
            raise Violated(f"a watcher of {thread_id} got other events than history has: {wrong}")
        if len(shown) < len(events) and not world.people.has_stopped(thread_id):
            raise Violated(f"a watcher of {thread_id} got {len(shown)} of {len(events)} events")


def check_closed(world: World) -> None:
    """I-10: a cancel leaves nothing running."""
    left = [execution.workflow_id for execution in world.server.open if not _awaits_check(world, execution)]
    if left:
        raise Violated(f"still open after everything was closed: {left}")
    running: list[Any] = [key for worker in world.alive for key in worker.running]
    if running:
        raise Violated(f"activities are still running after everything was closed: {running}")


def check_result(thread_id: str, execution: Execution, result: RunResult | WakefulError) -> None:
    """A client gets the result of a closed thread, whatever its close status; a terminated one has none."""
    reported = reported_result(execution)
    if reported is None and not isinstance(result, WakefulError) and result.run_id:
        raise Violated(f"{thread_id} has closed without a result, but a client got {result}")
    if reported is not None and result != reported:
        raise Violated(f"{thread_id} has the result {reported}, but a client got {result}")


def _awaits_check(world: World, execution: Execution) -> bool:
    """Whether it is an archive that its thread did not release, because it was terminated, or ended while it archived.

    It looks for its thread by itself, and completes once the thread can no longer be woken.
    """
    thread = world.server.current.get(execution.workflow_id.partition("/archive/")[0])
    is_archive = execution.workflow_type == names.WORKFLOW_ARCHIVE
    return is_archive and (thread is None or not thread.is_open)
