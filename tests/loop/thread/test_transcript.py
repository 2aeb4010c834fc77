"""The transcript: append-only, and exactly one inference request appends each entry."""

from functools import reduce

import pytest

from tests.loop.driving import PARALLEL, Driver, asks, call, ok, says, submitted_message
from wakeful.contract.inference import Rewind, TranscriptRef, TranscriptTail
from wakeful.contract.messages import Message, Role, TextBlock
from wakeful.contract.transcript import EMPTY_DIGEST, chained
from wakeful.loop.thread.transcript import Transcript, transcript_of

FIRST, SECOND = (Message(id=text, role=Role.USER, content=(TextBlock(text=text),)) for text in ("first", "second"))


def test_an_empty_transcript_has_the_empty_digest() -> None:
    assert Transcript().ref == TranscriptRef(length=0, digest=EMPTY_DIGEST)


def test_appending_extends_the_digest_chain_and_records_the_source() -> None:
    transcript = Transcript().appending(FIRST, "input:0").appending(SECOND, SECOND)
    digest = reduce(chained, (FIRST, SECOND), EMPTY_DIGEST)
    assert transcript == Transcript(messages=(FIRST, SECOND), digest=digest, unsent=("input:0", SECOND))
    assert transcript.ref == TranscriptRef(length=2, digest=digest)


def test_entries_that_were_sent_are_not_sent_again() -> None:
    transcript = Transcript().appending(FIRST, "input:0")
    assert transcript.sent().appending(SECOND, "submit:0:0").unsent == ("submit:0:0",)
    assert transcript.sent().ref == transcript.ref


def test_every_inference_request_appends_the_entries_since_the_last_one() -> None:
    driver = Driver()
    appended = [driver.inference().appended]
    driver.model(asks(call("c1")))
    driver.tool("c1", ok("sunny"))
    appended.append(driver.inference().appended)
    driver.submit("m1")
    driver.model(says("Sunny."))
    appended.append(driver.inference().appended)
    assert appended == [("input:0",), ("infer-1", driver.work_id_of("c1")), ("infer-2", submitted_message("m1"))]
    assert driver.inference().transcript == driver.thread.transcript.ref


def test_after_a_rewind_the_next_inference_request_has_it() -> None:
    first = Transcript().appending(FIRST, "input:0")
    both = first.sent().appending(SECOND, "submit:0:0")
    assert both.rewound(first.position) == Transcript(
        messages=(FIRST,), digest=first.digest, unsent=("submit:0:0", Rewind(rewind=1))
    )


def test_a_rewind_that_removes_nothing_is_not_sent() -> None:
    transcript = Transcript().appending(FIRST, "input:0")
    assert transcript.rewound(transcript.position) == transcript


def test_a_transcript_can_be_rewound_to_before_its_tail() -> None:
    whole = Transcript().appending(FIRST, "input:0").sent()
    start = Transcript().position
    tail = whole.appending(SECOND, "input:1").sent().tail(0, at_least=1)
    assert (tail.before, tail.messages) == (whole.position, (SECOND,))
    assert tail.rewound(start) == Transcript(unsent=(Rewind(rewind=0),))


def test_a_tail_is_rewound_like_a_whole_transcript() -> None:
    first = Transcript().appending(FIRST, "input:0").appending(SECOND, "input:1").sent()
    tail = first.appending(FIRST, "input:2").appending(SECOND, "input:3").sent().tail(0, at_least=3)
    assert tail.rewound(first.position) == Transcript(
        messages=(SECOND,), digest=first.digest, unsent=(Rewind(rewind=2),), before=tail.before
    )


def long_conversation() -> Transcript:
    driver = Driver(PARALLEL)
    for number in range(3):
        driver.model(asks(call(f"a{number}"), call(f"b{number}")))
        driver.tool(f"a{number}", ok("sunny"))
        driver.tool(f"b{number}", ok("rainy"))
    driver.model(says("Done."))
    return driver.thread.transcript.sent()


@pytest.mark.parametrize("budget", range(0, 3000, 100))
def test_a_tail_never_separates_a_call_from_its_result(budget: int) -> None:
    """I-03"""
    whole = long_conversation()
    tail = whole.tail(budget)
    assert (tail.ref, tail.unsent) == (whole.ref, ())
    assert tail.messages == whole.messages[tail.before.length :]
    assert reduce(chained, tail.messages, tail.before.digest) == whole.digest
    assert not tail.messages or tail.messages[0].role is not Role.TOOL


def test_the_tail_is_as_long_as_its_budget_allows() -> None:
    whole = long_conversation()
    lengths = [len(whole.tail(budget).messages) for budget in range(0, 3000, 100)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (0, len(whole.messages))
    assert sum(len(message.model_dump_json()) for message in whole.tail(800).messages) <= 800


def test_entries_that_were_not_sent_stay_in_the_tail_whatever_their_size() -> None:
    unsent = Transcript().appending(FIRST, "input:0").appending(SECOND, "input:1")
    assert unsent.tail(0).messages == (FIRST, SECOND)
    assert [len(long_conversation().tail(0, at_least=n).messages) for n in (0, 1, 2, 3)] == [0, 1, 4, 4]


def test_a_transcript_that_was_rewound_and_not_sent_has_a_tail() -> None:
    """A thread may continue as new right after a rollback."""
    first = Transcript().appending(FIRST, "input:0")
    rewound = first.appending(SECOND, "input:1").rewound(first.position)
    assert rewound.tail(0).messages == (FIRST,)


def test_the_tail_has_results_whose_calls_are_archived() -> None:
    whole = long_conversation()
    calls = next(number for number, message in enumerate(whole.messages) if message.tool_calls)
    before = whole.position_at(calls + 1)
    assert before is not None
    rest = Transcript(messages=whole.messages[calls + 1 : calls + 3], digest="", before=before)
    assert [message.role for message in rest.messages] == [Role.TOOL, Role.TOOL]
    assert rest.tail(0, at_least=2).messages == rest.messages


def test_the_tail_of_a_tail_is_a_tail() -> None:
    whole = long_conversation()
    assert whole.tail(2000).tail(1000) == whole.tail(1000)


def test_a_restored_transcript_can_be_extended() -> None:
    whole = long_conversation()
    tail = whole.tail(1000)
    read = TranscriptTail(length=tail.before.length, digest=tail.before.digest, messages=tail.messages)
    assert transcript_of(read) == tail
