"""Compaction: when, how far, with which prompt, and whether it is worth it. The conversation is never rewritten."""

import pytest

from tests.context.conversations import assistant, ids, internal, mark, result, system, user
from wakeful.context.compaction import (
    MIN_REPLACED_TOKENS,
    Boundary,
    Skipped,
    SummaryRequest,
    compacted,
    conclude,
    find_boundary,
    history_tokens,
    should_compact,
    summary_message,
    summary_request,
    transcript_text,
)
from wakeful.context.tokens import message_tokens, messages_tokens
from wakeful.context.window import fit, shortened
from wakeful.contract.context import CompactionMark, CompactionSkip, ContextPolicy, ContextReport
from wakeful.contract.errors import InternalError
from wakeful.contract.messages import Message, Role, TextBlock, Visibility

POLICY = ContextPolicy(autocompact_threshold=1000)
BIG = "x" * 2048  # 512 tokens
SAID = [user("u1", BIG), assistant("a1", BIG), user("u2", BIG), assistant("a2"), user("u3")]


def suffix(messages: int) -> ContextPolicy:
    return ContextPolicy(compaction_raw_suffix_messages=messages)


def sized(tokens: int, *, limit: int | None = None, dropped: int = 0) -> ContextReport:
    return ContextReport(estimated_tokens=tokens, history_tokens=tokens, limit=limit, dropped=dropped)


@pytest.mark.parametrize(("tokens", "due"), [(999, False), (1000, True), (5000, True)])
def test_a_conversation_is_compacted_from_the_threshold_on(tokens: int, due: bool) -> None:
    """B-460"""
    assert should_compact(sized(tokens), POLICY) is due


def test_without_a_threshold_nothing_is_compacted() -> None:
    """B-450, B-460"""
    assert not should_compact(sized(10**9), ContextPolicy())


def test_a_conversation_that_its_model_rejects_is_compacted_unless_the_policy_says_never() -> None:
    rejected = sized(500, limit=250, dropped=3)
    assert should_compact(rejected, None)
    assert should_compact(rejected, POLICY)
    assert not should_compact(rejected, ContextPolicy())
    assert not should_compact(rejected, None, skipped_at=400)
    assert not should_compact(sized(10**9), None)
    assert not should_compact(sized(500, limit=250), None)  # a long message was cut, and none was dropped


def test_after_a_discarded_summary_the_next_waits_until_there_is_more_to_summarise() -> None:
    """B-463"""
    assert not should_compact(sized(2000 + MIN_REPLACED_TOKENS - 1), POLICY, skipped_at=2000)
    assert should_compact(sized(2000 + MIN_REPLACED_TOKENS), POLICY, skipped_at=2000)


def test_the_tokens_of_a_conversation_are_those_that_requests_include() -> None:
    """B-460"""
    long = [*SAID, assistant("a3", calls=["c"]), result("c", "x" * 100_000)]
    assert history_tokens(long) == messages_tokens(map(shortened, long))
    assert history_tokens(SAID, factor=2.0) == 2 * messages_tokens(SAID)
    assert history_tokens(SAID, mark=mark(3)) == messages_tokens([summary_message(mark(3)), *SAID[3:]])


def test_everything_before_the_raw_suffix_is_summarised() -> None:
    """B-461"""
    assert find_boundary(SAID, POLICY) == Boundary(through=3, pre_tokens=3 * 516)
    assert find_boundary(SAID, suffix(1), factor=2.0) == Boundary(through=4, pre_tokens=2 * (3 * 516 + 4))


def test_a_round_of_calls_is_summarised_as_a_whole_or_not_at_all() -> None:
    """B-461"""
    said = [user("u1", BIG * 2), user("u2"), assistant("a", calls=["c1", "c2"]), result("c1"), result("c2"), user("u3")]
    through = [getattr(find_boundary(said, suffix(count)), "through", None) for count in (1, 2, 3, 4, 5)]
    assert through == [5, 2, 2, 2, None]


def test_messages_between_a_call_and_its_result_are_summarised_with_them_or_not_at_all() -> None:
    """B-461"""
    said = [user("u1", BIG * 2), user("u2"), assistant("a", calls=["c"]), user("u3"), result("c"), user("u4")]
    assert find_boundary(said, suffix(3)) == Boundary(through=2, pre_tokens=1032)


