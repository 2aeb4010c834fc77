"""Spans around what a client sends: its header then names them, and the run that it begins is below them."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from wakeful.telemetry import names
from wakeful.telemetry.spans import SpanLink, SpanRef, Value, traceparent

if TYPE_CHECKING:
    from temporalio.client import Plugin


def client_span(
    name: str, *, thread_id: str | None = None, agent_id: str | None = None, origin: SpanRef | None = None
) -> AbstractContextManager[None]:
    """Around a start, a message, a decision or a fork; nothing, if this process does not trace.

    Args:
        origin: of a fork, the span that it continues from.
    """
    if not is_tracing():
        return nullcontext()
    return _span(name, thread_id=thread_id, agent_id=agent_id, origin=origin)


def is_tracing() -> bool:
    """Whether this process may trace: without OpenTelemetry's SDK, which takes a while to import, it does not."""
    return "opentelemetry.sdk.trace" in sys.modules


def propagating_plugins() -> "list[Plugin]":
    """For a connection to Temporal: its own plugin that propagates contexts, if this process's provider suits it."""
    if not is_tracing():
        return []
    from opentelemetry.trace import get_tracer_provider
    from temporalio.contrib.opentelemetry import OpenTelemetryPlugin, ReplaySafeTracerProvider

    return [OpenTelemetryPlugin()] if isinstance(get_tracer_provider(), ReplaySafeTracerProvider) else []


@contextmanager
def _span(name: str, *, thread_id: str | None, agent_id: str | None, origin: SpanRef | None) -> Iterator[None]:
    from opentelemetry import baggage, context

    from wakeful.telemetry.tracing import Tracing

    tracing = Tracing.of_process()
    if tracing is None:
        yield
        return
    attributes: dict[str, Value] = {}
    if thread_id is not None:
        attributes[names.CONVERSATION] = thread_id
    if agent_id is not None:
        attributes[names.AGENT] = agent_id
    links = () if origin is None else (SpanLink(origin, names.LINK_ORIGIN),)
    title = name if agent_id is None else f"{name} {agent_id}"
    with tracing.span(title, kind="producer", attributes=attributes, links=links):
        if origin is None:
            yield
            return
        token = context.attach(baggage.set_baggage(names.BAGGAGE_ORIGIN, traceparent(origin)))
        try:
            yield
        finally:
            context.detach(token)
