"""Circuit breakers: a model that keeps failing is left alone for a while, by every run of this worker."""

import time
from collections.abc import Callable
from dataclasses import dataclass

FAILURES_TO_OPEN = 5
COOLDOWN_SECONDS = 30.0


@dataclass
class _Breaker:
    failures: int = 0
    opened_at: float | None = None
    is_probing: bool = False


class Breakers:
    """One a model. Five failures in a row open it; after 30 s one call may probe, which closes or opens it again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._breakers: dict[str, _Breaker] = {}

    def is_available(self, model: str) -> bool:
        """Whether a call would be let through. Looking does not use up the probe."""
        breaker = self._breakers.get(model)
        if breaker is None or breaker.opened_at is None:
            return True
        return not breaker.is_probing and self._clock() - breaker.opened_at >= COOLDOWN_SECONDS

    def begin(self, model: str) -> None:
        """A call begins; if the breaker is open, it is the probe."""
        breaker = self._breakers.setdefault(model, _Breaker())
        breaker.is_probing = breaker.opened_at is not None

    def succeeded(self, model: str) -> None:
        self._breakers.pop(model, None)

    def failed(self, model: str) -> None:
        breaker = self._breakers.setdefault(model, _Breaker())
        breaker.failures += 1
        if breaker.is_probing or breaker.failures >= FAILURES_TO_OPEN:
            breaker.opened_at = self._clock()
        breaker.is_probing = False

    def released(self, model: str) -> None:
        """The call ended in a way that says nothing about the model, as when it was cancelled."""
        if breaker := self._breakers.get(model):
            breaker.is_probing = False
