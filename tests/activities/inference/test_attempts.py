"""Which model is asked when, how long is waited, and which models are left alone."""

import pytest

from wakeful.contract.agents import ModelBinding, ResolvedAgent, RetryPolicy
from wakeful.contract.errors import ProviderError, ProviderErrorKind
from wakeful.contract.inference import InferenceOverrides, ModelResponse, OutputSpec, StopReason
from wakeful.contract.messages import ToolCall
from wakeful_activities.inference.answer import with_output
from wakeful_activities.inference.model_choice import COOLDOWN_SECONDS, FAILURES_TO_OPEN, Attempts, Breakers

MAIN = ModelBinding(id="main", provider="openai", name="big")
SPARE = ModelBinding(id="spare", provider="anthropic", name="other")
AGENT = ResolvedAgent(agent_id="a", model=MAIN, fallbacks=(SPARE,), retry=RetryPolicy(max_retries=1))
ALL = Attempts.of(AGENT, InferenceOverrides())


def anybody(_model: ModelBinding) -> bool:
    return True


def test_every_model_has_its_tries_before_the_next_one_is_asked() -> None:
    """B-124"""
    assert [ALL.model(failures, anybody) for failures in range(6)] == [MAIN, MAIN, SPARE, SPARE, SPARE, SPARE]
    assert [ALL.is_last(failures) for failures in range(4)] == [False, False, False, True]


def test_a_model_that_is_left_alone_is_passed_over() -> None:
    assert ALL.model(0, lambda model: model is SPARE) == SPARE
    assert ALL.model(2, lambda model: model is MAIN) is None


def test_a_run_may_name_other_models_of_the_same_provider() -> None:
    overrides = InferenceOverrides(upstream_model="bigger", fallback_upstream_models=("small",))
    assert [model.name for model in Attempts.of(AGENT, overrides).models] == ["bigger", "small"]
    assert {model.provider for model in Attempts.of(AGENT, overrides).models} == {"openai"}
    none = Attempts.of(AGENT, InferenceOverrides(fallback_upstream_models=()))
    assert none.models == (MAIN,)


@pytest.mark.parametrize(
    ("failures", "error", "seconds"),
    [
        (0, ProviderError(ProviderErrorKind.PROVIDER, ""), 0.5),
        (1, ProviderError(ProviderErrorKind.PROVIDER, ""), 1.0),
        (2, ProviderError(ProviderErrorKind.PROVIDER, ""), 0.5),  # the next model begins anew
        (0, ProviderError(ProviderErrorKind.OVERLOADED, ""), 2.0),
        (0, ProviderError(ProviderErrorKind.RATE_LIMITED, "", retry_after=20), 20),
        (1, ProviderError(ProviderErrorKind.RATE_LIMITED, "", retry_after=0.1), 1.0),
        (1, ProviderError(ProviderErrorKind.STREAM_INTERRUPTED, "", cause="idle stall"), 0.2),
    ],
)
def test_how_long_is_waited(failures: int, error: ProviderError, seconds: float) -> None:
    """B-122, B-123"""
    assert ALL.wait(failures, error) == seconds


def test_the_wait_has_a_bound_and_can_be_switched_off() -> None:
    """B-123"""
    patient = Attempts((MAIN,), RetryPolicy(max_retries=20))
    assert patient.wait(15, ProviderError(ProviderErrorKind.PROVIDER, "")) == 8.0
    hasty = Attempts((MAIN,), RetryPolicy(backoff_base_ms=0))
    assert hasty.wait(1, ProviderError(ProviderErrorKind.TIMEOUT, "")) == 0.0


def test_a_breaker_opens_probes_and_closes() -> None:
    """B-126, H-15"""
    now = 100.0
    breakers = Breakers(lambda: now)
    for _ in range(FAILURES_TO_OPEN):
        assert breakers.is_available("m")
        breakers.begin("m")
        breakers.failed("m")
    assert not breakers.is_available("m")
    assert breakers.is_available("another")

    now += COOLDOWN_SECONDS
    assert breakers.is_available("m")
    assert breakers.is_available("m")  # looking uses nothing up
    breakers.begin("m")
    assert not breakers.is_available("m")  # one probe at a time
    breakers.failed("m")
    assert not breakers.is_available("m")

    now += COOLDOWN_SECONDS
    breakers.begin("m")
    breakers.released("m")  # cancelled: the probe is still to come
    assert breakers.is_available("m")
    breakers.begin("m")
    breakers.succeeded("m")
    assert breakers.is_available("m")
    breakers.begin("m")
    breakers.failed("m")
    assert breakers.is_available("m")  # counting begins anew


def test_a_success_in_between_keeps_it_closed() -> None:
    breakers = Breakers()
    for _ in range(3):
        for _ in range(FAILURES_TO_OPEN - 1):
            breakers.failed("m")
        breakers.succeeded("m")
    assert breakers.is_available("m")
    breakers.released("never heard of")


SPEC = OutputSpec(
    name="Answer",
    json_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)


def answer(text: str, **more: object) -> ModelResponse:
    return ModelResponse.model_validate({"model": "m", "text": text, **more})


@pytest.mark.parametrize("text", ['{"n": 3}', ' {"n": 3}\n', '```json\n{"n": 3}\n```', '```\n{"n": 3}```'])
def test_an_answer_that_fits(text: str) -> None:
    response = with_output(answer(text), SPEC)
    assert (response.output, response.output_problem) == ({"n": 3}, None)
    assert response.text == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("three", "it is not JSON"),
        ('{"n": "3"}', "at $.n: '3' is not of type 'integer'"),
        ("{}", "at $: 'n' is a required property"),
        ("", "it is not JSON"),
    ],
)
def test_an_answer_that_does_not_fit_says_why(text: str, problem: str) -> None:
    response = with_output(answer(text), SPEC)
    assert response.output is None
    assert response.output_problem is not None
    assert response.output_problem.startswith(problem)


def test_the_agents_own_type_may_ask_for_more() -> None:
    assert with_output(answer('{"n": 3}'), SPEC, lambda _: "too small").output_problem == "too small"
    assert with_output(answer('{"n": 3}'), SPEC, lambda _: None).output == {"n": 3}


def test_an_answer_that_asks_for_tools_is_none_yet() -> None:
    calls = answer("no", tool_calls=[ToolCall(id="1", name="add")], stop_reason=StopReason.TOOL_USE)
    assert with_output(calls, SPEC) == calls
