"""Which model an attempt calls, how long the next one waits, and which models a circuit breaker keeps out."""

import pytest

from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.model_settings import InferenceOverrides
from wakeful_activities.inference.model_choice import COOLDOWN_SECONDS, FAILURES_TO_OPEN, CircuitBreakers, ModelChoice

MAIN = ModelBinding(id="main", provider="openai", name="big")
SPARE = ModelBinding(id="spare", provider="anthropic", name="other")
AGENT = ResolvedAgent(agent_id="a", model=MAIN, fallbacks=(SPARE,), retry=RetryPolicy(max_retries=1))
CHOICE = ModelChoice.of(AGENT, InferenceOverrides())


def test_every_model_has_its_attempts_before_the_next_one_is_called() -> None:
    """B-124"""
    assert [CHOICE.model(failures) for failures in range(6)] == [MAIN, MAIN, SPARE, SPARE, SPARE, SPARE]
    assert [CHOICE.is_last(failures) for failures in range(4)] == [False, False, False, True]


def test_a_model_that_is_not_available_is_skipped() -> None:
    assert CHOICE.model(0, lambda model: model is SPARE) == SPARE
    assert CHOICE.model(2, lambda model: model is MAIN) is None


def test_a_run_may_name_other_models_of_the_same_provider() -> None:
    overrides = InferenceOverrides(upstream_model="bigger", fallback_upstream_models=("small",))
    assert [model.name for model in ModelChoice.of(AGENT, overrides).models] == ["bigger", "small"]
    assert {model.provider for model in ModelChoice.of(AGENT, overrides).models} == {"openai"}
    none = ModelChoice.of(AGENT, InferenceOverrides(fallback_upstream_models=()))
    assert none.models == (MAIN,)


@pytest.mark.parametrize(
    ("failures", "error", "seconds"),
    [
        (0, ProviderError(ProviderErrorKind.PROVIDER, ""), 0.5),
        (1, ProviderError(ProviderErrorKind.PROVIDER, ""), 1.0),
        (2, ProviderError(ProviderErrorKind.PROVIDER, ""), 0.5),  # the next model's first retry
        (0, ProviderError(ProviderErrorKind.OVERLOADED, ""), 2.0),
        (0, ProviderError(ProviderErrorKind.RATE_LIMITED, "", retry_after=20), 20),
        (1, ProviderError(ProviderErrorKind.RATE_LIMITED, "", retry_after=0.1), 1.0),
        (1, ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, "", cause="idle stall"), 0.2),
    ],
)
def test_the_backoff_grows_and_the_providers_retry_after_counts_if_it_is_longer(
    failures: int, error: ProviderError, seconds: float
) -> None:
    """B-122, B-123"""
    assert CHOICE.backoff(failures, error) == seconds


def test_the_backoff_has_a_bound_and_can_be_switched_off() -> None:
    """B-123"""
    patient = ModelChoice((MAIN,), RetryPolicy(max_retries=20))
    assert patient.backoff(15, ProviderError(ProviderErrorKind.PROVIDER, "")) == 8.0
    hasty = ModelChoice((MAIN,), RetryPolicy(backoff_base_ms=0))
    assert hasty.backoff(1, ProviderError(ProviderErrorKind.TIMEOUT, "")) == 0.0


def test_a_breaker_opens_probes_and_closes() -> None:
    """B-126, H-15"""
    now = 100.0
    breakers = CircuitBreakers(lambda: now)
    for _ in range(FAILURES_TO_OPEN):
        assert breakers.is_available("m")
        breakers.begin("m")
        breakers.failed("m")
    assert not breakers.is_available("m")
    assert breakers.is_available("another")

    now += COOLDOWN_SECONDS
    assert breakers.is_available("m")
    assert breakers.is_available("m")  # asking does not use up the probe
    breakers.begin("m")
    assert not breakers.is_available("m")  # one probe at a time
    breakers.failed("m")
    assert not breakers.is_available("m")

    now += COOLDOWN_SECONDS
    breakers.begin("m")
    breakers.released("m")  # cancelled: the next call is the probe
    assert breakers.is_available("m")
    breakers.begin("m")
    breakers.succeeded("m")
    assert breakers.is_available("m")
    breakers.begin("m")
    breakers.failed("m")
    assert breakers.is_available("m")  # the count starts over


def test_a_success_resets_the_count_of_failures() -> None:
    breakers = CircuitBreakers()
    for _ in range(3):
        for _ in range(FAILURES_TO_OPEN - 1):
            breakers.failed("m")
        breakers.succeeded("m")
    assert breakers.is_available("m")
    breakers.released("unknown")
