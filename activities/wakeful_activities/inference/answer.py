"""Complete an answer: parse it as the agent's output type, and add what it cost."""

import re
from collections.abc import Callable, Sequence

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from pydantic import JsonValue
from pydantic_core import from_json
from temporalio.exceptions import ApplicationError

from wakeful.context.tokens import message_tokens, request_tokens
from wakeful.contract.agents import MAX_CALLS
from wakeful.contract.base import json_bytes
from wakeful.contract.budgets import Price
from wakeful.contract.inference import ModelRequest, ModelResponse, OutputSpec
from wakeful.contract.limits import depth_problem
from wakeful.contract.messages import Message, Role
from wakeful.contract.runs import Usage
from wakeful.contract.transcript import assistant_message
from wakeful.loop.step.model_notes import CONTINUE
from wakeful_activities.results import in_unicode

Check = Callable[[JsonValue], str | None]
"""What is wrong with a value that matches the schema; None if nothing is."""

_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL | re.IGNORECASE)
_MILLION = 1_000_000

ANSWER_LIMIT = 1_000_000
"""Bytes of an answer with its calls, verdicts and parsed output: a run's result repeats a part of it."""


def with_output(
    response: ModelResponse, spec: OutputSpec, check: Check | None = None, *, before: str = ""
) -> ModelResponse:
    """The answer with its parsed output, or with the reason why it has none. An answer with tool calls is unchanged.

    Args:
        check: a further check of a value that matches the schema.
        before: the text that this answer continues, if it hit the token limit.
    """
    if response.tool_calls or response.incomplete_calls:
        return response
    value, problem = _parse(before + response.text, spec)
    if problem is None and check is not None:
        problem = check(value)
    if problem is not None:
        return response.model_copy(update={"output_problem": problem})
    return response.model_copy(update={"output": value})


def recordable(response: ModelResponse) -> ModelResponse:
    """The answer, if history can hold it. Calls whose arguments are nested too deeply are not executed.

    Raises:
        ApplicationError: it is too large, which calling the model again would not change.
    """
    response = in_unicode(response)
    deep = [call for call in response.tool_calls if depth_problem(call.arguments) is not None]
    if deep:
        response = response.model_copy(
            update={
                "tool_calls": tuple(call for call in response.tool_calls if call not in deep),
                "incomplete_calls": (*response.incomplete_calls, *(call.name for call in deep)),
            }
        )
    if (dropped := len(response.tool_calls) - MAX_CALLS) > 0:
        kept = response.tool_calls[:MAX_CALLS]
        response = response.model_copy(update={"tool_calls": kept, "dropped_calls": response.dropped_calls + dropped})
    if (size := json_bytes(response)) > ANSWER_LIMIT:
        message = f"the model's answer has {size:,} bytes; at most {ANSWER_LIMIT:,} are accepted"
        raise ApplicationError(message, type="AnswerTooLarge", non_retryable=True)
    return response


def continued_text(messages: Sequence[Message]) -> str:
    """The text that the model wrote before it hit the token limit, if these messages ask it to continue."""
    parts: list[str] = []
    rest = list(messages)
    while len(rest) >= 2 and rest[-1].text == CONTINUE and rest[-2].role is Role.ASSISTANT:
        parts.append(rest[-2].text)
        del rest[-2:]
    return "".join(reversed(parts))


def with_estimate(response: ModelResponse, request: ModelRequest) -> ModelResponse:
    """The answer; if the provider has counted no tokens, with estimates: a token budget must not be void."""
    usage = response.usage
    if any(count is not None for count in (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)):
        return response
    prompt = request_tokens(request)
    completion = message_tokens(assistant_message(response))
    counted = Usage(
        prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion, estimated=True
    )
    return response.model_copy(update={"usage": counted})


def priced(usage: Usage, price: Price | None) -> Usage:
    """The usage with its cost; unchanged if the model has no price, or the provider counted no tokens."""
    if price is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return usage
    cached = max(0, usage.cache_read_tokens or 0)
    uncached = max(0, (usage.prompt_tokens or 0) - cached)
    completion = max(0, usage.completion_tokens or 0)
    cached_price = price.input if price.cached_input is None else price.cached_input
    cost = (uncached * price.input + cached * cached_price + completion * price.output) / _MILLION
    return usage.model_copy(update={"cost": round(cost, 9)})


def _parse(text: str, spec: OutputSpec) -> tuple[JsonValue, str | None]:
    fenced = _FENCED.match(text)
    try:
        value: JsonValue = from_json(fenced[1] if fenced else text, allow_inf_nan=False)
    except ValueError as error:
        return None, f"it is not JSON: {error}"
    mismatch = best_match(Draft202012Validator(spec.json_schema).iter_errors(value))
    if mismatch is None:
        return value, None
    return None, f"at {mismatch.json_path}: {mismatch.message}"
