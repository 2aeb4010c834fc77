"""Answers of the Chat Completions API.

It also reads the answers of servers that leave out ids, indexes, the last event or the stream itself. The API does not
say when a call is complete: the next call, or the stop, closes it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pydantic import Field, JsonValue
from pydantic_core import from_json

from wakeful.contract.errors import ProviderError
from wakeful.contract.inference import StopReason
from wakeful.contract.runs import Usage
from wakeful.contract.streaming import CallArgumentsPart, CallStartPart, ReasoningPart, StreamPart, TextPart, UsagePart
from wakeful_activities.providers.shared.failures import (
    Endpoint,
    content_filtered,
    error_event,
    malformed_body,
    malformed_event,
)
from wakeful_activities.providers.shared.reading import ApiModel, Reader
from wakeful_activities.providers.shared.sse import Event
from wakeful_activities.providers.shared.writing import arguments_text


class _Function(ApiModel):
    name: str | None = None
    arguments: JsonValue = None


class _Call(ApiModel):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Message(ApiModel):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[_Call, ...] | None = None


class _Details(ApiModel):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(ApiModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Delta(ApiModel):
    delta: _Message | None = None
    finish_reason: str | None = None


class _Chunk(ApiModel):
    model: str | None = None
    choices: tuple[_Delta, ...] | None = None
    usage: _Usage | None = None
    error: JsonValue = None


class _Choice(ApiModel):
    message: _Message
    finish_reason: str


class _Completion(ApiModel):
    model: str | None = None
    choices: tuple[_Choice, ...] = Field(min_length=1)
    usage: _Usage | None = None


_STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
}


@dataclass
class _PartialCall:
    """A call that has arrived so far. It is held back until it has a name."""

    index: int
    id: str
    name: str = ""
    arguments: str = ""


class ChatReader(Reader):
    def __init__(self, endpoint: Endpoint, request_id: str | None) -> None:
        super().__init__(endpoint, request_id)
        self._calls: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}

    def read_event(self, event: Event) -> Iterator[StreamPart]:
        if event.data.strip() == "[DONE]":
            self.is_done = True
            return
        chunk = self._parse_event(_Chunk, event.data)
        if chunk.error is not None or event.name == "error":
            raise error_event(self._endpoint, event.data)
        yield from self._opened(chunk.model)
        for choice in (chunk.choices or ())[:1]:
            yield from self._message_parts(choice.delta or _Message())
            if choice.finish_reason:
                self._finish(choice.finish_reason, event.data, malformed_event)
        if chunk.usage is not None:
            yield UsagePart(_used(chunk.usage))

    def read_body(self, body: str) -> Iterator[StreamPart]:
        completion = self._parse_body(_Completion, body)
        [choice, *_] = completion.choices
        calls = tuple(
            call.model_copy(update={"index": index}) for index, call in enumerate(choice.message.tool_calls or ())
        )
        parts = [*self._message_parts(choice.message.model_copy(update={"tool_calls": calls}))]
        self._finish(choice.finish_reason, body, malformed_body)
        yield from self._opened(completion.model)
        yield from parts
        if completion.usage is not None:
            yield UsagePart(_used(completion.usage))

    def _finish(self, reason: str, text: str, failure: Callable[[Endpoint, str, str], ProviderError]) -> None:
        if reason == "content_filter":
            raise content_filtered(self._endpoint)
        if not all(call.name for call in self._calls):
            raise failure(self._endpoint, "a tool call without a name", text)
        self.stop = _STOP_REASONS.get(reason)
        if self.stop is None:
            # An answer without a known reason to stop may be incomplete.
            raise failure(self._endpoint, f"unknown finish_reason {self._endpoint.quote(reason)}", text)

    def _message_parts(self, message: _Message) -> Iterator[StreamPart]:
        if reasoning := message.reasoning_content or message.reasoning:
            yield ReasoningPart(reasoning)
        for text in filter(None, (message.content, message.refusal)):
            yield TextPart(text)
        for call in message.tool_calls or ():
            yield from self._call_parts(call)

    def _call_parts(self, piece: _Call) -> Iterator[StreamPart]:
        text = arguments_text(piece.function.arguments)
        call = self._continued_call(piece)
        if call is None or _is_new_call(piece, text, call):
            call = _PartialCall(len(self._calls), piece.id or "")
            self._calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        held_back = "" if call.name else call.arguments
        call.arguments += text
        if not call.name and piece.function.name:
            call.name, call.id = piece.function.name, call.id or piece.id or ""
            yield CallStartPart(call.index, call.id, call.name)
        if call.name and held_back + text:
            yield CallArgumentsPart(call.index, held_back + text)

    def _continued_call(self, piece: _Call) -> _PartialCall | None:
        """The call that a piece seems to continue: by its index, by its id, or, if it has neither, the last one."""
        if piece.index is not None:
            return self._by_index.get(piece.index)
        same_id = (call for call in self._calls if piece.id and call.id == piece.id)
        return next(same_id, self._calls[-1] if self._calls else None)


def _is_new_call(piece: _Call, text: str, call: _PartialCall) -> bool:
    """Whether a piece begins a new call, although it seems to continue `call`."""
    if piece.id and call.id:
        return piece.id != call.id
    name = piece.function.name
    if not name or not call.name:
        return False
    # Some servers repeat the name in every piece: it is a new call if the arguments are already complete.
    return name != call.name or (bool(text) and _is_complete(call.arguments))


def _is_complete(arguments: str) -> bool:
    try:
        from_json(arguments)
    except ValueError:
        return False
    return True


def _used(usage: _Usage) -> Usage:
    prompt = usage.prompt_tokens_details or _Details()
    completion = usage.completion_tokens_details or _Details()
    return Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        cache_read_tokens=prompt.cached_tokens,
        cache_creation_tokens=prompt.cache_write_tokens,
        thinking_tokens=completion.reasoning_tokens,
    )
