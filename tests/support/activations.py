"""What each activation of a workflow takes, measured on a real worker: CPU seconds, and the bytes that it brings."""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.client import Client
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.plugin import SimplePlugin
from temporalio.worker import WorkerConfig, WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.workflow import Info


class Activation(NamedTuple):
    """One activation of a workflow."""

    seconds: float
    bytes: int
    """That it brings. One that replays brings what earlier ones had brought, too."""
    is_replaying: bool
    jobs: int


class ActivationMeter(SimplePlugin):
    """Measures the activations of workers that are made with its client."""

    def __init__(self) -> None:
        super().__init__("activation-meter")
        self.activations: list[Activation] = []

    def client(self, client: Client) -> Client:
        """The same client, for a worker that is measured."""
        config = client.config()
        config["plugins"] = [*config["plugins"], self]
        return Client(**config)

    @property
    def longest(self) -> Activation:
        return max(self.activations)

    def configure_worker(self, config: WorkerConfig) -> WorkerConfig:
        changed = super().configure_worker(config)
        changed["unsandboxed_workflow_runner"] = _Runner(changed["unsandboxed_workflow_runner"], self.activations)
        return changed


class _Runner(WorkflowRunner):
    def __init__(self, runner: WorkflowRunner, activations: list[Activation]) -> None:
        self._runner = runner
        self._activations = activations

    def prepare_workflow(self, defn: Any) -> None:
        self._runner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._runner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Measured(self._runner.create_instance(det), self._activations)


class _Measured(WorkflowInstance):
    def __init__(self, instance: WorkflowInstance, activations: list[Activation]) -> None:
        self._instance = instance
        self._activations = activations

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        size, jobs, began = act.ByteSize(), len(act.jobs), time.thread_time()
        try:
            return self._instance.activate(act)
        finally:
            self._activations.append(Activation(time.thread_time() - began, size, act.is_replaying, jobs))

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return self._instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return self._instance.get_external_store_context(command_info)

    def get_info(self) -> Info:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()
