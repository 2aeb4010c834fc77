"""What is known of a thread, from Temporal and from the thread itself: the input of a diagnosis.

Times are milliseconds since 1970, by Temporal's clock; durations are seconds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue, ValidationError

from wakeful.contract import names
from wakeful.contract.missing import Missing
from wakeful.contract.remote import RemoteProgress
from wakeful.contract.runs import RunResult
from wakeful.contract.streaming import Outage, StreamCheckpoint
from wakeful.contract.subagents import ChildResult
from wakeful.contract.views import Sent, StatusView

POLL_SECONDS = 75.0
"""A long poll lasts a minute at most, and Temporal records its start: a worker without one for longer is gone."""


class ActivityState(StrEnum):
    SCHEDULED = "scheduled"
    STARTED = "started"
    CANCELLING = "cancelling"
    """Its cancellation was requested, and it has not stopped yet."""
    PAUSED = "paused"


class QueueKind(StrEnum):
    """The two task queues that share a name."""

    WORKFLOW = "workflow"
    ACTIVITY = "activity"


class CloseStatus(StrEnum):
    """How Temporal says that an execution closed."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    TIMED_OUT = "timed out"


@dataclass(frozen=True)
class Failure:
    """The newest failure of an activity or a workflow task; `kind` is the type that the runtime or Temporal gave it."""

    message: str
    kind: str = ""
    at: int | None = None


@dataclass(frozen=True)
class Pause:
    at: int | None = None
    by: str = ""
    reason: str = ""


@dataclass(frozen=True)
class RetryLimits:
    """How a model call is retried, by the policy of the run's agent."""

    models: tuple[str, ...]
    """In the order in which they are called."""
    attempts: int
    """For each of them, before they take turns."""
    first_token_timeout: float
    idle_timeout: float


@dataclass(frozen=True)
class Activity:
    """A pending activity."""

    id: str
    type: str
    state: ActivityState
    queue: str
    attempt: int = 1
    max_attempts: int = 0
    """0 means any number."""
    scheduled_at: int | None = None
    """When its current attempt was, or will be, put on the task queue."""
    first_scheduled_at: int | None = None
    """If that is among the newest events."""
    started_at: int | None = None
    heartbeat_at: int | None = None
    next_attempt_at: int | None = None
    """While it backs off."""
    timeout: float = 0.0
    heartbeat_timeout: float = 0.0
    queue_timeout: float = 0.0
    """Seconds that it may wait for a worker; 0 means any time."""
    failure: Failure | None = None
    worker: str = ""
    pause: Pause | None = None
    summary: str = ""
    heartbeat: JsonValue = None
    """The details of its newest heartbeat."""
    outage: Outage | None = None
    """Of a model call: its transient failures so far."""
    remote: RemoteProgress | None = None
    """Of a call of a remote agent: how far it is."""
    missing: Missing | None = None
    """What the worker of the last attempt did not have."""
    may_repeat: bool = True
    """Whether Temporal retries it if its worker is lost."""
    growth: int | None = None
    """Of a streaming answer: by how many characters it grew while it was observed."""
    observed_seconds: float = 0.0
    limits: RetryLimits | None = None

    @property
    def is_model_call(self) -> bool:
        return self.type == names.ACTIVITY_INFER

    @property
    def is_remote_call(self) -> bool:
        return self.type == names.ACTIVITY_CALL_REMOTE

    @property
    def calls_model(self) -> bool:
        """For an answer or a summary: it may have a task queue that workers serve alone."""
        return self.type in (names.ACTIVITY_INFER, names.ACTIVITY_COMPACT)

    @property
    def is_own(self) -> bool:
        """It is one of the runtime's, not a tool."""
        return self.type in names.RESERVED_TOOL_NAMES

    @property
    def checkpoint(self) -> StreamCheckpoint | None:
        """The part of the model's answer that has arrived."""
        if not self.is_model_call or self.heartbeat is None:
            return None
        try:
            return StreamCheckpoint.model_validate(self.heartbeat)
        except ValidationError:
            return None

    @property
    def alive_at(self) -> int | None:
        """When its worker last showed that it was alive in this attempt."""
        return max((at for at in (self.started_at, self.heartbeat_at) if at is not None), default=None)


