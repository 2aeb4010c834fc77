"""Which model an attempt calls, and how long the next one waits."""

import pytest

from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.model_settings import InferenceOverrides
from wakeful_activities.inference.model_choice import ModelChoice

MAIN = ModelBinding(id="main", provider="openai", name="big")
SPARE = ModelBinding(id="spare", provider="anthropic", name="other")
AGENT = ResolvedAgent(agent_id="a", model=MAIN, fallbacks=(SPARE,), retry=RetryPolicy(max_retries=1))
CHOICE = ModelChoice.of(AGENT, InferenceOverrides())
ALONE = ModelChoice((MAIN,), RetryPolicy())
FAILED = ProviderError(ProviderErrorKind.PROVIDER, "")


def test_every_model_has_its_attempts_and_then_they_take_turns() -> None:
    """B-124"""
    turns = [CHOICE.order(failures)[0] for failures in range(8)]
    assert turns == [MAIN, MAIN, SPARE, SPARE, MAIN, SPARE, MAIN, SPARE]
    assert CHOICE.order(2) == (SPARE, MAIN)
    assert [CHOICE.has_tried_all(failures) for failures in (3, 4, 5)] == [False, True, True]


def test_a_run_may_name_other_models_of_the_same_provider() -> None:
    overrides = InferenceOverrides(upstream_model="bigger", fallback_upstream_models=("small",))
    assert [model.name for model in ModelChoice.of(AGENT, overrides).models] == ["bigger", "small"]
    assert {model.provider for model in ModelChoice.of(AGENT, overrides).models} == {"openai"}
    none = ModelChoice.of(AGENT, InferenceOverrides(fallback_upstream_models=()))
    assert none.models == (MAIN,)


def test_the_backoff_doubles_up_to_a_minute() -> None:
    """B-123"""
    assert [ALONE.delay(failures, FAILED, {}) for failures in range(9)] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    assert ALONE.delay(10_000, FAILED, {}) == 60
    overloaded = ProviderError(ProviderErrorKind.OVERLOADED, "")
    assert [ALONE.delay(failures, overloaded, {}) for failures in range(3)] == [2, 4, 8]


def test_the_backoff_has_settings() -> None:
    """B-123"""
    assert ModelChoice((MAIN,), RetryPolicy(backoff_base_ms=0)).delay(1, FAILED, {}) == 0
    assert ModelChoice((MAIN,), RetryPolicy(max_backoff_secs=3)).delay(5, FAILED, {}) == 3
    stalled = ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, "", cause="idle stall")
    assert CHOICE.backoff(1, stalled) == 0.2


def test_a_fallback_is_called_at_once_and_only_rounds_are_spaced() -> None:
    """B-124"""
    assert [CHOICE.delay(failures, FAILED, {}) for failures in range(10)] == [0.5, 0, 0.5, 1, 0, 2, 0, 4, 0, 8]


@pytest.mark.parametrize(
    ("seconds", "waits", "delay"),
    [
        (20, {"openai/big": 20}, 0),  # the other model may be called now
        (20, {"openai/big": 20, "anthropic/other": 7}, 7),
        (3, {"openai/big": 3, "anthropic/other": 70}, 3),
        (0.1, {"openai/big": 0.1}, 0.5),  # the backoff is longer
    ],
)
def test_a_model_that_asks_for_time_gets_it_and_the_others_are_called_meanwhile(
    seconds: float, waits: dict[str, float], delay: float
) -> None:
    """B-122"""
    limited = ProviderError(ProviderErrorKind.RATE_LIMITED, "", retry_after=seconds)
    assert CHOICE.delay(0, limited, waits) == delay


def test_without_a_fallback_the_providers_retry_after_counts_if_it_is_longer() -> None:
    """B-122"""
    limited = ProviderError(ProviderErrorKind.RATE_LIMITED, "", retry_after=20)
    assert ALONE.delay(0, limited, {"openai/big": 20}) == 20
    assert ALONE.delay(7, limited, {"openai/big": 20}) == 60


def test_a_fallback_that_has_to_wait_is_not_called_at_once() -> None:
    assert CHOICE.delay(1, FAILED, {"anthropic/other": 9}) == 1
