"""The telemetry of a process: what it has set up of OpenTelemetry, and of metrics in the runtime of Temporal."""

from dataclasses import dataclass

from temporalio.client import Client
from temporalio.runtime import Runtime

from wakeful.telemetry.metrics import Metrics
from wakeful.telemetry.tracing import Tracing


@dataclass(frozen=True)
class Telemetry:
    """Tracing and metrics, each None if it is off."""

    tracing: Tracing | None = None
    metrics: Metrics | None = None

    @classmethod
    def of_process(cls, client: Client) -> "Telemetry":
        runtime = client.service_client.config.runtime or Runtime.default()
        return cls(Tracing.of_process(), Metrics.of_process(runtime.metric_meter))


OFF = Telemetry()
