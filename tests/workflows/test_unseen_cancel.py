"""When a thread may continue as new although signals, with which a cancel may have come, were handled."""

import pytest

from wakeful.loop.machine.facts import (
    CancelRequested,
    ChildClosed,
    ChildIdAssigned,
    Delivered,
    Fact,
    TimerFired,
    WorkCancelled,
    WorkFailed,
)
from wakeful_workflows.continue_as_new import UnseenCancel
from wakeful_workflows.history_estimate import HistoryEstimate


def after_a_signal() -> UnseenCancel:
    unseen = UnseenCancel(HistoryEstimate())
    unseen.take([CancelRequested(None)], signals=1, has_news=False)
    return unseen


def test_a_cancel_may_have_come_with_signals_until_something_else_is_handled() -> None:
    unseen = UnseenCancel(HistoryEstimate())
    assert not unseen.is_possible
    unseen.take([], signals=2, has_news=True)
    assert unseen.is_possible
    unseen.take([TimerFired(0)], signals=2, has_news=False)
    assert not unseen.is_possible
    unseen.take([TimerFired(0), CancelRequested(None)], signals=3, has_news=True)
    assert unseen.is_possible
    unseen.take([], signals=3, has_news=True)
    assert not unseen.is_possible


@pytest.mark.parametrize(
    "fact",
    [ChildIdAssigned("bg_0", "t/1"), ChildClosed("bg_0", "no"), WorkFailed("infer-1", "too large"), WorkCancelled("x")],
    ids=lambda fact: type(fact).__name__,
)
def test_what_a_signal_has_caused_at_once_shows_nothing(fact: Fact) -> None:
    unseen = after_a_signal()
    unseen.take([fact], signals=1, has_news=False)
    assert unseen.is_possible
    unseen.take([fact, Delivered("send-1")], signals=1, has_news=False)
    assert not unseen.is_possible
