"""The contexts that hooks get: one class per phase, with what the hook can read and the methods it can call.

A hook makes requests by calling methods of its context, and returns None. If it raises or times out, its requests are
discarded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from wakeful.authoring.hook_requests import Requesting
from wakeful.authoring.lifespan import D_co
from wakeful.authoring.profiles import Profiles
from wakeful.authoring.state import State
from wakeful.authoring.suspend import SuspendableCall
from wakeful.authoring.tool_context import json_copy
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import Written
from wakeful.contract.decisions import DecisionAction, SuspensionTicket, ToolCallResume
from wakeful.contract.gates import Block, SetResult, Suspend
from wakeful.contract.hooks import EmittedEvent
from wakeful.contract.inference import ModelResponse
from wakeful.contract.messages import Message, ToolCall
from wakeful.contract.runs import RunIdentity, RunMode, RunResult
from wakeful.contract.tools import ToolDescriptor, ToolKind, ToolResult, ToolStatus, kind_of


class NoSettings(Written):
    """The settings type of a plugin without settings."""


class ReadTranscript(Protocol):
    """Reads the newest messages of a thread's conversation, or all."""

    async def __call__(self, last: int | None = None, /) -> tuple[Message, ...]: ...


async def no_transcript(_last: int | None = None, /) -> tuple[Message, ...]:
    """Of a context that was made without a thread, as in a unit test."""
    return ()


S = TypeVar("S", bound=BaseModel, default=NoSettings)


@dataclass(frozen=True, kw_only=True)
class HookContext(Requesting, Generic[S, D_co]):
    """What every hook gets; `run_start`, `on_activate` and `on_deactivate` get nothing more."""

    identity: RunIdentity
    agent: ResolvedAgent
    """The agent that the run is bound to. Read-only: changes to it have no effect."""
    settings: S
    """The plugin's settings for this agent, as they were when the run started."""
    plugin_id: str = ""
    step: int = 0
    state: State = field(default_factory=State, repr=False)
    """The agent's state. Writes are discarded if the hook fails."""
    profiles: Profiles = field(default_factory=Profiles, repr=False)
    """Data that is shared across threads. Sync hooks use `profiles.wait`. Writes stay, even if the hook fails."""
    deps: D_co = field(default=cast("D_co", None), repr=False)
    """The value of the registry's lifespan; None if it has none."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    """Of the message that began the run."""

    @property
    def tenant(self) -> str | None:
        """The tenant that the thread belongs to."""
        return self.identity.tenant

    @property
    def user(self) -> str | None:
        """The user for whom the run acts."""
        return self.identity.user

    @property
    def run_mode(self) -> RunMode:
        """Why the run is under way; in the hooks of a tool call, `resume` if a decision has resumed the call."""
        return self.identity.run_mode

    def emit(self, name: str, payload: JsonValue = None) -> None:
        """Emit an event to everyone who watches the thread.

        Raises:
            TypeError: the payload is not JSON.
            ValueError: the payload is too large.
        """
        event = EmittedEvent(plugin=self.plugin_id, name=name, payload=json_copy(name, payload))
        self.requests.events += (event,)

    def block(self, reason: str) -> None:
        """End the run as blocked: it must not do what it was about to do."""
        if self.requests.block is None:
            self.requests.block = reason


@dataclass(frozen=True, kw_only=True)
class StepStart(HookContext[S, D_co]):
    """A step starts: the request to the model is being built."""

    messages: tuple[Message, ...]
    """The conversation as the request will include it, without context messages. Read-only."""


@dataclass(frozen=True, kw_only=True)
class BeforeInference(StepStart[S, D_co]):
    """The model is about to be called."""

    def rewrite_messages(self, messages: Sequence[Message]) -> None:
        """Send these messages instead, in this request only. The transcript does not change."""
        self.requests.messages = tuple(messages)


@dataclass(frozen=True, kw_only=True)
class AfterInference(HookContext[S, D_co]):
    """The model has answered; the answer is not recorded yet, and none of its tool calls has run."""

    response: ModelResponse

    def rewrite(self, text: str) -> None:
        """Replace the answer's text. Its tool calls stay."""
        self.requests.text = text

    def retry(self, note: str) -> None:
        """Discard the answer and call the model again, with this note for it to read."""
        if self.requests.retry is None:
            self.requests.retry = note


