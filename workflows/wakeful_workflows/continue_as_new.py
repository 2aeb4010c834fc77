"""When and how a thread's workflow continues as new: before replay takes a second, and before any limit is near."""

import asyncio
from collections.abc import Iterable
from typing import Any

from wakeful.loop.machine.commands import CancelWork, Command
from wakeful.loop.machine.facts import ChildClosed, ChildIdAssigned, Fact, WorkCancelled, WorkFailed
from wakeful.loop.machine.stages import Cancelling, Done
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.continue_as_new import TAIL_BYTES, ThreadSnapshot, pack, size_of
from wakeful_workflows.children import ChildCommand
from wakeful_workflows.history_estimate import TIMER, HistoryEstimate
from wakeful_workflows.run_log import logger

SNAPSHOT_LIMIT = 1_800_000
"""Bytes of a snapshot; the server accepts two mebibytes. A larger one would leave the run stuck, so the thread waits
until its state is smaller. The loop bounds what waits in a thread, so that it always fits beside a usual state."""

TAILS = (TAIL_BYTES, TAIL_BYTES // 8, 0)
"""How much of the newest conversation goes along: as much as leaves room for the rest. Older messages are archived."""


def is_possible(thread: Thread, pending: list[Command]) -> bool:
    """Whether nothing is in flight that would be lost: the next execution starts the `pending` commands.

    Commands for other threads are performed first, so that they are performed once.
    """
    if isinstance(thread.stage, Done | Cancelling) or thread.context.compacting is not None:
        return False
    if any(isinstance(command, ChildCommand) for command in pending):
        return False
    not_started = {command.id for command in pending if not isinstance(command, CancelWork)}
    return thread.bound_to_execution <= not_started


CAUSED_AT_ONCE = (ChildIdAssigned, ChildClosed, WorkFailed, WorkCancelled)
"""Facts that performing a command can cause in the same moment: another event of the history need not have come."""

SHORTEST_TIMER_SECONDS = 0.001


class UnseenCancel:
    """Whether Temporal's cancel may have come with the signals that the thread has just handled.

    Of what a workflow task brings, the SDK applies signals first and lets the workflow handle them before it applies
    the rest. A thread that continued as new then would leave a cancel among the rest behind, and the next execution
    would never hear of it. Anything but a signal shows that the rest has been applied: the result of an activity, or a
    timer that was set for this.
    """

    def __init__(self, history: HistoryEstimate) -> None:
        self.is_possible = False
        self._history = history
        self._signals = 0
        self._timer: asyncio.TimerHandle | None = None
        self._has_news = False

    def take(self, facts: Iterable[Fact], *, signals: int, has_news: bool) -> None:
        """Note what the thread handles next, of how many signals altogether, and whether it has news of other work."""
        if signals > self._signals:
            self._signals, self.is_possible = signals, True
        elif has_news or any(not isinstance(fact, CAUSED_AT_ONCE) for fact in facts):
            self.is_possible = False

    def wait(self) -> None:
        """Set a timer, because signals alone may keep coming."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SHORTEST_TIMER_SECONDS, self._on_timer)
            self._history.add(TIMER)

    @property
    def has_news(self) -> bool:
        return self._has_news

    def take_news(self) -> bool:
        """Whether the timer has fired since the last call."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def _on_timer(self) -> None:
        self._timer, self._has_news = None, True


class Snapshots:
    """Packs the thread for the next execution, and warns once while it is too large."""

    def __init__(self) -> None:
        self._has_warned = False

    def pack(self, snapshot: ThreadSnapshot) -> dict[str, Any] | None:
        """The input of the next execution; None if the thread cannot continue as new for now."""
        size = 0
        for tail_bytes in TAILS:
            try:
                packed = pack(snapshot, tail_bytes=tail_bytes)
                size = size_of(packed)
            except Exception:  # a bug of ours must not block the run, which can continue in this execution
                logger.exception("the thread cannot be packed for continue-as-new")
                return None
            if size <= SNAPSHOT_LIMIT:
                return packed
        if not self._has_warned:
            logger.warning("the thread is too large for continue-as-new", extra={"bytes": size})
        self._has_warned = True
        return None
