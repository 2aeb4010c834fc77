"""The tool calls of one step, each in exactly one state. The results of finished calls are built here, too."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from wakeful.contract import ids
from wakeful.contract.applied_decisions import AppliedDecision
from wakeful.contract.base import Once, json_bytes, replace
from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.events import AgentEvent, ToolCallDone, ToolCallOutcome, ToolCallResumed
from wakeful.contract.hooks import HookEffects
from wakeful.contract.inference import ModelResponse
from wakeful.contract.mail import AgentMessage
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import ToolCallStatus
from wakeful.contract.tools import ToolResult, ToolStatus
from wakeful.loop.machine.transitions import check_tool_call

Performer = Literal["activity", "subagent", "runtime"]

INLINE_LENGTH = 2_000
"""Characters of a text that inference inputs spell out instead of referring to its place in history."""

INLINE_RESULTS_BYTES = 600_000
"""Bytes of a step's results that no activity or child returned, such as decisions: inference inputs spell them out."""


@dataclass(frozen=True)
class NewCall:
    call: ToolCall
    kind: Literal["new"] = "new"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.NEW


@dataclass(frozen=True)
class RunningCall:
    """`id` is the work id; `resumes` counts the decisions that let the call run again."""

    call: ToolCall
    id: str
    resumes: int = 0
    resume: ToolCallResume | None = None
    ticket: SuspensionTicket | None = None
    edited: JsonValue = None
    """The arguments that a decision replaced the model's with; they apply until another decision replaces them."""
    child_thread_id: str | None = None
    """The thread of the sub-agent that it waits for, once that has one."""
    awaits: str | None = None
    """The background task whose end it waits for; the call has no work of its own."""
    expires_at: int | None = None
    """When it stops waiting for its sub-agent."""
    timed_out: bool = False
    message: AgentMessage | None = None
    """The message that it sends."""
    by: Performer = "activity"
    """What performs it: an activity, a sub-agent, or the loop itself."""
    kind: Literal["running"] = "running"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.RUNNING


@dataclass(frozen=True)
class SuspendedCall:
    """`gated`: a gate suspended the call before its tool ran, so the other calls of the step continue."""

    call: ToolCall
    ticket: SuspensionTicket
    since: int
    resumes: int = 0
    edited: JsonValue = None
    gated: bool = False
    escalated: bool = False
    """`decision_overdue` was emitted."""
    kind: Literal["suspended"] = "suspended"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.SUSPENDED

    @property
    def alarms(self) -> tuple[int, ...]:
        """When a timer has to fire for it, in milliseconds since 1970."""
        escalates_at = None if self.escalated else self.ticket.escalates_at
        return tuple(at for at in (self.ticket.expires_at, escalates_at) if at is not None)


@dataclass(frozen=True)
class ResumingCall:
    """A decision resumed the call; in sequential mode it waits for its turn."""

    call: ToolCall
    ticket: SuspensionTicket
    resume: ToolCallResume
    resumes: int
    edited: JsonValue = None
    kind: Literal["resuming"] = "resuming"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.RESUMING


FinishedStatus = Literal[ToolCallStatus.SUCCEEDED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED]


@dataclass(frozen=True)
class FinishedCall:
    """`source` is where history records the result; None if the loop itself made the result."""

    call: ToolCall
    status: FinishedStatus
    result: ToolResult
    source: str | None = None
    effects: HookEffects | None = None
    """What the call's hooks and its tool request; applied in call order."""
    kind: Literal["finished"] = "finished"


Startable = NewCall | ResumingCall
Unfinished = NewCall | RunningCall | ResumingCall
Call = Annotated[NewCall | RunningCall | SuspendedCall | ResumingCall | FinishedCall, Field(discriminator="kind")]


