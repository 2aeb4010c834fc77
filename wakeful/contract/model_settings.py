"""Settings of model calls, and what a run changes of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator

from wakeful.contract.base import Maybe, Written


class ReasoningBudget(Written):
    """How many tokens a model may spend on reasoning."""

    budget: int = Field(ge=1)


ReasoningEffort = Literal["none", "low", "medium", "high", "max"] | ReasoningBudget


PromptCache = bool | Literal["5m", "1h"]


class ModelSettings(Written):
    """Settings of a model call. The provider chooses what is not set."""

    temperature: Maybe[float] = Field(default=None, ge=0)
    max_tokens: Maybe[int] = Field(default=None, ge=1)
    top_p: Maybe[float] = Field(default=None, gt=0, le=1)
    reasoning_effort: Maybe[ReasoningEffort] = None
    prompt_cache: Maybe[PromptCache] = None
    """Whether to ask the provider to cache the unchanged prefix, and for how long; by default, for its usual time."""


class InferenceOverrides(ModelSettings):
    """What one run changes of its agent's settings; each field that is set wins."""

    upstream_model: Maybe[str] = None
    """Another model of the same provider, by the provider's name for it."""
    fallback_upstream_models: Maybe[tuple[str, ...]] = None
    """Fallback models of the same provider; replaces the agent's."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            temperature: float | None = ...,
            max_tokens: int | None = ...,
            top_p: float | None = ...,
            reasoning_effort: ReasoningEffort | None = ...,
            prompt_cache: PromptCache | None = ...,
            upstream_model: str | None = ...,
            fallback_upstream_models: Sequence[str] | None = ...,
        ) -> None: ...

    @field_validator("upstream_model")
    @classmethod
    def _is_named(cls, name: str | None) -> str | None:
        if name is not None and not name.strip():
            raise ValueError("inference override upstream_model cannot be empty")
        return name

    def over(self, settings: ModelSettings) -> Self:
        """These settings, completed by `settings`."""
        said = {name: getattr(settings, name) for name in type(settings).model_fields}
        mine = {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}
        return type(self)(**{**said, **mine})


def _known_settings(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: setting for name, setting in value.items() if name in InferenceOverrides.model_fields}
    return value


RecordedModelSettings = Annotated[ModelSettings, BeforeValidator(_known_settings)]
RecordedOverrides = Annotated[InferenceOverrides, BeforeValidator(_known_settings)]
"""Settings as history records them: an older worker ignores those that it does not know."""
