"""Background tasks: work that a thread has started and does not wait for."""

from enum import StrEnum
from typing import Self

from pydantic import JsonValue

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.budgets import Budget
from wakeful.contract.permissions import Behavior, Rule

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


NO_TOOLS = Rule(tool="*", behavior=Behavior.DENY)


class TaskStarter(Wire):
    """A run that has started tasks: whom it acts for, and what it may do. Their mail begins a run with the same."""

    run_id: str
    user: Maybe[str] = None
    metadata: Few[dict[str, JsonValue]] = {}
    permissions: Few[tuple[Rule, ...]] = ()
    """What the run, and its ancestors, deny or ask about."""
    budget: Maybe[Budget] = None
    """What is left of the run's budget, once the run has ended."""
    deadline: Maybe[int] = None
    """When its wall time is spent, in milliseconds since 1970."""
    continues: Few[tuple[str, ...]] = ()
    """Earlier runs, if the run itself was begun by mail of tasks: it spends what they left."""

    @property
    def is_anyone(self) -> bool:
        """Whether it says nothing, so that it need not be kept."""
        return self == TaskStarter(run_id=self.run_id)

    @property
    def funds(self) -> tuple[str, ...]:
        """The runs whose budget is spent by a run that mail of a task begins."""
        return () if self.budget is None else (self.run_id, *self.continues)

    @property
    def on_mail(self) -> dict[str, object]:
        """The fields by which mail of a task binds the run that it begins, which may do no more than this one."""
        own = {name: getattr(self, name) for name in ("user", "metadata", "permissions", "budget", "deadline")}
        return own | {"funds": self.funds, "starter": self.run_id}

    @property
    def without_user(self) -> Self:
        return self.model_copy(update={"user": None, "metadata": {}})

    @property
    def without_tools(self) -> Self:
        """The same in little room: its rules are replaced by one that denies every call."""
        return self.without_user.model_copy(update={"permissions": (NO_TOOLS,)})


class MailStarter(TaskStarter):
    """A run that has started tasks, and their mail that no run has read."""

    message_ids: tuple[str, ...]


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
