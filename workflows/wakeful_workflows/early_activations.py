"""Detect activations that a query caused before their workflow task.

To answer a query for a run that is not in its sticky cache, a worker replays the run's history and with it applies
events that no workflow task has handled yet (SDK 1.35). When that task comes, the run has already handled them, apart
from what arrived later; a replay handles all of it in one activation, signals first, and may schedule other commands.
Such a run could never be replayed again. So the workflow fails the early activation itself: the query fails, the worker
evicts the run, and history is as it was. The query can be asked again once the workflow task has been handled.
"""

from temporalio import workflow

from wakeful.contract import names


class HandledEarly(Exception):
    """Fails the query, or the workflow task; clients know it by its name, `names.HANDLED_EARLY`."""


class EarlyActivations:
    """Tells activations of a workflow task from those that a query caused."""

    def __init__(self) -> None:
        self._task = _task()
        self._length = workflow.info().get_current_history_length()

    def check(self) -> None:
        """Call it in every activation. A workflow task changes time and history size; events applied early do not.

        Raises:
            HandledEarly: the events of this activation have no workflow task yet.
        """
        task, length = _task(), workflow.info().get_current_history_length()
        if task == self._task and length > self._length:
            # A client sees nothing but this text.
            raise HandledEarly(f"{names.HANDLED_EARLY}: no workflow task has handled the newest events; ask again")
        self._task, self._length = task, length


def _task() -> tuple[int, int]:
    """Identifies a workflow task. Time alone does not: it stands still while the server's clock steps back."""
    return workflow.time_ns(), workflow.info().get_current_history_size()
