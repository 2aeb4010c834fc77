"""What is known of a thread, as Temporal and the thread itself tell it: the ground on which a diagnosis stands.

Times are milliseconds since 1970, by Temporal's clock; lengths of time are seconds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue, ValidationError

from wakeful.contract import names
from wakeful.contract.runs import RunResult
from wakeful.contract.streaming import StreamCheckpoint
from wakeful.contract.subagents import ChildResult
from wakeful.contract.views import StatusView

POLL_SECONDS = 75.0
"""A worker's poll lasts a minute at most and is noted when it begins: who has not polled for longer is gone."""


class ActivityState(StrEnum):
    SCHEDULED = "scheduled"
    STARTED = "started"
    STOPPING = "stopping"
    """It was told to stop, and has not stopped yet."""
    PAUSED = "paused"


class QueueKind(StrEnum):
    """The two queues that go by one name."""

    WORKFLOW = "workflow"
    ACTIVITY = "activity"


class Closing(StrEnum):
    """How Temporal says that an execution was closed."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Failure:
    """What went wrong the last time: `kind` is the type that the runtime or Temporal gave it."""

    message: str
    kind: str = ""
    at: int | None = None


@dataclass(frozen=True)
class Pause:
    at: int | None = None
    by: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Tries:
    """How a model call is tried, by the agent that the run is bound to."""

    models: tuple[str, ...]
    """In the order in which they are asked."""
    each: int
    """How often each is asked."""
    first_token_seconds: float
    idle_seconds: float


@dataclass(frozen=True)
class Activity:
    """A pending activity."""

    id: str
    kind: str
    state: ActivityState
    queue: str
    attempt: int = 1
    most_attempts: int = 0
    """0 means any number."""
    scheduled_at: int | None = None
    """When its current attempt was, or will be, put on the queue."""
    first_at: int | None = None
    """When it was asked for, if that is among the newest events."""
    started_at: int | None = None
    heartbeat_at: int | None = None
    next_at: int | None = None
    """When it is tried again, while it backs off."""
    timeout: float = 0.0
    heartbeat_timeout: float = 0.0
    failure: Failure | None = None
    worker: str = ""
    pause: Pause | None = None
    summary: str = ""
    reported: JsonValue = None
    """What its newest heartbeat says."""
    grown: int | None = None
    """Of an answer that is coming: by how many characters it grew while it was looked at."""
    looked: float = 0.0
    tries: Tries | None = None

    @property
    def is_model_call(self) -> bool:
        return self.kind == names.ACTIVITY_INFER

    @property
    def is_own(self) -> bool:
        """It is one of the runtime's, and no tool."""
        return self.kind in names.RESERVED_TOOL_NAMES

    @property
    def checkpoint(self) -> StreamCheckpoint | None:
        """As much of the model's answer as has come."""
        if not self.is_model_call or self.reported is None:
            return None
        try:
            return StreamCheckpoint.model_validate(self.reported)
        except ValidationError:
            return None

    @property
    def alive_at(self) -> int | None:
        """Its last sign of life in this attempt."""
        return max((at for at in (self.started_at, self.heartbeat_at) if at is not None), default=None)


@dataclass(frozen=True)
class Poller:
    identity: str
    at: int
    version: str = ""
    """`deployment.build` of a worker with Worker Versioning."""


@dataclass(frozen=True)
class Queue:
    """Who polls a task queue, and what waits in it; Temporal counts only about."""

    name: str
    kind: QueueKind
    pollers: tuple[Poller, ...] = ()
    backlog: int = 0
    backlog_age: float = 0.0
    versions: tuple[str, ...] = ()
    """The versions that its tasks go to, unless a run is pinned to another; none without Worker Versioning."""

    def live(self, now: int) -> tuple[Poller, ...]:
        return tuple(poller for poller in self.pollers if now - poller.at <= POLL_SECONDS * 1000)

    def polled_since(self, at: int) -> bool:
        """Whether anybody came for a task after that time: a poll that was open then would have been given one."""
        return any(poller.at >= at for poller in self.pollers)

    @property
    def newest(self) -> Poller | None:
        return max(self.pollers, key=lambda poller: poller.at, default=None)


@dataclass(frozen=True)
class Task:
    """The workflow task that is pending: the run's next turn."""

    since: int | None
    attempt: int
    is_started: bool


@dataclass(frozen=True)
class Asked:
    """Somebody asked the run to stop."""

    at: int | None
    by: str
    reason: str = ""


@dataclass(frozen=True)
class Ended:
    """How the execution was closed, and what it left."""

    closing: Closing
    at: int | None = None
    result: RunResult | ChildResult | None = None
    failure: Failure | None = None
    """Of a workflow that failed; else of the last activity that failed for good."""
    by: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Evidence:
    """Everything that was read of one thread, and of those below that it waits for."""

    thread_id: str
    queue: str
    is_tool: bool = False
    agent_id: str = ""
    started_at: int | None = None
    view: StatusView | None = None
    has_answered: bool = False
    """A worker answers for it, if only that it cannot say where it stands."""
    silence: str | None = None
    """Why there is no status: nobody answered, or the run could not."""
    task: Task | None = None
    task_failure: Failure | None = None
    """Why its workflow task fails, if the newest one did."""
    activities: tuple[Activity, ...] = ()
    queues: Mapping[tuple[str, QueueKind], Queue] = field(default_factory=dict)
    pinned: str | None = None
    """The version that the run is bound to."""
    calls: tuple[str, ...] = ()
    """The calls that wait for a decision, as the search attribute names them."""
    cancel: Asked | None = None
    last_failure: Failure | None = None
    """Of the last activity that failed for good."""
    last_event_at: int | None = None
    reset_at: int | None = None
    ended: Ended | None = None
    below: tuple["Evidence", ...] = ()
    unread: tuple[str, ...] = ()
    """What could not be read, and why."""

    def polled(self, queue: str, kind: QueueKind) -> Queue | None:
        return self.queues.get((queue, kind))

    def walk(self) -> Iterator["Evidence"]:
        yield self
        for child in self.below:
            yield from child.walk()
