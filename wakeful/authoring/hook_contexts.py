"""What hooks are given: one context for each phase, with what there is to see and the verbs to ask for something.

A hook asks by calling verbs and returns nothing. Nothing that it asks for counts if it fails or takes too long.
"""

from dataclasses import dataclass, field
from typing import Any, Generic, overload

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar

from wakeful.authoring.hook_requests import HookRequests
from wakeful.authoring.profiles import Profiles
from wakeful.authoring.state import State
from wakeful.authoring.suspend import OneCall
from wakeful.authoring.tool import json_copy
from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.base import Written
from wakeful.contract.context import ContextMessage, ContextTarget
from wakeful.contract.decisions import DecisionAction, SuspensionTicket, ToolCallResume
from wakeful.contract.gates import Block, SetResult, Suspend
from wakeful.contract.hooks import EmittedEvent
from wakeful.contract.inference import InferenceOverrides, ModelResponse
from wakeful.contract.messages import Message, TextBlock, ToolCall
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity, RunResult, StopDetail
from wakeful.contract.tools import ToolDescriptor, ToolResult, ToolStatus
from wakeful.permissions.rules import rule_problems


class NoSettings(Written):
    """The settings of a plugin that has none."""


S = TypeVar("S", bound=BaseModel, default=NoSettings)


@dataclass(frozen=True, kw_only=True)
class HookContext(Generic[S]):
    """What every hook is given; all there is at `run_start`, `on_activate` and `on_deactivate`."""

    identity: RunIdentity
    agent: ResolvedAgent
    """The agent as the run is bound to it."""
    settings: S
    """The plugin's settings, as the run is bound to them."""
    plugin_id: str = ""
    step: int = 0
    state: State = field(default_factory=State, repr=False)
    profiles: Profiles = field(default_factory=Profiles, repr=False)
    """What is known across threads; a sync hook asks with `profiles.wait`. Writes count, whatever comes of the hook."""
    requests: HookRequests = field(default_factory=HookRequests, repr=False)
    """What the hook has asked for."""

    @overload
    def tell_model(self, message: ContextMessage, /) -> None: ...
    @overload
    def tell_model(
        self,
        key: str,
        text: str,
        /,
        *,
        target: ContextTarget = ...,
        cooldown_turns: int = ...,
        persistent: bool = ...,
    ) -> None: ...
    def tell_model(
        self,
        message: ContextMessage | str,
        text: str | None = None,
        /,
        *,
        target: ContextTarget = ContextTarget.SYSTEM,
        cooldown_turns: int = 0,
        persistent: bool = False,
    ) -> None:
        """Tell the model something besides the conversation: with this request before an inference, else with the next.

        A key has one message; the last one counts.

        Args:
            cooldown_turns: show the same text again only after so many steps.
            persistent: show it with every request until it is forgotten.
        """
        if isinstance(message, str):
            message = ContextMessage(
                key=message,
                content=(TextBlock(text=text or ""),),
                target=target,
                cooldown_turns=cooldown_turns,
                persistent=persistent,
            )
        self.requests.tell(message)

    def forget(self, key: str) -> None:
        """Do not tell the model any more what it was told under this key."""
        self.requests.forget_key(key)

    def emit(self, name: str, payload: JsonValue = None) -> None:
        """Tell whoever watches the thread.

        Raises:
            TypeError: JSON cannot hold the payload.
            ValueError: the payload is too long.
        """
        event = EmittedEvent(plugin=self.plugin_id, name=name, payload=json_copy(name, payload))
        self.requests.events += (event,)

    def stop(self, code: str, detail: str | None = None) -> None:
        """End the run as stopped, with a code for programs and a detail for people."""
        self.requests.stop = self.requests.stop or StopDetail(code=code, detail=detail)

    def block(self, reason: str) -> None:
        """End the run as blocked: what it was about to do is out of the question."""
        if self.requests.block is None:
            self.requests.block = reason

    def hand_off(self, agent_id: str) -> None:
        """Have another agent go on with the run from its next step."""
        self.requests.handoff = agent_id

    def permit(self, *rules: Rule) -> None:
        """Allow, ask about or deny tool calls for the rest of the run.

        Raises:
            ValueError: a rule cannot be read.
        """
        if problems := rule_problems(rules):
            raise ValueError("; ".join(problems))
        self.requests.permissions += rules


