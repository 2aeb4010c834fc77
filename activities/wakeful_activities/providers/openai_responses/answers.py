"""Answers of the Responses API: output items that are added, grow and are done."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from wakeful.contract.errors import ProviderError
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
from wakeful_activities.providers.shared.writing import arguments_text, as_json


class _Signature(ApiModel):
    """The signature of a thinking block: what a reasoning item needs, besides its summary, to be sent back."""

    id: str
    encrypted_content: str


def reasoning_item(block: ThinkingBlock) -> JsonValue:
    """A thinking block as the API takes it back; None for one that it did not sign."""
    try:
        signature = _Signature.model_validate_json(block.signature or "")
    except ValidationError:
        return None
    summary: list[JsonValue] = [{"type": "summary_text", "text": block.thinking}] if block.thinking else []
    return {
        "type": "reasoning",
        "id": signature.id,
        "summary": summary,
        "encrypted_content": signature.encrypted_content,
    }


class _Part(ApiModel):
    text: str | None = None
    refusal: str | None = None


class _Item(ApiModel):
    type: str
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: JsonValue = None
    content: tuple[_Part, ...] | None = None
    summary: tuple[_Part, ...] | None = None
    encrypted_content: str | None = None


class _Details(ApiModel):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(ApiModel):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Incomplete(ApiModel):
    reason: str | None = None


class _Response(ApiModel):
    model: str | None = None
    status: str | None = None
    error: dict[str, JsonValue] | None = None
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None


class _Body(_Response):
    output: tuple[_Item, ...]


class _Event(ApiModel):
    type: str = ""
    response: _Response | None = None
    output_index: int = 0
    summary_index: int = 0
    item: _Item | None = None
    delta: JsonValue = None


@dataclass
class _ItemState:
    """What has been forwarded of one output item."""

    call: int | None = None
    is_forwarded: bool = False


class ResponsesReader(Reader):
    def __init__(self, endpoint: Endpoint, request_id: str | None) -> None:
        super().__init__(endpoint, request_id)
        self._items: dict[int, _ItemState] = {}
        self._calls = 0

    def read_event(self, event: Event) -> Iterator[StreamPart]:
        if event.data.strip() == "[DONE]":  # from proxies that translate from Chat Completions
            return
        parsed = self._parse_event(_Event, event.data)
        match parsed.type or event.name:
            case "error":
                raise error_event(self._endpoint, event.data)
            case "response.output_item.added" if parsed.item is not None:
                yield from self._item_added(parsed.output_index, parsed.item)
            case "response.output_item.done" if parsed.item is not None:
                yield from self._item_done(parsed.output_index, parsed.item)
            case "response.completed" | "response.incomplete" | "response.failed" if parsed.response is not None:
                yield from self._opened(parsed.response.model)
                status = parsed.response.status or parsed.type.removeprefix("response.")
                yield from self._finish(parsed.response, status, event.data, malformed_event)
                self.is_done = True
            case "response.reasoning_summary_part.added" if parsed.summary_index > 0:
                yield ReasoningPart("\n\n")
            case kind if isinstance(parsed.delta, str) and parsed.delta:
                yield from self._item_grown(kind, parsed.output_index, parsed.delta)
            case _ if parsed.response is not None:
                yield from self._opened(parsed.response.model)
            case _:  # other events repeat what these contain
                pass

    def read_body(self, body: str) -> Iterator[StreamPart]:
        response = self._parse_body(_Body, body)
        parts = [part for index, item in enumerate(response.output) for part in self._item_done(index, item)]
        parts += self._finish(response, response.status or "", body, malformed_body)
        yield from self._opened(response.model)
        yield from parts

    def _item_grown(self, kind: str, index: int, delta: str) -> Iterator[StreamPart]:
        state = self._items.setdefault(index, _ItemState())
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                yield TextPart(delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ReasoningPart(delta)
            case "response.function_call_arguments.delta" if state.call is not None:
                yield CallArgumentsPart(state.call, delta)
            case _:
                return
        state.is_forwarded = True

    def _item_added(self, index: int, item: _Item) -> Iterator[StreamPart]:
        state = self._items.setdefault(index, _ItemState())
        if item.type == "function_call" and state.call is None:
            state.call = self._calls
            self._calls += 1
            yield CallStartPart(state.call, item.call_id or item.id or "", item.name or "")

    def _item_done(self, index: int, item: _Item) -> Iterator[StreamPart]:
        """The parts of an item that are not forwarded yet: all of them, if the server sent no deltas."""
        yield from self._item_added(index, item)
        state = self._items[index]
        match item.type:
            case "function_call" if state.call is not None:
                if item.arguments and not state.is_forwarded:
                    yield CallArgumentsPart(state.call, arguments_text(item.arguments))
                yield CallEndPart(state.call)
            case "reasoning":
                if not state.is_forwarded:
                    summary = "\n\n".join(part.text or "" for part in item.summary or ())
                    yield from [ReasoningPart(summary)] if summary else []
                if item.id and item.encrypted_content:
                    signature = _Signature(id=item.id, encrypted_content=item.encrypted_content)
                    yield ReasoningPart(signature=signature.model_dump_json())
            case "message" if not state.is_forwarded:
                for part in item.content or ():
                    yield from [TextPart(text)] if (text := part.text or part.refusal) else []
        state.is_forwarded = True

    def _finish(
        self, response: _Response, status: str, text: str, failure: Callable[[Endpoint, str, str], ProviderError]
    ) -> Iterator[StreamPart]:
        reason = response.incomplete_details.reason if response.incomplete_details else None
        match status, reason:
            case "completed", _:
                self.stop = StopReason.TOOL_USE if self._calls else StopReason.END_TURN
            case "incomplete", "max_output_tokens":
                self.stop = StopReason.MAX_TOKENS
            case "incomplete", "content_filter":
                raise content_filtered(self._endpoint)
            case "failed", _:
                raise error_event(self._endpoint, as_json({"error": response.error}))
            case _:
                ended = self._endpoint.quote(": ".join(filter(None, (status, reason))))
                raise failure(self._endpoint, f"unknown status {ended}", text)
        if response.usage is not None:
            yield UsagePart(_used(response.usage))


def _used(usage: _Usage) -> Usage:
    read = usage.input_tokens_details or _Details()
    written = usage.output_tokens_details or _Details()
    return Usage(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        total_tokens=usage.total_tokens,
        cache_read_tokens=read.cached_tokens,
        cache_creation_tokens=read.cache_write_tokens,
        thinking_tokens=written.reasoning_tokens,
    )
