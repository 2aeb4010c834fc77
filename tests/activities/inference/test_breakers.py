"""When a circuit breaker lets a model be called."""

from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful_activities.inference.breakers import CircuitBreakers, LastFailure

DOWN = ProviderError(ProviderErrorKind.PROVIDER, "down")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Clock, *, failures: int = 2, cooldown: float = 30.0) -> CircuitBreakers:
    breakers = CircuitBreakers(failures, cooldown, clock)
    for _ in range(failures):
        assert breakers.wait("m") == 0
        breakers.begin("m")
        breakers.failed("m", DOWN)
    return breakers


def test_failures_in_a_row_open_it_until_its_cooldown_is_over() -> None:
    """B-126, B-127"""
    clock = Clock()
    breakers = opened(clock)
    assert (breakers.wait("m"), breakers.wait("another")) == (30, 0)
    assert breakers.last_failure("m") == LastFailure(2, ProviderErrorKind.PROVIDER, "down")
    assert breakers.last_failure("another") is None
    clock.now += 20
    assert breakers.wait("m") == 10


def test_one_call_probes_and_the_others_wait_for_its_outcome_but_not_for_ever() -> None:
    """B-126, B-128, H-15"""
    clock = Clock()
    breakers = opened(clock)
    clock.now += 30
    assert (breakers.wait("m"), breakers.wait("m")) == (0, 0)  # asking does not use up the probe
    breakers.begin("m")
    assert breakers.wait("m") == 30
    clock.now += 30
    assert breakers.wait("m") == 0  # the probe hangs: another call may try


def test_a_probe_closes_it_reopens_it_or_leaves_it_to_another() -> None:
    """B-126, H-15"""
    clock = Clock()
    breakers = opened(clock)
    clock.now += 30
    breakers.begin("m")
    breakers.failed("m", DOWN)
    assert breakers.wait("m") == 30
    breakers.released("m")  # cancelled
    assert breakers.wait("m") == 0
    breakers.begin("m")
    breakers.succeeded("m")
    breakers.begin("m")
    breakers.failed("m", DOWN)
    assert breakers.wait("m") == 0  # the count starts over


def test_the_providers_retry_after_replaces_the_cooldown() -> None:
    """B-122"""
    breakers = CircuitBreakers(1, 30.0, Clock())
    breakers.failed("m", ProviderError(ProviderErrorKind.RATE_LIMITED, "slow down", retry_after=1))
    assert breakers.wait("m") == 1


def test_a_success_resets_the_count_of_failures() -> None:
    breakers = CircuitBreakers(3)
    for _ in range(3):
        for _ in range(2):
            breakers.failed("m", DOWN)
        breakers.succeeded("m")
    assert breakers.wait("m") == 0
    breakers.released("unknown")
