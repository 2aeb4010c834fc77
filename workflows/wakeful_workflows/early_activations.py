"""Detect activations that a query caused before their workflow task.

To answer a query for a run that is not in its sticky cache, a worker replays the run's history and with it applies
events that no workflow task has handled yet (SDK 1.35). When that task comes, the run has already handled them, apart
from what arrived later; a replay handles all of it in one activation, signals first, and may schedule other commands.
Such a run could never be replayed again. So what was handled early is discarded: the workflow fails that one task, and
the server hands it out again.
"""

from temporalio import workflow


class HandledEarly(Exception):
    """Fails the workflow task. The worker evicts the run, and the server retries the task at once."""


class EarlyActivations:
    """Tells activations of a workflow task from those that a query caused."""

    def __init__(self) -> None:
        self._task = _task()
        self._length = workflow.info().get_current_history_length()
        self._is_early = False

    @property
    def is_early(self) -> bool:
        """The state is what a query made of it; the workflow task that counts may come to another one."""
        return self._is_early

    def check(self) -> None:
        """Call it in every activation. A workflow task changes time and history size; events applied early do not."""
        task, length = _task(), workflow.info().get_current_history_length()
        if task == self._task:
            self._is_early |= length > self._length
        elif self._is_early:
            raise HandledEarly("a query made this run handle events before their workflow task; retrying the task")
        else:
            self._task, self._length = task, length


def _task() -> tuple[int, int]:
    """Identifies a workflow task. Time alone does not: it stands still while the server's clock steps back."""
    return workflow.time_ns(), workflow.info().get_current_history_size()
