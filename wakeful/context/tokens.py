"""Token estimates from character counts, calibrated with the usage that providers report.

Not a tokenizer: every model has its own. The calibrated factor makes the estimates close enough.
"""

import json
import math
from collections.abc import Iterable

from pydantic import JsonValue

from wakeful.contract.inference import ModelRequest
from wakeful.contract.messages import ContentBlock, Message, TextBlock, ToolCall
from wakeful.contract.per_message import PerMessage
from wakeful.contract.tools import ToolDescriptor

MIN_FACTOR, MAX_FACTOR = 0.25, 4.0

_MESSAGE_OVERHEAD = 4
_TOOL_OVERHEAD = 10
_CHARS_PER_TOKEN = 4
_NON_TEXT_CHARS = 50
_SMOOTHING = 0.3


_ESTIMATES = PerMessage[int]()


def message_tokens(message: Message) -> int:
    """The estimate for a message, including its tool calls."""
    return _ESTIMATES.get(message, _estimate)


def _estimate(message: Message) -> int:
    chars = sum(map(_block_chars, message.content)) + sum(map(_call_chars, message.tool_calls))
    return _MESSAGE_OVERHEAD + chars // _CHARS_PER_TOKEN


def messages_tokens(messages: Iterable[Message]) -> int:
    return sum(map(message_tokens, messages))


def text_tokens(text: str) -> int:
    """The estimate for a message that is nothing but this text."""
    return _MESSAGE_OVERHEAD + len(text) // _CHARS_PER_TOKEN


def request_tokens(request: ModelRequest) -> int:
    """The estimate for a whole request."""
    return text_tokens(request.instructions) + tools_tokens(request.tools) + messages_tokens(request.messages)


def tool_tokens(tool: ToolDescriptor) -> int:
    """The estimate for a tool; each character of its name and description counts as a token, to be on the safe side."""
    schema = _json_chars(tool.parameters) // _CHARS_PER_TOKEN
    return _TOOL_OVERHEAD + len(tool.name) + len(tool.description) + schema


def tools_tokens(tools: Iterable[ToolDescriptor]) -> int:
    return sum(map(tool_tokens, tools))


def scaled(estimate: int, factor: float) -> int:
    """An estimate multiplied by the calibrated factor."""
    return math.ceil(estimate * factor)


def calibrated(factor: float, estimated: int, reported: int | None) -> float:
    """The factor after a provider has reported a request's tokens.

    Args:
        factor: the factor that was used for the estimate.
        estimated: the estimate for the whole request, including `factor`.
        reported: the request's tokens as the provider counted them; None or 0 leaves the factor unchanged.
    """
    if not reported or reported < 0 or estimated <= 0:
        return _bounded(factor)
    observed = _bounded(factor * reported / estimated)
    return _bounded(factor + _SMOOTHING * (observed - factor))


def _bounded(factor: float) -> float:
    return min(max(factor, MIN_FACTOR), MAX_FACTOR)


def _block_chars(block: ContentBlock) -> int:
    return len(block.text) if isinstance(block, TextBlock) else _NON_TEXT_CHARS


def _call_chars(call: ToolCall) -> int:
    return len(call.name) + _json_chars(call.arguments)


def _json_chars(value: JsonValue) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
