"""Archives: parts of a thread that its open execution no longer holds, each in an open workflow of its own.

Temporal deletes closed executions when their retention ends, so an open thread must not depend on one. Before a thread
continues as new, or closes, what the next execution would not hold is written as the start input of a `ThreadArchive`
workflow, which stays open as long as the thread may need it.
"""

from wakeful.contract.base import Few, Maybe, Wire
from wakeful.contract.carryover import Carryover
from wakeful.contract.events import EventRecord
from wakeful.contract.messages import Message
from wakeful.contract.segments import SegmentRef


class SegmentContent(Wire):
    """What a segment holds: messages and events of a thread, each in their order."""

    messages: Few[tuple[Message, ...]] = ()
    events: Few[tuple[EventRecord, ...]] = ()
    carryover: Maybe[Carryover] = None
    """What the thread kept besides its conversation at the segment's end; only the last segment of several has it.

    In the last archive, everything that a wake needs."""
    closed_run_id: Maybe[str] = None
    """Of the last archive: the execution that closed (a Temporal run id). A later one may have been terminated."""


class ArchiveInput(Wire):
    """The `archive_thread` activity's input: which part of this thread to archive. Its content is read from the thread.

    It covers the messages after the last segment up to `messages`, and the events after it up to `events`.
    """

    number: int
    """How often the thread has been archived, this time included."""
    segments: Few[tuple[SegmentRef, ...]] = ()
    """What is archived already."""
    messages: int
    digest: str
    """Of the first `messages` messages."""
    events: int
    closes: Few[bool] = False
    """The thread closes: its archives may end once a wake can no longer need them."""
    expired: Few[bool] = False
    """It closes because it has expired: once it is closed, its last archive deletes it."""
    wakes: Few[bool] = False
    """Messages came after the close: once it is closed, its last archive wakes it."""


class ArchiveOutput(Wire):
    """The segments that the activity wrote, in order; none if the thread was rolled back meanwhile."""

    segments: Few[tuple[SegmentRef, ...]] = ()
    last_run_id: Maybe[str] = None
    """Of a thread that closes: Temporal's run id of its last archive."""


class SegmentHeader(Wire):
    """The first start argument of a `ThreadArchive`, as Temporal UI shows it; the second is the compressed content."""

    thread_id: str
    first_message: int
    """How many messages of the thread precede it."""
    messages: int
    first_event: int
    events: int


class ArchivedThread(Wire):
    """Whether the thread of an archive may still need it."""

    is_open: bool
    keep_seconds: float = 0
    """Of a closed thread: for how long it can still be woken."""


class ThreadClosed(Wire):
    """The `thread_closed` signal to an archive: its thread has closed."""

    keep_seconds: float
    """How long the archive waits for the thread to be woken before it completes."""
    expired_run_id: Maybe[str] = None
    """The thread has expired in this execution (a Temporal run id), and the archive deletes it."""
    late_run_id: Maybe[str] = None
    """Messages came after the close of this execution (a Temporal run id), and the archive wakes the thread."""


class WakeInput(Wire):
    """The `wake_thread` activity's input."""

    thread_id: str
    run_id: str
    """The execution that closes; with another one since, the thread was woken."""


class ExpireInput(Wire):
    """The `delete_expired_thread` activity's input."""

    thread_id: str
    run_id: str
    """The execution in which the thread has expired; with another one since, it was woken."""
