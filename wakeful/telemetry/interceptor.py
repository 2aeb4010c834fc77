"""What a worker's interceptors do for traces: ours carries open spans over continue-as-new.

Temporal's own OpenTelemetry interceptor propagates contexts from and to clients, activities and children.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol, runtime_checkable

from opentelemetry.trace import get_tracer_provider
from temporalio import workflow
from temporalio.client import Client
from temporalio.contrib.opentelemetry import (
    OpenTelemetryInterceptor,
    OpenTelemetryPlugin,
    ReplaySafeTracerProvider,
    TracingInterceptor,
)
from temporalio.converter import PayloadConverter
from temporalio.worker import (
    ContinueAsNewInput,
    Interceptor,
    WorkerConfig,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from wakeful.contract.names import HEADER_TRACE
from wakeful.telemetry.telemetry import Telemetry

_logger = logging.getLogger("wakeful")


def propagation(client: Client, telemetry: Telemetry) -> list[Interceptor]:
    """Temporal's own interceptor for a worker of ours whose client does not bring one along."""
    if telemetry.tracing is None or _is_propagating(client):
        return []
    if not isinstance(get_tracer_provider(), ReplaySafeTracerProvider):
        _logger.warning(
            "spans of workflows and activities are not connected: make the tracer provider with "
            "temporalio.contrib.opentelemetry.create_tracer_provider, or give the client an interceptor that traces"
        )
        return []
    return [OpenTelemetryInterceptor()]


def check_propagation(config: WorkerConfig, telemetry: Telemetry) -> None:
    """Warn if a worker of the user's own traces, and nothing propagates contexts: its interceptors are the user's."""
    given = config.get("interceptors", ())
    is_planned = any(isinstance(plugin, OpenTelemetryPlugin) for plugin in config.get("plugins", ()))
    if telemetry.tracing is not None and not is_planned and not _is_propagating(config["client"], given):
        _logger.warning(
            "spans of workflows and activities are not connected: make the tracer provider with "
            "temporalio.contrib.opentelemetry.create_tracer_provider, and give the client the OpenTelemetryPlugin of "
            "that package"
        )


def _is_propagating(client: Client, given: Sequence[object] = ()) -> bool:
    of_client = client.config(active_config=True)["interceptors"]
    return any(isinstance(each, OpenTelemetryInterceptor | TracingInterceptor) for each in (*of_client, *given))


@runtime_checkable
class Traced(Protocol):
    """A workflow with open spans."""

    def trace_carryover(self) -> Mapping[str, Any] | None: ...


class TraceCarrier(Interceptor):
    """Writes the open spans of a workflow to the header of the execution that it continues as."""

    def workflow_interceptor_class(self, _input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def continue_as_new(self, input: ContinueAsNewInput) -> NoReturn:
        instance = workflow.instance()
        if isinstance(instance, Traced) and (carried := instance.trace_carryover()) is not None:
            input.headers = {**input.headers, HEADER_TRACE: PayloadConverter.default.to_payload(carried)}
        super().continue_as_new(input)
