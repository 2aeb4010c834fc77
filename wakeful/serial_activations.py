"""Activate a workflow once at a time, each time to its end, also if that takes longer than the SDK allows.

When an activation takes more than two seconds, as it may on a busy machine, the SDK fails the workflow task, raises an
exception in the thread that works on it, and evicts the workflow without waiting for that thread: `asyncio.wait_for`
has cancelled the future that it waits for. Then two threads run the tasks of one event loop, and tasks are lost that
the eviction waits for. The thread gets no workflow task on this worker any more, and the worker cannot stop.
"""

import logging
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.workflow import Info

PATIENCE_SECONDS = 1.0
"""How long an eviction waits in its thread before the SDK tries it again: each try needs a thread of the pool."""

SLOW = "workflow task is slow"

_logger = logging.getLogger("wakeful")


class SerialActivations(WorkflowRunner):
    """Another runner, whose workflows are activated once at a time."""

    def __init__(self, runner: WorkflowRunner) -> None:
        self._runner = runner

    def prepare_workflow(self, defn: Any) -> None:
        self._runner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._runner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Serial(self._runner.create_instance(det))


class StillActive(RuntimeError):
    """A workflow cannot be evicted yet. The SDK logs it, and tries again."""


class _Serial(WorkflowInstance):
    def __init__(self, instance: WorkflowInstance) -> None:
        self._instance = instance
        self._lock = threading.Lock()
        self._is_logged = False

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if not self._lock.acquire(timeout=PATIENCE_SECONDS):
            raise StillActive(f"workflow {self.get_info().workflow_id!r} is still active in another thread")
        try:
            self._is_logged = False
            return self._instance.activate(act)
        finally:
            self._lock.release()

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return self._instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return self._instance.get_external_store_context(command_info)

    def get_info(self) -> Info:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        """Unknown: the SDK asks for it to raise an exception there, which may be in the middle of anything.

        It asks when an activation takes too long, and would record where the thread is: the log has it instead.
        """
        frame = sys._current_frames().get(self._instance.get_thread_id() or 0)
        if frame is not None and not self._is_logged:
            self._is_logged = True
            at = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"
            _logger.warning(SLOW, extra={"thread_id": self.get_info().workflow_id, "at": at})
        return None
