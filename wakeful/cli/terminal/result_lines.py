"""The end of a run, and what runs have spent, as lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeful.cli.terminal.text import counted, duration, printable
from wakeful.contract.budgets import Budget, Spent
from wakeful.contract.runs import Cancelled, CancelReceipt, RunResult, StopDetail, Stopped, Usage

if TYPE_CHECKING:
    from wakeful.client.cancel import StoppedWork  # only `wakeful cancel` needs the client for it


def result_lines(result: RunResult) -> list[str]:
    """What follows the answer: what the tree spent, and which descendants were stopped."""
    lines = []
    if result.spent is not None and is_more_than_own(result.spent, result.usage, result.steps):
        lines.append(f"spent, with all sub-agents: {spent_text(result.spent)}")
    return lines + receipt_lines(result.receipt)


def receipt_lines(receipt: CancelReceipt | None) -> list[str]:
    """The descendants that a cancel or a stop reached."""
    if receipt is None:
        return []
    lines = [f"cancelled: {printable(thread)}" for thread in receipt.cancelled]
    return lines + [f"already ended: {printable(thread)}" for thread in receipt.ended]


def stopped_lines(stopped: StoppedWork) -> list[str]:
    """What a cancel has stopped, first how it ended."""
    if stopped.run is None or stopped.run.result is None:
        return [f"its run had ended; cancelled {counted(len(stopped.tasks), 'task')}: {', '.join(stopped.tasks)}"]
    summary = stopped.run.result
    reason = f": {printable(summary.detail)}" if summary.detail else ""
    before = "" if stopped.was_cancelled else ", before it was cancelled"
    return [
        f"{printable(summary.status_reason or 'done')}{reason}{before}",
        *(f"  {line}" for line in receipt_lines(stopped.receipt)),
    ]


def ending_text(result: RunResult) -> str:
    """Why a run did not end naturally."""
    match result.termination:
        case Stopped(value=value) if value.code == "budget":
            return f"the run was stopped: {value.detail or 'its budget is spent'}"
        case _:
            return f"the run ended as {ended_as(result)}"


def ended_as(result: RunResult) -> str:
    """The reason why a run ended, with the details of a stop or a cancel."""
    match result.termination:
        case Stopped(value=StopDetail(detail=str(detail))) if detail:
            return f"{result.status_reason}: {printable(detail)}"
        case Cancelled() if result.detail:
            return f"{result.status_reason}: {printable(result.detail)}"
        case _:
            return result.status_reason


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
    return spent.turns > steps or spent.tokens > own.tokens or spent.cost > (own.cost or 0.0)
