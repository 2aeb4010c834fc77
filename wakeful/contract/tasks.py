"""Background tasks: work that a thread has started and does not wait for."""

from enum import StrEnum

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire

RESERVED_TASK_NAMES = frozenset({"parent", "self", "all", "broadcast"})
"""They have a meaning of their own as addresses of messages."""


class TaskStatus(StrEnum):
    """How a background task is doing."""

    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the task has ended."""
        return self is not TaskStatus.RUNNING


class TaskType(StrEnum):
    SUB_AGENT = "sub_agent"
    TOOL = "tool"


class TaskContext(Wire):
    """What started a task: the enclosing task, the run, the tool call and the agent."""

    task_id: Maybe[str] = None
    run_id: Maybe[str] = None
    call_id: Maybe[str] = None
    agent_id: Maybe[str] = None


class TaskStarter(Wire):
    """For whom a run acts that has started tasks: so does the run that the end of one of them begins."""

    run_id: str
    user: Maybe[str] = None
    metadata: Few[dict[str, JsonValue]] = {}


class Task(Wire):
    """A background task of a thread. Its id is never reused in the thread."""

    task_id: str
    owner_thread_id: str
    task_type: TaskType
    name: Maybe[str] = None
    """An alias that `cancel_task` and `send_message` accept while it runs."""
    description: str = ""
    status: TaskStatus = TaskStatus.RUNNING
    error: Maybe[str] = None
    result: Maybe[JsonValue] = None
    created_at_ms: int = 0
    completed_at_ms: Maybe[int] = None
    parent_context: TaskContext = TaskContext()
    thread_id: Maybe[str] = None
    """The workflow that runs it; absent until that is started."""
    agent_id: Maybe[str] = None
    """Of a sub-agent: its agent id."""
