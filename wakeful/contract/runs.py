"""Runs: identity, status, usage and how they end."""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from wakeful.contract.base import Few, Maybe, Wire, Written, json_bytes
from wakeful.contract.budgets import Spent
from wakeful.contract.files import FileRef
from wakeful.contract.limits import NAME_LENGTH, cut
from wakeful.contract.messages import MediaBlock


class RunStatus(StrEnum):
    """Whether a run has started, runs, waits (for decisions, tasks or a budget), or has ended."""

    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"


RunStatusName = Literal["created", "running", "waiting", "done"]


LONGEST_EXPIRE_AFTER = 10 * 365 * 86_400.0
"""Seconds that a thread may be idle at most before it deletes itself: Temporal's timers have a limit, too."""


class ThreadMode(StrEnum):
    """Whether a thread's workflow completes with its run or stays open for the next one."""

    RUN = "run"
    THREAD = "thread"


ThreadModeName = Literal["run", "thread"]


class OnError(StrEnum):
    """How the workflow of a thread in `run` mode closes after a run that ended in an error."""

    FAIL = "fail"
    """It fails, with the result as the detail of its failure."""
    COMPLETE = "complete"
    """It completes, with the result."""


OnErrorName = Literal["fail", "complete"]


class OnBusy(StrEnum):
    """What happens to messages that arrive while a run is under way."""

    ENQUEUE = "enqueue"
    """They start the next run; in `run` mode the model reads them before the run ends."""
    REJECT = "reject"
    """They are rejected."""
    STEER = "steer"
    """The model reads them at its next step."""
    INTERRUPT = "interrupt"
    """The run is cancelled and they start the next run, before anything that is queued."""
    ROLLBACK = "rollback"
    """Like `interrupt`, and the cancelled run's messages are removed from the conversation."""


OnBusyName = Literal["enqueue", "reject", "steer", "interrupt", "rollback"]


class ToolCallStatus(StrEnum):
    NEW = "new"
    RUNNING = "running"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Origin(StrEnum):
    USER = "user"
    SUBAGENT = "subagent"
    INTERNAL = "internal"


OriginName = Literal["user", "subagent", "internal"]


class RunMode(StrEnum):
    """Why a run is under way, as gates and hooks see it."""

    FOREGROUND = "foreground"
    """A message asked for it."""
    SCHEDULED = "scheduled"
    """A schedule started it."""
    RESUME = "resume"
    """Of a tool call: a decision has resumed it."""
    INTERNAL_WAKE = "internal_wake"
    """Mail or the end of a task started it."""


RunModeName = Literal["foreground", "scheduled", "resume", "internal_wake"]


class Adapter(StrEnum):
    """The protocol by which the message came that began a run."""

    INTERNAL = "internal"
    """Wakeful's own client, or a signal."""
    ACP = "acp"
    AI_SDK = "ai_sdk"
    AG_UI = "ag_ui"
    A2A = "a2a"


AdapterName = Literal["internal", "acp", "ai_sdk", "ag_ui", "a2a"]


def _is_foreground(mode: RunMode) -> bool:
    return mode is RunMode.FOREGROUND


def _is_internal(adapter: Adapter) -> bool:
    return adapter is Adapter.INTERNAL


class TaskRef(Wire):
    """A background task: the workflow that runs it, and the thread that owns it."""

    task_id: str
    thread_id: str
    owner_thread_id: str
    name: Maybe[str] = None
    """The owner's name for it."""


class ForkedFrom(Wire):
    """The thread and the step that a fork continues from."""

    thread_id: str
    step: int


class RunIdentity(Wire):
    """Which run this is, and which run started it."""

    thread_id: str
    parent_thread_id: Maybe[str] = None
    run_id: str
    parent_run_id: Maybe[str] = None
    agent_id: str
    parent_tool_call_id: Maybe[str] = None
    session_id: Maybe[str] = None
    transport_request_id: Maybe[str] = None
    origin: Origin = Origin.USER
    path: Few[tuple[str, ...]] = ()
    """The threads from the root to the parent."""
    task: Maybe[TaskRef] = None
    """The background task that the run is, or belongs to."""
    forked_from: Maybe[ForkedFrom] = None
    tenant: Maybe[str] = None
    """The tenant that the thread belongs to."""
    user: Maybe[str] = None
    """The user for whom the run acts: of the message that began it."""
    run_mode: Annotated[RunMode, Field(exclude_if=_is_foreground)] = RunMode.FOREGROUND
    adapter: Annotated[Adapter, Field(exclude_if=_is_internal)] = Adapter.INTERNAL

    def mode_of_call(self, *, is_resumed: bool) -> RunMode:
        """The mode in which a tool call runs."""
        return RunMode.RESUME if is_resumed else self.run_mode

    @property
    def is_task(self) -> bool:
        """Whether the run is itself a background task, rather than a delegate inside one."""
        return self.task is not None and self.task.thread_id == self.thread_id


