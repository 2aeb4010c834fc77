"""Does the answer have the shape that its agent promises?"""

import re
from collections.abc import Callable, Sequence

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from pydantic import JsonValue
from pydantic_core import from_json

from wakeful.contract.budgets import Price
from wakeful.contract.inference import ModelResponse, OutputSpec
from wakeful.contract.messages import Message, Role
from wakeful.contract.runs import Usage
from wakeful.loop.step.model_notes import CONTINUE

_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL | re.IGNORECASE)

Check = Callable[[JsonValue], str | None]
"""What is wrong with a value that fits the schema, if something is."""


def with_output(
    response: ModelResponse, spec: OutputSpec, further: Check | None = None, *, before: str = ""
) -> ModelResponse:
    """The answer with its value, or with what keeps it from being one. An answer that asks for tools is none yet.

    `before` is the text that this answer continues, if it hit the token limit.
    """
    if response.tool_calls or response.incomplete_calls:
        return response
    value, problem = _read(before + response.text, spec)
    if problem is None and further is not None:
        problem = further(value)
    if problem is not None:
        return response.model_copy(update={"output_problem": problem})
    return response.model_copy(update={"output": value})


def continued_text(messages: Sequence[Message]) -> str:
    """What the model has said already of the answer that it is asked to go on with."""
    parts: list[str] = []
    rest = list(messages)
    while len(rest) >= 2 and rest[-1].text == CONTINUE and rest[-2].role is Role.ASSISTANT:
        parts.append(rest[-2].text)
        del rest[-2:]
    return "".join(reversed(parts))


def _read(text: str, spec: OutputSpec) -> tuple[JsonValue, str | None]:
    fenced = _FENCED.match(text)
    try:
        value: JsonValue = from_json(fenced[1] if fenced else text, allow_inf_nan=False)
    except ValueError as error:
        return None, f"it is not JSON: {error}"
    misfit = best_match(Draft202012Validator(spec.json_schema).iter_errors(value))
    if misfit is None:
        return value, None
    return None, f"at {misfit.json_path}: {misfit.message}"


_MILLION = 1_000_000


def priced(usage: Usage, price: Price | None) -> Usage:
    """The usage with its cost; as it is where there is no price, or nobody has counted tokens."""
    if price is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return usage
    cached = max(0, usage.cache_read_tokens or 0)
    fresh = max(0, (usage.prompt_tokens or 0) - cached)
    said = max(0, usage.completion_tokens or 0)
    of_cached = price.input if price.cached_input is None else price.cached_input
    cost = (fresh * price.input + cached * of_cached + said * price.output) / _MILLION
    return usage.model_copy(update={"cost": round(cost, 9)})
