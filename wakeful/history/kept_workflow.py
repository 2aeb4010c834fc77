"""A workflow that stays in memory after its replay, to be queried.

The SDK's replayer creates a workflow through a `WorkflowRunner`, sends it the activations that history leads to, and
evicts it. `Keeper` creates it as a worker does, and keeps it: a query is one more activation.
"""

import threading
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.bridge.proto.workflow_activation import (
    QueryWorkflow,
    RemoveFromCache,
    WorkflowActivation,
    WorkflowActivationJob,
)
from temporalio.bridge.proto.workflow_commands import QueryResult
from temporalio.bridge.proto.workflow_completion import Success, WorkflowActivationCompletion
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import UnsandboxedWorkflowRunner, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.workflow import Info

from wakeful.contract.errors import InternalError


class KeptWorkflow(WorkflowInstance):
    """One workflow: the replayer activates it, and it outlives its eviction until `drop`.

    Query and drop it in a thread that runs no event loop: the SDK replaces the thread's loop while it is active.
    """

    def __init__(self, instance: WorkflowInstance, keeper: "Keeper") -> None:
        self._instance: WorkflowInstance | None = instance
        self._keeper = keeper
        self._last = WorkflowActivation()
        self._lock = threading.Lock()

    @property
    def reached(self) -> int:
        """The event that its last activation went up to."""
        return self._last.history_length

    @property
    def is_dropped(self) -> bool:
        return self._instance is None

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if any(job.HasField("remove_from_cache") for job in act.jobs):
            if self._keeper.has_abandoned:
                self.drop()
            return WorkflowActivationCompletion(successful=Success())
        self._last = _without_jobs(act)
        return self._activate(act)

    def query(self, name: str, arguments: list[Payload]) -> QueryResult:
        """What it answers to a query. Payloads are those of the converter: no codec has encoded them."""
        act = _without_jobs(self._last)
        query = QueryWorkflow(query_id=name, query_type=name, arguments=arguments)
        act.jobs.append(WorkflowActivationJob(query_workflow=query))
        completion = self._activate(act)
        if completion.HasField("failed"):
            raise InternalError(
                f"the query {name!r} of a replayed workflow failed: {completion.failed.failure.message}"
            )
        return completion.successful.commands[0].respond_to_query

    def drop(self) -> None:
        """Evict it, so that its tasks end here and not in some thread that collects garbage."""
        act = _without_jobs(self._last)
        act.jobs.append(WorkflowActivationJob(remove_from_cache=RemoveFromCache()))
        with self._lock:
            if self._instance is not None:
                self._instance.activate(act)
                self._instance = None

    def _activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        with self._lock:
            return self._kept.activate(act)

    @property
    def _kept(self) -> WorkflowInstance:
        if self._instance is None:
            raise InternalError("a workflow was activated after it was dropped")
        return self._instance

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return self._kept.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return self._kept.get_external_store_context(command_info)

    def get_info(self) -> Info:
        return self._kept.get_info()

    def get_thread_id(self) -> int | None:
        """Unknown: the SDK would raise an exception in a thread whose activation is slow, in the middle of anything."""
        return None


def _without_jobs(act: WorkflowActivation) -> WorkflowActivation:
    """The same moment of the workflow, with nothing to do."""
    return WorkflowActivation(
        run_id=act.run_id,
        timestamp=act.timestamp,
        is_replaying=True,
        history_length=act.history_length,
        history_size_bytes=act.history_size_bytes,
        continue_as_new_suggested=act.continue_as_new_suggested,
        available_internal_flags=act.available_internal_flags,
    )


class Keeper(WorkflowRunner):
    """Creates the workflow of a replay, and keeps that of the last one in `workflow`."""

    def __init__(self) -> None:
        self._runner = UnsandboxedWorkflowRunner()
        self.has_abandoned = False
        """The reader does not wait for the replay any more: when it ends, the workflow is evicted after all."""
        self.workflow: KeptWorkflow | None = None
        self._replaced: list[KeptWorkflow] = []

    def prepare_workflow(self, defn: Any) -> None:
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        if self.workflow is not None:
            self._replaced.append(self.workflow)
        self.workflow = KeptWorkflow(self._runner.create_instance(det), self)
        return self.workflow

    def drop_replaced(self) -> None:
        """Evict the workflows of earlier replays, in a thread that runs no event loop."""
        while self._replaced:
            self._replaced.pop().drop()
