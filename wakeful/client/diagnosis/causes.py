"""The causes that a diagnosis can name, and the diagnosis itself."""

from dataclasses import dataclass
from enum import StrEnum

from wakeful.contract.base import Few, Maybe, Wire


class Cause(StrEnum):
    """Why a thread makes no progress, or how it does. Of several causes, the first in this order is reported."""

    NO_WORKER = "no_worker"
    """No worker polls the task queue of the run's workflow tasks."""
    WRONG_VERSION = "wrong_version"
    """Workers poll it, but none of the version that the run's workflow tasks go to."""
    TASK_FAILING = "task_failing"
    """The run's workflow task fails again and again: its code does not match the history, or has a bug."""
    NO_TOOL_WORKER = "no_tool_worker"
    """A tool or a model has a task queue of its own, which no worker polls."""
    MISSING = "missing"
    """The workers that were tried have no such agent, tool, gate, plugin or provider; others are tried."""
    PAUSED = "paused"
    """An activity is paused in Temporal."""
    TERMINATED = "terminated"
    """The workflow was terminated from outside, or timed out."""
    FAILED = "failed"
    """The run ended with an error."""
    BUDGET_SPENT = "budget_spent"
    STOPPED = "stopped"
    """A stop condition, or the limit of rounds."""
    BLOCKED = "blocked"
    """A gate or a permission rule blocked a call."""
    CANCELLED = "cancelled"
    DECISION = "decision"
    """A person has to decide."""
    BUDGET = "budget"
    """The run has spent its budget, and waits for more."""
    WORKER_LOST = "worker_lost"
    """The worker of an activity has stopped heartbeating."""
    BACKLOG = "backlog"
    """Workers poll, but more tasks are queued than they can run."""
    MODEL_RETRYING = "model_retrying"
    """The provider failed or rejected the model call, which is retried after a backoff."""
    RETRYING = "retrying"
    """Another activity failed, and is retried after a backoff."""
    WORKER_SILENT = "worker_silent"
    """A worker polled recently, but does not answer."""
    MODEL_STALLED = "model_stalled"
    """The answer has started, and no more of it arrives."""
    STOPPING = "stopping"
    """The run is being cancelled, and an activity in flight has not stopped yet."""
    TOOL_RUNNING = "tool_running"
    REMOTE_WORKING = "remote_working"
    """Another service runs the agent, and works on its task."""
    MODEL_STREAMING = "model_streaming"
    MODEL_THINKING = "model_thinking"
    """The model was called, and its answer has not started."""
    WORKING = "working"
    """The run makes progress."""
    TASKS = "tasks"
    """The model is done, and background tasks are still running."""
    PENDING_WORK = "pending_work"
    """The model is done, and a plugin or a tool holds the run open."""
    UNKNOWN = "unknown"
    IDLE = "idle"
    """The thread is open and waits for a message."""
    ENDED = "ended"
    """The run came to its natural end."""


class Diagnosis(Wire):
    """What a thread does, what it waits for, since when, why, and what to do about it."""

    thread_id: str
    cause: Cause
    doing: str
    """What the thread does, as a sentence that begins with its id."""
    why: str
    """The cause, in words."""
    next: str
    """What to do, in words, with the commands between backticks."""
    since: Maybe[int] = None
    """Since when, in milliseconds since 1970; absent if it is not known."""
    at: int
    """When the diagnosis was made."""
    commands: Few[tuple[str, ...]] = ()
    path: Few[tuple[str, ...]] = ()
    """The threads from this one to the descendant that has the cause; absent if it is this one."""
    facts: Few[tuple[str, ...]] = ()
    """What was read."""
    unread: Few[tuple[str, ...]] = ()
    """What could not be read, and why."""

    @property
    def text(self) -> str:
        """All of it in one paragraph."""
        return " ".join(part for part in (self.doing, self.why, self.next) if part)


@dataclass(frozen=True)
class Finding:
    """One thing that a thread does or waits for. `doing` follows the thread's id, and has no full stop."""

    cause: Cause
    doing: str
    why: str = ""
    next: str = ""
    since: int | None = None
    commands: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """The descendants that lead to it."""

    @property
    def rank(self) -> tuple[int, int]:
        """By cause, and for the same cause by how long it has lasted: the smallest is reported."""
        return list(Cause).index(self.cause), self.since if self.since is not None else 1 << 62
