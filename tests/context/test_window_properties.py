"""Any conversation: whatever the window and the estimates, the view is whole, ordered, stable, and cheap to make."""

import sys
from collections.abc import Sequence
from itertools import takewhile
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.context.conversations import (
    assistant,
    broken_conversations,
    conversations,
    ids,
    problems,
    result,
    system,
    user,
)
from wakeful.context.window import RequestView, fit, shortened
from wakeful.contract.context import ContextPolicy
from wakeful.contract.messages import Message, Role

policies = st.builds(
    ContextPolicy,
    max_context_tokens=st.integers(2, 3000),
    max_output_tokens=st.just(1),
    min_recent_messages=st.integers(1, 6),
)
factors = st.sampled_from((0.25, 1.0, 1.7, 4.0))


def leading(messages: Sequence[Message]) -> int:
    return sum(1 for _ in takewhile(lambda message: message.role is Role.SYSTEM, messages))


def handed_in(view: RequestView) -> list[str]:
    return [id for id in ids(view.messages) if not id.startswith("interrupted:")]


@settings(deadline=None)
@given(said=conversations() | broken_conversations(), policy=policies, factor=factors)
def test_every_call_has_its_result_and_every_result_its_call(
    said: list[Message], policy: ContextPolicy, factor: float
) -> None:
    """B-453"""
    assert problems(fit(said, (), policy, factor=factor).messages) == []


@settings(deadline=None)
@given(said=conversations(), policy=policies, factor=factors)
def test_a_view_is_the_leading_system_messages_and_the_newest_others_in_order(
    said: list[Message], policy: ContextPolicy, factor: float
) -> None:
    """B-452"""
    view, lead = fit(said, (), policy, factor=factor), leading(said)
    kept = len(handed_in(view)) - lead
    assert handed_in(view) == ids([*said[:lead], *said[len(said) - kept :]])
    assert kept >= min(policy.min_recent_messages, len(said) - lead)
    assert view.dropped == len(said) - lead - kept


@settings(deadline=None)
@given(said=conversations() | broken_conversations(), policy=policies, factor=factors)
def test_a_view_has_every_message_whole_or_shortened(said: list[Message], policy: ContextPolicy, factor: float) -> None:
    """B-454"""
    view = fit(said, (), policy, factor=factor)
    known = {message.id: message for message in said}
    seen = [message for message in view.messages if message.id in known]
    assert seen == [shortened(known[message.id]) for message in seen]
    assert view.cut == sum(message != known[message.id] for message in seen)


@settings(deadline=None)
@given(said=conversations(), policy=policies, factor=factors)
def test_a_view_is_within_the_limit_unless_the_recent_messages_are_not(
    said: list[Message], policy: ContextPolicy, factor: float
) -> None:
    """B-452"""
    view = fit(said, (), policy, factor=factor)
    if view.estimated_tokens > policy.max_input_tokens and view.dropped:
        others = [message for message in view.messages if message.id in handed_in(view)][leading(view.messages) :]
        start = next((at for at in range(1, len(others)) if others[at].role is not Role.TOOL), len(others))
        assert len(others[start:]) < policy.min_recent_messages


@settings(deadline=None)
@given(said=conversations() | broken_conversations(), policy=policies, factor=factors)
def test_a_view_of_a_view_is_the_same_view(said: list[Message], policy: ContextPolicy, factor: float) -> None:
    view = fit(said, (), policy, factor=factor)
    again = fit(view.messages, (), policy, factor=factor)
    assert again == RequestView(view.messages, dropped=0, cut=0, estimated_tokens=view.estimated_tokens)


@settings(deadline=None)
@given(data=st.data(), said=conversations(), policy=policies)
def test_a_tail_that_wants_no_more_gives_the_view_of_the_whole(
    data: st.DataObject, said: list[Message], policy: ContextPolicy
) -> None:
    lead = leading(said)
    start = data.draw(st.integers(lead, len(said)))
    if said[start:] and said[start].role is Role.SYSTEM:
        return  # after the leading ones it would count as one of them
    tail = fit([*said[:lead], *said[start:]], (), policy, has_more_before=True)
    assert problems(tail.messages) == []
    if not tail.wants_more:
        assert tail.messages == fit(said, (), policy).messages


@settings(deadline=None)
@given(said=conversations())
def test_a_conversation_is_never_changed(said: list[Message]) -> None:
    """B-454"""
    before = [message.model_dump_json() for message in said]
    fit(said, (), ContextPolicy(max_context_tokens=100, max_output_tokens=1))
    assert [message.model_dump_json() for message in said] == before


@pytest.mark.parametrize("tokens", [10, 10**9], ids=["nearly nothing fits", "everything fits"])
@pytest.mark.parametrize("parallel", [1, 100], ids=["one call a round", "a hundred calls a round"])
def test_a_view_takes_time_in_proportion_to_the_conversation(tokens: int, parallel: int) -> None:
    policy = ContextPolicy(max_context_tokens=tokens, max_output_tokens=1)
    once, twice = (calls_made_by(long_conversation(length, parallel), policy) for length in (2_000, 4_000))
    assert twice <= 2.1 * once


def long_conversation(length: int, parallel: int) -> list[Message]:
    said = [system("s")]
    while len(said) < length:
        calls = [f"c{len(said)}-{number}" for number in range(parallel)]
        said += [user("u"), assistant("a", calls=calls), *(result(call) for call in calls[:-1])]
    return said[:length]


def calls_made_by(said: list[Message], policy: ContextPolicy) -> int:
    """How many functions are called while a view is made: the same on every machine, unlike seconds."""
    made = 0

    def count(_frame: FrameType, _event: str, _arg: object) -> None:
        nonlocal made
        made += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        fit(said, (), policy)
    finally:
        sys.setprofile(before)
    return made
