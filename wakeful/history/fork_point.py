"""Find what a thread kept at a step: in the execution that recorded it, or, once that is deleted, in the archive."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from wakeful.contract import names
from wakeful.contract.base import Wire
from wakeful.contract.carryover import Carryover
from wakeful.contract.errors import ThreadNotFound
from wakeful.contract.requests import ForkPointRequest
from wakeful.contract.segments import holding_messages
from wakeful.contract.views import ForkPointView
from wakeful.history.archive import ArchiveReader
from wakeful.history.decoder import ExecutionRef

V = TypeVar("V", bound=Wire)


class Ask(Protocol):
    """How to query an execution: its worker, or its history."""

    def __call__(
        self, execution: ExecutionRef, name: str, kind: type[V], argument: object = None, /
    ) -> Awaitable[V]: ...


@dataclass(frozen=True)
class FoundForkPoint:
    """A fork point, and the execution of the thread that leads to it."""

    run_id: str
    view: ForkPointView
    is_archived: bool = False
    """The execution that had it was deleted: what the thread kept is that of the archived segment's end."""


async def find_fork_point(
    ask: Ask, archives: ArchiveReader, origin: ExecutionRef, request: ForkPointRequest
) -> FoundForkPoint:
    """What the thread kept when it had so many messages.

    Raises:
        ThreadNotFound: there is no such execution.
    """
    execution, run_id = origin, origin.run_id
    while True:
        try:
            view = await ask(execution, names.QUERY_FORK_POINT, ForkPointView, request)
        except ThreadNotFound:
            if execution == origin:
                raise
            return FoundForkPoint(origin.run_id, await _archived(ask, archives, origin, request), is_archived=True)
        if (earlier := view.earlier) is None:
            return FoundForkPoint(run_id, view)
        # The thread may have inherited the step from its own origin: the fork is still one of the thread itself.
        execution = ExecutionRef(earlier.thread_id or execution.thread_id, earlier.run_id)
        run_id = execution.run_id if execution.thread_id == origin.thread_id else run_id


async def _archived(
    ask: Ask, archives: ArchiveReader, origin: ExecutionRef, request: ForkPointRequest
) -> ForkPointView:
    """What the thread kept at the end of the archived segment that holds these messages, or keeps now."""
    kept = await ask(origin, names.QUERY_CARRYOVER, Carryover)
    for ref in holding_messages(kept.segments, request.messages - 1, request.messages):
        if (archived := (await archives.content(ref)).carryover) is not None:
            kept = archived
            break
    return ForkPointView(messages=request.messages, digest=request.digest or "", carryover=kept.for_fork())
