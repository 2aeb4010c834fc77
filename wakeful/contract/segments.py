"""Where an archived part of a thread is: a thread carries these references through every execution."""

from wakeful.contract.base import Wire


class SegmentRef(Wire):
    """One archived segment of a thread. Segments follow each other without a gap."""

    archive_id: str
    """The workflow id of the `ThreadArchive`."""
    run_id: str
    """Temporal's, of its execution."""
    first_message: int
    """How many messages precede it."""
    messages: int
    """How many messages the thread has up to its end; fewer than it holds, if the thread was rolled back since."""
    digest: str
    """Of those messages."""
    first_event: int
    """How many events precede it."""
    events: int
    """How many events the thread has up to its end."""


def archived_messages(segments: tuple[SegmentRef, ...]) -> int:
    """How many messages of the thread are archived."""
    return segments[-1].messages if segments else 0


def archived_events(segments: tuple[SegmentRef, ...]) -> int:
    """How many events of the thread are archived."""
    return segments[-1].events if segments else 0


def holding_messages(segments: tuple[SegmentRef, ...], after: int, through: int) -> tuple[SegmentRef, ...]:
    """The segments that hold the messages after number `after`, up to number `through`."""
    return tuple(ref for ref in segments if ref.first_message < through and ref.messages > after)


def holding_events(segments: tuple[SegmentRef, ...], after: int) -> tuple[SegmentRef, ...]:
    """The segments that hold the events after number `after`."""
    return tuple(ref for ref in segments if ref.events > after)
