"""What a run has spent, what is left to it, and what its sub-agents hold. `budgets` says what follows from it."""

from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.names import SIGNAL_GRANT
from wakeful.contract.subagents import Grant, Loan
from wakeful.loop.machine.commands import Tell
from wakeful.loop.machine.replace import replace
from wakeful.loop.machine.state import RunState

TOOL_CALLS = "tool_calls"
FIELDS = ("tokens", "cost", "turns", TOOL_CALLS)
"""What is shared out, in the order in which it is named when several are spent."""


def spent(state: RunState) -> Spent:
    """What the run and the sub-agents of it that have ended have spent."""
    usage = state.usage
    # Not every provider reports a total: after a fallback to one that does not, the sum of the totals is too small.
    parts = (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
    own = Spent(
        tokens=max(usage.total_tokens or 0, parts),
        cost=usage.cost or 0.0,
        turns=state.steps,
        tool_calls=state.calls_made,
    )
    return own.plus(state.below)


def tree(state: RunState) -> Spent | None:
    """The same for a run's result, which says nothing of a run that has spent nothing."""
    total = spent(state)
    return None if total == Spent() else total


def tightest(*budgets: Budget | None) -> Budget:
    """The smallest of each limit that is set."""
    limits: dict[str, float] = {}
    for budget in budgets:
        for field, limit in budget or ():
            if limit is not None:
                limits[field] = min(limit, limits.get(field, limit))
    return Budget.model_validate(limits)


def deadline(budget: Budget, inherited: int | None, now: int) -> int | None:
    """When the wall time is spent: the tree's, or the run's own if that is earlier."""
    own = None if budget.seconds is None else now + round(budget.seconds * 1000)
    return min((at for at in (own, inherited) if at is not None), default=None)


def left(state: RunState) -> Budget:
    """What the run itself may still spend; what its sub-agents hold is theirs."""
    return Budget.model_validate(room_left(state))


def calls_left(state: RunState) -> int | None:
    """How many tool calls may still be started; after `before_step` let a step begin, 0 is final."""
    return left(state).tool_calls


def share(state: RunState, among: int) -> Budget | None:
    """The allowance of each of `among` sub-agents that are started together, with one part kept for the run itself."""
    room = room_left(state)
    return Budget.model_validate({field: part_of(room[field], among + 1) for field in room}) if room else None


def refusing(loan: Loan, why: str) -> Tell:
    """Tell a sub-agent that there is nothing more."""
    return Tell(f"grant-{loan.work_id}-ended", loan.thread_id, SIGNAL_GRANT, Grant(refused=why))


def lending(state: RunState, work_id: str, allowance: Budget | None) -> RunState:
    """Reserve a sub-agent's allowance; one without limits holds nothing."""
    if allowance is None:
        return state
    return replace(state, lent=tuple({**dict(state.lent), work_id: allowance}.items()))


def giving_back(state: RunState, work_id: str, spent: Spent) -> RunState:
    """A sub-agent has ended: what it held is free again, and what its subtree took is spent.

    Its request for more, if one waits, stays: it says that the parent was asked and has still to answer.
    """
    kept = tuple((id, allowance) for id, allowance in state.lent if id != work_id)
    return replace(state, lent=kept, below=state.below.plus(spent))


def room_left(state: RunState) -> dict[str, float]:
    return room_in(state, tightest(state.budget, state.allowance))


def room_in(state: RunState, budget: Budget | None) -> dict[str, float]:
    """What is left of each limit that is set."""
    limits = limits_of(budget)
    if not limits:
        return {}
    used = committed(state)
    return {field: max(0, round(limit - getattr(used, field), 9)) for field, limit in limits.items()}


def committed(state: RunState) -> Spent:
    """What is spent, and what running sub-agents may spend."""
    return spent(state).plus(held_below(state))


def held_below(state: RunState) -> Spent:
    total = Spent()
    for _, allowance in state.lent:
        total = total.plus(Spent.model_validate(limits_of(allowance)))
    return total


def limits_of(budget: Budget | None) -> dict[str, float]:
    """The limits that are set, but for wall time."""
    amounts: dict[str, float | None] = {field: getattr(budget, field, None) for field in FIELDS}
    return {field: amount for field, amount in amounts.items() if amount is not None}


def part_of(amount: float, ways: int) -> float:
    """One part of several, but something as long as anything is left: every grant has to be one."""
    if isinstance(amount, int):
        return max(1, amount // ways) if amount else 0
    return round(amount / ways, 9) or amount
