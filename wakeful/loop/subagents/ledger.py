"""What a run has spent, what is left, and what its sub-agents hold. `budgets` decides what follows from it."""

from wakeful.contract import ids
from wakeful.contract.base import replace
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.names import SIGNAL_BUDGET_GRANT
from wakeful.contract.permissions import Rule
from wakeful.contract.subagents import BudgetGrant, BudgetRequest
from wakeful.contract.tasks import TaskStarter
from wakeful.loop.machine import revisions
from wakeful.loop.machine.commands import SendSignal
from wakeful.loop.machine.state import Ledger, Run, Thread, within_room
from wakeful.permissions.authority import narrowing

TOOL_CALLS = "tool_calls"
FIELDS = ("tokens", "cost", "turns", TOOL_CALLS)
"""What is shared out, in the order in which spent budgets are reported."""


def spent(run: Run) -> Spent:
    """What the run and its ended sub-agents have spent."""
    own = Spent(
        tokens=run.usage.tokens,
        cost=run.usage.cost or 0.0,
        turns=run.step.number,
        tool_calls=run.budget.tool_calls,
    )
    return own.plus(run.budget.descendants)


def spent_or_none(run: Run) -> Spent | None:
    """The same for a run's result, which omits it if nothing was spent."""
    total = spent(run)
    return None if total == Spent() else total


def tightest(*budgets: Budget | None) -> Budget:
    """The smallest of each limit that is set."""
    limits: dict[str, float] = {}
    for budget in budgets:
        for field, limit in budget or ():
            if limit is not None:
                limits[field] = min(limit, limits.get(field, limit))
    return Budget.model_validate(limits)


def price_problem(run: Run, agent_id: str, unpriced: tuple[str, ...]) -> str | None:
    """Why the run's cost budget cannot be kept, if so: what its agent's models cost is not known."""
    if not unpriced or tightest(run.budget.limit, run.budget.allowance).cost is None:
        return None
    models = ", ".join(map(repr, unpriced))
    return (
        f"the run has a cost budget, which cannot limit agent {agent_id!r}: these models have no price: {models}; set "
        "prices in the registry, or limit tokens instead"
    )


def deadline(budget: Budget, inherited: int | None, now: int) -> int | None:
    """When the wall time is spent: the tree's deadline, or the run's own if that is earlier."""
    own = None if budget.seconds is None else now + round(budget.seconds * 1000)
    return min((at for at in (own, inherited) if at is not None), default=None)


def has_limits(run: Run) -> bool:
    """Whether anything but wall time is limited."""
    return bool(limits_of(run.budget.limit) or limits_of(run.budget.allowance))


def calls_left(run: Run) -> int | None:
    """How many tool calls may still start; after `budgets.before_step` let a step start, 0 is final."""
    if run.budget.limit.tool_calls is None and (run.budget.allowance or Budget()).tool_calls is None:
        return None
    return round(room_left(run)[TOOL_CALLS])


def share(run: Run, among: int) -> Budget | None:
    """The allowance of each of `among` sub-agents that start together; one part stays with the run itself."""
    room = room_left(run)
    return Budget.model_validate({field: part_of(room[field], among + 1) for field in room}) if room else None


def reserve(ledger: Ledger, work_id: str, allowance: Budget | None) -> Ledger:
    """Reserve a sub-agent's allowance; one without limits holds nothing."""
    if allowance is None:
        return ledger
    return replace(ledger, reserved=tuple({**dict(ledger.reserved), work_id: allowance}.items()))


def release(ledger: Ledger, work_id: str, spent: Spent) -> Ledger:
    """A sub-agent has ended: its reservation is free again, and what its subtree spent is spent.

    Its pending request for more, if there is one, stays: it means that the parent was asked and has yet to answer.
    """
    kept = tuple((id, allowance) for id, allowance in ledger.reserved if id != work_id)
    agents = ledger.agents
    if agents.requests:
        agents = replace(agents, requests=tuple(each for each in agents.requests if each.work_id != work_id))
    return replace(ledger, reserved=kept, descendants=ledger.descendants.plus(spent), agents=agents)


def room_left(run: Run) -> dict[str, float]:
    return room_in(run, tightest(run.budget.limit, run.budget.allowance))


def room_in(run: Run, budget: Budget | None) -> dict[str, float]:
    """What is left of each limit that is set."""
    limits = limits_of(budget)
    if not limits:
        return {}
    used = committed(run)
    return {field: max(0, round(limit - getattr(used, field), 9)) for field, limit in limits.items()}


def committed(run: Run) -> Spent:
    """What is spent, plus what running sub-agents may spend."""
    return spent(run).plus(reserved(run))


def reserved(run: Run) -> Spent:
    """What running sub-agents may spend."""
    total = Spent()
    for _, allowance in run.budget.reserved:
        total = total.plus(Spent.model_validate(limits_of(allowance)))
    return total


def after_run(thread: Thread) -> Thread:
    """The thread once its run has ended: what the run has spent, and its tasks hold, is no longer left of its budget.

    Nor of the budgets that it continued. The runs that mail of tasks begins share what is left, one after another.
    """
    if (run := thread.run) is None:
        return thread
    own = thread.identity.run_id
    spenders = {own, *run.budget.continues}
    is_bound = run.resolved is not None and run.revision >= revisions.MAIL_OF_TASKS_IS_BOUND
    binding = thread.binding if is_bound else ()

    def charged(budget: Budget | None, funds: tuple[str, ...]) -> Budget | None:
        if budget is None or spenders.isdisjoint(funds):
            return budget
        return budget.model_copy(update=room_in(run, budget))

    def bound(rules: tuple[Rule, ...], run_id: str) -> tuple[Rule, ...]:
        """With what hooks have added to the run since it started the task."""
        return narrowing(rules, binding) if run_id == own else rules

    known = thread.children.starters
    if binding and all(each.run_id != own for each in known) and any(map(thread.has_started, thread.children.running)):
        known = (*known, TaskStarter(run_id=own))  # nothing bound the run when it started them
    starters = within_room(
        each.model_copy(
            update={"budget": charged(each.budget, each.funds), "permissions": bound(each.permissions, each.run_id)}
        )
        for each in known
    )
    steering = (
        each.model_copy(
            update={"budget": charged(each.budget, each.funds), "permissions": bound(each.permissions, each.starter)}
        )
        for each in thread.steering
    )
    return replace(thread, children=replace(thread.children, starters=starters), steering=tuple(steering))


def limits_of(budget: Budget | None) -> dict[str, float]:
    """The limits that are set, without wall time."""
    amounts: dict[str, float | None] = {field: getattr(budget, field, None) for field in FIELDS}
    return {field: amount for field, amount in amounts.items() if amount is not None}


def answer_request(request: BudgetRequest, answer: str, grant: BudgetGrant) -> SendSignal:
    """Answer a sub-agent that asked for more; `answer` tells this answer from every other one."""
    id = ids.work_id(ids.GrantBudget(request.work_id, answer))
    return SendSignal(id=id, thread_id=request.thread_id, signal=SIGNAL_BUDGET_GRANT, payload=grant)


def refuse_request(request: BudgetRequest) -> SendSignal:
    """Tell a sub-agent that there is no more, because the run has ended."""
    agents = 0 if request.agents else None
    return answer_request(request, "ended", BudgetGrant(refused="its parent has ended", agents=agents))


def part_of(amount: float, ways: int) -> float:
    """One part of several, but never nothing as long as anything is left: every grant has to grant something."""
    if isinstance(amount, int):
        return max(1, amount // ways) if amount else 0
    return round(amount / ways, 9) or amount
