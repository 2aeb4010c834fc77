"""What the fake provider does: replies and faults, the same for every wire format.

A delta is a slice of reasoning, text or argument text, in this order. Frames around them (a block opens, a signature,
a ping) are not counted, so `after=3` interrupts all three formats at the same place. An answer that is not streamed has
one delta, the first half of its body: every number from 1 on means the middle of it.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from wakeful.contract.inference import StopReason
from wakeful.contract.runs import Usage

Moment = int | Literal["request", "headers", "content", "stop"]
"""When a fault happens: right after that many deltas (0: right before the first), when the request was read, when the
headers are out, when all content is out and its blocks are closed, or when the stop reason is out and only the end of
the stream is missing. The Responses format has no moment of its own for `stop`: there it is the same as `content`."""

Filtered = Literal["filtered"]
"""The provider's content filter stopped the answer; our contract has no stop reason for it."""

ErrorKind = Literal["overloaded", "rate_limited", "server", "overflow", "invalid", "unauthorized", "unknown_model"]


@dataclass(frozen=True)
class Stall:
    """Send nothing more, and keep the connection open until the client closes it."""

    after: Moment


@dataclass(frozen=True)
class Reset:
    """Break the connection with an RST."""

    after: Moment


@dataclass(frozen=True)
class Cut:
    """Close the connection with a FIN in the middle of the body."""

    after: Moment


@dataclass(frozen=True)
class End:
    """End the body properly, although the stream is not complete."""

    after: Moment


@dataclass(frozen=True)
class ErrorEvent:
    """Send the provider's own error event, then end the body.

    `shape` only matters to Responses: `documented` is the flat event of its reference, `nested` the one its server
    has been seen to send, `failed` is `response.failed`.
    """

    after: Moment
    kind: ErrorKind = "overloaded"
    message: str | None = None
    shape: Literal["documented", "nested", "failed"] = "documented"


@dataclass(frozen=True)
class Inject:
    """Send these bytes between two events, and continue."""

    after: Moment
    raw: bytes


@dataclass(frozen=True)
class Hold:
    """Send nothing until the test sets the event, and continue."""

    after: Moment
    until: asyncio.Event


Fault = Stall | Reset | Cut | End | ErrorEvent | Inject | Hold


def garbage_json(after: Moment) -> Inject:
    """A data line with incomplete JSON."""
    return Inject(after, b'data: {"type": "mess\n\n')


def malformed_sse(after: Moment) -> Inject:
    """Lines that are no field of an event stream, and an unknown field."""
    return Inject(after, b"<<< not an event >>>\nnonsense: 1\n\n")


def unknown_event(after: Moment) -> Inject:
    """A well-formed event of a kind that does not exist yet."""
    return Inject(after, b'event: wakeful.tomorrow\ndata: {"type": "wakeful.tomorrow", "choices": []}\n\n')


@dataclass(frozen=True)
class Writing:
    """How the bytes of a stream go out; none of it may change what a client reads."""

    writes: Literal["event", "whole", "byte", "split_characters"] = "event"
    """One write an event, one for everything, one a byte, or one that ends inside each character of several bytes."""
    line_end: Literal["\n", "\r\n", "\r"] = "\n"
    bom: bool = False
    keepalives: bool = False
    """A comment line before every event."""


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` is JSON text as the model writes it: it may be incomplete, empty or no JSON at all."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True)
class Answer:
    """One answer of the model. `prompt_tokens` counts everything the model read, cached or not, in every format."""

    text: str = ""
    reasoning: str = ""
    signature: str = "signature-of-the-reasoning"
    """Anthropic's signature of the reasoning, and the encrypted content of a Responses reasoning item."""
    calls: tuple[Call, ...] = ()
    stop: StopReason | Filtered | None = None
    """By default, the model stops for its calls, or because it has finished."""
    usage: Usage | None = Usage(prompt_tokens=11, completion_tokens=7, total_tokens=18)
    model: str | None = None
    """The model that answers; by default, the one of the request."""
    chunk: int = 8
    """Characters in a delta."""
    pause: float = 0
    """Seconds after each delta."""
    faults: tuple[Fault, ...] = ()
    writing: Writing = Writing()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def stop_reason(self) -> StopReason | Filtered:
        return self.stop or (StopReason.TOOL_USE if self.calls else StopReason.END_TURN)


@dataclass(frozen=True)
class Status:
    """An HTTP error with the provider's own error body."""

    code: int
    kind: ErrorKind | None = None
    """The kind of error in the body; by default, the usual one for the code."""
    message: str | None = None
    retry_after: float | datetime | str | None = None
    """Seconds, a time that is sent as an HTTP date, or text as it is."""
    retry_after_ms: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


EVENT_STREAM = {"Content-Type": "text/event-stream; charset=utf-8"}


def sse(*events: JsonValue) -> bytes:
    """Server-sent events; a string is sent as it is, and `type` also names the event."""
    written = []
    for event in events:
        kind = event.get("type") if isinstance(event, dict) else None
        name = f"event: {kind}\n" if kind else ""
        written.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(written).encode()


@dataclass(frozen=True)
class Raw:
    """A reply of these bytes, for what no proper answer contains."""

    body: bytes = b""
    code: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    then: Literal["end", "stall", "cut"] = "end"
    """Whether the body ends properly, or one byte before its announced length: silence, or the connection is closed."""

    @classmethod
    def json(cls, body: JsonValue, *, code: int = 200, headers: Mapping[str, str] | None = None) -> "Raw":
        return cls(json.dumps(body).encode(), code, {"Content-Type": "application/json", **(headers or {})})

    @classmethod
    def sse(cls, *events: JsonValue, headers: Mapping[str, str] | None = None) -> "Raw":
        return cls(sse(*events), headers={**EVENT_STREAM, **(headers or {})})


Reply = Answer | Status | Raw

HANG = Answer(faults=(Stall("request"),))
"""Nothing is sent, not even headers."""
SILENCE = Answer(faults=(Stall("headers"),))
"""Headers are sent, and then no event."""
RESET = Answer(faults=(Reset("request"),))
"""The connection is reset before anything is sent."""
HTML_PAGE = Raw(
    b"<!doctype html><html><title>Sign in</title><body>Please sign in.</body></html>",
    headers={"Content-Type": "text/html; charset=utf-8"},
)
"""The page of a proxy, with status 200."""
OVERFLOW = Status(400, "overflow")
"""The conversation does not fit the model's context window."""
