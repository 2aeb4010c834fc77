"""Budgets over a tree of agents: reserve, spend, release.

A run reserves a share of what it has left for each sub-agent that it starts. The reservation counts as spent until the
sub-agent reports what its whole subtree really spent. A sub-agent that has spent its allowance asks its parent for
more; a parent that has nothing left asks its own parent first. So the root's limit holds for the whole tree, except for
the one call that each agent may have in flight. A refusal is final, and every grant is at least one unit, so the
requests come to an end.

Wall time is not shared out: every agent of a tree has the same absolute deadline.
"""

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.budgets import Budget
from wakeful.contract.names import SIGNAL_BUDGET_REQUEST
from wakeful.contract.runs import StopDetail, Stopped
from wakeful.contract.subagents import BudgetGrant, BudgetRequest
from wakeful.loop.machine.commands import SendSignal
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.stages import AwaitingBudget, BetweenSteps
from wakeful.loop.machine.state import Advance, Run, Thread
from wakeful.loop.subagents.ledger import (
    TOOL_CALLS,
    answer_request,
    committed,
    limits_of,
    part_of,
    reserve,
    reserved,
    room_in,
    room_left,
    spent,
    tightest,
)
from wakeful.loop.thread import cancelling

UNITS = {"tokens": " tokens", "cost": "", "turns": " turns", TOOL_CALLS: " tool calls"}


def before_step(thread: Thread, *, now: int) -> Advance | None:
    """None if the model may be called; else the run stops, or waits for its parent or its tasks.

    A run without tool calls left asks for more, too, so that it is not refused calls that the tree can pay for. It
    never stops for that here: the model may need none.
    """
    if exhausted := _exhausted_fields(thread):
        return _stop_or_wait(thread, exhausted[0], now=now)
    short = _askable(thread)
    if not short:
        return None
    waiting = thread.entering(BetweenSteps()).entering(AwaitingBudget(short[0]))
    return Advance(waiting, () if _awaits_grant(thread) else (_request_from_parent(thread, short[0]),))


def _stop_or_wait(thread: Thread, field: str, *, now: int) -> Advance:
    """Running tasks release what they do not spend: wait for them as long as that would let the run continue."""
    run = thread.current
    limit = limits_of(tightest(run.budget.limit, run.budget.allowance))[field]
    if thread.children.running and getattr(spent(run), field) < limit:
        return Advance(thread.entering(BetweenSteps()).entering(AwaitingBudget(field, asked_parent=False)))
    return stop_for(thread, field, now=now)


def on_tasks_released(thread: Thread) -> Thread:
    """A run that waited for its tasks is between two steps again, and checks whether it can continue."""
    waits = isinstance(thread.stage, AwaitingBudget) and not thread.stage.asked_parent
    return thread.entering(BetweenSteps()) if waits else thread


def stop_for(thread: Thread, field: str, *, now: int) -> Advance:
    """Stop the run and its descendants because this budget is spent."""
    run = thread.current
    limit = getattr(tightest(run.budget.limit, run.budget.allowance), field)
    detail = f"{field} budget is spent: {getattr(committed(run), field)} of {limit}{UNITS[field]}"
    if held := getattr(reserved(run), field):
        detail += f", of which sub-agents hold {held}"
    return cancelling.stop(thread, Stopped(value=StopDetail(code="budget", detail=detail)), now=now)


def on_budget_requested(thread: Thread, request: BudgetRequest, *, now: int) -> Advance:
    """A sub-agent wants more: grant it half of what is left, let it wait while the parent is asked, or refuse."""
    run = thread.run
    held = limits_of(dict(run.budget.reserved).get(request.work_id)) if run else {}
    if run is None or not held:
        reason = f"the parent has no sub-agent {request.work_id!r}"
        answer = answer_request(request, "unknown", BudgetGrant(refused=reason))
        return Advance(thread, (answer,)).then(refuse, SIGNAL_BUDGET_REQUEST, reason, now=now)
    taken = {field: getattr(request.spent, field) for field in held}
    short = [field for field in held if taken[field] >= held[field]]
    # It may have spent more than it was granted, and that is gone whatever the answer is.
    total = {field: max(taken[field], held[field]) for field in held}
    reserving = thread.with_budget(reserve(run.budget, request.work_id, Budget.model_validate(total)))
    return _serve(reserving, request, total, short)


