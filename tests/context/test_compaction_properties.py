"""Any conversation: a summary never parts a call from its results, reaches as far as it can, and marks follow on."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.context.conversations import broken_conversations, conversations, mark, problems
from wakeful.context.compaction import MIN_REPLACED_TOKENS, compacted, find_boundary, history_tokens, transcript_text
from wakeful.contract.context import ContextPolicy
from wakeful.contract.messages import Message, Role

policies = st.builds(ContextPolicy, compaction_raw_suffix_messages=st.integers(1, 5))


@settings(deadline=None)
@given(said=conversations(), policy=policies)
def test_a_boundary_never_separates_a_call_from_its_results(said: list[Message], policy: ContextPolicy) -> None:
    """B-461"""
    boundary = find_boundary(said, policy)
    if boundary is not None:
        assert problems(said[: boundary.through]) == []
        assert problems(said[boundary.through :]) == problems(said)
        assert said[boundary.through].role is not Role.TOOL


@settings(deadline=None)
@given(said=conversations() | broken_conversations(), policy=policies, factor=st.sampled_from((0.25, 1.0, 4.0)))
def test_a_boundary_leaves_the_raw_suffix_and_is_worth_a_summary(
    said: list[Message], policy: ContextPolicy, factor: float
) -> None:
    """B-461"""
    boundary = find_boundary(said, policy, factor=factor)
    if boundary is not None:
        assert 0 < boundary.through <= len(said) - policy.compaction_raw_suffix_messages
        assert boundary.pre_tokens == history_tokens(said[: boundary.through], factor=factor) >= MIN_REPLACED_TOKENS
        assert said[boundary.through].role is not Role.TOOL


@settings(deadline=None)
@given(said=conversations(open_end=False), policy=policies)
def test_no_later_boundary_is_valid(said: list[Message], policy: ContextPolicy) -> None:
    """B-461"""
    boundary = find_boundary(said, policy)
    start = 0 if boundary is None else boundary.through
    for through in range(max(2, start + 1), len(said) - policy.compaction_raw_suffix_messages + 1):
        whole = not problems(said[:through])
        assert not whole or history_tokens(said[:through]) < MIN_REPLACED_TOKENS or not transcript_text(said[:through])


@settings(deadline=None)
@given(said=conversations(open_end=False), policy=policies, more=conversations())
def test_compactions_follow_one_another_over_a_growing_conversation(
    said: list[Message], policy: ContextPolicy, more: list[Message]
) -> None:
    """H-14"""
    first = find_boundary(said, policy)
    if first is None:
        return
    earlier = mark(first.through)
    grown = [*said, *(message.model_copy(update={"id": f"more-{message.id}"}) for message in more)]
    second = find_boundary(grown, policy, mark=earlier)
    assert second is None or second.through > first.through
    later = earlier if second is None else mark(second.through)
    assert compacted(grown, later)[1:] == tuple(grown[later.through :])
