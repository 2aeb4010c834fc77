"""Tool descriptors and results, and the input and output of a tool activity."""

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, JsonValue, ValidationError

from wakeful.contract.base import Few, Maybe, Wire, Written, json_bytes
from wakeful.contract.decisions import SuspensionTicket, ToolCallResume
from wakeful.contract.errors import validation_problems
from wakeful.contract.hooks import HookEffects
from wakeful.contract.limits import cut, depth_problem
from wakeful.contract.mail import Recipients
from wakeful.contract.messages import MediaBlock, ToolCall
from wakeful.contract.names import OUTCOME_UNKNOWN
from wakeful.contract.permissions import Rule
from wakeful.contract.runs import RunIdentity
from wakeful.contract.state import StateView

DEFAULT_TIMEOUT_SECONDS = 600.0
DEFAULT_HEARTBEAT_SECONDS = 8.0
FOREIGN_HEARTBEAT_SECONDS = 30.0
"""Of a tool with a task queue of its own: its program has to heartbeat by itself. Also of a descriptor that does not
say it: inputs in recorded histories have those of frontend tools."""
DEFAULT_QUEUE_SECONDS = 900.0
"""How long a call waits for a worker of its tool's own task queue."""


def no_parameters() -> dict[str, JsonValue]:
    return {"type": "object", "properties": {}}


class Effects(StrEnum):
    """Whether a call may run again after its worker was lost."""

    ONCE = "once"
    """Never: the model reads that the outcome is unknown."""
    IDEMPOTENT = "idempotent"
    """Yes: the tool uses `idempotency_key`, which is the same for every attempt."""
    READ_ONLY = "read_only"
    """Yes: it has no side effects."""

    @property
    def may_repeat(self) -> bool:
        return self is not Effects.ONCE


EffectsName = Literal["once", "idempotent", "read_only"]


class ToolKind(StrEnum):
    """What a tool does, as gates and hooks see it."""

    EXECUTE = "execute"
    READ = "read"
    EDIT = "edit"
    SEARCH = "search"
    OTHER = "other"


ToolKindName = Literal["execute", "read", "edit", "search", "other"]


_KIND_WORDS = {
    ToolKind.EDIT: (
        "add append apply assign cancel change clear close commit create delete deploy drop edit insert merge move "
        "patch pay post publish purge put refund remove rename replace save send set update upload write"
    ),
    ToolKind.SEARCH: "find glob grep lookup query search",
    ToolKind.READ: "check describe download fetch get inspect list load look open read show status view",
    ToolKind.EXECUTE: "bash call command exec execute invoke launch python run script shell start terminal",
}


def kind_of(tool_name: str) -> ToolKind:
    """What a tool's name suggests: the first kind one of whose words it has; edit before search, read and execute."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", tool_name)
    words = set(re.split(r"[^a-z0-9]+", spaced.lower()))
    return next((kind for kind, verbs in _KIND_WORDS.items() if words & set(verbs.split())), ToolKind.OTHER)


class RuntimeKind(StrEnum):
    """What the loop does when a model calls one of the runtime's own tools."""

    DELEGATE = "delegate"
    SPAWN = "spawn"
    CANCEL_TASK = "cancel_task"
    LIST_TASKS = "list_tasks"
    TASK_RESULT = "task_result"
    SEND_MESSAGE = "send_message"
    RECOVER_MESSAGES = "recover_messages"
    HANDOFF = "handoff"


class RuntimeTool(Wire):
    """A tool that the loop performs itself, without an activity."""

    kind: RuntimeKind
    agent_id: Maybe[str] = None
    """The target of a delegation or a handoff."""
    agent_ids: Few[tuple[str, ...]] = ()
    """The agents that `spawn_agent` may start."""
    recipients: Few[tuple[Recipients, ...]] = ()
    """Whom `send_message` may write to; absent in runs that started when it could write to any thread."""


class McpToolRef(Wire):
    """Which tool of which MCP server performs the calls of a tool."""

    server: str
    """The name of the server in the registry."""
    tool: str
    """The server's own name of the tool."""
    changed: Maybe[str] = None
    """How the server's tools differ from those that its settings pin: people are asked about every call."""


