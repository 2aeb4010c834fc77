"""`@gate`: a function that decides whether a tool call may run.

A gate checks a call when the model asks for it, and again just before it runs. Gates run in activities and may do I/O,
but they can be called any number of times, so they must have no side effects. A gate that fails blocks the call.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, cast, overload

from pydantic_core import to_jsonable_python

from wakeful.authoring.lifespan import D_co, asked_type, first_parameter
from wakeful.authoring.methods import MethodOf, bound, method_of, unbound_problem, unwrapped
from wakeful.authoring.suspend import SuspendableCall
from wakeful.contract.decisions import DecisionAction, SuspensionTicket, ToolCallResume
from wakeful.contract.errors import ConfigurationError
from wakeful.contract.gates import Block, SetResult, Suspend, Verdict
from wakeful.contract.runs import RunMode
from wakeful.contract.tools import ToolDescriptor, ToolKind, ToolResult, kind_of


@dataclass(frozen=True)
class GateCall(SuspendableCall[Suspend], Generic[D_co]):
    """A tool call that has not run yet. Return None to allow it, or a verdict: `block`, `suspend` or `result`.

    `GateCall[Database]` says what `deps` is: the value that the registry's lifespan yields.
    """

    tool: ToolDescriptor | None = None
    """The tool's descriptor; None if the agent has no such tool."""
    resume: ToolCallResume | None = None
    """The decision that resumed the call, if it was suspended before."""
    is_first_check: bool = True
    """True when the model has just asked for the call, False just before it runs: earlier calls have run since."""
    deps: D_co = field(default=cast("D_co", None), repr=False)
    """The value of the registry's lifespan; None if it has none."""

    @property
    def run_mode(self) -> RunMode:
        """Why the call runs: `resume` if a decision has resumed it, or else the mode of its run."""
        return self.identity.mode_of_call(is_resumed=self.resume is not None)

    @property
    def tool_kind(self) -> ToolKind:
        """What the tool does: what it declares, or what its name suggests."""
        return kind_of(self.tool_name) if self.tool is None else self.tool.kind

    @property
    def approved(self) -> bool:
        """Whether a decision has resumed the call. Check this before you suspend, or the call suspends for ever."""
        return self.resume is not None and self.resume.action is DecisionAction.RESUME

    def block(self, reason: str) -> Block:
        """Forbid the call. The run ends as blocked."""
        return Block(reason=reason)

    def result(self, data: Any) -> SetResult:
        """Do not run the call; use this as its result: any JSON value, or a `ToolResult`."""
        if isinstance(data, ToolResult):
            return SetResult(result=data)
        return SetResult(result=ToolResult.success(self.tool_name, to_jsonable_python(data)))

    def _suspended(self, ticket: SuspensionTicket) -> Suspend:
        return Suspend(ticket=ticket)


GateFunction = Callable[[GateCall[Any]], Verdict | Awaitable[Verdict | None] | None]
GateMethod = Callable[[Any, GateCall[Any]], Verdict | Awaitable[Verdict | None] | None]


@dataclass(frozen=True)
class Gate:
    """A gate function and its name, by which agents list it and runs are bound to it."""

    name: str
    function: GateFunction = field(repr=False)
    method: MethodOf | None = None
    """Set of a method that is not bound yet: no agent can have it."""

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.function)

    @property
    def deps_type(self) -> object:
        """The type in `GateCall[…]`: what the registry's lifespan has to yield."""
        return asked_type(first_parameter(self.function), GateCall)

    def __call__(self, call: GateCall[Any]) -> Any:
        """Call the plain function, for example in a unit test."""
        return self.function(call)

    def __get__(self, instance: object, owner: type | None = None) -> "Gate":
        """Of a method: the gate of this instance, which agents can have. Other gates stay as they are."""
        if self.method is None or (instance is None and self.method == "instance"):
            return self
        return replace(self, function=bound(self.function, self.method, instance, owner), method=None)

    @property
    def problem(self) -> str | None:
        """Why no agent can have this gate: it is a method without its instance."""
        return unbound_problem(f"gate {self.name!r}", self.function, self.method)


@overload
def gate(function: GateFunction | GateMethod, /) -> Gate: ...
@overload
def gate(*, name: str | None = None) -> Callable[[GateFunction | GateMethod], Gate]: ...
def gate(
    function: GateFunction | GateMethod | None = None, /, *, name: str | None = None
) -> Gate | Callable[[GateFunction | GateMethod], Gate]:
    """Make a gate from a function, sync or async, that takes a `GateCall`. A sync function runs in a thread.

    Of a method, the gate is `desk.check`: bound to an instance of its class.

    Raises:
        ConfigurationError: the function does not take exactly one argument, or has no name.
    """

    def make(given: GateFunction | GateMethod) -> Gate:
        method, function = method_of(given), unwrapped(given)
        gate_name = name or getattr(function, "__name__", "")
        if not gate_name or gate_name == "<lambda>":
            raise ConfigurationError([f"gate {function!r} has no name: give it one, as in @gate(name='office_hours')"])
        try:
            inspect.signature(function).bind(*([None] if method is None else [None, None]))
        except TypeError as error:
            raise ConfigurationError([f"gate {gate_name!r} must take one argument, the GateCall: {error}"]) from error
        return Gate(gate_name, function, method)

    return make if function is None else make(function)


def stronger(first: Verdict | None, second: Verdict | None) -> Verdict | None:
    """Which of two verdicts on a call wins: block over suspend over a result, and the first of equals."""
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
