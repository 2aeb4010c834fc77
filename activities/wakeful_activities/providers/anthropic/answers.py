"""Answers of the Messages API: content blocks that start, grow and stop."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from wakeful.contract.inference import StopReason
from wakeful.contract.messages import ThinkingBlock
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import (
    CallArgumentsPart,
    CallEndPart,
    CallStartPart,
    ReasoningPart,
    StreamPart,
    TextPart,
    UsagePart,
)
from wakeful_activities.providers.shared.failures import (
    Endpoint,
    content_filtered,
    error_event,
    malformed_body,
    malformed_event,
)
from wakeful_activities.providers.shared.reading import ApiModel, Reader
from wakeful_activities.providers.shared.sse import Event
from wakeful_activities.providers.shared.writing import Json, as_json

_REDACTED = "redacted_thinking:"
"""Marks the signature of redacted thinking, which only Anthropic can read: it contains the thinking."""


def thinking_block(block: ThinkingBlock) -> Json | None:
    """A thinking block as the API takes it back; None for one that it did not sign."""
    signature = block.signature
    if not signature or signature.startswith("{"):  # signatures of other providers are JSON
        return None
    if signature.startswith(_REDACTED):
        return {"type": "redacted_thinking", "data": signature.removeprefix(_REDACTED)}
    return {"type": "thinking", "thinking": block.thinking, "signature": signature}


class _Details(ApiModel):
    thinking_tokens: int | None = None


class _Usage(ApiModel):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens_details: _Details | None = None

    def over(self, earlier: "_Usage") -> "_Usage":
        """Both together; the later count replaces the earlier one."""
        return earlier.model_copy(update={name: value for name, value in self if value is not None})


class _Message(ApiModel):
    model: str | None = None
    usage: _Usage | None = None


class _Block(ApiModel):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    data: str = ""
    input: JsonValue = None


class _Delta(ApiModel):
    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    stop_reason: str | None = None


class _Event(ApiModel):
    type: str = ""
    index: int = 0
    message: _Message = _Message()
    content_block: _Block = _Block()
    delta: _Delta = _Delta()
    usage: _Usage | None = None


_STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "pause_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "tool_use": StopReason.TOOL_USE,
    "stop_sequence": StopReason.STOP_SEQUENCE,
}


@dataclass
class _Call:
    index: int
    input: JsonValue
    """The input at the block's start: empty, or complete from some servers that implement the API."""


class AnthropicReader(Reader):
    def __init__(self, endpoint: Endpoint, request_id: str | None) -> None:
        super().__init__(endpoint, request_id)
        self._calls: dict[int, _Call] = {}
        self._usage = _Usage()
        self._reason: str | None = None

    def read_event(self, event: Event) -> Iterator[StreamPart]:
        parsed = self._parse_event(_Event, event.data)
        match parsed.type or event.name:
            case "error":
                raise error_event(self._endpoint, event.data)
            case "message_start":
                yield from self._opened(parsed.message.model)
                yield from self._used(parsed.message.usage)
            case "content_block_start":
                yield from self._block_started(parsed.index, parsed.content_block)
            case "content_block_delta":
                yield from self._block_grown(parsed.index, parsed.delta)
            case "content_block_stop" if call := self._calls.get(parsed.index):
                if call.input:
                    yield CallArgumentsPart(call.index, as_json(call.input))
                yield CallEndPart(call.index)
            case "message_delta":
                self._reason = parsed.delta.stop_reason or self._reason
                yield from self._used(parsed.usage)
            case "message_stop":
                self._finish(event)
            case _:  # pings, and events that do not exist yet
                pass

    def read_body(self, body: str) -> Iterator[StreamPart]:
        raise malformed_body(self._endpoint, "it does not stream", body)

    def _block_started(self, index: int, block: _Block) -> Iterator[StreamPart]:
        match block.type:
            case "tool_use":
                self._calls[index] = _Call(len(self._calls), block.input)
                yield CallStartPart(self._calls[index].index, block.id, block.name)
            case "redacted_thinking":
                yield ReasoningPart(signature=_REDACTED + block.data)
            case "text" if block.text:
                yield TextPart(block.text)
            case "thinking" if block.thinking:
                yield ReasoningPart(block.thinking)
            case _:
                pass

    def _block_grown(self, index: int, delta: _Delta) -> Iterator[StreamPart]:
        match delta.type:
            case "text_delta" if delta.text:
                yield TextPart(delta.text)
            case "thinking_delta" if delta.thinking:
                yield ReasoningPart(delta.thinking)
            case "signature_delta" if delta.signature:
                yield ReasoningPart(signature=delta.signature)
            case "input_json_delta" if delta.partial_json and (call := self._calls.get(index)):
                call.input = None
                yield CallArgumentsPart(call.index, delta.partial_json)
            case _:
                pass

    def _used(self, usage: _Usage | None) -> Iterator[StreamPart]:
        if usage is None:
            return
        self._usage = now = usage.over(self._usage)
        # Anthropic does not count cached tokens as input tokens.
        counts = (now.input_tokens, now.cache_read_input_tokens, now.cache_creation_input_tokens)
        prompt = sum(count or 0 for count in counts)
        yield UsagePart(
            Usage(
                prompt_tokens=prompt,
                completion_tokens=now.output_tokens,
                total_tokens=prompt + (now.output_tokens or 0),
                cache_read_tokens=now.cache_read_input_tokens,
                cache_creation_tokens=now.cache_creation_input_tokens,
                thinking_tokens=now.output_tokens_details.thinking_tokens if now.output_tokens_details else None,
            )
        )

    def _finish(self, event: Event) -> None:
        if self._reason == "refusal":
            raise content_filtered(self._endpoint)
        self.stop = _STOP_REASONS.get(self._reason or "")
        if self.stop is None:
            # An answer without a known reason to stop may be incomplete.
            problem = f"unknown stop_reason {self._endpoint.quote(self._reason or '')}"
            raise malformed_event(self._endpoint, problem, event.data)
        self.is_done = True
