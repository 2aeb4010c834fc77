"""Background tasks: what a thread knows of the work it has started and does not wait for."""

from enum import StrEnum

from pydantic import JsonValue

from wakeful.contract.base import Maybe, Wire

RESERVED_TASK_NAMES = frozenset({"parent", "self", "all", "broadcast"})
"""They mean somebody else where messages are addressed."""


class TaskStatus(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self is not TaskStatus.RUNNING


class TaskType(StrEnum):
    SUB_AGENT = "sub_agent"
    TOOL = "tool"


class TaskContext(Wire):
    """Who started a task: the task it runs in itself, the run, the tool call and the agent."""

    task_id: Maybe[str] = None
    run_id: Maybe[str] = None
    call_id: Maybe[str] = None
    agent_id: Maybe[str] = None


class Task(Wire):
    """A background task of a thread. Its id is unique in the thread for ever."""

    task_id: str
    owner_thread_id: str
    task_type: TaskType
    name: Maybe[str] = None
    """How `cancel_task` and `send_message` may call it while it runs."""
    description: str = ""
    status: TaskStatus = TaskStatus.RUNNING
    error: Maybe[str] = None
    result: Maybe[JsonValue] = None
    created_at_ms: int = 0
    completed_at_ms: Maybe[int] = None
    parent_context: TaskContext = TaskContext()
    thread_id: Maybe[str] = None
    """The workflow it runs in; absent until it is started."""
    agent_id: Maybe[str] = None
    """Of a sub-agent: which one."""
