"""The calls of one step, and where each of them stands. They are a union, so that a wrong state cannot be said."""

from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.hooks import HookEffects
from wakeful.contract.inference import ModelResponse
from wakeful.contract.mail import Letter
from wakeful.contract.messages import ToolCall
from wakeful.contract.runs import ToolCallStatus
from wakeful.contract.tools import ToolResult
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.transitions import check_tool_call

Performer = Literal["activity", "sub_agent", "runtime"]


@dataclass(frozen=True)
class NewCall:
    call: ToolCall
    kind: Literal["new"] = "new"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.NEW


@dataclass(frozen=True)
class RunningCall:
    """`id` names the work in flight; `grants` counts the decisions that let the call run (again).

    `edited` are the arguments that a decision put in place of the model's; they hold until the next one edits them.
    """

    call: ToolCall
    id: str
    grants: int = 0
    resume: ToolCallResume | None = None
    ticket: SuspensionTicket | None = None
    edited: JsonValue = None
    child: str | None = None
    """The thread of the sub-agent that it was delegated to, once it has a name."""
    awaits: str | None = None
    """The background task whose end it waits for; it has no work of its own."""
    expires_at: int | None = None
    """When it will not wait for its sub-agent any longer."""
    timed_out: bool = False
    letter: Letter | None = None
    """The message that it sends."""
    by: Performer = "activity"
    """Who does its work: a tool's activity, a sub-agent, or the runtime itself."""
    kind: Literal["running"] = "running"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.RUNNING


@dataclass(frozen=True)
class SuspendedCall:
    """`gated`: a gate asked for it before the tool ran, so other calls of the step go on."""

    call: ToolCall
    ticket: SuspensionTicket
    since: int
    grants: int = 0
    edited: JsonValue = None
    gated: bool = False
    escalated: bool = False
    """Watchers were told that its decision is overdue."""
    kind: Literal["suspended"] = "suspended"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.SUSPENDED

    @property
    def alarms(self) -> tuple[int, ...]:
        """When time alone will do something about it: the milliseconds since 1970 that are still to come."""
        escalates_at = None if self.escalated else self.ticket.escalates_at
        return tuple(at for at in (self.ticket.expires_at, escalates_at) if at is not None)


@dataclass(frozen=True)
class ResumingCall:
    """A suspended call that a decision let go on; where calls run one by one, it waits for its turn."""

    call: ToolCall
    ticket: SuspensionTicket
    resume: ToolCallResume
    grants: int
    edited: JsonValue = None
    kind: Literal["resuming"] = "resuming"

    @property
    def status(self) -> ToolCallStatus:
        return ToolCallStatus.RESUMING


SettledStatus = Literal[ToolCallStatus.SUCCEEDED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED]


@dataclass(frozen=True)
class SettledCall:
    """`source` is the activity whose recorded result this is; without one the loop itself made the result."""

    call: ToolCall
    status: SettledStatus
    result: ToolResult
    source: str | None = None
    effects: HookEffects | None = None
    """What its hooks and the tool itself asked for besides; folded in call order."""
    kind: Literal["settled"] = "settled"


Call = Annotated[NewCall | RunningCall | SuspendedCall | ResumingCall | SettledCall, Field(discriminator="kind")]


@dataclass(frozen=True)
class Batch:
    """The tool calls of one step, in the model's order, with the answer that asked for them."""

    inference_id: str
    message_id: str
    response: ModelResponse
    calls: tuple[Call, ...]
    folded: int = 0
    """Of how many calls the effects are folded."""

    def find(self, target: str) -> Call | None:
        """The call with this id, else the one suspended under this suspension id."""
        for call in self.calls:
            if call.call.id == target:
                return call
        for call in self.calls:
            if isinstance(call, SuspendedCall) and call.ticket.suspension.id == target:
                return call
        return None

    def with_call(self, after: Call) -> "Batch":
        """The batch with one call moved on; an edge that the table does not have is a bug, and loud."""
        moved = []
        for before in self.calls:
            if before.call.id == after.call.id:
                check_tool_call(before.status, after.status)
                moved.append(after)
            else:
                moved.append(before)
        return replace(self, calls=tuple(moved))

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
    def waiting(self) -> tuple[NewCall | ResumingCall, ...]:
        """Those that have still to be started: first what a decision let go on, then the model's order."""
        return (*self.resuming, *self.new)

    def before(self, id: str) -> tuple[Call, ...]:
        """The calls that the model asked for before this one."""
        return tuple(takewhile(lambda call: call.call.id != id, self.calls))
