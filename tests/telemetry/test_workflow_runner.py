"""What a workflow task has made is emitted once the task stands, and dropped if the server rejects it."""

from typing import Any

import pytest
from temporalio.bridge.proto.workflow_activation import RemoveFromCache, WorkflowActivation, WorkflowActivationJob
from temporalio.bridge.proto.workflow_commands import (
    CompleteWorkflowExecution,
    ContinueAsNewWorkflowExecution,
    StartTimer,
    WorkflowCommand,
)
from temporalio.bridge.proto.workflow_completion import Failure, Success, WorkflowActivationCompletion
from temporalio.worker import WorkflowInstance

from wakeful.telemetry import instruments
from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.telemetry import Telemetry
from wakeful.telemetry.workflow_runner import HeldTelemetry, _Observed

Reason = RemoveFromCache.EvictionReason
TIMER = WorkflowCommand(start_timer=StartTimer(seq=1))
COMPLETE = WorkflowCommand(complete_workflow_execution=CompleteWorkflowExecution())
CONTINUE = WorkflowCommand(continue_as_new_workflow_execution=ContinueAsNewWorkflowExecution())


class Counting(WorkflowInstance):
    """A workflow that counts a step in every task, and completes each with the next of `ends`."""

    def __init__(self, held: HeldTelemetry, ends: list[WorkflowActivationCompletion]) -> None:
        self._held = held
        self._ends = ends

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if act.jobs:
            return WorkflowActivationCompletion(successful=Success())
        assert self._held.metrics is not None
        self._held.metrics.count(instruments.STEPS, {})
        return self._ends.pop(0)

    def get_serialization_context(self, command_info: Any) -> None:
        raise NotImplementedError

    def get_external_store_context(self, command_info: Any) -> Any:
        raise NotImplementedError

    def get_info(self) -> Any:
        raise NotImplementedError


class Counted:
    """How many steps were counted."""

    def __init__(self, *ends: WorkflowActivationCompletion) -> None:
        self.steps = 0.0
        held = HeldTelemetry(Telemetry(metrics=Metrics(lambda _instrument: self._add)))
        self._instance = _Observed(Counting(held, list(ends)), held)

    def _add(self, value: float, _labels: object) -> None:
        self.steps += value

    def after_task(self) -> float:
        self._instance.activate(WorkflowActivation())
        return self.steps

    def after_eviction(self, reason: "Reason.ValueType") -> float:
        job = WorkflowActivationJob(remove_from_cache=RemoveFromCache(reason=reason))
        self._instance.activate(WorkflowActivation(jobs=[job]))
        return self.steps


def task(*commands: WorkflowCommand) -> WorkflowActivationCompletion:
    return WorkflowActivationCompletion(successful=Success(commands=commands))


def test_a_task_that_does_not_end_the_execution_stands_at_once() -> None:
    counted = Counted(task(TIMER), task())
    assert [counted.after_task(), counted.after_task()] == [1, 2]
    assert counted.after_eviction(Reason.CACHE_FULL) == 2


@pytest.mark.parametrize("end", [COMPLETE, CONTINUE], ids=["complete", "continue as new"])
def test_a_task_that_ends_the_execution_stands_once_the_execution_is_evicted_for_its_end(end: WorkflowCommand) -> None:
    counted = Counted(task(TIMER, end))
    assert counted.after_task() == 0
    assert counted.after_eviction(Reason.WORKFLOW_EXECUTION_ENDING) == 1


@pytest.mark.parametrize("reason", [Reason.UNHANDLED_COMMAND, Reason.TASK_NOT_FOUND, Reason.NONDETERMINISM])
def test_a_task_that_the_server_rejects_counts_nothing(reason: "Reason.ValueType") -> None:
    counted = Counted(task(COMPLETE))
    counted.after_task()
    assert counted.after_eviction(reason) == 0


def test_a_task_that_fails_counts_nothing() -> None:
    counted = Counted(WorkflowActivationCompletion(failed=Failure()), task())
    assert [counted.after_task(), counted.after_task()] == [0, 1]
