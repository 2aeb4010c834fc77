"""A model of the SDK's core for one run: a history in, activations of the real workflow instance, commands out.

It does what a worker does with a workflow task: chunk after chunk of history becomes one activation each, and the
commands that the workflow issues are compared with the events that the next chunk has for them. The names follow the
SDK's core. The real core judges it: `judge` replays simulated histories with the SDK's Replayer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.bridge.proto.child_workflow import StartChildWorkflowExecutionFailedCause
from temporalio.bridge.proto.workflow_activation import WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import WorkflowCommand
from temporalio.converter import DataConverter
from temporalio.worker._workflow_instance import WorkflowInstance

from tests.simulation.chunking import (
    COMMAND_EVENTS,
    EXECUTION_STARTED,
    FINAL_EVENTS,
    TASK_COMPLETED,
    TASK_STARTED,
    UPDATE_ACCEPTED,
    chunk_end,
)
from tests.simulation.instances import activate, new_instance
from tests.simulation.machines import (
    ABANDON,
    ACTIVITY_ENDS,
    CANCELS,
    CHILD_ENDS,
    LOCAL_MARKER,
    WAIT_CANCELLATION_COMPLETED,
    Kind,
    LocalResult,
    Machine,
    Nondeterminism,
    Queue,
    Update,
    activity_cancelled_job,
    activity_end_job,
    check_command,
    child_end_job,
    local_cancel,
    local_end_job,
    named,
    read_marker,
)
from tests.simulation.seeds import random_seed

JOB_ORDER = {
    "initialize_workflow": 0,
    "notify_has_patch": 1,
    "update_random_seed": 2,
    "signal_workflow": 3,
    "do_update": 3,
    "query_workflow": 6,
    "remove_from_cache": 7,
}
OTHER_JOBS, LOCAL_ACTIVITY_JOBS = 4, 5

ALREADY_EXISTS = (
    StartChildWorkflowExecutionFailedCause.START_CHILD_WORKFLOW_EXECUTION_FAILED_CAUSE_WORKFLOW_ALREADY_EXISTS
)

_TERMINAL_COMMANDS = {
    "complete_workflow_execution": Kind.COMPLETE,
    "fail_workflow_execution": Kind.FAIL,
    "cancel_workflow_execution": Kind.CANCEL,
    "continue_as_new_workflow_execution": Kind.CONTINUE_AS_NEW,
}

RunLocal = Callable[[Any], LocalResult]
"""Executes a local activity."""


class ActivationFailed(Exception):
    """The workflow code failed an activation: core fails the workflow task and evicts the run."""


@dataclass(frozen=True)
class Activated:
    """One activation, for traces and coverage."""

    time_ms: int
    history_length: int
    jobs: tuple[str, ...]
    is_replaying: bool


class Core:
    """One run in the cache of one worker."""

    activated: ClassVar[int] = 0
    """How often workflows were activated in this process."""

    def __init__(
        self,
        workflow_id: str,
        run_id: str,
        workflows: Mapping[str, type],
        converter: DataConverter,
        *,
        strict: bool = False,
        run_local: RunLocal | None = None,
        local_activities: frozenset[str] | None = None,
        observe: Callable[["Core"], None] | None = None,
    ) -> None:
        self._observe = observe
        self.workflow_id = workflow_id
        self.run_id = run_id
        self._workflows = workflows
        self._converter = converter
        self._strict = strict
        self.run_local = run_local
        self._local_activities = local_activities
        self.instance: WorkflowInstance | None = None
        self.queue = Queue()
        self.updates: dict[str, Update] = {}
        self.used_flags: set[int] = set()
        """The SDK's own flags that the workflow has relied on; each is recorded with the task that used it first."""
        self.activations: list[Activated] = []
        self.is_replaying = False
        self._history: Sequence[HistoryEvent] = ()
        self._taken = 0
        """The index after the events that chunks have taken."""
        self._last_processed = 0
        self._current_started = 0
        self._next_started = 0
        self._previous_started = 0
        self._time: Timestamp | None = None
        self._size = 0
        self._is_suggested = False
        self._jobs: list[WorkflowActivationJob] = []
        self._deferred: list[tuple[int, WorkflowActivationJob, Timestamp]] = []
        """Ends of local activities that belong to later activations of the task."""
        self._by_event: dict[int, Machine] = {}
        self._by_seq: dict[tuple[Kind, int], Machine] = {}
        self._messages: list[Update] = []
        self._pre_resolved: dict[int, LocalResult] = {}
        self._local_queue: list[Machine] = []
        self._flags: list[int] = []
        self._is_final = False
        self._task_activations = 0

    # -- workflow tasks and queries --------------------------------------------------------------------------------

    def handle(self, history: Sequence[HistoryEvent], *, previous_started: int, updates: Sequence[Update] = ()) -> None:
        """Take up a workflow task, or the history of a query: activate the workflow until it has nothing left to do."""
        self._taken = self._current_started
        self._messages = list(updates)
        self._history = history
        self._previous_started = previous_started
        self.is_replaying = previous_started > 0
        self._apply_chunk()
        self._catch_up()

    def query(self, name: str, *args: Any) -> Payload:
        """The answer of the workflow as it is. Raises `ActivationFailed` if the query fails."""
        job = WorkflowActivationJob()
        job.query_workflow.query_id, job.query_workflow.query_type = "query", name
        job.query_workflow.arguments.extend(self._converter.payload_converter.to_payloads(list(args)))
        (answer,) = self._activate([job])
        if answer.respond_to_query.HasField("failed"):
            raise ActivationFailed(answer.respond_to_query.failed.message)
        return answer.respond_to_query.succeeded.response

    def evict(self) -> None:
        if self.instance is None:
            return
        job = WorkflowActivationJob()
        job.remove_from_cache.SetInParent()
        activation = WorkflowActivation(run_id=self.run_id)
        activation.timestamp.CopyFrom(self._now())
        activation.jobs.append(job)
        activate(self.instance, activation)
        self.instance = None

    def forget_speculative_task(self) -> None:
        """The server has dropped the task whose events this core was shown."""
        self._current_started = self._previous_started
        self._last_processed -= 2
        self._taken = self._current_started

    @property
    def workflow(self) -> Any:
        """The instance of the workflow class; None before the first activation."""
        return getattr(self.instance, "_object", None)

    @property
    def last_started(self) -> int:
        """The newest workflow task that this core was shown."""
        return self._current_started

    def is_behind(self, started: int) -> bool:
        """Whether it lacks this workflow task; the last ones of a replayed history may have been one chunk."""
        return self._last_processed < started

    # -- history to jobs -------------------------------------------------------------------------------------------

    def _apply_chunk(self) -> int:
        """Apply the next chunk of history; the number of its events."""
        if self._is_final:
            self.is_replaying = False
            return 0
        history, last_handled = self._history, self._current_started
        start = max(self._taken, self._current_started)
        end = chunk_end(history, start, last_handled) + 1 if start < len(history) else start
        chunk = [event for event in history[start:end] if event.event_id > self._last_processed]
        self._taken = end
        self._read_flags(history, start, end)
        if not chunk:
            self.is_replaying = False
        elif chunk[-1].event_type == TASK_STARTED:
            self._next_started = chunk[-1].event_id
        for event in chunk:
            if self.is_replaying and end >= len(history) and self._is_beyond_replay(event):
                self.is_replaying = False
            self._deliver_updates(before=event.event_id)
            self._apply(event)
            self._last_processed = event.event_id
        self._look_ahead(last_handled)
        if chunk:
            self._task_activations = 0
        return len(chunk)

    def _is_beyond_replay(self, event: HistoryEvent) -> bool:
        is_replayed = event.event_type == TASK_COMPLETED or event.event_type in COMMAND_EVENTS
        return event.event_id > self._previous_started and not is_replayed

    def _read_flags(self, history: Sequence[HistoryEvent], start: int, end: int) -> None:
        """The flags that the chunk's own task, or the task that completes it, has recorded."""
        completed = [event for event in history[start:end] if event.event_type == TASK_COMPLETED]
        following = (event for event in history[end:] if event.event_type == TASK_COMPLETED)
        for event in (*completed, *([first] if (first := next(following, None)) is not None else [])):
            for flag in event.workflow_task_completed_event_attributes.sdk_metadata.lang_used_flags:
                self.used_flags.discard(flag)
                if flag not in self._flags:
                    self._flags.append(flag)

    def _deliver_updates(self, *, before: int) -> None:
        ready = [update for update in self._messages if update.sequencing_id <= before - 1]
        self._messages = [update for update in self._messages if update.sequencing_id > before - 1]
        for update in ready:
            self._add_update(update)

    def _add_update(self, update: Update) -> None:
        self.updates[update.protocol_id] = update
        job = WorkflowActivationJob()
        job.do_update.id = update.request.meta.update_id
        job.do_update.protocol_instance_id = update.protocol_id
        job.do_update.name = update.request.input.name
        job.do_update.input.extend(update.request.input.args.payloads)
        job.do_update.run_validator = not self.is_replaying
        self._jobs.append(job)

    def _look_ahead(self, last_handled: int) -> None:
        """In the next chunk's events: updates that this activation accepts, and ends of local activities."""
        if self._taken >= len(self._history):
            return
        end = chunk_end(self._history, self._taken, last_handled)
        ended: list[tuple[Machine, int, LocalResult]] = []
        for event in self._history[self._taken : end + 1]:
            if event.event_type == UPDATE_ACCEPTED:
                accepted = event.workflow_execution_update_accepted_event_attributes
                sequencing = accepted.accepted_request_sequencing_event_id
                self._add_update(Update(accepted.protocol_instance_id, accepted.accepted_request, sequencing))
            elif _is_local_marker(event):
                seq, result = read_marker(event)
                machine = self._by_seq.get((Kind.LOCAL_ACTIVITY, seq))
                if machine is None:
                    self._pre_resolved[seq] = result
                else:
                    ended.append((machine, seq, result))
        for machine, seq, result in ended:
            if machine.awaits_marker:
                self._resolve_from_marker(machine, result)
            else:
                self._pre_resolved[seq] = result

    def _apply(self, event: HistoryEvent) -> None:
        kind = event.event_type
        self._is_final |= kind in FINAL_EVENTS
        if kind in COMMAND_EVENTS:
            self._apply_command_event(event)
        elif kind == TASK_STARTED:
            self._apply_task_started(event)
        elif kind in ACTIVITY_ENDS:
            machine = self._initiated_by(event, _attributes(event).scheduled_event_id)
            if not machine.is_done:
                machine.is_done = True
                self._jobs.append(activity_end_job(machine, event))
        elif kind in CHILD_ENDS:
            machine = self._initiated_by(event, _attributes(event).initiated_event_id)
            self._jobs.append(child_end_job(machine, event))
        elif (job := self._job_of(event)) is not None:
            self._jobs.append(job)

    def _apply_task_started(self, event: HistoryEvent) -> None:
        started = event.workflow_task_started_event_attributes
        self._size, self._is_suggested = started.history_size_bytes, started.suggest_continue_as_new
        if event.event_id < self._next_started:
            return
        self._current_started = self._next_started
        self._set_time(event.event_time)
        if self.is_replaying:
            return
        for (kind, _), machine in self._by_seq.items():
            if kind is Kind.LOCAL_ACTIVITY and machine.awaits_marker:
                machine.awaits_marker = False
                self._local_queue.append(machine)

    def _job_of(self, event: HistoryEvent) -> WorkflowActivationJob | None:
        job = WorkflowActivationJob()
        match event.event_type:
            case t if t == EXECUTION_STARTED:
                self._set_time(event.event_time)
                _initialize(job, event, self.workflow_id)
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                received = event.workflow_execution_signaled_event_attributes
                job.signal_workflow.signal_name = received.signal_name
                job.signal_workflow.originating_event_id = event.event_id
                job.signal_workflow.input.extend(received.input.payloads)
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
                job.cancel_workflow.reason = event.workflow_execution_cancel_requested_event_attributes.cause
                job.cancel_workflow.SetInParent()
            case EventType.EVENT_TYPE_TIMER_FIRED:
                machine = self._initiated_by(event, event.timer_fired_event_attributes.started_event_id)
                machine.is_done = True
                job.fire_timer.seq = machine.seq
            case EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
                child = event.child_workflow_execution_started_event_attributes
                started = job.resolve_child_workflow_execution_start
                machine = self._initiated_by(event, child.initiated_event_id)
                machine.started_id = event.event_id
                started.seq = machine.seq
                started.succeeded.run_id = child.workflow_execution.run_id
            case EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED:
                refused = event.start_child_workflow_execution_failed_event_attributes
                started = job.resolve_child_workflow_execution_start
                started.seq = self._initiated_by(event, refused.initiated_event_id).seq
                started.failed.workflow_id, started.failed.workflow_type = (
                    refused.workflow_id,
                    refused.workflow_type.name,
                )
                started.failed.cause = ALREADY_EXISTS
            case EventType.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED:
                sent = event.external_workflow_execution_signaled_event_attributes
                job.resolve_signal_external_workflow.seq = self._initiated_by(event, sent.initiated_event_id).seq
            case EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED:
                unsent = event.signal_external_workflow_execution_failed_event_attributes
                resolved = job.resolve_signal_external_workflow
                resolved.seq = self._initiated_by(event, unsent.initiated_event_id).seq
                resolved.failure.message = "Unable to signal external workflow because it was not found"
                resolved.failure.application_failure_info.type = "ExternalWorkflowExecutionNotFound"
                resolved.cause = unsent.cause
            case EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                failed = event.workflow_task_failed_event_attributes
                reset = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
                if failed.cause != reset or not failed.new_run_id:
                    return None
                job.update_random_seed.randomness_seed = random_seed(failed.new_run_id)
            case _:
                return None
        return job

    def _initiated_by(self, event: HistoryEvent, event_id: int) -> Machine:
        if (machine := self._by_event.get(event_id)) is None:
            raise Nondeterminism(f"{named(event)} refers to event {event_id}, for which there is no command")
        return machine

    def _apply_command_event(self, event: HistoryEvent) -> None:
        if _is_local_marker(event):
            seq, _ = read_marker(event)
            machine = self._by_seq.get((Kind.LOCAL_ACTIVITY, seq))
            if machine is None:
                raise Nondeterminism(f"{named(event)} records a local activity that the workflow did not start")
            if machine.has_result or machine.awaits_marker:
                machine.has_result = machine.awaits_marker = False
                machine.is_done = True
                return
        kind, machine = self.queue.pop_for(event)
        check_command(kind, machine, event, strict=self._strict)
        if kind not in CANCELS and machine.update is None:
            machine.event_id = event.event_id
            self._by_event[event.event_id] = machine
        machine.is_done |= kind is Kind.LOCAL_ACTIVITY

    def _set_time(self, time: Timestamp) -> None:
        if self._time is None or self._time.ToNanoseconds() < time.ToNanoseconds():
            self._time = time

    def _now(self) -> Timestamp:
        return self._time if self._time is not None else Timestamp()

    # -- activations -----------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        while True:
            while self._jobs or self._deferred:
                jobs = self._next_jobs()
                for command in self._activate(jobs):
                    raise AssertionError(f"an answer without a query: {command}")
                if not self._jobs and not self._deferred:
                    self._apply_until_jobs()
            if not self._local_queue or self.is_replaying or self.run_local is None:
                return
            self._execute_local(self._local_queue.pop(0), self.run_local)

    def _next_jobs(self) -> list[WorkflowActivationJob]:
        if not self._jobs:
            first = min(index for index, _, _ in self._deferred)
            for index, job, at in self._deferred:
                if index == first:
                    self._jobs.append(job)
                    self._set_time(at)
            self._deferred = [entry for entry in self._deferred if entry[0] != first]
        jobs, self._jobs = self._jobs, []
        return jobs

    def _apply_until_jobs(self) -> None:
        while self._apply_chunk() and self.is_replaying and not self._jobs and not self._deferred:
            pass

    def _execute_local(self, machine: Machine, run_local: RunLocal) -> None:
        self._end_local(machine, run_local(machine.command))

    def _end_local(self, machine: Machine, ended: LocalResult) -> None:
        machine.local = LocalResult(ended.result, ended.failure, ended.completed_at, self._task_activations)
        self.queue.add(Kind.LOCAL_ACTIVITY, machine)
        self._set_time(ended.completed_at)
        self._jobs.append(local_end_job(machine, ended))

    def _resolve_from_marker(self, machine: Machine, ended: LocalResult) -> None:
        machine.awaits_marker, machine.has_result = False, True
        job = local_end_job(machine, ended)
        if ended.activation is None:
            self._jobs.append(job)
        else:
            self._deferred.append((ended.activation, job, ended.completed_at))

    def _activate(self, jobs: Sequence[WorkflowActivationJob]) -> list[WorkflowCommand]:
        """Activate the workflow, and take its commands; the answers to queries are returned."""
        activation = self._activation(jobs)
        if self.instance is None:
            init = activation.jobs[0].initialize_workflow
            workflow = self._workflows[init.workflow_type]
            self.instance = new_instance(
                workflow, activation, init, self._converter, local_activities=self._local_activities
            )
        self._task_activations += 1
        kinds = tuple(str(job.WhichOneof("variant")) for job in activation.jobs)
        self.activations.append(
            Activated(self._now().ToMilliseconds(), self._last_processed, kinds, activation.is_replaying)
        )
        Core.activated += 1
        completion = activate(self.instance, activation)
        if completion.HasField("failed"):
            raise ActivationFailed(completion.failed.failure.message)
        self.used_flags |= set(completion.successful.used_internal_flags)
        if self._observe is not None:
            self._observe(self)
        return self._take_commands(completion.successful.commands)

    def _activation(self, jobs: Sequence[WorkflowActivationJob]) -> WorkflowActivation:
        is_query = all(job.WhichOneof("variant") == "query_workflow" for job in jobs)
        activation = WorkflowActivation(
            run_id=self.run_id,
            is_replaying=self.is_replaying or is_query,
            history_length=self._last_processed,
            history_size_bytes=self._size,
            continue_as_new_suggested=self._is_suggested,
        )
        activation.timestamp.CopyFrom(self._now())
        activation.available_internal_flags.extend(self._flags)
        activation.jobs.extend(sorted(jobs, key=_job_order))
        return activation

    # -- commands --------------------------------------------------------------------------------------------------

    def _take_commands(self, commands: Sequence[WorkflowCommand]) -> list[WorkflowCommand]:
        """Terminal commands come last, and only the first of them counts."""
        answers = [command for command in commands if command.HasField("respond_to_query")]
        others = [command for command in commands if not command.HasField("respond_to_query")]
        terminal = [command for command in others if command.WhichOneof("variant") in _TERMINAL_COMMANDS]
        for command in others:
            if command not in terminal:
                self._take(command)
        for command in terminal[:1]:
            variant = str(command.WhichOneof("variant"))
            kind = _TERMINAL_COMMANDS[variant]
            self.queue.add(kind, Machine(kind, getattr(command, variant)))
        return answers

    def _take(self, command: WorkflowCommand) -> None:
        match command.WhichOneof("variant"):
            case "schedule_activity":
                self._add(Kind.ACTIVITY, command.schedule_activity)
            case "start_timer":
                self._add(Kind.TIMER, command.start_timer)
            case "start_child_workflow_execution":
                self._add(Kind.CHILD, command.start_child_workflow_execution)
            case "signal_external_workflow_execution":
                self._add(Kind.SIGNAL, command.signal_external_workflow_execution)
            case "upsert_workflow_search_attributes":
                upsert = command.upsert_workflow_search_attributes
                self.queue.add(Kind.SEARCH_ATTRIBUTES, Machine(Kind.SEARCH_ATTRIBUTES, upsert))
            case "modify_workflow_properties":
                self.queue.add(Kind.MEMO, Machine(Kind.MEMO, command.modify_workflow_properties))
            case "cancel_timer":
                self._cancel_timer(self._by_seq[Kind.TIMER, command.cancel_timer.seq])
            case "request_cancel_activity":
                self._cancel_activity(self._by_seq[Kind.ACTIVITY, command.request_cancel_activity.seq])
            case "schedule_local_activity":
                self._add_local(command.schedule_local_activity)
            case "request_cancel_local_activity":
                self._cancel_local(self._by_seq[Kind.LOCAL_ACTIVITY, command.request_cancel_local_activity.seq])
            case "update_response":
                self._answer_update(command.update_response)
            case other:
                raise NotImplementedError(f"the model of core does not know the command {other}")

    def _add(self, kind: Kind, command: Any) -> None:
        machine = self._by_seq[kind, command.seq] = Machine(kind, command, command.seq)
        self.queue.add(kind, machine)

    def _add_local(self, command: Any) -> None:
        machine = self._by_seq[Kind.LOCAL_ACTIVITY, command.seq] = Machine(Kind.LOCAL_ACTIVITY, command, command.seq)
        ended = self._pre_resolved.pop(command.seq, None)
        if not self.is_replaying:
            if ended is not None:
                raise Nondeterminism(f"{machine.label} has a marker, but is started after the end of the replay")
            self._local_queue.append(machine)
        elif ended is None:
            machine.awaits_marker = True
        else:
            self._resolve_from_marker(machine, ended)

    def _cancel_timer(self, machine: Machine) -> None:
        if not machine.event_id:
            machine.is_dropped = True
        elif not machine.is_done:
            machine.is_done = True
            self.queue.add(Kind.CANCEL_TIMER, machine)

    def _cancel_activity(self, machine: Machine) -> None:
        if machine.is_done:
            return
        if not machine.event_id:
            machine.is_dropped = machine.is_done = True
            self._jobs.append(activity_cancelled_job(machine))
            return
        if machine.command.cancellation_type != ABANDON:
            self.queue.add(Kind.CANCEL_ACTIVITY, machine)
        if machine.command.cancellation_type != WAIT_CANCELLATION_COMPLETED:
            machine.is_done = True
            self._jobs.append(activity_cancelled_job(machine))

    def _cancel_local(self, machine: Machine) -> None:
        if machine in self._local_queue:
            self._local_queue.remove(machine)
            self._end_local(machine, local_cancel())

    def _answer_update(self, answer: Any) -> None:
        update = self.updates[answer.protocol_instance_id]
        response = answer.WhichOneof("response")
        if response == "accepted":
            update.is_accepted = True
            self.queue.add(Kind.ACCEPT_UPDATE, Machine(Kind.ACCEPT_UPDATE, answer, update=update))
        elif response == "completed" or update.is_accepted:
            self.queue.add(Kind.COMPLETE_UPDATE, Machine(Kind.COMPLETE_UPDATE, answer, update=update))
        else:
            update.is_rejected = True


