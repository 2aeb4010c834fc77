"""Which model an attempt calls, and how long the next one waits. Temporal does the waiting."""

from collections.abc import Mapping
from dataclasses import dataclass

from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.model_settings import InferenceOverrides

IDLE_STALL = "idle stall"
"""The cause of an interruption if the provider stopped sending in the middle of an answer."""

STALL_BACKOFF_SECONDS = 0.2
_MOST_DOUBLINGS = 30


@dataclass(frozen=True)
class ModelChoice:
    """The models of an inference in the order of preference.

    In the first round each has as many attempts as the policy allows, in later rounds one. The attempts of one model
    are spaced, and so are rounds; a fallback is called at once.
    """

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

    def order(self, failures: int) -> tuple[ModelBinding, ...]:
        """The models to call after this many failed attempts: the one whose turn it is, then those after it."""
        index = self._index(failures)
        return (*self.models[index:], *self.models[:index])

    def has_tried_all(self, failures: int) -> bool:
        """Whether every model has had its attempts."""
        return failures >= self._first_round

    def delay(self, failures: int, error: ProviderError, waits: Mapping[str, float]) -> float:
        """Seconds until the next attempt, after `failures` earlier ones and this one.

        Args:
            waits: seconds until models may be called, by their keys; those that are not listed may be called now.
        """
        following = self.order(failures + 1)[0]
        if self._index(failures + 1) > self._index(failures) and not waits.get(model_key(following)):
            return 0.0
        backoff = self.backoff(failures, error)
        soonest = min(waits.get(model_key(model), 0.0) for model in self.models)
        if soonest < backoff < (error.retry_after or 0):
            return 0.0  # this model has to wait, and another one need not
        return max(backoff, soonest)

    def backoff(self, failures: int, error: ProviderError) -> float:
        """The seconds that the policy puts between two attempts."""
        if error.cause == IDLE_STALL:
            return STALL_BACKOFF_SECONDS
        is_overloaded = error.kind is ProviderErrorKind.OVERLOADED
        base = self.policy.overloaded_backoff_base_ms if is_overloaded else self.policy.backoff_base_ms
        tries = 1 + self.policy.max_retries
        later_rounds = (failures - self._first_round) // len(self.models)
        doublings = failures % tries if failures < self._first_round else tries + later_rounds
        return min(base / 1000 * (1 << min(doublings, _MOST_DOUBLINGS)), self.policy.max_backoff_secs)

    @property
    def _first_round(self) -> int:
        return len(self.models) * (1 + self.policy.max_retries)

    def _index(self, failures: int) -> int:
        if failures < self._first_round:
            return failures // (1 + self.policy.max_retries)
        return (failures - self._first_round) % len(self.models)


def model_key(model: ModelBinding) -> str:
    """What a worker and a heartbeat know a model by."""
    return f"{model.provider}/{model.name}"


def _renamed(model: ModelBinding, name: str) -> ModelBinding:
    return model.model_copy(update={"name": name})
