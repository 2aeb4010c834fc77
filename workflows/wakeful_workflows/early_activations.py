"""Turns that replay as they were taken.

A worker that answers a query for a run it does not remember replays the run's history, and with it applies events that
no workflow task has taken up yet (SDK 1.35). When that task comes, the run has handled them already, apart from what
came later; a replay handles all of it in one turn, signals first, and may come to other commands. Such a run would be
lost. So what was handled early is thrown away, and the task is done again from history.
"""

from temporalio import workflow


class HandledEarly(Exception):
    """Fails the workflow task. The worker forgets the run, and the server hands the task out again at once."""


class Turns:
    """Tells the turns a workflow task began from those that a query brought about."""

    def __init__(self) -> None:
        self._task = _task()
        self._length = workflow.info().get_current_history_length()
        self._is_early = False

    @property
    def is_early(self) -> bool:
        """What the run has come to is what a query made of it; the task that counts may come to something else."""
        return self._is_early

    def check(self) -> None:
        """Call it in every turn. A workflow task brings its time and the history's size; events without one do not."""
        task, length = _task(), workflow.info().get_current_history_length()
        if task == self._task:
            self._is_early |= length > self._length
        elif self._is_early:
            raise HandledEarly("a query made this run handle events before their workflow task; it does the task again")
        else:
            self._task, self._length = task, length


def _task() -> tuple[int, int]:
    """What tells one workflow task from the next. Time alone does not: it stands still when the server's steps back."""
    return workflow.time_ns(), workflow.info().get_current_history_size()