FAIRNESS_KEY_BYTES = 64


def _valid_fairness_key(key: str) -> str:
    if not 0 < len(key.encode()) <= FAIRNESS_KEY_BYTES:
        raise ValueError(f"it must have 1 to {FAIRNESS_KEY_BYTES} bytes, which is Temporal's limit")
    return key


class Priority(Written):
    """How Temporal orders the tasks of a thread, in task queues with a backlog: its workflow's, and its activities'."""

    priority_key: Maybe[Annotated[int, Field(ge=1)]] = None
    """1 goes first; the server's default is 3, and its largest 5."""
    fairness_key: Maybe[Annotated[str, AfterValidator(_valid_fairness_key)]] = None
    """Keys share the workers by their weights; the tenant by default."""
    fairness_weight: Maybe[Annotated[float, Field(ge=0.001, le=1000)]] = None
    """The key's share; 1 by default."""

    def over(self, other: "Priority | None") -> "Priority":
        """This one, completed by the other."""
        return self if other is None else other.model_copy(update=self.model_dump())


def priority_of(own: Priority | None, tenant: str | None, *, of_agent: Priority | None = None) -> Priority:
    """The priority of a thread: its own, completed by its agent's; the fairness key is the tenant by default."""
    key = tenant
    if tenant is not None and len(tenant.encode()) > FAIRNESS_KEY_BYTES:
        key = hashlib.sha256(tenant.encode()).hexdigest()[:32]
    return (own or Priority()).over(of_agent).over(Priority(fairness_key=key))


def metadata_digest(metadata: Mapping[str, JsonValue]) -> str | None:
    """What activities refer to a run's metadata by; None if it has none."""
    if not metadata:
        return None
    return hashlib.sha256(json.dumps(metadata, sort_keys=True).encode()).hexdigest()[:16]


class Usage(Wire):
    """Tokens as the provider counts them, and their cost; a field is absent if it is not known."""

    prompt_tokens: Maybe[int] = None
    completion_tokens: Maybe[int] = None
    total_tokens: Maybe[int] = None
    cache_read_tokens: Maybe[int] = None
    cache_creation_tokens: Maybe[int] = None
    thinking_tokens: Maybe[int] = None
    cost: Maybe[float] = None
    """In the currency of the registry's prices."""
    estimated: Few[bool] = False
    """Tokens of at least one call are estimated, because its provider did not report them."""

    @property
    def tokens(self) -> int:
        """All tokens, as budgets and stop conditions count them."""
        # Not every provider reports a total: after a fallback to one that does not, the sum of the totals is too small.
        return max(self.total_tokens or 0, (self.prompt_tokens or 0) + (self.completion_tokens or 0))

    def plus(self, other: "Usage") -> "Usage":
        """The sum, field by field; negative reports are ignored."""
        if other is NO_USAGE or other == NO_USAGE:
            return self
        counts = {
            name: _sum(getattr(self, name), getattr(other, name))
            for name in Usage.model_fields
            if name not in ("cost", "estimated")
        }
        cost = self.cost if other.cost is None else round((self.cost or 0.0) + max(0.0, other.cost), 9)
        return Usage(**counts, cost=cost, estimated=self.estimated or other.estimated)


NO_USAGE = Usage()


def _sum(total: int | None, report: int | None) -> int | None:
    if report is None:
        return total
    return (total or 0) + max(0, report)


class StopDetail(Wire):
    code: str
    detail: Maybe[str] = None


class NaturalEnd(Wire):
    type: Literal["natural_end"] = "natural_end"


class BehaviorRequested(Wire):
    type: Literal["behavior_requested"] = "behavior_requested"


class Stopped(Wire):
    type: Literal["stopped"] = "stopped"
    value: StopDetail


class Cancelled(Wire):
    type: Literal["cancelled"] = "cancelled"


class Blocked(Wire):
    type: Literal["blocked"] = "blocked"
    value: str
    code: Few[str] = ""
    """What blocked it, unless it was a permission rule or a gate."""
    rule: Few[str] = ""
    """The permission rule that denied a call, or the policy's default, such as `default_behavior: deny`."""


class Suspended(Wire):
    type: Literal["suspended"] = "suspended"


class Errored(Wire):
    type: Literal["error"] = "error"
    value: str
    code: Few[str] = ""
    """What kind of error it was, in one word."""


