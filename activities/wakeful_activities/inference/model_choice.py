"""Which model an attempt calls, and how long the next one waits. Temporal counts the attempts and does the waiting."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.model_settings import InferenceOverrides

IDLE_STALL = "idle stall"
"""The cause of an interruption if the provider stopped sending in the middle of an answer."""

MAX_BACKOFF_SECONDS = 8.0
STALL_BACKOFF_SECONDS = 0.2

FAILURES_TO_OPEN = 5
COOLDOWN_SECONDS = 30.0


@dataclass(frozen=True)
class ModelChoice:
    """The models of an inference in the order of preference; each has as many attempts as the policy allows."""

    models: tuple[ModelBinding, ...]
    policy: RetryPolicy

    @classmethod
    def of(cls, agent: ResolvedAgent, overrides: InferenceOverrides) -> "ModelChoice":
        primary, fallbacks = agent.model, agent.fallbacks
        if overrides.fallback_upstream_models is not None:
            fallbacks = tuple(_renamed(agent.model, name) for name in overrides.fallback_upstream_models)
        if overrides.upstream_model is not None:
            primary = _renamed(agent.model, overrides.upstream_model)
        return cls((primary, *fallbacks), agent.retry or RetryPolicy())

    def model(
        self, failures: int, is_available: Callable[[ModelBinding], bool] = lambda _: True
    ) -> ModelBinding | None:
        """The model to call after this many failed attempts, or the next one that is available."""
        index = min(failures // (1 + self.policy.max_retries), len(self.models) - 1)
        return next((model for model in self.models[index:] if is_available(model)), None)

    def is_last(self, failures: int) -> bool:
        """Whether no attempt is left if this one fails too."""
        return failures + 1 >= len(self.models) * (1 + self.policy.max_retries)

    def backoff(self, failures: int, error: ProviderError) -> float:
        """Seconds until the next attempt: the policy's, or the provider's Retry-After if that is longer."""
        if error.cause == IDLE_STALL:
            return STALL_BACKOFF_SECONDS
        is_overloaded = error.kind is ProviderErrorKind.OVERLOADED
        base = self.policy.overloaded_backoff_base_ms if is_overloaded else self.policy.backoff_base_ms
        retries = failures % (1 + self.policy.max_retries)
        backoff = min(base / 1000 * (1 << retries), MAX_BACKOFF_SECONDS)
        return max(backoff, error.retry_after or 0)


class CircuitBreakers:
    """One a model. Five failures in a row open it; after 30 s one call may probe, which closes or reopens it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._breakers: dict[str, _Breaker] = {}

    def is_available(self, model: str) -> bool:
        """Whether the model may be called now. Asking does not use up the probe."""
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
        """The call ended in a way that says nothing about the model, such as a cancellation."""
        if breaker := self._breakers.get(model):
            breaker.is_probing = False


@dataclass
class _Breaker:
    failures: int = 0
    opened_at: float | None = None
    is_probing: bool = False


def _renamed(model: ModelBinding, name: str) -> ModelBinding:
    return model.model_copy(update={"name": name})
