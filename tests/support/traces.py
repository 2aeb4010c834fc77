"""Exported spans, as a test compares them."""

import asyncio
from collections.abc import Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import WorkflowHistory

from tests.support.waiting import BOUND_SECONDS
from wakeful.telemetry import names

TRACER_DATA = "_tracer-data"
"""The header of Temporal's interceptors."""

Tree = tuple[str, list["Tree"]]


class Spans:
    """What a process has exported."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def all(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def trace(self, trace_id: int) -> list[ReadableSpan]:
        """The spans of a trace, the first that began first."""
        return sorted(
            (span for span in self.all() if context_of(span)[0] == trace_id), key=lambda span: span.start_time or 0
        )

    async def of_thread(self, thread_id: str, *, ended: int = 1) -> list[ReadableSpan]:
        """The trace of a thread's run, once so many runs of it have ended: a worker emits the end after the result."""
        async with asyncio.timeout(BOUND_SECONDS):
            while len(found := [span for span in self.all() if _is_end(span, thread_id)]) < ended:
                await asyncio.sleep(0.01)
        return self.trace(context_of(found[-1])[0])


def _is_end(span: ReadableSpan, thread_id: str) -> bool:
    attributes = span.attributes or {}
    return attributes.get(names.CONVERSATION) == thread_id and names.OUTCOME in attributes


def context_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def forest(spans: Sequence[ReadableSpan]) -> list[Tree]:
    """The spans of a trace by their names, each below its parent; those whose parent is not there are roots."""
    known = {context_of(span)[1] for span in spans}

    def below(parent: int | None) -> list[Tree]:
        return [(span.name, below(context_of(span)[1])) for span in spans if _parent(span, known) == parent]

    return below(None)


def _parent(span: ReadableSpan, known: set[int]) -> int | None:
    return span.parent.span_id if span.parent is not None and span.parent.span_id in known else None


def named(spans: Sequence[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def links_of(span: ReadableSpan) -> list[tuple[object, tuple[int, int]]]:
    """What each link of a span means, and the span that it names."""
    return [
        ((link.attributes or {}).get(names.LINK), (link.context.trace_id, link.context.span_id)) for link in span.links
    ]


def headers_of(history: WorkflowHistory) -> set[str]:
    """The names of the headers of all events."""
    found = set[str]()
    for event in history.events:
        attributes = getattr(event, event.WhichOneof("attributes") or "", None)
        found |= set(getattr(getattr(attributes, "header", None), "fields", ()))
    return found
