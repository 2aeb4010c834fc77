"""When a thread's workflow continues as new: before replaying it could take a second, and before any limit is near."""

from temporalio import workflow

from wakeful.contract.agents import HistoryBudget

CARRY_LIMIT = 1_500_000
"""Bytes of state that may be carried. More would leave the run stuck, so it waits until the state is smaller."""

MAX_SIGNALS = 5_000
"""Half of what the server allows one execution."""


def is_due(budget: HistoryBudget, signals: int) -> bool:
    info = workflow.info()
    return (
        info.is_continue_as_new_suggested()
        or info.get_current_history_length() >= budget.events
        or info.get_current_history_size() >= budget.bytes
        or signals >= MAX_SIGNALS
    )
