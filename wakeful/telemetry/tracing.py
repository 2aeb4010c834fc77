"""Emit spans through the process's OpenTelemetry provider, with ids that Wakeful chooses.

The provider's sampler, limits, resource and processors stay in force, as do the user's own spans: only the spans of
Wakeful's own tracer have chosen ids. Without a provider of OpenTelemetry's SDK, tracing is off.
"""

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from importlib.metadata import version

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import Tracer
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import JsonValue
from temporalio.exceptions import ApplicationError

from wakeful.contract.errors import ProviderError, ToolError
from wakeful.telemetry import names
from wakeful.telemetry.content import is_captured, tool_content
from wakeful.telemetry.spans import Attributes, Carrier, Kind, SpanLink, SpanRecord, SpanRef, trace_id

_KINDS: dict[Kind, SpanKind] = {
    "internal": SpanKind.INTERNAL,
    "client": SpanKind.CLIENT,
    "producer": SpanKind.PRODUCER,
}

_propagator = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
"""Temporal's interceptors propagate the same, whatever `OTEL_PROPAGATORS` says for HTTP."""

_chosen: ContextVar[SpanRef | None] = ContextVar("wakeful_chosen_span", default=None)


class Tracing:
    """Wakeful's tracer in this process."""

    def __init__(self, tracer: Tracer, *, captures_content: bool = False) -> None:
        self.captures_content = captures_content
        if not isinstance(tracer.id_generator, _ChosenIds):
            tracer.id_generator = _ChosenIds(tracer.id_generator)
        self._tracer = tracer

    @classmethod
    def of_process(cls) -> "Tracing | None":
        """The tracing of the provider that this process has set; None if it has none of OpenTelemetry's SDK."""
        tracer: object = trace.get_tracer_provider().get_tracer(names.SCOPE, _version())
        # Temporal's replay-safe tracer keeps the SDK's; in a workflow it would choose other ids.
        tracer = getattr(tracer, "_tracer", tracer)
        return cls(tracer, captures_content=is_captured(os.environ)) if isinstance(tracer, Tracer) else None

    def tool_content(self, arguments: JsonValue, result: object) -> dict[str, str]:
        """A call's arguments and result, if contents are captured."""
        return tool_content(arguments, result) if self.captures_content else {}

    def current(self) -> SpanRef | None:
        """The span that is current here."""
        return _ref(trace.get_current_span().get_span_context())

    def carrier(self) -> Carrier | None:
        """The current context, to be kept; None if no span is current."""
        if self.current() is None:
            return None
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        return carrier

    def root(self, parent: SpanRef | None, name: str, *about: object) -> SpanRef:
        """The span with which something begins that may outlive this process: below `parent`, or of a new trace.

        Whether it is sampled is decided now, since what happens below it may be emitted long before it.
        """
        trace_of = parent.trace_id if parent else trace_id(*about)
        ref = SpanRef(trace_of, 0).child(*about)
        decision = self._tracer.sampler.should_sample(_context(parent), ref.trace_id, name).decision
        return SpanRef(ref.trace_id, ref.span_id, decision is Decision.RECORD_AND_SAMPLE)

    @contextlib.contextmanager
    def within(self, ref: SpanRef, base: Carrier | None = None) -> Iterator[None]:
        """Make a span current, with the baggage and the trace state of `base`. No await may be in the body."""
        token = otel_context.attach(_context(ref, base))
        try:
            yield
        finally:
            otel_context.detach(token)

    def emit(self, record: SpanRecord, base: Carrier | None = None) -> None:
        """Emit a span that has ended, if it is sampled."""
        if not record.ref.is_sampled:
            return
        with _choosing(record.ref):
            span = self._tracer.start_span(
                record.name,
                _context(record.parent, base),
                _KINDS[record.kind],
                record.attributes,
                _links(record.links),
                record.start,
            )
        for event in record.events:
            span.add_event(event.name, event.attributes, event.at)
        _end(span, error=record.error, at=record.end)

    @contextlib.contextmanager
    def span(
        self,
        name: str,
        *,
        ref: SpanRef | None = None,
        parent: SpanRef | None = None,
        kind: Kind = "internal",
        attributes: Attributes | None = None,
        links: tuple[SpanLink, ...] = (),
        clock: Callable[[], int] = time.time_ns,
    ) -> Iterator[Span]:
        """A span around the body, below the current one or `parent`; `ref` is its id, if it needs a certain one.

        An exception marks it with its type alone: the message might quote a prompt or an argument.
        """
        context = None if parent is None else _context(parent, self.carrier())
        with _choosing(ref) if ref is not None else contextlib.nullcontext():
            span = self._tracer.start_span(name, context, _KINDS[kind], attributes, _links(links), clock())
        with trace.use_span(span, record_exception=False, set_status_on_exception=False):
            try:
                yield span
            except BaseException as error:
                _end(span, error=error_type(error), at=clock())
                raise
        _end(span, at=clock())


def error_type(error: BaseException) -> str:
    """What kind of error it is: a code of ours, or the name of the exception's type, whatever it holds besides."""
    match error:
        case ProviderError() | ToolError():
            return str(error.kind)
        case ApplicationError() if error.type:
            return error.type
        case _:
            return type(error).__name__


def fail(span: Span, error: str) -> None:
    """Mark a span as failed."""
    span.set_attribute(names.ERROR_TYPE, error)
    span.set_status(Status(StatusCode.ERROR))


def _end(span: Span, *, error: str | None = None, at: int) -> None:
    if error is not None:
        fail(span, error)
    span.end(at)


@functools.cache
def _version() -> str:
    return version("wakeful")


class _ChosenIds(IdGenerator):
    """The ids that `_choosing` names, and otherwise those of the provider."""

    def __init__(self, given: IdGenerator) -> None:
        self._given = given

    def generate_span_id(self) -> int:
        chosen = _chosen.get()
        return self._given.generate_span_id() if chosen is None else chosen.span_id

    def generate_trace_id(self) -> int:
        chosen = _chosen.get()
        return self._given.generate_trace_id() if chosen is None else chosen.trace_id

    def is_trace_id_random(self) -> bool:
        return _chosen.get() is None and self._given.is_trace_id_random()


@contextlib.contextmanager
def _choosing(ref: SpanRef) -> Iterator[None]:
    token = _chosen.set(ref)
    try:
        yield
    finally:
        _chosen.reset(token)


def _context(ref: SpanRef | None, base: Carrier | None = None) -> Context:
    context = _propagator.extract(base, Context()) if base else Context()
    if ref is None:
        return trace.set_span_in_context(NonRecordingSpan(trace.INVALID_SPAN_CONTEXT), context)
    state = trace.get_current_span(context).get_span_context().trace_state
    return trace.set_span_in_context(NonRecordingSpan(_span_context(ref, state)), context)


def _span_context(ref: SpanRef, state: trace.TraceState | None = None) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if ref.is_sampled else TraceFlags.DEFAULT)
    return SpanContext(ref.trace_id, ref.span_id, is_remote=True, trace_flags=flags, trace_state=state)


def _ref(context: SpanContext) -> SpanRef | None:
    if not context.is_valid:
        return None
    return SpanRef(context.trace_id, context.span_id, bool(context.trace_flags.sampled))


def _links(links: tuple[SpanLink, ...]) -> list[Link]:
    return [Link(_span_context(link.to), {names.LINK: link.kind}) for link in links]
