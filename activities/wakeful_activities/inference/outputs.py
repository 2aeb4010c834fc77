"""Does the answer have the shape that its agent promises?"""

import re
from collections.abc import Callable

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from pydantic import JsonValue
from pydantic_core import from_json

from wakeful.contract.inference import ModelResponse, OutputSpec

_FENCED = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL | re.IGNORECASE)

Check = Callable[[JsonValue], str | None]
"""What is wrong with a value that fits the schema, if something is."""


def checked(response: ModelResponse, spec: OutputSpec, further: Check | None = None) -> ModelResponse:
    """The answer with its value, or with what keeps it from being one. An answer that asks for tools is none yet."""
    if response.tool_calls or response.incomplete_calls:
        return response
    value, problem = _read(response.text, spec)
    if problem is None and further is not None:
        problem = further(value)
    if problem is not None:
        return response.model_copy(update={"output_problem": problem})
    return response.model_copy(update={"output": value})


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