def on_budget_granted(thread: Thread, grant: BudgetGrant, *, now: int) -> Advance:
    """The parent has answered: serve the sub-agents that waited for it; if the run itself waited, continue or stop.

    A run that continues is left between two steps.
    """
    run = thread.run
    if run is None:
        return Advance(thread)
    # Those that have ended in the meantime want nothing any more.
    waiting = [request for request in run.budget.requests if request.work_id in dict(run.budget.reserved)]
    budget = replace(run.budget, requests=(), allowance=grant.allowance or run.budget.allowance)
    thread = thread.with_budget(budget)
    if grant.refused is not None:
        thread = _on_refused(thread, grant.refused)
    was_waiting = isinstance(thread.stage, AwaitingBudget)
    moved = Advance(thread.entering(BetweenSteps()) if was_waiting else thread)
    for request in waiting:
        moved = moved.then(on_budget_requested, request, now=now)
    if was_waiting and (exhausted := _exhausted_fields(moved.thread)):
        return moved.then(_stop_or_wait, grant.refused if grant.refused in exhausted else exhausted[0], now=now)
    return moved


def on_parent_unreachable(thread: Thread, *, now: int) -> Advance:
    """The parent could not be asked, which counts as a refusal."""
    return on_budget_granted(thread, BudgetGrant(refused="its parent cannot be reached"), now=now)


def _serve(thread: Thread, request: BudgetRequest, total: dict[str, float], short: list[str]) -> Advance:
    run = thread.current
    room = room_left(run)
    missing = [field for field in short if room.get(field) == 0]
    final = [field for field in missing if field in _spent_for_good(thread)]
    # Without tool calls it can still continue, if there is more of what else it asks for.
    refused = next((field for field in final if field != TOOL_CALLS or short == [TOOL_CALLS]), None)
    if refused is not None:
        return Advance(thread, (answer_request(request, refused, BudgetGrant(refused=refused)),))
    wanted = [field for field in missing if field not in final]
    if wanted:
        others = tuple(other for other in run.budget.requests if other.work_id != request.work_id)
        commands = () if _awaits_grant(thread) else (_request_from_parent(thread, wanted[0]),)
        return Advance(thread.with_budget(replace(run.budget, requests=(*others, request))), commands)
    more = {field: part_of(room[field], 2) if field in short else 0 for field in room}
    granted = {field: round(total[field] + more[field], 9) for field in total if field in room}
    allowance = Budget.model_validate(granted)
    answer_id = "-".join(f"{field}-{granted[field]}" for field in short if field in granted) or "again"
    answer = answer_request(request, answer_id, BudgetGrant(allowance=allowance, refused=TOOL_CALLS if final else None))
    return Advance(thread.with_budget(reserve(run.budget, request.work_id, allowance)), (answer,))


def _on_refused(thread: Thread, why: str) -> Thread:
    """The allowance so far becomes the run's own limit, so that it never asks for more again.

    All of it: a run that is still short of one budget would be refused the others for that, and ask forever. But a run
    without tool calls continues, and may need more of the rest.
    """
    budget = thread.current.budget
    final = budget.allowance
    if why == TOOL_CALLS and final is not None:
        final = Budget(tool_calls=final.tool_calls)
    return thread.with_budget(replace(budget, limit=tightest(budget.limit, final)))


def _awaits_grant(thread: Thread) -> bool:
    """Whether the parent was asked and has not answered yet; it is asked for one thing at a time."""
    waits = isinstance(thread.stage, AwaitingBudget) and thread.stage.asked_parent
    return bool(thread.current.budget.requests) or waits


def _request_from_parent(thread: Thread, field: str) -> SendSignal:
    identity, run = thread.identity, thread.current
    assert identity.parent_thread_id is not None  # without a parent, a spent budget is spent for good
    assert thread.parent is not None
    # What sub-agents hold counts as spent: the answer is on top of it.
    request = BudgetRequest(work_id=thread.parent.work_id, thread_id=identity.thread_id, spent=committed(run))
    # The limit that was reached is never reached twice: requests in flight must not share an id.
    id = ids.work_id(ids.RequestBudget(field, limits_of(run.budget.allowance)[field]))
    return SendSignal(id=id, thread_id=identity.parent_thread_id, signal=SIGNAL_BUDGET_REQUEST, payload=request)


def _exhausted_fields(thread: Thread) -> list[str]:
    return [field for field in _spent_for_good(thread) if field != TOOL_CALLS]


def _spent_for_good(thread: Thread) -> list[str]:
    """The budgets that are spent and that neither the parent nor the tasks can refill."""
    run = thread.current
    has_parent = thread.identity.parent_thread_id is not None and thread.parent is not None
    room = room_in(run, run.budget.limit if has_parent else _total_limit(run))
    return [field for field in room if room[field] == 0]


def _askable(thread: Thread) -> list[str]:
    """The budgets of which only the parent's allowance is spent."""
    room = room_in(thread.current, thread.current.budget.allowance)
    exhausted = [field for field in room if room[field] == 0]
    return [field for field in exhausted if field not in _spent_for_good(thread)] if exhausted else []


def _total_limit(run: Run) -> Budget:
    return tightest(run.budget.limit, run.budget.allowance)