def test_a_call_that_is_still_open_is_not_summarised() -> None:
    """B-461"""
    said = [user("u1", BIG * 2), user("u2"), assistant("a", calls=["c1", "c2"]), result("c1"), user("u3"), user("u4")]
    assert find_boundary(said, POLICY) == Boundary(through=2, pre_tokens=1032)


def test_a_call_that_was_never_answered_does_not_stop_compaction_for_ever() -> None:
    """B-461"""
    said = [user("u1", BIG * 2), assistant("a", calls=["lost"]), user("u2"), assistant("b"), user("u3")]
    assert find_boundary(said, POLICY) == Boundary(through=3, pre_tokens=1028 + 6 + 4)


def test_a_result_without_a_call_does_not_become_the_first_message() -> None:
    """B-461"""
    said = [user("u1", BIG * 2), user("u2"), user("u3"), result("gone"), user("u4")]
    assert find_boundary(said, POLICY) == Boundary(through=2, pre_tokens=1032)


def test_a_single_message_before_the_raw_suffix_is_not_summarised() -> None:
    """B-461"""
    assert find_boundary([user("u1", BIG * 9), *SAID[3:]], POLICY) is None


@pytest.mark.parametrize("said", [[], SAID[:1], SAID[:2]], ids=len)
def test_a_conversation_that_is_all_raw_suffix_is_not_summarised(said: list[Message]) -> None:
    """B-461"""
    assert find_boundary(said, POLICY) is None


def test_a_part_that_is_too_small_is_not_summarised() -> None:
    """B-461"""
    said = [user("u1", "x" * 4060), user("u2"), user("u3"), user("u4")]
    assert find_boundary(said, POLICY) is None
    assert find_boundary([user("u1", "x" * 4064), *said[1:]], POLICY) == Boundary(through=2, pre_tokens=1024)


def test_internal_messages_alone_are_not_summarised() -> None:
    """B-461, B-462"""
    assert find_boundary([internal(user("u1", BIG)), internal(user("u2", BIG * 2)), *SAID[3:]], POLICY) is None


def test_no_more_is_summarised_than_the_summariser_can_read() -> None:
    """B-461"""
    policy = ContextPolicy(max_context_tokens=3000, max_output_tokens=1000)
    said = [user(f"u{number}", "x" * 2384) for number in range(10)]  # 600 tokens each
    assert find_boundary(said, policy) == Boundary(through=3, pre_tokens=1800)
    assert find_boundary(said, policy, factor=0.5) == Boundary(through=6, pre_tokens=1800)
    assert find_boundary([user("u", "x" * 10_000), *said], policy) is None


def test_the_summariser_needs_room_for_the_previous_summary_too() -> None:
    """B-461, B-462"""
    policy = ContextPolicy(max_context_tokens=3000, max_output_tokens=1000)
    said = [user(f"u{number}", "x" * 2384) for number in range(10)]
    before = mark(1, "x" * 1553)  # 404 tokens
    assert find_boundary(said, policy, mark=before) == Boundary(through=3, pre_tokens=404 + 1200)


def test_the_next_summary_covers_the_previous_one_and_the_messages_since() -> None:
    """B-462, H-14"""
    before = mark(2, "The user is called Ada." * 40)
    said = [user("u1", BIG * 9), assistant("a1", BIG * 9), *SAID]
    boundary = find_boundary(said, POLICY, mark=before)
    assert boundary == Boundary(through=5, pre_tokens=message_tokens(summary_message(before)) + 3 * 516)


def test_a_summary_alone_is_not_summarised_again() -> None:
    """B-461"""
    assert find_boundary(SAID, POLICY, mark=mark(3, BIG * 4)) is None


def test_the_summariser_does_not_read_internal_and_empty_messages() -> None:
    """B-462"""
    said = [
        system("s", "Be kind."),
        user("u1", "Weather in Oslo?"),
        assistant("a1", calls=["c1"]),
        result("c1", "sunny"),
        internal(user("u2", "psst")),
        user("u3", " \n"),
        assistant("a2", "It is\nsunny."),
    ]
    assert transcript_text(said) == (
        "[System]: Be kind.\n\n[User]: Weather in Oslo?\n\n[Tool]: sunny\n\n[Assistant]: It is\nsunny."
    )