@dataclass(frozen=True)
class Poller:
    identity: str
    at: int
    version: str = ""
    """`deployment.build` of a worker with Worker Versioning."""
    build: str = ""
    """The build id that the worker was given."""


@dataclass(frozen=True)
class TaskQueue:
    """Which workers poll a task queue, and its backlog, which Temporal only estimates."""

    name: str
    kind: QueueKind
    pollers: tuple[Poller, ...] = ()
    backlog: int = 0
    backlog_age: float = 0.0
    versions: tuple[str, ...] = ()
    """The versions that its tasks go to, unless a run is pinned to another; none without Worker Versioning."""

    def live_pollers(self, now: int) -> tuple[Poller, ...]:
        return tuple(poller for poller in self.pollers if now - poller.at <= POLL_SECONDS * 1000)

    def was_polled_since(self, at: int) -> bool:
        """Whether a worker has polled after that time: a poll that was open then would have been given the task."""
        return any(poller.at >= at for poller in self.pollers)

    @property
    def newest_poller(self) -> Poller | None:
        return max(self.pollers, key=lambda poller: poller.at, default=None)


@dataclass(frozen=True)
class WorkflowTask:
    """The pending workflow task."""

    since: int | None
    attempt: int
    is_started: bool


@dataclass(frozen=True)
class CancelRequest:
    """A client or a thread cancelled the run, or closed the thread."""

    at: int | None
    by: str
    reason: str = ""
    is_close: bool = False


@dataclass(frozen=True)
class Ended:
    """How the execution closed, and its result."""

    status: CloseStatus
    at: int | None = None
    result: RunResult | ChildResult | None = None
    failure: Failure | None = None
    """Of a workflow that failed; else of the last activity that failed for good."""
    by: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Evidence:
    """Everything that was read of one thread, and of the children that it waits for."""

    thread_id: str
    queue: str
    is_tool: bool = False
    view: StatusView | None = None
    has_answered: bool = False
    """A worker has answered the status query, if only with an error."""
    no_status: str | None = None
    """Why there is no status: no worker answered the query, or it failed."""
    task: WorkflowTask | None = None
    task_failure: Failure | None = None
    """Why its workflow task fails, if the newest one did."""
    activities: tuple[Activity, ...] = ()
    queues: Mapping[tuple[str, QueueKind], TaskQueue] = field(default_factory=dict)
    pinned: str | None = None
    """The version that the run is pinned to."""
    pending_calls: tuple[str, ...] = ()
    """The calls that wait for a decision, from the search attribute."""
    unhandled: tuple[Sent, ...] = ()
    """What it was sent that no worker has handled yet, the oldest first."""
    cancelled_with: Sent | None = None
    """What an ancestor was sent that no worker has handled yet: it cancels this thread, too."""
    cancel: CancelRequest | None = None
    last_failure: Failure | None = None
    """Of the last activity that failed for good."""
    last_event_at: int | None = None
    reset_at: int | None = None
    ended: Ended | None = None
    descendants: tuple["Evidence", ...] = ()
    """The children that it waits for, each with its own."""
    unread: tuple[str, ...] = ()
    """What could not be read, and why."""

    @property
    def untaken_since(self) -> int | None:
        """Since when there is work for a worker that none has taken. Temporal counts a workflow task anew when the
        worker that has the run in its cache does not take it."""
        if self.task is None or self.task.since is None or self.task.is_started:
            return None
        return min([self.task.since, *(sent.at for sent in self.unhandled)])

    def task_queue(self, name: str, kind: QueueKind) -> TaskQueue | None:
        return self.queues.get((name, kind))

    def has_pollers(self, activity: Activity, now: int) -> bool:
        """Whether a worker polls the activity's task queue, as far as that is known."""
        queue = self.task_queue(activity.queue, QueueKind.ACTIVITY)
        return queue is None or bool(queue.live_pollers(now))

    def walk(self) -> Iterator["Evidence"]:
        yield self
        for child in self.descendants:
            yield from child.walk()
