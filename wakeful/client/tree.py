"""A tree of agents: each run with the sub-agents and background tasks that it has started.

This module does no I/O: it builds the tree from what `tree_reader.py` has read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from wakeful.contract import ids
from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.remote import RemoteState
from wakeful.contract.runs import RunResult, RunStatus, ToolCallStatus
from wakeful.contract.tasks import Task, TaskStatus, TaskType
from wakeful.contract.views import DecidedCall, StatusView, WaitingFor


class NodeKind(StrEnum):
    RUN = "run"
    DELEGATE = "delegate"
    """A sub-agent that a tool call waits for."""
    TASK = "task"
    """A sub-agent in the background."""
    TOOL = "tool"
    """A tool in the background."""


class RemoteTask(Wire):
    """What a remote agent does, and where. Times are in milliseconds since 1970."""

    service: str
    task_id: Maybe[str] = None
    """Absent until the service has one."""
    state: Maybe[RemoteState] = None
    since: Maybe[int] = None
    """Since when it is in this state."""
    next_poll: Maybe[int] = None
    """When a worker asks for it again; absent while one does."""


class TreeNode(Wire):
    """A run, a sub-agent or a background tool, with its descendants."""

    thread_id: Few[str] = ""
    """Its workflow's id; empty for a task that has not been started yet."""
    run_id: Few[str] = ""
    agent_id: Few[str] = ""
    """The agent that answers now; empty for a tool."""
    kind: NodeKind
    task_id: Maybe[str] = None
    name: Maybe[str] = None
    status: RunStatus
    reason: Few[str] = ""
    """How it ended: the run's `status_reason`, or Temporal's close status if it was ended from outside."""
    waiting_for: Few[str] = ""
    """In a phrase; empty while it waits for nothing but its model."""
    doing: Few[str] = ""
    steps: int = 0
    tokens: int = 0
    cost: Maybe[float] = None
    """Its own, as are `steps` and `tokens`; absent if its model has no price."""
    spent: Spent = Spent()
    """By the run and its descendants."""
    budget: Maybe[Budget] = None
    pending: Few[tuple[str, ...]] = ()
    """The decisions it waits for, as `wakeful approve` takes them."""
    decisions: Few[tuple[DecidedCall, ...]] = ()
    """The newest decisions about calls of its run, the newest last."""
    since: Maybe[int] = None
    """Since when the oldest of them waits; in milliseconds since 1970, as is `started_at`."""
    started_at: Maybe[int] = None
    remote: Maybe[RemoteTask] = None
    """The task at another service that it waits for, if that runs its agent."""
    unknown: Maybe[str] = None
    """Why nothing more is known: no worker answered for it."""
    children: Few[tuple["TreeNode", ...]] = ()

    def walk(self) -> Iterator["TreeNode"]:
        """The node and its descendants, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class KnownThread:
    """What is known of a thread: what Temporal lists, and the thread's own status, if it answered."""

    thread_id: str
    parent_id: str | None = None
    is_tool: bool = False
    run_id: str = ""
    agent_id: str = ""
    status: RunStatus = RunStatus.CREATED
    ended_by_temporal: str | None = None
    """Its close status if it left no result: terminated, failed, timed out, cancelled."""
    calls: tuple[str, ...] = ()
    """The calls that wait for a decision, from the search attribute."""
    started_at: int | None = None
    view: StatusView | None = None
    result: RunResult | None = None
    remote: RemoteTask | None = None
    unknown: str | None = None


def build_tree(thread_id: str, known: Mapping[str, KnownThread]) -> TreeNode:
    """The tree whose root is this thread."""
    children: dict[str, list[KnownThread]] = {}
    for thread in known.values():
        if thread.parent_id is not None and thread.thread_id != thread_id:
            children.setdefault(thread.parent_id, []).append(thread)
    parent = known.get(known[thread_id].parent_id or "")
    return _node(known[thread_id], parent.view if parent else None, children)


def waiting_phrase(view: StatusView) -> str:
    """What a run waits for besides its model, in a phrase."""
    if view.status is RunStatus.DONE:
        return ""
    parts = [_decisions(view), _delegates(view), _tools(view)]
    if view.waiting_for is WaitingFor.TASKS:
        running = sum(not task.status.is_terminal for task in view.tasks)
        parts.append("a task" if running == 1 else f"{running} tasks")
    elif view.waiting_for is WaitingFor.BUDGET:
        parts.append("more budget")
    elif view.waiting_for is WaitingFor.PENDING_WORK:
        parts.append("pending work")
    return " and ".join(part for part in parts if part)


def _decisions(view: StatusView) -> str:
    pending = [
        f"{call.tool_name} ({ids.ticket_id(view.identity.thread_id, call.call_id)})"
        for call in view.calls
        if call.ticket
    ]
    return f"{'a decision' if len(pending) == 1 else 'decisions'} on {', '.join(pending)}" if pending else ""


def _delegates(view: StatusView) -> str:
    return ", ".join(call.tool_name for call in view.calls if call.child_thread_id is not None and call.ticket is None)


def _tools(view: StatusView) -> str:
    statuses = (ToolCallStatus.RUNNING, ToolCallStatus.RESUMING)
    running = [call.tool_name for call in view.calls if call.status in statuses and call.child_thread_id is None]
    return f"{'tool' if len(running) == 1 else 'tools'} {', '.join(running)}" if running else ""