@dataclass(frozen=True, kw_only=True)
class StepStart(HookContext[S]):
    """A step begins: a request to the model is being made."""

    messages: tuple[Message, ...]
    """The conversation as the model will be shown it, without context messages. Only for reading."""

    def override(self, overrides: InferenceOverrides) -> None:
        """Ask this once with other settings, or another model of the same provider."""
        self.requests.override(overrides)

    def exclude_tools(self, *ids: str) -> None:
        """Do not show the model these tools this time."""
        self.requests.excluded |= frozenset(ids)

    def include_only_tools(self, *ids: str) -> None:
        """Show the model these tools only this time, and those that other hooks include."""
        self.requests.include_only(frozenset(ids))


@dataclass(frozen=True, kw_only=True)
class BeforeInference(StepStart[S]):
    """The model is about to be asked."""

    def rewrite_messages(self, messages: tuple[Message, ...]) -> None:
        """Show the model this conversation this time. The transcript stays as it is."""
        self.requests.messages = tuple(messages)


@dataclass(frozen=True, kw_only=True)
class AfterInference(HookContext[S]):
    """The model has answered; nothing of it has been done or recorded yet."""

    response: ModelResponse

    def rewrite(self, text: str) -> None:
        """Record this in place of the answer's text. Its tool calls stay."""
        self.requests.text = text

    def retry(self, note: str) -> None:
        """Do not take the answer: ask the model again, with this note."""
        if self.requests.retry is None:
            self.requests.retry = note


@dataclass(frozen=True, kw_only=True)
class ToolGate(OneCall[None], HookContext[S]):
    """A tool call that has not been made yet. It is asked about with the answer, and again just before it is made."""

    tool: ToolDescriptor | None = None
    """What the tool says of itself; None if the agent has no such tool."""
    resume: ToolCallResume | None = None
    """The decision that let the call go on, once it was suspended."""
    is_first_ask: bool = True
    """The model has just asked for the call. False just before it is made."""

    @property
    def approved(self) -> bool:
        """Somebody decided that the call may go on. A hook that suspends looks here, or it would ask for ever."""
        return self.resume is not None and self.resume.action is DecisionAction.RESUME

    def block(self, reason: str) -> None:
        """Forbid the call; the run ends as blocked."""
        self.requests.judge(Block(reason=reason))

    def set_result(self, data: Any) -> None:
        """Make no call: this is its result. Any value that JSON can hold, or a `ToolResult`."""
        self.requests.judge(SetResult(result=_result(self.tool_name, data)))

    def _asked(self, ticket: SuspensionTicket) -> None:
        self.requests.judge(Suspend(ticket=ticket))


@dataclass(frozen=True, kw_only=True)
class BeforeToolExecute(HookContext[S]):
    """A call is about to be made: gates and permission rules have let it pass."""

    call: ToolCall
    tool: ToolDescriptor | None = None
    resume: ToolCallResume | None = None

    def set_result(self, data: Any) -> None:
        """Make no call: this is its result. Any value that JSON can hold, or a `ToolResult` that is not pending."""
        if self.requests.result is None:
            self.requests.result = _final_result(self.call.name, data)


@dataclass(frozen=True, kw_only=True)
class AfterToolExecute(HookContext[S]):
    """A call has come to a result."""

    call: ToolCall
    result: ToolResult
    tool: ToolDescriptor | None = None
    resume: ToolCallResume | None = None

    def set_result(self, data: Any) -> None:
        """Put this in the place of the result: any value that JSON can hold, or a `ToolResult` that is not pending."""
        self.requests.result = _final_result(self.call.name, data)


@dataclass(frozen=True, kw_only=True)
class StepEnd(HookContext[S]):
    """A step has ended: the answer is recorded, and its calls are made."""

    response: str
    """What the model has said last."""


@dataclass(frozen=True, kw_only=True)
class RunEnd(HookContext[S]):
    """The run ends."""

    result: RunResult


def _result(tool_name: str, data: Any) -> ToolResult:
    return data if isinstance(data, ToolResult) else ToolResult.success(tool_name, to_jsonable_python(data))


def _final_result(tool_name: str, data: Any) -> ToolResult:
    result = _result(tool_name, data)
    if result.status is ToolStatus.PENDING:
        raise ValueError(
            f"the result of {tool_name!r} is pending: a call is suspended in `tool_gate`, with ctx.suspend"
        )
    return result
