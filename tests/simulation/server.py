"""A model of the Temporal server: executions, and what is on its way between them. Nothing here chooses an order."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from uuid import UUID

from temporalio.api.common.v1 import Memo, Payload, SearchAttributes
from temporalio.api.enums.v1 import EventType, TimeoutType, WorkflowExecutionStatus, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent, TimerFiredEventAttributes
from temporalio.api.update.v1 import Request

from tests.simulation.chunking import EXECUTION_STARTED, TASK_SCHEDULED, TASK_STARTED
from tests.simulation.execution import ActivityTask, Execution, Fill, ParentRef, TaskKind
from tests.simulation.instances import NAMESPACE, TASK_QUEUE
from tests.simulation.machines import TERMINAL, Kind, Machine, write_marker

FIRST_TIME = 1_790_000_000_000

UNHANDLED_COMMAND = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND
COMPLETED = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_COMPLETED
FAILED = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_FAILED
CANCELED = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CANCELED
TERMINATED = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED
CONTINUED_AS_NEW = WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW

_CLOSED_STATUS = {
    Kind.COMPLETE: COMPLETED,
    Kind.FAIL: FAILED,
    Kind.CANCEL: CANCELED,
    Kind.CONTINUE_AS_NEW: CONTINUED_AS_NEW,
}
_CHILD_CLOSED = {
    COMPLETED: EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED,
    FAILED: EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED,
    CANCELED: EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED,
    TERMINATED: EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED,
}


_SIGNAL_CONFIRMED = frozenset(
    {
        EventType.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED,
        EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED,
    }
)


@dataclass(frozen=True)
class Transfer:
    """Something on its way between executions; it arrives when the schedule says so."""

    key: str
    deliver: Callable[[], None]


@dataclass
class Server:
    """Every execution of one namespace."""

    seed: str
    now: int = FIRST_TIME
    executions: list[Execution] = field(default_factory=list)
    current: dict[str, Execution] = field(default_factory=dict)
    """The newest execution of each workflow id."""
    transfers: list[Transfer] = field(default_factory=list)
    started_notices: dict[str, Transfer] = field(default_factory=dict)
    """The notice to each parent that its child has started, by the child's run id."""
    visible: dict[str, tuple[WorkflowExecutionStatus.ValueType, int]] = field(default_factory=dict)
    """The status and the close time that visibility lists, by run id: they may lag behind."""
    deleted: set[str] = field(default_factory=set)
    """Run ids of executions that no client can read any more."""
    is_visibility_lagging: bool = False
    on_event: Callable[[Execution, Any], None] | None = None

    def tick(self) -> int:
        """The time of the next event, which is never before the last one's."""
        self.now += 1
        return self.now

    # -- executions ------------------------------------------------------------------------------------------------

    def start(
        self,
        workflow_id: str,
        workflow_type: str,
        input: Iterable[Payload],
        *,
        parent: ParentRef | None = None,
        continued: Execution | None = None,
        memo: Memo | None = None,
        attributes: SearchAttributes | None = None,
    ) -> Execution:
        number = sum(1 for execution in self.executions if execution.workflow_id == workflow_id)
        run_id = str(UUID(int=Random(f"{self.seed}/{workflow_id}/{number}").getrandbits(128)))
        execution = Execution(workflow_id, run_id, workflow_type, self.tick, parent)
        execution.started_at = self.now
        execution.resets = max((each.resets for each in self.executions if each.workflow_id == workflow_id), default=0)

        def fill(started: Any) -> None:
            started.workflow_type.name, started.workflow_id = workflow_type, workflow_id
            started.input.payloads.extend(input)
            started.original_execution_run_id, started.attempt = run_id, 1
            started.first_execution_run_id = continued.run_id if continued else run_id
            started.continued_execution_run_id = continued.run_id if continued else ""
            started.workflow_task_timeout.seconds = 10
            started.task_queue.name = TASK_QUEUE
            if memo is not None:
                started.memo.CopyFrom(memo)
            if attributes is not None:
                started.search_attributes.CopyFrom(attributes)
            if parent is not None:
                started.parent_workflow_namespace = NAMESPACE
                started.parent_workflow_execution.workflow_id = parent.workflow_id
                started.parent_workflow_execution.run_id = parent.run_id
                started.parent_initiated_event_id = parent.initiated_id

        event = execution.write(EXECUTION_STARTED, fill)
        execution.memo.CopyFrom(event.workflow_execution_started_event_attributes.memo)
        execution.attributes.CopyFrom(event.workflow_execution_started_event_attributes.search_attributes)
        self.executions.append(execution)
        self.current[workflow_id] = execution
        execution.schedule_task()
        self.show(execution)
        return execution

    def find(self, workflow_id: str, run_id: str = "") -> Execution | None:
        if not run_id:
            return self.current.get(workflow_id)
        found = (execution for execution in self.executions if execution.run_id == run_id)
        return next((execution for execution in found if run_id not in self.deleted), None)

    def delete(self, execution: Execution) -> None:
        """Its retention has ended."""
        self.deleted.add(execution.run_id)
        self.visible.pop(execution.run_id, None)

    @property
    def open(self) -> list[Execution]:
        return [execution for execution in self.executions if execution.is_open]

    def show(self, execution: Execution) -> None:
        """Visibility lists the execution as it is, unless it lags."""
        if not self.is_visibility_lagging or execution.run_id not in self.visible:
            self.visible[execution.run_id] = (execution.status, execution.closed_at)

    def catch_up_visibility(self) -> None:
        for execution in self.executions:
            self.visible[execution.run_id] = (execution.status, execution.closed_at)

    # -- what clients do -------------------------------------------------------------------------------------------

    def signal(self, execution: Execution, name: str, input: Iterable[Payload]) -> bool:
        payloads = list(input)

        def fill(signaled: Any) -> None:
            signaled.signal_name = name
            signaled.input.payloads.extend(payloads)

        return execution.happen(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED, fill)

    def request_cancel(self, execution: Execution, reason: str) -> bool:
        def fill(requested: Any) -> None:
            requested.cause = reason

        return execution.happen(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED, fill)

    def terminate(self, execution: Execution, reason: str = "") -> None:
        if not execution.is_open:
            return
        execution.flush()

        def fill(terminated: Any) -> None:
            terminated.reason = reason

        execution.write(EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED, fill)
        self._close(execution, TERMINATED)

    def update(self, execution: Execution, request: Request) -> None:
        execution.updates.append(request)
        execution.schedule_task(TaskKind.SPECULATIVE)

    def reset(self, execution: Execution, finish_id: int, *, reapplies_signals: bool = True) -> Execution:
        """Start the execution over from before the end of a workflow task."""
        number = sum(1 for other in self.executions if other.workflow_id == execution.workflow_id)
        run_id = str(UUID(int=Random(f"{self.seed}/{execution.workflow_id}/{number}").getrandbits(128)))
        fresh = Execution(execution.workflow_id, run_id, execution.workflow_type, self.tick, execution.parent)
        fresh.started_at, fresh.resets = self.now, execution.resets + 1
        for event in execution.history[: finish_id - 1]:
            fresh.copy(event)
        newest = next(event for event in reversed(fresh.history) if event.event_type in (TASK_SCHEDULED, TASK_STARTED))
        if newest.event_type == TASK_SCHEDULED:
            scheduled = newest.event_id
            newest = fresh.write(TASK_STARTED, lambda task: setattr(task, "scheduled_event_id", scheduled))
        started_id = newest.event_id
        scheduled_id = newest.workflow_task_started_event_attributes.scheduled_event_id
        self._restore_pending(fresh)

        def failed(task: Any) -> None:
            task.scheduled_event_id, task.started_event_id = scheduled_id, started_id
            task.cause = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
            task.base_run_id, task.new_run_id = execution.run_id, run_id

        fresh.write(EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED, failed)
        later = execution.history[finish_id - 1 :]
        self.terminate(self.current[execution.workflow_id], "reset")
        self.executions.append(fresh)
        self.current[fresh.workflow_id] = fresh
        for event in later if reapplies_signals else ():
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                fresh.write(event.event_type, partial(_copy_into, event.workflow_execution_signaled_event_attributes))
        self._send_unconfirmed_signals(fresh)
        self._start_unconfirmed_children(fresh)
        fresh.schedule_task()
        self.show(fresh)
        return fresh

    def _send_unconfirmed_signals(self, execution: Execution) -> None:
        """The server sends again what a copied history has sent without knowing that it arrived."""
        sent = {}
        for event in execution.history:
            if event.event_type == EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED:
                sent[event.event_id] = event
            elif event.event_type in _SIGNAL_CONFIRMED:
                sent.pop(getattr(event, str(event.WhichOneof("attributes"))).initiated_event_id, None)
        for event in sent.values():
            signal = event.signal_external_workflow_execution_initiated_event_attributes
            target = signal.workflow_execution.workflow_id
            self._send_signal(execution, event, target, signal.signal_name, list(signal.input.payloads))

    def _start_unconfirmed_children(self, execution: Execution) -> None:
        """The server looks for the children that a copied history has started without knowing it, and starts others."""
        initiated = {}
        for event in execution.history:
            if event.event_type == EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED:
                initiated[event.event_id] = event
            elif "CHILD_WORKFLOW_EXECUTION" in EventType.Name(event.event_type):
                initiated.pop(getattr(event, str(event.WhichOneof("attributes"))).initiated_event_id, None)
        for event in initiated.values():
            self._start_child(execution, event, _InitiatedChild(event), is_reset=True)

    def _restore_pending(self, execution: Execution) -> None:
        """What the execution waits for at the end of a copied history."""
        for event in execution.history:
            match event.event_type:
                case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                    scheduled = event.activity_task_scheduled_event_attributes
                    execution.activities[event.event_id] = ActivityTask(event.event_id, _as_command(scheduled))
                case EventType.EVENT_TYPE_TIMER_STARTED:
                    timer = event.timer_started_event_attributes
                    due = event.event_time.ToMilliseconds() + timer.start_to_fire_timeout.ToMilliseconds()
                    execution.timers[event.event_id] = due
                case EventType.EVENT_TYPE_TIMER_FIRED:
                    execution.timers.pop(event.timer_fired_event_attributes.started_event_id, None)
                case EventType.EVENT_TYPE_TIMER_CANCELED:
                    execution.timers.pop(event.timer_canceled_event_attributes.started_event_id, None)
                case _:
                    attributes = getattr(event, str(event.WhichOneof("attributes")))
                    if "ACTIVITY_TASK" in EventType.Name(event.event_type) and not event.HasField(
                        "activity_task_started_event_attributes"
                    ):
                        execution.activities.pop(getattr(attributes, "scheduled_event_id", 0), None)

    # -- workflow tasks --------------------------------------------------------------------------------------------

    def complete_task(
        self,
        execution: Execution,
        commands: Sequence[tuple[Kind, Machine]],
        *,
        flags: Iterable[int] = (),
        rejected: int = 0,
    ) -> bool:
        """A worker reports its commands; False if the server refuses them because something happened meanwhile."""
        cancelled = {machine.event_id for kind, machine in commands if kind is Kind.CANCEL_TIMER}
        left = [entry for entry in execution.buffered if _fired_timer(entry) not in cancelled]
        if any(kind in TERMINAL for kind, _ in commands) and left:
            execution.lose_task(timed_out=False, cause=UNHANDLED_COMMAND)
            return False
        execution.buffered = left  # a timer that fired during the task that cancels it leaves no event
        task = execution.task
        assert task is not None
        updates, execution.updates = execution.updates, []
        if task.kind is TaskKind.SPECULATIVE and not commands and not execution.buffered and updates and rejected:
            execution.drop_speculative_task()
            return True
        execution.complete_task(flags)
        completed_id = len(execution.history)
        for kind, machine in commands:
            self._record(execution, kind, machine, completed_id)
        if execution.is_open and execution.flush():
            execution.schedule_task()
        return True

    def _record(self, execution: Execution, kind: Kind, machine: Machine, completed_id: int) -> None:
        event = execution.write(kind.value)
        attributes = getattr(event, str(event.WhichOneof("attributes")))
        if "workflow_task_completed_event_id" in attributes.DESCRIPTOR.fields_by_name:
            attributes.workflow_task_completed_event_id = completed_id
        command = machine.command
        match kind:
            case Kind.ACTIVITY:
                _fill_activity(attributes, command)
                execution.activities[event.event_id] = ActivityTask(event.event_id, command)
            case Kind.CANCEL_ACTIVITY:
                attributes.scheduled_event_id = machine.event_id
                if (activity := execution.activities.get(machine.event_id)) is not None:
                    activity.is_cancelled = True
            case Kind.TIMER:
                attributes.timer_id = str(machine.seq)
                attributes.start_to_fire_timeout.CopyFrom(command.start_to_fire_timeout)
                due = event.event_time.ToMilliseconds() + command.start_to_fire_timeout.ToMilliseconds()
                execution.timers[event.event_id] = due
            case Kind.CANCEL_TIMER:
                attributes.started_event_id, attributes.timer_id = machine.event_id, str(machine.seq)
                execution.timers.pop(machine.event_id, None)
            case Kind.CHILD:
                attributes.workflow_id, attributes.workflow_type.name = command.workflow_id, command.workflow_type
                attributes.input.payloads.extend(command.input)
                for name, value in command.memo.items():
                    attributes.memo.fields[name].CopyFrom(value)
                if command.HasField("search_attributes"):
                    attributes.search_attributes.CopyFrom(command.search_attributes)
                self._start_child(execution, event, command)
            case Kind.SIGNAL:
                target = command.workflow_execution.workflow_id or command.child_workflow_id
                attributes.workflow_execution.workflow_id, attributes.signal_name = target, command.signal_name
                attributes.input.payloads.extend(command.args)
                self._send_signal(execution, event, target, command.signal_name, list(command.args))
            case Kind.LOCAL_ACTIVITY:
                write_marker(event, machine)
            case Kind.SEARCH_ATTRIBUTES:
                upserted = command.search_attributes.indexed_fields
                for name, value in upserted.items():
                    attributes.search_attributes.indexed_fields[name].CopyFrom(value)
                    execution.attributes.indexed_fields[name].CopyFrom(value)
            case Kind.MEMO:
                for name, value in command.upserted_memo.fields.items():
                    attributes.upserted_memo.fields[name].CopyFrom(value)
                    if value.metadata.get("encoding") == b"binary/null":
                        execution.memo.fields.pop(name, None)
                    else:
                        execution.memo.fields[name].CopyFrom(value)
            case Kind.ACCEPT_UPDATE:
                assert machine.update is not None
                attributes.protocol_instance_id = machine.update.protocol_id
                attributes.accepted_request_message_id = f"{machine.update.protocol_id}/request"
                attributes.accepted_request_sequencing_event_id = machine.update.sequencing_id
                attributes.accepted_request.CopyFrom(machine.update.request)
            case Kind.COMPLETE_UPDATE:
                assert machine.update is not None
                attributes.meta.update_id = machine.update.protocol_id
                if command.WhichOneof("response") == "completed":
                    attributes.outcome.success.payloads.append(command.completed)
            case _:
                self._record_end(execution, kind, attributes, command)
        execution.size += event.ByteSize()

    def _record_end(self, execution: Execution, kind: Kind, attributes: Any, command: Any) -> None:
        if kind is Kind.COMPLETE:
            attributes.result.payloads.append(command.result)
        elif kind is Kind.FAIL:
            attributes.failure.CopyFrom(command.failure)
        elif kind is Kind.CONTINUE_AS_NEW:
            attributes.input.payloads.extend(command.arguments)
            following = self.start(
                execution.workflow_id,
                execution.workflow_type,
                command.arguments,
                parent=execution.parent,
                continued=execution,
                memo=execution.memo,
                attributes=execution.attributes,
            )
            attributes.new_execution_run_id = following.run_id
        self._close(execution, _CLOSED_STATUS[kind])

    def _close(self, execution: Execution, status: WorkflowExecutionStatus.ValueType) -> None:
        execution.close(status)
        self.show(execution)
        parent = execution.parent
        if parent is None or status == CONTINUED_AS_NEW:
            return
        result = execution.history[-1].workflow_execution_completed_event_attributes.result
        failure = execution.history[-1].workflow_execution_failed_event_attributes.failure

        def deliver() -> None:
            owner = self.find(parent.workflow_id, parent.run_id)
            if owner is None or parent.initiated_id not in owner.children:
                return
            del owner.children[parent.initiated_id]
            notice = self.started_notices.get(execution.run_id)
            if notice in self.transfers:  # the server records the start in the parent first
                self.transfers.remove(notice)
                notice.deliver()

            def fill(closed: Any) -> None:
                closed.initiated_event_id = parent.initiated_id
                closed.workflow_execution.workflow_id = execution.workflow_id
                closed.workflow_execution.run_id = execution.run_id
                if status == COMPLETED:
                    closed.result.CopyFrom(result)
                elif status == FAILED:
                    closed.failure.CopyFrom(failure)

            owner.happen(_CHILD_CLOSED[status], fill)

        self.transfers.append(Transfer(f"close {execution.workflow_id}", deliver))

    def _start_child(self, parent: Execution, initiated: HistoryEvent, command: Any, *, is_reset: bool = False) -> None:
        ref = ParentRef(parent.workflow_id, parent.run_id, initiated.event_id)
        parent.children[initiated.event_id] = command.workflow_id
        memo = Memo(fields=dict(command.memo.items()))

        def start() -> None:
            existing = self.current.get(command.workflow_id)
            if existing is not None and is_reset:
                child = existing  # the parent's history before the reset has started it
            elif existing is not None and existing.is_open:
                del parent.children[initiated.event_id]
                parent.happen(EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED, refused)
                return
            else:
                child = self.start(
                    command.workflow_id,
                    command.workflow_type,
                    command.input,
                    parent=ref,
                    memo=memo,
                    attributes=command.search_attributes,
                )

            def started(attributes: Any) -> None:
                attributes.initiated_event_id = initiated.event_id
                attributes.workflow_execution.workflow_id = child.workflow_id
                attributes.workflow_execution.run_id = child.run_id

            def notify() -> None:
                parent.happen(EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED, started)

            notice = Transfer(f"started {command.workflow_id}", notify)
            self.transfers.append(notice)
            self.started_notices[child.run_id] = notice

        def refused(attributes: Any) -> None:
            attributes.initiated_event_id = initiated.event_id
            attributes.workflow_id, attributes.workflow_type.name = command.workflow_id, command.workflow_type

        self.transfers.append(Transfer(f"start {command.workflow_id}", start))

    def _send_signal(
        self, source: Execution, initiated: HistoryEvent, target: str, name: str, input: list[Payload]
    ) -> None:

        def deliver() -> None:
            receiver = self.current.get(target)
            is_delivered = receiver is not None and self.signal(receiver, name, input)

            def acknowledge() -> None:
                def fill(attributes: Any) -> None:
                    attributes.initiated_event_id = initiated.event_id
                    attributes.workflow_execution.workflow_id = target
                    if not is_delivered:
                        attributes.cause = 1  # not found

                source.happen(
                    EventType.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED
                    if is_delivered
                    else EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED,
                    fill,
                )

            self.transfers.append(Transfer(f"signalled {target} {name}", acknowledge))

        self.transfers.append(Transfer(f"signal {target} {name}", deliver))

    # -- timers and activities -------------------------------------------------------------------------------------

    def fire(self, execution: Execution, timer_id: int) -> None:
        self.now = max(self.now, execution.timers.pop(timer_id))
        started = execution.history[timer_id - 1].timer_started_event_attributes

        def fill(fired: Any) -> None:
            fired.started_event_id, fired.timer_id = timer_id, started.timer_id

        execution.happen(EventType.EVENT_TYPE_TIMER_FIRED, fill)

    def complete_activity(self, execution: Execution, activity: ActivityTask, result: Payload | None) -> None:
        def fill(completed: Any) -> None:
            completed.scheduled_event_id = activity.scheduled_id
            if result is not None:
                completed.result.payloads.append(result)

        self._end_activity(execution, activity, EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, fill)

    def cancel_activity(self, execution: Execution, activity: ActivityTask) -> None:
        def fill(cancelled: Any) -> None:
            cancelled.scheduled_event_id = activity.scheduled_id

        self._end_activity(execution, activity, EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED, fill)

    def fail_activity(self, execution: Execution, activity: ActivityTask, failure: Failure) -> None:
        """An attempt failed: retry it, if its policy allows."""
        info = failure.application_failure_info
        policy = activity.command.retry_policy
        is_final = info.non_retryable or info.type in policy.non_retryable_error_types
        if not is_final and not activity.is_cancelled and self._retry(activity):
            activity.failure = failure
            if info.HasField("next_retry_delay"):
                activity.not_before = self.now + info.next_retry_delay.ToMilliseconds()
            return

        def fill(failed: Any) -> None:
            failed.scheduled_event_id = activity.scheduled_id
            failed.failure.CopyFrom(failure)

        self._end_activity(execution, activity, EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED, fill)

    def time_out_activity(self, execution: Execution, activity: ActivityTask) -> None:
        """Its worker was lost: the heartbeat times out."""
        if activity.is_cancelled:
            self.cancel_activity(execution, activity)  # the server ends a cancelled activity at its timeout
            return
        policy = activity.command.retry_policy
        if "TemporalTimeout:Heartbeat" not in policy.non_retryable_error_types and self._retry(activity):
            return

        def fill(timed_out: Any) -> None:
            timed_out.scheduled_event_id = activity.scheduled_id
            timed_out.failure.message = "activity Heartbeat timeout"
            timed_out.failure.timeout_failure_info.timeout_type = TimeoutType.TIMEOUT_TYPE_HEARTBEAT

        self._end_activity(execution, activity, EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT, fill)

    def _retry(self, activity: ActivityTask) -> bool:
        maximum = activity.command.retry_policy.maximum_attempts
        if maximum and activity.attempt >= maximum:
            return False
        activity.attempt += 1
        activity.worker = None
        return True

    def _end_activity(
        self, execution: Execution, activity: ActivityTask, kind: "EventType.ValueType", fill: Callable[[Any], None]
    ) -> None:
        """The server writes the start of an activity together with its end."""
        if execution.activities.pop(activity.scheduled_id, None) is None:
            return

        def started(attributes: Any) -> None:
            attributes.scheduled_event_id, attributes.attempt = activity.scheduled_id, activity.attempt

        if execution.task is not None and execution.task.is_started:
            execution.buffered.append((EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED, started))
        elif execution.is_open:
            if execution.task is not None and execution.task.kind is TaskKind.SPECULATIVE:
                execution.happen(EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED, started)
            else:
                execution.write(EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED, started)
        execution.happen(kind, fill)


