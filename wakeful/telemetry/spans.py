"""Spans as values, and their ids. Pure: a workflow makes them, also in a replay, and `tracing` emits them.

The id of a span is a digest of what the span is about. So the same thing has the same id in every replay, after the
loss of a worker, and in the execution that continues as new; and a span can be a parent before it is emitted.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote_plus

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]

Carrier = Mapping[str, str]
"""A trace context as W3C's headers have it: `traceparent`, and perhaps `tracestate` and `baggage`."""

Kind = Literal["internal", "client", "producer"]

SAMPLED = 1


@dataclass(frozen=True, slots=True)
class SpanRef:
    """A span in a trace, emitted or not yet."""

    trace_id: int
    span_id: int
    is_sampled: bool = True

    def child(self, *about: object) -> "SpanRef":
        """The span below it that is about this."""
        return SpanRef(self.trace_id, span_id(self.trace_id, *about), self.is_sampled)


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A link, and what the linked span is to this one."""

    to: SpanRef
    kind: str


@dataclass(frozen=True, slots=True)
class SpanEvent:
    name: str
    at: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """A span that has ended. Times are nanoseconds since 1970."""

    name: str
    ref: SpanRef
    parent: SpanRef | None
    start: int
    end: int
    attributes: Attributes = field(default_factory=dict)
    kind: Kind = "internal"
    links: tuple[SpanLink, ...] = ()
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None
    """A short code: no message, which might quote a prompt or an argument."""


def trace_id(*about: object) -> int:
    return _digest(16, about)


def span_id(*about: object) -> int:
    return _digest(8, about)


def _digest(size: int, about: tuple[object, ...]) -> int:
    text = "\0".join(map(str, about))
    return int.from_bytes(hashlib.blake2b(text.encode(errors="replace"), digest_size=size).digest()) or 1


def traceparent(ref: SpanRef) -> str:
    """A span as W3C's header names it."""
    return f"00-{ref.trace_id:032x}-{ref.span_id:016x}-{int(ref.is_sampled):02x}"


def take_baggage(carrier: Carrier, name: str) -> tuple[str | None, Carrier]:
    """An entry of the baggage, and the carrier without it."""
    entries = [entry.partition("=") for entry in carrier.get("baggage", "").split(",") if entry]
    value = next((unquote_plus(value) for key, _, value in entries if key.strip() == name), None)
    if value is None:
        return None, carrier
    rest = ",".join(f"{key}={value}" for key, _, value in entries if key.strip() != name)
    others = {key: text for key, text in carrier.items() if key != "baggage"}
    return value, {**others, "baggage": rest} if rest else others


def ref_of(carrier: Carrier | None) -> SpanRef | None:
    """The span that a carrier names; None if it names none."""
    version, *parts = (carrier or {}).get("traceparent", "").split("-")
    if len(version) != 2 or len(parts) < 3:
        return None
    try:
        trace, span, flags = (int(part, 16) for part in parts[:3])
    except ValueError:
        return None
    return SpanRef(trace, span, bool(flags & SAMPLED)) if trace and span else None
