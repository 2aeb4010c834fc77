"""Circuit breakers: they space the calls of a model that keeps failing on this worker, and end no run."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from wakeful.contract.errors import ProviderError, ProviderErrorKind

DEFAULT_FAILURES = 5
DEFAULT_COOLDOWN_SECONDS = 10.0


class CircuitBreakers:
    """One a model. Failures in a row open it; after its cooldown one call may probe, which closes or reopens it.

    Args:
        failures: how many in a row, in all runs of this worker, open a breaker.
        cooldown: seconds until a probe, unless the provider's `Retry-After` says another time.
    """

    def __init__(
        self,
        failures: int = DEFAULT_FAILURES,
        cooldown: float = DEFAULT_COOLDOWN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures = failures
        self._cooldown = cooldown
        self._clock = clock
        self._breakers: dict[str, _Breaker] = {}

    def wait(self, model: str) -> float:
        """Seconds until the model may be called; 0 means now. Asking does not use up the probe."""
        breaker = self._breakers.get(model)
        return max(0.0, breaker.open_until - self._clock()) if breaker else 0.0

    def is_open(self, model: str) -> bool:
        """Whether the model's breaker spaces its calls."""
        breaker = self._breakers.get(model)
        return breaker is not None and breaker.is_open

    def last_failure(self, model: str) -> "LastFailure | None":
        """How the model has failed since it last answered, if it has."""
        breaker = self._breakers.get(model)
        return breaker.last if breaker else None

    def begin(self, model: str) -> None:
        """A call begins. If the breaker is open, it is the probe, and others wait for its outcome or for a cooldown."""
        breaker = self._breakers.get(model)
        if breaker is not None and breaker.is_open:
            breaker.open_until = self._clock() + self._cooldown

    def succeeded(self, model: str) -> None:
        self._breakers.pop(model, None)

    def failed(self, model: str, error: ProviderError) -> None:
        before = self._breakers.get(model)
        # The error itself would keep its traceback, and so the request, alive.
        last = LastFailure(1 + before.last.failures if before else 1, error.kind, str(error))
        breaker = self._breakers[model] = _Breaker(last) if before is None else before
        breaker.last = last
        if last.failures >= self._failures:
            breaker.is_open = True
            cooldown = self._cooldown if error.retry_after is None else error.retry_after
            breaker.open_until = self._clock() + cooldown

    def released(self, model: str) -> None:
        """The call ended in a way that says nothing about the model, such as a cancellation: another may probe."""
        if breaker := self._breakers.get(model):
            breaker.open_until = 0.0


@dataclass(frozen=True)
class LastFailure:
    """How often a model has failed in a row, and the newest failure."""

    failures: int
    kind: ProviderErrorKind
    message: str


@dataclass
class _Breaker:
    last: LastFailure
    is_open: bool = False
    open_until: float = 0.0
    """Until when it lets no call through."""
