"""When and how a thread's workflow continues as new: before replay takes a second, and before any limit is near."""

from typing import Any

from temporalio import workflow

from wakeful.loop.machine.commands import CancelWork, Command
from wakeful.loop.machine.stages import Cancelling, Done
from wakeful.loop.machine.state import Thread
from wakeful.loop.thread.continue_as_new import TAIL_BYTES, ThreadSnapshot, pack, size_of
from wakeful_workflows.children import ChildCommand

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
                workflow.logger.exception("the thread cannot be packed for continue-as-new")
                return None
            if size <= SNAPSHOT_LIMIT:
                return packed
        if not self._has_warned:
            workflow.logger.warning("the thread is too large for continue-as-new", extra={"bytes": size})
        self._has_warned = True
        return None