def test_the_summariser_reads_shortened_results() -> None:
    """B-454, B-462"""
    assert len(transcript_text([result("c1", "x" * 100_000)])) < 1700


def test_the_summary_request_has_the_prompts_and_the_limit_of_the_policy() -> None:
    """B-463"""
    policy = ContextPolicy(
        summarizer_system_prompt="Summarise {messages}.",
        summarizer_user_prompt="Here: {messages}!",
        summary_max_tokens=99,
    )
    said = [user("u1", "Say {messages}"), assistant("a1", "No."), user("u2", "Later.")]
    assert summary_request(said, 2, policy) == SummaryRequest(
        system="Summarise {messages}.",
        user="Here: [User]: Say {messages}\n\n[Assistant]: No.!",
        max_tokens=99,
    )


def test_the_summary_request_includes_the_previous_summary() -> None:
    """B-462"""
    policy = ContextPolicy(summarizer_user_prompt="{messages}")
    said = [user("u1", "one"), user("u2", "two"), user("u3", "three"), user("u4", "four")]
    assert summary_request(said, 3, policy, mark=mark(1, "First.")) == SummaryRequest(
        system=policy.summarizer_system_prompt,
        user="<previous-summary>\nFirst.\n</previous-summary>\n\n[User]: two\n\n[User]: three",
        max_tokens=1024,
    )


def test_a_summary_that_saves_enough_becomes_a_mark() -> None:
    """B-463, B-464"""
    boundary = Boundary(through=7, pre_tokens=2000)
    concluded = conclude(boundary, "\n Short. \n", POLICY, factor=2.0)
    assert isinstance(concluded, CompactionMark)
    tokens = 2 * message_tokens(summary_message(concluded))
    assert concluded == CompactionMark(through=7, summary="Short.", pre_tokens=2000, post_tokens=tokens)


@pytest.mark.parametrize("summary", ["", " \n"])
def test_an_empty_summary_is_discarded(summary: str) -> None:
    """B-463"""
    assert conclude(Boundary(7, 2000), summary, POLICY) == Skipped(CompactionSkip.EMPTY_SUMMARY)


def test_a_summary_that_saves_too_little_is_discarded() -> None:
    """B-463"""
    enough = CompactionMark(through=7, summary="x" * 220, pre_tokens=100, post_tokens=70)
    assert conclude(Boundary(7, 100), "x" * 220, POLICY) == enough
    assert conclude(Boundary(7, 100), "x" * 221, POLICY) == Skipped(CompactionSkip.MIN_SAVINGS_RATIO)


def test_a_summary_is_an_internal_system_message() -> None:
    """B-464"""
    assert summary_message(mark(3, "Ada asked.")) == Message(
        id="summary:3",
        role=Role.SYSTEM,
        content=(TextBlock(text="<conversation-summary>\nAda asked.\n</conversation-summary>"),),
        visibility=Visibility.INTERNAL,
    )


def test_requests_include_the_summary_instead_of_the_messages_it_covers() -> None:
    """B-464, B-466"""
    assert compacted(SAID, mark(3)) == (summary_message(mark(3)), *SAID[3:])
    assert compacted(SAID, None) == tuple(SAID)


def test_a_compaction_does_not_change_the_conversation() -> None:
    """B-468, H-14, H-22"""
    before = list(SAID)
    boundary = find_boundary(SAID, POLICY)
    assert boundary is not None
    concluded = conclude(boundary, "Short.", POLICY)
    assert isinstance(concluded, CompactionMark)
    assert ids(compacted(SAID, concluded)) == ["summary:3", "a2", "u3"]
    assert before == SAID


def test_the_summary_is_never_dropped_from_a_request() -> None:
    """B-452, B-464"""
    policy = ContextPolicy(max_context_tokens=10, max_output_tokens=1, min_recent_messages=1)
    assert ids(fit(compacted(SAID, mark(1)), (), policy).messages) == ["summary:1", "u3"]


def test_a_mark_that_covers_more_messages_than_there_are_is_an_internal_error() -> None:
    """B-464"""
    with pytest.raises(InternalError, match="covers 6 messages, but the conversation has 5"):
        compacted(SAID, mark(6))
