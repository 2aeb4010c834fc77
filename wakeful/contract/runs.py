"""Runs: who they are, how they are asked for, where they stand and how they end."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.budgets import Spent


class RunStatus(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"


class ThreadMode(StrEnum):
    """Whether a thread's workflow ends with its run or stays open for the next."""

    RUN = "run"
    THREAD = "thread"


class OnBusy(StrEnum):
    """What becomes of messages that come while a run is under way."""

    ENQUEUE = "enqueue"
    """They are the next run's; in `run` mode the model reads them before the run ends."""
    REJECT = "reject"
    """They are refused."""
    STEER = "steer"
    """The model reads them at its next step."""
    INTERRUPT = "interrupt"
    """The run is cancelled, and they are the next run's, before anything queued."""
    ROLLBACK = "rollback"
    """The same, and everything the cancelled run said and heard is undone."""


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


class TaskRef(Wire):
    """A background task, by the workflow that runs it and the thread that owns it."""

    task_id: str
    thread_id: str
    owner_thread_id: str
    name: Maybe[str] = None
    """What its owner calls it."""


class ForkedFrom(Wire):
    """Where a thread was forked from: after this step of that thread."""

    thread_id: str
    step: int


class RunIdentity(Wire):
    """Who a run is, and who started it."""

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
    """The background task that the run is, or is a part of."""
    forked_from: Maybe[ForkedFrom] = None

    @property
    def is_task(self) -> bool:
        """The run is a background task itself, and not a delegate within one."""
        return self.task is not None and self.task.thread_id == self.thread_id


class Usage(Wire):
    """Tokens, as the provider counts them, and what they cost; absent where nobody says."""

    prompt_tokens: Maybe[int] = None
    completion_tokens: Maybe[int] = None
    total_tokens: Maybe[int] = None
    cache_read_tokens: Maybe[int] = None
    cache_creation_tokens: Maybe[int] = None
    thinking_tokens: Maybe[int] = None
    cost: Maybe[float] = None
    """Money, by the registry's prices."""

    def plus(self, other: "Usage") -> "Usage":
        """The sum, field by field; a negative report counts as nothing."""
        if other is NO_USAGE or other == NO_USAGE:
            return self
        counts = {
            name: _sum(getattr(self, name), getattr(other, name)) for name in Usage.model_fields if name != "cost"
        }
        cost = self.cost if other.cost is None else round((self.cost or 0.0) + max(0.0, other.cost), 9)
        return Usage(**counts, cost=cost)


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


class Suspended(Wire):
    type: Literal["suspended"] = "suspended"


class Errored(Wire):
    type: Literal["error"] = "error"
    value: str


Termination = Annotated[
    NaturalEnd | BehaviorRequested | Stopped | Cancelled | Blocked | Suspended | Errored,
    Field(discriminator="type"),
]


def status_reason(termination: Termination) -> str:
    """The reason in one word or `word:detail`, as search attributes and event results carry it."""
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


class CancelReceipt(Wire):
    """What a cancel reached below a run: sub-agents and tasks by their threads."""

    cancelled: Few[tuple[str, ...]] = ()
    ended: Few[tuple[str, ...]] = ()
    """Those that had come to their own end before they heard of it."""


class RunResult(Wire):
    """How a run ended; the result of its workflow."""

    thread_id: str
    run_id: str
    agent_id: str
    status: Literal[RunStatus.DONE] = RunStatus.DONE
    status_reason: str
    termination: Termination
    response: str = ""
    detail: Maybe[str] = None
    steps: int = 0
    usage: Usage = Usage()
    unread: Few[tuple[str, ...]] = ()
    """Ids of submitted messages that the run ended too early to read."""
    output: Maybe[JsonValue] = None
    """The last answer as the agent's output type asks for it; only of a run that came to its natural end."""
    receipt: Maybe[CancelReceipt] = None
    """What was stopped with the run, if anything ran below it."""
    tree: Maybe[Spent] = None
    """What the run and everything it started have spent; absent if it never asked a model."""