class ToolDescriptor(Wire):
    """A tool as the model and the loop know it; the model calls it by `id`."""

    id: str
    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=no_parameters)
    category: Maybe[str] = None
    metadata: Few[dict[str, JsonValue]] = {}
    """For programs: the model never reads it."""
    declared_kind: Maybe[ToolKind] = None
    frontend: Few[bool] = False
    effects: Effects = Effects.ONCE
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    heartbeat_seconds: float = FOREIGN_HEARTBEAT_SECONDS
    task_queue: Maybe[str] = None
    """Of the workers that run it, which may be programs in another language; absent if the run's own workers do."""
    queue_seconds: Maybe[float] = None
    """How long a call may wait for a worker of that task queue; absent for any time."""
    retries: Few[int] = 0
    """How often Temporal runs a call on that task queue again if the tool raised an error that can be retried."""
    local: Few[bool] = False
    """Run it as a local activity: half the cost, for repeatable calls that take milliseconds."""
    result_schema: Maybe[dict[str, JsonValue]] = None
    """Of a frontend tool: the JSON schema that its result must match."""
    runtime: Maybe[RuntimeTool] = None
    """Set if the runtime itself performs the tool."""
    background: Few[bool] = False
    """A call starts a background task: the model gets the task's id at once and the result later."""
    mcp: Maybe[McpToolRef] = None
    """Set if an MCP server performs the tool."""

    @property
    def kind(self) -> ToolKind:
        """What the tool says it does, or else what its name suggests."""
        return self.declared_kind or kind_of(self.id)


class FrontendTool(Written):
    """A tool that the caller's front end performs: a call suspends until a decision brings its result."""

    id: str = Field(min_length=1)
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=no_parameters)
    result_schema: Maybe[dict[str, JsonValue]] = None
    """The JSON schema that the front end's result must match."""

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
    """How a tool call ended; `pending` means that it is suspended."""

    SUCCESS = "success"
    PENDING = "pending"
    ERROR = "error"


ToolStatusName = Literal["success", "pending", "error"]


class ToolResult(Wire):
    """The result of a tool call. `pending` with a ticket suspends the call."""

    tool_name: str
    status: ToolStatus
    data: JsonValue = None
    message: str | None = None
    suspension: Maybe[SuspensionTicket] = None
    metadata: Few[dict[str, JsonValue]] = {}
    media: Few[tuple[MediaBlock, ...]] = ()
    """Pictures, documents and audio that the model gets beside the text."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            tool_name: str,
            status: ToolStatus | ToolStatusName,
            data: JsonValue = ...,
            message: str | None = ...,
            suspension: SuspensionTicket | None = ...,
            metadata: Mapping[str, JsonValue] = ...,
            media: Sequence[MediaBlock] = ...,
        ) -> None: ...

    @classmethod
    def success(cls, tool_name: str, data: JsonValue, message: str | None = None) -> Self:
        """A result with data."""
        return cls(tool_name=tool_name, status=ToolStatus.SUCCESS, data=data, message=message)

    @classmethod
    def error(cls, tool_name: str, message: str) -> Self:
        """A failure for the model to read."""
        return cls(tool_name=tool_name, status=ToolStatus.ERROR, message=message)

    @classmethod
    def rejected(cls, tool_name: str, reason: str) -> Self:
        """The error of a call that a gate, a rule or a hook blocked."""
        return cls(tool_name=tool_name, status=ToolStatus.ERROR, message=reason, metadata={"rejected": True})

    @classmethod
    def error_with_code(cls, tool_name: str, code: str, message: str) -> Self:
        """A failure with a code that programs can tell apart."""
        data: JsonValue = {"error": {"code": code, "message": message}}
        return cls(tool_name=tool_name, status=ToolStatus.ERROR, data=data, message=f"[{code}] {message}")

    @classmethod
    def suspended(cls, tool_name: str, ticket: SuspensionTicket | None = None, message: str | None = None) -> Self:
        """Suspend the call until a decision."""
        return cls(tool_name=tool_name, status=ToolStatus.PENDING, suspension=ticket, message=message)

    @property
    def text(self) -> str:
        """What the model reads: the message, or else the data (a string as it is, other values as compact JSON)."""
        if self.message is not None:
            return self.message
        if isinstance(self.data, str):
            return self.data
        return json.dumps(self.data, separators=(",", ":"), ensure_ascii=False)

    def cut_to(self, limit: int) -> "ToolResult":
        """The result; if its JSON has more bytes than `limit`, only its text, or the beginning of that and a note."""
        if json_bytes(self) <= limit:
            return self
        if self.media:
            return self._without_media(limit).cut_to(limit)
        if (size := json_bytes(self.text)) <= limit:
            return self.model_copy(update={"data": None, "metadata": {}, "message": self.text})
        shown = self.text.encode(errors="replace")[: limit - 2].decode(errors="ignore")
        while json_bytes(shown) > limit:  # escapes take up to six bytes for one
            shown = shown[: len(shown) // 2]
        message = f"{shown}\n[cut: the result has {size:,} bytes, and its first {len(shown.encode()):,} are shown]"
        return self.model_copy(update={"data": None, "metadata": {}, "message": message})

    def _without_media(self, limit: int) -> "ToolResult":
        """The result with notes in the place of its media."""
        notes = (f"[{block.type} left out: the whole result may have {limit:,} bytes]" for block in self.media)
        return self.model_copy(update={"media": (), "message": "\n".join((self.text, *notes))})


def outcome_unknown(tool_name: str, reason: str) -> str:
    """What the model reads of a call whose worker was lost."""
    return (
        f"{OUTCOME_UNKNOWN}: {reason}. It is not known whether {tool_name!r} took effect. "
        "Check before you call it again."
    )


def never_started(tool: ToolDescriptor) -> str:
    """What the model reads of a call that no worker of its tool's task queue has started in time."""
    return (
        f"The call was not executed: no worker of task queue {tool.task_queue!r} has started it within "
        f"{tool.queue_seconds:g} seconds. Use another tool, or report the problem."
    )


