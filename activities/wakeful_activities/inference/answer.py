"""Complete an answer: parse it as the agent's output type, and add what it cost."""

from collections.abc import Callable, Sequence

from pydantic import JsonValue
from pydantic_core import from_json

from wakeful.authoring.json_schemas import value_problem
from wakeful.context.tokens import message_tokens, request_tokens
from wakeful.contract.agents import MAX_CALLS
from wakeful.contract.base import json_bytes
from wakeful.contract.budgets import Price
from wakeful.contract.inference import ModelRequest, ModelResponse, OutputSpec
from wakeful.contract.limits import ANSWER_BYTES, depth_problem
from wakeful.contract.messages import Message, Role, ToolCall
from wakeful.contract.runs import Usage
from wakeful.contract.transcript import assistant_message
from wakeful.loop.step.model_notes import CONTINUE
from wakeful_activities.inference.stream_assembly import answer_too_large
from wakeful_activities.results import in_unicode

Check = Callable[[JsonValue], str | None]
"""What is wrong with a value that matches the schema; None if nothing is."""

_FENCE = "```"
_MILLION = 1_000_000


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
    deep, flat = list[ToolCall](), list[ToolCall]()
    for call in response.tool_calls:
        (flat if depth_problem(call.arguments) is None else deep).append(call)
    if deep:
        response = response.model_copy(
            update={
                "tool_calls": tuple(flat),
                "incomplete_calls": (*response.incomplete_calls, *(call.name for call in deep)),
            }
        )
    if (dropped := len(response.tool_calls) - MAX_CALLS) > 0:
        kept = response.tool_calls[:MAX_CALLS]
        response = response.model_copy(update={"tool_calls": kept, "dropped_calls": response.dropped_calls + dropped})
    if (size := json_bytes(response)) > ANSWER_BYTES:
        raise answer_too_large(f"{size:,} bytes; at most {ANSWER_BYTES:,} are accepted")
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
    read, written = max(0, usage.cache_read_tokens or 0), max(0, usage.cache_creation_tokens or 0)
    counts = (
        (max(0, (usage.prompt_tokens or 0) - read - written), price.input),
        (read, price.cached_input),
        (written, price.cache_write),
        (max(0, usage.completion_tokens or 0), price.output),
    )
    cost = sum(count * (price.input if each is None else each) for count, each in counts) / _MILLION
    return usage.model_copy(update={"cost": round(cost, 9)})


def _parse(text: str, spec: OutputSpec) -> tuple[JsonValue, str | None]:
    try:
        value: JsonValue = from_json(_unfenced(text), allow_inf_nan=False)
    except ValueError as error:
        return None, f"it is not JSON: {error}"
    mismatch = value_problem(value, spec.json_schema)
    if mismatch is None:
        return value, None
    return None, f"at {mismatch.json_path}: {mismatch.message}"


def _unfenced(text: str) -> str:
    """What a Markdown fence around all of the text holds, or the text. A regular expression would backtrack here."""
    first, _, rest = text.strip().partition("\n")
    is_fenced = first.rstrip().lower() in (_FENCE, f"{_FENCE}json") and rest.endswith(_FENCE)
    return rest.removesuffix(_FENCE).strip() if is_fenced else text
