"""What of a thread is archived, and what a rollback leaves of it."""

from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.segments import SegmentRef, archived_events, archived_messages, holding_events, holding_messages
from wakeful.loop.thread.archive import archived_position, still_valid, unarchived_bytes
from wakeful.loop.thread.transcript import Transcript, TranscriptPosition


def transcript(*texts: str) -> Transcript:
    spoken = Transcript()
    for number, text in enumerate(texts):
        spoken = spoken.appending(Message(id=f"m{number}", role=Role.USER, content=(TextBlock(text=text),)), "")
    return spoken.sent()


def segment(spoken: Transcript, first: int, through: int) -> SegmentRef:
    end = spoken.position_at(through)
    assert end is not None
    return SegmentRef(
        archive_id=f"t1/archive/{through}",
        run_id="r",
        first_message=first,
        messages=through,
        digest=end.digest,
        first_event=first * 10,
        events=through * 10,
    )


SPOKEN = transcript(*"abcdefgh")
SEGMENTS = (segment(SPOKEN, 0, 3), segment(SPOKEN, 3, 6))


def test_a_thread_without_archives_has_nothing_archived() -> None:
    assert (archived_position(()), archived_messages(()), archived_events(())) == (TranscriptPosition(), 0, 0)
    assert still_valid((), SPOKEN) == ()


def test_segments_stay_valid_while_the_conversation_grows() -> None:
    assert still_valid(SEGMENTS, SPOKEN) is SEGMENTS
    assert archived_position(SEGMENTS) == SPOKEN.position_at(6)
    assert (archived_messages(SEGMENTS), archived_events(SEGMENTS)) == (6, 60)


def test_segments_stay_valid_when_the_thread_no_longer_has_their_end() -> None:
    assert still_valid(SEGMENTS, SPOKEN.tail(0, at_least=1)) is SEGMENTS


def test_a_rollback_into_the_archived_part_cuts_it_where_the_thread_itself_begins() -> None:
    """What the thread has itself is archived again; a segment never loses its events."""
    position = SPOKEN.position_at(2)
    assert position is not None
    tail = SPOKEN.tail(0, at_least=3).rewound(position)
    other = tail.appending(Message(id="x", role=Role.USER, content=(TextBlock(text="else"),)), "")
    for _ in range(5):
        other = other.appending(Message(id="y", role=Role.USER, content=(TextBlock(text="more"),)), "")
    first, second = still_valid(SEGMENTS, other)
    assert (first.first_message, first.messages, first.digest, first.events) == (0, 2, position.digest, 30)
    assert (second.first_message, second.messages, second.digest, second.events) == (2, 2, position.digest, 60)
    assert archived_position((first, second)) == position


def test_a_segment_before_the_rollback_is_untouched() -> None:
    position = SPOKEN.position_at(4)
    assert position is not None
    first, second = still_valid(SEGMENTS, SPOKEN.tail(0, at_least=3).rewound(position))
    assert first == SEGMENTS[0]
    assert (second.first_message, second.messages) == (3, 4)


def test_only_messages_after_the_archived_ones_count_as_unarchived() -> None:
    one = len(SPOKEN.messages[0].model_dump_json())
    assert unarchived_bytes((), SPOKEN) == 8 * one
    assert unarchived_bytes(SEGMENTS, SPOKEN) == 2 * one
    assert unarchived_bytes(SEGMENTS, SPOKEN.tail(0, at_least=1)) == one


def test_sizes_are_bytes_and_not_characters() -> None:
    plain, chinese = transcript("x" * 3_000), transcript("漢" * 1_000)
    assert unarchived_bytes((), chinese) == unarchived_bytes((), plain)
    assert len(transcript(*["漢" * 1_000] * 10).tail(10_000).messages) == 3


def test_readers_find_the_segments_that_hold_what_they_want() -> None:
    assert holding_messages(SEGMENTS, 0, 6) == SEGMENTS
    assert holding_messages(SEGMENTS, 3, 5) == SEGMENTS[1:]
    assert holding_messages(SEGMENTS, 1, 3) == SEGMENTS[:1]
    assert holding_events(SEGMENTS, 0) == SEGMENTS
    assert holding_events(SEGMENTS, 30) == SEGMENTS[1:]
    assert holding_events(SEGMENTS, 60) == ()
