"""The causes that a thread may have for standing where it stands, and the diagnosis that names one of them."""

from dataclasses import dataclass
from enum import StrEnum

from wakeful.contract.base import Few, Maybe, Wire


class Cause(StrEnum):
    """Why a thread does not get on, or what it gets on with. What outdoes others comes first."""

    NO_WORKER = "no_worker"
    """Nobody polls the task queue that the run's next turn is on."""
    WRONG_VERSION = "wrong_version"
    """Workers poll it, but none of the version that the run is for."""
    TASK_FAILING = "task_failing"
    """The run's turn fails over and over: other code than it began with, or a bug."""
    NO_TOOL_WORKER = "no_tool_worker"
    """A tool is to run on a task queue of its own, which nobody polls."""
    PAUSED = "paused"
    """Somebody paused an activity in Temporal."""
    TERMINATED = "terminated"
    """Ended from outside, by Temporal's terminate or a timeout."""
    FAILED = "failed"
    """The run ended with an error."""
    BREAKERS_OPEN = "breakers_open"
    """The run ended because every model it may ask is left alone for a while."""
    BUDGET_SPENT = "budget_spent"
    STOPPED = "stopped"
    """A stop condition, or the limit of rounds."""
    BLOCKED = "blocked"
    """A gate or a permission rule forbade a call."""
    CANCELLED = "cancelled"
    DECISION = "decision"
    """A person has to decide."""
    BUDGET = "budget"
    """What the run may spend is spent, and it waits for more."""
    WORKER_LOST = "worker_lost"
    """The worker that had the call gives no sign of life."""
    BACKLOG = "backlog"
    """There are workers, and more work than they take."""
    MODEL_RETRYING = "model_retrying"
    """The provider refused or failed, and is asked again later."""
    RETRYING = "retrying"
    """An activity failed, and is tried again later."""
    WORKER_SILENT = "worker_silent"
    """A worker polled lately, and nobody answers."""
    MODEL_STALLED = "model_stalled"
    """The answer has begun, and nothing more comes."""
    STOPPING = "stopping"
    """The run was told to stop, and something in flight has not stopped yet."""
    TOOL_RUNNING = "tool_running"
    MODEL_STREAMING = "model_streaming"
    MODEL_THINKING = "model_thinking"
    """The model was asked, and has not begun to answer."""
    WORKING = "working"
    """Everything takes its course."""
    TASKS = "tasks"
    """The model is done, and background tasks still run."""
    UNKNOWN = "unknown"
    IDLE = "idle"
    """The thread is open and has nothing to do."""
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
    """What to do, in words; the commands stand in it between backticks."""
    since: Maybe[int] = None
    """Since when, in milliseconds since 1970; absent if nothing says so."""
    at: int
    """When it was looked at."""
    commands: Few[tuple[str, ...]] = ()
    path: Few[tuple[str, ...]] = ()
    """The threads from this one down to the one that has the cause; absent if it is this one."""
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
    """One thing that a thread waits for or does. `doing` goes on from the thread's name, without a stop."""

    cause: Cause
    doing: str
    why: str = ""
    next: str = ""
    since: int | None = None
    commands: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """The threads below that lead to it."""

    @property
    def rank(self) -> tuple[int, int]:
        """What outdoes others, and of the same kind what has lasted longest, comes first."""
        return list(Cause).index(self.cause), self.since if self.since is not None else 1 << 62
