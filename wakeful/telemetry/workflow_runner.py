"""Provides telemetry to `AgentRun`, and emits what it has made once its workflow task stands.

The server rejects a task that ends an execution if something has arrived for the execution meanwhile, and hands it out
again. What such a task, or one that failed, has made is dropped: the task that is done in its place makes it again.
Workflows find what this provides among the SDK's extern functions; readers, replays and the simulation have other
runners, and so no telemetry.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from pydantic import JsonValue
from temporalio.bridge.proto.workflow_activation import RemoveFromCache, WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import WorkflowInstance, WorkflowInstanceDetails, WorkflowRunner
from temporalio.workflow import Info

from wakeful.contract.names import WORKFLOW
from wakeful.telemetry.instruments import Instrument
from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.names import EXTERN
from wakeful.telemetry.spans import Carrier, SpanRecord, SpanRef
from wakeful.telemetry.telemetry import Telemetry
from wakeful.telemetry.tracing import Tracing

ENDING = (
    "complete_workflow_execution",
    "fail_workflow_execution",
    "cancel_workflow_execution",
    "continue_as_new_workflow_execution",
)
"""The commands that end an execution."""

_Reason = RemoveFromCache.EvictionReason
STANDS = frozenset({_Reason.WORKFLOW_EXECUTION_ENDING, _Reason.CACHE_FULL, _Reason.LANG_REQUESTED})
"""Why an execution is evicted whose last task the server has taken."""

Emit = Callable[[], None]


class TelemetryRunner(WorkflowRunner):
    """Another runner, whose `AgentRun`s are traced and counted."""

    def __init__(self, runner: WorkflowRunner, telemetry: Telemetry) -> None:
        self._runner = runner
        self._telemetry = telemetry

    def prepare_workflow(self, defn: Any) -> None:
        self._runner.prepare_workflow(defn)

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        self._runner.set_worker_level_failure_exception_types(types)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        if det.info.workflow_type != WORKFLOW:
            return self._runner.create_instance(det)
        held = HeldTelemetry(self._telemetry)
        extern = {**det.extern_functions, EXTERN: lambda: held}
        return _Observed(self._runner.create_instance(dataclasses.replace(det, extern_functions=extern)), held)


class HeldTelemetry:
    """A process's telemetry, as one workflow has it: what it emits is held."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._held: list[Emit] = []
        self.tracing = None if telemetry.tracing is None else _HeldTracing(telemetry.tracing, self._held)
        self.metrics = None if telemetry.metrics is None else _HeldMetrics(telemetry.metrics, self._held)

    def emit(self) -> None:
        """Emit what is held."""
        held = list(self._held)
        self._held.clear()
        for emit in held:
            emit()

    def drop(self) -> None:
        """Drop what is held."""
        self._held.clear()


class _HeldTracing:
    def __init__(self, tracing: Tracing, held: list[Emit]) -> None:
        self._tracing = tracing
        self._held = held

    def carrier(self) -> Carrier | None:
        return self._tracing.carrier()

    def root(self, parent: SpanRef | None, name: str, *about: object) -> SpanRef:
        return self._tracing.root(parent, name, *about)

    def within(self, ref: SpanRef, base: Carrier | None = None) -> AbstractContextManager[None]:
        return self._tracing.within(ref, base)

    def tool_content(self, arguments: JsonValue, result: object) -> Mapping[str, str]:
        return self._tracing.tool_content(arguments, result)

    def emit(self, record: SpanRecord, base: Carrier | None = None) -> None:
        self._held.append(partial(self._tracing.emit, record, base))


class _HeldMetrics:
    def __init__(self, metrics: Metrics, held: list[Emit]) -> None:
        self._metrics = metrics
        self._held = held

    def record(self, instrument: Instrument, value: float, labels: Mapping[str, str | None]) -> None:
        self._held.append(partial(self._metrics.record, instrument, value, labels))

    def count(self, instrument: Instrument, labels: Mapping[str, str | None]) -> None:
        self.record(instrument, 1, labels)


class _Observed(WorkflowInstance):
    """A workflow whose tasks are watched: for what became of each."""

    def __init__(self, instance: WorkflowInstance, held: HeldTelemetry) -> None:
        self._instance = instance
        self._held = held

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        reasons = [job.remove_from_cache.reason for job in act.jobs if job.HasField("remove_from_cache")]
        if reasons:
            if STANDS.issuperset(reasons):
                self._held.emit()
            else:
                self._held.drop()
            return self._instance.activate(act)
        completion = self._instance.activate(act)
        if completion.HasField("failed"):
            self._held.drop()
        elif not any(command.WhichOneof("variant") in ENDING for command in completion.successful.commands):
            self._held.emit()
        return completion

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return self._instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return self._instance.get_external_store_context(command_info)

    def get_info(self) -> Info:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()
