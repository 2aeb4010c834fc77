"""Budgets over a tree of agents: reserve, spend, give back.

A run lends a share of what it has left to each sub-agent that it starts. The share counts as spent until the sub-agent
settles with what its whole subtree really took. Who has spent its allowance asks its parent for more, and a parent that
has nothing left itself asks its own first; every node does the same, so the root's limit holds for the whole tree, but
for the one call that each node may have in flight. A refusal is final, and every grant is at least one unit, so that
the asking comes to an end.

Not here: who counts usage (`inference`), who starts sub-agents, and wall time, which is not shared out: every node of a
tree has the same absolute deadline.
"""

from wakeful.contract.budgets import Budget
from wakeful.contract.names import SIGNAL_GRANT, SIGNAL_LEND
from wakeful.contract.runs import StopDetail, Stopped
from wakeful.contract.subagents import Grant, Loan
from wakeful.loop.machine.commands import Tell
from wakeful.loop.machine.events import refuse
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.stages import AwaitingBudget, BetweenSteps
from wakeful.loop.machine.state import Advance, RunState
from wakeful.loop.subagents.ledger import (
    TOOL_CALLS,
    committed,
    held_below,
    lending,
    limits_of,
    part_of,
    room_in,
    room_left,
    spent,
    tightest,
)
from wakeful.loop.thread import ending

LEND_ID = "lend-"
"""How the id of every request for more begins."""

UNITS = {"tokens": " tokens", "cost": "", "turns": " turns", TOOL_CALLS: " tool calls"}


def before_step(state: RunState, *, now: int) -> Advance | None:
    """None if the model may be asked; else the run stops, or waits for what its parent says.

    A run without tool calls left asks for some too, lest it be refused calls that the tree could pay for. It never
    stops for that here: it may need none.
    """
    if stopping := _stopping(state):
        return _stop_or_wait(state, stopping[0], now=now)
    short = _askable(state)
    if not short:
        return None
    # By way of running: a run that has only just been created cannot wait.
    waiting = state.entering(BetweenSteps()).entering(AwaitingBudget(short[0]))
    return Advance(waiting, () if _is_asking(state) else (_ask(state, short[0]),))


def _stop_or_wait(state: RunState, field: str, *, now: int) -> Advance:
    """What tasks hold and do not spend comes back: the run waits for them as long as that would let it go on."""
    limit = limits_of(tightest(state.budget, state.allowance))[field]
    if state.running_tasks and getattr(spent(state), field) < limit:
        return Advance(state.entering(BetweenSteps()).entering(AwaitingBudget(field, asked=False)))
    return stop_for(state, field, now=now)


def tasks_gave_back(state: RunState) -> RunState:
    """A run that waited for its tasks is between two steps again, and looks whether it can go on."""
    waits = isinstance(state.stage, AwaitingBudget) and not state.stage.asked
    return state.entering(BetweenSteps()) if waits else state


def stop_for(state: RunState, field: str, *, now: int) -> Advance:
    """Stop the run, and everything below it, because this budget is spent."""
    used, unit = committed(state), UNITS[field]
    limit = getattr(tightest(state.budget, state.allowance), field)
    detail = f"{field} budget is spent: {getattr(used, field)} of {limit}{unit}"
    if held := getattr(held_below(state), field):
        detail += f", of which sub-agents hold {held}"
    return ending.stop(state, Stopped(value=StopDetail(code="budget", detail=detail)), now=now)


def asked(state: RunState, loan: Loan, *, now: int) -> Advance:
    """A sub-agent wants more: lend it half of what is left, let it wait while the parent is asked, or refuse it."""
    held = limits_of(dict(state.lent).get(loan.work_id))
    if not held:
        reason = f"its parent does not know {loan.work_id!r}"
        answer = _answer(loan, "unknown", Grant(refused=reason))
        return Advance(state, (answer,)).then(refuse, SIGNAL_LEND, reason, now=now)
    taken = {field: getattr(loan.spent, field) for field in held}
    short = [field for field in held if taken[field] >= held[field]]
    # It may have spent more than it was lent, and that is gone whatever the answer is.
    reserved = {field: max(taken[field], held[field]) for field in held}
    return _serve(lending(state, loan.work_id, Budget.model_validate(reserved)), loan, reserved, short)