Termination = Annotated[
    NaturalEnd | BehaviorRequested | Stopped | Cancelled | Blocked | Suspended | Errored,
    Field(discriminator="type"),
]


def status_reason(termination: Termination) -> str:
    """The reason as one word or `word:detail`, for search attributes and event results."""
    match termination:
        case NaturalEnd():
            return "natural"
        case Stopped(value=value):
            return f"stopped:{value.code}"
        case Blocked(value=text):
            return f"blocked:{text}"
        case Errored(value=text):
            return f"error:{text}"
        case _:
            return termination.type


INVALID_OUTPUT = "invalid_output"
"""The code of an error: the answer does not match the agent's output type."""


def outcome_of(termination: Termination) -> str:
    """How a run ended, in one of five words: `natural`, `stopped`, `blocked`, `error` or `cancelled`."""
    match termination:
        case NaturalEnd() | BehaviorRequested() | Suspended():
            return "natural"
        case _:
            return termination.type


def reason_code(termination: Termination) -> str:
    """Why a run ended so, as a short code that stays the same from release to release."""
    match termination:
        case Stopped(value=value):
            code = value.code
        case Blocked(code=code, rule=rule):
            code = code or ("rule" if rule else "gate")
        case Errored(code=code):
            code = code or "error"
        case _:
            code = termination.type
    return code[:CODE_LENGTH]


CODE_LENGTH = 100
"""Characters of a reason code: a plugin chooses those of its stops."""


class CancelReceipt(Wire):
    """The descendants of a run that a cancel reached, by thread id."""

    cancelled: Few[tuple[str, ...]] = ()
    ended: Few[tuple[str, ...]] = ()
    """Those that had already ended when the cancel arrived."""


class RunResult(Wire):
    """How a run ended: the result of its workflow."""

    thread_id: str
    run_id: str
    agent_id: str
    status: Literal[RunStatus.DONE] = RunStatus.DONE
    status_reason: str
    termination: Termination
    response: str = ""
    detail: Maybe[str] = None
    """Why the run was cancelled, or the thread closed after it: the reasons that were given."""

    steps: int = 0
    usage: Usage = Usage()
    unread: Few[tuple[str, ...]] = ()
    """Ids of accepted messages that the run ended too early to read."""
    output: Maybe[JsonValue] = None
    """The last answer, parsed as the agent's output type; only if the run ended naturally."""
    artifacts: Few[tuple[MediaBlock, ...]] = ()
    """The files of the last answer: those of a remote agent."""
    tool_files: Few[tuple[FileRef, ...]] = ()
    """Where the files are that tools of the run and of its sub-agents returned, the newest last: `client.files` reads
    them."""
    receipt: Maybe[CancelReceipt] = None
    """Which descendants were cancelled with the run."""
    spent: Maybe[Spent] = None
    """What the run and its descendants spent; absent if no model was called."""
    cut: Few[bool] = False
    """Something of it was too long for a failure or a memo; the thread's status has the whole."""


RESULT_BYTES = 64_000
"""Of a result in the failure or the memo of an execution."""


def fitting_result(result: RunResult, limit: int = RESULT_BYTES) -> RunResult:
    """The result, or what fits of it: long texts are cut, and lists and outputs that do not fit are left out."""
    if json_bytes(result) <= limit:
        return result
    short: dict[str, object] = {
        "agent_id": cut(result.agent_id, NAME_LENGTH),
        "status_reason": cut(result.status_reason),
        "termination": _short(result.termination),
        "detail": None if result.detail is None else cut(result.detail),
        "cut": True,
    }
    rest = {"response": "", "unread": (), "output": None, "receipt": None, "artifacts": (), "tool_files": ()}
    fitting = result.model_copy(update=short | rest)
    for field in ("receipt", "unread", "tool_files", "output"):
        more = fitting.model_copy(update={field: getattr(result, field)})
        fitting = more if json_bytes(more) <= limit else fitting
    room = length = max(0, limit - json_bytes(fitting))
    while json_bytes(result.response[:length]) > room + len('""'):
        length = length * 2 // 3
    return fitting.model_copy(update={"response": cut(result.response, length) if length else ""})


def _short(termination: Termination) -> Termination:
    match termination:
        case Errored(value=text):
            return termination.model_copy(update={"value": cut(text)})
        case Blocked(value=text, rule=rule):
            return termination.model_copy(update={"value": cut(text), "rule": cut(rule)})
        case Stopped(value=StopDetail(code=code, detail=detail)):
            short = None if detail is None else cut(detail)
            return Stopped(value=StopDetail(code=cut(code, NAME_LENGTH), detail=short))
        case _:
            return termination
