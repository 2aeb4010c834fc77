"""What the worker provides, so that its workflows can be traced and counted; nothing, where they are replayed."""

from dataclasses import dataclass

from temporalio import workflow

from wakeful.telemetry.names import EXTERN
from wakeful_workflows.run_metrics import MetricsPort
from wakeful_workflows.run_trace import TracingPort


@dataclass(frozen=True)
class WorkerTelemetry:
    """As `wakeful.telemetry.workflow_runner.HeldTelemetry`, which workflows do not import: it needs OpenTelemetry."""

    tracing: TracingPort | None = None
    metrics: MetricsPort | None = None


OFF = WorkerTelemetry()


def worker_telemetry() -> WorkerTelemetry:
    """Of the worker that runs this workflow."""
    provide = workflow.extern_functions().get(EXTERN)
    return OFF if provide is None else provide()