def granted(state: RunState, grant: Grant, *, now: int) -> Advance:
    """The parent has answered: serve the sub-agents that waited for it, and go on or stop if the run itself did.

    A run that goes on is left between two steps.
    """
    # Those that have ended in the meantime want nothing any more.
    waiting = [loan for loan in state.loans if loan.work_id in dict(state.lent)]
    state = replace(state, loans=(), allowance=grant.allowance or state.allowance)
    if grant.refused is not None:
        state = _refused(state, grant.refused)
    was_waiting = isinstance(state.stage, AwaitingBudget)
    moved = Advance(state.entering(BetweenSteps()) if was_waiting else state)
    for loan in waiting:
        moved = moved.then(asked, loan, now=now)
    if was_waiting and (stopping := _stopping(moved.state)):
        return moved.then(_stop_or_wait, grant.refused if grant.refused in stopping else stopping[0], now=now)
    return moved


def lend_failed(state: RunState, *, now: int) -> Advance:
    """The parent could not be asked, which is as good as a refusal."""
    return granted(state, Grant(refused="its parent cannot be reached"), now=now)


def _serve(state: RunState, loan: Loan, reserved: dict[str, float], short: list[str]) -> Advance:
    room = room_left(state)
    missing = [field for field in short if room.get(field) == 0]
    final = [field for field in missing if field in _spent_for_good(state)]
    # Without tool calls it can still go on, if there is more of what else it asks for.
    refused = next((field for field in final if field != TOOL_CALLS or short == [TOOL_CALLS]), None)
    if refused is not None:
        return Advance(state, (_answer(loan, refused, Grant(refused=refused)),))
    wanted = [field for field in missing if field not in final]
    if wanted:
        others = tuple(other for other in state.loans if other.work_id != loan.work_id)
        commands = () if _is_asking(state) else (_ask(state, wanted[0]),)
        return Advance(replace(state, loans=(*others, loan)), commands)
    more = {field: part_of(room[field], 2) if field in short else 0 for field in room}
    total = {field: round(reserved[field] + more[field], 9) for field in reserved if field in room}
    allowance = Budget.model_validate(total)
    mark = "-".join(f"{field}-{total[field]}" for field in short if field in total) or "again"
    answer = _answer(loan, mark, Grant(allowance=allowance, refused=TOOL_CALLS if final else None))
    return Advance(lending(state, loan.work_id, allowance), (answer,))


def _refused(state: RunState, why: str) -> RunState:
    """What the run was allowed so far becomes a limit of its own, so that nobody is asked for more again.

    All of it: a run that is still short of the one budget would be refused the others for that, and ask for ever. But
    a run without tool calls goes on, and may need more of the rest.
    """
    final = state.allowance
    if why == TOOL_CALLS and final is not None:
        final = Budget(tool_calls=final.tool_calls)
    return replace(state, budget=tightest(state.budget, final))


def _is_asking(state: RunState) -> bool:
    """The parent has been asked and has not answered yet; it is asked for one thing at a time."""
    return bool(state.loans) or (isinstance(state.stage, AwaitingBudget) and state.stage.asked)


def _ask(state: RunState, field: str) -> Tell:
    identity = state.identity
    assert identity.parent_thread_id is not None  # without a parent, what is spent is spent for good
    assert state.work_id is not None
    # What sub-agents hold is as good as spent: the answer counts from there.
    loan = Loan(work_id=state.work_id, thread_id=identity.thread_id, spent=committed(state))
    # With the limit that was reached, which is never reached twice: work in flight must not share an id.
    id = f"{LEND_ID}{field}-{limits_of(state.allowance)[field]}"
    return Tell(id=id, thread_id=identity.parent_thread_id, signal=SIGNAL_LEND, payload=loan)


def _answer(loan: Loan, mark: str, grant: Grant) -> Tell:
    return Tell(id=f"grant-{loan.work_id}-{mark}", thread_id=loan.thread_id, signal=SIGNAL_GRANT, payload=grant)


def _stopping(state: RunState) -> list[str]:
    return [field for field in _spent_for_good(state) if field != TOOL_CALLS]


def _spent_for_good(state: RunState) -> list[str]:
    """The budgets that are spent and that nobody can lend the run more of."""
    orphan = state.identity.parent_thread_id is None or state.work_id is None
    room = room_in(state, tightest(state.budget, state.allowance) if orphan else state.budget)
    return [field for field in room if room[field] == 0]


def _askable(state: RunState) -> list[str]:
    """The budgets of which only the allowance is spent."""
    room = room_in(state, state.allowance)
    spent = [field for field in room if room[field] == 0]
    return [field for field in spent if field not in _spent_for_good(state)] if spent else []
