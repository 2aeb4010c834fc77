"""Tool descriptors, results and what a tool activity is given and gives back."""

import json
from enum import StrEnum
from typing import Self

from pydantic import Field, JsonValue, ValidationError

from wakeful.contract.base import Few, Maybe, Wire, Written
from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.hooks import HookEffects
from wakeful.contract.messages import ToolCall
from wakeful.contract.names import OUTCOME_UNKNOWN
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity
from wakeful.contract.state import StateView

DEFAULT_TIMEOUT_SECONDS = 600.0
DEFAULT_HEARTBEAT_SECONDS = 30.0


def no_parameters() -> dict[str, JsonValue]:
    return {"type": "object", "properties": {}}


class Effects(StrEnum):
    """Whether a call may run again after its worker died under it."""

    ONCE = "once"
    """Never: the model is told that the outcome is unknown."""
    IDEMPOTENT = "idempotent"
    """Yes: the tool uses its stable `idempotency_key`."""
    READ_ONLY = "read_only"
    """Yes: it changes nothing."""

    @property
    def may_repeat(self) -> bool:
        return self is not Effects.ONCE


class RuntimeKind(StrEnum):
    """What the runtime itself does when a model calls one of its own tools."""

    DELEGATE = "delegate"
    SPAWN = "spawn"
    CANCEL_TASK = "cancel_task"
    LIST_TASKS = "list_tasks"
    TASK_RESULT = "task_result"
    SEND_MESSAGE = "send_message"
    RECOVER_MESSAGES = "recover_messages"
    HANDOFF = "handoff"


class RuntimeTool(Wire):
    """A tool that no activity runs: the loop performs it."""

    kind: RuntimeKind
    agent_id: Maybe[str] = None
    """The one agent that a delegate or a handoff goes to."""
    agent_ids: Few[tuple[str, ...]] = ()
    """The agents that may be spawned."""


class ToolDescriptor(Wire):
    """What the model and the loop know of a tool; the model addresses it by `id`."""

    id: str
    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=no_parameters)
    category: Maybe[str] = None
    metadata: Few[dict[str, JsonValue]] = {}
    frontend: Few[bool] = False
    effects: Effects = Effects.ONCE
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    heartbeat_seconds: float = DEFAULT_HEARTBEAT_SECONDS
    task_queue: Maybe[str] = None
    local: Few[bool] = False
    """Runs inside the workflow's own task: half the cost, for calls of milliseconds that may be repeated."""
    result_schema: Maybe[dict[str, JsonValue]] = None
    """Of a frontend tool: the JSON schema that its result has to fit."""
    runtime: Maybe[RuntimeTool] = None
    """The runtime's own: what it does when the model calls it."""
    background: Few[bool] = False
    """A call is a background task: the model gets its id at once, and the result when there is one."""


class FrontendTool(Written):
    """A tool that the caller's own front end will perform: calling it suspends the run until the result is decided."""

    id: str = Field(min_length=1)
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=no_parameters)
    result_schema: Maybe[dict[str, JsonValue]] = None
    """What the front end gives back has to fit this JSON schema."""

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(
            id=self.id,
            name=self.id,
            description=self.description,
            parameters=self.parameters,
            frontend=True,
            result_schema=self.result_schema,
        )


class ToolStatus(StrEnum):
    SUCCESS = "success"
    PENDING = "pending"
    ERROR = "error"


class ToolResult(Wire):
    """What a tool call came to. `pending` with a ticket suspends the call."""

    tool_name: str
    status: ToolStatus
    data: JsonValue = None
    message: str | None = None
    suspension: Maybe[SuspensionTicket] = None
    metadata: Few[dict[str, JsonValue]] = {}

    @classmethod
    def success(cls, tool_name: str, data: JsonValue, message: str | None = None) -> Self:
        return cls(tool_name=tool_name, status=ToolStatus.SUCCESS, data=data, message=message)

    @classmethod
    def error(cls, tool_name: str, message: str) -> Self:
        return cls(tool_name=tool_name, status=ToolStatus.ERROR, message=message)

    @classmethod
    def error_with_code(cls, tool_name: str, code: str, message: str) -> Self:
        data: JsonValue = {"error": {"code": code, "message": message}}
        return cls(tool_name=tool_name, status=ToolStatus.ERROR, data=data, message=f"[{code}] {message}")

    @classmethod
    def suspended(cls, tool_name: str, ticket: SuspensionTicket | None = None, message: str | None = None) -> Self:
        return cls(tool_name=tool_name, status=ToolStatus.PENDING, suspension=ticket, message=message)

    @property
    def text(self) -> str:
        """What the model reads: the message, or the data (a string as it is, anything else as compact JSON)."""
        if self.message is not None:
            return self.message
        if isinstance(self.data, str):
            return self.data
        return json.dumps(self.data, separators=(",", ":"), ensure_ascii=False)


def outcome_unknown(tool_name: str, reason: str) -> str:
    """What is told of a call whose worker was lost."""
    return f"{OUTCOME_UNKNOWN}: {reason}. Whether {tool_name!r} took effect is not known; check before retrying."


class ToolOutcome(Wire):
    """What a tool activity returns to the loop."""

    result: ToolResult
    blocked: Maybe[str] = None
    """A gate forbade the call just before it ran, for this reason; the run ends."""
    gated: Few[bool] = False
    """It is a gate that wants somebody to decide, and not the tool."""
    handoff: Maybe[str] = None
    """The agent that the tool wants to go on with the run from its next step."""
    effects: Maybe[HookEffects] = None
    """What hooks of the call, and the tool itself, ask for besides."""


def tool_outcome(tool_name: str, returned: object) -> ToolOutcome:
    """What a tool activity returned, read leniently: a worker in another language may return any JSON as the data."""
    try:
        return ToolOutcome.model_validate(returned)
    except ValidationError:
        if _is_pending(returned):  # taken for a result, it would pass for a call that was made
            return ToolOutcome(result=ToolResult.error(tool_name, "the tool suspended in a way that cannot be read"))
        data = {"tool_name": tool_name, "status": ToolStatus.SUCCESS, "data": returned}
        return ToolOutcome(result=ToolResult.model_validate(data))


def _is_pending(returned: object) -> bool:
    result = returned.get("result") if isinstance(returned, dict) else None
    return isinstance(result, dict) and result.get("status") == ToolStatus.PENDING.value


class ToolCallInput(Wire):
    """What a tool activity is given; its size does not depend on the conversation.

    A tool in another service or language reads `call.arguments`, runs, and returns a `ToolOutcome`.
    """

    call: ToolCall
    identity: RunIdentity
    idempotency_key: str
    resume: Maybe[ToolCallResume] = None
    suspension_id: Maybe[str] = None
    suspension_reason: Maybe[str] = None
    agent: Maybe[str] = None
    """The digest of the agent whose gates are asked once more before the call; absent if it has none."""
    permissions: Few[tuple[Rule, ...]] = ()
    """What the thread and the run allow, ask and deny beyond the agent's own rules."""
    state: Maybe[StateView] = None
    """For the tool and hooks; absent if the agent has no state."""
    step: Few[int] = 0
    """For hooks."""