@dataclass(frozen=True)
class Batch:
    """The tool calls of one step, in the model's order, with the answer that asked for them."""

    inference_id: str | None
    """Where history records the answer; None if it does so with other call ids."""
    message_id: str
    response: ModelResponse
    calls: tuple[Call, ...]
    effects_applied: int = 0
    """Of how many calls the effects are applied."""
    decided: Mapping[str, tuple[AppliedDecision, ...]] = field(default_factory=dict)
    """The decisions about each call, as the message with its result has them."""

    def find(self, target: str) -> Call | None:
        """The call with this id, or else the one that is suspended under this suspension id."""
        if (position := self._positions.get(target)) is not None:
            return self.calls[position]
        return _suspensions(self).get(target)

    def decisions_of(self, call_id: str) -> tuple[AppliedDecision, ...]:
        """Who decided about a call, the newest last."""
        return self.decided.get(call_id, ())

    def position(self, call_id: str) -> int:
        """How many calls precede this one in the model's order."""
        return self._positions[call_id]

    def with_call(self, after: Call) -> "Batch":
        """The batch with one call in its next state; the table has to allow it."""
        position = self._positions[after.call.id]
        check_tool_call(self.calls[position].status, after.status)
        return replace(self, calls=(*self.calls[:position], after, *self.calls[position + 1 :]))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {call.call.id: position for position, call in enumerate(self.calls)}

    @property
    def inline_room(self) -> int:
        """How many bytes the results may have that inference inputs spell out, beside those of finished calls."""
        return INLINE_RESULTS_BYTES - _inline_bytes(self)

    @property
    def running(self) -> tuple[RunningCall, ...]:
        return tuple(call for call in self.calls if isinstance(call, RunningCall))

    @property
    def suspended(self) -> tuple[SuspendedCall, ...]:
        return tuple(call for call in self.calls if isinstance(call, SuspendedCall))

    @property
    def resuming(self) -> tuple[ResumingCall, ...]:
        return tuple(call for call in self.calls if isinstance(call, ResumingCall))

    @property
    def new(self) -> tuple[NewCall, ...]:
        return tuple(call for call in self.calls if isinstance(call, NewCall))

    @property
    def startable(self) -> tuple[Startable, ...]:
        """The calls that have yet to start: first the resumed ones, then the new ones in the model's order."""
        return (*self.resuming, *self.new)


@Once
def _suspensions(batch: Batch) -> dict[str, SuspendedCall]:
    return {call.ticket.suspension.id: call for call in reversed(batch.suspended)}  # of several, the first


@Once
def _inline_bytes(batch: Batch) -> int:
    return sum(_result_bytes(call) for call in batch.calls if isinstance(call, FinishedCall) and call.source is None)


@Once
def _result_bytes(call: FinishedCall) -> int:
    return json_bytes(call.result.text)


def finished(call: Unfinished, result: ToolResult) -> FinishedCall:
    source = _source(call, result)
    if result.status is ToolStatus.SUCCESS:
        return FinishedCall(call.call, ToolCallStatus.SUCCEEDED, result, source=source)
    return FinishedCall(call.call, ToolCallStatus.FAILED, result, source=source)


def _source(call: Unfinished, result: ToolResult) -> str | None:
    """Where history records the result; None if it does not, or if the result is short enough to spell out."""
    if not isinstance(call, RunningCall) or call.by == "runtime":
        return None
    if call.by == "activity":
        return ids.source(ids.FromActivity(call.id))
    is_long = result.status is ToolStatus.SUCCESS and (len(result.text) > INLINE_LENGTH or bool(result.media))
    return ids.source(ids.FromChild(call.id)) if is_long else None


def finish_event(call: Unfinished, result: ToolResult, *, message_id: str) -> AgentEvent:
    """`tool_call_done` after the first execution, `tool_call_resumed` after one that a decision resumed."""
    if isinstance(call, ResumingCall) or (isinstance(call, RunningCall) and call.resumes):
        return resumed_event(call.call, result)
    return done_event(call.call, result, message_id=message_id)


def done_event(call: ToolCall, result: ToolResult, *, message_id: str, gated: bool = False) -> ToolCallDone:
    """`message_id` is of the message that has the result, or will have it once the call is finished."""
    outcome = _OUTCOMES[result.status]
    return ToolCallDone(id=call.id, message_id=message_id, result=result, outcome=outcome, gated=gated)


def resumed_event(call: ToolCall, result: ToolResult) -> ToolCallResumed:
    return resumed_with(call, result, _resumed_payload(result))


def resumed_with(call: ToolCall, result: ToolResult, payload: JsonValue) -> ToolCallResumed:
    """The end of a suspended call; `payload` is its result as clients get it, the model may read another text."""
    is_same = ToolResult.success(call.name, payload).text == result.text
    text = None if is_same else result.text
    return ToolCallResumed(target_id=call.id, result=payload, outcome=_OUTCOMES[result.status], text=text)


def _resumed_payload(result: ToolResult) -> JsonValue:
    if result.status is ToolStatus.ERROR:
        return {"error": result.message} if result.message is not None else result.data
    return {"data": result.data, "metadata": result.metadata} if result.metadata else result.data


def blocked(call: Unfinished, reason: str, result: ToolResult | None = None) -> FinishedCall:
    """A call that a gate blocked, with what hooks made of its result; else the loop itself makes the result."""
    if result is not None and result.status is not ToolStatus.PENDING:
        return finished(call, result)
    return replace(finished(call, ToolResult.rejected(call.call.name, reason)), source=None)


_OUTCOMES = {
    ToolStatus.SUCCESS: ToolCallOutcome.SUCCEEDED,
    ToolStatus.PENDING: ToolCallOutcome.SUSPENDED,
    ToolStatus.ERROR: ToolCallOutcome.FAILED,
}
