"""An answer is parsed as the agent's output type, or carries the reason why it does not match."""

import time

import pytest
from pydantic import JsonValue
from temporalio.exceptions import ApplicationError

from wakeful.contract.agents import MAX_CALLS
from wakeful.contract.inference import ModelResponse, OutputSpec, StopReason
from wakeful.contract.limits import ANSWER_BYTES
from wakeful.contract.messages import ToolCall
from wakeful_activities.inference.answer import recordable, with_output

SPEC = OutputSpec(
    name="Answer",
    json_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)


def answer(text: str, **more: object) -> ModelResponse:
    return ModelResponse.model_validate({"model": "m", "text": text, **more})


@pytest.mark.parametrize("text", ['{"n": 3}', ' {"n": 3}\n', '```json\n{"n": 3}\n```', '```\n{"n": 3}```'])
def test_an_answer_that_matches_its_type_is_parsed(text: str) -> None:
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
def test_an_answer_that_does_not_match_has_the_reason(text: str, problem: str) -> None:
    response = with_output(answer(text), SPEC)
    assert response.output is None
    assert response.output_problem is not None
    assert response.output_problem.startswith(problem)


@pytest.mark.parametrize("text", ["```\n" + "\n" * 900_000, "```json" + " \n" * 400_000 + "`", "\n" * 900_000 + "```"])
def test_no_text_of_a_model_takes_long_to_be_read_as_json(text: str) -> None:
    began = time.thread_time()
    assert with_output(answer(text), SPEC).output_problem is not None
    assert time.thread_time() - began < 2


def test_the_agents_own_type_may_check_more_than_the_schema() -> None:
    assert with_output(answer('{"n": 3}'), SPEC, lambda _: "too small").output_problem == "too small"
    assert with_output(answer('{"n": 3}'), SPEC, lambda _: None).output == {"n": 3}


def test_an_answer_with_tool_calls_is_not_checked() -> None:
    calls = answer("no", tool_calls=[ToolCall(id="1", name="add")], stop_reason=StopReason.TOOL_USE)
    assert with_output(calls, SPEC) == calls


def test_half_a_surrogate_pair_in_an_answer_is_replaced() -> None:
    assert recordable(answer("x").model_copy(update={"text": "caf\udce9"})).text == "caf?"


def test_a_call_whose_arguments_are_nested_too_deeply_is_not_executed() -> None:
    deep: JsonValue = "leaf"
    for _ in range(150):
        deep = [deep]
    calls = (ToolCall(id="1-1", name="add"), ToolCall(id="1-2", name="draw", arguments={"tree": deep}))
    response = recordable(ModelResponse(model="m", tool_calls=calls))
    assert [call.name for call in response.tool_calls] == ["add"]
    assert response.incomplete_calls == ("draw",)


def test_the_time_for_calls_that_are_nested_too_deeply_grows_with_their_number() -> None:
    deep: JsonValue = "leaf"
    for _ in range(150):
        deep = [deep]

    def seconds(count: int) -> float:
        calls = tuple(ToolCall(id=f"1-{number}", name="draw", arguments=deep) for number in range(count))
        response, began = ModelResponse(model="m", tool_calls=calls), time.thread_time()
        assert recordable(response).incomplete_calls == ("draw",) * count
        return time.thread_time() - began

    assert min(seconds(2_000) for _ in range(3)) < 8 * min(seconds(500) for _ in range(3))  # sixteen times, if squared


def test_an_answer_that_history_cannot_hold_ends_the_run_with_its_size() -> None:
    with pytest.raises(ApplicationError, match=r"the model's answer has 1,000,0.. bytes; at most 1,000,000") as raised:
        recordable(answer("x" * ANSWER_BYTES))
    assert raised.value.non_retryable


def test_of_too_many_calls_the_last_are_dropped_and_counted() -> None:
    calls = tuple(ToolCall(id=f"1-{number}", name="add") for number in range(8_000))
    response = recordable(ModelResponse(model="m", tool_calls=calls))
    assert response.tool_calls == calls[:MAX_CALLS]
    assert response.dropped_calls == 8_000 - MAX_CALLS
