"""OpenTelemetry's standard variables, as far as they say what to export; exporters read the others themselves."""

from collections.abc import Mapping
from enum import StrEnum

from wakeful.contract.errors import ConfigurationError

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"


class Signal(StrEnum):
    """What can be exported."""

    TRACES = "TRACES"
    METRICS = "METRICS"


class OtelVariables:
    """The environment. Without any variable, nothing is exported: OpenTelemetry's default of OTLP would surprise."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    @property
    def is_disabled(self) -> bool:
        return self._environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"

    def exporters(self, signal: Signal) -> list[str]:
        """The exporters of a signal: those that it names, or OTLP, if there is an endpoint."""
        if self.is_disabled:
            return []
        named = self._environ.get(f"OTEL_{signal}_EXPORTER", "").strip()
        if named:
            return [name.strip() for name in named.split(",") if name.strip() != "none"]
        endpoint = self._environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or self._environ.get(ENDPOINT)
        return ["otlp"] if endpoint else []

    def protocol(self, signal: Signal) -> str:
        return self._environ.get(self.protocol_name(signal)) or "http/protobuf"

    def protocol_name(self, signal: Signal) -> str:
        """The variable that names the protocol of a signal."""
        own = f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
        return own if self._environ.get(own) else PROTOCOL

    def unknown_exporter(self, signal: Signal, name: str) -> ConfigurationError:
        return ConfigurationError(
            [f"OTEL_{signal}_EXPORTER names {name!r}, which is not known: write otlp, console or none"]
        )
