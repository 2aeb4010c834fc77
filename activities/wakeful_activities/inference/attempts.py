"""Which model an attempt asks, and how long to wait for the next. Temporal counts the attempts and does the waiting."""

from collections.abc import Callable
from dataclasses import dataclass

from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import InferenceOverrides

LONGEST_BACKOFF_SECONDS = 8.0
STALL_BACKOFF_SECONDS = 0.2
IDLE_STALL = "idle stall"


@dataclass(frozen=True)
class Attempts:
    """The models in the order they are asked, each as often as the policy allows."""

    models: tuple[ModelBinding, ...]
    policy: RetryPolicy

    @classmethod
    def of(cls, agent: ResolvedAgent, overrides: InferenceOverrides) -> "Attempts":
        primary, fallbacks = agent.model, agent.fallbacks
        if overrides.fallback_upstream_models is not None:
            fallbacks = tuple(_renamed(agent.model, name) for name in overrides.fallback_upstream_models)
        if overrides.upstream_model is not None:
            primary = _renamed(agent.model, overrides.upstream_model)
        return cls((primary, *fallbacks), agent.retry or RetryPolicy())

    def model(self, failures: int, is_available: Callable[[ModelBinding], bool]) -> ModelBinding | None:
        """Whom to ask after so many failures: the model whose turn it is, or the next one that can be asked."""
        turn = min(failures // (1 + self.policy.max_retries), len(self.models) - 1)
        return next((model for model in self.models[turn:] if is_available(model)), None)

    def is_last(self, failures: int) -> bool:
        return failures + 1 >= len(self.models) * (1 + self.policy.max_retries)

    def wait(self, failures: int, error: ProviderError) -> float:
        """Seconds until the next attempt: the policy's, or the provider's own wish if that is longer."""
        if error.cause == IDLE_STALL:
            return STALL_BACKOFF_SECONDS
        is_overloaded = error.kind is ProviderErrorKind.OVERLOADED
        base = self.policy.overloaded_backoff_base_ms if is_overloaded else self.policy.backoff_base_ms
        tries = failures % (1 + self.policy.max_retries)
        backoff = min(base / 1000 * (1 << tries), LONGEST_BACKOFF_SECONDS)
        return max(backoff, error.retry_after or 0)


def _renamed(model: ModelBinding, name: str) -> ModelBinding:
    return model.model_copy(update={"name": name})
