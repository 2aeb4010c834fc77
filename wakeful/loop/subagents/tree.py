"""Count the agents of a tree: every sub-agent is granted before it starts, and the count of the root is the tree's.

The root of a tree starts sub-agents as long as its limit allows. A sub-agent asks its parent for each that it wants to
start, or that its own sub-agents ask it for; it asks for all of them together, and one request at a time. So a request
climbs to the root, and the grant comes back the same way.

A run that stops a child grants it nothing more, and so nothing to any descendant of it. Hence a tree cannot outgrow its
cancel: once the root has handled that, only agents can start that were granted before.
"""

from collections.abc import Collection

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.budgets import DEFAULT_AGENTS, Spent
from wakeful.contract.names import SIGNAL_BUDGET_REQUEST
from wakeful.contract.subagents import BudgetGrant, BudgetRequest
from wakeful.contract.tools import RuntimeKind
from wakeful.loop.machine import revisions
from wakeful.loop.machine.commands import SendSignal
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.stages import CallingTools, Cancelling, Idle
from wakeful.loop.machine.state import Advance, AgentCount, Thread
from wakeful.loop.subagents.ledger import answer_request

STARTS_CHILDREN = (RuntimeKind.DELEGATE, RuntimeKind.SPAWN)

FIELD = "agents"
PARENT_ENDED = "the thread that started this one has ended"

_ANY = 2**62


def is_counted(thread: Thread) -> bool:
    """Whether the thread's run counts the agents of its tree."""
    return thread.run is not None and thread.run.revision >= revisions.AGENTS_ARE_COUNTED


def about_to_start(thread: Thread) -> int:
    """How many calls of the step start a sub-agent and have not done so yet."""
    startable = thread.stage.batch.startable if isinstance(thread.stage, CallingTools) else ()
    tools = [thread.tool(call.call.name) for call in startable]
    kinds = [tool.runtime.kind for tool in tools if tool is not None and tool.runtime is not None]
    return sum(kind in STARTS_CHILDREN for kind in kinds)


def has_to_wait(thread: Thread) -> bool:
    """Whether a call that starts a sub-agent has to wait until the parent grants it."""
    return is_counted(thread) and _free(thread) == 0 and not _is_final(thread)


def is_asking(thread: Thread) -> bool:
    """Whether the run has asked its parent for agents, and has no answer yet."""
    return thread.current.budget.agents.is_asking


def refusal(thread: Thread) -> str | None:
    """Why the run may start no more sub-agents; None if it may, or if its parent may grant them."""
    is_refused = is_counted(thread) and _free(thread) == 0 and _is_final(thread)
    return _why(thread) if is_refused else None


def problem(thread: Thread) -> str | None:
    """The refusal as the run's model reads it."""
    why = refusal(thread)
    return why and f"{why}. Continue without it: do the work yourself, or use the results that you have."


def counting_start(thread: Thread) -> Thread:
    """The thread with one more agent started."""
    return _taking(thread, 1) if is_counted(thread) else thread


def ask_parent(thread: Thread) -> Advance:
    """Ask the parent for the agents that the run's calls and its sub-agents wait for, unless it was asked already."""
    parent, count = thread.parent, thread.current.budget.agents
    if not is_counted(thread) or parent is None or count.is_asking or _is_final(thread):
        return Advance(thread)
    wanted = about_to_start(thread) + sum(request.agents for request in count.requests)
    missing = min(wanted, _room(thread)) - count.granted
    if missing <= 0:
        return Advance(thread)
    identity = thread.identity
    request = BudgetRequest(work_id=parent.work_id, thread_id=identity.thread_id, spent=Spent(), agents=missing)
    # A request is sent only after the last one was granted, so this number has grown since.
    id = ids.work_id(ids.RequestBudget(FIELD, count.started + count.granted))
    assert identity.parent_thread_id is not None  # a sub-agent has a parent
    command = SendSignal(id, identity.parent_thread_id, SIGNAL_BUDGET_REQUEST, request)
    return Advance(_with_count(thread, replace(count, is_asking=True)), (command,))


def on_agents_requested(thread: Thread, request: BudgetRequest, *, now: int) -> Advance:
    """A sub-agent wants to start agents: grant them, let it wait while the parent is asked, or refuse."""
    if not _is_child(thread, request):
        reason = f"the parent has no sub-agent {request.work_id!r}"
        return _refusing(thread, request, reason).then(refuse, SIGNAL_BUDGET_REQUEST, reason, now=now)
    if not is_counted(thread):  # the thread was woken and has no run, or an older worker has begun the one it has
        return _refusing(thread, request, PARENT_ENDED)
    if _is_stopping(thread, request.work_id):
        return Advance(thread)  # its cancel is on its way
    count = thread.current.budget.agents
    others = tuple(other for other in count.requests if other.work_id != request.work_id)
    return _serve(_with_count(thread, replace(count, requests=(*others, request))))