@dataclass(frozen=True, kw_only=True)
class CallContext(HookContext[S, D_co]):
    """What the hooks of a tool call get."""

    read_transcript: ReadTranscript = field(default=no_transcript, repr=False)

    async def transcript(self, last: int | None = None) -> tuple[Message, ...]:
        """The conversation with this step's answer and the results so far: the newest `last` messages, or all.

        The worker's cache has it, or it is read from history; it is not recorded again. The step's messages have no
        ids yet. The time that it takes counts towards the hook's timeout.
        """
        return tuple(message.model_copy(deep=True) for message in await self.read_transcript(last))


@dataclass(frozen=True, kw_only=True)
class ToolGate(SuspendableCall[None], CallContext[S, D_co]):
    """A tool call that has not run yet: checked when the model asks for it, and again just before it runs."""

    tool: ToolDescriptor | None = None
    """The tool's descriptor; None if the agent has no such tool."""
    resume: ToolCallResume | None = None
    """The decision that resumed the call, if it was suspended before."""
    is_first_check: bool = True
    """True when the model has just asked for the call, False just before it runs."""

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

    def block(self, reason: str) -> None:
        """Forbid the call. The run ends as blocked."""
        self.requests.add_verdict(Block(reason=reason))

    def set_result(self, data: Any) -> None:
        """Do not run the call; use this as its result: any JSON value, or a `ToolResult`."""
        self.requests.add_verdict(SetResult(result=_result(self.tool_name, data)))

    def _suspended(self, ticket: SuspensionTicket) -> None:
        self.requests.add_verdict(Suspend(ticket=ticket))


@dataclass(frozen=True, kw_only=True)
class BeforeToolExecute(CallContext[S, D_co]):
    """A tool call is about to run: gates and permission rules have allowed it."""

    call: ToolCall
    tool: ToolDescriptor | None = None
    resume: ToolCallResume | None = None

    @property
    def run_mode(self) -> RunMode:
        """Why the call runs: `resume` if a decision has resumed it, or else the mode of its run."""
        return self.identity.mode_of_call(is_resumed=self.resume is not None)

    @property
    def tool_kind(self) -> ToolKind:
        """What the tool does: what it declares, or what its name suggests."""
        return kind_of(self.call.name) if self.tool is None else self.tool.kind

    def set_result(self, data: Any) -> None:
        """Do not run the call; use this as its result: any JSON value, or a `ToolResult` that is not pending."""
        if self.requests.result is None:
            self.requests.result = _final_result(self.call.name, data)


@dataclass(frozen=True, kw_only=True)
class AfterToolExecute(CallContext[S, D_co]):
    """A tool call has returned a result."""

    call: ToolCall
    result: ToolResult
    tool: ToolDescriptor | None = None
    resume: ToolCallResume | None = None

    @property
    def run_mode(self) -> RunMode:
        """Why the call runs: `resume` if a decision has resumed it, or else the mode of its run."""
        return self.identity.mode_of_call(is_resumed=self.resume is not None)

    @property
    def tool_kind(self) -> ToolKind:
        """What the tool does: what it declares, or what its name suggests."""
        return kind_of(self.call.name) if self.tool is None else self.tool.kind

    def set_result(self, data: Any) -> None:
        """Replace the result: with any JSON value, or a `ToolResult` that is not pending."""
        self.requests.result = _final_result(self.call.name, data)


@dataclass(frozen=True, kw_only=True)
class StepEnd(HookContext[S, D_co]):
    """A step has ended: the answer is recorded and its tool calls have finished."""

    response: str
    """The text of the model's last answer."""


@dataclass(frozen=True, kw_only=True)
class RunEnd(HookContext[S, D_co]):
    """The run ends."""

    result: RunResult


def _result(tool_name: str, data: Any) -> ToolResult:
    return data if isinstance(data, ToolResult) else ToolResult.success(tool_name, to_jsonable_python(data))


def _final_result(tool_name: str, data: Any) -> ToolResult:
    result = _result(tool_name, data)
    if result.status is ToolStatus.PENDING:
        raise ValueError(
            f"the result of {tool_name!r} is pending: only `tool_gate` can suspend a call, with ctx.suspend"
        )
    return result