class ToolOutcome(Wire):
    """The output of a tool activity."""

    result: ToolResult
    blocked: Maybe[str] = None
    """A rule, a gate or a hook blocked the call just before it ran; the run ends."""
    rule: Few[str] = ""
    """The permission rule that blocked it, if one did."""
    gated: Few[bool] = False
    """A gate suspended the call, not the tool."""
    handoff: Maybe[str] = None
    """The agent that takes the run over from its next step."""
    effects: Maybe[HookEffects] = None
    """What the call's hooks and the tool itself request."""


FOREIGN_RESULT_BYTES = 300_000
"""Bytes of a result that a worker in another language may return; our own cuts results to less."""


def tool_outcome(tool_name: str, returned: object) -> ToolOutcome:
    """The output of a tool activity. A worker in another language may return any JSON, which is then the data.

    A `ToolOutcome` has a `result` that names this tool and has a status. Whatever else looks like one is data.
    """
    if isinstance(returned, bytes):
        return _unreadable(tool_name, f"it is binary data of {len(returned):,} bytes, and not JSON")
    if (problem := depth_problem(returned)) is not None:
        return _unreadable(tool_name, problem)
    if (claimed := _claimed_result(tool_name, returned)) is None:
        returned = {"result": {"tool_name": tool_name, "status": ToolStatus.SUCCESS, "data": returned}}
    elif "tool_name" not in claimed:  # taken as data, it would pass for a completed call
        return _unreadable(tool_name, f'its suspension lacks "tool_name": {json.dumps(tool_name)}')
    try:
        outcome = ToolOutcome.model_validate(returned)
    except ValidationError as error:
        return _unreadable(tool_name, "; ".join(validation_problems(error)))
    result = outcome.result.cut_to(FOREIGN_RESULT_BYTES)
    return outcome if result is outcome.result else outcome.model_copy(update={"result": result})


def unreadable_result(problem: str) -> str:
    """What the model reads of a call whose result is malformed."""
    return f"The tool ran, but its result cannot be read: {cut(problem)}. Check what it did before you call it again."


def _unreadable(tool_name: str, problem: str) -> ToolOutcome:
    return ToolOutcome(result=ToolResult.error(tool_name, unreadable_result(problem)))


def _claimed_result(tool_name: str, returned: object) -> dict[str, object] | None:
    """The `result` of what claims to be a `ToolOutcome` of this tool; None of data."""
    result = returned.get("result") if isinstance(returned, dict) else None
    if not isinstance(result, dict):
        return None
    if "tool_name" not in result:
        return result if result.get("status") == ToolStatus.PENDING.value and "suspension" in result else None
    return result if result["tool_name"] == tool_name and "status" in result else None


class ToolCallInput(Wire):
    """The input of a tool activity; its size does not depend on the conversation.

    A tool in another service or language reads `call.arguments`, runs, and returns a `ToolOutcome`.
    """

    call: ToolCall
    identity: RunIdentity
    idempotency_key: str
    resume: Maybe[ToolCallResume] = None
    suspension_id: Maybe[str] = None
    suspension_reason: Maybe[str] = None
    agent: Maybe[str] = None
    """The digest of the agent whose gates are asked again before the call; absent if it has none."""
    permissions: Few[tuple[Rule, ...]] = ()
    """Rules of the thread and the run, on top of the agent's."""
    questions: Few[tuple[tuple[Rule, ...], ...]] = ()
    """Groups of rules, of the request and of ancestors: what one of them asks about, no rule outside of it allows."""
    state: Maybe[StateView] = None
    """For the tool and hooks; absent if the agent has no state."""
    step: Few[int] = 0
    """For hooks."""
    live: Few[bool] = False
    """The run is watched: heartbeat the progress of the call more often."""
    metadata: Few[dict[str, JsonValue]] = {}
    """Of the run; only for a tool with its own task queue, a local tool and a background tool."""
    metadata_digest: Maybe[str] = None
    """For other tools: the digest of the run's metadata, which history records with the agent."""
    suspension_state: Maybe[JsonValue] = None
    """What the call kept with its last suspension."""
    mcp: Maybe[McpToolRef] = None
    """Set if an MCP server performs the call."""