def on_agents_granted(thread: Thread, grant: BudgetGrant) -> Advance:
    """The parent has answered: its grant is for the calls that wait, and then for the sub-agents that wait."""
    if not is_counted(thread) or isinstance(thread.stage, Cancelling):
        return Advance(thread)  # what a run that is being cancelled was granted, it does not use
    count = thread.current.budget.agents
    if not count.is_asking:
        return Advance(thread)
    granted = count.granted + (grant.agents or 0)
    return _serve(_with_count(thread, replace(count, granted=granted, is_asking=False, refused=grant.refused)))


def on_parent_unreachable(thread: Thread) -> Advance:
    """The parent could not be asked, which counts as a refusal: it is gone, and the sweep ends its orphans."""
    return on_agents_granted(thread, BudgetGrant(agents=0, refused=PARENT_ENDED))


def _serve(thread: Thread) -> Advance:
    """Answer the sub-agents that wait, in the order in which they asked; ask the parent for what is missing."""
    moved = Advance(thread)
    for request in thread.current.budget.agents.requests:
        free = max(0, _free(moved.thread) - about_to_start(moved.thread))
        if free < request.agents and not _is_final(moved.thread):
            break
        moved = moved.then(_answer, request, min(free, request.agents))
    return moved.then(ask_parent)


def _answer(thread: Thread, request: BudgetRequest, granted: int) -> Advance:
    thread = _taking(thread, granted)
    refused = _why(thread) if granted < request.agents else None
    count = thread.current.budget.agents
    left = tuple(other for other in count.requests if other is not request)
    answer = answer_request(request, f"{FIELD}-{count.started}", BudgetGrant(agents=granted, refused=refused))
    return Advance(_with_count(thread, replace(count, requests=left)), (answer,))


def _refusing(thread: Thread, request: BudgetRequest, reason: str) -> Advance:
    return Advance(thread, (answer_request(request, f"{FIELD}-0", BudgetGrant(agents=0, refused=reason)),))


def stops_children(thread: Thread) -> bool:
    """Whether the thread has cancelled all of its sub-agents and tasks, and waits until they have stopped.

    If it has cancelled only some of them, the descendants of the others work on.
    """
    children = [id for id, _ in _children(thread)]
    return is_counted(thread) and bool(children) and set(children) <= set(_stopping(thread))


def _is_child(thread: Thread, request: BudgetRequest) -> bool:
    return (request.work_id, request.thread_id) in _children(thread)


def _children(thread: Thread) -> list[tuple[str, str]]:
    """The work ids and threads of the sub-agents and tasks that run."""
    running = [(task.task_id, task.thread_id) for task in thread.children.running]
    running += [(call.id, call.child_thread_id) for call in thread.batch.running] if thread.batch else []
    return [(id, thread_id) for id, thread_id in running if thread_id is not None]


def _is_stopping(thread: Thread, work_id: str) -> bool:
    calls = thread.batch.running if thread.batch else ()
    is_cancelled = any(call.awaits == work_id or (call.id == work_id and call.timed_out) for call in calls)
    return is_cancelled or work_id in _stopping(thread)


def _stopping(thread: Thread) -> Collection[str]:
    match thread.stage:
        case Cancelling(in_flight=stopping) | Idle(stopping=stopping):
            return stopping
        case _:
            return ()


def _asks_parent(thread: Thread) -> bool:
    return thread.parent is not None and thread.parent.counted


def _limit(thread: Thread) -> int | None:
    limit = thread.current.budget.limit.agents
    return limit if limit is not None or _asks_parent(thread) else DEFAULT_AGENTS


def _room(thread: Thread) -> int:
    """How many agents the run's own limit still allows."""
    limit = _limit(thread)
    return _ANY if limit is None else max(0, limit - thread.current.budget.agents.started)


def _free(thread: Thread) -> int:
    """How many agents may start now."""
    room = _room(thread)
    return min(room, thread.current.budget.agents.granted) if _asks_parent(thread) else room


def _is_final(thread: Thread) -> bool:
    """Whether asking the parent would change nothing."""
    count = thread.current.budget.agents
    return not _asks_parent(thread) or count.refused is not None or count.granted >= _room(thread)


def _why(thread: Thread) -> str:
    """Why no more agents may start."""
    limit, refused = _limit(thread), thread.current.budget.agents.refused
    if limit is None or _room(thread) > 0:
        return refused or PARENT_ENDED
    return (
        f"the limit of agents is reached: thread {thread.identity.thread_id} and its sub-agents may start {limit} "
        "(`agents` of its budget)"
    )


def _taking(thread: Thread, agents: int) -> Thread:
    count = thread.current.budget.agents
    granted = count.granted - agents if _asks_parent(thread) else count.granted
    return _with_count(thread, replace(count, started=count.started + agents, granted=granted))


def _with_count(thread: Thread, count: AgentCount) -> Thread:
    return thread.with_budget(replace(thread.current.budget, agents=count))