def replayed(
    workflow_id: str,
    run_id: str,
    history: Sequence[HistoryEvent],
    workflows: Mapping[str, type],
    converter: DataConverter,
    *,
    strict: bool = False,
    local_activities: frozenset[str] | None = None,
    observe: Callable[[Core], None] | None = None,
) -> Core:
    """A run that a worker without it in its cache has replayed from its history."""
    core = Core(
        workflow_id, run_id, workflows, converter, strict=strict, local_activities=local_activities, observe=observe
    )
    core.handle(history, previous_started=last_completed_task(history))
    return core


def completed_part(history: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """The history up to the last completed workflow task, with its commands: what has surely been handled."""
    end = max(index for index, event in enumerate(history) if event.event_type == TASK_COMPLETED) + 1
    while end < len(history) and history[end].event_type in COMMAND_EVENTS:
        end += 1
    return list(history[:end])


def last_completed_task(history: Sequence[HistoryEvent]) -> int:
    """The id of the newest WorkflowTaskStarted whose task was completed; 0 if there is none."""
    for index in range(len(history) - 2, -1, -1):
        if history[index].event_type == TASK_STARTED and history[index + 1].event_type == TASK_COMPLETED:
            return history[index].event_id
    return 0


def _job_order(job: WorkflowActivationJob) -> int:
    variant = str(job.WhichOneof("variant"))
    if variant == "resolve_activity" and job.resolve_activity.is_local:
        return LOCAL_ACTIVITY_JOBS
    return JOB_ORDER.get(variant, OTHER_JOBS)


def _is_local_marker(event: HistoryEvent) -> bool:
    return (
        event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED
        and event.marker_recorded_event_attributes.marker_name == LOCAL_MARKER
    )


def _attributes(event: HistoryEvent) -> Any:
    return getattr(event, str(event.WhichOneof("attributes")))


def _initialize(job: WorkflowActivationJob, event: HistoryEvent, workflow_id: str) -> None:
    started, init = event.workflow_execution_started_event_attributes, job.initialize_workflow
    init.workflow_type, init.workflow_id = started.workflow_type.name, workflow_id
    init.arguments.extend(started.input.payloads)
    init.randomness_seed = random_seed(started.original_execution_run_id)
    for key, value in started.header.fields.items():
        init.headers[key].CopyFrom(value)
    if started.HasField("parent_workflow_execution"):
        init.parent_workflow_info.namespace = started.parent_workflow_namespace
        init.parent_workflow_info.run_id = started.parent_workflow_execution.run_id
        init.parent_workflow_info.workflow_id = started.parent_workflow_execution.workflow_id
    if started.HasField("root_workflow_execution"):
        init.root_workflow.CopyFrom(started.root_workflow_execution)
    init.workflow_task_timeout.CopyFrom(started.workflow_task_timeout)
    init.continued_from_execution_run_id = started.continued_execution_run_id
    init.first_execution_run_id = started.first_execution_run_id
    init.attempt = started.attempt
    init.memo.CopyFrom(started.memo)
    init.search_attributes.CopyFrom(started.search_attributes)
    init.start_time.CopyFrom(event.event_time)