def _node(known: KnownThread, parent: StatusView | None, threads: Mapping[str, list[KnownThread]]) -> TreeNode:
    task = next((task for task in parent.tasks if task.thread_id == known.thread_id), None) if parent else None
    children = _children(known, threads)
    if known.is_tool:
        return _tool(known, task)
    kind, task_id = _kind(known, task)
    fields: dict[str, object] = {
        "thread_id": known.thread_id,
        "agent_id": (task.agent_id if task else None) or known.agent_id,
        "kind": kind,
        "task_id": task_id,
        "name": task.name if task else None,
        "started_at": (task.created_at_ms if task else None) or known.started_at,
        "remote": known.remote,
        "unknown": known.unknown,
        "children": children,
        "run_id": known.run_id,
    }
    return TreeNode.model_validate(
        fields | (_from_status(known.view, children) if known.view else _from_list(known, children)) | _end(known)
    )


def _children(known: KnownThread, threads: Mapping[str, list[KnownThread]]) -> tuple[TreeNode, ...]:
    """Its child threads, and the tasks that only its own status shows."""
    children = threads.get(known.thread_id, [])
    child_ids = {child.thread_id for child in children}
    tasks = known.view.tasks if known.view else ()
    nodes = [_node(child, known.view, threads) for child in children]
    nodes += [_task(task) for task in tasks if task.thread_id not in child_ids]
    return tuple(sorted(nodes, key=lambda node: (node.started_at or 0, _number(node), node.thread_id)))


def _number(node: TreeNode) -> int:
    """Tasks of one step start at the same time; their ids are numbered."""
    task = ids.parse_work(node.task_id or "")
    return task.number if isinstance(task, ids.Task) else -1


def _from_status(view: StatusView, children: tuple[TreeNode, ...]) -> dict[str, object]:
    """From the run's own status, whose `spent` includes the children that have ended; running ones are added here."""
    waiting = [call for call in view.calls if call.ticket is not None]
    spent = view.spent
    for child in children:
        if child.thread_id in view.children:
            spent = spent.plus(child.spent)
    return {
        "run_id": view.identity.run_id,
        "agent_id": view.active_agent or view.identity.agent_id,
        "status": view.status,
        "reason": view.result.status_reason if view.result else "",
        "waiting_for": waiting_phrase(view),
        "doing": view.doing,
        "steps": view.steps,
        "tokens": view.usage.tokens,
        "cost": view.usage.cost,
        "spent": spent,
        "budget": view.budget,
        "pending": tuple(ids.ticket_id(view.identity.thread_id, call.call_id) for call in waiting),
        "decisions": view.decisions,
        "since": min((call.since for call in waiting if call.since is not None), default=None),
    }


def _from_list(known: KnownThread, children: tuple[TreeNode, ...]) -> dict[str, object]:
    """From what Temporal lists, for a run that no worker answers for."""
    spent = Spent()
    for child in children:
        spent = spent.plus(child.spent)
    fields: dict[str, object] = {
        "status": known.status,
        "spent": spent,
        "pending": tuple(ids.ticket_id(known.thread_id, call) for call in known.calls),
        "waiting_for": "a decision" if known.calls else "",
    }
    if known.result is not None:
        fields |= {
            "run_id": known.result.run_id,
            "agent_id": known.result.agent_id,
            "reason": known.result.status_reason,
            "steps": known.result.steps,
            "tokens": known.result.usage.tokens,
            "cost": known.result.usage.cost,
            "spent": known.result.spent or spent,
        }
    return fields


def _end(known: KnownThread) -> dict[str, object]:
    """A run that was ended from outside still answers with its last status, but it waits for nothing."""
    if known.ended_by_temporal is None:
        return {}
    ended: dict[str, object] = {
        "status": RunStatus.DONE,
        "reason": known.ended_by_temporal,
        "waiting_for": "",
        "doing": "",
    }
    return ended | {"pending": (), "since": None}


def _kind(known: KnownThread, task: Task | None) -> tuple[NodeKind, str | None]:
    if task is not None:
        return NodeKind.TASK, task.task_id
    own = known.view.identity.task if known.view else None
    if own is not None and own.thread_id == known.thread_id:
        return NodeKind.TASK, own.task_id
    has_parent = known.parent_id is not None or (known.view and known.view.identity.parent_thread_id)
    return (NodeKind.DELEGATE if has_parent else NodeKind.RUN), None


def _tool(known: KnownThread, task: Task | None) -> TreeNode:
    """A background tool's workflow; its parent's status says more, for as long as it lists the task."""
    if task is not None and (task.status.is_terminal or known.ended_by_temporal is None):
        return _task(task).model_copy(update={"run_id": known.run_id})
    return TreeNode(
        thread_id=known.thread_id,
        run_id=known.run_id,
        kind=NodeKind.TOOL,
        task_id=task.task_id if task else None,
        name=task.name if task else None,
        status=known.status,
        reason=known.ended_by_temporal or ("natural" if known.status is RunStatus.DONE else ""),
        doing=task.description if task else "",
        started_at=known.started_at,
    )


def _task(task: Task) -> TreeNode:
    """A task as its parent's status shows it."""
    reasons = {TaskStatus.RUNNING: "", TaskStatus.COMPLETED: "natural", TaskStatus.CANCELLED: "cancelled"}
    started = RunStatus.RUNNING if task.thread_id else RunStatus.CREATED
    return TreeNode(
        thread_id=task.thread_id or "",
        agent_id=task.agent_id or "",
        kind=NodeKind.TOOL if task.task_type is TaskType.TOOL else NodeKind.TASK,
        task_id=task.task_id,
        name=task.name,
        status=RunStatus.DONE if task.status.is_terminal else started,
        reason=reasons.get(task.status, f"error:{task.error or 'no reason given'}"),
        doing=task.description,
        started_at=task.created_at_ms or None,
    )
