"""A tree of agents as a person sees it: each run with the sub-agents and background tasks that it has started.

Pure: `tree_reader.py` finds the threads and asks them; here what they said becomes one value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.ids import ticket_id
from wakeful.contract.runs import RunResult, RunStatus, ToolCallStatus, Usage
from wakeful.contract.tasks import Task, TaskStatus, TaskType
from wakeful.contract.views import StatusView, WaitingFor


class NodeKind(StrEnum):
    RUN = "run"
    DELEGATE = "delegate"
    """A sub-agent that a tool call waits for."""
    TASK = "task"
    """A sub-agent in the background."""
    TOOL = "tool"
    """A tool in the background."""


class TreeNode(Wire):
    """A run, a sub-agent or a background tool, with everything below it."""

    thread_id: Few[str] = ""
    """Its workflow's id; empty of a task that has not been started yet."""
    run_id: Few[str] = ""
    agent_id: Few[str] = ""
    """Who answers by now; empty of a tool."""
    kind: NodeKind
    task_id: Maybe[str] = None
    name: Maybe[str] = None
    status: RunStatus
    reason: Few[str] = ""
    """How it ended: the run's own word, or Temporal's if it was ended from outside."""
    waiting_for: Few[str] = ""
    """In a phrase; empty while it works by itself."""
    doing: Few[str] = ""
    steps: int = 0
    tokens: int = 0
    cost: Maybe[float] = None
    """Its own, as are `steps` and `tokens`; absent where nobody says what a model costs."""
    spent: Spent = Spent()
    """With everything below it, by the accounts of the runs."""
    budget: Maybe[Budget] = None
    pending: Few[tuple[str, ...]] = ()
    """The decisions it waits for, as `wakeful approve` takes them."""
    since: Maybe[int] = None
    """Since when the oldest of them waits, in milliseconds since 1970, as is `started_at`."""
    started_at: Maybe[int] = None
    unknown: Maybe[str] = None
    """Why nothing more is known: nobody answered for it."""
    children: Few[tuple["TreeNode", ...]] = ()

    def walk(self) -> Iterator["TreeNode"]:
        """The node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Seen:
    """What is known of a thread: what Temporal lists, and what the thread itself says, if it does."""

    thread_id: str
    parent_id: str | None = None
    is_tool: bool = False
    run_id: str = ""
    agent_id: str = ""
    status: RunStatus = RunStatus.CREATED
    broken: str | None = None
    """Temporal's word for an end that was not the run's own: terminated, failed, timed out, cancelled."""
    calls: tuple[str, ...] = ()
    """The calls that wait for a decision, as the search attribute names them."""
    started_at: int | None = None
    view: StatusView | None = None
    result: RunResult | None = None
    unknown: str | None = None


def grown(thread_id: str, seen: Mapping[str, Seen]) -> TreeNode:
    """The tree from a thread down."""
    below: dict[str, list[Seen]] = {}
    for known in seen.values():
        if known.parent_id is not None and known.thread_id != thread_id:
            below.setdefault(known.parent_id, []).append(known)
    owner = seen.get(seen[thread_id].parent_id or "")
    return _node(seen[thread_id], owner.view if owner else None, below)


def waits_for(view: StatusView) -> str:
    """What a run waits for besides its model, in a phrase."""
    if view.status is RunStatus.DONE:
        return ""
    parts = [_decisions(view), _delegates(view), _tools(view)]
    if view.waiting_for is WaitingFor.TASKS:
        running = sum(not task.status.is_terminal for task in view.tasks)
        parts.append("a task" if running == 1 else f"{running} tasks")
    elif view.waiting_for is WaitingFor.BUDGET:
        parts.append("more budget")
    return " and ".join(part for part in parts if part)


def tokens(usage: Usage) -> int:
    """All of them; not every provider reports a total."""
    return max(usage.total_tokens or 0, (usage.prompt_tokens or 0) + (usage.completion_tokens or 0))


def _decisions(view: StatusView) -> str:
    asked = [
        f"{call.tool_name} ({ticket_id(view.identity.thread_id, call.call_id)})" for call in view.calls if call.ticket
    ]
    return f"{'a decision' if len(asked) == 1 else 'decisions'} on {', '.join(asked)}" if asked else ""


def _delegates(view: StatusView) -> str:
    return ", ".join(call.tool_name for call in view.calls if call.child_thread_id is not None and call.ticket is None)


def _tools(view: StatusView) -> str:
    at_work = (ToolCallStatus.RUNNING, ToolCallStatus.RESUMING)
    running = [call.tool_name for call in view.calls if call.status in at_work and call.child_thread_id is None]
    return f"{'tool' if len(running) == 1 else 'tools'} {', '.join(running)}" if running else ""


def _node(known: Seen, owner: StatusView | None, below: Mapping[str, list[Seen]]) -> TreeNode:
    task = next((task for task in owner.tasks if task.thread_id == known.thread_id), None) if owner else None
    children = _children(known, below)
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
        "unknown": known.unknown,
        "children": children,
        "run_id": known.run_id,
    }
    return TreeNode.model_validate(
        fields | (_said(known.view, children) if known.view else _listed(known, children)) | _end(known)
    )


def _children(known: Seen, below: Mapping[str, list[Seen]]) -> tuple[TreeNode, ...]:
    """Those that are threads, and those that only their owner knows of."""
    threads = below.get(known.thread_id, [])
    names = {child.thread_id for child in threads}
    tasks = known.view.tasks if known.view else ()
    nodes = [_node(child, known.view, below) for child in threads]
    nodes += [_task(task) for task in tasks if task.thread_id not in names]
    return tuple(sorted(nodes, key=lambda node: (node.started_at or 0, _number(node), node.thread_id)))


def _number(node: TreeNode) -> int:
    """Tasks of one step were started at the same time; their ids count them."""
    digits = (node.task_id or "").rpartition("_")[2]
    return int(digits) if digits.isdecimal() else -1


def _said(view: StatusView, children: tuple[TreeNode, ...]) -> dict[str, object]:
    """What a run says of itself. What has ended below it is on its account; what still runs is not yet."""
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
        "waiting_for": waits_for(view),
        "doing": view.doing,
        "steps": view.steps,
        "tokens": tokens(view.usage),
        "cost": view.usage.cost,
        "spent": spent,
        "budget": view.budget,
        "pending": tuple(ticket_id(view.identity.thread_id, call.call_id) for call in waiting),
        "since": min((call.since for call in waiting if call.since is not None), default=None),
    }


def _listed(known: Seen, children: tuple[TreeNode, ...]) -> dict[str, object]:
    """What is known of a run that nobody answers for."""
    spent = Spent()
    for child in children:
        spent = spent.plus(child.spent)
    told: dict[str, object] = {
        "status": known.status,
        "spent": spent,
        "pending": tuple(ticket_id(known.thread_id, call) for call in known.calls),
        "waiting_for": "a decision" if known.calls else "",
    }
    if known.result is not None:
        told |= {
            "run_id": known.result.run_id,
            "agent_id": known.result.agent_id,
            "reason": known.result.status_reason,
            "steps": known.result.steps,
            "tokens": tokens(known.result.usage),
            "cost": known.result.usage.cost,
            "spent": known.result.spent or spent,
        }
    return told


def _end(known: Seen) -> dict[str, object]:
    """A run that was ended from outside answers as it stood; it waits for nothing any more."""
    if known.broken is None:
        return {}
    ended: dict[str, object] = {"status": RunStatus.DONE, "reason": known.broken, "waiting_for": "", "doing": ""}
    return ended | {"pending": (), "since": None}


def _kind(known: Seen, task: Task | None) -> tuple[NodeKind, str | None]:
    if task is not None:
        return NodeKind.TASK, task.task_id
    own = known.view.identity.task if known.view else None
    if own is not None and own.thread_id == known.thread_id:
        return NodeKind.TASK, own.task_id
    has_parent = known.parent_id is not None or (known.view and known.view.identity.parent_thread_id)
    return (NodeKind.DELEGATE if has_parent else NodeKind.RUN), None


def _tool(known: Seen, task: Task | None) -> TreeNode:
    """A background tool's workflow; its owner knows more of it, for as long as it remembers the task."""
    if task is not None and (task.status.is_terminal or known.broken is None):
        told = _task(task)
        return told.model_copy(update={"run_id": known.run_id})
    return TreeNode(
        thread_id=known.thread_id,
        run_id=known.run_id,
        kind=NodeKind.TOOL,
        task_id=task.task_id if task else None,
        name=task.name if task else None,
        status=known.status,
        reason=known.broken or ("natural" if known.status is RunStatus.DONE else ""),
        doing=task.description if task else "",
        started_at=known.started_at,
    )


def _task(task: Task) -> TreeNode:
    """A task as its owner knows it."""
    reasons = {TaskStatus.RUNNING: "", TaskStatus.COMPLETED: "natural", TaskStatus.CANCELLED: "cancelled"}
    started = RunStatus.RUNNING if task.thread_id else RunStatus.CREATED
    return TreeNode(
        thread_id=task.thread_id or "",
        agent_id=task.agent_id or "",
        kind=NodeKind.TOOL if task.task_type is TaskType.TOOL else NodeKind.TASK,
        task_id=task.task_id,
        name=task.name,
        status=RunStatus.DONE if task.status.is_terminal else started,
        reason=reasons.get(task.status, f"error:{task.error or 'it did not say why'}"),
        doing=task.description,
        started_at=task.created_at_ms or None,
    )