def _fired_timer(entry: tuple["EventType.ValueType", Fill]) -> int | None:
    """The timer that a buffered event is about, by the id of its TimerStarted."""
    kind, fill = entry
    if kind != EventType.EVENT_TYPE_TIMER_FIRED:
        return None
    fired = TimerFiredEventAttributes()
    fill(fired)
    return fired.started_event_id


def _copy_into(source: Any, copy: Any) -> None:
    copy.CopyFrom(source)


def _fill_activity(attributes: Any, command: Any) -> None:
    attributes.activity_id, attributes.activity_type.name = command.activity_id, command.activity_type
    attributes.input.payloads.extend(command.arguments)
    attributes.task_queue.name = command.task_queue or TASK_QUEUE
    attributes.heartbeat_timeout.CopyFrom(command.heartbeat_timeout)
    attributes.start_to_close_timeout.CopyFrom(command.start_to_close_timeout)
    attributes.retry_policy.CopyFrom(command.retry_policy)


class _ScheduledActivity:
    """An activity of a copied history, with the fields that the command had."""

    def __init__(self, scheduled: Any) -> None:
        self.activity_id = scheduled.activity_id
        self.activity_type = scheduled.activity_type.name
        self.arguments = list(scheduled.input.payloads)
        self.task_queue = scheduled.task_queue.name
        self.heartbeat_timeout = scheduled.heartbeat_timeout
        self.start_to_close_timeout = scheduled.start_to_close_timeout
        self.retry_policy = scheduled.retry_policy


class _InitiatedChild:
    """A child of a copied history, with the fields that the command had."""

    def __init__(self, event: HistoryEvent) -> None:
        initiated = event.start_child_workflow_execution_initiated_event_attributes
        self.workflow_id = initiated.workflow_id
        self.workflow_type = initiated.workflow_type.name
        self.input = list(initiated.input.payloads)
        self.memo = dict(initiated.memo.fields)
        self.search_attributes = initiated.search_attributes


def _as_command(scheduled: Any) -> Any:
    return _ScheduledActivity(scheduled)
