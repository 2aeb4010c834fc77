"""The settings that one run changes."""

import pytest
from pydantic import ValidationError

from wakeful.contract.agents import ResolvedAgent
from wakeful.contract.inference import InferInput
from wakeful.contract.model_settings import InferenceOverrides, ModelSettings, ReasoningBudget


def test_each_field_of_an_override_that_is_set_wins() -> None:
    """B-102"""
    settings = ModelSettings(temperature=0.5, max_tokens=100, reasoning_effort="low")
    wanted = InferenceOverrides(temperature=0.0, reasoning_effort=ReasoningBudget(budget=9), upstream_model="model-2")
    assert wanted.over(settings) == InferenceOverrides(
        temperature=0.0, max_tokens=100, reasoning_effort=ReasoningBudget(budget=9), upstream_model="model-2"
    )


def test_an_empty_override_changes_nothing() -> None:
    assert InferenceOverrides().over(ModelSettings(top_p=0.9)) == InferenceOverrides(top_p=0.9)


@pytest.mark.parametrize("effort", ["none", "low", "medium", "high", "max", {"budget": 1024}])
def test_reasoning_effort_is_a_word_or_a_budget(effort: object) -> None:
    """B-103"""
    assert ModelSettings.model_validate({"reasoning_effort": effort}).model_dump() == {"reasoning_effort": effort}


def test_an_override_can_turn_the_prompt_cache_off() -> None:
    wanted = InferenceOverrides(prompt_cache=False)
    assert wanted.over(ModelSettings(prompt_cache="1h")) == InferenceOverrides(prompt_cache=False)


def test_an_older_worker_ignores_settings_that_it_does_not_know() -> None:
    settings = {"temperature": 0.5, "from_tomorrow": 1}
    recorded = {"agent_id": "a", "model": {"id": "m", "provider": "p", "name": "n"}, "settings": settings}
    agent = ResolvedAgent.model_validate(recorded)
    assert agent.settings == ModelSettings(temperature=0.5)
    transcript = {"length": 0, "digest": ""}
    input = InferInput.model_validate({"agent": "a", "transcript": transcript, "overrides": settings})
    assert input.overrides == InferenceOverrides(temperature=0.5)
    with pytest.raises(ValidationError, match="from_tomorrow"):
        ModelSettings.model_validate(settings)


@pytest.mark.parametrize(
    "wrong",
    [{"reasoning_effort": "hard"}, {"temperature": -1}, {"max_tokens": 0}, {"top_p": 0}, {"prompt_cache": "1y"}],
)
def test_settings_out_of_range_are_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        ModelSettings.model_validate(wrong)
