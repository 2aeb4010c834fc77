"""Which part of a thread is archived, and which part still has to be, before its execution may end. Pure.

The workflow decides when: see `wakeful_workflows.archives`.
"""

from wakeful.contract.base import json_bytes
from wakeful.contract.segments import SegmentRef, archived_messages
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition


def archived_position(segments: tuple[SegmentRef, ...]) -> TranscriptPosition:
    """The end of the archived conversation."""
    return TranscriptPosition(segments[-1].messages, segments[-1].digest) if segments else TranscriptPosition()


def still_valid(segments: tuple[SegmentRef, ...], transcript: Transcript) -> tuple[SegmentRef, ...]:
    """The segments, without messages that a rollback has removed from the conversation since.

    A rollback never removes what is before `transcript.before`, and makes that the position it rolls back to, if it is
    later. So what follows it is archived again.
    """
    end = archived_position(segments)
    if end.length < transcript.before.length or transcript.position_at(end.length) == end:
        return segments
    return cut_to(segments, transcript.before)


def cut_to(segments: tuple[SegmentRef, ...], end: TranscriptPosition) -> tuple[SegmentRef, ...]:
    """The segments without the messages after `end`, and with all their events."""
    return tuple(_cut(ref, end) for ref in segments)


def _cut(ref: SegmentRef, end: TranscriptPosition) -> SegmentRef:
    """The reference to as much of a segment as precedes `end`; its events are never undone."""
    if ref.messages <= end.length:
        return ref
    first = min(ref.first_message, end.length)
    return ref.model_copy(update={"first_message": first, "messages": end.length, "digest": end.digest})


def unarchived_bytes(segments: tuple[SegmentRef, ...], transcript: Transcript) -> int:
    """The bytes of the messages that are not archived."""
    new = transcript.messages[max(0, archived_messages(segments) - transcript.before.length) :]
    return sum(map(json_bytes, new))
