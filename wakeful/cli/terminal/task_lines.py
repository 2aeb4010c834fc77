"""How a run's dealings with others read in a terminal: tasks, dead letters, what the tree spends and awaits."""

import shlex
from collections.abc import Sequence

from wakeful.cli.terminal.render import duration, ended_as, pending_lines, printable, short
from wakeful.client.approvals import PendingDecision
from wakeful.client.tree import tokens
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.runs import RunResult, Stopped, Usage
from wakeful.contract.tasks import Task
from wakeful.contract.views import StatusView


def family_lines(thread_id: str, view: StatusView, below: Sequence[PendingDecision] = ()) -> list[str]:
    """What a status says beyond the run itself; nothing of a run that is alone. `below` waits further down."""
    lines = []
    if (origin := view.identity.forked_from) is not None:
        lines.append(f"forked   from {printable(origin.thread_id)} after step {origin.step}")
    if view.budget is not None:
        still = ", without what runs below" if view.children else ""
        lines.append(f"budget   {budget_words(view.spent, view.budget)}{still}")
    elif _is_more(view.spent, view.usage, view.steps):
        lines.append(f"spent    {spent_words(view.spent)}, with what has ended below")
    lines += [f"task     {_task(task)}" for task in view.tasks]
    if view.undelivered:
        number = f"{len(view.undelivered)} dead letter{'' if len(view.undelivered) == 1 else 's'}"
        end_of_options = ["--"] if thread_id.startswith("-") else []
        lines.append(f"letters  {number}: {shlex.join(['wakeful', 'undelivered', *end_of_options, thread_id])}")
    for pending in below:
        lines += below_lines(pending)
    return lines


def below_lines(pending: PendingDecision) -> list[str]:
    """What a sub-agent waits for, and how to answer."""
    where = f"below    {' > '.join(printable(thread) for thread in pending.path)}"
    if not pending.call_id:
        return [where, f"  {printable(pending.unknown or '')}"]
    return [where, *pending_lines(pending)]


def result_lines(result: RunResult) -> list[str]:
    """What a run's end has to say beyond its answer: what the tree spent, and what was stopped below."""
    lines = []
    if result.spent is not None and _is_more(result.spent, result.usage, result.steps):
        lines.append(f"spent with everything below: {spent_words(result.spent)}")
    return lines + receipt_lines(result)


def receipt_lines(result: RunResult) -> list[str]:
    """What a cancel or a stop reached below a run."""
    if result.receipt is None:
        return []
    lines = [f"stopped below: {printable(thread)}" for thread in result.receipt.cancelled]
    return lines + [f"had ended before: {printable(thread)}" for thread in result.receipt.ended]


def ended_words(result: RunResult) -> str:
    """How a run ended that did not come to its natural end."""
    match result.termination:
        case Stopped(value=value) if value.code == "budget":
            return f"the run was stopped: {value.detail or 'its budget is spent'}"
        case _:
            return f"the run ended as {ended_as(result)}"


def spent_words(spent: Spent) -> str:
    """What was spent, in words."""
    cost = f", cost {spent.cost:.4f}" if spent.cost else ""
    return f"{spent.tokens:,} tokens{cost}, {spent.turns:,} turns, {spent.tool_calls:,} tool calls"


def budget_words(spent: Spent, budget: Budget) -> str:
    """What was spent of what may be."""
    parts = [
        "" if budget.tokens is None else f"{spent.tokens:,} of {budget.tokens:,} tokens",
        "" if budget.cost is None else f"cost {spent.cost:.4f} of {budget.cost:g}",
        "" if budget.turns is None else f"{spent.turns:,} of {budget.turns:,} turns",
        "" if budget.tool_calls is None else f"{spent.tool_calls:,} of {budget.tool_calls:,} tool calls",
        "" if budget.seconds is None else f"at most {duration(budget.seconds)}",
    ]
    return ", ".join(part for part in parts if part) or "no limit"


def _is_more(spent: Spent, own: Usage, steps: int) -> bool:
    return spent.turns > steps or spent.tokens > tokens(own) or spent.cost > (own.cost or 0.0)


def _task(task: Task) -> str:
    named = f" ({task.name})" if task.name else ""
    about = f"  {task.description}" if task.description else ""
    error = f": {task.error}" if task.error else ""
    return short(f"{task.task_id}{named}  {task.agent_id or 'tool'}  {task.status.value}{error}{about}")
