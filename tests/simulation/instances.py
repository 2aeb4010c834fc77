"""The real workflow classes as instances that the simulation activates itself.

The only module of the simulation that uses private names of the SDK; they are those of `temporalio.worker._workflow`.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC
from functools import cache
from typing import Any

import temporalio.common
import temporalio.converter
import temporalio.workflow
from temporalio.bridge.proto.workflow_activation import InitializeWorkflow, WorkflowActivation
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import DataConverter
from temporalio.worker import UnsandboxedWorkflowRunner
from temporalio.worker._workflow_instance import WorkflowInstance, WorkflowInstanceDetails

NAMESPACE = "default"
TASK_QUEUE = "wakeful"

_runner = UnsandboxedWorkflowRunner()


@cache
def _definition(workflow: type) -> temporalio.workflow._Definition:
    return temporalio.workflow._Definition.must_from_class(workflow)


def updates_of(workflow: type) -> list[str]:
    """The names of the updates that a workflow class has."""
    return sorted(name for name in _definition(workflow).updates if name is not None)


class _NoMeter:
    """Metrics of a worker without metrics."""

    def __getattr__(self, name: str) -> Callable[..., "_NoMeter"]:
        return lambda *_args, **_kwargs: self


def _is_registered(names: frozenset[str] | None) -> Callable[[str], None]:
    """The worker's check of a local activity; None means that it has every one."""

    def check(name: str) -> None:
        if names is not None and name not in names:
            raise ValueError(f"Activity {name} is not registered on this worker")

    return check


def new_instance(
    workflow: type,
    activation: WorkflowActivation,
    init: InitializeWorkflow,
    converter: DataConverter,
    *,
    local_activities: frozenset[str] | None = None,
) -> WorkflowInstance:
    """An instance as a worker makes it for the first activation of a run."""
    details = WorkflowInstanceDetails(
        payload_converter_factory=converter._new_payload_converter,
        failure_converter_class=converter.failure_converter_class,
        interceptor_classes=[],
        defn=_definition(workflow),
        info=_info(activation, init),
        randomness_seed=init.randomness_seed,
        extern_functions={
            "__temporal_get_metric_meter": _NoMeter,
            "__temporal_assert_local_activity_valid": _is_registered(local_activities),
        },
        disable_eager_activity_execution=False,
        worker_level_failure_exception_types=[],
        patch_activation_callback=None,
        last_completion_result=init.last_completion_result,
        last_failure=None,
    )
    with _running_loop(_Anchor()):  # the constructor hangs its runtime on the running loop
        return _runner.create_instance(details)


def activate(instance: WorkflowInstance, activation: WorkflowActivation) -> WorkflowActivationCompletion:
    with _running_loop(None):
        return instance.activate(activation)


class _Anchor:
    """Stands for the worker's event loop."""


@contextmanager
def _running_loop(loop: object) -> Iterator[None]:
    """An instance is its own event loop, and sets and clears the thread's running loop."""
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)  # type: ignore[arg-type]
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


def _info(activation: WorkflowActivation, init: InitializeWorkflow) -> temporalio.workflow.Info:
    parent = root = None
    if init.HasField("parent_workflow_info"):
        above = init.parent_workflow_info
        parent = temporalio.workflow.ParentInfo(namespace=NAMESPACE, run_id=above.run_id, workflow_id=above.workflow_id)
    if init.HasField("root_workflow"):
        root = temporalio.workflow.RootInfo(
            run_id=init.root_workflow.run_id, workflow_id=init.root_workflow.workflow_id
        )
    memo: Mapping[str, Any] = dict(init.memo.fields)
    return temporalio.workflow.Info(
        attempt=init.attempt,
        continued_run_id=init.continued_from_execution_run_id or None,
        cron_schedule=None,
        execution_timeout=None,
        first_execution_run_id=init.first_execution_run_id,
        headers=dict(init.headers),
        namespace=NAMESPACE,
        original_execution_run_id=activation.run_id,
        parent=parent,
        root=root,
        raw_memo=memo,
        retry_policy=None,
        run_id=activation.run_id,
        run_timeout=None,
        search_attributes=temporalio.converter.decode_search_attributes(init.search_attributes),
        start_time=activation.timestamp.ToDatetime().replace(tzinfo=UTC),
        workflow_start_time=init.start_time.ToDatetime().replace(tzinfo=UTC),
        task_queue=TASK_QUEUE,
        task_timeout=init.workflow_task_timeout.ToTimedelta(),
        typed_search_attributes=temporalio.converter.decode_typed_search_attributes(init.search_attributes),
        workflow_id=init.workflow_id,
        workflow_type=init.workflow_type,
        priority=temporalio.common.Priority._from_proto(init.priority),
    )
