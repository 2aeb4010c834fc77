"""What runs have spent, and of which budget, in words."""

from wakeful.cli.terminal.text import duration
from wakeful.client.tree import tokens
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.runs import Usage


def spent_text(spent: Spent) -> str:
    cost = f", cost {spent.cost:.4f}" if spent.cost else ""
    return f"{spent.tokens:,} tokens{cost}, {spent.turns:,} turns, {spent.tool_calls:,} tool calls"


def budget_text(spent: Spent, budget: Budget) -> str:
    """What was spent, beside each limit."""
    parts = [
        "" if budget.tokens is None else f"{spent.tokens:,} of {budget.tokens:,} tokens",
        "" if budget.cost is None else f"cost {spent.cost:.4f} of {budget.cost:g}",
        "" if budget.turns is None else f"{spent.turns:,} of {budget.turns:,} turns",
        "" if budget.tool_calls is None else f"{spent.tool_calls:,} of {budget.tool_calls:,} tool calls",
        "" if budget.seconds is None else f"at most {duration(budget.seconds)}",
    ]
    return ", ".join(part for part in parts if part) or "no limit"


def is_more_than_own(spent: Spent, own: Usage, steps: int) -> bool:
    """Whether descendants have spent something, too."""
    return spent.turns > steps or spent.tokens > tokens(own) or spent.cost > (own.cost or 0.0)
