"""A worker process: its cache of runs, and the real activities with a cache of transcripts of its own."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.activity import Info
from temporalio.api.common.v1 import GrpcStatus, Payload
from temporalio.api.errordetails.v1 import QueryFailedFailure
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import CancelledError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

import wakeful.history.reader
import wakeful.loop.thread.continue_as_new as continue_as_new
from tests.simulation import workload
from tests.simulation.core import ActivationFailed, Core
from tests.simulation.execution import ActivityTask, Execution
from tests.simulation.instances import TASK_QUEUE
from tests.simulation.machines import Kind, LocalResult, Machine, Update
from tests.simulation.service import CONVERTER, Network, PendingQuery, SimulatedService, client_of
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.workload import REGISTRY
from wakeful.client.thread_reader import ThreadReader
from wakeful.connection import SEARCH_ATTRIBUTES
from wakeful.contract import names
from wakeful.contract.agents import HistoryBudget, ResolveInput
from wakeful.contract.archive import ArchiveInput, ExpireInput, WakeInput
from wakeful.contract.hooks import HooksInput
from wakeful.contract.inference import CompactInput, InferInput, RestoreInput
from wakeful.contract.mail import DeliverInput
from wakeful.contract.subagents import Ancestors
from wakeful.registry.registry import Registry
from wakeful_activities import (
    AncestorsActivity,
    ArchiveActivity,
    CompactActivity,
    DeliverActivity,
    HistoryCache,
    HooksActivity,
    InferActivity,
    ResolveActivity,
    RestoreActivity,
    ToolActivity,
)
from wakeful_activities.heartbeats import HeartbeatIntervals
from wakeful_activities.hooks.gates import Gates
from wakeful_activities.hooks.hook_run import Hooks
from wakeful_activities.other_workers import OtherWorkers, Patience
from wakeful_activities.sweep.orphans import OrphanSweep
from wakeful_activities.user_code import UserCode
from wakeful_workflows import A2aPush, AgentRun, ScheduledMessage, ThreadArchive, ToolTask

WORKFLOWS: dict[str, type] = {
    names.WORKFLOW: AgentRun,
    names.WORKFLOW_TOOL_TASK: ToolTask,
    names.WORKFLOW_ARCHIVE: ThreadArchive,
    names.WORKFLOW_SCHEDULED: ScheduledMessage,
    names.WORKFLOW_A2A_PUSH: A2aPush,
}


@dataclass(frozen=True)
class Settings:
    """How the workers are configured."""

    budget: HistoryBudget = HistoryBudget()
    search_attributes: tuple[str, ...] = tuple(sorted(SEARCH_ATTRIBUTES))
    max_cached_bytes: int = 2**20
    patience: timedelta = timedelta(minutes=2)
    """How long work waits for a worker that has what it needs."""


@contextmanager
def older_release() -> Iterator[None]:
    """Workflows run as in the release before: it neither writes nor reads the newest format of snapshots."""
    with patch.object(continue_as_new, "FORMAT", continue_as_new.FORMAT - 1):
        yield


@dataclass
class RunningActivity:
    """An attempt of an activity in a worker."""

    execution: Execution
    activity: ActivityTask
    environment: ActivityEnvironment
    task: "asyncio.Task[Any]"

    @property
    def has_ended(self) -> bool:
        return self.task.done()


@dataclass
class HandledTask:
    """A workflow task that a worker has handled and not reported yet."""

    execution: Execution
    core: Core
    commands: list[tuple[Kind, Machine]]
    queries: list[PendingQuery] = field(default_factory=list)


class SimulatedWorker:
    """One life of a worker process; a worker that was killed is followed by a new one."""

    def __init__(
        self,
        name: str,
        network: Network,
        loop: VirtualLoop,
        settings: Settings,
        *,
        registry: Registry = REGISTRY,
        strict: bool = True,
    ) -> None:
        self.name = name
        self.is_alive = True
        self._network = network
        self._server = network.server
        self._loop = loop
        self._strict = strict
        self.service = SimulatedService(network, name)
        client = client_of(self.service)
        history = wakeful.history.reader.HistoryReader(client)  # the simulated one
        reader = ThreadReader(client, history=history)
        cache = HistoryCache(client, max_bytes=settings.max_cached_bytes)
        user_code = UserCode()  # without threads: the virtual loop runs what it is given to execute at once
        hooks, gates = Hooks(registry, user_code), Gates(registry, user_code)
        others = OtherWorkers(registry, Patience(settings.patience, settings.patience), worker=name, client=client)
        inference = InferActivity(registry, cache, hooks, gates, {}, others=others)
        resolve = ResolveActivity(
            registry, cache, user_code, others, search_attributes=settings.search_attributes, budget=settings.budget
        )
        archive, deliver = ArchiveActivity(client, history), DeliverActivity(reader)
        self._client = client
        self._activities: dict[str, tuple[Callable[..., Any], Any]] = {
            names.ACTIVITY_RESOLVE_AGENT: (resolve.resolve_agent, ResolveInput),
            names.ACTIVITY_DESCRIBE_WORKER: (resolve.describe_worker, None),
            names.ACTIVITY_INFER: (inference.infer, InferInput),
            names.ACTIVITY_COMPACT: (CompactActivity(inference, cache).compact, CompactInput),
            names.ACTIVITY_RESTORE: (RestoreActivity(client, history).restore_thread, RestoreInput),
            names.ACTIVITY_ARCHIVE: (archive.archive_thread, ArchiveInput),
            names.ACTIVITY_CHECK_THREAD: (archive.check_archived_thread, str),
            names.ACTIVITY_EXPIRE: (archive.delete_expired_thread, ExpireInput),
            names.ACTIVITY_DELIVER: (deliver.deliver_message, DeliverInput),
            names.ACTIVITY_WAKE: (deliver.wake_thread, WakeInput),
            names.ACTIVITY_FIND_STOPPING: (AncestorsActivity(client).find_stopping_ancestor, Ancestors),
            names.ACTIVITY_HOOKS: (HooksActivity(cache, hooks, HeartbeatIntervals(), others).run_hooks, HooksInput),
        }
        self._call_tool = ToolActivity(registry, cache, hooks, gates, user_code, others=others).call_tool
        self._sweep = OrphanSweep(reader, TASK_QUEUE, grace=timedelta(0), now=self._now)
        self.release: Callable[[], AbstractContextManager[None]] = nullcontext
        """The release of its workflows; its activities are of the newest."""
        self.local_activities: frozenset[str] | None = None
        """The local activities that it has; None means every one."""
        self.sweeping: asyncio.Task[None] | None = None
        self.runs: dict[str, Core] = {}
        self.running: dict[tuple[str, int], RunningActivity] = {}
        self.handled: dict[str, HandledTask] = {}

    # -- workflow tasks and queries --------------------------------------------------------------------------------

    def take_task(self, execution: Execution) -> None:
        """Poll the workflow task and handle it. Raises `ActivationFailed` if the workflow fails it."""
        history = execution.start_task(self.name)
        core = self._core(execution)
        last = history[-1].event_id
        updates = [Update(request.meta.update_id, request, last - 1) for request in execution.updates]
        with self.release():
            core.handle(history, previous_started=execution.previous_started, updates=updates)
        commands = core.queue.to_send()
        queries = [query for query in self._network.queries if query.with_task and query.execution is execution]
        self.handled[execution.run_id] = HandledTask(execution, core, commands, queries)

    def report_task(self, execution: Execution) -> None:
        handled = self.handled.pop(execution.run_id)
        if execution.task is None or execution.task.worker != self.name:
            self.evict(execution)  # it was terminated meanwhile
            return
        updates = handled.core.updates.values()
        is_speculative = execution.task is not None and execution.task.unwritten
        self._answer_along(handled)
        rejected = sum(update.is_rejected for update in updates)
        before = len(execution.history)
        is_accepted = self._server.complete_task(
            execution, handled.commands, flags=handled.core.used_flags, rejected=rejected
        )
        if is_speculative and execution.is_open and len(execution.history) == before and execution.task is None:
            handled.core.forget_speculative_task()
        if not is_accepted or not execution.is_open:
            self.evict(execution)

    def _answer_along(self, handled: HandledTask) -> None:
        for query in handled.queries:
            if query in self._network.queries:
                self._network.queries.remove(query)
                self._answer(handled.core, query)

    def answer(self, query: PendingQuery) -> None:
        """Answer a query that matching has handed to this worker."""
        execution = query.execution
        core = self.runs.get(execution.run_id)
        # A worker whose run is behind is sent the whole history with the query, and core applies what is new to it.
        if core is None or core.instance is None or core.is_behind(execution.previous_started):
            core = self._core(execution, is_query=True)
            try:
                with self.release():
                    core.handle(list(execution.history), previous_started=execution.previous_started)
            except ActivationFailed as error:
                self._fail_query(query, str(error))
                self.evict(execution)
                return
            finally:
                core.run_local = partial(self._run_local, execution)
        self._answer(core, query)
        if not execution.is_open:
            self.evict(execution)

    def _answer(self, core: Core, query: PendingQuery) -> None:
        try:
            payload = core.query(query.name, *query.args)
        except ActivationFailed as error:
            self._fail_query(query, str(error))
        else:
            if not query.answer.done():
                query.answer.set_result(payload)

    def _fail_query(self, query: PendingQuery, reason: str) -> None:
        if not query.answer.done():
            query.answer.set_exception(query_failed(reason))

    def _core(self, execution: Execution, *, is_query: bool = False) -> Core:
        """The run from the cache; a stale one is evicted."""
        core = self.runs.get(execution.run_id)
        if core is not None and core.instance is not None and core.last_started == execution.previous_started:
            return core
        self.evict(execution)
        core = Core(
            execution.workflow_id,
            execution.run_id,
            WORKFLOWS,
            CONVERTER,
            strict=self._strict,
            run_local=None if is_query else partial(self._run_local, execution),
            local_activities=self.local_activities,
        )
        self.runs[execution.run_id] = core
        return core

    def evict(self, execution: Execution) -> None:
        if (core := self.runs.pop(execution.run_id, None)) is not None:
            core.evict()

    # -- activities ------------------------------------------------------------------------------------------------

    def take_activity(self, execution: Execution, activity: ActivityTask) -> None:
        activity.worker = self.name
        command = activity.command

        def heartbeat(*details: Any) -> None:
            if self.is_alive and activity.worker == self.name:
                activity.heartbeat = CONVERTER.payload_converter.to_payloads(details)

        environment = self._environment(execution, command, activity.attempt, is_local=False)
        due = datetime.fromtimestamp(activity.not_before / 1000, UTC)
        environment.info = dataclasses.replace(
            environment.info,
            heartbeat_details=CONVERTER.payload_converter.from_payloads(activity.heartbeat),
            current_attempt_scheduled_time=due if activity.not_before else environment.info.started_time,
        )
        environment.on_heartbeat = heartbeat
        task = self._loop.create_task(self._run(environment, command))
        self.running[execution.run_id, activity.scheduled_id] = RunningActivity(execution, activity, environment, task)

    def report_activity(self, running: RunningActivity) -> None:
        execution, activity = running.execution, running.activity
        del self.running[execution.run_id, activity.scheduled_id]
        if activity.worker != self.name or activity.scheduled_id not in execution.activities:
            retrieve(running.task)
            return  # the server has given it to another worker, or has ended it
        retrieve(running.task)
        if running.task.cancelled():
            self._server.cancel_activity(execution, activity)
        elif (error := running.task.exception()) is None:
            self._server.complete_activity(execution, activity, running.task.result())
        elif isinstance(error, CancelledError) and activity.is_cancelled:
            self._server.cancel_activity(execution, activity)
        else:
            self._server.fail_activity(execution, activity, failure_of(error))

    def _run_local(self, execution: Execution, command: Any) -> LocalResult:
        """Execute a local activity while its workflow task is under way."""
        environment = self._environment(execution, command, 1, is_local=True)
        task = self._loop.create_task(self._run(environment, command))
        is_slow, self._network.is_slow = self._network.is_slow, False
        self._loop.run_until_idle()
        self._network.is_slow = is_slow
        at = Timestamp()
        at.FromMilliseconds(self._server.tick())
        if not task.done():
            raise AssertionError(f"the local activity {command.activity_type} waits for something")
        error = task.exception()
        if error is not None:
            return LocalResult(None, failure_of(error), at)
        return LocalResult(task.result(), None, at)

    async def _run(self, environment: ActivityEnvironment, command: Any) -> Payload | None:
        if command.activity_type in self._activities:
            function, kind = self._activities[command.activity_type]
            if kind is None:
                return await _as_payload(environment.run(function))
            argument = CONVERTER.payload_converter.from_payloads(list(command.arguments), [kind])[0]
            if isinstance(argument, InferInput):
                asked = (str(environment.info.workflow_id), command.activity_id)
                workload.outside.transcripts[asked] = argument.transcript
                workload.outside.resets[str(environment.info.workflow_id)] = self._resets(environment.info)
        else:
            function, argument = self._call_tool, [RawValue(command.arguments[0])]
        return await _as_payload(environment.run(function, argument))

    def _resets(self, info: Info) -> int:
        execution = self._server.find(str(info.workflow_id), str(info.workflow_run_id))
        return execution.resets if execution is not None else 0

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._server.now / 1000, UTC)

    def _environment(self, execution: Execution, command: Any, attempt: int, *, is_local: bool) -> ActivityEnvironment:
        environment = ActivityEnvironment(self._client)
        environment.payload_converter = CONVERTER.payload_converter
        now = self._now()
        info: Info = dataclasses.replace(
            environment.info,
            activity_id=command.activity_id,
            activity_type=command.activity_type,
            attempt=attempt,
            is_local=is_local,
            scheduled_time=now,
            started_time=now,
            retry_policy=RetryPolicy.from_proto(command.retry_policy),
            task_queue=TASK_QUEUE,
            workflow_id=execution.workflow_id,
            workflow_run_id=execution.run_id,
            workflow_type=execution.workflow_type,
        )
        environment.info = info
        return environment

    # -- life ------------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        if self.sweeping is None or self.sweeping.done():
            if self.sweeping is not None:
                retrieve(self.sweeping)
            self.sweeping = self._loop.create_task(self._sweep.sweep())

    @property
    def is_idle(self) -> bool:
        """No sweep is under way."""
        return self.sweeping is None or self.sweeping.done()

    def kill(self) -> None:
        """The process is gone: what it had not reported is lost."""
        self.is_alive = False
        self.service.is_cut = True
        for core in self.runs.values():
            core.evict()
        self.runs.clear()
        self.handled.clear()
        tasks = [running.task for running in self.running.values()]
        for task in (*tasks, *([self.sweeping] if self.sweeping else [])):
            task.cancel()
        self.running.clear()


def query_failed(reason: str) -> RPCError:
    detail = AnyMessage()
    detail.Pack(QueryFailedFailure())
    status = GrpcStatus(code=RPCStatusCode.INVALID_ARGUMENT.value, message=reason, details=[detail])
    return RPCError(reason, RPCStatusCode.INVALID_ARGUMENT, status.SerializeToString())


def failure_of(error: BaseException) -> Failure:
    failure = Failure()
    assert isinstance(error, Exception)
    CONVERTER.failure_converter.to_failure(error, CONVERTER.payload_converter, failure)
    return failure


def retrieve(task: "asyncio.Task[Any]") -> None:
    """Retrieve the result of a task that no other task awaits: an error of the simulation itself must not be lost."""
    if not task.cancelled() and isinstance(error := task.exception(), NotImplementedError | AssertionError):
        raise error


async def _as_payload(result: Awaitable[Any]) -> Payload:
    return CONVERTER.payload_converter.to_payloads([await result])[0]
