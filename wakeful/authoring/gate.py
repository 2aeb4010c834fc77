"""What users write as gates: `@gate` on a function that says whether a tool call may be made.

A gate is asked when the model has answered, and again just before the call is made, in an ordinary process. It should
only look and answer: it may be asked any number of times. Which gate wins, and that one that fails blocks the call, is
decided where they are asked.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, overload

from pydantic_core import to_jsonable_python

from wakeful.authoring.suspend import OneCall
from wakeful.contract.decisions import DecisionAction, SuspensionTicket, ToolCallResume
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.tools import ToolDescriptor, ToolResult


@dataclass(frozen=True)
class GateCall(OneCall[Suspend]):
    """A tool call that has not been made yet. Return None to let it be, or what one of the methods gives."""

    tool: ToolDescriptor | None = None
    """What the tool says of itself; None if the agent has no such tool."""
    resume: ToolCallResume | None = None
    """The decision that let the call go on, once it was suspended."""
    is_first_ask: bool = True
    """The model has just asked for the call. False just before it is made, when earlier calls may have changed much."""

    @property
    def approved(self) -> bool:
        """Somebody decided that the call may go on. A gate that suspends looks here, or it would ask for ever."""
        return self.resume is not None and self.resume.action is DecisionAction.RESUME

    def block(self, reason: str) -> Block:
        """Forbid the call; the run ends as blocked."""
        return Block(reason=reason)

    def result(self, data: Any) -> SetResult:
        """Make no call: this is its result. Any value that JSON can hold, or a `ToolResult`."""
        if isinstance(data, ToolResult):
            return SetResult(result=data)
        return SetResult(result=ToolResult.success(self.tool_name, to_jsonable_python(data)))

    def _asked(self, ticket: SuspensionTicket) -> Suspend:
        return Suspend(ticket=ticket)


GateFunction = Callable[[GateCall], Verdict | Awaitable[Verdict | None] | None]


@dataclass(frozen=True)
class Gate:
    """A function with a name, which agents list and runs are bound to."""

    name: str
    function: GateFunction = field(repr=False)

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    def __call__(self, call: GateCall) -> Any:
        """Call the plain function, as a unit test would."""
        return self.function(call)


@overload
def gate(function: GateFunction, /) -> Gate: ...
@overload
def gate(*, name: str | None = None) -> Callable[[GateFunction], Gate]: ...
def gate(function: GateFunction | None = None, /, *, name: str | None = None) -> Gate | Callable[[GateFunction], Gate]:
    """Make a gate of a function, sync or async, that is given a `GateCall`. A sync one runs in a thread.

    Raises:
        ConfigurationError: the function cannot be called with a `GateCall` alone, or has no name.
    """

    def make(function: GateFunction) -> Gate:
        known = name or getattr(function, "__name__", "")
        if not known or known == "<lambda>":
            raise ConfigurationError([f"gate {function!r} has no name: give it one, as in @gate(name='office_hours')"])
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            raise ConfigurationError([f"gate {known!r} must take one argument, the GateCall: {error}"]) from error
        return Gate(known, function)

    return make if function is None else make(function)


def stronger(first: Verdict | None, second: Verdict | None) -> Verdict | None:
    """The verdict that counts when both are given, the first one first."""
    return second if _strength(second) > _strength(first) else first


def _strength(verdict: Verdict | None) -> int:
    match verdict:
        case None:
            return 0
        case SetResult():
            return 1
        case Suspend():
            return 2
        case Block():
            return 3
